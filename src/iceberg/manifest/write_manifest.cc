// Manifests and manifest lists written (format versions 2 and 3).
#include <algorithm>

#include "base/error.h"
#include "iceberg/avro/container.h"
#include "iceberg/avro/encoder.h"
#include "iceberg/manifest/avro_schemas.h"
#include "iceberg/manifest/manifest.h"
#include "iceberg/manifest/partition_value.h"

namespace firn::iceberg {

namespace {

// The branches of the optional fields' unions, ["null", type].
constexpr int64_t kNull = 0, kValue = 1;

void put_optional(std::string& out, std::optional<int64_t> value) {
  avro::put_long(out, value ? kValue : kNull);
  if (value) avro::put_long(out, *value);
}

void put_optional_bytes(std::string& out, std::string_view value) {  // empty: null
  avro::put_long(out, value.empty() ? kNull : kValue);
  if (!value.empty()) avro::put_bytes(out, value);
}

template <class Container, class Put>
void put_optional_items(std::string& out, const Container& items, Put&& put) {  // empty: null
  avro::put_long(out, items.empty() ? kNull : kValue);
  if (items.empty()) return;
  avro::put_long(out, static_cast<int64_t>(items.size()));
  for (const auto& item : items) put(item);
  avro::put_long(out, 0);
}

void put_map(std::string& out, const std::map<int32_t, int64_t>& map) {
  put_optional_items(out, map, [&out](const auto& pair) {
    avro::put_long(out, pair.first);
    avro::put_long(out, pair.second);
  });
}

void put_map(std::string& out, const std::map<int32_t, std::string>& map) {
  put_optional_items(out, map, [&out](const auto& pair) {
    avro::put_long(out, pair.first);
    avro::put_bytes(out, pair.second);
  });
}

void check_version(int32_t format_version, const std::string& path) {
  if (format_version != 2 && format_version != 3)
    fail(ErrorKind::unsupported, "{}: firn writes format versions 2 and 3, not {}; upgrade the table first", path,
         format_version);
}

// The partition tuple's type, with the values' own types where a source column is gone: what is known of the files must
// survive a rewrite of their manifest.
TypePtr written_partition_type(const std::vector<ManifestEntry>& entries, const PartitionSpec& spec,
                               const Schema& schema) {
  std::vector<Field> fields = spec.partition_type(schema)->fields();
  for (size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].type->id() != TypeId::unknown) continue;
    for (const ManifestEntry& entry : entries) {
      if (i >= entry.file.partition.size() || is_null(entry.file.partition[i])) continue;
      fields[i].type = natural_type(entry.file.partition[i]);
      break;
    }
  }
  return Type::struct_of(std::move(fields));
}

class EntryEncoder {
 public:
  EntryEncoder(const Type& partition_type, ManifestContent content, int32_t format_version, const std::string& path)
      : partition_type_(partition_type), content_(content), format_version_(format_version), path_(path) {}

  void put(std::string& out, const ManifestEntry& entry) const {
    check_entry(entry);
    avro::put_long(out, static_cast<int64_t>(entry.status));
    put_optional(out, entry.snapshot_id);
    put_optional(out, entry.sequence_number);
    put_optional(out, entry.file_sequence_number);
    put_file(out, entry.file);
  }

 private:
  void check_entry(const ManifestEntry& entry) const {
    const DataFile& file = entry.file;
    if (file.file_path.empty()) fail(ErrorKind::invalid_argument, "{}: an entry without a file path", path_);
    if ((file.content == FileContent::data) != (content_ == ManifestContent::data))
      fail(ErrorKind::invalid_argument, "{}: data and delete files do not share a manifest: {}", path_, file.file_path);
    if (file.partition.size() != partition_type_.fields().size())
      fail(ErrorKind::invalid_argument, "{}: {} has {} partition values, its spec {} fields", path_, file.file_path,
           file.partition.size(), partition_type_.fields().size());
    // Only added files inherit (spec, "Sequence Number Inheritance").
    if (entry.status != EntryStatus::added && (!entry.sequence_number || !entry.file_sequence_number))
      fail(ErrorKind::invalid_argument, "{}: {} is not new and has no sequence number", path_, file.file_path);
    if (file.content == FileContent::equality_deletes && file.equality_ids.empty())
      fail(ErrorKind::invalid_argument, "{}: {} has equality deletes and no equality ids", path_, file.file_path);
    if (format_version_ < 3 && file.content_offset)
      fail(ErrorKind::invalid_argument, "{}: {} is a deletion vector, which needs format version 3", path_,
           file.file_path);
    if (file.content_offset && (!file.content_size_bytes || file.referenced_data_file.empty()))
      fail(ErrorKind::invalid_argument, "{}: the deletion vector in {} lacks its size or its data file", path_,
           file.file_path);
  }

