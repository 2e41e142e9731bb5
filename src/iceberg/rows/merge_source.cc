#include "iceberg/rows/merge_source.h"

#include <algorithm>
#include <functional>

#include <arrow/array/concatenate.h>
#include <arrow/util/byte_size.h>

#include "base/arrow_status.h"
#include "iceberg/expr/row_filter.h"
#include "iceberg/parquet/array_adapter.h"
#include "iceberg/parquet/arrow_schema.h"
#include "iceberg/write/array_values.h"
#include "iceberg/write/row_sorter.h"

namespace firn::iceberg {

namespace {

constexpr size_t kInListMax = 200;  // more values than this are a range to the planner
constexpr int64_t kRangeRowsMax = int64_t{1} << 28;

Schema flat_schema(const Schema& schema, const std::vector<int32_t>& ids) {
  std::vector<Field> fields;
  for (const int32_t id : ids) {
    const Field* field = schema.find_field(id);
    if (field == nullptr || !has_order(*field->type) || schema.is_nested_below_list_or_map(id)) {
      fail(ErrorKind::invalid_argument,
           "rows cannot be matched by {}: a key is of a primitive type and in no list or map",
           field == nullptr ? "field id " + std::to_string(id) : "column " + schema.full_name(id));
    }
    Field flat = *field;
    flat.name = schema.full_name(id);
    flat.required = false;
    fields.push_back(std::move(flat));
  }
  return Schema(std::move(fields));
}

SortOrder ascending(const std::vector<int32_t>& ids) {
  SortOrder order;
  for (const int32_t id : ids) order.fields.push_back({.transform = Transform::parse("identity"), .source_ids = {id}});
  return order;
}

// `array` with 0.0 for -0.0.
template <class ArrayType>
std::shared_ptr<arrow::Array> with_one_zero(const std::shared_ptr<arrow::Array>& array) {
  using T = typename ArrayType::value_type;
  const auto& values = static_cast<const ArrayType&>(*array);
  const auto width = static_cast<int64_t>(sizeof(T));
  std::shared_ptr<arrow::Buffer> buffer =
      check(arrow::AllocateBuffer((array->offset() + array->length()) * width), "allocate keys");
  auto* out = reinterpret_cast<T*>(buffer->mutable_data()) + array->offset();
  for (int64_t row = 0; row < array->length(); ++row) out[row] = values.Value(row) == 0 ? T{0} : values.Value(row);
  const std::shared_ptr<arrow::ArrayData> data = array->data()->Copy();
  data->buffers[1] = std::move(buffer);
  return arrow::MakeArray(data);
}

std::vector<int32_t> key_ids_of(const TableMetadata& base, const MergeOptions& options) {
  const Schema& schema = base.schema();
  if (options.key_columns.empty()) {
    if (schema.identifier_field_ids().empty()) {
      fail(ErrorKind::invalid_argument,
           "table {} has no identifier fields: name the key columns that rows are to be matched by", base.location);
    }
    return schema.identifier_field_ids();
  }
  std::vector<int32_t> ids;
  for (const std::string& name : options.key_columns) {
    const Field* field = options.rows.case_sensitive ? schema.find_field(name) : schema.find_field_ci(name);
    if (field == nullptr)
      fail(ErrorKind::invalid_argument, "table {}: there is no column {} to match rows by", base.location, name);
    if (std::find(ids.begin(), ids.end(), field->id) == ids.end()) ids.push_back(field->id);
  }
  return ids;
}

bool equal_names(const std::string& a, const std::string& b, bool case_sensitive) {
  return case_sensitive
             ? a == b
             : a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) {
                 return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y));
               });
}

// How the source's columns are the table's.
struct SourceColumns {
  int delete_column = -1;
  std::shared_ptr<arrow::Schema> table_columns;  // of the source, without the delete column, named as the table does
  Schema schema;                                 // the table's columns among them
};

