// Deletion vectors: what is taken is written and read again to the same positions. The checksum is made right, so that
// what lies behind it is reached.
#include <zlib.h>

#include "fuzz.h"
#include "iceberg/puffin/puffin.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace firn::iceberg;
  return firn::fuzz::read_hostile(data, size, [](std::string_view bytes) {
    std::string blob(bytes);
    constexpr size_t kLengthBytes = 4, kChecksumBytes = 4;
    if (blob.size() >= kLengthBytes + kChecksumBytes) {
      const size_t length = blob.size() - kLengthBytes - kChecksumBytes;
      const auto checksum = static_cast<uint32_t>(
          crc32(0, reinterpret_cast<const Bytef*>(blob.data() + kLengthBytes), static_cast<uInt>(length)));
      for (size_t i = 0; i < 4; ++i) {
        const auto shift = static_cast<unsigned>(24 - 8 * i);
        blob[i] = static_cast<char>(length >> shift);
        blob[kLengthBytes + length + i] = static_cast<char>(checksum >> shift);
      }
    }
    const PositionSet positions = PositionSet::from_blob(blob, "fuzz.puffin");
    const std::string written = positions.to_blob();
    if (PositionSet::from_blob(written, "written.puffin").size() != positions.size()) __builtin_trap();
  });
}
