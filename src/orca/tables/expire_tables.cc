#include "orca/tables/expire_tables.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/clock.h"
#include "base/error.h"
#include "iceberg/maintain/expire_snapshots.h"

namespace firn::orca {
namespace {

using iceberg::Snapshot;

constexpr const char* kAgeProperty = "history.expire.max-snapshot-age-ms";
constexpr int64_t kGraceMs = 60 * 60 * 1000;

// nullopt: the table does not say how long its history is kept, and keeps all of it.
std::optional<ExpiredTable> expire_table(const std::string& dataset, const ExpireRequest& request) {
  ExpiredTable result;
  result.dataset = dataset;
  const Table table = load_dataset(dataset);
  const iceberg::TableMetadata& metadata = table.metadata();
  if (!metadata.properties.contains(kAgeProperty)) return std::nullopt;
  const int64_t now = now_ms();
  iceberg::ExpireOptions options;
  options.older_than_ms = now - std::max(kGraceMs, metadata.int_property(kAgeProperty, 0));
  options.keep = held_snapshots(metadata, request, now);
  options.dry_run = request.dry_run;
  const iceberg::ExpireResult expired = iceberg::expire_snapshots(*table.operations(), options);
  result.snapshots = static_cast<int64_t>(expired.expired_snapshots.size());
  result.files = expired.files.total();
  result.bytes = expired.files.bytes;
  const std::vector<int64_t> idle = held_snapshots(metadata, {}, now);
  for (const int64_t id : options.keep) {
    const Snapshot* snapshot = metadata.find_snapshot(id);
    const bool is_for_runs = std::find(idle.begin(), idle.end(), id) == idle.end();
    result.pinned += snapshot && is_for_runs && snapshot->timestamp_ms < *options.older_than_ms;
  }
  return result;
}

}  // namespace

std::vector<int64_t> held_snapshots(const iceberg::TableMetadata& table, const ExpireRequest& request, int64_t now_ms) {
  std::set<int64_t> held;
  for (const Pin& pin : request.pins) {
    if (pin.table_uuid == table.table_uuid && pin.snapshot_id) held.insert(*pin.snapshot_id);
  }
  for (const Floor& floor : request.floors) {
    if (floor.table_uuid != table.table_uuid) continue;
    for (const Snapshot& snapshot : table.snapshots) {
      if (snapshot.sequence_number > floor.sequence) held.insert(snapshot.snapshot_id);
    }
  }
  // Along main: while a snapshot's successor is that young, it may be in use.
  const int64_t since_ms = std::min(request.oldest_start_ms.value_or(now_ms), now_ms - kGraceMs);
  for (const Snapshot* step = table.current_snapshot(); step != nullptr;) {
    held.insert(step->snapshot_id);
    if (step->timestamp_ms < since_ms || !step->parent_snapshot_id) break;
    step = table.find_snapshot(*step->parent_snapshot_id);
  }
  return {held.begin(), held.end()};
}

std::vector<ExpiredTable> expire_tables(const ExpireRequest& request) {
  std::vector<ExpiredTable> results;
  for (const std::string& dataset : request.datasets.empty() ? datasets() : request.datasets) {
    try {
      if (auto expired = expire_table(dataset, request)) results.push_back(std::move(*expired));
    } catch (const Error& e) {
      ExpiredTable failed;
      failed.dataset = dataset;
      failed.error = e.what();
      results.push_back(std::move(failed));
    }
  }
  return results;
}

}  // namespace firn::orca