SourceColumns match_columns(const arrow::Schema& source, const TableMetadata& base, const MergeOptions& options) {
  const bool case_sensitive = options.rows.case_sensitive;
  const Schema& schema = base.schema();
  SourceColumns result;
  arrow::FieldVector fields;
  bool by_id = true;
  for (int i = 0; i < source.num_fields(); ++i) {
    const auto& field = source.field(i);
    if (!options.delete_column.empty() && equal_names(field->name(), options.delete_column, case_sensitive)) {
      if (field->type()->id() != arrow::Type::BOOL)
        fail(ErrorKind::invalid_argument,
             "the source's column {} says which rows to delete: it must be boolean, not {}", field->name(),
             field->type()->ToString());
      result.delete_column = i;
      continue;
    }
    by_id = by_id && field_id_of(*field).has_value();
    fields.push_back(field);
  }
  if (!options.delete_column.empty() && result.delete_column < 0)
    fail(ErrorKind::invalid_argument, "the source has no column {}, which was to say which rows to delete",
         options.delete_column);
  std::set<int32_t> present;
  for (auto& source_field : fields) {
    const auto found = std::find_if(schema.fields().begin(), schema.fields().end(), [&](const Field& field) {
      return by_id ? field.id == field_id_of(*source_field)
                   : equal_names(field.name, source_field->name(), case_sensitive);
    });
    if (found == schema.fields().end())
      fail(ErrorKind::schema_mismatch,
           "table {} has no column {}: add it to the schema first, or drop it from the rows", base.location,
           source_field->name());
    present.insert(found->id);
    source_field = source_field->WithName(found->name);
  }
  std::vector<Field> columns;
  for (const Field& field : schema.fields()) {
    if (present.contains(field.id)) columns.push_back(field);
  }
  result.table_columns = arrow::schema(std::move(fields));
  result.schema = Schema(std::move(columns), schema.schema_id());
  return result;
}

// The literal that a filter text would have: a predicate is bound from it.
Value literal_of(const Value& value, const Type& type) {
  if (type.id() == TypeId::uuid || type.id() == TypeId::decimal) return to_display(value, type);
  return value;
}

}  // namespace

KeyEncoder::KeyEncoder(const Schema& schema, std::vector<int32_t> key_ids)
    : ids_(std::move(key_ids)), columns_(flat_schema(schema, ids_)), encoder_(ascending(ids_), columns_) {}

std::vector<std::shared_ptr<arrow::Array>> KeyEncoder::arrays(const arrow::RecordBatch& batch,
                                                              const Schema& schema) const {
  std::vector<std::shared_ptr<arrow::Array>> result;
  for (const int32_t id : ids_) {
    std::shared_ptr<arrow::Array> array = array_of(batch, schema, id);
    if (array->type_id() == arrow::Type::FLOAT) array = with_one_zero<arrow::FloatArray>(array);
    if (array->type_id() == arrow::Type::DOUBLE) array = with_one_zero<arrow::DoubleArray>(array);
    result.push_back(std::move(array));
  }
  return result;
}

RowKeys KeyEncoder::encode(const arrow::RecordBatch& batch, const Schema& schema) const {
  std::vector<std::shared_ptr<arrow::Array>> columns = arrays(batch, schema);
  RowKeys result;
  result.has_null.assign(static_cast<size_t>(batch.num_rows()), false);
  for (const auto& column : columns) {
    if (column->null_count() == 0) continue;
    for (int64_t row = 0; row < batch.num_rows(); ++row) {
      if (column->IsNull(row)) result.has_null[static_cast<size_t>(row)] = true;
    }
  }
  result.keys = encoder_.encode(
      *arrow::RecordBatch::Make(to_arrow_schema(columns_), batch.num_rows(), std::move(columns)), nullptr);
  return result;
}

std::string KeyEncoder::first_column_key(const Value& value) const {
  const Schema first({columns_.fields()[0]});
  const SortKeyEncoder encoder(ascending({ids_[0]}), first);
  const auto batch = arrow::RecordBatch::Make(to_arrow_schema(first), 1,
                                              arrow::ArrayVector{constant_array(value, *first.fields()[0].type, 1)});
  return std::string(encoder.encode(*batch, nullptr)[0]);
}

std::string KeyEncoder::to_display(const arrow::RecordBatch& batch, const Schema& schema, int64_t row) const {
  std::string text;
  const auto columns = arrays(batch, schema);
  for (size_t i = 0; i < ids_.size(); ++i) {
    const Field& field = columns_.fields()[i];
    text += fmt::format("{}{} = {}", i > 0 ? ", " : "", field.name,
                        iceberg::to_display(value_at(*columns[i], *field.type, row), *field.type));
  }
  return text;
}

