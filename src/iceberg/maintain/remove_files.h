// Files taken away on several threads. Within maintain/ only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "iceberg/maintain/file_counts.h"
#include "io/file_io.h"

namespace firn::iceberg {

enum class FileKind : uint8_t { data, position_deletes, equality_deletes, manifest, manifest_list, statistics, other };

struct DoomedFile {
  std::string path;
  FileKind kind = FileKind::other;
  int64_t size_bytes = 0;
};

FileKind kind_of(const DataFile& file);

// Counts the files in `counts` and, unless `dry_run`, removes them. One that cannot be removed is noted there and does
// not stop the others.
void remove_files(const std::vector<DoomedFile>& files, FileIO& io, int threads, bool dry_run, FileCounts& counts);

// Removes what was written for a commit that is known not to have landed, as far as it can be done: the rest is named
// by nothing and falls to orphan removal.
void discard_written(const std::vector<DataFile>& files, FileIO& io);

}  // namespace firn::iceberg
