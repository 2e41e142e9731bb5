#include "base/backoff.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/uuid.h"

namespace firn {

Backoff::Backoff(const BackoffOptions& options, BackoffSources sources)
    : options_(options), sources_(std::move(sources)) {
  if (!sources_.random) {
    // From the kernel: processes that conflict must not draw the same waits.
    sources_.random = [] { return static_cast<double>(random_id() >> 10) / static_cast<double>(int64_t{1} << 53); };
  }
  if (!sources_.sleep_ms) {
    sources_.sleep_ms = [](int64_t ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); };
  }
  if (!sources_.now_us) sources_.now_us = steady_us;
  start_us_ = sources_.now_us();
}

void Backoff::wait() {
  int64_t wait_ms = std::min(options_.min_wait_ms, options_.max_wait_ms);
  for (int64_t i = 0; i < num_waits_ && wait_ms < options_.max_wait_ms; ++i) {
    wait_ms = wait_ms > options_.max_wait_ms / 2 ? options_.max_wait_ms : wait_ms * 2;
  }
  wait_ms = static_cast<int64_t>(static_cast<double>(wait_ms) * (0.5 + sources_.random() / 2));
  const int64_t spent_ms = (sources_.now_us() - start_us_) / 1000;
  if (++num_waits_ > options_.num_retries || spent_ms + wait_ms >= options_.total_ms) {
    exhausted_ = true;
    return;
  }
  sources_.sleep_ms(wait_ms);
}

}  // namespace firn