  void put_file(std::string& out, const DataFile& file) const {
    avro::put_long(out, static_cast<int64_t>(file.content));
    avro::put_bytes(out, file.file_path);
    avro::put_bytes(out, file.file_format);
    put_partition(out, file);
    avro::put_long(out, file.record_count);
    avro::put_long(out, file.file_size_bytes);
    put_map(out, file.column_sizes);
    put_map(out, file.value_counts);
    put_map(out, file.null_value_counts);
    put_map(out, file.nan_value_counts);
    put_map(out, file.lower_bounds);
    put_map(out, file.upper_bounds);
    put_optional_bytes(out, file.key_metadata);
    put_optional_items(out, file.split_offsets, [&out](int64_t offset) { avro::put_long(out, offset); });
    put_optional_items(out, file.equality_ids, [&out](int32_t id) { avro::put_long(out, id); });
    put_optional(out, file.sort_order_id);
    if (format_version_ >= 3) put_optional(out, file.first_row_id);
    put_optional_bytes(out, file.referenced_data_file);
    if (format_version_ >= 3) {
      put_optional(out, file.content_offset);
      put_optional(out, file.content_size_bytes);
    }
  }

  void put_partition(std::string& out, const DataFile& file) const {
    for (size_t i = 0; i < file.partition.size(); ++i) {
      const Field& field = partition_type_.fields()[i];
      const Value& value = file.partition[i];
      if (field.type->id() == TypeId::unknown) continue;  // null, which has no bytes
      avro::put_long(out, is_null(value) ? kNull : kValue);
      if (!is_null(value)) put_partition_value(out, value, *field.type, field.name);
    }
  }

  const Type& partition_type_;
  ManifestContent content_;
  int32_t format_version_;
  const std::string& path_;
};

// A uuid's halves as Java orders them: as signed numbers, where the specification's order is by unsigned byte.
std::pair<int64_t, int64_t> signed_halves(const std::string& uuid) {
  uint64_t halves[2] = {0, 0};
  for (size_t i = 0; i < 16 && i < uuid.size(); ++i) halves[i / 8] = halves[i / 8] << 8 | static_cast<uint8_t>(uuid[i]);
  return {static_cast<int64_t>(halves[0]), static_cast<int64_t>(halves[1])};
}

// Bounds of one partition field over a manifest's entries.
class SummaryBuilder {
 public:
  explicit SummaryBuilder(const Type& type) : type_(type) {}

  void add(const Value& value) {
    if (is_null(value)) {
      contains_null_ = true;
    } else if (is_nan(value)) {
      contains_nan_ = true;
    } else {
      if (is_null(lower_) || compare(value, lower_, true) < 0) lower_ = value;
      if (is_null(upper_) || compare(value, upper_, true) > 0) upper_ = value;
      if (type_.id() == TypeId::uuid) {
        const auto halves = signed_halves(std::get<std::string>(value));
        java_lower_ = std::min(halves, java_lower_.value_or(halves));
        java_upper_ = std::max(halves, java_upper_.value_or(halves));
      }
    }
  }

  // False for uuids on both sides of 8000…: readers differ over their order.
  bool bounds_hold_for_all() const {
    return !java_lower_ || (signed_halves(std::get<std::string>(lower_)) == *java_lower_ &&
                            signed_halves(std::get<std::string>(upper_)) == *java_upper_);
  }

  FieldSummary finish() const {
    FieldSummary summary{.contains_null = contains_null_, .contains_nan = contains_nan_};
    if (!is_null(lower_)) {
      summary.lower_bound = to_bytes(lower_, type_);
      summary.upper_bound = to_bytes(upper_, type_);
    }
    return summary;
  }

