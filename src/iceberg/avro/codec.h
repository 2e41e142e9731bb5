// Compression of Avro blocks (Avro 1.11 spec, "Required Codecs", "Optional Codecs").
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace arrow::util {
class Codec;
class Decompressor;
}  // namespace arrow::util

namespace firn::iceberg::avro {

enum class CodecKind : uint8_t { null, deflate, snappy, zstandard };

// "avro.codec" as files have it, and as the table property write.avro.compression-codec spells it (uncompressed, gzip,
// zstd). Throws unsupported naming `where`.
CodecKind codec_from_name(std::string_view name, std::string_view where);
std::string_view to_string(CodecKind kind);  // as in "avro.codec"

// Compresses and decompresses one block after another. One thread.
class BlockCodec {
 public:
  explicit BlockCodec(CodecKind kind);
  ~BlockCodec();
  BlockCodec(BlockCodec&&) noexcept;
  BlockCodec& operator=(BlockCodec&&) noexcept;

  std::string compress(std::string_view block);
  // A view of `stored` itself or of a buffer that the next call overwrites. Throws corrupt naming `where`, also where
  // the block is beyond what a writer would make: what it allocates stays within 64 MiB or 1,100 times the stored size,
  // of 1 GiB at most.
  std::string_view decompress(std::string_view stored, std::string_view where);

 private:
  std::string_view decompress_snappy(std::string_view stored, std::string_view where);
  std::string_view decompress_stream(std::string_view stored, std::string_view where);

  CodecKind kind_;
  std::unique_ptr<arrow::util::Codec> codec_;
  std::shared_ptr<arrow::util::Decompressor> stream_;  // made at first use
  std::string buffer_;
};

}  // namespace firn::iceberg::avro
