// Reading chosen rows of one flat column chunk: only the pages that hold them are fetched and decoded.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <arrow/array.h>
#include <arrow/io/interfaces.h>
#include <parquet/column_reader.h>
#include <parquet/metadata.h>

#include "iceberg/parquet/byte_array_column.h"

namespace firn::iceberg {

// Rows [first, end) of a row group.
struct RowRange {
  int64_t first = 0, end = 0;
  int64_t size() const { return end - first; }
  bool operator==(const RowRange&) const = default;
};

// A data page's place in the file, and the rows it holds.
struct PageSpan {
  int64_t offset = 0, size_bytes = 0;
  RowRange rows;
};

// The Arrow type whose memory layout the column's values have once decoded (decimals: decimal128; int96:
// timestamp[us]). Throws unsupported for what Iceberg has no use for.
std::shared_ptr<arrow::DataType> decoded_type(const parquet::ColumnDescriptor& column);

// One row group's chunk of a column without nesting (at most optional). Rows are asked for in ascending order. One
// thread. Throws parquet::ParquetException.
class FlatColumnReader {
 public:
  // `pages`: all data pages in row order, from the offset index; empty if there is none: then skipped rows are decoded
  // too. `wanted`, ascending, are the rows that may be asked for: neighbouring pages with such rows are fetched in one
  // read.
  FlatColumnReader(std::shared_ptr<arrow::io::RandomAccessFile> file, const parquet::ColumnDescriptor& column,
                   const parquet::ColumnChunkMetaData& chunk, std::vector<PageSpan> pages, int64_t group_rows,
                   const std::vector<RowRange>& wanted, const parquet::ReaderProperties& properties);
  ~FlatColumnReader();

  std::shared_ptr<arrow::Array> read(RowRange rows);  // as decoded_type()

  int64_t values_decoded() const { return values_decoded_; }
  int64_t pages_read() const;  // 0 without an offset index
  int64_t pages_total() const { return has_index_ ? static_cast<int64_t>(pages_.size()) : 0; }

 private:
  class PageStream;
  class CheckedPages;
  void go_to(int64_t row);
  void skip(int64_t count, bool decodes);
  std::shared_ptr<arrow::Array> read_values(int64_t count);
  std::shared_ptr<arrow::Array> read_byte_arrays(int64_t count);

  const parquet::ColumnDescriptor& column_;
  std::vector<PageSpan> pages_;
  bool has_index_;
  std::shared_ptr<PageStream> stream_;
  std::shared_ptr<parquet::internal::RecordReader> reader_;  // of fixed widths
  std::unique_ptr<ByteArrayColumn> byte_arrays_;             // in its stead, of BYTE_ARRAY
  int64_t row_ = 0;                                          // the next row that they give
  int64_t values_decoded_ = 0;
};

// The data pages of `chunk` from its offset index; empty if that does not describe the chunk (then it is not used).
std::vector<PageSpan> page_spans(const parquet::OffsetIndex& index, const parquet::ColumnChunkMetaData& chunk,
                                 int64_t group_rows);

}  // namespace firn::iceberg
