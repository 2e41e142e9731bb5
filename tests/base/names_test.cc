// UUIDs and URIs: the names that firn makes and reads.
#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "base/uri.h"
#include "base/uuid.h"

namespace firn {
namespace {

TEST(Uuid, HasTheVersionAndVariantOfRfc9562) {
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) {
    for (const std::string& uuid : {uuid_v4(), uuid_v7(1645557742000)}) {
      ASSERT_EQ(uuid.size(), 36u);
      EXPECT_NE(std::string("89ab").find(uuid[19]), std::string::npos) << uuid;
      EXPECT_TRUE(seen.insert(uuid).second);
    }
  }
  EXPECT_EQ(uuid_v4()[14], '4');
  EXPECT_EQ(uuid_v7(0)[14], '7');
}

TEST(Uuid, SevenCarriesItsTime) {
  // RFC 9562, A.6.
  EXPECT_EQ(uuid_v7_time_ms("017F22E2-79B0-7CC3-98C4-DC0C0C07398F"), 1645557742000);
  EXPECT_EQ(uuid_v7(1645557742000).substr(0, 15), "017f22e2-79b0-7");
  EXPECT_EQ(uuid_v7_time_ms(uuid_v7(-1)), 0) << "by a clock before 1970";
  EXPECT_EQ(uuid_v7_time_ms(uuid_v4()), std::nullopt);
  EXPECT_EQ(uuid_v7_time_ms("x"), std::nullopt);
}

TEST(Uuid, ConvertsToBytesAndBack) {
  const std::string text = "f79c3e09-677c-4bbd-a479-3f349cb785e7";
  EXPECT_EQ(uuid_to_bytes(text), "\xf7\x9c\x3e\x09\x67\x7c\x4b\xbd\xa4\x79\x3f\x34\x9c\xb7\x85\xe7");
  EXPECT_EQ(uuid_from_bytes(*uuid_to_bytes(text)), text);
  for (const char* bad : {"", "f79c3e09677c4bbda4793f349cb785e7", "g79c3e09-677c-4bbd-a479-3f349cb785e7",
                          "f79c3e09-677c-4bbd-a479-3f349cb785e", "f79c3e09-677c-4bbd-a4793-f349cb785e7"}) {
    EXPECT_EQ(uuid_to_bytes(bad), std::nullopt) << bad;
  }
  EXPECT_THROW(uuid_from_bytes("short"), Error);
}

TEST(RandomId, IsPositive) {
  for (int i = 0; i < 1000; ++i) EXPECT_GT(random_id(), 0);
}

TEST(Uri, TakesEverySpellingOfALocalPath) {
  for (const char* uri : {"file:/a/b", "file:///a/b", "/a/b"}) {
    EXPECT_EQ(local_path(uri), "/a/b") << uri;
    EXPECT_TRUE(is_local(uri)) << uri;
  }
  EXPECT_EQ(local_path("s3://bucket/a"), "s3://bucket/a");
  EXPECT_FALSE(is_local("s3://bucket/a"));
  EXPECT_FALSE(is_local("file://host/a"));
  EXPECT_EQ(local_path("file://host/a"), "file://host/a");
  EXPECT_TRUE(is_local("relative/path"));
  EXPECT_TRUE(is_local("/odd/name://x"));
}

TEST(Uri, JoinsWithOneSlash) {
  EXPECT_EQ(join_path("/a", "b"), "/a/b");
  EXPECT_EQ(join_path("/a/", "/b"), "/a/b");
  EXPECT_EQ(join_path("s3://bucket", "b/c"), "s3://bucket/b/c");
  EXPECT_EQ(join_path("/", "b"), "/b");
}

TEST(Segment, KeepsNamesApartAndInTheirFolder) {
  EXPECT_EQ(encode_segment("plain-Name_1.x"), "plain-Name_1.x");
  EXPECT_EQ(encode_segment(".."), "%2E.");
  EXPECT_EQ(encode_segment(".hidden"), "%2Ehidden");
  EXPECT_EQ(encode_segment("a/b"), "a%2Fb");
  EXPECT_EQ(encode_segment("50%"), "50%25");
  EXPECT_EQ(encode_segment("\xc3\xa9"), "%C3%A9");
  EXPECT_EQ(encode_segment(""), "%");
  EXPECT_EQ(encode_segment("%"), "%25");
  std::set<std::string> seen;
  for (int a = 0; a < 256; ++a) {
    for (int b = 0; b < 256; ++b) {
      const std::string name = {static_cast<char>(a), static_cast<char>(b)};
      const std::string segment = encode_segment(name);
      EXPECT_EQ(decode_segment(segment), name);
      EXPECT_TRUE(seen.insert(segment).second);
    }
  }
  EXPECT_EQ(decode_segment("%"), "");
}

TEST(Segment, RefusesTextThatIsNoEncodedName) {
  for (const char* bad : {"%4", "%zz", "%2e", "%41", ".", "..", "a/b", "a b", "", "a%"}) {
    try {
      decode_segment(bad);
      ADD_FAILURE() << bad;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::corrupt);
    }
  }
}

// Expected values of java.net.URLEncoder.
TEST(FormEncode, IsThatOfJava) {
  EXPECT_EQ(form_encode("a b/c*d.e_f-g~h+i"), "a+b%2Fc*d.e_f-g%7Eh%2Bi");
  EXPECT_EQ(form_encode("\xc3\xa9"), "%C3%A9");
}

}  // namespace
}  // namespace firn
