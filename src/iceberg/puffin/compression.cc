#include "iceberg/puffin/compression.h"

#include <arrow/util/compression.h>

#include "base/arrow_status.h"

namespace firn::iceberg {

namespace {

uint32_t load_little_endian(const char* data) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value |= static_cast<uint32_t>(static_cast<uint8_t>(data[i])) << (8 * i);
  return value;
}

// XXH32 with seed 0 of fewer than 16 bytes.
uint32_t xxh32_short(std::string_view bytes) {
  constexpr uint32_t kPrime1 = 2654435761U, kPrime2 = 2246822519U, kPrime3 = 3266489917U, kPrime4 = 668265263U,
                     kPrime5 = 374761393U;
  const auto rotate = [](uint32_t value, int bits) { return (value << bits) | (value >> (32 - bits)); };
  uint32_t hash = kPrime5 + static_cast<uint32_t>(bytes.size());
  size_t at = 0;
  for (; at + 4 <= bytes.size(); at += 4)
    hash = rotate(hash + load_little_endian(bytes.data() + at) * kPrime3, 17) * kPrime4;
  for (; at < bytes.size(); ++at) hash = rotate(hash + static_cast<uint8_t>(bytes[at]) * kPrime5, 11) * kPrime1;
  hash = (hash ^ (hash >> 15)) * kPrime2;
  hash = (hash ^ (hash >> 13)) * kPrime3;
  return hash ^ (hash >> 16);
}

std::string compress(arrow::Compression::type type, std::string_view content) {
  const auto codec = check(arrow::util::Codec::Create(type), "create a Puffin codec");
  const auto* input = reinterpret_cast<const uint8_t*>(content.data());
  const auto input_size = static_cast<int64_t>(content.size());
  std::string out(static_cast<size_t>(codec->MaxCompressedLen(input_size, input)), '\0');
  const int64_t size = check(
      codec->Compress(input_size, input, static_cast<int64_t>(out.size()), reinterpret_cast<uint8_t*>(out.data())),
      "compress a Puffin blob");
  out.resize(static_cast<size_t>(size));
  return out;
}

std::string decompress(arrow::Compression::type type, std::string_view name, std::string_view stored,
                       int64_t size_bytes_max, std::string_view what) {
  const auto codec = check(arrow::util::Codec::Create(type), "create a Puffin codec");
  const auto decompressor = check(codec->MakeDecompressor(), "create a Puffin decompressor");
  std::string out;
  std::string chunk(64 << 10, '\0');
  size_t consumed = 0;
  while (!decompressor->IsFinished()) {
    const auto result = decompressor->Decompress(
        static_cast<int64_t>(stored.size() - consumed), reinterpret_cast<const uint8_t*>(stored.data()) + consumed,
        static_cast<int64_t>(chunk.size()), reinterpret_cast<uint8_t*>(chunk.data()));
    if (!result.ok()) fail(ErrorKind::corrupt, "{} is no {} frame: {}", what, name, result.status().ToString());
    consumed += static_cast<size_t>(result->bytes_read);
    out.append(chunk, 0, static_cast<size_t>(result->bytes_written));
    if (static_cast<int64_t>(out.size()) > size_bytes_max)
      fail(ErrorKind::corrupt, "{} decompresses to more than {} bytes", what, size_bytes_max);
    if (result->bytes_read == 0 && result->bytes_written == 0 && !decompressor->IsFinished())
      fail(ErrorKind::corrupt, "{}: its {} frame is cut off", what, name);
  }
  if (consumed != stored.size())
    fail(ErrorKind::corrupt, "{}: {} bytes follow its {} frame", what, stored.size() - consumed, name);
  return out;
}

}  // namespace

std::string compress_lz4_frame(std::string_view content) {
  // Arrow's frames do not say their content's size. Their header is magic, two bytes of flags and a checksum of those.
  constexpr size_t kMagicBytes = 4, kHeaderBytes = 7;
  constexpr uint8_t kHasContentSize = 1 << 3, kHasDictionaryId = 1;
  const std::string frame = compress(arrow::Compression::LZ4_FRAME, content);
  std::string descriptor = frame.substr(kMagicBytes, 2);
  if ((static_cast<uint8_t>(descriptor[0]) & (kHasContentSize | kHasDictionaryId)) != 0)
    fail(ErrorKind::internal, "an LZ4 frame with unexpected flags {:#x}", static_cast<uint8_t>(descriptor[0]));
  descriptor[0] = static_cast<char>(static_cast<uint8_t>(descriptor[0]) | kHasContentSize);
  const uint64_t size = content.size();
  for (int shift = 0; shift < 64; shift += 8) descriptor.push_back(static_cast<char>(size >> shift));
  std::string out = frame.substr(0, kMagicBytes) + descriptor;
  out.push_back(static_cast<char>(xxh32_short(descriptor) >> 8));
  out.append(frame, kHeaderBytes);
  return out;
}

std::string compress_zstd_frame(std::string_view content) { return compress(arrow::Compression::ZSTD, content); }

std::string decompress_lz4_frame(std::string_view stored, int64_t size_bytes_max, std::string_view what) {
  return decompress(arrow::Compression::LZ4_FRAME, "LZ4", stored, size_bytes_max, what);
}

std::string decompress_zstd_frame(std::string_view stored, int64_t size_bytes_max, std::string_view what) {
  return decompress(arrow::Compression::ZSTD, "Zstandard", stored, size_bytes_max, what);
}

}  // namespace firn::iceberg
