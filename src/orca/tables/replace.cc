#include "orca/tables/replace.h"

#include <map>
#include <unordered_set>

#include "base/error.h"
#include "base/fault_point.h"
#include "base/log.h"
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

// The live entries of the current snapshot that `takes` says, with their spec ids; metrics left out. Manifests are read
// where `may_hold` says that they may hold one.
template <class MayHold, class Takes>
std::vector<iceberg::ManifestEntry> live_entries(const iceberg::TableMetadata& base, FileIO& io,
                                                 const MayHold& may_hold, const Takes& takes) {
  std::vector<iceberg::ManifestEntry> taken;
  const iceberg::Snapshot* head = base.current_snapshot();
  if (head == nullptr) return taken;
  const auto read = [&](const std::string& path) { return *iceberg::manifest_cache().read(io, path); };
  const std::vector<int32_t> no_columns;
  for (const iceberg::ManifestFile& manifest : iceberg::snapshot_manifests(base, *head, read)) {
    if (!iceberg::may_hold_live_files(manifest) || !may_hold(manifest)) continue;
    for (iceberg::ManifestEntry& entry : iceberg::read_manifest(
             *iceberg::manifest_cache().read(io, manifest.manifest_path), manifest,
             base.spec(manifest.partition_spec_id), base.schema(), /*live_only=*/true, &no_columns)) {
      entry.file.partition_spec_id = manifest.partition_spec_id;
      if (takes(entry.file)) taken.push_back(std::move(entry));
    }
  }
  return taken;
}

// What goes where none of it is the run's own: the partitions of the new files; of an unpartitioned table all, also
// what was written while it had partitions. No files take nothing.
std::vector<iceberg::ManifestEntry> entries_to_replace(const iceberg::TableMetadata& base, const DataFiles& files,
                                                       FileIO& io) {
  if (base.spec().is_unpartitioned() && !files.files.empty())
    return live_entries(
        base, io, [](const auto&) { return true; }, [](const auto&) { return true; });
  iceberg::SnapshotChange partitions;
  std::unordered_set<std::string> seen;
  for (const iceberg::DataFile& file : files.files) {
    if (seen.insert(iceberg::partition_key(file.partition_spec_id, file.partition)).second)
      partitions.replaced_partitions.push_back({file.partition_spec_id, file.partition});
  }
  return taken_entries(base, partitions, io);
}

// Live files of an older spec that may hold rows of the partitions that are replaced.
struct OlderFiles {
  std::vector<size_t> our_fields, their_fields;  // that both specs have, in the same order
  std::unordered_set<std::string> replaced;      // key_of the new files
  int64_t num_files = 0, num_records = 0;
};

std::string key_of(const std::vector<iceberg::Value>& partition, const std::vector<size_t>& fields) {
  std::vector<iceberg::Value> values;
  for (const size_t field : fields) values.push_back(partition.at(field));
  return iceberg::partition_key(0, values);
}

OlderFiles older_files(const iceberg::PartitionSpec& ours, const iceberg::PartitionSpec& theirs,
                       const DataFiles& files) {
  OlderFiles older;
  for (size_t i = 0; i < ours.fields.size(); ++i) {
    for (size_t j = 0; j < theirs.fields.size(); ++j) {
      const iceberg::PartitionField &our = ours.fields[i], &their = theirs.fields[j];
      if (our.source_ids != their.source_ids || !(our.transform == their.transform)) continue;
      older.our_fields.push_back(i);
      older.their_fields.push_back(j);
    }
  }
  for (const iceberg::DataFile& file : files.files) older.replaced.insert(key_of(file.partition, older.our_fields));
  return older;
}

// What stays of older specs where `files` come to, for the log: "2 files with 30 rows of spec 0". Empty: nothing.
std::string left_alone(const iceberg::TableMetadata& base, const DataFiles& files, FileIO& io) {
  if (base.partition_specs.size() < 2 || base.spec().is_unpartitioned() || files.files.empty()) return "";
  std::map<int32_t, OlderFiles> by_spec;
  for (const iceberg::PartitionSpec& spec : base.partition_specs) {
    if (spec.spec_id != base.default_spec_id) by_spec.emplace(spec.spec_id, older_files(base.spec(), spec, files));
  }
  const auto stay = live_entries(
      base, io,
      [&](const iceberg::ManifestFile& manifest) {
        return manifest.content == iceberg::ManifestContent::data && by_spec.contains(manifest.partition_spec_id);
      },
      [&](const iceberg::DataFile& file) {
        const OlderFiles& older = by_spec.at(file.partition_spec_id);
        return older.replaced.contains(key_of(file.partition, older.their_fields));
      });
  for (const iceberg::ManifestEntry& entry : stay) {
    OlderFiles& older = by_spec.at(entry.file.partition_spec_id);
    ++older.num_files;
    older.num_records += entry.file.record_count;
  }
  std::string text;
  for (const auto& [spec_id, older] : by_spec) {
    if (older.num_files == 0) continue;
    text += fmt::format("{}{} files with {} rows of spec {}", text.empty() ? "" : ", ", older.num_files,
                        older.num_records, spec_id);
  }
  return text;
}

iceberg::SnapshotChange plan(Ctx& ctx, const Table& table, const iceberg::TableMetadata& base, const DataFiles& files) {
  check_spec(base, files, table);
  iceberg::SnapshotChange change;
  int64_t num_files = 0, num_records = 0;
  FileOwners owners(base, *table.io(), ctx.id(), table.title());
  for (iceberg::ManifestEntry& entry : entries_to_replace(base, files, *table.io())) {
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
  const iceberg::Removal removal(change);
  if (removal.empty()) return {};
  return live_entries(
      base, io, [&](const iceberg::ManifestFile& manifest) { return removal.may_take_from(manifest, base); },
      [&](const iceberg::DataFile& file) { return removal.takes(file); });
}

int64_t publish_replacement(Ctx& ctx, Table& table, StepCommit& step, const DataFiles& files, bool& is_recognised) {
  for (int num_plans = 1;; ++num_plans) {
    table.refresh();
    if (const auto landed = step.landed()) {
      is_recognised = true;
      return *landed;
    }
    const iceberg::TableMetadata& planned_on = table.metadata();
    const int32_t spec_id = planned_on.default_spec_id;
    iceberg::SnapshotChange change = plan(ctx, table, planned_on, files);
    change.added = files.files;
    const std::string left = left_alone(planned_on, files, *table.io());
    fault_point("orca.replacement_planned");
    try {
      const int64_t snapshot_id = step.publish(
          std::move(change),
          [&, planned_snapshot = planned_on.current_snapshot_id](const iceberg::TableMetadata& base) {
            if (base.current_snapshot_id != planned_snapshot || base.default_spec_id != spec_id) throw BaseMoved();
            check_schemas(base, files);
          },
          is_recognised);
      if (!left.empty() && !is_recognised) {
        spdlog::warn(
            "{}: {} may hold earlier rows of the partitions that step {} replaced, and were left alone: only files of "
            "the table's current partition spec ({}) are replaced. Rewrite them into it (firn compact {} --all), then "
            "run these keys again",
            table.title(), left, ctx.id().step, spec_id, table.location());
      }
      return snapshot_id;
    } catch (const BaseMoved&) {
      if (num_plans == kPlansMax)
        fail(ErrorKind::commit_conflict,
             "{}: other writers came first {} times; nothing was committed. Try again, with fewer writers at once",
             table.title(), num_plans);
    }
  }
}

}  // namespace firn::orca
