#include "iceberg/inspect/file_rows.h"

#include <algorithm>

#include "iceberg/manifest/file_identity.h"

namespace firn::iceberg {
namespace {

constexpr size_t kAbsent = static_cast<size_t>(-1);

TypePtr map_by_column(int32_t key_id, int32_t value_id, TypeId value) {
  return Type::map_of(key_id, primitive(TypeId::int_), value_id, true, primitive(value));
}

// Empty maps and lists are null: readers of manifests do not tell the two apart.
template <class Map>
Cell map_cell(const Map& map) {
  if (map.empty()) return {};
  std::vector<Cell> parts;
  for (const auto& [key, value] : map) {
    parts.emplace_back(key);
    parts.emplace_back(value);
  }
  return Cell::nested(std::move(parts));
}

template <class T>
Cell list_cell(const std::vector<T>& values) {
  if (values.empty()) return {};
  return Cell::nested({values.begin(), values.end()});
}

Cell text_or_null(const std::string& text) { return text.empty() ? Cell() : Cell(text); }

template <class Map>
Cell count_of(const Map& map, int32_t id) {
  const auto found = map.find(id);
  return found == map.end() ? Cell() : Cell(found->second);
}

Cell bound_of(const std::map<int32_t, std::string>& bounds, int32_t id, const Type& type) {
  const auto found = bounds.find(id);
  if (found == bounds.end()) return {};
  return from_bytes(found->second, type).value_or(Value());  // ill-formed: unknown
}

// Columns whose values have bounds and counts, by full name.
void collect_leaves(const Schema& schema, const Type& type, std::map<std::string, int32_t>& leaves) {
  for (const Field& field : type.fields()) {
    if (field.type->is_nested()) {
      collect_leaves(schema, *field.type, leaves);
    } else if (field.type->id() != TypeId::variant) {
      leaves.emplace(schema.full_name(field.id), field.id);
    }
  }
}

}  // namespace

PartitionColumns::PartitionColumns(const TableMetadata& metadata) {
  std::vector<const PartitionSpec*> specs;
  for (const PartitionSpec& spec : metadata.partition_specs) specs.push_back(&spec);
  std::sort(specs.begin(), specs.end(), [](const auto* a, const auto* b) { return a->spec_id > b->spec_id; });
  std::map<int32_t, Field> fields;
  for (const PartitionSpec* spec : specs) {
    for (const PartitionField& partition_field : spec->fields) {
      const Field* source = metadata.schema().find_field(partition_field.source_id());
      const TransformKind kind = partition_field.transform.kind;
      if (source == nullptr || kind == TransformKind::void_ || kind == TransformKind::unknown) continue;
      fields.emplace(partition_field.field_id, field(partition_field.field_id, partition_field.name.c_str(),
                                                     result_type(partition_field.transform, source->type)));
    }
  }
  std::vector<Field> ordered;
  for (auto& [id, partition_field] : fields) ordered.push_back(std::move(partition_field));
  type_ = Type::struct_of(std::move(ordered));
  for (const PartitionSpec* spec : specs) {
    std::vector<size_t>& positions = positions_[spec->spec_id];
    for (const PartitionField& partition_field : spec->fields) {
      size_t position = 0;
      while (position < type_->fields().size() && type_->fields()[position].id != partition_field.field_id) ++position;
      const bool shown = position < type_->fields().size() && partition_field.transform.kind != TransformKind::void_;
      positions.push_back(shown ? position : kAbsent);
    }
  }
}

std::vector<Value> PartitionColumns::values(const DataFile& file) const {
  std::vector<Value> values(type_->fields().size());
  const auto positions = positions_.find(file.partition_spec_id);
  if (positions == positions_.end()) return values;
  for (size_t i = 0; i < std::min(positions->second.size(), file.partition.size()); ++i)
    if (positions->second[i] != kAbsent) values[positions->second[i]] = file.partition[i];
  return values;
}

FileColumns::FileColumns(const TableMetadata& metadata) : table_schema_(metadata.schema()), partition_(metadata) {
  file_fields_ = {
      field(134, "content", primitive(TypeId::int_)), field(100, "file_path", primitive(TypeId::string), true),
      field(101, "file_format", primitive(TypeId::string), true), field(141, "spec_id", primitive(TypeId::int_))};
  if (!partition_.empty()) file_fields_.push_back(field(102, "partition", partition_.type(), true));
  const std::vector<Field> rest = {
      field(103, "record_count", primitive(TypeId::long_), true),
      field(104, "file_size_in_bytes", primitive(TypeId::long_), true),
      field(108, "column_sizes", map_by_column(117, 118, TypeId::long_)),
      field(109, "value_counts", map_by_column(119, 120, TypeId::long_)),
      field(110, "null_value_counts", map_by_column(121, 122, TypeId::long_)),
      field(137, "nan_value_counts", map_by_column(138, 139, TypeId::long_)),
      field(125, "lower_bounds", map_by_column(126, 127, TypeId::binary)),
      field(128, "upper_bounds", map_by_column(129, 130, TypeId::binary)),
      field(131, "key_metadata", primitive(TypeId::binary)),
      field(132, "split_offsets", Type::list_of(133, true, primitive(TypeId::long_))),
      field(135, "equality_ids", Type::list_of(136, true, primitive(TypeId::int_))),
      field(140, "sort_order_id", primitive(TypeId::int_)),
      field(142, "first_row_id", primitive(TypeId::long_)),
      field(143, "referenced_data_file", primitive(TypeId::string)),
      field(144, "content_offset", primitive(TypeId::long_)),
      field(145, "content_size_in_bytes", primitive(TypeId::long_)),
  };
  file_fields_.insert(file_fields_.end(), rest.begin(), rest.end());

  std::map<std::string, int32_t> leaves;
  collect_leaves(table_schema_, *table_schema_.as_struct(), leaves);
  int32_t next_id = std::max(1000, metadata.last_partition_id);  // partition fields have ids from 1000
  std::vector<Field> columns;
  for (const auto& [name, id] : leaves) {
    const TypePtr& type = table_schema_.find_field(id)->type;
    const int32_t column_id = ++next_id;
    std::vector<Field> metrics;
    for (const char* count : {"column_size", "value_count", "null_value_count", "nan_value_count"})
      metrics.push_back(field(++next_id, count, primitive(TypeId::long_)));
    metrics.push_back(field(++next_id, "lower_bound", type));
    metrics.push_back(field(++next_id, "upper_bound", type));
    columns.push_back(field(column_id, name.c_str(), Type::struct_of(std::move(metrics))));
    metrics_ids_.push_back(id);
  }
  metrics_field_ = field(++next_id, "readable_metrics", Type::struct_of(std::move(columns)));
}

Schema FileColumns::files_schema() const {
  std::vector<Field> fields = file_fields_;
  fields.push_back(metrics_field_);
  return Schema(std::move(fields));
}

Schema FileColumns::entries_schema() const {
  return Schema({field(0, "status", primitive(TypeId::int_), true), field(1, "snapshot_id", primitive(TypeId::long_)),
                 field(3, "sequence_number", primitive(TypeId::long_)),
                 field(4, "file_sequence_number", primitive(TypeId::long_)),
                 field(2, "data_file", Type::struct_of(file_fields_), true), metrics_field_});
}

Row FileColumns::data_file(const DataFile& file) const {
  Row row = {static_cast<int32_t>(file.content), file.file_path, file.file_format, file.partition_spec_id};
  if (!partition_.empty()) {
    const std::vector<Value> values = partition_.values(file);
    row.push_back(Cell::nested({values.begin(), values.end()}));
  }
  const Row rest = {file.record_count,
                    file.file_size_bytes,
                    map_cell(file.column_sizes),
                    map_cell(file.value_counts),
                    map_cell(file.null_value_counts),
                    map_cell(file.nan_value_counts),
                    map_cell(file.lower_bounds),
                    map_cell(file.upper_bounds),
                    text_or_null(file.key_metadata),
                    list_cell(file.split_offsets),
                    list_cell(file.equality_ids),
                    file.sort_order_id,
                    file.first_row_id,
                    text_or_null(file.referenced_data_file),
                    file.content_offset,
                    file.content_size_bytes};
  row.insert(row.end(), rest.begin(), rest.end());
  return row;
}

Cell FileColumns::readable_metrics(const DataFile& file) const {
  std::vector<Cell> columns;
  for (const int32_t id : metrics_ids_) {
    const Type& type = *table_schema_.find_field(id)->type;
    columns.push_back(Cell::nested({count_of(file.column_sizes, id), count_of(file.value_counts, id),
                                    count_of(file.null_value_counts, id), count_of(file.nan_value_counts, id),
                                    bound_of(file.lower_bounds, id, type), bound_of(file.upper_bounds, id, type)}));
  }
  return Cell::nested(std::move(columns));
}

Row FileColumns::file_row(const DataFile& file) const {
  Row row = data_file(file);
  row.push_back(readable_metrics(file));
  return row;
}

Row FileColumns::entry_row(const ManifestEntry& entry) const {
  return {static_cast<int32_t>(entry.status),
          entry.snapshot_id,
          entry.sequence_number,
          entry.file_sequence_number,
          Cell::nested(data_file(entry.file)),
          readable_metrics(entry.file)};
}

PartitionRows::PartitionRows(const TableMetadata& metadata) : partition_(metadata) {
  for (const Snapshot& snapshot : metadata.snapshots) time_of_snapshot_[snapshot.snapshot_id] = snapshot.timestamp_ms;
}

Schema PartitionRows::schema() const {
  std::vector<Field> fields;
  if (!partition_.empty()) {
    fields.push_back(field(1, "partition", partition_.type(), true));
    fields.push_back(field(4, "spec_id", primitive(TypeId::int_), true));
  }
  fields.push_back(field(2, "record_count", primitive(TypeId::long_), true));
  fields.push_back(field(3, "file_count", primitive(TypeId::int_), true));
  fields.push_back(field(11, "total_data_file_size_in_bytes", primitive(TypeId::long_), true));
  fields.push_back(field(5, "position_delete_record_count", primitive(TypeId::long_), true));
  fields.push_back(field(6, "position_delete_file_count", primitive(TypeId::int_), true));
  fields.push_back(field(7, "equality_delete_record_count", primitive(TypeId::long_), true));
  fields.push_back(field(8, "equality_delete_file_count", primitive(TypeId::int_), true));
  fields.push_back(field(9, "last_updated_at", primitive(TypeId::timestamptz)));
  fields.push_back(field(10, "last_updated_snapshot_id", primitive(TypeId::long_)));
  return Schema(std::move(fields));
}

void PartitionRows::add(const ManifestEntry& entry) {
  std::vector<Value> values = partition_.values(entry.file);
  const auto [found, added] = index_.try_emplace(partition_key(0, values), sums_.size());
  if (added) sums_.push_back({.partition = std::move(values), .spec_id = entry.file.partition_spec_id});
  Sums& sums = sums_[found->second];
  const auto time =
      entry.snapshot_id ? time_of_snapshot_.find(*entry.snapshot_id) : time_of_snapshot_.end();  // it may have expired
  if (time != time_of_snapshot_.end() && (!sums.updated_ms || time->second > *sums.updated_ms)) {
    sums.updated_ms = time->second;
    sums.updated_by = time->first;
    sums.spec_id = entry.file.partition_spec_id;
  }
  switch (entry.file.content) {
    case FileContent::data:
      sums.records += entry.file.record_count;
      sums.size_bytes += entry.file.file_size_bytes;
      ++sums.data_files;
      return;
    case FileContent::position_deletes:
      sums.position_deletes += entry.file.record_count;
      ++sums.position_delete_files;
      return;
    case FileContent::equality_deletes:
      sums.equality_deletes += entry.file.record_count;
      ++sums.equality_delete_files;
  }
}

std::vector<Row> PartitionRows::rows() const {
  std::vector<Row> rows;
  for (const Sums& sums : sums_) {
    Row row;
    if (!partition_.empty()) {
      row.push_back(Cell::nested({sums.partition.begin(), sums.partition.end()}));
      row.emplace_back(sums.spec_id);
    }
    const Row rest = {sums.records,
                      sums.data_files,
                      sums.size_bytes,
                      sums.position_deletes,
                      sums.position_delete_files,
                      sums.equality_deletes,
                      sums.equality_delete_files,
                      sums.updated_ms ? Cell(*sums.updated_ms * 1000) : Cell(),
                      sums.updated_by};
    row.insert(row.end(), rest.begin(), rest.end());
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace firn::iceberg
