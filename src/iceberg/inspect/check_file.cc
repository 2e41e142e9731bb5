#include "iceberg/inspect/check_file.h"

#include <algorithm>
#include <map>
#include <set>

#include <arrow/array.h>
#include <parquet/file_reader.h>

#include "base/arrow_status.h"
#include "iceberg/manifest/file_identity.h"
#include "iceberg/parquet/file_columns.h"
#include "iceberg/parquet/parquet_error.h"
#include "iceberg/puffin/puffin.h"
#include "iceberg/scan/data_file_reader.h"
#include "iceberg/write/array_values.h"

namespace firn::iceberg {
namespace {

constexpr int64_t kVectorBytesMax = int64_t{1} << 30;

template <class Map>
auto find_in(const Map& map, int32_t id) -> std::optional<typename Map::mapped_type> {
  const auto found = map.find(id);
  if (found == map.end()) return std::nullopt;
  return found->second;
}

// Whether every row counts as a value of column `id`. Where a struct around it may be null, writers differ: to some its
// hidden members are nulls, to others no values.
bool is_in_every_row(const Schema& schema, int32_t id) {
  const Field* field = schema.find_field(id);
  if (field == nullptr || field->type->is_nested() || schema.is_nested_below_list_or_map(id)) return false;
  const std::vector<int32_t> path = schema.path_to(id);
  return std::all_of(path.begin(), path.end() - 1, [&](int32_t step) { return schema.find_field(step)->required; });
}

// --- the entry alone

class EntryCheck {
 public:
  EntryCheck(const DataFile& file, const Schema& schema, Findings& findings)
      : file_(file), schema_(schema), findings_(findings) {}

  void check_sizes() {
    if (file_.record_count < 0) error("metrics-invalid", "its record count is {}", file_.record_count);
    if (file_.file_size_bytes <= 0) error("metrics-invalid", "its size is {} bytes", file_.file_size_bytes);
    for (size_t i = 0; i < file_.split_offsets.size(); ++i) {
      if (file_.split_offsets[i] < 0 || file_.split_offsets[i] >= file_.file_size_bytes)
        error("split-offsets-invalid", "split offset {} lies outside of its {} bytes", file_.split_offsets[i],
              file_.file_size_bytes);
      if (i > 0 && file_.split_offsets[i] <= file_.split_offsets[i - 1])
        error("split-offsets-invalid", "split offset {} follows {}", file_.split_offsets[i],
              file_.split_offsets[i - 1]);
    }
    int64_t sum = 0;
    for (const auto& [id, size] : file_.column_sizes) {
      if (size < 0 || size > file_.file_size_bytes - sum) {
        error("metrics-invalid", "its column sizes are negative or add up to more than its {} bytes",
              file_.file_size_bytes);
        break;
      }
      sum += size;
    }
  }

  void check_counts() {
    for (const auto& [id, count] : file_.value_counts) {
      if (count < 0) error("metrics-invalid", "the value count of column id {} is {}", id, count);
      if (file_.file_format == "PARQUET" && is_in_every_row(schema_, id) && count != file_.record_count)
        error("metrics-invalid", "column {} has {} values in {} records", schema_.full_name(id), count,
              file_.record_count);
    }
    for (const auto* counts : {&file_.null_value_counts, &file_.nan_value_counts})
      for (const auto& [id, count] : *counts) {
        const std::optional<int64_t> values = find_in(file_.value_counts, id);
        if (count < 0 || (values && count > *values))
          error("metrics-invalid", "column id {} has {} nulls or NaNs in {} values", id, count, values.value_or(-1));
      }
  }

