// Data files of a table written without committing them, by a worker that has no context: nothing is checked or
// recorded. orca::append_files commits them, here or in another process. Files of a task that died, or that nobody
// commits, are left in data/ and fall to orphan removal.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <arrow/record_batch.h>

#include "iceberg/write/append_writer.h"
#include "orca/tables/data_files.h"
#include "orca/tables/table.h"

namespace firn::orca {

using Batches = std::vector<std::shared_ptr<arrow::RecordBatch>>;

// Writes batches as they come: a file per partition that they hold, rolled at the table's target size. It holds the
// table's schema, spec, sort order and write properties as they were when it was made: a schema change committed
// meanwhile isn't seen, and append_files commits the entries all the same. One thread.
class FileWriter {
 public:
  explicit FileWriter(const Table& table, const iceberg::WriteOptions& options = {});
  // Batches are matched by field id, else by name. Throws schema_mismatch naming the column.
  void write(const Batches& batches);
  void put(const std::shared_ptr<arrow::RecordBatch>& batch);
  int64_t rows() const { return writer_.rows_written(); }  // so far
  // The entries of every file written; the files are durable. Without it they are removed. Once.
  DataFiles finish();

 private:
  iceberg::Schema schema_;
  iceberg::AppendWriter writer_;
};

// Writes `batches` into the table's data files and returns their entries.
DataFiles write_files(const Table& table, const Batches& batches);

}  // namespace firn::orca
