// plan_scan and live_files: manifest list, manifests, pruning, deletes.
#include "iceberg/scan/plan.h"

#include <algorithm>
#include <limits>
#include <set>

#include "base/error.h"
#include "base/parallel.h"
#include "base/span.h"
#include "iceberg/manifest/snapshot_manifests.h"
#include "iceberg/scan/delete_cache.h"
#include "iceberg/scan/delete_index.h"
#include "iceberg/scan/projection.h"
#include "iceberg/scan/snapshot_choice.h"

namespace firn::iceberg {

namespace {

// What every manifest of a plan is read with.
struct PlanInput {
  const TableMetadata& metadata;
  FileIO& io;
  const ScanOptions& options;
  Schema table_schema;
  Schema partition_schema;  // table_schema, and the sources of partition fields that it lacks
  ExpressionPtr filter;     // bound; nullptr: none
  const PlanSource& source;
  ScanExplanation* explanation;  // nullptr: not asked for

  const ExpressionPtr& pruning_filter() const {
    static const ExpressionPtr kNone;
    return options.prune ? filter : kNone;
  }
};

std::vector<ManifestFile> manifests_of(const TableMetadata& metadata, const Snapshot& snapshot, FileIO& io) {
  return snapshot_manifests(metadata, snapshot, [&io](const std::string& path) { return io.read(path); });
}

// The table's schema, and what it lacks of the sources of older specs: their partition values have types still.
Schema schema_with_partition_sources(const TableMetadata& metadata, const Schema& table_schema) {
  std::set<int32_t> sources;
  for (const PartitionSpec& spec : metadata.partition_specs) {
    for (const PartitionField& field : spec.fields) sources.insert(field.source_ids.begin(), field.source_ids.end());
  }
  const Schema dropped = columns_of_other_schemas(metadata, table_schema, sources);
  return dropped.fields().empty() ? table_schema : Schema(merge_fields(table_schema.fields(), dropped.fields()));
}

void check_not_encrypted(const std::string& path, const std::string& key_metadata) {
  if (!key_metadata.empty()) fail(ErrorKind::unsupported, "{} is encrypted; firn reads no encrypted files", path);
}

std::vector<ManifestEntry> read_live_entries(const TableMetadata& metadata, const Schema& partition_schema, FileIO& io,
                                             const ManifestFile& manifest, const std::vector<int32_t>* columns_wanted) {
  check_not_encrypted(manifest.manifest_path, manifest.key_metadata);
  std::vector<ManifestEntry> entries = read_manifest(io.read(manifest.manifest_path), manifest,
                                                     metadata.spec(manifest.partition_spec_id), partition_schema,
                                                     /*live_only=*/true, columns_wanted);
  for (ManifestEntry& entry : entries) {
    entry.file.partition_spec_id = manifest.partition_spec_id;
    check_not_encrypted(entry.file.file_path, entry.file.key_metadata);
  }
  return entries;
}

// Identity partition values by column (spec, "Column Projection": they stand in for columns that the file lacks). All
// values of the column equal them, so they serve also where the file has it.
std::map<int32_t, Value> identity_values(const PartitionSpec& spec, const Schema& table_schema,
                                         const std::vector<Value>& partition) {
  std::map<int32_t, Value> values;
  for (size_t i = 0; i < spec.fields.size() && i < partition.size(); ++i) {
    const PartitionField& field = spec.fields[i];
    if (field.transform.kind != TransformKind::identity || is_null(partition[i]) || field.source_ids.size() != 1)
      continue;
    const Field* source = table_schema.find_field(field.source_id());
    if (source != nullptr && !table_schema.is_nested_below_list_or_map(source->id))
      values.emplace(source->id, partition[i]);
  }
  return values;
}

PlanRule rule_against(const PlanInput& in, const PartitionSpec& spec, const DataFile& file) {
  const ExpressionPtr& filter = in.pruning_filter();
  if (!filter) return PlanRule::none;
  if (!partition_might_match(*filter, spec, in.partition_schema, file.partition)) return PlanRule::partition;
  return file_might_match(*filter, file) ? PlanRule::none : PlanRule::metrics;
}

PlanRule rule_against(const PlanInput& in, const ManifestFile& manifest) {
  if (!may_hold_live_files(manifest)) return PlanRule::no_live_files;
  const ExpressionPtr& filter = in.pruning_filter();
  const bool might_match = !filter || manifest_might_match(*filter, in.metadata.spec(manifest.partition_spec_id),
                                                           in.partition_schema, manifest);
  return might_match ? PlanRule::none : PlanRule::partition_range;
}

// What rows of the file must still be checked for; nullptr: nothing.
ExpressionPtr residual_of(const PlanInput& in, const PartitionSpec& spec, const DataFile& file) {
  if (!in.filter) return nullptr;
  ExpressionPtr rest = residual(in.filter, spec, in.partition_schema, file.partition);
  if (rest->op == Op::always_true || (in.options.prune && file_must_match(*rest, file))) return nullptr;
  return rest;
}

struct PlannedManifest {
  std::vector<FileScanTask> tasks;
  std::vector<ExplainedFile> explained;  // if asked for
};

PlannedManifest plan_manifest(const PlanInput& in, const ManifestFile& manifest) {
  const PartitionSpec& spec = in.metadata.spec(manifest.partition_spec_id);
  const std::vector<int32_t> wanted = in.filter ? referenced_field_ids(*in.filter) : std::vector<int32_t>();
  std::vector<ManifestEntry> entries = read_live_entries(in.metadata, in.partition_schema, in.io, manifest, &wanted);
  PlannedManifest planned;
  if (!in.pruning_filter()) planned.tasks.reserve(entries.size());
  int64_t pruned = 0;
  for (ManifestEntry& entry : entries) {
    if (in.source.takes && !in.source.takes(entry)) continue;
    const PlanRule rule = rule_against(in, spec, entry.file);
    if (in.explanation != nullptr) {
      planned.explained.push_back({.path = entry.file.file_path,
                                   .format = entry.file.file_format,
                                   .rows = entry.file.record_count,
                                   .size_bytes = entry.file.file_size_bytes,
                                   .pruned_by = rule});
    }
    if (rule != PlanRule::none) {
      ++pruned;
      continue;
    }
    FileScanTask& task = planned.tasks.emplace_back();
    task.residual = residual_of(in, spec, entry.file);
    task.constants = identity_values(spec, in.table_schema, entry.file.partition);
    task.data_sequence_number = entry.sequence_number.value_or(0);
    task.file_sequence_number = entry.file_sequence_number.value_or(task.data_sequence_number);
    task.file = std::move(entry.file);
  }
  if (in.options.counters != nullptr) in.options.counters->files_pruned += pruned;
  return planned;
}

std::vector<FileScanTask> plan_data_files(const PlanInput& in) {
  std::vector<const ManifestFile*> chosen;
  int64_t skipped = 0;
  for (const ManifestFile& manifest : in.source.manifests) {
    if (manifest.content != ManifestContent::data) continue;
    const PlanRule rule = rule_against(in, manifest);
    if (rule == PlanRule::none) chosen.push_back(&manifest);
    if (rule != PlanRule::none) ++skipped;
    if (in.explanation != nullptr)
      in.explanation->manifests.push_back({manifest.manifest_path, manifest.content, rule});
  }
  std::vector<PlannedManifest> by_manifest(chosen.size());
  parallel_for(chosen.size(), in.options.threads, [&](size_t i) { by_manifest[i] = plan_manifest(in, *chosen[i]); });
  size_t count = 0;
  for (const PlannedManifest& part : by_manifest) count += part.tasks.size();
  std::vector<FileScanTask> tasks;
  tasks.reserve(count);
  for (PlannedManifest& part : by_manifest) {
    std::move(part.tasks.begin(), part.tasks.end(), std::back_inserter(tasks));
    part.tasks = {};
    if (in.explanation != nullptr)
      std::move(part.explained.begin(), part.explained.end(), std::back_inserter(in.explanation->files));
  }
  if (ReadCounters* counters = in.options.counters) {
    counters->manifests_read += static_cast<int64_t>(chosen.size());
    counters->manifests_skipped += skipped;
    counters->files_planned += static_cast<int64_t>(tasks.size());
  }
  return tasks;
}

// Only age leaves a delete file out here. The filter does not: it may prove something of the delete file's partition
// that does not hold for a data file it names (delete_index.cc), and a pruned answer must be the unpruned one.
DeleteIndex index_deletes(const PlanInput& in, int64_t data_sequence_number_min) {
  std::vector<const ManifestFile*> chosen;
  for (const ManifestFile& manifest : in.source.manifests) {
    if (manifest.content != ManifestContent::deletes) continue;
    PlanRule rule = may_hold_live_files(manifest) ? PlanRule::none : PlanRule::no_live_files;
    // A manifest's entries are no newer than itself.
    if (manifest.sequence_number && *manifest.sequence_number < data_sequence_number_min) rule = PlanRule::older;
    if (rule == PlanRule::none) chosen.push_back(&manifest);
    if (in.explanation != nullptr)
      in.explanation->manifests.push_back({manifest.manifest_path, manifest.content, rule});
  }
  static const std::vector<int32_t> kWanted = {kDeleteFilePathFieldId};
  std::vector<std::vector<ManifestEntry>> by_manifest(chosen.size());
  parallel_for(chosen.size(), in.options.threads, [&](size_t i) {
    by_manifest[i] = read_live_entries(in.metadata, in.partition_schema, in.io, *chosen[i], &kWanted);
  });
  DeleteIndex index;
  for (std::vector<ManifestEntry>& entries : by_manifest) {
    for (ManifestEntry& entry : entries) {
      const int64_t sequence_number = entry.sequence_number.value_or(0);
      if (sequence_number < data_sequence_number_min) continue;
      const bool is_global = in.metadata.spec(entry.file.partition_spec_id).is_unpartitioned();
      index.add(std::move(entry.file), sequence_number, is_global);
    }
  }
  if (in.options.counters != nullptr) in.options.counters->manifests_read += static_cast<int64_t>(chosen.size());
  return index;
}

void attach_deletes(const PlanInput& in, ScanPlan& plan) {
  if (plan.tasks.empty() || !in.source.has_deletes) return;
  int64_t oldest = std::numeric_limits<int64_t>::max();
  for (const FileScanTask& task : plan.tasks) oldest = std::min(oldest, task.data_sequence_number);
  const DeleteIndex index = index_deletes(in, oldest);
  if (index.empty()) return;
  std::set<int32_t> equality_ids;
  for (FileScanTask& task : plan.tasks) {
    task.deletes = index.applicable(task.file, task.data_sequence_number);
    for (const auto& file : task.deletes) equality_ids.insert(file->equality_ids.begin(), file->equality_ids.end());
  }
  plan.dropped_columns = columns_of_other_schemas(in.metadata, plan.table_schema, equality_ids);
  plan.delete_cache = make_delete_cache();
}

}  // namespace

ScanPlan plan_columns(const TableMetadata& metadata, const Schema& table_schema, const ScanOptions& options) {
  ScanPlan plan;
  plan.table_schema = table_schema;
  plan.projection = choose_columns(table_schema, options);
  if (options.filter) {
    plan.filter = bind(*options.filter, table_schema, options.case_sensitive);
    if (plan.filter->op == Op::always_true) plan.filter = nullptr;
  }
  const std::string mapping = metadata.property("schema.name-mapping.default", "");
  if (!mapping.empty()) {
    const std::string title = "schema.name-mapping.default of " + metadata.location;
    plan.name_mapping = name_mapping_from_json(parse_json(mapping, title), title);
  }
  return plan;
}

void plan_files(const TableMetadata& metadata, FileIO& io, const ScanOptions& options, const PlanSource& source,
                ScanPlan& plan, ScanExplanation* explanation) {
  const PlanInput in{
      metadata,    io,     options,    plan.table_schema, schema_with_partition_sources(metadata, plan.table_schema),
      plan.filter, source, explanation};
  plan.tasks = plan_data_files(in);
  attach_deletes(in, plan);
}

ScanPlan one_task_plan(const ScanPlan& plan, size_t task_index) {
  ScanPlan one;
  one.snapshot_id = plan.snapshot_id;
  one.table_schema = plan.table_schema;
  one.projection = plan.projection;
  one.name_mapping = plan.name_mapping;
  one.filter = plan.filter;
  one.tasks.push_back(plan.tasks.at(task_index));
  one.dropped_columns = plan.dropped_columns;
  one.delete_cache = plan.delete_cache;
  return one;
}

ScanPlan plan_snapshot(const TableMetadata& metadata, FileIO& io, const ScanOptions& options,
                       ScanExplanation* explanation) {
  const SnapshotChoice choice = choose_snapshot(metadata, options);
  ScanPlan plan = plan_columns(metadata, choice.schema, options);
  if (choice.snapshot == nullptr) return plan;
  plan.snapshot_id = choice.snapshot->snapshot_id;
  plan_files(metadata, io, options, {.manifests = manifests_of(metadata, *choice.snapshot, io), .takes = {}}, plan,
             explanation);
  return plan;
}

ScanPlan plan_scan(const TableMetadata& metadata, const std::shared_ptr<FileIO>& io, const ScanOptions& options) {
  Span span("iceberg.plan_scan");
  span.set("table", metadata.location);
  ScanPlan plan = plan_snapshot(metadata, *io, options, nullptr);
  if (plan.snapshot_id) span.set("snapshot_id", *plan.snapshot_id);
  span.set("files", static_cast<int64_t>(plan.tasks.size()));
  return plan;
}

std::vector<LiveFile> live_files(const TableMetadata& metadata, const Snapshot& snapshot, FileIO& io) {
  const Schema partition_schema = schema_with_partition_sources(metadata, metadata.schema());
  std::vector<LiveFile> files;
  for (const ManifestFile& manifest : manifests_of(metadata, snapshot, io)) {
    if (!may_hold_live_files(manifest)) continue;
    for (ManifestEntry& entry : read_live_entries(metadata, partition_schema, io, manifest, nullptr)) {
      LiveFile live;
      live.data_sequence_number = entry.sequence_number.value_or(0);
      live.file_sequence_number = entry.file_sequence_number.value_or(live.data_sequence_number);
      live.snapshot_id = entry.snapshot_id.value_or(manifest.added_snapshot_id);
      live.file = std::move(entry.file);
      files.push_back(std::move(live));
    }
  }
  return files;
}

}  // namespace firn::iceberg
