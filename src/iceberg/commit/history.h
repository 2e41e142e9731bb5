// What a try's base must say before anything is published on it (protocols P2, P3). Values only.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/backoff.h"
#include "iceberg/commit/commit.h"

namespace firn::iceberg {

// The waits between the tries of a commit: the table's commit.retry.*, as far as they are right.
BackoffOptions retry_options(const TableMetadata& metadata);

// The snapshot that a commit to `branch` follows: its head, or main's where the branch is not there yet; nullptr: none.
// Throws invalid_argument if `branch` is a tag.
const Snapshot* branch_head(const TableMetadata& base, const std::string& branch);

// Visits what `branch` has above `floor_sequence`, newest first: each snapshot as both `step` and `made`, and a
// cherry-pick also with the source that it stands for as `made` (P3.2). `visit` returns false to end the walk. Returns
// the snapshot that is missing where the history is cut above the floor; nullopt: the walk came to its end.
std::optional<int64_t> walk_history(const TableMetadata& base, const std::string& branch, int64_t floor_sequence,
                                    const std::function<bool(const Snapshot& step, const Snapshot& made)>& visit);

// Whether `head`, which lacks the snapshot that a try staged on `base`, proves that the try is lost (P1.6): it is the
// version the try would have been, or the snapshots of `branch` lead back to `base`'s without a gap.
bool proves_lost(const LoadedTable& head, const LoadedTable& base, const std::string& branch);

// Throws schema_mismatch if `base` gives a field id of `written` another name, place or type (promotion aside), never
// gave it out, or requires what `written` leaves optional (P2).
void check_field_ids(const TableMetadata& base, const Schema& written);

// Throws partition_spec_drift if `base`'s default spec is not `written`.
void check_partition_spec(const TableMetadata& base, const PartitionSpec& written, const Schema& schema);

}  // namespace firn::iceberg
