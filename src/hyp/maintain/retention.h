// Rows that are past their age leave the cache (P8).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "hyp/cache/cache.h"

namespace firn::hyp {

struct RetentionReport {
  PartitionId partition;
  std::optional<int64_t> cutoff_ms;                // rows older than this go; nullopt: the dataset keeps its rows
  int64_t rows_removed = 0;                        // dry run: that would go
  int64_t files_dropped = 0;                       // data files that went whole
  int64_t files_marked = 0;                        // that got a deletion vector
  int64_t files_read = 0;                          // that were looked into: of the others the metadata told all
  std::map<std::string, int64_t> rows_waiting;     // past their age, kept for this sink
  std::map<std::string, int64_t> rows_forced_out;  // removed although this sink did not have them
  std::string note;                                // what else a person should know; empty: nothing
};

// Removes what is past its age at `now_ms`: by the dataset's timestamp column, and where that is null or no time by the
// time of ingest (row_age.h). Rows that a sink announced and did not confirm stay for the grace; with wait_for_sink_ack
// so do those that one does not have. Each commit also says in the table how many rows went without a sink
// (rows_forced_out of retention_state.h) and what was looked at: an age is counted in whole hours, so that a partition
// costs a look an hour, and where nothing changed no data file is read. Rows without a number are numbered first.
//   Takes the partition lock, and reads the sinks' positions under it. Throws what reading and committing throw; then
// nothing was removed, or (commit_unknown) all or nothing.
RetentionReport apply_retention(Cache& cache, const PartitionId& partition, int64_t now_ms, bool dry_run = false);

}  // namespace firn::hyp
