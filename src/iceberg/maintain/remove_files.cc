#include "iceberg/maintain/remove_files.h"

#include <mutex>

#include "base/error.h"
#include "base/fault_point.h"
#include "base/log.h"
#include "base/parallel.h"

namespace firn::iceberg {
namespace {

int64_t& count_of(FileCounts& counts, FileKind kind) {
  switch (kind) {
    case FileKind::data:
      return counts.data_files;
    case FileKind::position_deletes:
      return counts.position_delete_files;
    case FileKind::equality_deletes:
      return counts.equality_delete_files;
    case FileKind::manifest:
      return counts.manifests;
    case FileKind::manifest_list:
      return counts.manifest_lists;
    case FileKind::statistics:
      return counts.statistics_files;
    case FileKind::other:
      break;
  }
  return counts.other_files;
}

}  // namespace

FileKind kind_of(const DataFile& file) {
  switch (file.content) {
    case FileContent::data:
      return FileKind::data;
    case FileContent::position_deletes:
      return FileKind::position_deletes;
    case FileContent::equality_deletes:
      return FileKind::equality_deletes;
  }
  return FileKind::other;
}

void remove_files(const std::vector<DoomedFile>& files, FileIO& io, int threads, bool dry_run, FileCounts& counts) {
  for (const DoomedFile& file : files) {
    ++count_of(counts, file.kind);
    counts.bytes += file.size_bytes;
    if (counts.paths.size() < FileCounts::kPathsMax) counts.paths.push_back(file.path);
  }
  if (dry_run) return;
  std::mutex mutex;
  parallel_for(files.size(), threads, [&](size_t i) {
    try {
      fault_point("maintain.remove_file");
      io.remove(files[i].path);
    } catch (const Error& e) {
      // Nothing names it any more: orphan removal takes it.
      spdlog::warn("{} not removed: {}", files[i].path, e.what());
      const std::lock_guard lock(mutex);
      counts.failed.push_back(files[i].path);
    }
  });
}

void discard_written(const std::vector<DataFile>& files, FileIO& io) {
  for (const DataFile& file : files) {
    try {
      io.remove(file.file_path);
    } catch (const Error& e) {
      spdlog::warn("{} not removed: {}", file.file_path, e.what());
    }
  }
}

}  // namespace firn::iceberg
