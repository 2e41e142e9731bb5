// What other commits did, held against what a change was made from (protocols P1.7).
#pragma once

#include <cstdint>
#include <set>

#include "iceberg/commit/commit.h"

namespace firn::iceberg {

// Looks at each snapshot of the change's branch in `base` after read_check->since_snapshot_id, those in `own` (of the
// same transaction) aside. Throws commit_conflict naming the snapshot and the file that stand against it:
//   - a data file that may hold a row of the filter was added (no_added_data) or removed (no_removed_data);
//   - a delete was added that may apply to a row of the filter, or to a data file that the change removes
//   (no_added_deletes;
//     equality deletes are no conflict for removed files whose rows keep an older data sequence number);
//   - a data file that the change's deletes name was removed;
//   - a deletion vector was added for a data file that the change has one for.
// Rewrites (operation replace) bring no rows and take none. Also if the history does not lead back to that snapshot.
// Costs what those snapshots changed. Throws invalid_argument for a change with deletes and no read_check.
void check_conflicts(const TableMetadata& base, const SnapshotChange& change, const std::set<int64_t>& own, FileIO& io);

}  // namespace firn::iceberg
