// Rows from JSON lines and CSV, typed by a table's columns.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <arrow/io/interfaces.h>
#include <arrow/record_batch.h>

#include "iceberg/schema.h"

namespace firn::cli {

struct TextRowsOptions {
  std::string name;                       // of the input, for errors
  bool infers_new_columns = false;        // see RowInputOptions
  bool can_add_columns = false;           // likewise
  bool has_columns_of_first_row = false;  // likewise
};

// All of `table`'s columns (or the first row's), then the new ones; a member that a row lacks is its column's write
// default, else null.
std::shared_ptr<arrow::RecordBatchReader> read_json_rows(std::shared_ptr<arrow::io::InputStream> in,
                                                         const iceberg::Schema& table, const TextRowsOptions& options);
// The columns that the title line names. Nothing is null, "" an empty string; empty lines are passed over, but of one
// column they are rows whose value is null. Quotes are those of RFC 4180: one that is
// not closed, or closed within a value, is refused by the line that it was opened on. New columns get a type from the
// first rows: boolean, long, double, date, timestamp or timestamptz where all values are spelled so, else string;
// without any value they are left out, which standard error is told.
std::shared_ptr<arrow::RecordBatchReader> read_csv_rows(const std::shared_ptr<arrow::io::InputStream>& in,
                                                        const iceberg::Schema& table, const TextRowsOptions& options);

// Builders of one batch, and what they become.
class ColumnBuilders {
 public:
  explicit ColumnBuilders(const std::vector<iceberg::Field>& fields);
  arrow::ArrayBuilder& at(size_t column) { return *builders_[column]; }
  const std::shared_ptr<arrow::Schema>& schema() const { return schema_; }  // without field ids
  std::shared_ptr<arrow::RecordBatch> finish(int64_t num_rows);             // leaves the builders empty

 private:
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<std::unique_ptr<arrow::ArrayBuilder>> builders_;
};

[[noreturn]] void fail_unknown_column(const std::string& where, const std::string& name, const iceberg::Schema& table,
                                      bool can_add_columns);

}  // namespace firn::cli
