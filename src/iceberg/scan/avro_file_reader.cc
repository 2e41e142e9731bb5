#include "iceberg/scan/avro_file_reader.h"

#include <algorithm>

#include "base/error.h"
#include "iceberg/parquet/arrow_schema.h"

namespace firn::iceberg {

namespace {

constexpr int64_t kBatchBytesMax = 32 << 20;        // of the fixed-width values of a batch
constexpr int64_t kBatchEncodedBytesMax = 8 << 20;  // as they are in the file
// Records without any byte cost nothing to claim; no file of a table has that many.
constexpr int64_t kEmptyRowsMax = int64_t{1} << 31;

}  // namespace

AvroFileReader::AvroFileReader(FileIO& io, const std::string& path, ParquetReadRequest request)
    : path_(path),
      request_(std::move(request)),
      stream_(io.open(path), path),
      rules_{.error = ErrorKind::corrupt, .where = "in " + path, .from_file = true} {
  if (request_.counters != nullptr) ++request_.counters->files_opened;
  resolve_columns();
}

AvroFileReader::~AvroFileReader() = default;

void AvroFileReader::resolve_columns() {
  arrow_schema_ = to_arrow_schema(request_.projection);
  const avro::Node& root = stream_.schema().root();
  file_columns_ = avro_file_columns(root, request_.name_mapping, path_);
  for (const Field& field : request_.projection.fields()) {
    FileColumn* found = find_column(file_columns_, field.id);
    if (found != nullptr && field.type->id() != TypeId::unknown) {
      select_leaves(*found, field);
    } else {
      missing_column(field, 0, field.name, rules_);  // throws for a required one
    }
  }
  for (const Field& field : request_.projection.fields()) {
    Column column{.target = &field};
    int next = 0;
    for (const FileColumn& file_column : file_columns_) {
      if (!file_column.selected) continue;
      if (file_column.id == field.id && column.index < 0 && field.type->id() != TypeId::unknown) {
        column.index = next;
        column.source = selected_source(file_column);
      }
      ++next;
    }
    columns_.push_back(std::move(column));
  }
  decoder_ = std::make_unique<AvroRowDecoder>(root, file_columns_, path_);
  batch_rows_ = std::clamp<int64_t>(kBatchBytesMax / std::max<int64_t>(1, decoder_->row_width_bytes()), 1,
                                    std::max<int64_t>(1, request_.batch_rows_max));
}

bool AvroFileReader::open_block() {
  while (rows_left_ == 0) {
    if (cursor_ && cursor_->remaining() != 0) cursor_->fail_corrupt("bytes after a block's last row");
    const std::optional<avro::Block> block = stream_.next_block();
    if (request_.counters != nullptr) request_.counters->bytes_read += stream_.bytes_read() - bytes_reported_;
    bytes_reported_ = stream_.bytes_read();
    if (!block) {
      cursor_.reset();
      return false;
    }
    block_ = *block;
    cursor_.emplace(block_.data, path_);
    rows_left_ = block_.record_count;
    if (stream_.schema().root().is_empty) {
      if (rows_left_ > kEmptyRowsMax - empty_rows_) cursor_->fail_corrupt("too many rows that take no bytes");
      empty_rows_ += rows_left_;
    }
  }
  return true;
}

std::optional<PositionedBatch> AvroFileReader::next() {
  int64_t rows = 0, encoded_bytes = 0;
  while (rows < batch_rows_ && encoded_bytes < kBatchEncodedBytesMax && open_block()) {
    const size_t before = cursor_->remaining();
    const int64_t rows_max = std::min(rows_left_, batch_rows_ - rows);
    int64_t read = 0;
    while (read < rows_max &&
           encoded_bytes + static_cast<int64_t>(before - cursor_->remaining()) < kBatchEncodedBytesMax) {
      decoder_->append(*cursor_);
      ++read;
    }
    rows += read;
    rows_left_ -= read;
    encoded_bytes += static_cast<int64_t>(before - cursor_->remaining());
  }
  if (rows == 0) {
    if (request_.entry != nullptr && position_ != request_.entry->record_count)
      fail(ErrorKind::corrupt, "{} has {} rows, its manifest entry says {}: one of them is damaged", path_, position_,
           request_.entry->record_count);
    return std::nullopt;
  }
  PositionedBatch result{.batch = take_batch(rows), .first_position = position_};
  position_ += rows;
  return result;
}

std::shared_ptr<arrow::RecordBatch> AvroFileReader::take_batch(int64_t rows) {
  const arrow::ArrayVector decoded = decoder_->finish();
  arrow::ArrayVector arrays;
  for (const Column& column : columns_) {
    const Field& target = *column.target;
    arrays.push_back(column.index < 0 ? missing_column(target, rows, target.name, rules_)
                                      : adapt_array(decoded.at(static_cast<size_t>(column.index)), column.source,
                                                    target, target.name, rules_));
  }
  if (request_.counters != nullptr) {
    request_.counters->rows_decoded += rows;
    request_.counters->values_decoded += rows * decoder_->leaf_count();
  }
  return arrow::RecordBatch::Make(arrow_schema_, rows, std::move(arrays));
}

}  // namespace firn::iceberg
