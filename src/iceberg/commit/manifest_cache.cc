#include "iceberg/commit/manifest_cache.h"

namespace firn::iceberg {

std::shared_ptr<const std::string> ManifestCache::read(FileIO& io, const std::string& path) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = by_path_.find(path); found != by_path_.end()) {
      entries_.splice(entries_.begin(), entries_, found->second);
      return found->second->bytes;
    }
  }
  auto bytes = std::make_shared<const std::string>(io.read(path));  // without the lock: reads may run side by side
  insert(path, bytes);
  return bytes;
}

void ManifestCache::put(const std::string& path, std::string bytes) {
  insert(path, std::make_shared<const std::string>(std::move(bytes)));
}

void ManifestCache::insert(const std::string& path, std::shared_ptr<const std::string> bytes) {
  const auto size_bytes = static_cast<int64_t>(bytes->size());
  if (size_bytes > size_bytes_max_ / 4) return;  // one large file must not drive out all others
  const std::lock_guard lock(mutex_);
  if (by_path_.contains(path)) return;
  entries_.push_front({path, std::move(bytes)});
  by_path_.emplace(entries_.front().path, entries_.begin());
  size_bytes_ += size_bytes;
  while (size_bytes_ > size_bytes_max_) {
    size_bytes_ -= static_cast<int64_t>(entries_.back().bytes->size());
    by_path_.erase(entries_.back().path);
    entries_.pop_back();
  }
}

ManifestCache& manifest_cache() {
  static ManifestCache cache(64LL << 20);
  return cache;
}

}  // namespace firn::iceberg