 private:
  const Type& type_;
  bool contains_null_ = false, contains_nan_ = false;
  Value lower_, upper_;
  std::optional<std::pair<int64_t, int64_t>> java_lower_, java_upper_;  // of uuids
};

// nullopt where some reader would take the bounds wrongly: a single field cannot go without, since Java takes a field
// that has no bounds for one that has only nulls.
std::optional<std::vector<FieldSummary>> summarize(const std::vector<ManifestEntry>& entries,
                                                   const Type& partition_type) {
  std::vector<SummaryBuilder> builders;
  for (const Field& field : partition_type.fields()) builders.emplace_back(*field.type);
  for (const ManifestEntry& entry : entries)
    for (size_t i = 0; i < builders.size(); ++i) builders[i].add(entry.file.partition[i]);
  std::vector<FieldSummary> summaries;
  for (const SummaryBuilder& builder : builders) {
    if (!builder.bounds_hold_for_all()) return std::nullopt;
    summaries.push_back(builder.finish());
  }
  return summaries;
}

template <class T>
T known(const std::optional<T>& value, const char* name, const ManifestFile& manifest) {
  if (!value)
    fail(ErrorKind::invalid_argument, "manifest {}: its {} is unknown; read it and set_counts before listing it",
         manifest.manifest_path, name);
  return *value;
}

void put_summaries(std::string& out, const std::optional<std::vector<FieldSummary>>& summaries) {
  avro::put_long(out, summaries ? kValue : kNull);
  if (!summaries) return;
  if (!summaries->empty()) avro::put_long(out, static_cast<int64_t>(summaries->size()));
  for (const FieldSummary& summary : *summaries) {
    avro::put_boolean(out, summary.contains_null);
    avro::put_long(out, summary.contains_nan ? kValue : kNull);
    if (summary.contains_nan) avro::put_boolean(out, *summary.contains_nan);
    for (const auto& bound : {summary.lower_bound, summary.upper_bound}) {
      avro::put_long(out, bound ? kValue : kNull);  // an empty string is a bound too
      if (bound) avro::put_bytes(out, *bound);
    }
  }
  avro::put_long(out, 0);
}

void put_manifest_file(std::string& out, const ManifestFile& manifest, int32_t format_version) {
  avro::put_bytes(out, manifest.manifest_path);
  avro::put_long(out, manifest.manifest_length);
  avro::put_long(out, manifest.partition_spec_id);
  avro::put_long(out, static_cast<int64_t>(manifest.content));
  avro::put_long(out, *manifest.sequence_number);
  avro::put_long(out, *manifest.min_sequence_number);
  avro::put_long(out, manifest.added_snapshot_id);
  avro::put_long(out, known(manifest.added_files_count, "added_files_count", manifest));
  avro::put_long(out, known(manifest.existing_files_count, "existing_files_count", manifest));
  avro::put_long(out, known(manifest.deleted_files_count, "deleted_files_count", manifest));
  avro::put_long(out, known(manifest.added_rows_count, "added_rows_count", manifest));
  avro::put_long(out, known(manifest.existing_rows_count, "existing_rows_count", manifest));
  avro::put_long(out, known(manifest.deleted_rows_count, "deleted_rows_count", manifest));
  put_summaries(out, manifest.partitions);
  put_optional_bytes(out, manifest.key_metadata);
  if (format_version >= 3) put_optional(out, manifest.first_row_id);
}

// Gives a data manifest that has none its first row id, and returns the next (spec, "Manifest Lists", first_row_id):
// existing rows count too, since after an upgrade they may have no ids yet.
int64_t assign_row_ids(ManifestFile& manifest, int64_t next_row_id) {
  if (manifest.content != ManifestContent::data || manifest.first_row_id) return next_row_id;
  manifest.first_row_id = next_row_id;
  return next_row_id + known(manifest.added_rows_count, "added_rows_count", manifest) +
         known(manifest.existing_rows_count, "existing_rows_count", manifest);
}

}  // namespace

