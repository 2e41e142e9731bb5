#include "base/clock.h"

#include <atomic>
#include <chrono>
#include <cstdlib>

#include "base/test_world.h"

namespace firn {
namespace {

std::atomic<int64_t> g_clock_ms{0};  // 0: the wall clock

}  // namespace

void set_clock_ms(std::optional<int64_t> unix_ms) { g_clock_ms = unix_ms.value_or(0); }

int64_t now_ms() {
  if (const int64_t set_ms = g_clock_ms.load(std::memory_order_relaxed)) return set_ms;
  static const int64_t offset_ms = [] {
    const char* text = std::getenv("FIRN_CLOCK_OFFSET_MS");
    return text ? std::strtoll(text, nullptr, 10) : 0;
  }();
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(since_epoch).count() + offset_ms;
}

int64_t steady_us() {
  const auto since_start = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(since_start).count();
}

}  // namespace firn
