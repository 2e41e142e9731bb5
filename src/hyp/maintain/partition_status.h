// What a partition of the cache holds and what became of it, for a person.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "hyp/cache/cache.h"
#include "hyp/cache/layout.h"

namespace firn::hyp {

struct PartitionStatus {
  PartitionId partition;
  int64_t rows = 0, bytes = 0, files = 0;  // of the live generation; deleted rows not counted
  std::string generation;                  // the live one's directory; empty: there is no table yet
  int64_t generations = 0;                 // that are on the disk: older ones wait for their readers or the next upkeep
  // Times of the rows, in milliseconds since 1970: by the dataset's timestamp column, in files without such a time by
  // ingest. nullopt: there are no rows.
  std::optional<int64_t> oldest_ms, newest_ms;
  std::optional<int64_t> last_flush_ms;
  std::optional<CompactionRecord> last_compaction;
  int64_t rows_overdue = 0;                        // past their age: the next upkeep removes them
  std::map<std::string, int64_t> rows_waiting;     // past their age, kept for this sink
  std::map<std::string, int64_t> rows_forced_out;  // removed so far although this sink did not have them
  std::string problem;                             // why the rest could not be found out; empty: fine
};

// Reads manifests, and of files with deletes the column of times where that decides. Never throws Error: it is told in
// `problem`.
PartitionStatus partition_status(Cache& cache, const PartitionId& partition);

}  // namespace firn::hyp
