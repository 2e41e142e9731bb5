// Incremental append scans: the rows that appends added between two snapshots.
#pragma once

#include "iceberg/scan/scan.h"

namespace firn::iceberg {

// A stretch of one line of snapshots.
struct AppendRange {
  std::optional<int64_t> from_snapshot_id;  // nullopt: from the oldest snapshot of the line that is kept
  bool from_inclusive = false;              // false: what that snapshot added is left out; it may have expired
  std::optional<int64_t> to_snapshot_id;    // nullopt: the head of ScanOptions::ref, else the current snapshot
  // Snapshots of the operations overwrite and delete in between: false refuses them, true leaves out what they added
  // (as Java's IncrementalAppendScan). Those of replace change no row and never count.
  bool skips_other_operations = false;
};

// The data files that the append snapshots of `range` added, the oldest snapshot's first, without deletes: a row
// deleted since then comes too. The projection is that of the table's current schema, whatever the snapshots had, so
// that one increment looks like the next. read_task, read_tasks take the plan. Throws not_found for a snapshot that is
// not there, invalid_argument where `from` is no ancestor of `to` or an overwrite or delete lies between (naming it),
// and for options.snapshot_id and as_of_ms, which have no meaning here.
ScanPlan plan_appends(const TableMetadata& metadata, const std::shared_ptr<FileIO>& io, const AppendRange& range,
                      const ScanOptions& options);

}  // namespace firn::iceberg
