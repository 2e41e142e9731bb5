// Publishing snapshots that no branch has yet: staged ones (write, audit, publish), or another branch's.
#pragma once

#include <cstdint>
#include <string>

#include "iceberg/commit/commit.h"

namespace firn::iceberg {

// Brings what `snapshot_id` changed onto `branch`. Where its parent is the branch's head (or neither exists), the
// branch moves to it and no snapshot is made. Else the files of an append are added again, and those of a dynamic
// partition overwrite (summary replace-partitions) if its parent is an ancestor of the head and none of its partitions
// changed since, as a new snapshot whose summary has source-snapshot-id, and published-wap-id if the source has a
// wap.id. Returns the branch's new head. Throws not_found for an unknown snapshot; already_exists if the branch has it,
// a pick of it, or its wap.id; unsupported for other operations; commit_conflict for a partition that changed; and what
// commit_snapshot throws.
CommitResult cherry_pick(TableOperations& table, int64_t snapshot_id, const std::string& branch = "main");

// cherry_pick of the snapshot whose summary has wap.id `wap_id`; of several, of the one that `branch` does not have
// yet, though it has the others under that id. Throws not_found if there is none, invalid_argument naming them if
// several are left.
CommitResult publish_staged(TableOperations& table, const std::string& wap_id, const std::string& branch = "main");

}  // namespace firn::iceberg
