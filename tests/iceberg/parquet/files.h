// Small Parquet files for tests: rows as JSON in, rows as text out.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <arrow/json/from_string.h>
#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <gtest/gtest.h>

#include "base/arrow_status.h"
#include "iceberg/parquet/arrow_schema.h"
#include "iceberg/parquet/file_reader.h"
#include "iceberg/parquet/file_writer.h"
#include "support/temp_folder.h"

namespace firn::iceberg {

inline Field field(int32_t id, std::string name, TypePtr type, bool required = false) {
  Field f;
  f.id = id;
  f.name = std::move(name);
  f.type = std::move(type);
  f.required = required;
  return f;
}
inline TypePtr primitive(TypeId id) { return Type::primitive(id); }

// `rows`: a JSON array with an array a row, values in column order.
inline std::shared_ptr<arrow::RecordBatch> batch_of(const std::shared_ptr<arrow::Schema>& schema,
                                                    const std::string& rows) {
  auto array = check(arrow::json::ArrayFromJSONString(arrow::struct_(schema->fields()), rows), "rows");
  auto batch = check(arrow::RecordBatch::FromStructArray(array), "rows");
  return arrow::RecordBatch::Make(schema, batch->num_rows(), batch->columns());
}
inline std::shared_ptr<arrow::RecordBatch> batch_of(const Schema& schema, const std::string& rows) {
  return batch_of(to_arrow_schema(schema), rows);
}

inline DataFile write_rows(const std::string& path, const Schema& schema, const std::string& rows,
                           const ParquetWriteOptions& options = {}) {
  ParquetFileWriter writer(*make_local_file_io(), path, schema, options);
  writer.write(*batch_of(schema, rows));
  return writer.close();
}

inline std::vector<PositionedBatch> read_batches(const std::string& path, ParquetReadRequest request) {
  ParquetFileReader reader(*make_local_file_io(), path, std::move(request));
  std::vector<PositionedBatch> batches;
  while (auto batch = reader.next()) {
    EXPECT_TRUE(batch->batch->ValidateFull().ok()) << batch->batch->ValidateFull().ToString();
    batches.push_back(std::move(*batch));
  }
  return batches;
}

inline std::shared_ptr<arrow::RecordBatch> read_all(const std::string& path, ParquetReadRequest request) {
  const auto schema = to_arrow_schema(request.projection);
  arrow::RecordBatchVector batches;
  for (auto& batch : read_batches(path, std::move(request))) batches.push_back(batch.batch);
  auto table = check(arrow::Table::FromRecordBatches(schema, batches), "rows");
  return check(table->CombineChunksToBatch(), "rows");
}

inline void expect_equal(const arrow::RecordBatch& actual, const arrow::RecordBatch& expected) {
  EXPECT_TRUE(
      actual.Equals(expected, false, arrow::EqualOptions::Defaults().nans_equal(true).signed_zeros_equal(false)))
      << "got " << actual.ToString() << "\nwant " << expected.ToString();
}

template <class Work>
ErrorKind kind_of(Work&& work, std::string* message = nullptr) {
  try {
    work();
  } catch (const Error& error) {
    if (message != nullptr) *message = error.what();
    return error.kind();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorKind::internal;
}

}  // namespace firn::iceberg
