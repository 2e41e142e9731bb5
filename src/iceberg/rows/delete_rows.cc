// delete_rows and overwrite_rows, and replace_partitions.
#include <map>
#include <mutex>

#include <arrow/array.h>

#include "base/arrow_status.h"
#include "base/parallel.h"
#include "base/span.h"
#include "iceberg/commit/history.h"
#include "iceberg/expr/row_filter.h"
#include "iceberg/manifest/file_identity.h"
#include "iceberg/parquet/arrow_schema.h"
#include "iceberg/puffin/puffin.h"
#include "iceberg/rows/row_change.h"
#include "iceberg/scan/row_json.h"

namespace firn::iceberg {

namespace {

PositionSet matching_positions(const RowChange& change, const std::shared_ptr<const ScanPlan>& plan, size_t task) {
  static const Schema kPosition({Field{kPosFieldId, "_pos", true, Type::primitive(TypeId::long_)}});
  PositionSet positions;
  change.read(plan, task, kPosition, [&](const std::shared_ptr<arrow::RecordBatch>& batch) {
    const auto& column = static_cast<const arrow::Int64Array&>(*batch->column(0));
    for (int64_t row = 0; row < column.length(); ++row) positions.add(column.Value(row));
  });
  return positions;
}

// Takes away the rows that `filter` matches; returns how many they are.
int64_t take_matching(RowChange& change, const ExpressionPtr& filter) {
  const auto plan = std::make_shared<const ScanPlan>(change.plan(filter, change.options().case_sensitive));
  std::mutex mutex;
  int64_t rows = 0;
  parallel_for(plan->tasks.size(), change.options().threads, [&](size_t i) {
    const FileScanTask& task = plan->tasks[i];
    const bool may_hide = !task.deletes.empty() && change.removes_hidden();
    if (!task.residual) {  // every row matches
      const int64_t live = change.live_rows(plan, i);
      const std::lock_guard lock(mutex);
      rows += live;
      if (live > 0 || may_hide) change.drop(one_file_plan(*plan, i));
      return;
    }
    PositionSet positions = matching_positions(change, plan, i);
    const int64_t live = positions.size();
    // Live rows of the file are what is written anew, so that it does no harm to take the hidden ones as well.
    if (may_hide) positions = matching_positions(change, undeleted_plan(*plan, i), 0);
    if (positions.empty()) return;
    const std::lock_guard lock(mutex);
    rows += live;
    if (positions.size() == task.file.record_count) {
      change.drop(one_file_plan(*plan, i));
    } else {
      change.take(one_file_plan(*plan, i), positions);
    }
  });
  return rows;
}

// As the commit binds it: by exact names.
ExpressionPtr exact_filter(const ExpressionPtr& filter, const TableMetadata& base, bool case_sensitive) {
  if (!filter || case_sensitive) return filter;
  return unbound(*bind(*filter, base.schema(), false), base.schema());
}

PreparedRows prepare_overwrite(const TableMetadata& base, const std::shared_ptr<FileIO>& io,
                               const ExpressionPtr& filter, const std::vector<DataFile>& new_files,
                               const RowOptions& options) {
  RowChange change(base, io, options, "delete");
  RowCounts counts;
  counts.rows_deleted = take_matching(change, filter);
  for (const DataFile& file : new_files) counts.rows_inserted += file.record_count;
  change.add_files(new_files);
  return change.finish(exact_filter(filter, base, options.case_sensitive), /*any_read=*/true,
                       /*only_deletes=*/new_files.empty(), counts);
}

std::vector<DataFile> write_checked_rows(const TableMetadata& base, const std::shared_ptr<FileIO>& io,
                                         const ExpressionPtr& filter, arrow::RecordBatchReader& rows,
                                         const OverwriteOptions& options) {
  if (!options.validate_rows || !filter) return write_new_rows(base, io, rows, write_options(options.rows));
  const ExpressionPtr bound = bind(*filter, base.schema(), options.rows.case_sensitive);
  return write_new_rows(base, io, rows, write_options(options.rows), [&](const arrow::RecordBatch& batch) {
    const std::shared_ptr<arrow::BooleanArray> matches = evaluate(*bound, batch);
    for (int64_t row = 0; row < batch.num_rows(); ++row) {
      if (matches->Value(row)) continue;
      std::string text;
      append_row_json(batch, base.schema(), row, text);
      fail(ErrorKind::invalid_argument, "table {}: the new row {} does not match {}, which is to be overwritten",
           base.location, text, to_string(*filter));
    }
  });
}

PreparedRows prepare_replacement(const TableMetadata& base, const std::shared_ptr<FileIO>& io,
                                 const std::vector<DataFile>& new_files, const RowOptions& options) {
  if (base.format_version < 2)
    fail(ErrorKind::unsupported, "table {}: firn does not write format version 1; upgrade the table to version 2",
         base.location);
  if (new_files.empty()) return {};              // no row, no partition that is replaced
  std::map<std::string, PartitionTuple> tuples;  // by partition_key
  const auto note = [&](int32_t spec_id, const std::vector<Value>& values) {
    tuples.try_emplace(partition_key(spec_id, values), PartitionTuple{spec_id, values});
  };
  for (const DataFile& file : new_files) note(file.partition_spec_id, file.partition);
  const bool takes_all = base.spec().is_unpartitioned();
  if (takes_all) note(base.default_spec_id, std::vector<Value>(base.spec().fields.size()));
  const Snapshot* head = branch_head(base, options.branch);
  RowCounts counts;
  int64_t files_replaced = 0;
  std::vector<LiveFile> live;
  if (head != nullptr) live = live_files(base, *head, *io);
  for (const LiveFile& entry : live) {
    if (entry.file.content != FileContent::data) continue;
    if (takes_all) note(entry.file.partition_spec_id, entry.file.partition);
    if (!tuples.contains(partition_key(entry.file.partition_spec_id, entry.file.partition))) continue;
    ++files_replaced;
    counts.rows_deleted += entry.file.record_count;
  }
  for (const LiveFile& entry : live) {
    if (entry.file.content == FileContent::data ||
        !tuples.contains(partition_key(entry.file.partition_spec_id, entry.file.partition)))
      continue;
    ++files_replaced;
    // What deletion vectors hide was gone before.
    if (is_deletion_vector(entry.file)) counts.rows_deleted -= entry.file.record_count;
  }
  SnapshotChange change;
  change.operation = "overwrite";
  change.added = new_files;
  for (auto& [key, tuple] : tuples) change.replaced_partitions.push_back(std::move(tuple));
  change.written_schema = base.schema();
  change.required_spec = base.spec();
  change.branch = options.branch;
  change.summary = options.summary;
  change.summary["replace-partitions"] = "true";
  change.commit_id = options.commit_id;
  if (options.isolation) {
    ReadCheck check;
    if (head != nullptr) check.since_snapshot_id = head->snapshot_id;
    check.partitions = change.replaced_partitions;
    check.no_added_data = options.isolation == Isolation::serializable;
    check.no_added_deletes = true;
    change.read_check = check;
  }
  for (const DataFile& file : new_files) counts.rows_inserted += file.record_count;
  return {std::move(change), counts, files_replaced};
}

}  // namespace

PreparedRows prepare_delete_rows(const TableMetadata& base, const std::shared_ptr<FileIO>& io,
                                 const ExpressionPtr& filter, const RowOptions& options) {
  return prepare_overwrite(base, io, filter, {}, options);
}

RowsResult delete_rows(TableOperations& table, const ExpressionPtr& filter, const RowOptions& options) {
  Span span("iceberg.delete_rows");
  span.set("table", table.location());
  return commit_rows(table, table.load(), options, nullptr,
                     [&](const TableMetadata& base) { return prepare_delete_rows(base, table.io(), filter, options); });
}

PreparedRows prepare_overwrite_rows(const TableMetadata& base, const std::shared_ptr<FileIO>& io,
                                    const ExpressionPtr& filter, arrow::RecordBatchReader& new_rows,
                                    const OverwriteOptions& options) {
  WrittenFiles written(io);
  written.add(write_checked_rows(base, io, filter, new_rows, options));
  PreparedRows prepared = prepare_overwrite(base, io, filter, written.files(), options.rows);
  written.keep();
  return prepared;
}

RowsResult overwrite_rows(TableOperations& table, const ExpressionPtr& filter, arrow::RecordBatchReader& new_rows,
                          const OverwriteOptions& options) {
  Span span("iceberg.overwrite_rows");
  span.set("table", table.location());
  const LoadedTable base = table.load();
  if (auto landed = landed_before(table, base, options.rows)) return *std::move(landed);
  WrittenFiles written(table.io());  // once, for every try
  written.add(write_checked_rows(*base.metadata, table.io(), filter, new_rows, options));
  return commit_rows(table, base, options.rows, &written, [&](const TableMetadata& metadata) {
    return prepare_overwrite(metadata, table.io(), filter, written.files(), options.rows);
  });
}

PreparedRows prepare_replace_partitions(const TableMetadata& base, const std::shared_ptr<FileIO>& io,
                                        arrow::RecordBatchReader& new_rows, const RowOptions& options) {
  WrittenFiles written(io);
  written.add(write_new_rows(base, io, new_rows, write_options(options)));
  PreparedRows prepared = prepare_replacement(base, io, written.files(), options);
  written.keep();
  return prepared;
}

RowsResult replace_partitions(TableOperations& table, arrow::RecordBatchReader& new_rows, const RowOptions& options) {
  Span span("iceberg.replace_partitions");
  span.set("table", table.location());
  const LoadedTable base = table.load();
  if (auto landed = landed_before(table, base, options)) return *std::move(landed);
  WrittenFiles written(table.io());
  written.add(write_new_rows(*base.metadata, table.io(), new_rows, write_options(options)));
  return commit_rows(table, base, options, &written, [&](const TableMetadata& metadata) {
    return prepare_replacement(metadata, table.io(), written.files(), options);
  });
}

}  // namespace firn::iceberg
