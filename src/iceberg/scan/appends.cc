#include "iceberg/scan/appends.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/span.h"
#include "iceberg/manifest/snapshot_manifests.h"
#include "iceberg/scan/plan.h"
#include "iceberg/scan/snapshot_choice.h"

namespace firn::iceberg {

namespace {

const Snapshot* last_snapshot(const TableMetadata& metadata, const AppendRange& range, const ScanOptions& options) {
  if (options.snapshot_id || options.as_of_ms)
    fail(ErrorKind::invalid_argument, "table {}: appends are read between snapshots; give the last one, or a ref",
         metadata.location);
  ScanOptions choice;
  choice.ref = options.ref;
  choice.snapshot_id = range.to_snapshot_id;
  if (range.to_snapshot_id) choice.ref.clear();
  return choose_snapshot(metadata, choice).snapshot;
}

// The snapshots of `range` from `last` back to its start.
std::vector<const Snapshot*> snapshots_of(const TableMetadata& metadata, const AppendRange& range,
                                          const Snapshot* last) {
  std::vector<const Snapshot*> snapshots;
  const Snapshot* snapshot = last;
  while (snapshot != nullptr) {
    const bool is_first = snapshot->snapshot_id == range.from_snapshot_id;
    if (is_first && !range.from_inclusive) return snapshots;
    snapshots.push_back(snapshot);
    if (is_first) return snapshots;
    if (!snapshot->parent_snapshot_id) break;
    // The start itself may have expired: what came after it is all that is asked for.
    if (!range.from_inclusive && snapshot->parent_snapshot_id == range.from_snapshot_id) return snapshots;
    snapshot = metadata.find_snapshot(*snapshot->parent_snapshot_id);
  }
  if (range.from_snapshot_id) {
    fail(ErrorKind::invalid_argument, "table {}: snapshot {} is no ancestor of {}, so no appends lie between them",
         metadata.location, *range.from_snapshot_id,
         last == nullptr ? "an empty table" : std::to_string(last->snapshot_id));
  }
  return snapshots;
}

bool is_append(const TableMetadata& metadata, const Snapshot& snapshot, const AppendRange& range) {
  if (snapshot.operation() == "append") return true;
  if (snapshot.operation() != "replace" && !range.skips_other_operations) {
    fail(ErrorKind::invalid_argument,
         "table {}: snapshot {} in the range is of the operation '{}', not an append; leave such out, or read up to it",
         metadata.location, snapshot.snapshot_id, snapshot.operation());
  }
  return false;
}

}  // namespace

ScanPlan plan_appends(const TableMetadata& metadata, const std::shared_ptr<FileIO>& io, const AppendRange& range,
                      const ScanOptions& options) {
  Span span("iceberg.plan_appends");
  span.set("table", metadata.location);
  const Snapshot* last = last_snapshot(metadata, range, options);
  ScanPlan plan = plan_columns(metadata, metadata.schema(), options);
  std::vector<const Snapshot*> snapshots = snapshots_of(metadata, range, last);
  if (last != nullptr) plan.snapshot_id = last->snapshot_id;
  std::erase_if(snapshots, [&](const Snapshot* snapshot) { return !is_append(metadata, *snapshot, range); });
  std::reverse(snapshots.begin(), snapshots.end());
  std::set<int64_t> ids;
  for (const Snapshot* snapshot : snapshots) ids.insert(snapshot->snapshot_id);

  PlanSource source{.manifests = {},
                    .takes =
                        [&ids](const ManifestEntry& entry) {
                          return entry.status == EntryStatus::added && entry.snapshot_id &&
                                 ids.contains(*entry.snapshot_id);
                        },
                    .has_deletes = false};
  for (const Snapshot* snapshot : snapshots) {
    for (ManifestFile& manifest :
         snapshot_manifests(metadata, *snapshot, [&](const std::string& path) { return io->read(path); })) {
      // What a snapshot added is in the manifests that it wrote.
      if (manifest.content == ManifestContent::data && manifest.added_snapshot_id == snapshot->snapshot_id)
        source.manifests.push_back(std::move(manifest));
    }
  }
  plan_files(metadata, *io, options, source, plan, nullptr);
  span.set("files", static_cast<int64_t>(plan.tasks.size()));
  return plan;
}

}  // namespace firn::iceberg
