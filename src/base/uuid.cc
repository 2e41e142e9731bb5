#include "base/uuid.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/hash.h"
#include "base/test_world.h"

namespace firn {
namespace {

std::atomic<bool> g_is_seeded{false};
std::atomic<uint64_t> g_sequence{0};

// SplitMix64.
uint64_t next_of_sequence() {
  uint64_t bits = g_sequence.fetch_add(0x9e3779b97f4a7c15) + 0x9e3779b97f4a7c15;
  bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ bits >> 27) * 0x94d049bb133111eb;
  return bits ^ bits >> 31;
}

// From the kernel each time: a generator in memory would repeat itself in a forked child.
void fill_random(void* into, size_t size) {
  if (g_is_seeded.load(std::memory_order_relaxed)) {
    for (size_t at = 0; at < size; at += sizeof(uint64_t)) {
      const uint64_t bits = next_of_sequence();
      std::memcpy(static_cast<char*>(into) + at, &bits, std::min(sizeof bits, size - at));
    }
    return;
  }
  ssize_t filled = 0;
  do {
    filled = ::getrandom(into, size, 0);  // up to 256 bytes come whole
  } while (filled < 0 && errno == EINTR);
  if (filled != static_cast<ssize_t>(size)) fail_errno(filled < 0 ? errno : EIO, "getrandom");
}

// RFC 9562: version in the high half of byte 6, variant 10 in the top bits of byte 8.
void stamp(std::array<uint8_t, 16>& bytes, uint8_t version) {
  bytes[6] = static_cast<uint8_t>((bytes[6] & 0x0f) | version << 4);
  bytes[8] = static_cast<uint8_t>((bytes[8] & 0x3f) | 0x80);
}

std::string to_text(const std::array<uint8_t, 16>& bytes) {
  return uuid_from_bytes({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

void set_random_seed(std::optional<uint64_t> seed) {
  g_sequence = seed.value_or(0);
  g_is_seeded = seed.has_value();
}

std::string uuid_v4() {
  std::array<uint8_t, 16> bytes;
  fill_random(bytes.data(), bytes.size());
  stamp(bytes, 4);
  return to_text(bytes);
}

std::string uuid_v7(int64_t unix_ms) {
  std::array<uint8_t, 16> bytes;
  fill_random(bytes.data(), bytes.size());
  const int64_t millis = std::max<int64_t>(unix_ms, 0);
  for (int i = 0; i < 6; ++i) bytes[i] = static_cast<uint8_t>(millis >> (40 - 8 * i));
  stamp(bytes, 7);
  return to_text(bytes);
}

std::optional<int64_t> uuid_v7_time_ms(std::string_view uuid) {
  const std::optional<std::string> bytes = uuid_to_bytes(uuid);
  if (!bytes || static_cast<uint8_t>((*bytes)[6]) >> 4 != 7) return std::nullopt;
  int64_t millis = 0;
  for (int i = 0; i < 6; ++i) millis = millis << 8 | static_cast<uint8_t>((*bytes)[i]);
  return millis;
}

std::optional<std::string> uuid_to_bytes(std::string_view text) {
  if (text.size() != 36) return std::nullopt;
  std::string bytes;
  for (size_t i = 0; i < text.size();) {
    if (i == 8 || i == 13 || i == 18 || i == 23) {
      if (text[i] != '-') return std::nullopt;
      ++i;
      continue;
    }
    const int high = hex_value(text[i]);
    const int low = hex_value(text[i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(high << 4 | low));
    i += 2;
  }
  return bytes;
}

std::string uuid_from_bytes(std::string_view bytes16) {
  if (bytes16.size() != 16) fail(ErrorKind::invalid_argument, "a UUID has 16 bytes, not {}", bytes16.size());
  std::string text = to_hex(bytes16);
  for (const size_t at : {8, 13, 18, 23}) text.insert(at, 1, '-');
  return text;
}

int64_t random_id() {
  uint64_t bits = 0;
  do {
    fill_random(&bits, sizeof bits);
    bits >>= 1;
  } while (bits == 0);
  return static_cast<int64_t>(bits);
}

}  // namespace firn
