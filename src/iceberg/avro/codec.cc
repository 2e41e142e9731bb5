#include "iceberg/avro/codec.h"

#include <algorithm>

#include <arrow/util/compression.h>

#include "base/arrow_status.h"
#include "base/error.h"
#include "base/hash.h"

namespace firn::iceberg::avro {

namespace {

constexpr size_t kChecksumBytes = 4;  // after a snappy block
constexpr size_t kZlibChecksumBytes = 4;

const uint8_t* as_bytes(std::string_view text) { return reinterpret_cast<const uint8_t*>(text.data()); }

std::unique_ptr<arrow::util::Codec> make_codec(CodecKind kind) {
  constexpr std::string_view kWhat = "Avro compression";
  switch (kind) {
    case CodecKind::null:
      return nullptr;
    case CodecKind::deflate: {
      arrow::util::GZipCodecOptions options;
      options.gzip_format = arrow::util::GZipFormat::DEFLATE;  // RFC 1951 without a header, as Avro has it
      // Manifests are written often and read often: level 6 costs less than Arrow's default 9 for nearly the same size.
      options.compression_level = 6;
      return check(arrow::util::Codec::Create(arrow::Compression::GZIP, options), kWhat);
    }
    case CodecKind::snappy:
      return check(arrow::util::Codec::Create(arrow::Compression::SNAPPY), kWhat);
    case CodecKind::zstandard:
      return check(arrow::util::Codec::Create(arrow::Compression::ZSTD), kWhat);
  }
  return nullptr;
}

std::string big_endian(uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
          static_cast<char>(value)};
}

// Deflate cannot exceed 1,032 to one; the same bound keeps a few bytes of Zstandard from becoming gigabytes.
size_t decompressed_size_max(size_t stored_size) {
  constexpr size_t kFloor = size_t{64} << 20, kCeiling = size_t{1} << 30;
  return std::min(kCeiling, std::max(kFloor, stored_size * 1100));
}

}  // namespace

CodecKind codec_from_name(std::string_view name, std::string_view where) {
  if (name == "null" || name == "uncompressed" || name == "none" || name.empty()) return CodecKind::null;
  if (name == "deflate" || name == "gzip") return CodecKind::deflate;
  if (name == "snappy") return CodecKind::snappy;
  if (name == "zstandard" || name == "zstd") return CodecKind::zstandard;
  fail(ErrorKind::unsupported, "{}: unknown Avro codec '{}'; firn has null, deflate, snappy and zstandard", where,
       name);
}

std::string_view to_string(CodecKind kind) {
  switch (kind) {
    case CodecKind::null:
      return "null";
    case CodecKind::deflate:
      return "deflate";
    case CodecKind::snappy:
      return "snappy";
    case CodecKind::zstandard:
      return "zstandard";
  }
  return "null";
}

BlockCodec::BlockCodec(CodecKind kind) : kind_(kind), codec_(make_codec(kind)) {}
BlockCodec::~BlockCodec() = default;
BlockCodec::BlockCodec(BlockCodec&&) noexcept = default;
BlockCodec& BlockCodec::operator=(BlockCodec&&) noexcept = default;

std::string BlockCodec::compress(std::string_view block) {
  if (kind_ == CodecKind::null) return std::string(block);
  const auto size = static_cast<int64_t>(block.size());
  std::string stored(static_cast<size_t>(codec_->MaxCompressedLen(size, as_bytes(block))), '\0');
  const int64_t stored_size = check(codec_->Compress(size, as_bytes(block), static_cast<int64_t>(stored.size()),
                                                     reinterpret_cast<uint8_t*>(stored.data())),
                                    "Avro compression");
  stored.resize(static_cast<size_t>(stored_size));
  if (kind_ == CodecKind::snappy) stored += big_endian(crc32(block));
  return stored;
}

std::string_view BlockCodec::decompress(std::string_view stored, std::string_view where) {
  if (kind_ == CodecKind::null || stored.empty()) return stored;
  return kind_ == CodecKind::snappy ? decompress_snappy(stored, where) : decompress_stream(stored, where);
}

std::string_view BlockCodec::decompress_snappy(std::string_view stored, std::string_view where) {
  if (stored.size() <= kChecksumBytes) fail(ErrorKind::corrupt, "{}: a snappy block without its checksum", where);
  const std::string_view body = stored.substr(0, stored.size() - kChecksumBytes);
  // Snappy begins with the plain size, as an unsigned varint.
  uint64_t size = 0;
  for (size_t i = 0; i < 5 && i < body.size(); ++i) {
    size |= static_cast<uint64_t>(static_cast<uint8_t>(body[i]) & 0x7f) << (7 * i);
    if ((static_cast<uint8_t>(body[i]) & 0x80) == 0) break;
  }
  // A copy gives at most 64 bytes for two or three stored.
  if (size > body.size() * 64) fail(ErrorKind::corrupt, "{}: a snappy block claims {} bytes", where, size);
  if (buffer_.size() < size) buffer_.resize(size);
  const arrow::Result<int64_t> written =
      codec_->Decompress(static_cast<int64_t>(body.size()), as_bytes(body), static_cast<int64_t>(size),
                         reinterpret_cast<uint8_t*>(buffer_.data()));
  if (!written.ok()) fail(ErrorKind::corrupt, "{}: a snappy block is damaged: {}", where, written.status().message());
  const std::string_view plain(buffer_.data(), static_cast<size_t>(*written));
  if (big_endian(crc32(plain)) != stored.substr(body.size()))
    fail(ErrorKind::corrupt, "{}: a snappy block does not have its checksum", where);
  return plain;
}

std::string_view BlockCodec::decompress_stream(std::string_view stored, std::string_view where) {
  if (stream_ == nullptr) {
    stream_ = check(codec_->MakeDecompressor(), "Avro decompression");
  } else {
    check(stream_->Reset(), "Avro decompression");
  }
  const size_t size_max = decompressed_size_max(stored.size());
  size_t read = 0, written = 0;
  while (true) {
    if (written == buffer_.size()) {
      if (written >= size_max)
        fail(ErrorKind::corrupt, "{}: a block of {} bytes unpacks beyond {}", where, stored.size(), size_max);
      buffer_.resize(std::min(size_max, std::max({buffer_.size() * 2, stored.size() * 4, size_t{64} << 10})));
    }
    const auto result = stream_->Decompress(static_cast<int64_t>(stored.size() - read), as_bytes(stored) + read,
                                            static_cast<int64_t>(buffer_.size() - written),
                                            reinterpret_cast<uint8_t*>(buffer_.data()) + written);
    if (!result.ok()) fail(ErrorKind::corrupt, "{}: a block is damaged: {}", where, result.status().message());
    read += static_cast<size_t>(result->bytes_read);
    written += static_cast<size_t>(result->bytes_written);
    if (stream_->IsFinished()) {
      if (read == stored.size()) break;
      if (kind_ == CodecKind::deflate) {
        // Python writers (fastavro, PyIceberg) cut a zlib stream down to the deflated data and leave some of its
        // checksum behind it.
        if (stored.size() - read <= kZlibChecksumBytes) break;
        fail(ErrorKind::corrupt, "{}: bytes after the end of a deflated block", where);
      }
      // Zstandard data may be several frames in a row.
      check(stream_->Reset(), "Avro decompression");
    } else if (result->bytes_read == 0 && result->bytes_written == 0) {
      // There was room for output, so only more input could help.
      fail(ErrorKind::corrupt, "{}: a compressed block ends too early", where);
    }
  }
  return {buffer_.data(), written};
}

}  // namespace firn::iceberg::avro
