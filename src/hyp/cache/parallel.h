// Loops over jobs on a bounded number of threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/threads.h"

namespace firn::hyp {

inline size_t count_threads(size_t jobs) {
  constexpr size_t kThreadsMax = 8;
  return std::min({kThreadsMax, jobs, std::max<size_t>(1, std::thread::hardware_concurrency())});
}

// Calls run(0) … run(count - 1), each once, on this thread and up to `num_threads` - 1 others; by default up to seven,
// as the machine has cores. When one throws, those not begun are left out and the first exception is thrown here once
// all have ended.
template <class Run>
void run_parallel(size_t count, size_t num_threads, const Run& run) {
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
  {
    std::vector<std::jthread> threads;
    if (count > 1) begin_helpers(threads, std::min(num_threads, count) - 1, work);
    work();
  }
  if (failure) std::rethrow_exception(failure);
}
template <class Run>
void run_parallel(size_t count, const Run& run) {
  run_parallel(count, count_threads(count), run);
}

// Calls produce(0) … produce(count - 1) on other threads (a single one on this), and consume(result) on this one in
// that order. A few results wait at most. consume says whether to go on; results that were produced ahead are then
// dropped. An exception of either is thrown here, of produce at its turn, once the threads have ended.
template <class Produce, class Consume>
void run_ordered(size_t count, const Produce& produce, const Consume& consume) {
  using Result = decltype(produce(size_t{0}));
  if (count == 1) {  // nothing to do meanwhile
    consume(produce(size_t{0}));
    return;
  }
  struct Slot {
    std::optional<Result> result;
    std::exception_ptr failure;
    bool is_done = false;
  };
  std::mutex mutex;
  std::condition_variable produced, taken;
  std::deque<Slot> slots;  // of the jobs from `first` on, begun or done
  size_t first = 0;
  bool stopped = false;
  const size_t num_threads = count_threads(count);
  const size_t ahead_max = 2 * num_threads + 1;
  const auto work = [&] {
    std::unique_lock lock(mutex);
    for (;;) {
      taken.wait(lock, [&] { return stopped || first + slots.size() == count || slots.size() < ahead_max; });
      if (stopped || first + slots.size() == count) return;
      const size_t job = first + slots.size();
      Slot& slot = slots.emplace_back();  // stays where it is: a deque grows and shrinks at its ends
      lock.unlock();
      try {
        Result result = produce(job);
        lock.lock();
        slot.result = std::move(result);
      } catch (...) {  // handed to the caller at its turn
        if (!lock.owns_lock()) lock.lock();
        slot.failure = std::current_exception();
      }
      slot.is_done = true;
      produced.notify_one();
    }
  };
  const auto stop = [&] {
    std::lock_guard guard(mutex);
    stopped = true;
    taken.notify_all();
  };
  std::vector<std::jthread> threads;
  try {
    threads.push_back(begin_thread(work));
    begin_helpers(threads, num_threads - 1, work);
    for (size_t job = 0; job < count; ++job) {
      Slot slot;
      {
        std::unique_lock lock(mutex);
        produced.wait(lock, [&] { return !slots.empty() && slots.front().is_done; });
        slot = std::move(slots.front());
        slots.pop_front();
        ++first;
        taken.notify_one();
      }
      if (slot.failure) std::rethrow_exception(slot.failure);
      if (!consume(std::move(*slot.result))) break;
    }
  } catch (...) {  // thrown on below
    stop();
    throw;
  }
  stop();
}

}  // namespace firn::hyp
