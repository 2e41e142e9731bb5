// A loop over independent jobs on a bounded number of threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace firn::hyp {

// Calls run(0) … run(count - 1), each once, on this thread and up to seven others (as the machine has cores). When one throws,
// those not begun are left out and the first exception is thrown here once all have ended.
template <class Run>
void run_parallel(size_t count, const Run& run) {
  constexpr size_t kThreadsMax = 8;
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  const auto work = [&] {
    for (size_t i; (i = next.fetch_add(1)) < count;) {
      try {
        run(i);
      } catch (...) {  // handed to the caller below
        std::lock_guard guard(mutex);
        if (!failure) failure = std::current_exception();
        next = count;
      }
    }
  };
  const size_t num_threads = std::min({kThreadsMax, count, std::max<size_t>(1, std::thread::hardware_concurrency())});
  {
    std::vector<std::jthread> threads;
    for (size_t i = 1; i < num_threads; ++i) threads.emplace_back(work);
    work();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace firn::hyp
