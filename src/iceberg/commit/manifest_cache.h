// What commits read again and again, kept in memory (protocols P1.8): manifests and manifest lists never change once
// written, and their paths are never used twice.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "iceberg/manifest/manifest.h"
#include "io/file_io.h"

namespace firn::iceberg {

// The files used last, up to a number of bytes. Thread-safe.
class ManifestCache {
 public:
  explicit ManifestCache(int64_t size_bytes_max) : size_bytes_max_(size_bytes_max) {}

  // Throws what io throws.
  std::shared_ptr<const std::string> read(FileIO& io, const std::string& path);
  // Bytes that this process wrote, so that they need not be read back.
  void put(const std::string& path, std::string bytes);

 private:
  struct Entry {
    std::string path;
    std::shared_ptr<const std::string> bytes;
  };
  void insert(const std::string& path, std::shared_ptr<const std::string> bytes);

  const int64_t size_bytes_max_;
  std::mutex mutex_;
  std::list<Entry> entries_;                                                  // the one used last in front
  std::unordered_map<std::string_view, std::list<Entry>::iterator> by_path_;  // keys are views of entries_' paths
  int64_t size_bytes_ = 0;
};

// The one of this process, 64 MiB.
ManifestCache& manifest_cache();

}  // namespace firn::iceberg
