#include "hyp/receiver/rate_limits.h"

#include <algorithm>
#include <cmath>

#include "base/clock.h"

namespace firn::hyp {

RateLimits::RateLimits(int64_t requests_per_s, int64_t bytes_per_s, std::function<int64_t()> steady_us)
    : requests_per_s_(static_cast<double>(requests_per_s)),
      bytes_per_s_(static_cast<double>(bytes_per_s)),
      steady_us_(steady_us ? std::move(steady_us) : firn::steady_us) {}

RateLimits::Buckets& RateLimits::fill(const std::string& gateway) {
  const int64_t now_us = steady_us_();
  const auto [found, is_new] = buckets_.try_emplace(gateway, Buckets{requests_per_s_, bytes_per_s_, now_us});
  Buckets& buckets = found->second;
  const double seconds = static_cast<double>(now_us - buckets.filled_us) / 1e6;
  buckets.requests = std::min(requests_per_s_, buckets.requests + seconds * requests_per_s_);
  buckets.bytes = std::min(bytes_per_s_, buckets.bytes + seconds * bytes_per_s_);
  buckets.filled_us = now_us;
  return buckets;
}

std::optional<int64_t> RateLimits::take(const std::string& gateway, int64_t bytes) {
  if (requests_per_s_ == 0 && bytes_per_s_ == 0) return std::nullopt;
  const std::lock_guard guard(mutex_);
  Buckets& buckets = fill(gateway);
  double wait_s = 0;
  if (requests_per_s_ > 0) wait_s = (1 - buckets.requests) / requests_per_s_;
  if (bytes_per_s_ > 0 && bytes > 0)
    wait_s = std::max(wait_s, (std::min(static_cast<double>(bytes), bytes_per_s_) - buckets.bytes) / bytes_per_s_);
  if (wait_s > 0) return std::max<int64_t>(1, static_cast<int64_t>(std::ceil(wait_s)));
  buckets.requests -= 1;
  buckets.bytes -= static_cast<double>(bytes);
  return std::nullopt;
}

void RateLimits::charge(const std::string& gateway, int64_t bytes) {
  if (bytes_per_s_ == 0) return;
  const std::lock_guard guard(mutex_);
  fill(gateway).bytes -= static_cast<double>(bytes);
}

}  // namespace firn::hyp
