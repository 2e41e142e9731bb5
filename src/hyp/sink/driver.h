// Runs sinks: every row of a dataset to each destination exactly once (protocols P10, P12, P3.3).
//
//   <stateDir>/<sink>/lock                                            one run of a sink at a time, across processes
//   <stateDir>/<sink>/watermarks/<dataset>/<partition-key>.json       sink/watermark.h
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hyp/cache/cache.h"
#include "hyp/config.h"

namespace firn::hyp {

struct SinkRunOptions {
  std::optional<PartitionId> partition;                            // only this one
  const std::atomic<bool>* cancelled = nullptr;                    // stops between units
  std::function<void(const PartitionId&, int64_t rows)> progress;  // after each unit
  iceberg::ReadCounters* counters = nullptr;                       // of what was read from the cache
};

// What happened to one partition in one run.
struct PartitionRun {
  PartitionId partition;
  int64_t units = 0, rows = 0, bytes = 0;  // shipped now
  int64_t recognised_units = 0;            // found at the destination: an earlier attempt's
  std::optional<int64_t> watermark;        // after the run
  std::string error_kind, error;           // empty: fine
  std::string note;                        // what else a person should know; empty: nothing
};
struct SinkRunReport {
  std::string sink;
  std::vector<PartitionRun> partitions;
  int64_t rows() const;
  int64_t bytes() const;
  int64_t units() const;
  bool failed() const;
};

// Ships what is new. One failing partition does not stop the others. Waits for another run of the same sink. Throws
// only what concerns the sink as a whole (configuration, lock).
SinkRunReport run_sink(Cache& cache, const SinkConfig& sink, const SinkRunOptions& options = {});

// Of the lock that a run holds.
std::string sink_lock_path(const std::string& state_dir, const std::string& sink);

struct SinkPartitionStatus {
  PartitionId partition;
  std::optional<int64_t> watermark;
  int64_t highest_seq = 0;  // firn.max-seq of the partition
  int64_t rows_behind = 0;  // rows above the watermark, exact
  int64_t exported_rows = 0;
  std::string updated_at;
  bool pending = false;        // an intent is open
  std::string last_error;      // of the last run of this partition; empty: fine
  bool is_unreadable = false;  // what is above could not be found out; last_error says why
};
std::vector<SinkPartitionStatus> sink_status(const Cache& cache, const SinkConfig& sink);

}  // namespace firn::hyp
