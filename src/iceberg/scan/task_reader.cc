#include "iceberg/scan/task_reader.h"
#include "base/parallel.h"

#include <algorithm>

#include <arrow/compute/api_vector.h>
#include <arrow/datum.h>

#include "base/arrow_compute.h"
#include "base/arrow_status.h"
#include "iceberg/expr/row_filter.h"
#include "iceberg/parquet/array_adapter.h"
#include "iceberg/parquet/arrow_schema.h"
#include "iceberg/scan/equality_key.h"
#include "iceberg/scan/projection.h"

namespace firn::iceberg {

namespace {

constexpr bool is_lineage_column(int32_t id) { return id == kRowIdFieldId || id == kLastUpdatedSequenceNumberFieldId; }

// Columns of `schemas` that hold any of `ids`, cut down to those.
std::vector<Field> pruned_columns(const std::vector<const Schema*>& schemas, const std::set<int32_t>& ids) {
  std::vector<Field> columns;
  for (const Schema* schema : schemas) {
    std::vector<Field> pruned;
    for (const Field& field : schema->fields()) {
      if (std::optional<Field> kept = prune_field(field, ids)) pruned.push_back(std::move(*kept));
    }
    columns = merge_fields(std::move(columns), pruned);
  }
  return columns;
}

std::set<int32_t> equality_ids(const FileScanTask& task) {
  std::set<int32_t> ids;
  for (const auto& file : task.deletes) {
    if (file->content == FileContent::equality_deletes)
      ids.insert(file->equality_ids.begin(), file->equality_ids.end());
  }
  return ids;
}

// `column` (int64) with `value_of(row)` where it is null.
template <class ValueOf>
std::shared_ptr<arrow::Array> filled(const arrow::Array& column, const ValueOf& value_of) {
  const auto& stored = static_cast<const arrow::Int64Array&>(column);
  const int64_t rows = column.length();
  std::shared_ptr<arrow::Buffer> buffer = check(arrow::AllocateBuffer(rows * 8), "allocate row ids");
  auto* values = reinterpret_cast<int64_t*>(buffer->mutable_data());
  for (int64_t row = 0; row < rows; ++row) values[row] = stored.IsNull(row) ? value_of(row) : stored.Value(row);
  return std::make_shared<arrow::Int64Array>(rows, std::move(buffer));
}

std::shared_ptr<arrow::Array> counting_from(int64_t first, int64_t rows) {
  std::shared_ptr<arrow::Buffer> buffer = check(arrow::AllocateBuffer(rows * 8), "allocate row positions");
  auto* values = reinterpret_cast<int64_t*>(buffer->mutable_data());
  for (int64_t row = 0; row < rows; ++row) values[row] = first + row;
  return std::make_shared<arrow::Int64Array>(rows, std::move(buffer));
}

std::shared_ptr<arrow::BooleanArray> as_mask(const std::vector<uint8_t>& live) {
  const auto rows = static_cast<int64_t>(live.size());
  std::shared_ptr<arrow::Buffer> bits = check(arrow::AllocateEmptyBitmap(rows), "allocate a row mask");
  for (int64_t row = 0; row < rows; ++row) {
    if (live[row] != 0) bits->mutable_data()[row / 8] |= static_cast<uint8_t>(1 << (row % 8));
  }
  return std::make_shared<arrow::BooleanArray>(rows, std::move(bits));
}

}  // namespace

TaskReader::TaskReader(const ScanPlan& plan, const FileScanTask& task, FileIO& io, const ScanOptions& options)
    : plan_(plan), task_(task), io_(io), options_(options) {}
TaskReader::~TaskReader() = default;

void TaskReader::choose_columns() {
  const std::set<int32_t> keys = equality_ids(task_);
  std::set<int32_t> checked_ids = keys;
  if (task_.residual) {
    for (const int32_t id : referenced_field_ids(*task_.residual)) checked_ids.insert(id);
  }
  const std::vector<Field> checked = pruned_columns({&plan_.table_schema, &plan_.dropped_columns}, checked_ids);
  for (const int32_t id : keys) {
    if (std::none_of(checked.begin(), checked.end(),
                     [&](const Field& field) { return Schema({field}).find_field(id); })) {
      fail(ErrorKind::corrupt, "{}: an equality delete names column {}, which no schema of the table has",
           task_.file.file_path, id);
    }
  }
  const auto is_constant = [&](const Field& field) { return task_.constants.contains(field.id); };
  const auto is_not_stored = [&](const Field& field) {
    return is_constant(field) || field.id == kFilePathFieldId || field.id == kPosFieldId;
  };
  std::vector<Field> stored = merge_fields(plan_.projection.fields(), checked);
  std::erase_if(stored, is_not_stored);
  file_schema_ = Schema(stored);
  std::copy_if(checked.begin(), checked.end(), std::back_inserter(stored), is_constant);
  check_schema_ = Schema(std::move(stored));
  check_arrow_schema_ = to_arrow_schema(check_schema_);
  for (const Field& field : plan_.projection.fields()) {
    OutputColumn column{OutputColumn::Source::file, 0, field};
    if (field.id == kFilePathFieldId) column.source = OutputColumn::Source::path;
    if (field.id == kPosFieldId) column.source = OutputColumn::Source::position;
    if (is_constant(field)) column.source = OutputColumn::Source::constant;
    while (column.source == OutputColumn::Source::file && file_schema_.fields()[column.index].id != field.id)
      ++column.index;
    output_columns_.push_back(std::move(column));
  }
  output_schema_ = to_arrow_schema(plan_.projection);
}

ParquetReadRequest TaskReader::request() const {
  ParquetReadRequest request;
  request.projection = file_schema_;
  request.filter = options_.prune ? task_.residual : nullptr;
  request.name_mapping = plan_.name_mapping;
  request.batch_rows_max = options_.batch_rows_max;
  request.file_size_bytes = task_.file.file_size_bytes;
  request.entry = &task_.file;
  request.counters = options_.counters;
  // Threads that have no file of their own help with the columns of this one.
  request.column_threads = thread_count(options_.threads) / static_cast<int>(std::max<size_t>(1, plan_.tasks.size()));
  return request;
}

std::vector<RowGroupChoice> TaskReader::explain() {
  choose_columns();
  return ParquetFileReader(io_, task_.file.file_path, request()).explain();
}

void TaskReader::open() {
  initialize_compute();
  choose_columns();
  DeleteCache* cache = plan_.delete_cache.get();
  deleted_ = load_deleted_positions(task_, io_, cache);
  for (const auto& file : task_.deletes) {
    if (file->content != FileContent::equality_deletes) continue;
    std::vector<int32_t> ids = file->equality_ids;
    std::sort(ids.begin(), ids.end());
    if (ids.empty()) fail(ErrorKind::corrupt, "equality delete file {} names no columns", file->file_path);
    const Schema columns(
        pruned_columns({&plan_.table_schema, &plan_.dropped_columns}, std::set<int32_t>(ids.begin(), ids.end())));
    auto group =
        std::find_if(equality_.begin(), equality_.end(), [&](const EqualityGroup& other) { return other.ids == ids; });
    if (group == equality_.end()) group = equality_.insert(group, EqualityGroup{ids, {}});
    group->files.push_back(load_equality_keys(*file, columns, plan_.name_mapping, io_, cache));
  }
  reader_ = open_data_file(io_, task_.file, request());
}

// Row lineage (spec, "Row Lineage": null is inherited from the manifest entry) and identity partition values within
// structs.
PositionedBatch TaskReader::with_inherited_values(PositionedBatch read) const {
  arrow::ArrayVector columns = read.batch->columns();
  for (size_t i = 0; i < columns.size(); ++i) {
    const Field& field = file_schema_.fields()[i];
    if (!is_lineage_column(field.id)) {
      columns[i] = with_constants(columns[i], *field.type, task_.constants);
    } else if (task_.file.first_row_id && columns[i]->null_count() > 0) {
      const int64_t first = *task_.file.first_row_id + read.first_position;
      const bool is_row_id = field.id == kRowIdFieldId;
      columns[i] =
          filled(*columns[i], [&](int64_t row) { return is_row_id ? first + row : task_.data_sequence_number; });
    }
  }
  read.batch = arrow::RecordBatch::Make(read.batch->schema(), read.batch->num_rows(), std::move(columns));
  return read;
}

std::shared_ptr<arrow::RecordBatch> TaskReader::with_constant_columns(const arrow::RecordBatch& batch) const {
  arrow::ArrayVector columns = batch.columns();
  for (size_t i = columns.size(); i < check_schema_.fields().size(); ++i) {
    const Field& field = check_schema_.fields()[i];
    columns.push_back(constant_array(task_.constants.at(field.id), *field.type, batch.num_rows()));
  }
  return arrow::RecordBatch::Make(check_arrow_schema_, batch.num_rows(), std::move(columns));
}

std::vector<uint8_t> TaskReader::live_rows(const PositionedBatch& read) const {
  const int64_t rows = read.batch->num_rows();
  std::vector<uint8_t> live(static_cast<size_t>(rows), 1);
  // Positions count from the file's first row, whatever was pruned before this batch (case 17).
  deleted_.for_each_in(read.first_position, read.first_position + rows,
                       [&](int64_t position) { live[static_cast<size_t>(position - read.first_position)] = 0; });
  if (equality_.empty() && !task_.residual) return live;
  const std::shared_ptr<arrow::RecordBatch> batch = with_constant_columns(*read.batch);
  std::string key;
  for (const EqualityGroup& group : equality_) {
    const EqualityKeys keys(*batch, check_schema_, group.ids);
    for (int64_t row = 0; row < rows; ++row) {
      if (live[row] == 0) continue;
      key.clear();
      keys.append_key(row, key);
      for (const auto& file : group.files) {
        if (file->equality_keys.contains(key)) live[row] = 0;
      }
    }
  }
  if (task_.residual) {
    const std::shared_ptr<arrow::BooleanArray> matches = evaluate(*task_.residual, *batch);
    for (int64_t row = 0; row < rows; ++row) live[row] &= static_cast<uint8_t>(matches->Value(row));
  }
  return live;
}

std::shared_ptr<arrow::Array> TaskReader::output_column(const OutputColumn& column, const PositionedBatch& read) const {
  const int64_t rows = read.batch->num_rows();
  switch (column.source) {
    case OutputColumn::Source::constant:
      return constant_array(task_.constants.at(column.field.id), *column.field.type, rows);
    case OutputColumn::Source::path:
      return constant_array(task_.file.file_path, *column.field.type, rows);
    case OutputColumn::Source::position:
      return counting_from(read.first_position, rows);
    case OutputColumn::Source::file:
      break;
  }
  return project_array(read.batch->column(static_cast<int>(column.index)), *file_schema_.fields()[column.index].type,
                       *column.field.type);
}

std::shared_ptr<arrow::RecordBatch> TaskReader::output(const PositionedBatch& read,
                                                       const std::vector<uint8_t>& live) const {
  const int64_t live_count = std::count(live.begin(), live.end(), 1);
  if (live_count == 0) return nullptr;
  const std::shared_ptr<arrow::BooleanArray> mask = live_count < read.batch->num_rows() ? as_mask(live) : nullptr;
  arrow::ArrayVector columns;
  for (const OutputColumn& column : output_columns_) {
    std::shared_ptr<arrow::Array> array = output_column(column, read);
    if (mask) array = check(arrow::compute::Filter(array, mask), "leave out rows of " + column.field.name).make_array();
    columns.push_back(std::move(array));
  }
  return arrow::RecordBatch::Make(output_schema_, live_count, std::move(columns));
}

std::shared_ptr<arrow::RecordBatch> TaskReader::next() {
  if (!reader_) open();
  while (std::optional<PositionedBatch> read = reader_->next()) {
    if (read->batch->num_rows() == 0) continue;
    const PositionedBatch rows = with_inherited_values(std::move(*read));
    if (std::shared_ptr<arrow::RecordBatch> batch = output(rows, live_rows(rows))) return batch;
  }
  return nullptr;
}

}  // namespace firn::iceberg
