// Reading one Avro data or delete file under a table's schema (Iceberg spec, Appendix A, "Avro").
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "iceberg/avro/container.h"
#include "iceberg/avro/cursor.h"
#include "iceberg/parquet/array_adapter.h"
#include "iceberg/scan/avro_columns.h"
#include "iceberg/scan/data_file_reader.h"

namespace firn::iceberg {

// As ParquetFileReader: columns by id, or by the name mapping where the file has none; what it lacks from
// initial-default. Holds one block of the file and one batch.
class AvroFileReader : public DataFileReader {
 public:
  AvroFileReader(FileIO& io, const std::string& path, ParquetReadRequest request);
  ~AvroFileReader() override;
  std::optional<PositionedBatch> next() override;

 private:
  struct Column {
    const Field* target = nullptr;  // of request_.projection
    int index = -1;                 // among the columns decoded; -1: not in the file
    SourceField source;
  };

  void resolve_columns();
  bool open_block();  // false at the end
  std::shared_ptr<arrow::RecordBatch> take_batch(int64_t rows);

  const std::string path_;
  const ParquetReadRequest request_;
  avro::ContainerStream stream_;
  AdaptRules rules_;
  std::vector<FileColumn> file_columns_;
  std::vector<Column> columns_;
  std::shared_ptr<arrow::Schema> arrow_schema_;
  std::unique_ptr<AvroRowDecoder> decoder_;
  int64_t batch_rows_ = 0;

  avro::Block block_;
  std::optional<avro::Cursor> cursor_;  // in block_
  int64_t rows_left_ = 0;               // of block_
  int64_t empty_rows_ = 0;              // so far, of records that take no bytes
  int64_t position_ = 0;                // of the next row in the file
  int64_t bytes_reported_ = 0;
};

}  // namespace firn::iceberg
