// Byte strings of one flat column chunk, copied once into arrays of their size.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <arrow/array.h>
#include <parquet/column_reader.h>

namespace firn::iceberg {

// Arrow's own reader grows its buffer by doubling and cuts it to size at the end, which copies the bytes twice more.
// One thread. Throws parquet::ParquetException.
class ByteArrayColumn {
 public:
  // `column`, of physical type BYTE_ARRAY and at most optional, must outlive it. `row_bytes_hint`: of a value, about.
  ByteArrayColumn(const parquet::ColumnDescriptor& column, std::unique_ptr<parquet::PageReader> pages,
                  double row_bytes_hint);

  // The next rows, as binary(); fewer where the pages end early. Throws unsupported above 2 GiB.
  std::shared_ptr<arrow::BinaryArray> read(int64_t rows);
  int64_t skip(int64_t rows);  // how many there were

 private:
  class Builder;

  const parquet::ColumnDescriptor& column_;
  std::shared_ptr<parquet::ByteArrayReader> reader_;
  std::vector<parquet::ByteArray> values_;  // what is taken from the pages at once, without nulls
  std::vector<int16_t> levels_;             // 1: a value, 0: null
  double row_bytes_;                        // of the rows read last
};

}  // namespace firn::iceberg
