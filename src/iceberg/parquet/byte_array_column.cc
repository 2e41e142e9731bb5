#include "iceberg/parquet/byte_array_column.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include <arrow/buffer_builder.h>
#include <parquet/exception.h>

#include "base/error.h"

namespace firn::iceberg {

namespace {

constexpr int64_t kStepRows = 2048;              // pointers to so many values fit the processor's nearest cache
constexpr int64_t kExpectedBytesMax = 32 << 20;  // of what is allocated before a value was seen: files may lie

// memcpy for strings that are mostly short, which it does not read beyond.
void copy_bytes(uint8_t* to, const uint8_t* from, size_t size) {
  if (size > 32) {
    std::memcpy(to, from, size);
  } else if (size >= 16) {
    std::memcpy(to, from, 16);
    std::memcpy(to + size - 16, from + size - 16, 16);
  } else if (size >= 8) {
    std::memcpy(to, from, 8);
    std::memcpy(to + size - 8, from + size - 8, 8);
  } else {
    for (size_t i = 0; i < size; ++i) to[i] = from[i];
  }
}

}  // namespace

// Offsets, bytes and validity of `rows` rows.
class ByteArrayColumn::Builder {
 public:
  Builder(const parquet::ColumnDescriptor& column, int64_t rows, double row_bytes) : column_(column), rows_(rows) {
    PARQUET_ASSIGN_OR_THROW(offsets_buffer_, arrow::AllocateBuffer((rows + 1) * static_cast<int64_t>(sizeof(int32_t))));
    offsets_ = reinterpret_cast<int32_t*>(offsets_buffer_->mutable_data());
    offsets_[0] = 0;
    // A little more than the rows before took, so that these fit mostly.
    const double bytes = std::min(static_cast<double>(rows) * row_bytes * 1.0625, double{kExpectedBytesMax});
    PARQUET_ASSIGN_OR_THROW(bytes_, arrow::AllocateResizableBuffer(static_cast<int64_t>(bytes)));
  }

  int64_t rows() const { return row_; }
  int64_t size_bytes() const { return size_; }

  // `levels` (of `rows` rows) matter where there are fewer values than rows.
  void add(const parquet::ByteArray* values, const int16_t* levels, int64_t rows, int64_t value_count) {
    int64_t added = 0;
    for (int64_t i = 0; i < value_count; ++i) added += values[i].len;
    reserve(added);
    // All in variables of their own: bytes that are stored might be anything else's.
    uint8_t* const begin = bytes_->mutable_data();
    uint8_t* to = begin + size_;
    int32_t* const ends = offsets_ + row_ + 1;
    if (rows == value_count) {
      for (int64_t i = 0; i < rows; ++i) {
        copy_bytes(to, values[i].ptr, values[i].len);
        to += values[i].len;
        ends[i] = static_cast<int32_t>(to - begin);
      }
      if (has_nulls_) PARQUET_THROW_NOT_OK(validity_.Append(rows, true));
    } else {
      if (!has_nulls_) {  // all before had a value
        PARQUET_THROW_NOT_OK(validity_.Reserve(rows_));
        validity_.UnsafeAppend(row_, true);
        has_nulls_ = true;
      }
      for (int64_t i = 0; i < rows; ++i) {
        const bool valid = levels[i] != 0;
        PARQUET_THROW_NOT_OK(validity_.Append(valid));
        if (valid) {
          copy_bytes(to, values->ptr, values->len);
          to += values->len;
          ++values;
        }
        ends[i] = static_cast<int32_t>(to - begin);
      }
    }
    row_ += rows;
    size_ += added;
  }

  std::shared_ptr<arrow::BinaryArray> finish() {
    // What is left over is given back where it is much.
    PARQUET_THROW_NOT_OK(bytes_->Resize(size_, bytes_->capacity() > size_ + size_ / 4));
    std::shared_ptr<arrow::Buffer> validity;
    const int64_t null_count = has_nulls_ ? validity_.false_count() : 0;
    if (has_nulls_) PARQUET_THROW_NOT_OK(validity_.Finish(&validity));
    return std::make_shared<arrow::BinaryArray>(row_, std::move(offsets_buffer_), std::move(bytes_),
                                                std::move(validity), null_count);
  }

 private:
  void reserve(int64_t added) {
    if (size_ + added > std::numeric_limits<int32_t>::max())
      fail(ErrorKind::unsupported, "column {}: {} values take more than 2 GiB; read fewer rows at once", column_.name(),
           rows_);
    if (size_ + added > bytes_->size())
      PARQUET_THROW_NOT_OK(bytes_->Resize(std::max(size_ + added, 2 * bytes_->size()), false));
  }

  const parquet::ColumnDescriptor& column_;
  int64_t rows_;
  int64_t row_ = 0;
  int64_t size_ = 0;
  std::shared_ptr<arrow::Buffer> offsets_buffer_;
  int32_t* offsets_;
  std::shared_ptr<arrow::ResizableBuffer> bytes_;  // its size is what there is room for
  bool has_nulls_ = false;
  arrow::TypedBufferBuilder<bool> validity_;  // if has_nulls_
};

ByteArrayColumn::ByteArrayColumn(const parquet::ColumnDescriptor& column, std::unique_ptr<parquet::PageReader> pages,
                                 double row_bytes_hint)
    : column_(column),
      reader_(
          std::static_pointer_cast<parquet::ByteArrayReader>(parquet::ColumnReader::Make(&column, std::move(pages)))),
      row_bytes_(row_bytes_hint) {}

std::shared_ptr<arrow::BinaryArray> ByteArrayColumn::read(int64_t rows) {
  const bool optional = column_.max_definition_level() > 0;
  const auto step = static_cast<size_t>(std::min(rows, kStepRows));
  if (values_.size() < step) values_.resize(step);
  if (optional && levels_.size() < step) levels_.resize(step);
  Builder builder(column_, rows, row_bytes_);
  while (builder.rows() < rows && reader_->HasNext()) {
    int64_t value_count = 0;
    const int64_t wanted = std::min(rows - builder.rows(), kStepRows);
    // Stops where a page ends: the values are pointers into it.
    const int64_t read =
        reader_->ReadBatch(wanted, optional ? levels_.data() : nullptr, nullptr, values_.data(), &value_count);
    if (read <= 0) break;
    const int64_t promised = optional ? std::count(levels_.begin(), levels_.begin() + read, int16_t{1}) : read;
    if (value_count != promised)
      throw parquet::ParquetException("column ", column_.name(), " has not the values its levels promise");
    builder.add(values_.data(), levels_.data(), read, value_count);
  }
  if (builder.rows() > 0) row_bytes_ = static_cast<double>(builder.size_bytes()) / static_cast<double>(builder.rows());
  return builder.finish();
}

int64_t ByteArrayColumn::skip(int64_t rows) { return reader_->Skip(rows); }

}  // namespace firn::iceberg
