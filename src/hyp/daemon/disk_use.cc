#include "hyp/daemon/disk_use.h"

#include <fts.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <set>
#include <utility>

#include "base/clock.h"
#include "base/error.h"

namespace firn::hyp {
namespace {

constexpr int64_t kLookMs = 5'000, kLookAgainMs = 1'000;

}  // namespace

int64_t bytes_below(const std::string& folder) {
  std::string path = folder;
  char* const roots[] = {path.data(), nullptr};
  const std::unique_ptr<FTS, int (*)(FTS*)> walk(::fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, nullptr), ::fts_close);
  if (!walk) fail_errno(errno, "look through " + folder);
  std::set<std::pair<dev_t, ino_t>> linked;
  int64_t bytes = 0;
  for (errno = 0; const FTSENT* entry = ::fts_read(walk.get()); errno = 0) {
    switch (entry->fts_info) {
      case FTS_F: {
        const struct stat& info = *entry->fts_statp;
        if (info.st_nlink > 1 && !linked.emplace(info.st_dev, info.st_ino).second) break;
        bytes += info.st_size;
        break;
      }
      case FTS_DNR:
      case FTS_ERR:
      case FTS_NS:
        if (entry->fts_errno != ENOENT) fail_errno(entry->fts_errno, fmt::format("look at {}", entry->fts_path));
        break;
      default:
        break;
    }
  }
  if (errno != 0) fail_errno(errno, "look through " + folder);
  return bytes;
}

int64_t DiskUse::bytes(int64_t growing_bytes, int64_t limit_bytes) {
  const auto use = [&] { return bytes_ + std::max<int64_t>(0, growing_bytes - growing_); };
  bool is_first = false;
  {
    const std::lock_guard guard(mutex_);
    const int64_t age_ms = steady_us() / 1000 - seen_ms_;
    if (was_seen_ && age_ms < (use() > limit_bytes ? kLookAgainMs : kLookMs)) return use();
    is_first = !was_seen_;
  }
  std::unique_lock looking(looking_, std::defer_lock);
  if (is_first) {
    looking.lock();
  } else if (!looking.try_lock()) {
    const std::lock_guard guard(mutex_);
    return use();
  }
  const int64_t now_ms = steady_us() / 1000;
  const int64_t bytes = bytes_below(folder_);
  const std::lock_guard guard(mutex_);
  was_seen_ = true;
  seen_ms_ = now_ms;
  bytes_ = bytes;
  growing_ = growing_bytes;
  return use();
}

}  // namespace firn::hyp
