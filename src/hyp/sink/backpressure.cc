#include "hyp/sink/backpressure.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <string>
#include <thread>

#include <curl/curl.h>

#include "base/error.h"
#include "base/uuid.h"

namespace firn::hyp {
namespace {

constexpr std::array<int64_t, 4> kInlineStepsMs = {30'000, 60'000, 120'000, 300'000};

BackoffSources& test_sources() {
  static BackoffSources sources;
  return sources;
}

}  // namespace

std::optional<int64_t> parse_retry_after(std::string_view value, int64_t now_ms) {
  if (value.empty()) return std::nullopt;
  int64_t wait_ms = 0;
  if (value.find_first_not_of("0123456789") == std::string_view::npos) {
    int64_t seconds = 0;
    const auto parsed = std::from_chars(value.data(), value.data() + value.size(), seconds);
    const bool is_huge = parsed.ec != std::errc() || seconds > kRetryAfterMsMax / 1000;
    wait_ms = is_huge ? kRetryAfterMsMax : seconds * 1000;
  } else {
    // libcurl's parser takes the three forms of HTTP dates, and much else: of that only what has a time of day.
    if (value.find(':') == std::string_view::npos) return std::nullopt;
    const time_t seconds = ::curl_getdate(std::string(value).c_str(), nullptr);
    if (seconds == -1) return std::nullopt;
    wait_ms = std::min<int64_t>(static_cast<int64_t>(seconds) - now_ms / 1000, kRetryAfterMsMax / 1000) * 1000;
  }
  return wait_ms > 0 ? std::optional(wait_ms) : std::nullopt;
}

Backpressure::Backpressure(const std::atomic<bool>* cancelled, const BackoffSources& sources)
    : cancelled_(cancelled), sources_(sources) {
  if (!sources_.random) sources_.random = test_sources().random;
  if (!sources_.sleep_ms) sources_.sleep_ms = test_sources().sleep_ms;
  if (!sources_.random) {
    // From the kernel: gateways that were refused at one moment must not come again at one.
    sources_.random = [] { return static_cast<double>(random_id() >> 10) / static_cast<double>(int64_t{1} << 53); };
  }
  if (!sources_.sleep_ms) {
    sources_.sleep_ms = [cancelled](int64_t ms) {
      const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);
      while (cancelled == nullptr || !*cancelled) {
        const auto left = end - std::chrono::steady_clock::now();
        if (left <= std::chrono::nanoseconds(0)) return;
        std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(left, std::chrono::milliseconds(kCancelPollMs)));
      }
    };
  }
}

bool Backpressure::wait(std::optional<int64_t> asked_ms, const std::function<void(int64_t wait_ms)>& tell) {
  const int64_t left_ms = kInlineWaitMsMax - waited_ms_;
  int64_t wait_ms = 0;
  if (asked_ms) {
    if (*asked_ms > left_ms) return false;  // to come before that is no use
    wait_ms = *asked_ms;
  } else {
    if (left_ms <= 0) return false;
    const int64_t step_ms = kInlineStepsMs[std::min(step_++, kInlineStepsMs.size() - 1)];
    wait_ms = std::min(static_cast<int64_t>(static_cast<double>(step_ms) * (0.9 + sources_.random() / 5)), left_ms);
  }
  throw_if_cancelled(cancelled_);
  if (tell) tell(wait_ms);
  sources_.sleep_ms(wait_ms);
  waited_ms_ += wait_ms;
  throw_if_cancelled(cancelled_);
  return true;
}

void set_wait_sources(const BackoffSources& sources) { test_sources() = sources; }

void throw_if_cancelled(const std::atomic<bool>* cancelled) {
  if (cancelled != nullptr && *cancelled) fail(ErrorKind::cancelled, "stopped on request");
}

}  // namespace firn::hyp
