#include "iceberg/rows/row_change.h"

#include <algorithm>
#include <limits>

#include "base/arrow_status.h"
#include "base/log.h"
#include "base/parallel.h"
#include "iceberg/commit/history.h"
#include "iceberg/manifest/file_identity.h"
#include "iceberg/parquet/arrow_schema.h"
#include "iceberg/puffin/puffin.h"
#include "iceberg/scan/delete_cache.h"
#include "iceberg/scan/plan.h"
#include "iceberg/write/array_values.h"
#include "iceberg/write/delete_writer.h"

namespace firn::iceberg {

namespace {

constexpr int64_t kDeleteCacheBytesMax = 64LL << 20;
constexpr int64_t kBatchRowsMin = 256, kBatchRowsMax = 65536;

void remove_files(const std::vector<DataFile>& files, FileIO& io) {
  std::string last;  // the deletion vectors of one file follow one another
  for (const DataFile& file : files) {
    if (file.file_path == last) continue;
    last = file.file_path;
    try {
      io.remove(file.file_path);
    } catch (const Error& error) {
      // No snapshot names it: orphan removal finds it.
      spdlog::debug("remove {}: {}", file.file_path, error.what());
    }
  }
}

RowMode mode_of(const TableMetadata& base, const RowOptions& options, std::string_view operation) {
  if (options.mode) return *options.mode;
  const std::string key = fmt::format("write.{}.mode", operation);
  const std::string text = base.property(key, "copy-on-write");
  if (text == "copy-on-write") return RowMode::copy_on_write;
  if (text == "merge-on-read") return RowMode::merge_on_read;
  fail(ErrorKind::invalid_argument, "table {}: {} = {}: give copy-on-write or merge-on-read", base.location, key, text);
}

Isolation isolation_of(const TableMetadata& base, const RowOptions& options, std::string_view operation) {
  if (options.isolation) return *options.isolation;
  const std::string key = fmt::format("write.{}.isolation-level", operation);
  const std::string text = base.property(key, "serializable");
  if (text == "serializable") return Isolation::serializable;
  if (text == "snapshot") return Isolation::snapshot;
  fail(ErrorKind::invalid_argument, "table {}: {} = {}: give serializable or snapshot", base.location, key, text);
}

Schema with_lineage(const Schema& schema) {
  std::vector<Field> fields = schema.fields();
  const TypePtr type = Type::primitive(TypeId::long_);
  fields.push_back(Field{kRowIdFieldId, "_row_id", false, type});
  fields.push_back(Field{kLastUpdatedSequenceNumberFieldId, "_last_updated_sequence_number", false, type});
  return Schema(std::move(fields), schema.schema_id());
}

Schema with_position(const Schema& schema) {
  std::vector<Field> fields = schema.fields();
  fields.push_back(Field{kPosFieldId, "_pos", true, Type::primitive(TypeId::long_)});
  return Schema(std::move(fields), schema.schema_id());
}

// Positions that the file's own delete files name; nullopt: it has equality deletes too, whose rows only reading tells.
std::optional<int64_t> known_deleted(const FileScanTask& task, FileIO& io, DeleteCache* cache) {
  if (task.deletes.empty()) return 0;
  for (const auto& file : task.deletes) {
    if (file->content == FileContent::equality_deletes) return std::nullopt;
  }
  return load_deleted_positions(task, io, cache).size();
}

}  // namespace

OneFilePlan one_file_plan(const ScanPlan& plan, size_t task_index) {
  ScanPlan one = one_task_plan(plan, task_index);
  one.filter = nullptr;
  one.tasks[0].residual = nullptr;
  return std::make_shared<const ScanPlan>(std::move(one));
}

std::shared_ptr<const ScanPlan> undeleted_plan(const ScanPlan& plan, size_t task_index) {
  ScanPlan one = one_task_plan(plan, task_index);
  one.tasks[0].deletes.clear();
  return std::make_shared<const ScanPlan>(std::move(one));
}

ExpressionPtr unbound(const Expression& filter, const Schema& schema) {
  Expression copy = filter;
  for (ExpressionPtr& child : copy.children) child = unbound(*child, schema);
  if (copy.field_id) {
    copy.column = schema.full_name(*copy.field_id);
    for (Value& literal : copy.literals) {
      // Bound literals of these types are not spelled as unbound ones.
      const bool respelled = !copy.transform && (copy.type->id() == TypeId::uuid || copy.type->id() == TypeId::decimal);
      if (respelled) literal = to_display(literal, *copy.type);
    }
    copy.field_id.reset();
    copy.type = nullptr;
  }
  return std::make_shared<const Expression>(std::move(copy));
}

WrittenFiles::~WrittenFiles() {
  if (!kept_) remove_files(files_, *io_);
}

void discard(const PreparedRows& prepared, FileIO& io) {
  if (prepared.change) remove_files(prepared.change->added, io);
}

WriteOptions write_options(const RowOptions& options) {
  WriteOptions write = options.write;
  write.memory_bytes_max = std::min(write.memory_bytes_max, options.memory_bytes_max / 2);
  write.equality_ids.clear();
  write.row_lineage = false;
  return write;
}

std::vector<DataFile> write_new_rows(const TableMetadata& base, const std::shared_ptr<FileIO>& io,
                                     arrow::RecordBatchReader& rows, const WriteOptions& options,
                                     const std::function<void(const arrow::RecordBatch&)>& each) {
  AppendWriter writer(io, base, options);
  while (true) {
    std::shared_ptr<arrow::RecordBatch> batch;
    check(rows.ReadNext(&batch), "read the new rows");
    if (!batch) return writer.finish();
    batch = conform(batch, base.schema());
    if (each) each(*batch);
    writer.write(batch);
  }
}

RowChange::RowChange(const TableMetadata& base, std::shared_ptr<FileIO> io, const RowOptions& options,
                     std::string_view operation)
    : base_(base),
      io_(std::move(io)),
      options_(options),
      mode_(mode_of(base, options, operation)),
      isolation_(isolation_of(base, options, operation)),
      written_schema_(has_lineage() ? with_lineage(base.schema()) : base.schema()),
      head_(branch_head(base, options.branch)),
      delete_cache_(std::make_shared<DeleteCache>(std::min(kDeleteCacheBytesMax, options.memory_bytes_max / 8))),
      written_(io_) {
  if (base.format_version < 2)
    fail(ErrorKind::unsupported, "table {}: firn does not write format version 1; upgrade the table to version 2",
         base.location);
  change_.branch = options.branch;
  change_.summary = options.summary;
  change_.commit_id = options.commit_id;
  change_.written_schema = base.schema();
}

ScanPlan RowChange::plan(const ExpressionPtr& filter, bool case_sensitive) const {
  ScanOptions options;
  // A branch that is not there yet begins where main is. With the table's schema, not the snapshot's.
  if (base_.refs.contains(options_.branch)) options.ref = options_.branch;
  options.filter = filter;
  options.case_sensitive = case_sensitive;
  options.threads = options_.threads;
  ScanPlan plan = plan_scan(base_, io_, options);
  if (plan.delete_cache) plan.delete_cache = delete_cache_;
  return plan;
}

// Batches come decoded at a few times their size on disk. Those of all threads together are a sixteenth of the budget.
int64_t RowChange::batch_rows(const DataFile& file) const {
  const int64_t row_bytes = 4 * file.file_size_bytes / std::max<int64_t>(1, file.record_count) + 1;
  const int64_t bytes = options_.memory_bytes_max / 16 / thread_count(options_.threads);
  return std::clamp(bytes / row_bytes, kBatchRowsMin, kBatchRowsMax);
}

void RowChange::read(const std::shared_ptr<const ScanPlan>& plan, size_t task_index, const Schema& columns,
                     const std::function<void(const std::shared_ptr<arrow::RecordBatch>&)>& visit) const {
  ScanPlan one = one_task_plan(*plan, task_index);
  one.projection = columns;
  ScanOptions options;
  options.batch_rows_max = batch_rows(plan->tasks[task_index].file);
  const auto reader = read_task(std::make_shared<const ScanPlan>(std::move(one)), 0, io_, options);
  while (true) {
    std::shared_ptr<arrow::RecordBatch> batch;
    check(reader->ReadNext(&batch), plan->tasks[task_index].file.file_path);
    if (!batch) return;
    visit(batch);
  }
}

int64_t RowChange::live_rows(const std::shared_ptr<const ScanPlan>& plan, size_t task_index) const {
  const FileScanTask& task = plan->tasks.at(task_index);
  if (const auto deleted = known_deleted(task, *io_, delete_cache_.get())) return task.file.record_count - *deleted;
  int64_t rows = 0;
  read(one_file_plan(*plan, task_index), 0, with_position(Schema()),
       [&](const std::shared_ptr<arrow::RecordBatch>& batch) { rows += batch->num_rows(); });
  return rows;
}

void RowChange::write(const std::shared_ptr<arrow::RecordBatch>& batch) {
  if (!writer_) {
    WriteOptions options = write_options(options_);
    options.row_lineage = has_lineage();
    options.already_sorted = false;  // rows of several files
    writer_ = std::make_unique<AppendWriter>(io_, base_, options);
  }
  writer_->write(batch);
}

void RowChange::take(const OneFilePlan& file, const PositionSet& positions) {
  Taken& taken = taken_[file->tasks[0].file.file_path];
  taken.file = file;
  taken.positions.add_all(positions);
}

void RowChange::drop(const OneFilePlan& file) { change_.removed.push_back(file->tasks[0].file); }

void RowChange::add_files(const std::vector<DataFile>& files) {
  change_.added.insert(change_.added.end(), files.begin(), files.end());
}

// The rows that stay go to the writer as they are.
void RowChange::rewrite(Taken& taken) {
  const DataFile& file = taken.file->tasks[0].file;
  change_.removed.push_back(file);
  if (taken.positions.size() == file.record_count) return;
  const Schema columns = with_position(written_schema_);
  const int position_column = static_cast<int>(columns.fields().size()) - 1;
  read(taken.file, 0, columns, [&](const std::shared_ptr<arrow::RecordBatch>& batch) {
    const auto& positions = static_cast<const arrow::Int64Array&>(*batch->column(position_column));
    std::vector<int64_t> kept;
    kept.reserve(static_cast<size_t>(batch->num_rows()));
    // Rows come in the file's order.
    std::vector<int64_t> gone;
    taken.positions.for_each_in(positions.Value(0), positions.Value(batch->num_rows() - 1) + 1,
                                [&](int64_t position) { gone.push_back(position); });
    auto next_gone = gone.begin();
    for (int64_t row = 0; row < batch->num_rows(); ++row) {
      while (next_gone != gone.end() && *next_gone < positions.Value(row)) ++next_gone;
      if (next_gone == gone.end() || *next_gone != positions.Value(row)) kept.push_back(row);
    }
    if (kept.empty()) return;
    std::shared_ptr<arrow::RecordBatch> rows = check(batch->RemoveColumn(position_column), "rewrite " + file.file_path);
    if (static_cast<int64_t>(kept.size()) < batch->num_rows()) rows = take_rows(rows, kept);
    write(rows);
  });
  taken.positions = PositionSet();
}

// Position deletes (v2), or deletion vectors that hold the earlier deletes too and replace them (v3).
void RowChange::add_position_deletes() {
  if (taken_.empty()) return;
  PositionDeleteWriter writer(io_, base_);
  for (auto& [path, taken] : taken_) {
    const FileScanTask& task = taken.file->tasks[0];
    if (base_.format_version >= 3) {
      taken.positions.add_all(load_deleted_positions(task, *io_, delete_cache_.get()));
      for (const auto& deletes : task.deletes) {
        // Position delete files of other data files too stay: readers pass them over for files with a vector.
        if (deletes->content == FileContent::position_deletes && single_data_file(*deletes) == path)
          change_.removed.push_back(*deletes);
      }
    }
    writer.add(task.file, std::move(taken.positions));
    change_.required_data_files.push_back(path);
  }
  const std::vector<DataFile> files = writer.finish();
  written_.add(files);
  add_files(files);
}

PreparedRows RowChange::finish(const ExpressionPtr& read, bool any_read, bool only_deletes, const RowCounts& counts) {
  const bool rewrites = mode_ == RowMode::copy_on_write;
  if (rewrites) {
    for (auto& [path, taken] : taken_) rewrite(taken);
  } else {
    add_position_deletes();
  }
  if (writer_) {
    const std::vector<DataFile> files = writer_->finish();
    written_.add(files);
    change_.added.insert(change_.added.begin(), files.begin(), files.end());
  }
  const bool adds_data = std::any_of(change_.added.begin(), change_.added.end(),
                                     [](const DataFile& file) { return file.content == FileContent::data; });
  if (change_.added.empty() && change_.removed.empty()) return {};
  const bool takes = !taken_.empty() || !change_.removed.empty();
  change_.operation = !takes ? "append" : adds_data ? "overwrite" : "delete";
  if (adds_data) change_.required_spec = base_.spec();
  if (any_read) {
    ReadCheck check;
    if (head_ != nullptr) check.since_snapshot_id = head_->snapshot_id;
    check.filter = read;
    check.no_added_data = isolation_ == Isolation::serializable;
    // Rows deleted twice are deleted; rows that are written anew would come back.
    check.no_added_deletes = rewrites || !only_deletes;
    change_.read_check = check;
  }
  if (rewrites && only_deletes && adds_data) change_.data_sequence_number = head_->sequence_number;
  written_.keep();
  return {std::move(change_), counts};
}

}  // namespace firn::iceberg
