// Waits between the tries of a forward sink (spec/incremental-sink-reads.md §4).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "base/backoff.h"

namespace firn::hyp {

constexpr int64_t kRetryAfterMsMax = 300'000;  // of what a receiver may ask for
constexpr int64_t kInlineWaitMsMax = 300'000;  // then the partition fails for this run and is taken up by a later one
constexpr int64_t kCancelPollMs = 100;         // a wait ends so soon after `cancelled`

// How long a Retry-After asks to wait from `now_ms` on, at most kRetryAfterMsMax: seconds, or an HTTP date. nullopt for
// 0, dates that have passed, and all else: the ladder then decides.
std::optional<int64_t> parse_retry_after(std::string_view value, int64_t now_ms);

// The waits of one request. One thread.
class Backpressure {
 public:
  // What is empty in `sources` is the real one; now_us is not asked for.
  explicit Backpressure(const std::atomic<bool>* cancelled, const BackoffSources& sources = {});
  // Sleeps `asked_ms`, or without it the next step of 30, 60, 120, 300 s, times a random factor in [0.9, 1.1); the last
  // step is cut to what is left of kInlineWaitMsMax. False, without a wait, once nothing is left of it, or less than
  // what was asked for. Throws cancelled soon after it is. `tell` is called before a wait with its length.
  bool wait(std::optional<int64_t> asked_ms, const std::function<void(int64_t wait_ms)>& tell = nullptr);
  int64_t waited_ms() const { return waited_ms_; }

 private:
  const std::atomic<bool>* cancelled_;
  BackoffSources sources_;
  int64_t waited_ms_ = 0;
  size_t step_ = 0;
};

// For tests, what Backpressure uses where it is given nothing. Not while sinks run.
void set_wait_sources(const BackoffSources& sources);

// Throws cancelled if it is.
void throw_if_cancelled(const std::atomic<bool>* cancelled);

}  // namespace firn::hyp
