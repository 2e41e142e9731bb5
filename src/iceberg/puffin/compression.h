// The compressions of Puffin (Puffin spec, "Compression codecs"). Internal to puffin/.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace firn::iceberg {

// One LZ4 or Zstandard frame, its content size present.
std::string compress_lz4_frame(std::string_view content);
std::string compress_zstd_frame(std::string_view content);

// All of `stored`. Throws corrupt, beginning with `what`, if it is no such frame, is cut off, or has more than
// `size_bytes_max`.
std::string decompress_lz4_frame(std::string_view stored, int64_t size_bytes_max, std::string_view what);
std::string decompress_zstd_frame(std::string_view stored, int64_t size_bytes_max, std::string_view what);

}  // namespace firn::iceberg
