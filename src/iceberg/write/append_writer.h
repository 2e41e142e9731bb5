// Rows in, data files out: split by partition, sorted by the table's sort order, rolled by bytes written.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <arrow/record_batch.h>

#include "iceberg/parquet/file_writer.h"

namespace firn::iceberg {

struct WriteOptions {
  int64_t memory_bytes_max =
      256LL << 20;  // rows held for sorting and open encoders; beyond it runs are spilled and merged
  std::optional<int64_t> target_file_size_bytes;  // else write.target-file-size-bytes (512 MiB)
  std::string spill_folder;                       // empty: the system's temporary folder
  int threads = 0;                                // that write files of different partitions at once; 0: hardware
  // Rows come sorted as the table's sort order wants (the caller proves it): written through, file by file, without a
  // sort.
  bool already_sorted = false;
  // Batches may have `_row_id` and `_last_updated_sequence_number` after the schema's columns (nullable int64; null,
  // and absent, is inherited from the commit), and files store both (v3: rewrites keep row ids).
  bool row_lineage = false;
  // Instead of the table's; without fields, rows keep their order. Files carry its order_id if the table has that order
  // and all their rows follow it, else 0.
  std::optional<SortOrder> sort_order;
  // Not empty: equality delete files with these equality ids. Batches have, and files store, the columns of the ids and
  // of the default spec's partition fields (equality_delete_schema); a row deletes in its partition, or everywhere if
  // the spec is unpartitioned. Rows keep their order.
  std::vector<int32_t> equality_ids;
};

// Writes under the metadata's current schema, default spec and sort order into <location>/data (write.data.path
// honoured), at paths that no other attempt uses. Files are durable when finish() returns. One caller at a time; none
// of Arrow's CPU pool.
//   Rows are split by partition and, with a sort order, sorted within each partition over all rows given (a
// memory-bounded external sort); without one they keep their order. Values order as the specification's "Sorting" says,
// NaN above all, and a descending field turns that round; nulls go where the order says. Equal rows keep their order.
// At most one file is open at a time where the rows are sorted, else a few: rows of further partitions wait, sorted by
// partition, so memory stays near the budget for any number of partitions.
class AppendWriter {
 public:
  AppendWriter(std::shared_ptr<FileIO> io, const TableMetadata& metadata, const WriteOptions& options = {});
  ~AppendWriter();  // without finish(): what was written is removed as far as it can be, else it is an orphan
  // `batch` is conformed to the schema first; throws schema_mismatch, then nothing of the batch was taken.
  void write(const std::shared_ptr<arrow::RecordBatch>& batch);
  std::vector<DataFile> finish();  // partition, spec id and sort order id are set
  int64_t rows_written() const;    // taken by write()
  int64_t runs_spilled() const;    // sorted runs that went to disk

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace firn::iceberg
