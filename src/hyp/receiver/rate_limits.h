// How much each gateway may send: a token bucket for its requests and one for its bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace firn::hyp {

// Thread-safe. A bucket holds one second's worth. A body larger than that is taken once the bucket is full, and what
// was taken in advance is waited for afterwards.
class RateLimits {
 public:
  // 0: no limit. `steady_us` is for tests.
  RateLimits(int64_t requests_per_s, int64_t bytes_per_s, std::function<int64_t()> steady_us = nullptr);
  // Takes one request with a body of so many bytes. Otherwise nothing is taken, and the result is in how many whole
  // seconds it would be, at least 1.
  std::optional<int64_t> take(const std::string& gateway, int64_t bytes);
  // Bytes that came unannounced: what follows waits for them.
  void charge(const std::string& gateway, int64_t bytes);

 private:
  struct Buckets {
    double requests = 0, bytes = 0;
    int64_t filled_us = 0;
  };
  Buckets& fill(const std::string& gateway);  // requires mutex_

  const double requests_per_s_, bytes_per_s_;
  const std::function<int64_t()> steady_us_;
  std::mutex mutex_;
  std::map<std::string, Buckets> buckets_;  // by gateway
};

}  // namespace firn::hyp
