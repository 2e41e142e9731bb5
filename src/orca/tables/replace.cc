#include "orca/tables/replace.h"

#include <unordered_set>

#include "base/error.h"
#include "base/fault_point.h"
#include "iceberg/commit/history.h"
#include "iceberg/commit/manifest_cache.h"
#include "iceberg/commit/removal.h"
#include "iceberg/manifest/file_identity.h"
#include "iceberg/manifest/snapshot_manifests.h"
#include "orca/tables/file_owners.h"

namespace firn::orca {
namespace {

// Each new plan means that another writer committed meanwhile, so some writer always gets on.
constexpr int kPlansMax = 100;

// Thrown through the commit loop, which knows then that no try of it landed: the plan is for another snapshot.
struct BaseMoved {};

void check_spec(const iceberg::TableMetadata& base, const DataFiles& files, const Table& table) {
  for (const iceberg::DataFile& file : files.files) {
    if (file.partition_spec_id == base.default_spec_id) continue;
    fail(ErrorKind::partition_spec_drift,
         "{}: {} was written under partition spec {}, and the table's is now {}: only partitions of the current spec "
         "are "
         "replaced. Write the rows again",
         table.title(), file.file_path, file.partition_spec_id, base.default_spec_id);
  }
}

iceberg::SnapshotChange plan(Ctx& ctx, const Table& table, const iceberg::TableMetadata& base, const DataFiles& files) {
  check_spec(base, files, table);
  iceberg::SnapshotChange partitions;
  std::unordered_set<std::string> seen;
  for (const iceberg::DataFile& file : files.files) {
    if (seen.insert(iceberg::partition_key(file.partition_spec_id, file.partition)).second)
      partitions.replaced_partitions.push_back({file.partition_spec_id, file.partition});
  }
  iceberg::SnapshotChange change;
  int64_t num_files = 0, num_records = 0;
  FileOwners owners(base, *table.io(), ctx.id(), table.title());
  for (iceberg::ManifestEntry& entry : taken_entries(base, partitions, *table.io())) {
    if (!owners.is_replaced(entry)) continue;
    if (entry.file.content == iceberg::FileContent::data) {
      ++num_files;
      num_records += entry.file.record_count;
    }
    change.removed.push_back(std::move(entry.file));
  }
  change.operation = change.removed.empty() ? "append" : "overwrite";
  change.summary["orca.replaced-files"] = std::to_string(num_files);
  change.summary["orca.replaced-records"] = std::to_string(num_records);
  return change;
}

}  // namespace

void check_schemas(const iceberg::TableMetadata& base, const DataFiles& files) {
  for (const iceberg::Schema& schema : files.schemas) iceberg::check_field_ids(base, schema);
}

std::vector<iceberg::ManifestEntry> taken_entries(const iceberg::TableMetadata& base,
                                                  const iceberg::SnapshotChange& change, FileIO& io) {
  std::vector<iceberg::ManifestEntry> taken;
  const iceberg::Snapshot* head = base.current_snapshot();
  const iceberg::Removal removal(change);
  if (head == nullptr || removal.empty()) return taken;
  const auto read = [&](const std::string& path) { return *iceberg::manifest_cache().read(io, path); };
  const std::vector<int32_t> no_columns;
  for (const iceberg::ManifestFile& manifest : iceberg::snapshot_manifests(base, *head, read)) {
    if (!iceberg::may_hold_live_files(manifest) || !removal.may_take_from(manifest, base)) continue;
    for (iceberg::ManifestEntry& entry : iceberg::read_manifest(
             *iceberg::manifest_cache().read(io, manifest.manifest_path), manifest,
             base.spec(manifest.partition_spec_id), base.schema(), /*live_only=*/true, &no_columns)) {
      entry.file.partition_spec_id = manifest.partition_spec_id;
      if (removal.takes(entry.file)) taken.push_back(std::move(entry));
    }
  }
  return taken;
}

int64_t publish_replacement(Ctx& ctx, Table& table, StepCommit& step, const DataFiles& files, bool& is_recognised) {
  for (int num_plans = 1;; ++num_plans) {
    table.refresh();
    if (const auto landed = step.landed()) {
      is_recognised = true;
      return *landed;
    }
    const iceberg::TableMetadata& planned_on = table.metadata();
    iceberg::SnapshotChange change = plan(ctx, table, planned_on, files);
    change.added = files.files;
    fault_point("orca.replacement_planned");
    try {
      return step.publish(
          std::move(change),
          [&, snapshot_id = planned_on.current_snapshot_id,
           spec_id = planned_on.default_spec_id](const iceberg::TableMetadata& base) {
            if (base.current_snapshot_id != snapshot_id || base.default_spec_id != spec_id) throw BaseMoved();
            check_schemas(base, files);
          },
          is_recognised);
    } catch (const BaseMoved&) {
      if (num_plans == kPlansMax)
        fail(ErrorKind::commit_conflict,
             "{}: other writers came first {} times; nothing was committed. Try again, with fewer writers at once",
             table.title(), num_plans);
    }
  }
}

}  // namespace firn::orca
