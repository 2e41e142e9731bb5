// The cache's upkeep: retention, then compaction of the neediest, then what no reader holds any more is removed.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "hyp/maintain/compaction.h"
#include "hyp/maintain/retention.h"

namespace firn::hyp {

struct MaintainOptions {
  bool dry_run = false;
  int64_t budget_ms = 0;                         // no further compaction is begun after it; 0: no limit
  const std::atomic<bool>* cancelled = nullptr;  // stops between partitions, and within a compaction
};

struct MaintainReport {
  std::vector<RetentionReport> retention;                    // of partitions where rows went, wait or were forced out
  std::vector<CompactionReport> compaction;                  // neediest first; dry run: what is known before, and why
  int64_t partitions = 0;                                    // looked at
  int64_t compactions_left = 0;                              // needed, and left for the next tick
  int64_t generations_removed = 0, generations_waiting = 0;  // waiting: a reader holds them
  int64_t snapshots_expired = 0, snapshots_waiting = 0;
  int64_t bytes_removed = 0;
  std::vector<std::string> problems;  // partitions that failed; the others were done all the same
};

// Safe beside anything else that works on the cache, another upkeep included. A partition that fails is named in
// `problems` and passed over. Entries of the sequence file's opens that no row needs go too (P5.1).
MaintainReport maintain(Cache& cache, const MaintainOptions& options = {});

}  // namespace firn::hyp
