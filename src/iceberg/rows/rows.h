// Row-level changes of a table: delete, overwrite, replace partitions, upsert and merge. Each reads what it must,
// writes files, and commits one snapshot.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <arrow/record_batch.h>

#include "iceberg/commit/commit.h"
#include "iceberg/write/append_writer.h"

namespace firn::iceberg {

// What becomes of a file of which some rows go.
enum class RowMode : uint8_t {
  copy_on_write,  // it is written anew without them
  merge_on_read,  // it stays; position deletes (v2) or a deletion vector (v3) say which rows are gone
};

// What other commits may do between this one's read and its own. Both refuse that a file read here was removed or got
// deletes meanwhile.
enum class Isolation : uint8_t {
  serializable,  // and refuses that rows were added which this change would have touched
  snapshot,
};

struct RowOptions {
  // Else the table's write.<delete|update|merge>.mode (copy-on-write) and write.<…>.isolation-level (serializable).
  std::optional<RowMode> mode;
  std::optional<Isolation> isolation;
  std::string branch = "main";
  bool case_sensitive = true;                  // names in filters and keys
  std::map<std::string, std::string> summary;  // added to the snapshot's
  std::optional<CommitId> commit_id;
  int64_t memory_bytes_max = 256LL << 20;  // for all that grows with rows; beyond it is spilled or read again
  WriteOptions write;                      // its memory is at most half of the above; lineage and deletes are set here
  int threads = 0;                         // files read at once; 0: the hardware's
  // delete_rows, copy-on-write: files in which earlier deletes hide rows that match are written anew too, so that no
  // live data file holds one. Those rows are not counted.
  bool removes_hidden = false;
};

struct RowCounts {
  int64_t rows_deleted = 0;   // that were live: updated ones not counted
  int64_t rows_updated = 0;   // rows of the table replaced by others
  int64_t rows_inserted = 0;  // rows that the table did not have
};

// Files written for a change, before any snapshot names them.
struct PreparedRows {
  std::optional<SnapshotChange> change;  // nullopt: there is nothing to do, and nothing was written
  RowCounts counts;
  int64_t files_replaced = 0;  // live files of `base` that go with change->replaced_partitions
};

// Removes the files that `prepared` wrote, as far as it can be done: for one that is known not to have landed.
void discard(const PreparedRows& prepared, FileIO& io);

struct RowsResult {
  std::optional<CommitResult> commit;  // nullopt: there was nothing to do, and there is no new snapshot
  RowCounts counts;                    // all 0 if the commit was recognised as an earlier attempt's
};

// The one-call forms below load, prepare and commit. A commit that loses to a conflict with what it read
// (commit_conflict) is read and prepared anew within commit.retry.*; rows that came from a reader are read from it
// once. On failure what was written is removed, but after commit_unknown. They throw what plan_scan, AppendWriter and
// commit_snapshot do; on a table of format version 1, unsupported.
// The prepare_ forms do not commit and serve commit_transaction; `base` is the head that is read.
//   Rows are written under the current schema and default spec; on v3 rows that stay or are updated keep `_row_id`, and
// rows that stay keep `_last_updated_sequence_number`.

// Deletes the rows for which `filter` (unbound; nullptr: all rows) is true. Files that partition and metrics prove to
// match whole are dropped unread.
RowsResult delete_rows(TableOperations& table, const ExpressionPtr& filter, const RowOptions& options = {});
PreparedRows prepare_delete_rows(const TableMetadata& base, const std::shared_ptr<FileIO>& io,
                                 const ExpressionPtr& filter, const RowOptions& options = {});

struct OverwriteOptions {
  RowOptions rows;             // modes and isolation of write.delete.*
  bool validate_rows = false;  // new rows must match the filter, else invalid_argument naming the first that does not
};
// Deletes what matches `filter` and appends `new_rows` in the same snapshot.
RowsResult overwrite_rows(TableOperations& table, const ExpressionPtr& filter, arrow::RecordBatchReader& new_rows,
                          const OverwriteOptions& options = {});
PreparedRows prepare_overwrite_rows(const TableMetadata& base, const std::shared_ptr<FileIO>& io,
                                    const ExpressionPtr& filter, arrow::RecordBatchReader& new_rows,
                                    const OverwriteOptions& options = {});

// Appends `new_rows` and takes away every other live file of the partitions that they fall into (all files if the
// table's spec is unpartitioned), whatever was committed meanwhile, unless options.isolation is set: then a file added
// to (serializable) or deletes made in one of them since `base` are a conflict. Files of older specs stay unless all
// go. Without a row there is nothing to do.
RowsResult replace_partitions(TableOperations& table, arrow::RecordBatchReader& new_rows,
                              const RowOptions& options = {});
PreparedRows prepare_replace_partitions(const TableMetadata& base, const std::shared_ptr<FileIO>& io,
                                        arrow::RecordBatchReader& new_rows, const RowOptions& options = {});

// How source rows meet the table's. A source row matches the rows of the table with equal keys; null equals nothing,
// NaN equals NaN, -0.0 equals 0.0. Two source rows of one key are invalid_argument naming the key.
//   The source's columns are the table's (by field id, else by name), the keys among them. Columns that it lacks keep
// their value in updated rows and get their write default in inserted ones.
struct MergeOptions {
  RowOptions rows;                       // modes and isolation of write.merge.*, of upsert_rows write.update.*
  std::vector<std::string> key_columns;  // dotted names; empty: the schema's identifier fields
  bool update_matched = true;
  bool insert_unmatched = true;
  bool skip_equal = true;  // a matched row that already has the source's values is left as it is
  // Source rows that delete what they match, and are never inserted: those for which the boolean column `delete_column`
  // of the source (not one of the table's; empty: none) is true, and those for which `delete_matched` (unbound, over
  // the source's columns of the table; nullptr: none) is true.
  std::string delete_column;
  ExpressionPtr delete_matched;
};

// Memory is bounded by rows.memory_bytes_max whatever the size of table and source: the source is sorted by key
// (spilled) and joined range by range; files without a key of the range by partition or bounds are not read.
RowsResult merge_rows(TableOperations& table, arrow::RecordBatchReader& source, const MergeOptions& options = {});
PreparedRows prepare_merge_rows(const TableMetadata& base, const std::shared_ptr<FileIO>& io,
                                arrow::RecordBatchReader& source, const MergeOptions& options = {});

// merge_rows that updates what matches and inserts the rest (options.delete_* aside).
RowsResult upsert_rows(TableOperations& table, arrow::RecordBatchReader& rows, const MergeOptions& options = {});
PreparedRows prepare_upsert_rows(const TableMetadata& base, const std::shared_ptr<FileIO>& io,
                                 arrow::RecordBatchReader& rows, const MergeOptions& options = {});

}  // namespace firn::iceberg
