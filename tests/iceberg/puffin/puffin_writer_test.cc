// Puffin files written and read back, by the Puffin specification.
#include <arrow/io/memory.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "iceberg/puffin/puffin.h"

namespace firn::iceberg {
namespace {

struct Written {
  std::string bytes;
  std::vector<PuffinBlob> blobs;
};

Written write(const std::vector<std::pair<PuffinBlob, std::string>>& blobs,
              const std::map<std::string, std::string>& properties, bool compress_footer) {
  const auto out = *arrow::io::BufferOutputStream::Create();
  PuffinWriter writer(*out, "x.puffin");
  Written written;
  for (const auto& [blob, content] : blobs) written.blobs.push_back(writer.add(blob, content));
  const int64_t size = writer.finish(properties, compress_footer);
  written.bytes = (*out->Finish())->ToString();
  EXPECT_EQ(size, static_cast<int64_t>(written.bytes.size()));
  return written;
}

std::string_view stored(const Written& file, const PuffinBlob& blob) {
  return std::string_view(file.bytes).substr(static_cast<size_t>(blob.offset), static_cast<size_t>(blob.length));
}

TEST(PuffinWriter, WhatItWritesIsReadBack) {
  std::string large;
  for (int i = 0; i < 300'000; ++i) large += std::to_string(i % 1000);
  std::vector<std::pair<PuffinBlob, std::string>> blobs;
  for (const char* codec : {"", "zstd", "lz4"}) {
    for (const std::string& content : {std::string(), std::string("sketch"), large}) {
      PuffinBlob blob;
      blob.type = "apache-datasketches-theta-v1";
      blob.fields = {1, 5};
      blob.snapshot_id = 12;
      blob.sequence_number = 3;
      blob.compression_codec = codec;
      blob.properties = {{"ndv", "9"}};
      blobs.emplace_back(blob, content);
    }
  }
  for (const bool compress_footer : {false, true}) {
    const Written file = write(blobs, {{"created-by", "test"}}, compress_footer);
    EXPECT_EQ(file.bytes.substr(0, 4), "PFA1");
    const PuffinFile read = parse_puffin_footer(file.bytes, static_cast<int64_t>(file.bytes.size()), "x.puffin");
    EXPECT_EQ(read.properties.at("created-by"), "test");
    ASSERT_EQ(read.blobs.size(), blobs.size());
    int64_t end = 4;
    for (size_t i = 0; i < blobs.size(); ++i) {
      const PuffinBlob& blob = read.blobs[i];
      EXPECT_EQ(blob.type, blobs[i].first.type);
      EXPECT_EQ(blob.fields, blobs[i].first.fields);
      EXPECT_EQ(blob.snapshot_id, 12);
      EXPECT_EQ(blob.sequence_number, 3);
      EXPECT_EQ(blob.compression_codec, blobs[i].first.compression_codec);
      EXPECT_EQ(blob.properties, blobs[i].first.properties);
      EXPECT_EQ(blob.offset, end);
      EXPECT_EQ(blob.offset, file.blobs[i].offset);
      EXPECT_EQ(blob.length, file.blobs[i].length);
      end = blob.offset + blob.length;
      EXPECT_EQ(decode_puffin_blob(blob, stored(file, blob), "x.puffin"), blobs[i].second);
    }
  }
}

// "Single LZ4 compression frame, with content size present" (Puffin spec, "Compression codecs"); LZ4 frame format:
// magic, FLG (bit 3: content size), BD, 8 bytes of size, header checksum.
TEST(PuffinWriter, ItsLz4FramesSayTheirContentsSize) {
  PuffinBlob blob;
  blob.type = "t";
  blob.compression_codec = "lz4";
  const Written file = write({{blob, "hello hello hello hello"}}, {}, false);
  const std::string_view frame = stored(file, file.blobs[0]);
  EXPECT_EQ(frame.substr(0, 4), "\x04\x22\x4d\x18");
  EXPECT_NE(frame[4] & 8, 0);
  EXPECT_EQ(frame[6], 23);
  EXPECT_EQ(frame.substr(7, 7), std::string_view("\0\0\0\0\0\0\0", 7));
}

TEST(PuffinWriter, UnknownCodecsAndBrokenBlobsAreRefused) {
  PuffinBlob blob;
  blob.type = "t";
  blob.compression_codec = "gzip";
  const auto out = *arrow::io::BufferOutputStream::Create();
  PuffinWriter writer(*out, "x.puffin");
  EXPECT_THROW(writer.add(blob, "a"), Error);
  for (const char* codec : {"lz4", "zstd"}) {
    blob.compression_codec = codec;
    const std::string content(100'000, 'a');
    const Written file = write({{blob, content}}, {}, false);
    PuffinBlob written = file.blobs[0];
    const std::string frame(stored(file, written));
    const auto expect_corrupt = [&](const PuffinBlob& entry, const std::string& bytes, int64_t size_bytes_max) {
      try {
        decode_puffin_blob(entry, bytes, "x.puffin", size_bytes_max);
        ADD_FAILURE() << codec;
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::corrupt) << error.what();
        EXPECT_NE(std::string(error.what()).find("x.puffin"), std::string::npos);
      }
    };
    expect_corrupt(written, frame, 99'999);
    expect_corrupt(written, frame.substr(1), 1 << 20);
    written.length -= 3;
    expect_corrupt(written, frame.substr(0, frame.size() - 3), 1 << 20);
    written.length += 4;
    expect_corrupt(written, frame + "x", 1 << 20);
    EXPECT_EQ(decode_puffin_blob(file.blobs[0], frame, "x.puffin", 100'000), content);
  }
}

}  // namespace
}  // namespace firn::iceberg
