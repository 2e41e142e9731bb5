// The clock and the random numbers in a test's hands, so that a run can be moved through time and repeated.
#pragma once

#include <cstdint>
#include <optional>

namespace firn {

// now_ms() is this until it is set again; nullopt: the wall clock.
void set_clock_ms(std::optional<int64_t> unix_ms);
// UUIDs and random ids are drawn from a sequence that begins here; nullopt: from the kernel. Not for programs that
// fork.
void set_random_seed(std::optional<uint64_t> seed);

}  // namespace firn
