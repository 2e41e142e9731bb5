#include "hyp/query/dataset_scan.h"

#include <set>

#include <arrow/array/concatenate.h>
#include <arrow/c/bridge.h>
#include <fmt/ranges.h>

#include "base/arrow_status.h"
#include "base/log.h"
#include "hyp/capture/row_parser.h"
#include "iceberg/parquet/arrow_schema.h"
#include "iceberg/parquet/without_field_ids.h"
#include "iceberg/scan/scan.h"
#include "iceberg/scan/snapshot_choice.h"

namespace firn::hyp {
namespace {

constexpr const char* kFunctionName = "hyp_scan";
constexpr const char* kNoColumn = "_hyp_no_column";  // always null: of a dataset that has rows and no column yet

template <class T>
void destroy(void* pointer) {
  delete static_cast<T*>(pointer);
}

// --- Arrow's schema for DuckDB ---

// The same rows, to be matched by name: no field has an id.
std::shared_ptr<arrow::RecordBatch> without_ids(const arrow::RecordBatch& batch) {
  const std::function<std::shared_ptr<arrow::ArrayData>(const arrow::ArrayData&,
                                                        const std::shared_ptr<arrow::DataType>&)>
      retype = [&](const arrow::ArrayData& data, const std::shared_ptr<arrow::DataType>& type) {
        auto copy = data.Copy();
        copy->type = type;
        for (size_t i = 0; i < copy->child_data.size(); ++i) {
          copy->child_data[i] = retype(*data.child_data[i], type->field(static_cast<int>(i))->type());
        }
        return copy;
      };
  arrow::FieldVector fields;
  std::vector<std::shared_ptr<arrow::ArrayData>> columns;
  for (int i = 0; i < batch.num_columns(); ++i) {
    fields.push_back(iceberg::without_field_ids(batch.schema()->field(i)));
    columns.push_back(retype(*batch.column_data(i), fields.back()->type()));
  }
  return arrow::RecordBatch::Make(arrow::schema(std::move(fields)), batch.num_rows(), std::move(columns));
}

// --- bind ---

struct Bound {
  DatasetScanContext* context = nullptr;
  std::shared_ptr<const DatasetCut> dataset;
};

// Imports a batch of `schema` into a chunk; its vectors have DuckDB's types for it.
DuckChunk to_chunk(duckdb_connection connection, duckdb_arrow_converted_schema converted,
                   const arrow::RecordBatch& batch) {
  ArrowArray array{};
  check(arrow::ExportRecordBatch(batch, &array), "hand rows to DuckDB");
  DuckChunk chunk;
  const duckdb_error_data error = duckdb_data_chunk_from_arrow(connection, &array, converted, chunk.out());
  if (array.release != nullptr) array.release(&array);
  check_duckdb(error, "hand rows to DuckDB");
  return chunk;
}

DuckArrowSchema to_converted_schema(duckdb_connection connection, const arrow::Schema& schema) {
  ArrowSchema exported{};
  check(arrow::ExportSchema(schema, &exported), "hand a schema to DuckDB");
  DuckArrowSchema converted;
  const duckdb_error_data error = duckdb_schema_from_arrow(connection, &exported, converted.out());
  if (exported.release != nullptr) exported.release(&exported);
  check_duckdb(error, "hand a schema to DuckDB");
  return converted;
}

std::shared_ptr<arrow::RecordBatch> empty_batch(const std::shared_ptr<arrow::Schema>& schema) {
  return check(arrow::RecordBatch::MakeEmpty(schema), "make an empty batch");
}

// What DuckDB sees of the dataset. A table function must have a column; rows such as {} can be counted all the same.
iceberg::Schema columns_of(const DatasetCut& dataset) {
  const bool has_rows = dataset.spooled_bytes > 0 || dataset.table_rows > 0;
  if (!dataset.schema.fields().empty() || !has_rows) return dataset.schema;
  return iceberg::Schema({{1, kNoColumn, false, iceberg::Type::primitive(iceberg::TypeId::boolean_)}});
}

// A cache of an older version, or another engine's table, may have columns whose names differ in case alone, which are
// one name to DuckDB (P4.3): each but the first gets a number behind its name, at any depth. `renamed` may be null.
std::vector<iceberg::Field> named_apart(std::vector<iceberg::Field> fields, const std::string& parent,
                                        std::vector<std::string>* renamed);

iceberg::TypePtr named_apart(const iceberg::TypePtr& type, const std::string& column,
                             std::vector<std::string>* renamed) {
  using iceberg::Type;
  switch (type->id()) {
    case iceberg::TypeId::struct_:
      return Type::struct_of(named_apart(type->fields(), column + ".", renamed));
    case iceberg::TypeId::list: {
      const iceberg::Field& element = type->element();
      return Type::list_of(element.id, element.required, named_apart(element.type, column + ".element", renamed));
    }
    case iceberg::TypeId::map: {
      const iceberg::Field &key = type->key(), &value = type->value();
      return Type::map_of(key.id, named_apart(key.type, column + ".key", renamed), value.id, value.required,
                          named_apart(value.type, column + ".value", renamed));
    }
    default:
      return type;
  }
}

std::vector<iceberg::Field> named_apart(std::vector<iceberg::Field> fields, const std::string& parent,
                                        std::vector<std::string>* renamed) {
  std::set<std::string> taken, seen;
  for (const iceberg::Field& field : fields) taken.insert(fold_name(field.name));
  for (iceberg::Field& field : fields) {
    field.type = named_apart(field.type, parent + field.name, renamed);
    if (seen.insert(fold_name(field.name)).second) continue;
    int number = 2;
    while (!taken.insert(fold_name(fmt::format("{}_{}", field.name, number))).second) ++number;
    const std::string name = fmt::format("{}_{}", field.name, number);
    if (renamed != nullptr) renamed->push_back(fmt::format("\"{0}{1}\" is \"{0}{2}\"", parent, field.name, name));
    field.name = name;
  }
  return fields;
}

iceberg::Schema named_apart(const iceberg::Schema& schema, std::vector<std::string>* renamed = nullptr) {
  return iceberg::Schema(named_apart(schema.fields(), "", renamed));
}

void bind(duckdb_bind_info info) try {
  auto* context = static_cast<DatasetScanContext*>(duckdb_bind_get_extra_info(info));
  const DuckValue parameter(duckdb_bind_get_parameter(info, 0));
  auto bound = std::make_unique<Bound>();
  bound->context = context;
  bound->dataset = context->cut->dataset(take_text(duckdb_get_varchar(parameter.get())));
  std::vector<std::string> renamed;
  const auto schema = scan_schema(named_apart(columns_of(*bound->dataset), &renamed));
  if (!renamed.empty()) {
    spdlog::warn("dataset {}: it has columns whose names differ only in case, which are one name to SQL; here {}",
                 bound->dataset->name, fmt::join(renamed, ", "));
  }
  if (schema->num_fields() == 0) fail(ErrorKind::not_found, "dataset {} has no columns yet", bound->dataset->name);
  const DuckArrowSchema converted = to_converted_schema(context->connection, *schema);
  const DuckChunk chunk = to_chunk(context->connection, converted.get(), *empty_batch(schema));
  for (int i = 0; i < schema->num_fields(); ++i) {
    const DuckType type(
        duckdb_vector_get_column_type(duckdb_data_chunk_get_vector(chunk.get(), static_cast<idx_t>(i))));
    duckdb_bind_add_result_column(info, schema->field(i)->name().c_str(), type.get());
  }
  duckdb_bind_set_cardinality(info, static_cast<idx_t>(bound->dataset->table_rows), false);
  duckdb_bind_set_bind_data(info, bound.release(), destroy<Bound>);
} catch (const std::exception& e) {
  static_cast<DatasetScanContext*>(duckdb_bind_get_extra_info(info))->failure = e.what();
  duckdb_bind_set_error(info, e.what());
}

// --- one scan ---

// A table, of one source or an archive's, or a blob, planned for the columns that it has of those asked for.
struct TableScan {
  std::string place;  // for messages
  std::shared_ptr<const iceberg::ScanPlan> plan;
  std::shared_ptr<FileIO> io;
  iceberg::ScanOptions options;
  bool is_projected = false;  // its batches are as DuckDB is to see them
};

struct Scan {
  Bound bound;
  iceberg::Schema projection;  // what each chunk has; empty for count(*)
  std::shared_ptr<arrow::Schema> schema;
  DuckArrowSchema converted;
  std::vector<TableScan> tables;
  std::vector<std::pair<size_t, size_t>> tasks;  // table, task; after them come the dataset's exported objects
  std::atomic<size_t> next_task{0};
  std::unique_ptr<Cut::SpoolScan> spool;
};

const iceberg::Field* find_column(const iceberg::Schema& schema, const std::string& name) {
  const auto& fields = schema.fields();
  const auto found =
      std::find_if(fields.begin(), fields.end(), [&](const iceberg::Field& field) { return field.name == name; });
  return found == fields.end() ? nullptr : &*found;
}

// Whether the table has the predicate's columns in the dataset's types: a float's values are not compared as a
// double's.
bool has_columns(const iceberg::Expression& expression, const iceberg::Schema& table, const iceberg::Schema& dataset) {
  for (const iceberg::ExpressionPtr& child : expression.children) {
    if (!has_columns(*child, table, dataset)) return false;
  }
  if (expression.column.empty()) return true;
  const iceberg::Field* in_table = find_column(table, expression.column);
  const iceberg::Field* in_dataset = find_column(dataset, expression.column);
  return in_table != nullptr && in_dataset != nullptr && in_table->type->to_string() == in_dataset->type->to_string();
}

// The conjuncts that this table can answer; DuckDB filters by all of them itself.
iceberg::ExpressionPtr table_filter(const std::vector<iceberg::ExpressionPtr>& conjuncts, const iceberg::Schema& table,
                                    const iceberg::Schema& dataset) {
  iceberg::ExpressionPtr filter;
  for (const iceberg::ExpressionPtr& conjunct : conjuncts) {
    if (!has_columns(*conjunct, table, dataset)) continue;
    filter = filter ? iceberg::and_(filter, conjunct) : conjunct;
  }
  return filter;
}

// The field that the dataset has as `name`: an export may spell it in another case (P4.3), one that `dataset` does not
// have itself.
template <class Fields, class NameOf>
auto find_spelled(const Fields& fields, const std::string& name, const NameOf& name_of,
                  const iceberg::Schema& dataset) {
  const auto found =
      std::find_if(fields.begin(), fields.end(), [&](const auto& field) { return name_of(field) == name; });
  if (found != fields.end()) return found;
  const std::string folded = fold_name(name);
  return std::find_if(fields.begin(), fields.end(), [&](const auto& field) {
    return fold_name(name_of(field)) == folded && find_column(dataset, name_of(field)) == nullptr;
  });
}
const std::string& name_of_column(const iceberg::Field& field) { return field.name; }
const std::string& name_of_arrow(const std::shared_ptr<arrow::Field>& field) { return field->name(); }

// Where the rows of a scan come from. The counters may be null.
TableScan begin_table_scan(const Scan& scan, std::string place, const iceberg::Schema& schema,
                           std::shared_ptr<FileIO> io, iceberg::ReadCounters* counters) {
  const DatasetScanContext& context = *scan.bound.context;
  TableScan table;
  table.place = std::move(place);
  table.io = std::move(io);
  for (const iceberg::Field& field : scan.projection.fields()) {
    const auto found = find_spelled(schema.fields(), field.name, name_of_column, scan.bound.dataset->schema);
    if (found != schema.fields().end()) table.options.columns.push_back(found->name);
  }
  if (table.options.columns.empty()) table.options.columns.push_back("_pos");  // rows are counted all the same
  const auto pruning = context.pruning.find(scan.bound.dataset->name);
  if (pruning != context.pruning.end())
    table.options.filter = table_filter(pruning->second, schema, scan.bound.dataset->schema);
  table.options.prune = context.prune;
  table.options.counters = counters;
  return table;
}

void finish_table_scan(const Scan& scan, TableScan& table, iceberg::ScanPlan plan) {
  table.is_projected = scan_schema(plan.projection)->Equals(*scan.schema, /*check_metadata=*/true);
  table.plan = std::make_shared<const iceberg::ScanPlan>(std::move(plan));
}

void add_table(Scan& scan, TableScan table, const iceberg::TableMetadata& metadata) {
  finish_table_scan(scan, table, iceberg::plan_scan(metadata, table.io, table.options));
  for (size_t task = 0; task < table.plan->tasks.size(); ++task) scan.tasks.emplace_back(scan.tables.size(), task);
  scan.tables.push_back(std::move(table));
}

void plan_tables(Scan& scan) {
  const DatasetScanContext& context = *scan.bound.context;
  const DatasetCut& dataset = *scan.bound.dataset;
  for (const auto& [source, held] : dataset.tables) {
    const iceberg::TableMetadata& metadata = *held.table.metadata;
    TableScan table =
        begin_table_scan(scan, metadata.location, metadata.schema(), held.operations->io(), context.counters);
    const auto unsent = dataset.unsent.find(source);
    if (unsent != dataset.unsent.end() && unsent->second) {  // not to prune: the other rows come from the destination
      table.options.filter =
          table.options.filter ? iceberg::and_(table.options.filter, unsent->second) : unsent->second;
    }
    add_table(scan, std::move(table), metadata);
  }
  if (!dataset.exports || !dataset.exports->archive) return;
  const Exports& exports = *dataset.exports;
  TableScan table = begin_table_scan(scan, exports.archive->location(), exports.schema, exports.archive->io(),
                                     context.archive_counters);
  table.options.snapshot_id = exports.archive_snapshot;
  add_table(scan, std::move(table), *exports.archive_metadata);
}

// Its columns are in its footer alone, so it is planned when its turn comes.
TableScan plan_object(const Scan& scan, const ExportedObject& object) {
  const DatasetScanContext& context = *scan.bound.context;
  const auto io = context.cut->io();
  const iceberg::Schema schema = read_blob_schema(*io, object);
  TableScan table = begin_table_scan(scan, object.path, schema, io, context.blob_counters);
  iceberg::ScanPlan plan;
  plan.table_schema = schema;
  plan.projection = iceberg::choose_columns(schema, table.options);
  if (table.options.filter) plan.filter = iceberg::bind(*table.options.filter, schema);
  iceberg::FileScanTask& task = plan.tasks.emplace_back();
  task.file.file_path = object.path;
  task.file.record_count = object.rows;
  task.residual = plan.filter;
  if (context.blob_counters != nullptr) ++context.blob_counters->files_planned;
  finish_table_scan(scan, table, std::move(plan));
  return table;
}

void init(duckdb_init_info info) try {
  auto scan = std::make_unique<Scan>();
  scan->bound = *static_cast<Bound*>(duckdb_init_get_bind_data(info));
  std::vector<iceberg::Field> fields;
  const iceberg::Schema columns = columns_of(*scan->bound.dataset);
  const auto& all = columns.fields();
  const idx_t count = duckdb_init_get_column_count(info);
  for (idx_t i = 0; i < count; ++i) {
    const idx_t index = duckdb_init_get_column_index(info, i);
    if (index >= all.size()) {  // of a virtual column, as for count(*), only the number of rows is used
      if (count > 1)
        fail(ErrorKind::internal, "DuckDB asks for a column of {} that it has not", scan->bound.dataset->name);
      continue;
    }
    fields.push_back(all[index]);
    fields.back().required = false;
  }
  scan->projection = iceberg::Schema(std::move(fields));
  scan->schema = scan_schema(scan->projection);
  if (scan->schema->num_fields() > 0)
    scan->converted = to_converted_schema(scan->bound.context->connection, *scan_schema(named_apart(scan->projection)));
  plan_tables(*scan);
  scan->spool = std::make_unique<Cut::SpoolScan>(*scan->bound.context->cut, scan->bound.dataset);
  const size_t objects = scan->bound.dataset->exports ? scan->bound.dataset->exports->objects.size() : 0;
  const size_t work = scan->tasks.size() + objects + (scan->bound.dataset->spooled_bytes > 0 ? 2 : 0);
  duckdb_init_set_max_threads(info, std::clamp<size_t>(work, 1, static_cast<size_t>(scan->bound.context->threads)));
  duckdb_init_set_init_data(info, scan.release(), destroy<Scan>);
} catch (const std::exception& e) {
  duckdb_init_set_error(info, e.what());
}

// What one thread has in hand.
struct Worker {
  std::shared_ptr<arrow::RecordBatchReader> reader;
  bool is_projected = false;  // what the reader gives
  std::string place;          // where it reads
  std::shared_ptr<arrow::RecordBatch>
      batch;  // of Scan::schema, or any with the right number of rows where that is empty
  int64_t offset = 0;
};

void init_worker(duckdb_init_info info) { duckdb_init_set_init_data(info, new Worker(), destroy<Worker>); }

// The columns that are asked for, as the dataset has them; what a table or the spooled rows lack is null.
std::shared_ptr<arrow::RecordBatch> to_projection(const Scan& scan, const std::shared_ptr<arrow::RecordBatch>& batch) {
  if (scan.projection.fields().empty()) return batch;
  const auto rows = without_ids(*batch);
  arrow::FieldVector fields;
  arrow::ArrayVector columns;
  for (const iceberg::Field& field : scan.projection.fields()) {
    const auto found = find_spelled(rows->schema()->fields(), field.name, name_of_arrow, scan.bound.dataset->schema);
    if (found == rows->schema()->fields().end()) continue;
    fields.push_back((*found)->WithName(field.name));
    columns.push_back(rows->column(static_cast<int>(found - rows->schema()->fields().begin())));
  }
  return iceberg::conform(
      arrow::RecordBatch::Make(arrow::schema(std::move(fields)), rows->num_rows(), std::move(columns)),
      scan.projection);
}

void open_next(Scan& scan, Worker& worker, size_t task) {
  std::optional<TableScan> object;
  size_t task_of_table = 0;
  if (task < scan.tasks.size()) {
    task_of_table = scan.tasks[task].second;
  } else {
    object = plan_object(scan, scan.bound.dataset->exports->objects[task - scan.tasks.size()]);
  }
  const TableScan& table = object ? *object : scan.tables[scan.tasks[task].first];
  worker.is_projected = table.is_projected;
  worker.place = table.place;
  worker.reader = iceberg::read_task(table.plan, task_of_table, table.io, table.options);
}

// The next rows of any source, or nullptr at the end.
std::shared_ptr<arrow::RecordBatch> next_batch(Scan& scan, Worker& worker) {
  const DatasetCut& dataset = *scan.bound.dataset;
  const size_t tasks = scan.tasks.size() + (dataset.exports ? dataset.exports->objects.size() : 0);
  for (;;) {
    if (worker.reader) {
      std::shared_ptr<arrow::RecordBatch> batch;
      check(worker.reader->ReadNext(&batch), "read a table");
      if (batch && worker.is_projected) return batch;
      if (batch) {
        try {
          return to_projection(scan, batch);
        } catch (const Error& e) {  // of an export from before the column had its type
          throw Error(e.kind(), worker.place, e);
        }
      }
      worker.reader.reset();
    }
    const size_t next = scan.next_task++;
    if (next < tasks) {
      open_next(scan, worker, next);
      continue;
    }
    const auto lines = scan.spool->next();
    if (!lines) return nullptr;
    RowParserOptions options;
    options.row_bytes_max = dataset.config.row_bytes_max;
    options.new_columns_rejected = !dataset.config.allow_new_columns;
    const auto rows = parse_rows(*lines, dataset.spooled_schema, options).batch;
    if (rows->num_rows() > 0) return to_projection(scan, rows);
  }
}

// DuckDB (1.5) passes the offset of a struct on to its members, but not to theirs, so that nested columns are copied:
// then no offset is left at any depth.
std::shared_ptr<arrow::RecordBatch> slice_for_duckdb(const arrow::RecordBatch& batch, int64_t offset, int64_t count) {
  arrow::ArrayVector columns;
  for (const auto& column : batch.columns()) {
    columns.push_back(column->Slice(offset, count));
    if (column->type()->num_fields() > 0) {
      columns.back() = check(arrow::Concatenate({columns.back()}), "cut rows for DuckDB");
    }
  }
  return arrow::RecordBatch::Make(batch.schema(), count, std::move(columns));
}

void produce(duckdb_function_info info, duckdb_data_chunk output) try {
  Scan& scan = *static_cast<Scan*>(duckdb_function_get_init_data(info));
  Worker& worker = *static_cast<Worker*>(duckdb_function_get_local_init_data(info));
  if (!worker.batch || worker.offset == worker.batch->num_rows()) {
    do {
      worker.batch = next_batch(scan, worker);
    } while (worker.batch && worker.batch->num_rows() == 0);
    worker.offset = 0;
  }
  if (!worker.batch) {
    duckdb_data_chunk_set_size(output, 0);
    return;
  }
  const int64_t count =
      std::min<int64_t>(static_cast<int64_t>(duckdb_vector_size()), worker.batch->num_rows() - worker.offset);
  if (scan.schema->num_fields() > 0) {
    const auto slice = slice_for_duckdb(*worker.batch, worker.offset, count);
    const DuckChunk chunk = to_chunk(scan.bound.context->connection, scan.converted.get(), *slice);
    for (int i = 0; i < scan.schema->num_fields(); ++i) {
      const auto column = static_cast<idx_t>(i);
      duckdb_vector_reference_vector(duckdb_data_chunk_get_vector(output, column),
                                     duckdb_data_chunk_get_vector(chunk.get(), column));
    }
  }
  duckdb_data_chunk_set_size(output, static_cast<idx_t>(count));
  worker.offset += count;
} catch (const std::exception& e) {
  duckdb_function_set_error(info, e.what());
}

void replace(duckdb_replacement_scan_info info, const char* table_name, void* data) try {
  auto* context = static_cast<DatasetScanContext*>(data);
  const std::string dataset = context->cut->resolve(table_name);
  if (dataset.empty()) return;  // DuckDB says that there is no such table
  duckdb_replacement_scan_set_function_name(info, kFunctionName);
  const DuckValue name(duckdb_create_varchar(dataset.c_str()));
  duckdb_replacement_scan_add_parameter(info, name.get());
} catch (const std::exception& e) {
  static_cast<DatasetScanContext*>(data)->failure = e.what();
  duckdb_replacement_scan_set_error(info, e.what());
}

}  // namespace

std::shared_ptr<arrow::Schema> scan_schema(const iceberg::Schema& schema) {
  arrow::FieldVector fields;
  for (const iceberg::Field& field : schema.fields()) {
    auto arrow_field = iceberg::without_field_ids(iceberg::to_arrow_field(field))->WithNullable(true);
    if (field.type->id() == iceberg::TypeId::uuid) {
      arrow_field = arrow_field->WithMetadata(
          arrow::key_value_metadata({"ARROW:extension:name", "ARROW:extension:metadata"}, {"arrow.uuid", ""}));
    }
    fields.push_back(std::move(arrow_field));
  }
  return arrow::schema(std::move(fields));
}

void register_dataset_scan(duckdb_database database, duckdb_connection connection, DatasetScanContext* context) {
  const DuckTableFunction function(duckdb_create_table_function());
  duckdb_table_function_set_name(function.get(), kFunctionName);
  const DuckType varchar(duckdb_create_logical_type(DUCKDB_TYPE_VARCHAR));
  duckdb_table_function_add_parameter(function.get(), varchar.get());
  duckdb_table_function_set_extra_info(function.get(), context, nullptr);
  duckdb_table_function_set_bind(function.get(), bind);
  duckdb_table_function_set_init(function.get(), init);
  duckdb_table_function_set_local_init(function.get(), init_worker);
  duckdb_table_function_set_function(function.get(), produce);
  duckdb_table_function_supports_projection_pushdown(function.get(), true);
  if (duckdb_register_table_function(connection, function.get()) != DuckDBSuccess) {
    fail(ErrorKind::internal, "DuckDB does not take the table function {}", kFunctionName);
  }
  duckdb_add_replacement_scan(database, replace, context, nullptr);
}

}  // namespace firn::hyp
