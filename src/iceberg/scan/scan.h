// Scans: which files hold a snapshot's rows, and those rows as a stream (Iceberg spec, "Scan Planning").
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <arrow/record_batch.h>

#include "iceberg/expr/expression.h"
#include "iceberg/parquet/file_reader.h"
#include "io/file_io.h"

namespace firn::iceberg {

struct ScanOptions {
  // At most one of the three; none is the current snapshot with the current schema. A snapshot id or a time reads with
  // that snapshot's schema; a branch with the table's, a tag with its snapshot's.
  std::optional<int64_t> snapshot_id;
  std::string ref;
  std::optional<int64_t> as_of_ms;
  std::vector<std::string>
      columns;               // empty: all. "_row_id", "_last_updated_sequence_number", "_file", "_pos" may be named
  bool row_lineage = false;  // append the two lineage columns (null where the snapshot has no row ids)
  ExpressionPtr filter;      // unbound; nullptr: all rows. Applied exactly
  bool case_sensitive = true;
  bool prune = true;  // false: every file, row group and page is read (tests)
  int64_t batch_rows_max = 65536;
  int threads = 0;                   // files read at once; 0: hardware. Batches keep the plan's order all the same
  ReadCounters* counters = nullptr;  // must outlive the scan
};

// A data file with the deletes that apply to it. Self-contained: it can be read by another thread or process.
struct FileScanTask {
  DataFile file;  // with the column metrics of the filter's columns alone
  int64_t data_sequence_number = 0;
  int64_t file_sequence_number = 0;
  std::vector<std::shared_ptr<const DataFile>>
      deletes;             // position deletes, deletion vectors, equality deletes that may apply
  ExpressionPtr residual;  // bound; nullptr: all rows match
  std::map<int32_t, Value>
      constants;  // identity partition values by column id; null ones are left to the file (case 16)
};

class DeleteCache;  // delete files that several tasks share, loaded once; bounded

struct ScanPlan {
  std::optional<int64_t> snapshot_id;  // nullopt: the table has no snapshot, and no tasks
  Schema table_schema;                 // of the snapshot as chosen above
  Schema projection;                   // what the rows have
  std::optional<NameMapping> name_mapping;
  ExpressionPtr filter;             // bound to table_schema; nullptr: none
  std::vector<FileScanTask> tasks;  // in manifest order
  Schema dropped_columns;  // columns of equality deletes that table_schema lacks, as the last schema with them has
  std::shared_ptr<DeleteCache> delete_cache;  // may be nullptr: then each task loads its own
};

// Reads the manifest list and the manifests that may matter (in parallel). Throws not_found for an unknown snapshot,
// ref or column; unsupported for what firn cannot read.
ScanPlan plan_scan(const TableMetadata& metadata, const std::shared_ptr<FileIO>& io, const ScanOptions& options);

// The readers below throw firn::Error from ReadNext, and never return a Status that is not ok. Batches are never empty.
// One thread at a time.

// The live, matching rows of one task, in file order, with to_arrow_schema(plan.projection). `io` and `plan` are kept
// alive.
std::shared_ptr<arrow::RecordBatchReader> read_task(const std::shared_ptr<const ScanPlan>& plan, size_t task_index,
                                                    const std::shared_ptr<FileIO>& io, const ScanOptions& options);

// All tasks of `plan` one after another, read ahead on options.threads threads with a bounded number of batches in
// flight. The threads start with the first ReadNext; destroying or closing the reader stops them and waits for them. An
// error comes where its rows would have come, and ends the stream.
std::shared_ptr<arrow::RecordBatchReader> read_tasks(const std::shared_ptr<const ScanPlan>& plan,
                                                     const std::shared_ptr<FileIO>& io, const ScanOptions& options);

// plan_scan and read_tasks in one.
std::shared_ptr<arrow::RecordBatchReader> scan(const TableMetadata& metadata, const std::shared_ptr<FileIO>& io,
                                               const ScanOptions& options);

// Live data (and delete) files of a snapshot with their sequence numbers, for maintenance and metadata tables.
struct LiveFile {
  DataFile file;
  int64_t data_sequence_number = 0, file_sequence_number = 0, snapshot_id = 0;
};
std::vector<LiveFile> live_files(const TableMetadata& metadata, const Snapshot& snapshot, FileIO& io);

}  // namespace firn::iceberg
