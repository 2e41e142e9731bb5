#include "iceberg/inspect/check_metadata.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/arrow_status.h"
#include "base/uuid.h"
#include "iceberg/full_names.h"
#include "iceberg/puffin/puffin.h"
#include "iceberg/schema_update.h"

namespace firn::iceberg {
namespace {

constexpr int32_t kFieldIdMax = 2147483447;
constexpr int64_t kClockSlackMs = 60'000;  // Java refuses logs that run back by more

class MetadataCheck {
 public:
  MetadataCheck(const TableMetadata& metadata, Findings& findings) : metadata_(metadata), findings_(findings) {}

  void run() {
    check_uuid();
    check_schemas();
    check_specs();
    check_sort_orders();
    check_snapshots();
    if (metadata_.format_version >= 3) check_row_ids();
    check_refs();
    check_logs();
  }

 private:
  template <class... Args>
  void error(std::string_view code, const std::string& object, fmt::format_string<Args...> format, Args&&... args) {
    findings_.error(code, object, fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  void warning(std::string_view code, const std::string& object, fmt::format_string<Args...> format, Args&&... args) {
    findings_.warning(code, object, fmt::format(format, std::forward<Args>(args)...));
  }

  void check_uuid() {
    if (metadata_.table_uuid.empty()) {
      if (metadata_.format_version >= 2) error("uuid-invalid", "metadata", "the table has no uuid");
    } else if (!uuid_to_bytes(metadata_.table_uuid)) {
      warning("uuid-invalid", "metadata", "the table's uuid is '{}'", metadata_.table_uuid);
    }
  }

  void check_schemas() {
    std::set<int32_t> ids;
    std::map<int32_t, const Field*> known;
    for (const Schema& schema : metadata_.schemas) {
      const std::string object = fmt::format("schema {}", schema.schema_id());
      if (!ids.insert(schema.schema_id()).second) error("schema-id-duplicate", object, "two schemas have this id");
      if (schema.highest_field_id() > metadata_.last_column_id)
        error("last-column-id-too-low", object, "it has column id {}, but last-column-id is {}",
              schema.highest_field_id(), metadata_.last_column_id);
      if (const auto name = repeated_full_name(schema))
        error("column-name-duplicate", object, "two columns have the full name {}", *name);
      check_fields(schema, *schema.as_struct(), object);
      for (const int32_t id : schema.identifier_field_ids()) check_identifier(schema, id, object);
      note_columns(schema, *schema.as_struct(), object, known);
    }
  }

  void check_fields(const Schema& schema, const Type& type, const std::string& object) {
    for (const Field& field : type.fields()) {
      const std::string name = schema.full_name(field.id);
      if (field.id > kFieldIdMax)
        error("field-id-reserved", object, "column {} has id {}, which is reserved", name, field.id);
      const bool has_default = (field.initial_default && !is_null(*field.initial_default)) ||
                               (field.write_default && !is_null(*field.write_default));
      if (metadata_.format_version < 3 && (needs_v3(field.type->id()) || has_default))
        error("type-needs-newer-version", object, "column {} of type {}{} needs format version 3", name,
              field.type->to_string(), has_default ? " with a default" : "");
      if (field.type->id() == TypeId::unknown && field.required)
        error("unknown-required", object, "column {} of type unknown is required", name);
      const bool must_be_null = field.type->id() == TypeId::unknown || field.type->id() == TypeId::variant ||
                                field.type->id() == TypeId::geometry || field.type->id() == TypeId::geography;
      if (must_be_null && has_default)
        error("default-invalid", object, "column {} of type {} has a default", name, field.type->to_string());
      check_fields(schema, *field.type, object);
    }
  }

  void check_identifier(const Schema& schema, int32_t id, const std::string& object) {
    if (schema.find_field(id) == nullptr) {
      error("identifier-field-invalid", object, "identifier field {} is no column", id);
      return;
    }
    try {
      identifier_ids(schema, {schema.full_name(id)}, true);
    } catch (const Error& e) {
      error("identifier-field-invalid", object, "{}", e.what());
    }
  }

  // One id is one column for ever, whatever the order in which schemas came.
  void note_columns(const Schema& schema, const Type& type, const std::string& object,
                    std::map<int32_t, const Field*>& known) {
    for (const Field& field : type.fields()) {
      const auto [other, added] = known.try_emplace(field.id, &field);
      if (!added) {
        const Type& before = *other->second->type;
        const bool fits = before.is_nested() || field.type->is_nested()
                              ? before.id() == field.type->id() || before.id() == TypeId::unknown ||
                                    field.type->id() == TypeId::unknown
                              : can_promote(before, *field.type, 3) || can_promote(*field.type, before, 3);
        if (!fits)
          error("column-id-reused", object, "column {} (id {}) is {}, and {} in another schema",
                schema.full_name(field.id), field.id, field.type->to_string(), before.to_string());
      }
      note_columns(schema, *field.type, object, known);
    }
  }

  void check_specs() {
    std::set<int32_t> spec_ids;
    for (const PartitionSpec& spec : metadata_.partition_specs) {
      const std::string object = fmt::format("partition spec {}", spec.spec_id);
      if (!spec_ids.insert(spec.spec_id).second) error("spec-id-duplicate", object, "two specs have this id");
      std::set<int32_t> ids;
      std::set<std::string> names;
      for (const PartitionField& field : spec.fields) {
        if (!ids.insert(field.field_id).second)
          error("partition-field-id-duplicate", object, "two fields have id {}", field.field_id);
        if (!names.insert(field.name).second)
          error("partition-field-name-duplicate", object, "two fields are named {}", field.name);
      }
    }
    for (const PartitionField& field : metadata_.spec().fields) check_source(field);
    if (findings_.strict()) compare_specs();
  }

  void check_source(const PartitionField& field) {
    if (field.transform.kind == TransformKind::void_ || field.transform.kind == TransformKind::unknown) return;
    const Schema& schema = metadata_.schema();
    const std::string object = fmt::format("partition spec {}", metadata_.default_spec_id);
    for (const int32_t id : field.source_ids) {
      const Field* source = schema.find_field(id);
      if (source == nullptr) {
        error("spec-source-invalid", object, "field {} is made of column id {}, which the current schema lacks",
              field.name, id);
      } else if (source->type->is_nested() || schema.is_nested_below_list_or_map(id) ||
                 !can_transform(field.transform, *source->type)) {
        error("spec-source-invalid", object, "field {}: {} cannot be made of column {} of type {}", field.name,
              field.transform.name, schema.full_name(id), source->type->to_string());
      }
    }
  }

  void compare_specs() {
    const std::vector<PartitionSpec>& specs = metadata_.partition_specs;
    for (size_t i = 0; i < specs.size(); ++i) {
      const std::string object = fmt::format("partition spec {}", specs[i].spec_id);
      for (size_t j = 0; j < i; ++j) {
        if (specs[i].compatible_with(specs[j]))
          warning("spec-duplicated", object, "it is compatible with spec {}", specs[j].spec_id);
        for (const PartitionField& a : specs[i].fields)
          for (const PartitionField& b : specs[j].fields) {
            const bool same = a.source_ids == b.source_ids && a.transform == b.transform;
            const bool is_void = a.transform.kind == TransformKind::void_ || b.transform.kind == TransformKind::void_;
            if (a.field_id == b.field_id && !same && !is_void)
              warning("partition-field-id-reused", object, "field {} has the id of field {} in spec {}, {}", a.name,
                      b.name, specs[j].spec_id, a.field_id);
            if (a.field_id != b.field_id && same && a.name == b.name)
              warning("partition-field-id-not-reused", object, "field {} has id {}, in spec {} id {}", a.name,
                      a.field_id, specs[j].spec_id, b.field_id);
          }
      }
    }
  }

  void check_sort_orders() {
    std::set<int32_t> ids;
    for (const SortOrder& order : metadata_.sort_orders) {
      const std::string object = fmt::format("sort order {}", order.order_id);
      if (!ids.insert(order.order_id).second) error("sort-order-id-duplicate", object, "two orders have this id");
      if ((order.order_id == 0) != order.fields.empty())
        warning("sort-order-invalid", object, "id 0 is the unsorted order's, and its alone");
    }
    for (const SortField& field : metadata_.sort_order().fields)
      for (const int32_t id : field.source_ids)
        if (metadata_.schema().find_field(id) == nullptr)
          error("sort-order-invalid", fmt::format("sort order {}", metadata_.default_sort_order_id),
                "it sorts by column id {}, which the current schema lacks", id);
  }

  void check_snapshots() {
    std::map<int64_t, int64_t> by_sequence;
    for (const Snapshot& snapshot : metadata_.snapshots) {
      const std::string object = fmt::format("snapshot {}", snapshot.snapshot_id);
      if (snapshot.sequence_number > metadata_.last_sequence_number)
        error("sequence-number-above-last", object, "its sequence number is {}, the table's last {}",
              snapshot.sequence_number, metadata_.last_sequence_number);
      // 0: written in format version 1, whose rules were other ones.
      if (snapshot.sequence_number > 0) {
        const auto [other, added] = by_sequence.try_emplace(snapshot.sequence_number, snapshot.snapshot_id);
        if (!added)
          error("sequence-number-duplicate", object, "its sequence number {} is that of snapshot {} too",
                snapshot.sequence_number, other->second);
        if (snapshot.manifest_list.empty())
          error("manifest-list-missing", object, "it names no manifest list, which version 2 requires");
        const std::string& operation = snapshot.operation();
        if (operation.empty()) {
          warning("operation-invalid", object, "its summary has no operation");
        } else if (operation != "append" && operation != "replace" && operation != "overwrite" &&
                   operation != "delete") {
          warning("operation-invalid", object, "its operation is '{}'", operation);
        }
      }
      const Snapshot* parent =
          snapshot.parent_snapshot_id ? metadata_.find_snapshot(*snapshot.parent_snapshot_id) : nullptr;
      if (snapshot.parent_snapshot_id == snapshot.snapshot_id) {
        error("snapshot-parent-invalid", object, "it is its own parent");
      } else if (parent != nullptr && snapshot.sequence_number > 0 &&
                 snapshot.sequence_number <= parent->sequence_number) {
        error("sequence-number-order", object, "its sequence number is {}, its parent's {}", snapshot.sequence_number,
              parent->sequence_number);
      }
      if (parent != nullptr && snapshot.timestamp_ms + kClockSlackMs < parent->timestamp_ms)
        warning("snapshot-time-order", object, "it is {} ms older than its parent",
                parent->timestamp_ms - snapshot.timestamp_ms);
      if (snapshot.schema_id && std::none_of(metadata_.schemas.begin(), metadata_.schemas.end(),
                                             [&](const Schema& s) { return s.schema_id() == *snapshot.schema_id; }))
        error("snapshot-schema-missing", object, "its schema {} is not among the table's", *snapshot.schema_id);
    }
  }

  void check_row_ids() {
    std::vector<const Snapshot*> snapshots;
    for (const Snapshot& snapshot : metadata_.snapshots) snapshots.push_back(&snapshot);
    std::sort(snapshots.begin(), snapshots.end(),
              [](const auto* a, const auto* b) { return a->sequence_number < b->sequence_number; });
    int64_t end = 0;
    bool upgraded = false;  // snapshots from before the upgrade to version 3 have no row ids
    for (const Snapshot* snapshot : snapshots) {
      const std::string object = fmt::format("snapshot {}", snapshot->snapshot_id);
      if (!snapshot->first_row_id) {
        if (upgraded) error("row-ids-missing", object, "it has no first-row-id, which version 3 requires");
        continue;
      }
      upgraded = true;
      if (!snapshot->added_rows || *snapshot->added_rows < 0) {
        error("row-ids-missing", object, "it has no added-rows beside its first-row-id");
        continue;
      }
      if (*snapshot->first_row_id < end)
        error("row-id-ranges-overlap", object, "its row ids start at {}, those before it end at {}",
              *snapshot->first_row_id, end);
      end = std::max(end, *snapshot->first_row_id + *snapshot->added_rows);
      if (*snapshot->first_row_id + *snapshot->added_rows > metadata_.next_row_id)
        error("next-row-id-too-low", object, "its row ids end at {}, the table's next is {}",
              *snapshot->first_row_id + *snapshot->added_rows, metadata_.next_row_id);
    }
  }

  void check_refs() {
    for (const auto& [name, ref] : metadata_.refs) {
      const std::string object = "ref " + name;
      if (metadata_.find_snapshot(ref.snapshot_id) == nullptr)
        error("ref-snapshot-missing", object, "its snapshot {} is not among the table's", ref.snapshot_id);
      if ((ref.min_snapshots_to_keep && *ref.min_snapshots_to_keep <= 0) ||
          (ref.max_snapshot_age_ms && *ref.max_snapshot_age_ms <= 0) ||
          (ref.max_ref_age_ms && *ref.max_ref_age_ms <= 0))
        warning("ref-retention-invalid", object, "its retention is not positive");
      if (!ref.is_branch && (ref.min_snapshots_to_keep || ref.max_snapshot_age_ms))
        warning("ref-retention-invalid", object, "it is a tag with the retention of a branch");
      if (name == "main" && !ref.is_branch) error("main-invalid", object, "main is a tag");
    }
    const auto main = metadata_.refs.find("main");
    const std::optional<int64_t> head =
        main == metadata_.refs.end() ? std::nullopt : std::optional<int64_t>(main->second.snapshot_id);
    if (head != metadata_.current_snapshot_id)
      error("main-invalid", "ref main", "it is snapshot {}, the current snapshot is {}",
            head ? std::to_string(*head) : "none",
            metadata_.current_snapshot_id ? std::to_string(*metadata_.current_snapshot_id) : "none");
  }

  void check_logs() {
    int64_t last_ms = 0;
    for (const SnapshotLogEntry& entry : metadata_.snapshot_log) {
      if (entry.timestamp_ms + kClockSlackMs < last_ms)
        error("snapshot-log-order", "metadata", "the snapshot log runs back by {} ms at snapshot {}",
              last_ms - entry.timestamp_ms, entry.snapshot_id);
      last_ms = entry.timestamp_ms;
      if (metadata_.find_snapshot(entry.snapshot_id) == nullptr)
        warning("snapshot-log-invalid", "metadata", "the snapshot log has snapshot {}, which is gone",
                entry.snapshot_id);
    }
    if (!metadata_.snapshot_log.empty() && metadata_.current_snapshot_id &&
        metadata_.snapshot_log.back().snapshot_id != *metadata_.current_snapshot_id)
      warning("snapshot-log-invalid", "metadata", "the snapshot log ends with snapshot {}, the current one is {}",
              metadata_.snapshot_log.back().snapshot_id, *metadata_.current_snapshot_id);
    if (metadata_.last_updated_ms + kClockSlackMs < last_ms)
      error("snapshot-log-order", "metadata", "last-updated-ms is {}, before the snapshot log's last entry, {}",
            metadata_.last_updated_ms, last_ms);
    last_ms = 0;
    for (const MetadataLogEntry& entry : metadata_.metadata_log) {
      if (entry.timestamp_ms + kClockSlackMs < last_ms)
        error("metadata-log-order", "metadata", "the metadata log runs back by {} ms at {}",
              last_ms - entry.timestamp_ms, entry.metadata_file);
      last_ms = entry.timestamp_ms;
    }
    if (metadata_.last_updated_ms + kClockSlackMs < last_ms)
      error("metadata-log-order", "metadata", "last-updated-ms is {}, before the metadata log's last entry, {}",
            metadata_.last_updated_ms, last_ms);
  }

  const TableMetadata& metadata_;
  Findings& findings_;
};

}  // namespace

void check_metadata(const TableMetadata& metadata, Findings& findings) { MetadataCheck(metadata, findings).run(); }

void check_metadata_json(const Json& json, const TableMetadata& metadata, const std::string& object,
                         Findings& findings) {
  const auto require = [&](const Json& of, const char* member, const std::string& whose) {
    if (of.find(member) == of.end())
      findings.warning(
          "member-missing", object,
          fmt::format("{} lacks \"{}\", which version {} requires", whose, member, metadata.format_version));
  };
  for (const char* member : {"format-version", "location", "last-updated-ms", "last-column-id"})
    require(json, member, "the table");
  if (metadata.format_version == 1) {
    for (const char* member : {"schema", "partition-spec"}) require(json, member, "the table");
  } else {
    for (const char* member : {"table-uuid", "last-sequence-number", "schemas", "current-schema-id", "partition-specs",
                               "default-spec-id", "last-partition-id", "sort-orders", "default-sort-order-id"})
      require(json, member, "the table");
    if (metadata.format_version >= 3) require(json, "next-row-id", "the table");
  }
  if (const Json* snapshots = find_member(json, "snapshots"); snapshots != nullptr && snapshots->is_array()) {
    for (const Json& snapshot : *snapshots) {
      const std::string whose = "snapshot " + snapshot.value("snapshot-id", Json()).dump();
      const auto sequence = find_int64(snapshot, "sequence-number", object).value_or(0);
      if (metadata.format_version < 2 || sequence == 0) continue;  // of version 1
      for (const char* member : {"timestamp-ms", "manifest-list", "summary"}) require(snapshot, member, whose);
      if (find_member(snapshot, "manifest-list") != nullptr && find_member(snapshot, "manifests") != nullptr)
        findings.warning("member-missing", object, whose + " has both a manifest list and manifests");
    }
  }
  // Parsing takes the higher of what is recorded and what is used.
  if (const auto recorded = find_int32(json, "last-partition-id", object)) {
    int32_t highest = 999;
    for (const PartitionSpec& spec : metadata.partition_specs)
      for (const PartitionField& field : spec.fields) highest = std::max(highest, field.field_id);
    if (*recorded < highest && metadata.format_version >= 2)
      findings.error("last-partition-id-too-low", object,
                     fmt::format("last-partition-id is {}, but a field has id {}", *recorded, highest));
  }
}

namespace {

void check_blobs(const Json& file, const std::string& path, int64_t size_bytes, FileIO& io, Findings& findings) {
  constexpr const char* kCode = "statistics-mismatch";
  const auto input = io.open(path);
  const auto read = [&](int64_t offset, int64_t length) {
    return check(input->ReadAt(offset, length), path)->ToString();
  };
  if (size_bytes < kPuffinFooterEndBytes) fail(ErrorKind::corrupt, "{}: too short for a Puffin file", path);
  const int64_t footer_bytes =
      puffin_footer_size_bytes(read(size_bytes - kPuffinFooterEndBytes, kPuffinFooterEndBytes), size_bytes, path);
  if (const auto recorded = find_int64(file, "file-footer-size-in-bytes", path); recorded && *recorded != footer_bytes)
    findings.error(kCode, path, fmt::format("its footer has {} bytes, the metadata say {}", footer_bytes, *recorded));
  const PuffinFile puffin = parse_puffin_footer(read(size_bytes - footer_bytes, footer_bytes), size_bytes, path);
  const Json* blobs = find_member(file, "blob-metadata");
  if (blobs == nullptr || !blobs->is_array()) return;
  for (const Json& blob : *blobs) {
    const std::string type = get_string(blob, "type", path);
    std::vector<int32_t> fields;
    for (const Json& field : get_array(blob, "fields", path))
      if (field.is_number_integer()) fields.push_back(field.get<int32_t>());
    if (std::none_of(puffin.blobs.begin(), puffin.blobs.end(),
                     [&](const PuffinBlob& there) { return there.type == type && there.fields == fields; }))
      findings.error(kCode, path, fmt::format("it has no blob {} of the fields that the metadata say", type));
  }
}

}  // namespace

void check_statistics(const TableMetadata& metadata, FileIO& io, Findings& findings) {
  for (const bool of_partitions : {false, true}) {
    std::set<int64_t> snapshots;
    for (const Json& file : of_partitions ? metadata.partition_statistics : metadata.statistics) {
      const std::string object = of_partitions ? "partition statistics" : "statistics";
      try {
        const int64_t snapshot_id = get_int64(file, "snapshot-id", object);
        const std::string path = get_string(file, "statistics-path", object);
        if (metadata.find_snapshot(snapshot_id) == nullptr)
          findings.warning("statistics-snapshot-missing", path,
                           fmt::format("it is of snapshot {}, which is gone", snapshot_id));
        if (!snapshots.insert(snapshot_id).second && of_partitions)
          findings.warning("statistics-mismatch", path, fmt::format("snapshot {} has two such files", snapshot_id));
        const std::optional<FileInfo> info = io.stat(path);
        if (!info) {
          findings.error("file-missing", path, fmt::format("the {} of snapshot {} are not there", object, snapshot_id));
          continue;
        }
        if (const int64_t recorded = get_int64(file, "file-size-in-bytes", object); recorded != info->size_bytes)
          findings.error("file-size-mismatch", path,
                         fmt::format("it has {} bytes, the metadata say {}", info->size_bytes, recorded));
        if (!of_partitions) check_blobs(file, path, info->size_bytes, io, findings);
      } catch (const Error& e) {
        if (e.kind() == ErrorKind::io) throw;
        findings.error("statistics-mismatch", object, e.what());
      }
    }
  }
}

}  // namespace firn::iceberg