KeyRange::KeyRange(const KeyEncoder& keys) {
  for (const Field& field : keys.columns().fields())
    columns_.push_back({.id = field.id, .type = field.type, .values = std::set<Value, Less>()});
}

void KeyRange::add(const arrow::RecordBatch& batch, const Schema& schema, const std::vector<bool>& has_null) {
  for (Column& column : columns_) {
    const std::shared_ptr<arrow::Array> array = array_of(batch, schema, column.id);
    for (int64_t row = 0; row < batch.num_rows(); ++row) {
      if (has_null[static_cast<size_t>(row)]) continue;
      empty_ = false;
      Value value = value_at(*array, *column.type, row);
      if (is_nan(value)) {
        column.has_nan = true;
        continue;
      }
      if (is_null(column.lowest)) column.lowest = column.highest = value;
      if (compare(value, column.lowest) < 0) column.lowest = value;
      if (compare(value, column.highest) > 0) column.highest = value;
      if (!column.values) continue;
      column.values->insert(std::move(value));
      if (column.values->size() > kInListMax) column.values.reset();
    }
  }
}

ExpressionPtr KeyRange::filter(const Schema& table_schema) const {
  ExpressionPtr all;
  const auto add = [&](ExpressionPtr part) { all = all ? and_(all, std::move(part)) : std::move(part); };
  for (const Column& column : columns_) {
    if (column.has_nan || is_null(column.lowest)) continue;  // NaN compares with nothing
    const std::string name = table_schema.full_name(column.id);
    if (column.values) {
      std::vector<Value> literals;
      for (const Value& value : *column.values) literals.push_back(literal_of(value, *column.type));
      add(predicate(Op::in, name, std::move(literals)));
    } else {
      add(predicate(Op::gt_eq, name, {literal_of(column.lowest, *column.type)}));
      add(predicate(Op::lt_eq, name, {literal_of(column.highest, *column.type)}));
    }
  }
  return all;
}

SourceRange::SourceRange(const KeyEncoder& encoder, const Schema& schema, std::shared_ptr<arrow::RecordBatch> rows)
    : rows_(std::move(rows)), keys_(encoder.encode(*rows_, schema)), range_(encoder) {
  range_.add(*rows_, schema, keys_.has_null);
  size_t slots = 16;
  while (slots < 2 * keys_.keys.size()) slots *= 2;
  slots_.assign(slots, 0);
  for (size_t row = 0; row < keys_.keys.size(); ++row) {
    if (keys_.has_null[row]) continue;
    size_t slot = std::hash<std::string_view>()(keys_.keys[row]) & (slots - 1);
    while (slots_[slot] != 0) slot = (slot + 1) & (slots - 1);
    slots_[slot] = static_cast<uint32_t>(row) + 1;
  }
}

bool SourceRange::deletes(int64_t row) const {
  return static_cast<const arrow::BooleanArray&>(*rows_->column(rows_->num_columns() - 1)).Value(row);
}

std::optional<uint32_t> SourceRange::find(std::string_view key) const {
  size_t slot = std::hash<std::string_view>()(key) & (slots_.size() - 1);
  for (; slots_[slot] != 0; slot = (slot + 1) & (slots_.size() - 1)) {
    if (keys_.keys[slots_[slot] - 1] == key) return slots_[slot] - 1;
  }
  return std::nullopt;
}

bool SourceRange::may_hold_between(std::string_view lowest, std::string_view highest) const {
  size_t first = 0, end = keys_.keys.size();  // the first key that is not below `lowest`
  while (first < end) {
    const size_t middle = first + (end - first) / 2;
    if (keys_.keys[middle] < lowest)
      first = middle + 1;
    else
      end = middle;
  }
  if (first == keys_.keys.size()) return false;
  return keys_.keys[first] <= highest || keys_.keys[first].starts_with(highest);
}

