// Footers of Puffin files, by the Puffin specification.
#include <random>

#include <arrow/util/compression.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "iceberg/puffin/puffin.h"

namespace firn::iceberg {
namespace {

std::string little_endian(uint32_t value) {
  return {static_cast<char>(value), static_cast<char>(value >> 8), static_cast<char>(value >> 16),
          static_cast<char>(value >> 24)};
}

std::string puffin_file(const std::string& blobs, const std::string& payload, uint32_t flags = 0) {
  return "PFA1" + blobs + "PFA1" + payload + little_endian(static_cast<uint32_t>(payload.size())) +
         little_endian(flags) + "PFA1";
}

const std::string kPayload =
    R"({"blobs":[{"type":"apache-datasketches-theta-v1","fields":[1,2],"snapshot-id":7,"sequence-number":3,"offset":4,)"
    R"("length":5,"compression-codec":"zstd","properties":{"ndv":"9"}}],"properties":{"created-by":"test"}})";

std::string lz4_frame(const std::string& text) {
  auto codec = *arrow::util::Codec::Create(arrow::Compression::LZ4_FRAME);
  std::string out(static_cast<size_t>(codec->MaxCompressedLen(static_cast<int64_t>(text.size()), nullptr)), '\0');
  out.resize(static_cast<size_t>(
      *codec->Compress(static_cast<int64_t>(text.size()), reinterpret_cast<const uint8_t*>(text.data()),
                       static_cast<int64_t>(out.size()), reinterpret_cast<uint8_t*>(out.data()))));
  return out;
}

PuffinFile parse(const std::string& file) {
  return parse_puffin_footer(file, static_cast<int64_t>(file.size()), "x.puffin");
}

void expect_kind(const std::string& file, ErrorKind kind) {
  try {
    parse(file);
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    EXPECT_NE(std::string(error.what()).find("x.puffin"), std::string::npos) << error.what();
  }
}

TEST(PuffinFooter, ListsBlobsAndProperties) {
  const std::string file = puffin_file("12345", kPayload);
  for (const PuffinFile& puffin : {parse(file), parse(puffin_file("12345", lz4_frame(kPayload), 1))}) {
    ASSERT_EQ(puffin.blobs.size(), 1U);
    EXPECT_EQ(puffin.blobs[0].type, "apache-datasketches-theta-v1");
    EXPECT_EQ(puffin.blobs[0].fields, (std::vector<int32_t>{1, 2}));
    EXPECT_EQ(puffin.blobs[0].snapshot_id, 7);
    EXPECT_EQ(puffin.blobs[0].sequence_number, 3);
    EXPECT_EQ(puffin.blobs[0].offset, 4);
    EXPECT_EQ(puffin.blobs[0].length, 5);
    EXPECT_EQ(puffin.blobs[0].compression_codec, "zstd");
    EXPECT_EQ(puffin.blobs[0].properties.at("ndv"), "9");
    EXPECT_EQ(puffin.properties.at("created-by"), "test");
  }
}

TEST(PuffinFooter, IsFoundInATailOfTheFile) {
  const std::string file = puffin_file(std::string(1000, 'b'), kPayload);
  const auto size_bytes = static_cast<int64_t>(file.size());
  const int64_t footer = puffin_footer_size_bytes(file.substr(file.size() - 12), size_bytes, "x.puffin");
  EXPECT_EQ(footer, static_cast<int64_t>(kPayload.size()) + 16);
  EXPECT_EQ(
      parse_puffin_footer(file.substr(file.size() - static_cast<size_t>(footer)), size_bytes, "x.puffin").blobs.size(),
      1U);
  EXPECT_THROW(parse_puffin_footer(file.substr(file.size() - 20), size_bytes, "x.puffin"), Error);
}

TEST(PuffinFooter, ThatBreaksTheFormatIsRefused) {
  expect_kind("", ErrorKind::corrupt);
  expect_kind("PFA1PFA1", ErrorKind::corrupt);
  expect_kind(puffin_file("12345", "{"), ErrorKind::corrupt);
  expect_kind(puffin_file("12345", "[]"), ErrorKind::corrupt);
  expect_kind(puffin_file("1234", kPayload), ErrorKind::corrupt);  // the blob reaches into the footer
  expect_kind(puffin_file("12345", "no frame", 1), ErrorKind::corrupt);
  expect_kind(puffin_file("12345", lz4_frame(kPayload).substr(0, 40), 1), ErrorKind::corrupt);
  expect_kind(puffin_file("12345", kPayload, 2), ErrorKind::unsupported);
  std::string too_long = puffin_file("12345", kPayload);
  too_long[too_long.size() - 9] = 0x7f;
  expect_kind(too_long, ErrorKind::corrupt);
  std::string negative = puffin_file("12345", kPayload);
  negative[negative.size() - 9] = static_cast<char>(0xff);
  expect_kind(negative, ErrorKind::corrupt);
}

TEST(PuffinFooter, SurvivesFlippedBytes) {
  std::mt19937 random(7);
  for (const std::string& file : {puffin_file("12345", kPayload), puffin_file("12345", lz4_frame(kPayload), 1)}) {
    for (int round = 0; round < 2000; ++round) {
      std::string broken = file;
      broken[random() % broken.size()] ^= static_cast<char>(1U << (random() % 8));
      try {
        parse(broken);
      } catch (const Error&) {  // refused, whatever the reason
      }
    }
  }
}

}  // namespace
}  // namespace firn::iceberg
