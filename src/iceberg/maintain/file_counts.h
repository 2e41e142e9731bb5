// What maintenance took away, or would take away.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "iceberg/manifest/manifest.h"

namespace firn::iceberg {

// Files by kind. In a dry run: those that would have gone.
struct FileCounts {
  int64_t data_files = 0, position_delete_files = 0, equality_delete_files = 0;  // a Puffin file of vectors counts once
  int64_t manifests = 0, manifest_lists = 0, statistics_files = 0;
  int64_t other_files = 0;          // metadata files, and what no kind is known of
  int64_t bytes = 0;                // as manifests and listings say; of manifest lists and statistics 0 if unknown
  std::vector<std::string> paths;   // the first kPathsMax of them
  std::vector<std::string> failed;  // of those, what could not be removed: it falls to orphan removal
  static constexpr size_t kPathsMax = 100'000;

  int64_t total() const {
    return data_files + position_delete_files + equality_delete_files + manifests + manifest_lists + statistics_files +
           other_files;
  }
};

}  // namespace firn::iceberg