MergeSource::MergeSource(const TableMetadata& base, arrow::RecordBatchReader& rows, const MergeOptions& options)
    : table_(base.location) {
  const SourceColumns columns = match_columns(*rows.schema(), base, options);
  schema_ = columns.schema;
  const std::vector<int32_t> key_ids = key_ids_of(base, options);
  for (const int32_t id : key_ids) {
    if (schema_.find_field(id) == nullptr)
      fail(ErrorKind::invalid_argument, "table {}: the source rows lack the key column {}", table_,
           base.schema().full_name(id));
  }
  keys_ = std::make_unique<KeyEncoder>(schema_, key_ids);
  range_ = std::make_unique<KeyRange>(*keys_);
  const ExpressionPtr delete_matched =
      options.delete_matched ? bind(*options.delete_matched, schema_, options.rows.case_sensitive) : nullptr;

  arrow::FieldVector fields = to_arrow_schema(schema_)->fields();
  fields.push_back(arrow::field("", arrow::boolean(), false));  // no column of a table has this name
  const auto spilled_schema = arrow::schema(std::move(fields));
  file_ = std::make_unique<SpillFile>(options.rows.write.spill_folder, spilled_schema);
  RowSorter sorter(
      spilled_schema, [this](const arrow::RecordBatch& batch) { return keys_->encode(batch, schema_).keys; },
      options.rows.memory_bytes_max / 3, options.rows.write.spill_folder);
  while (true) {
    std::shared_ptr<arrow::RecordBatch> batch;
    check(rows.ReadNext(&batch), "read the source rows");
    if (!batch) break;
    if (batch->num_rows() == 0) continue;
    std::shared_ptr<arrow::Array> says_delete;
    if (columns.delete_column >= 0) {
      says_delete = batch->column(columns.delete_column);
      batch = check(batch->RemoveColumn(columns.delete_column), "read the source rows");
    }
    batch = conform(arrow::RecordBatch::Make(columns.table_columns, batch->num_rows(), batch->columns()), schema_);
    const auto matched = delete_matched ? evaluate(*delete_matched, *batch) : nullptr;
    arrow::BooleanBuilder deletes;
    check(deletes.Reserve(batch->num_rows()), "read the source rows");
    for (int64_t row = 0; row < batch->num_rows(); ++row) {
      const bool by_column =
          says_delete && says_delete->IsValid(row) && static_cast<const arrow::BooleanArray&>(*says_delete).Value(row);
      deletes.UnsafeAppend(by_column || (matched && matched->Value(row)));
    }
    arrow::ArrayVector arrays = batch->columns();
    arrays.push_back(check(deletes.Finish(), "read the source rows"));
    num_rows_ += batch->num_rows();
    sorter.add(arrow::RecordBatch::Make(spilled_schema, batch->num_rows(), std::move(arrays)));
  }
  sorter.finish([&](const std::shared_ptr<arrow::RecordBatch>& sorted) { spill(sorted); });
  file_->finish();
}

void MergeSource::spill(const std::shared_ptr<arrow::RecordBatch>& sorted) {
  const RowKeys keys = keys_->encode(*sorted, schema_);
  for (size_t row = 0; row < keys.keys.size(); ++row) {
    if (keys.has_null[row]) continue;
    if (last_key_ && *last_key_ == keys.keys[row]) {
      fail(ErrorKind::invalid_argument, "table {}: two source rows have the key {}; each row can be changed once",
           table_, keys_->to_display(*sorted, schema_, static_cast<int64_t>(row)));
    }
    last_key_ = keys.keys[row];
  }
  range_->add(*sorted, schema_, keys.has_null);
  file_->write(*sorted);
}

void MergeSource::for_each_range(int64_t size_bytes_max, const std::function<void(const SourceRange&)>& visit) const {
  const auto reader = file_->read();
  arrow::RecordBatchVector pieces;
  int64_t bytes = 0, rows = 0;
  const auto flush = [&] {
    if (pieces.empty()) return;
    auto all = pieces.size() == 1 ? pieces[0] : check(arrow::ConcatenateRecordBatches(pieces), "read source rows");
    pieces.clear();
    bytes = rows = 0;
    visit(SourceRange(*keys_, schema_, std::move(all)));
  };
  for (int i = 0; i < reader->num_record_batches(); ++i) {
    auto piece = check(reader->ReadRecordBatch(i), "read source rows");
    // A row's key and its slot take room too.
    const int64_t piece_bytes =
        check(arrow::util::ReferencedBufferSize(*piece), "measure rows") + 64 * piece->num_rows();
    if (bytes + piece_bytes > size_bytes_max || rows + piece->num_rows() > kRangeRowsMax) flush();
    bytes += piece_bytes;
    rows += piece->num_rows();
    pieces.push_back(std::move(piece));
  }
  flush();
}

}  // namespace firn::iceberg
