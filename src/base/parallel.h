// A loop spread over threads.
#pragma once

#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/threads.h"

namespace firn {

// 0 as the hardware's number of threads.
inline int thread_count(int threads) {
  return threads > 0 ? threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// Calls body(i) once for each i below `count`, on up to `threads` threads, the caller's among them. After a first
// exception no further call starts; it is rethrown when all have ended.
template <class Body>
void parallel_for(size_t count, int threads, const Body& body) {
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::exception_ptr error;
  const auto work = [&] {
    try {
      for (size_t i = next++; i < count; i = next++) body(i);
    } catch (...) {  // a thread ends here; the caller gets it
      next = count;
      const std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> helpers;
    if (count > 1) begin_helpers(helpers, std::min(count, static_cast<size_t>(thread_count(threads))) - 1, work);
    work();
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace firn