  void check_bounds() {
    for (const auto* bounds : {&file_.lower_bounds, &file_.upper_bounds})
      for (const auto& [id, bytes] : *bounds) {
        const Field* field = schema_.find_field(id);
        if (field == nullptr || !has_order(*field->type)) continue;
        const std::optional<Value> bound = from_bytes(bytes, *field->type);
        if (!bound) {
          warning("bounds-invalid", "a bound of column {} is no {}", schema_.full_name(id), field->type->to_string());
        } else if (is_nan(*bound)) {
          warning("bounds-invalid", "a bound of column {} is NaN", schema_.full_name(id));
        }
      }
    for (const auto& [id, bytes] : file_.lower_bounds) {
      const Field* field = schema_.find_field(id);
      const auto upper_bytes = find_in(file_.upper_bounds, id);
      if (field == nullptr || !upper_bytes || !has_order(*field->type) || field->type->id() == TypeId::uuid) continue;
      const auto lower = from_bytes(bytes, *field->type), upper = from_bytes(*upper_bytes, *field->type);
      if (lower && upper && !is_nan(*lower) && !is_nan(*upper) && compare(*lower, *upper) > 0)
        error("bounds-invalid", "column {} has lower bound {} above upper bound {}", schema_.full_name(id),
              to_display(*lower, *field->type), to_display(*upper, *field->type));
    }
  }

