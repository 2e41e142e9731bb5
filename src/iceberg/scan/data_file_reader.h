// Data and delete files of either format.
#pragma once

#include <memory>
#include <optional>

#include "iceberg/parquet/file_reader.h"
#include "io/file_io.h"

namespace firn::iceberg {

class DataFileReader {
 public:
  virtual ~DataFileReader() = default;
  // In file order; nullopt at the end. Throws corrupt naming the file, unsupported, io. One thread.
  virtual std::optional<PositionedBatch> next() = 0;
};

// The rows of `file` by its format, as `request` says; file_size_bytes is taken from `file`. Avro has no statistics, so
// there request.filter prunes nothing. `io` must outlive the reader. Throws unsupported for other formats.
std::unique_ptr<DataFileReader> open_data_file(FileIO& io, const DataFile& file, ParquetReadRequest request);

}  // namespace firn::iceberg
