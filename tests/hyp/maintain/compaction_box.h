// A cache whose partitions are compacted, and what a user sees of them.
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/fault_point.h"
#include "hyp/cache/cache_box.h"
#include "hyp/cache/generations.h"
#include "hyp/cache/layout.h"
#include "hyp/cache/visible_schema.h"
#include "hyp/maintain/compaction.h"
#include "hyp/sink/watermark.h"
#include "iceberg/commit/commit.h"
#include "iceberg/rows/rows.h"

namespace firn::hyp {

namespace fs = std::filesystem;

// Before a box is made: a disk's syncs would be most of the time, and in memory will do where nobody chose a place.
struct PreferMemory {
  PreferMemory() {
    if (fs::is_directory("/dev/shm")) ::setenv("TMPDIR", "/dev/shm", /*replace=*/0);
  }
};

inline const PartitionId kLogs{"logs", "s"};

// {"id": first} … with a key of `keys` and a time of its own.
inline Lines some_rows(int64_t first, int64_t count, int64_t keys = 1) {
  Lines lines;
  for (int64_t id = first; id < first + count; ++id) {
    lines.push_back(fmt::format(R"({{"id":{},"k":"k{}","text":"row number {}"}})", id, id % keys, id * id));
  }
  return lines;
}

inline void flush_rows(Cache& cache, const Lines& lines, const PartitionId& partition = kLogs) {
  const FlushReport report = ingest(cache, {make_frame(partition.dataset, partition.source, lines)});
  if (report.rows != static_cast<int64_t>(lines.size()))
    fail(ErrorKind::internal, "{} rows were flushed: {}", report.rows, fmt::join(report.problems, "; "));
}

// `flushes` of `rows` each, ids from 0.
inline void flush_many(Cache& cache, int64_t flushes, int64_t rows, int64_t keys = 1) {
  for (int64_t i = 0; i < flushes; ++i) flush_rows(cache, some_rows(i * rows, rows, keys));
}

// Rows in sequence order, normal, with their numbers.
inline std::vector<std::pair<int64_t, std::string>> numbered_rows(const Cache& cache,
                                                                  const PartitionId& partition = kLogs,
                                                                  const ReadOptions& options = {}) {
  const SequencedRows read = read_sequenced(cache, partition, options);
  std::vector<std::pair<int64_t, std::string>> rows;
  for (size_t i = 0; i < read.rows.size(); ++i) rows.emplace_back(read.after[i], normal(read.rows[i]));
  return rows;
}

inline std::vector<iceberg::LiveFile> live_files_of(const Cache& cache, const PartitionId& partition = kLogs) {
  const auto held = cache.hold(partition);
  const auto& metadata = *held->table.metadata;
  if (metadata.current_snapshot() == nullptr) return {};
  return iceberg::live_files(metadata, *metadata.current_snapshot(), *held->operations->io());
}

inline std::vector<iceberg::DataFile> data_files_of(const Cache& cache, const PartitionId& partition = kLogs) {
  std::vector<iceberg::DataFile> files;
  for (const iceberg::LiveFile& live : live_files_of(cache, partition)) {
    if (live.file.content == iceberg::FileContent::data) files.push_back(live.file);
  }
  return files;
}

inline std::set<ino_t> inodes_of(const Cache& cache, const PartitionId& partition = kLogs) {
  std::set<ino_t> inodes;
  for (const iceberg::DataFile& file : data_files_of(cache, partition)) {
    struct stat info;
    if (::stat(file.file_path.c_str(), &info) != 0) fail_errno(errno, "stat " + file.file_path);
    inodes.insert(info.st_ino);
  }
  return inodes;
}

inline int64_t rows_hidden(const Cache& cache, const PartitionId& partition = kLogs) {
  int64_t rows = 0;
  for (const iceberg::LiveFile& live : live_files_of(cache, partition)) {
    if (live.file.content == iceberg::FileContent::position_deletes) rows += live.file.record_count;
  }
  return rows;
}

inline std::string generation_of(const Cache& cache, const PartitionId& partition = kLogs) {
  return read_cursor(cache.folder(partition)).value().table_dir;
}

inline std::map<std::string, std::string> properties_of(const Cache& cache, const PartitionId& partition = kLogs) {
  return cache.hold(partition)->table.metadata->properties;
}

// Deletes rows of the live generation as retention (merge on read) or purge (copy on write) does, under the partition
// lock.
inline void delete_live(const Cache& cache, const std::string& filter, iceberg::RowMode mode,
                        const PartitionId& partition = kLogs) {
  const FileLock lock = cache.lock(partition);
  const auto held = cache.hold(partition);
  iceberg::RowOptions options;
  options.mode = mode;
  if (!iceberg::delete_rows(*held->operations, iceberg::parse_expression(filter), options).commit)
    fail(ErrorKind::internal, "no row matched {}", filter);
}

// Calls `work` once, when the fault point is passed for the first time.
class At {
 public:
  At(const std::string& point, std::function<void()> work) {
    set_fault_handler([this, point, work = std::move(work)](const char* name) {
      if (point != name || happened_) return;
      happened_ = true;
      work();
    });
  }
  ~At() { set_fault_handler(nullptr); }
  At(const At&) = delete;
  At& operator=(const At&) = delete;
  bool happened() const { return happened_; }

 private:
  bool happened_ = false;
};

// An intent of the sink for rows (since, until], as its run writes it.
inline void announce(const Cache& cache, const std::string& sink, int64_t since, int64_t until,
                     const PartitionId& partition = kLogs) {
  Watermark watermark;
  watermark.pending.emplace();
  watermark.pending->open_id = "test";
  watermark.pending->since = since;
  watermark.pending->until = until;
  const FileLock lock = cache.lock(partition);
  save_watermark(watermark_path(cache.config().state_dir, sink, partition), watermark);
}

}  // namespace firn::hyp
