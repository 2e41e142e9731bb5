// How much of the disk a cache takes, known at little cost.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

namespace firn::hyp {

// Bytes of the files below `folder`, one with several names counted once. What goes while it looks is left out; 0 if
// the folder is not there. Throws io.
int64_t bytes_below(const std::string& folder);

// Thread-safe.
class DiskUse {
 public:
  explicit DiskUse(std::string folder) : folder_(std::move(folder)) {}
  // bytes_below(folder) as it was at most a few seconds ago, and what `growing_bytes`, the size of a part of it that
  // grows between two looks, grew by since. Where that is more than `limit_bytes` it looks again each second, so that
  // room that was made shows. While one thread looks the others take what was seen last.
  int64_t bytes(int64_t growing_bytes, int64_t limit_bytes);

 private:
  const std::string folder_;
  std::mutex looking_, mutex_;
  bool was_seen_ = false;            // of mutex_, as all below
  int64_t seen_ms_ = 0;              // by the steady clock, when the look began
  int64_t bytes_ = 0, growing_ = 0;  // as seen
};

}  // namespace firn::hyp
