// The seed of random tests.
#pragma once

#include <cstdint>

namespace firn {

// FIRN_TEST_SEED, else random once per process. A test that fails after asking for it prints it.
uint64_t test_seed();

}  // namespace firn
