// The rows of one scan task.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "iceberg/scan/data_file_reader.h"
#include "iceberg/scan/delete_cache.h"
#include "iceberg/scan/scan.h"

namespace firn::iceberg {

// Live, matching rows in file order, as plan.projection. Opens the file and its deletes with the first next(). One
// thread.
class TaskReader {
 public:
  // `plan`, `io` and `options.counters` must outlive it.
  TaskReader(const ScanPlan& plan, const FileScanTask& task, FileIO& io, const ScanOptions& options);
  ~TaskReader();
  std::shared_ptr<arrow::RecordBatch> next();  // never empty; nullptr at the end
  // What next() would read of a Parquet file, by its footer and indexes alone; in place of it.
  std::vector<RowGroupChoice> explain();

 private:
  struct OutputColumn {
    enum class Source : uint8_t { file, constant, path, position } source = Source::file;
    size_t index = 0;  // of file_schema_, if from the file
    Field field;
  };
  struct EqualityGroup {  // delete files with the same columns
    std::vector<int32_t> ids;
    std::vector<std::shared_ptr<const LoadedDeletes>> files;
  };

  void choose_columns();
  ParquetReadRequest request() const;
  void open();
  PositionedBatch with_inherited_values(PositionedBatch read) const;
  std::vector<uint8_t> live_rows(const PositionedBatch& read) const;
  std::shared_ptr<arrow::RecordBatch> with_constant_columns(const arrow::RecordBatch& batch) const;
  std::shared_ptr<arrow::RecordBatch> output(const PositionedBatch& read, const std::vector<uint8_t>& live) const;
  std::shared_ptr<arrow::Array> output_column(const OutputColumn& column, const PositionedBatch& read) const;

  const ScanPlan& plan_;
  const FileScanTask& task_;
  FileIO& io_;
  const ScanOptions& options_;
  Schema file_schema_;   // what is read: projected, filter's and equality deletes' columns; constant ones aside
  Schema check_schema_;  // file_schema_, and the constant columns that the filter or equality deletes look at
  std::vector<OutputColumn> output_columns_;
  std::shared_ptr<arrow::Schema> output_schema_;
  std::shared_ptr<arrow::Schema> check_arrow_schema_;
  std::unique_ptr<DataFileReader> reader_;
  PositionSet deleted_;
  std::vector<EqualityGroup> equality_;
};

}  // namespace firn::iceberg