  template <class... Args>
  void error(std::string_view code, fmt::format_string<Args...> format, Args&&... args) {
    findings_.error(code, file_.file_path, fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  void warning(std::string_view code, fmt::format_string<Args...> format, Args&&... args) {
    findings_.warning(code, file_.file_path, fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  const DataFile& file_;
  const Schema& schema_;
  Findings& findings_;
};

const Field* find_ever(const TableMetadata& metadata, const Schema& schema, int32_t id) {
  if (const Field* field = schema.find_field(id)) return field;
  for (const Schema& other : metadata.schemas)
    if (const Field* field = other.find_field(id)) return field;
  return nullptr;
}

void check_delete_entry(const DataFile& file, const TableMetadata& metadata, const Schema& schema, EntryCheck& entry) {
  if (metadata.format_version < 2) entry.error("deletes-need-newer-version", "it is a delete file in a v1 table");
  if (file.content == FileContent::equality_deletes) {
    if (file.equality_ids.empty()) entry.error("equality-ids-invalid", "it has no equality ids");
    for (const int32_t id : file.equality_ids) {
      const Field* field = find_ever(metadata, schema, id);
      if (field == nullptr) {
        entry.error("equality-ids-invalid", "its equality id {} is no column of any schema", id);
      } else if (field->type->is_nested()) {
        entry.error("equality-ids-invalid", "its equality column {} is a {}", field->name, field->type->to_string());
      } else if (field->type->id() == TypeId::float_ || field->type->id() == TypeId::double_) {
        entry.warning("equality-ids-invalid", "its equality column {} is a {}", field->name, field->type->to_string());
      }
    }
  }
  if (!is_deletion_vector(file)) return;
  if (metadata.format_version < 3)
    entry.error("deletes-need-newer-version", "it is a deletion vector, and the table of format version {}",
                metadata.format_version);
  if (file.referenced_data_file.empty() || !file.content_offset || !file.content_size_bytes)
    entry.error("deletion-vector-invalid", "it lacks referenced_data_file, content_offset or content_size_in_bytes");
}

// --- the content

std::string without_sign(std::string uuid) {
  for (const size_t half : {size_t{0}, size_t{8}})
    if (uuid.size() == 16) uuid[half] = static_cast<char>(uuid[half] ^ '\x80');
  return uuid;
}

// `fields` without what `ids` and what lies around them do not need.
std::vector<Field> pruned(const std::vector<Field>& fields, const std::set<int32_t>& ids) {
  std::vector<Field> result;
  for (Field field : fields) {
    if (ids.contains(field.id)) {
      result.push_back(std::move(field));
    } else if (field.type->id() == TypeId::struct_) {
      std::vector<Field> members = pruned(field.type->fields(), ids);
      if (members.empty()) continue;
      field.type = Type::struct_of(std::move(members));
      result.push_back(std::move(field));
    }
  }
  return result;
}

class ContentCheck {
 public:
  ContentCheck(const DataFile& file, const FileCheck& check, Findings& findings)
      : file_(file), check_(check), findings_(findings), entry_(file, check.schema, findings) {}

  void run() {
    if (is_deletion_vector(file_)) {
      check_vector();
      return;
    }
    if (file_.file_format == "PARQUET") read_footer();
    if (file_.content == FileContent::position_deletes) {
      check_positions();
    } else {
      check_rows(columns());
    }
  }

 private:
  struct Observed {
    int64_t nulls = 0, nans = 0;
    std::optional<Value> lower, upper;
    std::optional<std::string> signed_lower, signed_upper;  // of uuids, as Java orders them
  };

  // What Parquet says before any row: the number of rows, which columns there are, where row groups start.
  void read_footer() {
    translate_parquet_errors(ErrorKind::corrupt, file_.file_path, [&] {
      const auto reader = parquet::ParquetFileReader::Open(check_.io.open(file_.file_path));
      const auto footer = reader->metadata();
      if (footer->num_rows() != file_.record_count)
        entry_.error("record-count-mismatch", "it has {} rows, its entry says {}", footer->num_rows(),
                     file_.record_count);
      std::set<int64_t> starts;
      for (int i = 0; i < footer->num_row_groups(); ++i) {
        if (footer->RowGroup(i)->num_columns() == 0) continue;
        const auto column = footer->RowGroup(i)->ColumnChunk(0);
        starts.insert(column->has_dictionary_page() && column->dictionary_page_offset() > 0
                          ? std::min(column->dictionary_page_offset(), column->data_page_offset())
                          : column->data_page_offset());
      }
      for (const int64_t offset : file_.split_offsets)
        if (!starts.contains(offset))
          entry_.warning("split-offsets-invalid", "split offset {} is no start of a row group", offset);
      if (file_.content == FileContent::position_deletes) return;
      stored_ids_.emplace();
      for (const FileColumn& column : file_columns(*footer->schema(), name_mapping(), file_.file_path))
        note_ids(column);
    });
  }

  void note_ids(const FileColumn& column) {
    if (column.id) stored_ids_->insert(*column.id);
    for (const FileColumn& child : column.children) note_ids(child);
  }

  std::optional<NameMapping> name_mapping() const {
    const std::string text = check_.metadata.property("schema.name-mapping.default", "");
    if (text.empty()) return std::nullopt;
    return name_mapping_from_json(parse_json(text, "the name mapping"), "the name mapping");
  }

  // The snapshot's columns; of an equality delete file those that it deletes by, dropped ones included.
  Schema columns() {
    if (file_.content == FileContent::data) return check_.schema;
    const std::set<int32_t> ids(file_.equality_ids.begin(), file_.equality_ids.end());
    for (const int32_t id : ids)
      if (stored_ids_ && !stored_ids_->contains(id))
        entry_.error("equality-ids-invalid", "its equality id {} is no column of the file", id);
    std::vector<Field> fields = pruned(check_.schema.fields(), ids);
    for (const Schema& older : check_.metadata.schemas)
      for (Field& field : pruned(older.fields(), ids))
        if (std::none_of(fields.begin(), fields.end(), [&](const Field& known) { return known.id == field.id; }))
          fields.push_back(std::move(field));
    return Schema(std::move(fields));
  }

  void check_rows(const Schema& schema) {
    std::vector<PartitionWatch> watches = partition_watches(schema);
    ParquetReadRequest request;
    request.projection = schema;
    request.name_mapping = name_mapping();
    const auto reader = open_data_file(check_.io, file_, std::move(request));
    int64_t num_rows = 0;
    while (const std::optional<PositionedBatch> read = reader->next()) {
      num_rows += read->batch->num_rows();
      for (size_t i = 0; i < schema.fields().size(); ++i)
        observe(*read->batch->column(static_cast<int>(i)), schema.fields()[i]);
      for (PartitionWatch& watch : watches) watch_partition(watch, *read->batch, schema);
    }
    compare_counts(num_rows);
    compare_metrics(schema);
  }

  void compare_counts(int64_t num_rows) {
    if (num_rows != file_.record_count && file_.file_format != "PARQUET")  // else the footer has been compared
      entry_.error("record-count-mismatch", "it has {} rows, its entry says {}", num_rows, file_.record_count);
  }

  bool has_metrics(int32_t id) const {
    return file_.null_value_counts.contains(id) || file_.nan_value_counts.contains(id) ||
           file_.lower_bounds.contains(id) || file_.upper_bounds.contains(id);
  }

  void observe(const arrow::Array& array, const Field& field) {
    const auto what = [&] { return fmt::format("{}, column {}", file_.file_path, field.name); };
    switch (field.type->id()) {
      case TypeId::struct_: {
        const auto& parent = static_cast<const arrow::StructArray&>(array);
        for (size_t i = 0; i < field.type->fields().size(); ++i)
          observe(*check(parent.GetFlattenedField(static_cast<int>(i)), what()), field.type->fields()[i]);
        return;
      }
      case TypeId::list:
        observe(*check(static_cast<const arrow::ListArray&>(array).Flatten(), what()), field.type->element());
        return;
      case TypeId::map: {
        const auto entries = check(static_cast<const arrow::MapArray&>(array).Flatten(), what());
        for (size_t i = 0; i < 2; ++i)
          observe(
              *check(static_cast<const arrow::StructArray&>(*entries).GetFlattenedField(static_cast<int>(i)), what()),
              field.type->fields()[i]);
        return;
      }
      default:
        if (has_order(*field.type) && has_metrics(field.id)) observe_leaf(array, field);
    }
  }

  void observe_leaf(const arrow::Array& array, const Field& field) {
    Observed& observed = observed_[field.id];
    observed.nulls += array.null_count();
    const bool is_real = field.type->id() == TypeId::float_ || field.type->id() == TypeId::double_;
    const bool has_bounds = file_.lower_bounds.contains(field.id) || file_.upper_bounds.contains(field.id);
    if (!is_real && !has_bounds) return;
    for (int64_t row = 0; row < array.length(); ++row) {
      Value value = value_at(array, *field.type, row);
      if (is_null(value)) continue;
      if (is_nan(value)) {
        ++observed.nans;
        continue;
      }
      if (field.type->id() == TypeId::uuid) {
        const std::string other = without_sign(std::get<std::string>(value));
        if (!observed.signed_lower || other < *observed.signed_lower) observed.signed_lower = other;
        if (!observed.signed_upper || other > *observed.signed_upper) observed.signed_upper = other;
      }
      if (!observed.lower || compare(value, *observed.lower, true) < 0) observed.lower = value;
      if (!observed.upper || compare(value, *observed.upper, true) > 0) observed.upper = std::move(value);
    }
  }

  void compare_metrics(const Schema& schema) {
    for (const auto& [id, observed] : observed_) {
      const Field& field = *schema.find_field(id);
      const std::string name = schema.full_name(id);
      if (!schema.is_nested_below_list_or_map(id)) {
        const auto nulls = find_in(file_.null_value_counts, id);
        const auto values = find_in(file_.value_counts, id);
        const bool counts_hidden = is_in_every_row(schema, id) || !values || *values == file_.record_count;
        const int64_t uncounted = counts_hidden ? 0 : file_.record_count - *values;
        if (nulls && *nulls != observed.nulls - uncounted)
          entry_.error("null-count-mismatch", "column {} has {} nulls, its entry says {}", name,
                       observed.nulls - uncounted, *nulls);
        const auto nans = find_in(file_.nan_value_counts, id);
        if (nans && *nans != observed.nans)
          entry_.error("nan-count-mismatch", "column {} has {} NaNs, its entry says {}", name, observed.nans, *nans);
      }
      compare_bound(field, name, observed.lower, observed.signed_lower, find_in(file_.lower_bounds, id), -1);
      compare_bound(field, name, observed.upper, observed.signed_upper, find_in(file_.upper_bounds, id), 1);
    }
  }

  // `side` -1: nothing may lie below the bound; 1: above.
  void compare_bound(const Field& field, const std::string& name, const std::optional<Value>& extreme,
                     const std::optional<std::string>& signed_extreme, const std::optional<std::string>& bytes,
                     int side) {
    if (!bytes || !extreme) return;
    const std::optional<Value> bound = from_bytes(*bytes, *field.type);
    if (!bound || is_nan(*bound)) return;
    const auto lies_outside = [&](bool total) {
      const auto order = compare(*extreme, *bound, total);
      return side < 0 ? order < 0 : order > 0;
    };
    bool outside = lies_outside(false);
    if (outside && signed_extreme) {
      const std::string signed_bound = without_sign(std::get<std::string>(*bound));
      outside = side < 0 ? *signed_extreme < signed_bound : *signed_extreme > signed_bound;
    }
    const char* which = side < 0 ? "lower" : "upper";
    if (outside) {
      entry_.error("bound-mismatch", "column {} has {}, its {} bound is {}", name, to_display(*extreme, *field.type),
                   which, to_display(*bound, *field.type));
    } else if (lies_outside(true) && !signed_extreme) {
      entry_.warning("bound-mismatch", "column {} has {}, its {} bound is the other zero, {}", name,
                     to_display(*extreme, *field.type), which, to_display(*bound, *field.type));
    }
  }

  // One partition field that the rows are held against.
  struct PartitionWatch {
    const PartitionField* field = nullptr;
    const Field* source = nullptr;
    Value stored;
    Value last;  // the source value seen last; most rows repeat it
    bool done = false;
  };

  std::vector<PartitionWatch> partition_watches(const Schema& schema) {
    std::vector<PartitionWatch> watches;
    if (file_.content != FileContent::data) return watches;
    const PartitionSpec& spec = check_.metadata.spec(file_.partition_spec_id);
    for (size_t i = 0; i < std::min(spec.fields.size(), file_.partition.size()); ++i) {
      const PartitionField& field = spec.fields[i];
      if (field.source_ids.size() != 1 || field.transform.kind == TransformKind::void_ ||
          field.transform.kind == TransformKind::unknown)
        continue;
      const Field* source = schema.find_field(field.source_id());
      // A file without the column has the partition's value in it (case 16); what Avro stores is not looked up.
      const bool is_stored = stored_ids_ && stored_ids_->contains(field.source_id());
      if (source == nullptr || !is_stored || !can_transform(field.transform, *source->type)) continue;
      watches.push_back({.field = &field, .source = source, .stored = file_.partition[i]});
    }
    return watches;
  }

  void watch_partition(PartitionWatch& watch, const arrow::RecordBatch& batch, const Schema& schema) {
    if (watch.done) return;
    const auto array = array_of(batch, schema, watch.source->id);
    for (int64_t row = 0; row < array->length(); ++row) {
      Value value = value_at(*array, *watch.source->type, row);
      if (row > 0 && value == watch.last) continue;
      const Value expected = apply(watch.field->transform, value, *watch.source->type);
      if (!same_partition_value(expected, watch.stored, watch.field->transform.kind)) {
        const TypePtr type = result_type(watch.field->transform, watch.source->type);
        entry_.error("partition-value-mismatch", "partition field {} is {} in its entry, but {} for a row's {}",
                     watch.field->name, to_display(watch.stored, *type), to_display(expected, *type),
                     to_display(value, *watch.source->type));
        watch.done = true;
        return;
      }
      watch.last = std::move(value);
    }
  }

  // Widened types are equal; old Java writers rounded times before 1970 towards zero (case 4).
  static bool same_partition_value(const Value& expected, const Value& stored, TransformKind kind) {
    if (partition_key(0, {expected}) == partition_key(0, {stored})) return true;
    const auto* a = std::get_if<int32_t>(&expected);
    const auto* b = std::get_if<int32_t>(&stored);
    const bool is_time = kind == TransformKind::year || kind == TransformKind::month || kind == TransformKind::day ||
                         kind == TransformKind::hour;
    return is_time && a != nullptr && b != nullptr && *a < 0 && *b == *a + 1;
  }

  // Where a delete points: true if `position` is a row of a live data file, or nothing is known about the file.
  void check_target(const std::string& path, int64_t position) {
    const auto target = check_.data_files.find(path);
    if (target == check_.data_files.end()) {
      if (check_.is_new && missing_.insert(path).second)
        entry_.error("delete-target-missing", "it deletes rows of {}, which the snapshot does not have", path);
      return;
    }
    if (position >= target->second && beyond_.insert(path).second)
      entry_.error("position-out-of-range", "it deletes row {} of {}, which has {}", position, path, target->second);
  }

  void check_positions() {
    const Schema schema(
        {Field{.id = kDeleteFilePathFieldId,
               .name = "file_path",
               .required = true,
               .type = Type::primitive(TypeId::string)},
         Field{.id = kDeletePosFieldId, .name = "pos", .required = true, .type = Type::primitive(TypeId::long_)}});
    ParquetReadRequest request;
    request.projection = schema;
    const auto reader = open_data_file(check_.io, file_, std::move(request));
    int64_t num_rows = 0, last_position = -1;
    std::string last_path;
    bool is_sorted = true, is_referenced = true;
    while (const std::optional<PositionedBatch> read = reader->next()) {
      num_rows += read->batch->num_rows();
      const auto& paths = static_cast<const arrow::StringArray&>(*read->batch->column(0));
      const auto& positions = static_cast<const arrow::Int64Array&>(*read->batch->column(1));
      for (int64_t row = 0; row < read->batch->num_rows(); ++row) {
        const std::string_view path = paths.GetView(row);
        const int64_t position = positions.Value(row);
        const auto order = path <=> std::string_view(last_path);
        is_sorted &= order > 0 || (order == 0 && position >= last_position);
        is_referenced &= file_.referenced_data_file.empty() || path == file_.referenced_data_file;
        if (order != 0) last_path = path;
        last_position = position;
        if (position < 0) {
          entry_.error("position-out-of-range", "it deletes row {} of {}", position, path);
          return;
        }
        check_target(last_path, position);
      }
      for (size_t i = 0; i < schema.fields().size(); ++i)
        observe(*read->batch->column(static_cast<int>(i)), schema.fields()[i]);
    }
    if (!is_sorted) entry_.warning("position-deletes-unsorted", "its rows are not in the order of path and position");
    if (!is_referenced)
      entry_.error("delete-target-mismatch", "it deletes rows of other files than its referenced_data_file {}",
                   file_.referenced_data_file);
    compare_counts(num_rows);
    compare_metrics(schema);
  }

  void check_vector() {
    if (!file_.content_offset || !file_.content_size_bytes) return;  // reported with the entry
    const std::string& path = file_.file_path;
    const auto input = check_.io.open(path);
    const int64_t size_bytes = check(input->GetSize(), path);
    const int64_t offset = *file_.content_offset, length = *file_.content_size_bytes;
    if (offset < 0 || length < 0 || length > kVectorBytesMax || offset > size_bytes - length)
      fail(ErrorKind::corrupt, "{}: {} bytes at {} do not lie in its {}", path, length, offset, size_bytes);
    const auto read = [&](int64_t at, int64_t bytes) { return check(input->ReadAt(at, bytes), path)->ToString(); };
    const PositionSet positions = PositionSet::from_blob(read(offset, length), path);
    if (positions.size() != file_.record_count)
      entry_.error("deletion-vector-cardinality", "the vector of {} has {} positions, its entry says {}",
                   file_.referenced_data_file, positions.size(), file_.record_count);
    const auto target = check_.data_files.find(file_.referenced_data_file);
    if (target != check_.data_files.end()) {
      std::optional<int64_t> beyond;
      positions.for_each_in(target->second, INT64_MAX, [&](int64_t position) { beyond = position; });
      if (beyond)
        entry_.error("position-out-of-range", "it deletes row {} of {}, which has {}", *beyond,
                     file_.referenced_data_file, target->second);
    }

    if (size_bytes < kPuffinFooterEndBytes) fail(ErrorKind::corrupt, "{}: too short for a Puffin file", path);
    const int64_t footer_bytes =
        puffin_footer_size_bytes(read(size_bytes - kPuffinFooterEndBytes, kPuffinFooterEndBytes), size_bytes, path);
    const PuffinFile puffin = parse_puffin_footer(read(size_bytes - footer_bytes, footer_bytes), size_bytes, path);
    const auto blob = std::find_if(puffin.blobs.begin(), puffin.blobs.end(), [&](const PuffinBlob& there) {
      return there.offset == offset && there.length == length && there.type == kDeletionVectorBlobType;
    });
    if (blob == puffin.blobs.end()) {
      entry_.error("deletion-vector-invalid", "its footer has no deletion vector of {} bytes at {}", length, offset);
      return;
    }
    const auto property = [&](const char* key) {
      const auto found = blob->properties.find(key);
      return found == blob->properties.end() ? std::string() : found->second;
    };
    if (property("referenced-data-file") != file_.referenced_data_file)
      entry_.warning("deletion-vector-invalid", "its footer says it is of '{}', its entry {}",
                     property("referenced-data-file"), file_.referenced_data_file);
    if (property("cardinality") != std::to_string(file_.record_count))
      entry_.warning("deletion-vector-invalid", "its footer says it has {} positions, its entry {}",
                     property("cardinality"), file_.record_count);
  }

  const DataFile& file_;
  const FileCheck& check_;
  Findings& findings_;
  EntryCheck entry_;
  std::optional<std::set<int32_t>> stored_ids_;  // nullopt: not known
  std::map<int32_t, Observed> observed_;
  std::set<std::string> missing_, beyond_;  // targets reported
};

}  // namespace

void check_file_entry(const DataFile& file, const TableMetadata& metadata, const Schema& schema, Findings& findings) {
  const Schema position_columns(
      {Field{.id = kDeleteFilePathFieldId,
             .name = "file_path",
             .required = true,
             .type = Type::primitive(TypeId::string)},
       Field{.id = kDeletePosFieldId, .name = "pos", .required = true, .type = Type::primitive(TypeId::long_)}});
  EntryCheck entry(file, file.content == FileContent::position_deletes ? position_columns : schema, findings);
  entry.check_sizes();
  entry.check_counts();
  entry.check_bounds();
  if (file.file_format != "PARQUET" && file.file_format != "AVRO" && file.file_format != "ORC" &&
      file.file_format != "PUFFIN")
    entry.error("file-format-unknown", "its format is '{}'", file.file_format);
  if (file.content != FileContent::data) check_delete_entry(file, metadata, schema, entry);
}

void check_file(const DataFile& file, const FileCheck& check, Findings& findings) {
  const std::optional<FileInfo> info = check.io.stat(file.file_path);
  if (!info) {
    findings.error("file-missing", file.file_path, "it is not there");
    return;
  }
  if (info->size_bytes != file.file_size_bytes) {
    findings.error("file-size-mismatch", file.file_path,
                   fmt::format("it has {} bytes, its entry says {}", info->size_bytes, file.file_size_bytes));
  }
  if (!check.check_data || file.file_format == "ORC") return;
  try {
    ContentCheck(file, check, findings).run();
  } catch (const Error& e) {
    findings.error("file-unreadable", file.file_path, e.what());
  }
}

}  // namespace firn::iceberg
