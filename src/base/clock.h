// The wall clock, in one place, so that a test can move it.
#pragma once

#include <cstdint>

namespace firn {

int64_t now_ms();     // milliseconds since 1970, UTC; FIRN_CLOCK_OFFSET_MS shifts it (tests)
int64_t steady_us();  // monotonic microseconds, for durations

}  // namespace firn
