// Runs sinks: every row of a dataset to each destination exactly once (protocols P10, P12, P3.3).
//
//   <stateDir>/<sink>/lock                                            one run of a sink at a time, across processes
//   <stateDir>/<sink>/watermarks/<dataset>/<partition-key>.json       sink/watermark.h
//   <stateDir>/<sink>/outbox/<dataset>/<partition-key>.json           sink/outbox.h
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hyp/cache/cache.h"
#include "hyp/config.h"
#include "hyp/sink/outbox.h"
#include "hyp/sink/watermark.h"
#include "io/local.h"

namespace firn::hyp {

// Which partitions of a sink; what is not said is all.
struct PartitionChoice {
  std::optional<std::string> dataset;
  std::optional<std::string> source;
  PartitionChoice() = default;
  PartitionChoice(const PartitionId& partition) : dataset(partition.dataset), source(partition.source) {}
  bool takes(const PartitionId& partition) const {
    return (!dataset || *dataset == partition.dataset) && (!source || *source == partition.source);
  }
};

struct SinkRunOptions {
  PartitionChoice partition;                     // only these
  bool due_retries_only = false;                 // only those that failed and whose next try is due (outbox.h)
  const std::atomic<bool>* cancelled = nullptr;  // stops between units, and what the destination waits for
  // After each unit, one call at a time.
  std::function<void(const PartitionId&, int64_t rows)> progress;
  std::function<void(const std::string& text)> waiting;  // of each wait: for what, and how long; one call at a time
  iceberg::ReadCounters* counters = nullptr;             // of what was read from the cache
};

// What happened to one partition in one run.
struct PartitionRun {
  PartitionId partition;
  int64_t units = 0, rows = 0, bytes = 0;  // shipped now
  int64_t recognised_units = 0;            // found at the destination: an earlier attempt's
  int64_t rows_put_aside = 0;              // that the destination can never take: in dead_letters_path() now
  std::optional<int64_t> watermark;        // after the run
  std::string error_kind, error;           // empty: fine
  int64_t attempts = 0;                    // that failed one after another, this one the last
  std::optional<int64_t> next_try_ms;      // of a failed one; nullopt: an operator has to act first
  std::string note;                        // what else a person should know; empty: nothing
};
struct SinkRunReport {
  std::string sink;
  std::vector<PartitionRun> partitions;  // in the order of their names
  int64_t rows() const;
  int64_t bytes() const;
  int64_t units() const;
  int64_t rows_put_aside() const;
  bool failed() const;
};

// Ships what is new, sink.parallel_max partitions at once. One failing partition does not stop the others, and is
// remembered in the outbox. Waits for another run of the same sink. Throws only what concerns the sink as a whole
// (configuration, lock), and not_found if the choice names no partition of the sink.
SinkRunReport run_sink(Cache& cache, const SinkConfig& sink, const SinkRunOptions& options = {});

// The partitions of the sink's datasets that the choice takes, by name. Throws not_found if it names one that the sink
// does not have.
std::vector<PartitionId> sink_partitions(const Cache& cache, const SinkConfig& sink,
                                         const PartitionChoice& choice = {});

// Of the lock that a run holds.
std::string sink_lock_path(const std::string& state_dir, const std::string& sink);
// Waits for whoever holds it, which may be a run that itself waits for minutes: after a second `waiting` is told so,
// once. nullopt: cancelled first.
std::optional<FileLock> lock_sink(const std::string& state_dir, const std::string& sink,
                                  const std::atomic<bool>* cancelled = nullptr,
                                  const std::function<void(const std::string& text)>& waiting = nullptr);

struct SinkPartitionStatus {
  PartitionId partition;
  std::optional<int64_t> watermark;
  int64_t highest_seq = 0;                  // firn.max-seq of the partition
  int64_t rows_behind = 0;                  // rows above the watermark, exact
  std::optional<int64_t> oldest_behind_ms;  // when the lowest of them was ingested; nullopt: none, or it is not known
  int64_t exported_rows = 0, exported_bytes = 0;  // in all
  std::string bytes_since;                        // exported_bytes counts from here on; empty: in all
  std::string dead_letters_path;                  // of rows that were put aside (dead_letters.h)
  int64_t dead_letters = 0;                       // that are in it now
  std::string updated_at;                         // of the watermark file
  std::string shipped_at;                         // when a unit was last confirmed; empty: never
  std::optional<PendingUnit> pending;             // announced, not confirmed
  std::string last_error;                         // of the last run of this partition; empty: fine
  std::optional<OutboxEntry> outbox;              // what is known of that
  bool is_unreadable = false;                     // what is above could not be found out; last_error says why
};
std::vector<SinkPartitionStatus> sink_status(const Cache& cache, const SinkConfig& sink,
                                             const PartitionChoice& choice = {});

}  // namespace firn::hyp
