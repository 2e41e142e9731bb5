#include "iceberg/scan/snapshot_choice.h"

#include <fmt/ranges.h>

#include "base/civil_time.h"
#include "base/error.h"

namespace firn::iceberg {

namespace {

const Schema& schema_of(const TableMetadata& metadata, const Snapshot& snapshot) {
  return snapshot.schema_id ? metadata.schema(*snapshot.schema_id) : metadata.schema();
}

const Snapshot& existing_snapshot(const TableMetadata& metadata, int64_t id, std::string_view asked_by) {
  const Snapshot* snapshot = metadata.find_snapshot(id);
  if (snapshot == nullptr) {
    fail(ErrorKind::not_found,
         "table {}: snapshot {} ({}) is not there; it may have expired. `firn snapshots` lists those kept",
         metadata.location, id, asked_by);
  }
  return *snapshot;
}

// The snapshot that was current at that time: the log tells, since a rollback makes an older one current again.
const Snapshot& snapshot_as_of(const TableMetadata& metadata, int64_t as_of_ms) {
  std::optional<int64_t> id;
  for (const SnapshotLogEntry& entry : metadata.snapshot_log) {
    if (entry.timestamp_ms <= as_of_ms) id = entry.snapshot_id;
  }
  if (metadata.snapshot_log.empty()) {  // optional in metadata: follow the parents instead
    const Snapshot* snapshot = metadata.current_snapshot();
    while (snapshot != nullptr && snapshot->timestamp_ms > as_of_ms) {
      snapshot = snapshot->parent_snapshot_id ? metadata.find_snapshot(*snapshot->parent_snapshot_id) : nullptr;
    }
    if (snapshot != nullptr) id = snapshot->snapshot_id;
  }
  const std::string when = format_timestamp_ms_utc(as_of_ms);
  if (!id) fail(ErrorKind::not_found, "table {} has no snapshot as of {}", metadata.location, when);
  return existing_snapshot(metadata, *id, "current as of " + when);
}

SnapshotChoice choose_ref(const TableMetadata& metadata, const std::string& name) {
  const auto found = metadata.refs.find(name);
  if (found == metadata.refs.end()) {
    if (name == "main") return {metadata.current_snapshot(), metadata.schema()};
    std::vector<std::string> names;
    for (const auto& [ref, unused] : metadata.refs) names.push_back(ref);
    fail(ErrorKind::not_found, "table {} has no branch or tag '{}'; it has: {}", metadata.location, name,
         names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
  }
  const Snapshot& snapshot = existing_snapshot(metadata, found->second.snapshot_id, "of ref " + name);
  return {&snapshot, found->second.is_branch ? metadata.schema() : schema_of(metadata, snapshot)};
}

std::optional<Field> metadata_column(std::string_view name) {
  const TypePtr long_type = Type::primitive(TypeId::long_);
  if (name == "_row_id") return Field{kRowIdFieldId, "_row_id", false, long_type};
  if (name == "_last_updated_sequence_number") {
    return Field{kLastUpdatedSequenceNumberFieldId, "_last_updated_sequence_number", false, long_type};
  }
  if (name == "_file") return Field{kFilePathFieldId, "_file", true, Type::primitive(TypeId::string)};
  if (name == "_pos") return Field{kPosFieldId, "_pos", true, long_type};
  return std::nullopt;
}

// A top-level column by name; a name with dots in it may be one.
const Field* find_column(const Schema& schema, const std::string& name, bool case_sensitive) {
  for (const Field& field : schema.fields()) {
    if (field.name == name) return &field;
  }
  if (case_sensitive) return nullptr;
  const Field* found = schema.find_field_ci(name);
  return found != nullptr && schema.path_to(found->id).size() == 1 ? found : nullptr;
}

}  // namespace

SnapshotChoice choose_snapshot(const TableMetadata& metadata, const ScanOptions& options) {
  const int choices = (options.snapshot_id ? 1 : 0) + (options.ref.empty() ? 0 : 1) + (options.as_of_ms ? 1 : 0);
  if (choices > 1) {
    fail(ErrorKind::invalid_argument, "table {}: name a snapshot id, a ref or a time, not more than one of them",
         metadata.location);
  }
  if (!options.ref.empty()) return choose_ref(metadata, options.ref);
  if (choices == 0) return {metadata.current_snapshot(), metadata.schema()};
  const Snapshot& snapshot = options.snapshot_id ? existing_snapshot(metadata, *options.snapshot_id, "asked for by id")
                                                 : snapshot_as_of(metadata, *options.as_of_ms);
  return {&snapshot, schema_of(metadata, snapshot)};
}

Schema choose_columns(const Schema& table_schema, const ScanOptions& options) {
  std::vector<Field> fields;
  if (options.columns.empty()) fields = table_schema.fields();
  for (const std::string& name : options.columns) {
    if (const Field* field = find_column(table_schema, name, options.case_sensitive)) {
      fields.push_back(*field);
    } else if (const std::optional<Field> column = metadata_column(name)) {
      fields.push_back(*column);
    } else {
      std::vector<std::string> names;
      for (const Field& known : table_schema.fields()) names.push_back(known.name);
      fail(ErrorKind::not_found, "no column '{}'; the table has: {}", name, fmt::join(names, ", "));
    }
  }
  if (options.row_lineage) {
    for (const char* name : {"_row_id", "_last_updated_sequence_number"}) {
      const Field column = *metadata_column(name);
      const bool there =
          std::any_of(fields.begin(), fields.end(), [&](const Field& field) { return field.id == column.id; });
      if (!there) fields.push_back(column);
    }
  }
  return Schema(std::move(fields), table_schema.schema_id());
}

}  // namespace firn::iceberg
