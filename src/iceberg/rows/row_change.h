// What becomes of the rows of a table that one change takes, updates or adds: files written, and the snapshot that
// names them. Internal to rows/.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "iceberg/puffin/puffin.h"
#include "iceberg/rows/rows.h"
#include "iceberg/scan/scan.h"

namespace firn::iceberg {

// A scan plan of one task, all of whose live rows match: what is kept of a file until its rows are taken away.
using OneFilePlan = std::shared_ptr<const ScanPlan>;
OneFilePlan one_file_plan(const ScanPlan& plan, size_t task_index);

// A scan plan of one task as if nothing of its file were deleted.
std::shared_ptr<const ScanPlan> undeleted_plan(const ScanPlan& plan, size_t task_index);

// `filter`, bound to `schema`, with its columns named as the schema does and bound no more: for those who bind by exact
// names.
ExpressionPtr unbound(const Expression& filter, const Schema& schema);

// Files that were written and that no snapshot names: removed on destruction (as far as it can be done), unless kept.
class WrittenFiles {
 public:
  explicit WrittenFiles(std::shared_ptr<FileIO> io) : io_(std::move(io)) {}
  ~WrittenFiles();
  WrittenFiles(const WrittenFiles&) = delete;
  WrittenFiles& operator=(const WrittenFiles&) = delete;
  void add(const std::vector<DataFile>& files) { files_.insert(files_.end(), files.begin(), files.end()); }
  const std::vector<DataFile>& files() const { return files_; }
  void keep() { kept_ = true; }

 private:
  std::shared_ptr<FileIO> io_;
  std::vector<DataFile> files_;
  bool kept_ = false;
};

// The rows of `rows`, written as the table has them; `each` sees every batch first, with the table's columns.
std::vector<DataFile> write_new_rows(const TableMetadata& base, const std::shared_ptr<FileIO>& io,
                                     arrow::RecordBatchReader& rows, const WriteOptions& options,
                                     const std::function<void(const arrow::RecordBatch&)>& each = {});

// WriteOptions of `options` within its budget.
WriteOptions write_options(const RowOptions& options);

// One change in the making. One thread, but for the const members.
class RowChange {
 public:
  // `operation` is delete, update or merge: whose write.* properties say mode and isolation where `options` does not.
  // `base` must outlive it. Throws unsupported for a table of format version 1, invalid_argument naming a property.
  RowChange(const TableMetadata& base, std::shared_ptr<FileIO> io, const RowOptions& options,
            std::string_view operation);

  const TableMetadata& base() const { return base_; }
  const std::shared_ptr<FileIO>& io() const { return io_; }
  const RowOptions& options() const { return options_; }
  RowMode mode() const { return mode_; }
  bool removes_hidden() const { return mode_ == RowMode::copy_on_write && options_.removes_hidden; }
  bool has_lineage() const { return base_.format_version >= 3; }
  // The columns of the rows that write() takes: the table's, and on v3 the two of lineage.
  const Schema& written_schema() const { return written_schema_; }

  // The head of the branch; deletes that plans share are loaded once. nullptr filter: all rows.
  ScanPlan plan(const ExpressionPtr& filter, bool case_sensitive) const;
  // Batches of the rows of `plan`'s task with these columns, of bounded size.
  void read(const std::shared_ptr<const ScanPlan>& plan, size_t task_index, const Schema& columns,
            const std::function<void(const std::shared_ptr<arrow::RecordBatch>&)>& visit) const;
  // Rows of the task that are not deleted. Reads them only where metadata and delete files do not tell.
  int64_t live_rows(const std::shared_ptr<const ScanPlan>& plan, size_t task_index) const;

  // A row of the table in its new form, or a new one.
  void write(const std::shared_ptr<arrow::RecordBatch>& batch);
  // Live rows of the file go, at these positions; may be called again for the same file.
  void take(const OneFilePlan& file, const PositionSet& positions);
  // All rows of the file go.
  void drop(const OneFilePlan& file);
  // New rows' files, written elsewhere.
  void add_files(const std::vector<DataFile>& files);

  // Writes what take() asks for. `read` is the filter of the rows that were looked at (unbound, exact names; nullptr:
  // all rows), `any_read` false: none were. Where only rows go, `only_deletes`, rewritten files keep the data sequence
  // number that was read. The files are the caller's then.
  PreparedRows finish(const ExpressionPtr& read, bool any_read, bool only_deletes, const RowCounts& counts);

 private:
  struct Taken {
    OneFilePlan file;
    PositionSet positions;
  };
  void rewrite(Taken& taken);
  void add_position_deletes();
  int64_t batch_rows(const DataFile& file) const;

  const TableMetadata& base_;
  std::shared_ptr<FileIO> io_;
  RowOptions options_;
  RowMode mode_;
  Isolation isolation_;
  Schema written_schema_;
  const Snapshot* head_;  // of the branch; nullptr: the table has no rows
  std::shared_ptr<DeleteCache> delete_cache_;
  std::map<std::string, Taken> taken_;  // by path
  SnapshotChange change_;
  WrittenFiles written_;
  std::unique_ptr<AppendWriter> writer_;  // made for its first rows
};

// Prepares and commits until it lands, as rows.h says of the one-call forms; `base` is loaded by the caller. Every
// change adds the files of `reused` (nullptr: none), which become the table's, or stay in its care.
RowsResult commit_rows(TableOperations& table, LoadedTable base, const RowOptions& options, WrittenFiles* reused,
                       const std::function<PreparedRows(const TableMetadata& base)>& prepare);

// The snapshot of an earlier attempt with options.commit_id, if it landed. Throws commit_unknown (P3.2).
std::optional<RowsResult> landed_before(TableOperations& table, const LoadedTable& base, const RowOptions& options);

}  // namespace firn::iceberg