void set_counts(ManifestFile& manifest, const std::vector<ManifestEntry>& entries) {
  int32_t files[3] = {0, 0, 0};
  int64_t rows[3] = {0, 0, 0};
  for (const ManifestEntry& entry : entries) {
    files[static_cast<size_t>(entry.status)] += 1;
    rows[static_cast<size_t>(entry.status)] += entry.file.record_count;
  }
  constexpr auto kExisting = static_cast<size_t>(EntryStatus::existing),
                 kAdded = static_cast<size_t>(EntryStatus::added), kDeleted = static_cast<size_t>(EntryStatus::deleted);
  manifest.added_files_count = files[kAdded];
  manifest.existing_files_count = files[kExisting];
  manifest.deleted_files_count = files[kDeleted];
  manifest.added_rows_count = rows[kAdded];
  manifest.existing_rows_count = rows[kExisting];
  manifest.deleted_rows_count = rows[kDeleted];
}

WrittenManifest write_manifest(const std::vector<ManifestEntry>& entries, const std::string& path, int64_t snapshot_id,
                               const PartitionSpec& spec, const Schema& schema, ManifestContent content,
                               int32_t format_version, const std::string& codec) {
  check_version(format_version, path);
  const TypePtr partition_type = written_partition_type(entries, spec, schema);
  avro::ContainerWriter writer(manifest_avro_schema(*partition_type, format_version),
                               {{"schema", schema.to_json().dump()},
                                {"schema-id", std::to_string(schema.schema_id())},
                                {"partition-spec", spec.to_json().at("fields").dump()},
                                {"partition-spec-id", std::to_string(spec.spec_id)},
                                {"format-version", std::to_string(format_version)},
                                {"content", content == ManifestContent::data ? "data" : "deletes"}},
                               avro::codec_from_name(codec, path));
  const EntryEncoder encoder(*partition_type, content, format_version, path);
  WrittenManifest written;
  for (const ManifestEntry& entry : entries) {
    encoder.put(writer.record(), entry);
    writer.end_record();
    if (entry.status == EntryStatus::deleted || !entry.sequence_number) continue;
    written.file.min_sequence_number =
        std::min(*entry.sequence_number, written.file.min_sequence_number.value_or(*entry.sequence_number));
  }
  written.bytes = writer.finish();
  written.file.manifest_path = path;
  written.file.manifest_length = static_cast<int64_t>(written.bytes.size());
  written.file.partition_spec_id = spec.spec_id;
  written.file.content = content;
  written.file.added_snapshot_id = snapshot_id;
  written.file.partitions = summarize(entries, *partition_type);
  set_counts(written.file, entries);
  return written;
}

std::string write_manifest_list(std::vector<ManifestFile>& manifests, const Snapshot& snapshot, int32_t format_version,
                                int64_t next_row_id, const std::string& codec) {
  check_version(format_version, snapshot.manifest_list);
  std::vector<std::pair<std::string, std::string>> header = {
      {"snapshot-id", std::to_string(snapshot.snapshot_id)},
      {"parent-snapshot-id", snapshot.parent_snapshot_id ? std::to_string(*snapshot.parent_snapshot_id) : "null"},
      {"sequence-number", std::to_string(snapshot.sequence_number)},
      {"format-version", std::to_string(format_version)},
  };
  if (format_version >= 3) header.emplace_back("first-row-id", std::to_string(next_row_id));
  avro::ContainerWriter writer(manifest_list_avro_schema(format_version), header,
                               avro::codec_from_name(codec, snapshot.manifest_list));
  for (ManifestFile& manifest : manifests) {
    if (!manifest.sequence_number) {
      if (manifest.added_snapshot_id != snapshot.snapshot_id)
        fail(ErrorKind::invalid_argument, "manifest {}: snapshot {} made it, {} cannot give it a sequence number",
             manifest.manifest_path, manifest.added_snapshot_id, snapshot.snapshot_id);
      manifest.sequence_number = snapshot.sequence_number;
    }
    // Files whose numbers are null get this snapshot's, which is above all explicit ones.
    if (!manifest.min_sequence_number) manifest.min_sequence_number = manifest.sequence_number;
    if (format_version >= 3) next_row_id = assign_row_ids(manifest, next_row_id);
    put_manifest_file(writer.record(), manifest, format_version);
    writer.end_record();
  }
  return writer.finish();
}

}  // namespace firn::iceberg
