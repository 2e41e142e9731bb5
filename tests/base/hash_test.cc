#include "base/hash.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/uuid.h"

namespace firn {
namespace {

std::string int64_bytes(int64_t value) { return {reinterpret_cast<const char*>(&value), sizeof value}; }

// FIPS 180-4's examples.
TEST(Sha256, GivesTheStandardsDigests) {
  EXPECT_EQ(to_hex(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(to_hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(to_hex(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(to_hex(sha256(std::string(1'000'000, 'a'))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, RunsInPiecesAndInThreads) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      for (int round = 0; round < 100; ++round) {
        Sha256 running;
        running.update("a");
        EXPECT_EQ(to_hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        running.update("");
        running.update("bc");
        EXPECT_EQ(running.finish(), sha256("abc"));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Iceberg spec, Appendix B, "Hash requirements".
TEST(Murmur3, GivesTheSpecificationsHashes) {
  EXPECT_EQ(murmur3_32(int64_bytes(34)), 2017239379);
  EXPECT_EQ(murmur3_32(int64_bytes(17486)), -653330422);              // 2017-11-16
  EXPECT_EQ(murmur3_32(int64_bytes(81068000000)), -662762989);        // 22:31:08
  EXPECT_EQ(murmur3_32(int64_bytes(1510871468000000)), -2047944441);  // 2017-11-16T22:31:08
  EXPECT_EQ(murmur3_32("iceberg"), 1210000089);
  EXPECT_EQ(murmur3_32(*uuid_to_bytes("f79c3e09-677c-4bbd-a479-3f349cb785e7")), 1488055340);
  EXPECT_EQ(murmur3_32(std::string_view("\x00\x01\x02\x03", 4)), -188683207);
  EXPECT_EQ(murmur3_32("\x05\x8c"), -500754589);  // 14.20
  EXPECT_EQ(murmur3_32(""), 0);
}

// RFC 3720, B.4.
TEST(Crc32c, GivesTheStandardsSumsWithAndWithoutTheProcessorsHelp) {
  std::string ascending;
  for (int i = 0; i < 32; ++i) ascending += static_cast<char>(i);
  const std::pair<std::string, uint32_t> cases[] = {{std::string(32, '\0'), 0x8a9136aa},
                                                    {std::string(32, '\xff'), 0x62a8ab43},
                                                    {ascending, 0x46dd794e},
                                                    {"123456789", 0xe3069283},
                                                    {"", 0}};
  for (const auto& [bytes, sum] : cases) {
    EXPECT_EQ(crc32c(bytes), sum);
    EXPECT_EQ(internal::crc32c_by_table(bytes), sum);
    for (size_t cut = 0; cut <= bytes.size(); ++cut) {
      EXPECT_EQ(crc32c(std::string_view(bytes).substr(cut), crc32c(std::string_view(bytes).substr(0, cut))), sum);
    }
  }
}

TEST(Crc32, GivesZlibsSum) {
  EXPECT_EQ(crc32("123456789"), 0xcbf43926);  // the check value of CRC-32/ISO-HDLC
  EXPECT_EQ(crc32(""), 0u);
}

}  // namespace
}  // namespace firn
