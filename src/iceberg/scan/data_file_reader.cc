#include "iceberg/scan/data_file_reader.h"

#include "base/error.h"
#include "iceberg/scan/avro_file_reader.h"

namespace firn::iceberg {

namespace {

class ParquetDataFile : public DataFileReader {
 public:
  ParquetDataFile(FileIO& io, const std::string& path, ParquetReadRequest request)
      : reader_(io, path, std::move(request)) {}
  std::optional<PositionedBatch> next() override { return reader_.next(); }

 private:
  ParquetFileReader reader_;
};

}  // namespace

std::unique_ptr<DataFileReader> open_data_file(FileIO& io, const DataFile& file, ParquetReadRequest request) {
  request.file_size_bytes = file.file_size_bytes;
  if (file.file_format == "PARQUET") return std::make_unique<ParquetDataFile>(io, file.file_path, std::move(request));
  if (file.file_format == "AVRO") return std::make_unique<AvroFileReader>(io, file.file_path, std::move(request));
  fail(ErrorKind::unsupported, "{} is {}; firn reads Parquet and Avro files", file.file_path, file.file_format);
}

}  // namespace firn::iceberg
