// Threads, where the machine may have none left: a limit on processes counts them, too.
#pragma once

#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace firn {

// Throws busy: what could not be begun, and which limit to raise.
[[noreturn]] void fail_thread(const std::system_error& e);

// A thread that runs `run`, which must not throw. Throws busy (fail_thread).
template <class Run>
std::jthread begin_thread(Run run) {
  try {
    return std::jthread(std::move(run));
  } catch (const std::system_error& e) {
    fail_thread(e);
  }
}

// Adds `count` threads that run `run`, or fewer if no more can be begun: for work that the caller does, too.
template <class Run>
void begin_helpers(std::vector<std::jthread>& threads, size_t count, const Run& run) {
  try {
    for (size_t i = 0; i < count; ++i) threads.emplace_back(run);
  } catch (const std::system_error&) {  // those that there are do all of it
  }
}

// Whether Arrow's pool for computing has its threads: the first call begins them. Arrow would begin them as work comes,
// and where one cannot be begun then, leaves work under way behind whose results are gone. If not all can be begun, the
// pool is not to be used.
bool has_arrow_threads();

}  // namespace firn
