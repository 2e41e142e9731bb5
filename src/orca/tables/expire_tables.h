// Shorter histories around what open runs rest on (protocols P3.2, P14.3).
#pragma once

#include <vector>

#include "orca/expire.h"
#include "orca/tables/table.h"

namespace firn::orca {

// The snapshots of `table` that its expiry leaves where they are:
//   - those that the request pins, those above its floors (a search for a commit walks that far), and those since its
//     oldest_start_ms, with the one before them;
//   - the head of main, and what was the head within the last hour before `now_ms`: a step that loaded the table pins
//   it
//     a moment later.
std::vector<int64_t> held_snapshots(const iceberg::TableMetadata& table, const ExpireRequest& request, int64_t now_ms);

// Expires the request's datasets, or all of the warehouse that have history.expire.max-snapshot-age-ms: by that
// property, but nothing of the last hour, and never held_snapshots. A dataset that was named and lacks the property
// keeps all its snapshots and is not among the results. The runs' pins and floors must have been read no more than an
// hour ago, before the call.
std::vector<ExpiredTable> expire_tables(const ExpireRequest& request);

}  // namespace firn::orca
