#include "base/hash.h"

#include <openssl/evp.h>

#include <cstring>
#include <memory>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

#include "base/error.h"

namespace firn {
namespace {

struct ContextDeleter {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
using ContextPtr = std::unique_ptr<EVP_MD_CTX, ContextDeleter>;

// Fetched once: looking an algorithm up costs more than hashing a row.
const EVP_MD* sha256_algorithm() {
  static const EVP_MD* algorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  if (algorithm == nullptr) fail(ErrorKind::internal, "OpenSSL has no SHA-256");
  return algorithm;
}

void check_openssl(int result, const char* what) {
  if (result != 1) fail(ErrorKind::internal, "OpenSSL: {} failed", what);
}

EVP_MD_CTX* begin(EVP_MD_CTX* context) {
  if (context == nullptr) fail(ErrorKind::internal, "OpenSSL: out of memory");
  check_openssl(EVP_DigestInit_ex2(context, sha256_algorithm(), nullptr), "EVP_DigestInit_ex2");
  return context;
}

constexpr uint32_t rotate_left(uint32_t value, int bits) { return value << bits | value >> (32 - bits); }

uint32_t load32(const char* at) {
  uint32_t value;
  std::memcpy(&value, at, sizeof value);  // little-endian hosts only, as Arrow's buffers are
  return value;
}

uint64_t load64(const char* at) {
  uint64_t value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// Tables for eight bytes at a time: table[k][b] is the CRC of byte b followed by k zero bytes.
using CrcTables = std::array<std::array<uint32_t, 256>, 8>;

constexpr CrcTables make_crc_tables(uint32_t reversed_polynomial) {
  CrcTables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? reversed_polynomial : 0);
    tables[0][byte] = crc;
  }
  for (uint32_t byte = 0; byte < 256; ++byte) {
    for (size_t k = 1; k < 8; ++k) {
      tables[k][byte] = tables[k - 1][byte] >> 8 ^ tables[0][tables[k - 1][byte] & 0xff];
    }
  }
  return tables;
}

constexpr CrcTables kCastagnoli = make_crc_tables(0x82f63b78);
constexpr CrcTables kIeee = make_crc_tables(0xedb88320);

uint32_t update_by_table(const CrcTables& tables, std::string_view bytes, uint32_t state) {
  const char* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= 8; at += 8, left -= 8) {
    const uint64_t word = load64(at) ^ state;
    state = 0;
    for (int i = 0; i < 8; ++i) state ^= tables[7 - i][word >> (8 * i) & 0xff];
  }
  for (; left > 0; ++at, --left) state = state >> 8 ^ tables[0][(state ^ static_cast<uint8_t>(*at)) & 0xff];
  return state;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t update_by_sse42(std::string_view bytes, uint32_t state) {
  const char* at = bytes.data();
  size_t left = bytes.size();
  uint64_t wide = state;
  for (; left >= 8; at += 8, left -= 8) wide = _mm_crc32_u64(wide, load64(at));
  state = static_cast<uint32_t>(wide);
  for (; left > 0; ++at, --left) state = _mm_crc32_u8(state, static_cast<uint8_t>(*at));
  return state;
}
#endif

}  // namespace

Sha256Digest sha256(std::string_view bytes) {
  thread_local const ContextPtr context(EVP_MD_CTX_new());
  begin(context.get());
  Sha256Digest digest;
  check_openssl(EVP_DigestUpdate(context.get(), bytes.data(), bytes.size()), "EVP_DigestUpdate");
  check_openssl(EVP_DigestFinal_ex(context.get(), digest.data(), nullptr), "EVP_DigestFinal_ex");
  return digest;
}

void put_hex(std::string_view bytes, char* to) {
  static constexpr auto kPairs = [] {
    constexpr char kDigits[] = "0123456789abcdef";
    std::array<std::array<char, 2>, 256> pairs{};
    for (size_t byte = 0; byte < pairs.size(); ++byte) pairs[byte] = {kDigits[byte >> 4], kDigits[byte & 0x0f]};
    return pairs;
  }();
  for (const char byte : bytes) {
    std::memcpy(to, kPairs[static_cast<uint8_t>(byte)].data(), 2);
    to += 2;
  }
}

std::string to_hex(std::string_view bytes) {
  std::string text(2 * bytes.size(), '\0');
  put_hex(bytes, text.data());
  return text;
}

std::string to_hex(const Sha256Digest& digest) {
  return to_hex(std::string_view(reinterpret_cast<const char*>(digest.data()), digest.size()));
}

Sha256::Sha256() : context_(nullptr) {
  ContextPtr context(EVP_MD_CTX_new());
  begin(context.get());
  context_ = context.release();
}

Sha256::~Sha256() { EVP_MD_CTX_free(static_cast<EVP_MD_CTX*>(context_)); }

void Sha256::update(std::string_view bytes) {
  check_openssl(EVP_DigestUpdate(static_cast<EVP_MD_CTX*>(context_), bytes.data(), bytes.size()), "EVP_DigestUpdate");
}

Sha256Digest Sha256::finish() {
  Sha256Digest digest;
  check_openssl(EVP_DigestFinal_ex(static_cast<EVP_MD_CTX*>(context_), digest.data(), nullptr), "EVP_DigestFinal_ex");
  return digest;
}

int32_t murmur3_32(std::string_view bytes) {
  constexpr uint32_t kFirst = 0xcc9e2d51;
  constexpr uint32_t kSecond = 0x1b873593;
  const auto scramble = [](uint32_t block) { return rotate_left(block * kFirst, 15) * kSecond; };
  uint32_t hash = 0;
  const size_t whole = bytes.size() / 4 * 4;
  for (size_t i = 0; i < whole; i += 4) {
    hash = rotate_left(hash ^ scramble(load32(bytes.data() + i)), 13) * 5 + 0xe6546b64;
  }
  uint32_t tail = 0;
  for (size_t i = bytes.size(); i > whole; --i) tail = tail << 8 | static_cast<uint8_t>(bytes[i - 1]);
  hash ^= scramble(tail);  // an empty tail scrambles to 0
  hash ^= static_cast<uint32_t>(bytes.size());
  hash = (hash ^ hash >> 16) * 0x85ebca6b;
  hash = (hash ^ hash >> 13) * 0xc2b2ae35;
  return static_cast<int32_t>(hash ^ hash >> 16);
}

uint32_t crc32c(std::string_view bytes, uint32_t crc) {
#if defined(__x86_64__)
  static const bool has_sse42 = __builtin_cpu_supports("sse4.2");
  if (has_sse42) return ~update_by_sse42(bytes, ~crc);
#endif
  return ~update_by_table(kCastagnoli, bytes, ~crc);
}

uint32_t crc32(std::string_view bytes) { return ~update_by_table(kIeee, bytes, ~uint32_t{0}); }

namespace internal {
uint32_t crc32c_by_table(std::string_view bytes) { return ~update_by_table(kCastagnoli, bytes, ~uint32_t{0}); }
}  // namespace internal

}  // namespace firn
