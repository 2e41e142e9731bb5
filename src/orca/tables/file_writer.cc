#include "orca/tables/file_writer.h"

namespace firn::orca {

FileWriter::FileWriter(const Table& table, const iceberg::WriteOptions& options)
    : schema_(table.metadata().schema()), writer_(table.io(), table.metadata(), options) {}

void FileWriter::write(const Batches& batches) {
  for (const auto& batch : batches) put(batch);
}

void FileWriter::put(const std::shared_ptr<arrow::RecordBatch>& batch) { writer_.write(batch); }

DataFiles FileWriter::finish() {
  DataFiles result(writer_.finish());
  result.schemas.push_back(schema_);
  return result;
}

DataFiles write_files(const Table& table, const Batches& batches) {
  FileWriter writer(table);
  writer.write(batches);
  return writer.finish();
}

}  // namespace firn::orca
