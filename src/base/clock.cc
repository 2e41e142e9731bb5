#include "base/clock.h"

#include <chrono>
#include <cstdlib>

namespace firn {

int64_t now_ms() {
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
