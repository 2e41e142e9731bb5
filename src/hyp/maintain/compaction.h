// A partition's many small files become few large ones, in a generation of their own (P7).
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "hyp/cache/cache.h"

namespace firn::hyp {

// What a look at a partition's head says. Of one that is as its last compaction left it, or that has few files, nothing
// is read but the cursor and the table's metadata; else the head's manifests too, as far as this process has not read
// them before.
struct CompactionNeed {
  int64_t files = 0, bytes = 0;
  int64_t small_files = 0, small_bytes = 0;  // that a compaction would rewrite: small ones, and those with many deletes
  int64_t metadata_bytes = 0;  // of the current metadata file, and of the manifests if they were looked at
  double score = 0;            // 0: leave it alone; else the neediest has the highest
  std::string reason;          // of the score, for a person
};
// A partition needs it for
//   - small files: compaction.files_min of them more than its last compaction left, once rewriting them is worth the
//   new
//     table: they hold a tenth of the bytes or a file's worth, or a quarter of the files would be spared;
//   - deleted rows: a fifth of the bytes, and a sixteenth of a file at least;
//   - metadata: more than compaction.metadata_bytes_max, and twice what its last compaction left.
CompactionNeed compaction_need(const Cache& cache, const PartitionId& partition);

struct CompactionReport {
  PartitionId partition;
  bool swapped = false;  // a new generation is live
  std::string note;      // if not: why
  int64_t files_before = 0, files_after = 0, bytes_before = 0, bytes_after = 0;
  int64_t files_linked = 0, files_rewritten = 0;  // of those before, and of those that came meanwhile
  int64_t rows = 0, duplicates_dropped = 0;       // rows: after
};
// Compacts whatever the thresholds say. Small files are rewritten in the order of the sequence, those near the target
// stay and are linked; with `"dedupe": "content"` rows equal to an earlier one are left out, unless a sink has
// announced them. Holds the partition lock only to carry over what was committed meanwhile and to swap the cursor.
// Gives up (a note) where there is nothing to gain, another compactor is at work or what happened meanwhile cannot be
// carried over. Memory is bounded by compaction.memory_bytes_max, about. Throws what reading and writing throw, and
// cancelled: then the partition is as it was, or, where only the cursor's last sync failed, compacted; what was written
// for nothing is removed here or by the next sweep.
CompactionReport compact_partition(Cache& cache, const PartitionId& partition,
                                   const std::atomic<bool>* cancelled = nullptr);

}  // namespace firn::hyp
