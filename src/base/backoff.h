// Waits between the tries of an operation that others contend for (protocols P1.7).
#pragma once

#include <cstdint>
#include <functional>

namespace firn {

struct BackoffOptions {  // the defaults are those of Iceberg's commit.retry.* properties
  int64_t min_wait_ms = 100;
  int64_t max_wait_ms = 60'000;
  int64_t num_retries = 4;       // tries after the first
  int64_t total_ms = 1'800'000;  // from construction; no wait goes past it
};

// Where chance and time come from; what is empty is the real one. `random` returns [0, 1).
struct BackoffSources {
  std::function<double()> random = {};
  std::function<void(int64_t ms)> sleep_ms = {};
  std::function<int64_t()> now_us = {};  // monotonic
};

// for (Backoff backoff(options);; backoff.wait()) { …; if (backoff.exhausted()) throw …; … }  One thread.
class Backoff {
 public:
  explicit Backoff(const BackoffOptions& options, BackoffSources sources = {});
  // Sleeps before the next try: min_wait_ms doubled for every earlier wait, at most max_wait_ms, times a random factor
  // in [0.5, 1). Does not sleep where exhausted() holds afterwards.
  void wait();
  // Whether no further try is allowed. False before the first wait(), whatever the options.
  bool exhausted() const { return exhausted_; }

 private:
  BackoffOptions options_;
  BackoffSources sources_;
  int64_t start_us_;
  int64_t num_waits_ = 0;
  bool exhausted_ = false;
};

}  // namespace firn
