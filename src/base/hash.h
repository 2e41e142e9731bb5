// SHA-256, Murmur3 and CRC-32C.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace firn {

using Sha256Digest = std::array<uint8_t, 32>;
Sha256Digest sha256(std::string_view bytes);
void put_hex(std::string_view bytes, char* to);  // lower case, twice as many
std::string to_hex(std::string_view bytes);
std::string to_hex(const Sha256Digest& digest);

// A running SHA-256. One thread.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  void update(std::string_view bytes);
  Sha256Digest finish();  // once

 private:
  void* context_;
};

// Murmur3, x86 32-bit variant, seed 0 (Iceberg spec, Appendix B).
int32_t murmur3_32(std::string_view bytes);

// CRC-32C (Castagnoli), continued from `crc` (0 to begin). Uses SSE4.2 where the processor has it.
uint32_t crc32c(std::string_view bytes, uint32_t crc = 0);
// CRC-32 (zlib's polynomial), which deletion vectors carry.
uint32_t crc32(std::string_view bytes);

namespace internal {
uint32_t crc32c_by_table(std::string_view bytes);  // what crc32c() does where the processor cannot
}

}  // namespace firn
