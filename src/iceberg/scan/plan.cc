// plan_scan and live_files: manifest list, manifests, pruning, deletes.
#include <algorithm>
#include <limits>
#include <set>

#include "base/error.h"
#include "base/span.h"
#include "iceberg/scan/delete_cache.h"
#include "iceberg/scan/delete_index.h"
#include "iceberg/scan/parallel.h"
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

  const ExpressionPtr& pruning_filter() const {
    static const ExpressionPtr kNone;
    return options.prune ? filter : kNone;
  }
};

// Old v1 snapshots name their manifests in the metadata; such tables have the first spec alone (as Java reads them).
ManifestFile embedded_manifest(const TableMetadata& metadata, const Snapshot& snapshot, const std::string& path) {
  ManifestFile manifest;
  manifest.manifest_path = path;
  manifest.partition_spec_id = metadata.partition_specs.empty() ? 0 : metadata.partition_specs.front().spec_id;
  manifest.sequence_number = 0;
  manifest.min_sequence_number = 0;
  manifest.added_snapshot_id = snapshot.snapshot_id;
  return manifest;
}

std::vector<ManifestFile> manifests_of(const TableMetadata& metadata, const Snapshot& snapshot, FileIO& io) {
  if (!snapshot.manifest_list.empty())
    return read_manifest_list(io.read(snapshot.manifest_list), snapshot.manifest_list);
  std::vector<ManifestFile> manifests;
  for (const std::string& path : snapshot.manifests) manifests.push_back(embedded_manifest(metadata, snapshot, path));
  return manifests;
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

bool has_no_live_files(const ManifestFile& manifest) {
  return manifest.added_files_count == 0 && manifest.existing_files_count == 0;  // unknown counts are not 0
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

bool might_match(const PlanInput& in, const ExpressionPtr& filter, const PartitionSpec& spec, const DataFile& file) {
  return !filter ||
         (partition_might_match(*filter, spec, in.partition_schema, file.partition) && file_might_match(*filter, file));
}

// What rows of the file must still be checked for; nullptr: nothing.
ExpressionPtr residual_of(const PlanInput& in, const PartitionSpec& spec, const DataFile& file) {
  if (!in.filter) return nullptr;
  ExpressionPtr rest = residual(in.filter, spec, in.partition_schema, file.partition);
  if (rest->op == Op::always_true || (in.options.prune && file_must_match(*rest, file))) return nullptr;
  return rest;
}

std::vector<FileScanTask> tasks_of_manifest(const PlanInput& in, const ManifestFile& manifest) {
  const PartitionSpec& spec = in.metadata.spec(manifest.partition_spec_id);
  const std::vector<int32_t> wanted = in.filter ? referenced_field_ids(*in.filter) : std::vector<int32_t>();
  std::vector<FileScanTask> tasks;
  int64_t pruned = 0;
  for (ManifestEntry& entry : read_live_entries(in.metadata, in.partition_schema, in.io, manifest, &wanted)) {
    if (!might_match(in, in.pruning_filter(), spec, entry.file)) {
      ++pruned;
      continue;
    }
    FileScanTask task;
    task.residual = residual_of(in, spec, entry.file);
    task.constants = identity_values(spec, in.table_schema, entry.file.partition);
    task.data_sequence_number = entry.sequence_number.value_or(0);
    task.file_sequence_number = entry.file_sequence_number.value_or(task.data_sequence_number);
    task.file = std::move(entry.file);
    tasks.push_back(std::move(task));
  }
  if (in.options.counters != nullptr) in.options.counters->files_pruned += pruned;
  return tasks;
}

std::vector<FileScanTask> plan_data_files(const PlanInput& in, const std::vector<ManifestFile>& manifests) {
  std::vector<const ManifestFile*> chosen;
  int64_t skipped = 0;
  for (const ManifestFile& manifest : manifests) {
    if (manifest.content != ManifestContent::data) continue;
    const ExpressionPtr& filter = in.pruning_filter();
    const bool may_matter = !has_no_live_files(manifest) &&
                            (!filter || manifest_might_match(*filter, in.metadata.spec(manifest.partition_spec_id),
                                                             in.partition_schema, manifest));
    if (may_matter) chosen.push_back(&manifest);
    if (!may_matter) ++skipped;
  }
  std::vector<std::vector<FileScanTask>> by_manifest(chosen.size());
  parallel_for(chosen.size(), in.options.threads,
               [&](size_t i) { by_manifest[i] = tasks_of_manifest(in, *chosen[i]); });
  std::vector<FileScanTask> tasks;
  for (std::vector<FileScanTask>& part : by_manifest) {
    tasks.insert(tasks.end(), std::make_move_iterator(part.begin()), std::make_move_iterator(part.end()));
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
DeleteIndex index_deletes(const PlanInput& in, const std::vector<ManifestFile>& manifests,
                          int64_t data_sequence_number_min) {
  std::vector<const ManifestFile*> chosen;
  for (const ManifestFile& manifest : manifests) {
    if (manifest.content != ManifestContent::deletes || has_no_live_files(manifest)) continue;
    // A manifest's entries are no newer than itself.
    if (manifest.sequence_number && *manifest.sequence_number < data_sequence_number_min) continue;
    chosen.push_back(&manifest);
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

void attach_deletes(const PlanInput& in, const std::vector<ManifestFile>& manifests, ScanPlan& plan) {
  if (plan.tasks.empty()) return;
  int64_t oldest = std::numeric_limits<int64_t>::max();
  for (const FileScanTask& task : plan.tasks) oldest = std::min(oldest, task.data_sequence_number);
  const DeleteIndex index = index_deletes(in, manifests, oldest);
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

ScanPlan plan_scan(const TableMetadata& metadata, const std::shared_ptr<FileIO>& io, const ScanOptions& options) {
  Span span("iceberg.plan_scan");
  span.set("table", metadata.location);
  const SnapshotChoice choice = choose_snapshot(metadata, options);
  ScanPlan plan;
  plan.table_schema = choice.schema;
  plan.projection = choose_columns(choice.schema, options);
  if (options.filter) {
    plan.filter = bind(*options.filter, choice.schema, options.case_sensitive);
    if (plan.filter->op == Op::always_true) plan.filter = nullptr;
  }
  const std::string mapping = metadata.property("schema.name-mapping.default", "");
  if (!mapping.empty()) {
    const std::string title = "schema.name-mapping.default of " + metadata.location;
    plan.name_mapping = name_mapping_from_json(parse_json(mapping, title), title);
  }
  if (choice.snapshot == nullptr) return plan;
  plan.snapshot_id = choice.snapshot->snapshot_id;

  const PlanInput in{metadata,   *io, options, choice.schema, schema_with_partition_sources(metadata, choice.schema),
                     plan.filter};
  const std::vector<ManifestFile> manifests = manifests_of(metadata, *choice.snapshot, *io);
  plan.tasks = plan_data_files(in, manifests);
  attach_deletes(in, manifests, plan);
  span.set("snapshot_id", *plan.snapshot_id);
  span.set("files", static_cast<int64_t>(plan.tasks.size()));
  return plan;
}

std::vector<LiveFile> live_files(const TableMetadata& metadata, const Snapshot& snapshot, FileIO& io) {
  const Schema partition_schema = schema_with_partition_sources(metadata, metadata.schema());
  std::vector<LiveFile> files;
  for (const ManifestFile& manifest : manifests_of(metadata, snapshot, io)) {
    if (has_no_live_files(manifest)) continue;
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
