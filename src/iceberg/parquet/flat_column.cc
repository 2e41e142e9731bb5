#include "iceberg/parquet/flat_column.h"

#include <algorithm>

#include <arrow/array/concatenate.h>
#include <arrow/util/bit_util.h>
#include <arrow/util/bitmap_generate.h>
#include <arrow/util/decimal.h>
#include <parquet/column_page.h>
#include <parquet/exception.h>
#include <parquet/page_index.h>
#include <parquet/schema.h>
#include <parquet/types.h>

#include "base/civil_time.h"
#include "base/error.h"

namespace firn::iceberg {

namespace {

constexpr int64_t kReadBytes = 1 << 20;  // what is fetched at once, unless one page is larger

using arrow::TimeUnit;
using parquet::LogicalType;

TimeUnit::type arrow_unit(LogicalType::TimeUnit::unit unit, const std::string& column) {
  switch (unit) {
    case LogicalType::TimeUnit::MILLIS:
      return TimeUnit::MILLI;
    case LogicalType::TimeUnit::MICROS:
      return TimeUnit::MICRO;
    case LogicalType::TimeUnit::NANOS:
      return TimeUnit::NANO;
    default:
      fail(ErrorKind::unsupported, "column {}: unknown time unit", column);
  }
}

template <class Physical>
std::shared_ptr<arrow::Buffer> integers_as_decimals(const uint8_t* values, int64_t count) {
  PARQUET_ASSIGN_OR_THROW(std::shared_ptr<arrow::Buffer> buffer, arrow::AllocateBuffer(count * 16));
  auto* out = reinterpret_cast<arrow::Decimal128*>(buffer->mutable_data());
  const auto* in = reinterpret_cast<const Physical*>(values);
  for (int64_t i = 0; i < count; ++i) out[i] = arrow::Decimal128(in[i]);
  return buffer;
}

// Big-endian two's complement of any width to decimal128.
std::shared_ptr<arrow::Array> bytes_as_decimals(const arrow::Array& array,
                                                const std::shared_ptr<arrow::DataType>& type) {
  PARQUET_ASSIGN_OR_THROW(std::shared_ptr<arrow::Buffer> buffer, arrow::AllocateBuffer(array.length() * 16));
  auto* out = reinterpret_cast<arrow::Decimal128*>(buffer->mutable_data());
  const bool fixed = array.type_id() == arrow::Type::FIXED_SIZE_BINARY;
  for (int64_t i = 0; i < array.length(); ++i) {
    out[i] = arrow::Decimal128();
    if (array.IsNull(i)) continue;
    const std::string_view bytes = fixed ? static_cast<const arrow::FixedSizeBinaryArray&>(array).GetView(i)
                                         : static_cast<const arrow::BinaryArray&>(array).GetView(i);
    PARQUET_ASSIGN_OR_THROW(out[i], arrow::Decimal128::FromBigEndian(reinterpret_cast<const uint8_t*>(bytes.data()),
                                                                     static_cast<int32_t>(bytes.size())));
  }
  // The decoder's arrays begin at offset 0, so the validity bitmap fits as it is.
  return arrow::MakeArray(
      arrow::ArrayData::Make(type, array.length(), {array.null_bitmap(), std::move(buffer)}, array.null_count()));
}

std::shared_ptr<arrow::Buffer> int96_as_micros(const uint8_t* values, int64_t count, const uint8_t* valid_bits) {
  PARQUET_ASSIGN_OR_THROW(std::shared_ptr<arrow::Buffer> buffer, arrow::AllocateBuffer(count * 8));
  auto* out = reinterpret_cast<int64_t*>(buffer->mutable_data());
  constexpr int64_t kJulianEpoch = 2440588, kDayUs = 86'400'000'000;
  for (int64_t i = 0; i < count; ++i) {
    out[i] = 0;
    if (valid_bits != nullptr && !arrow::bit_util::GetBit(valid_bits, i)) continue;
    uint32_t words[3];
    std::memcpy(words, values + i * 12, 12);
    const auto nanos = static_cast<int64_t>(words[0] | (static_cast<uint64_t>(words[1]) << 32));
    if (__builtin_mul_overflow(static_cast<int64_t>(words[2]) - kJulianEpoch, kDayUs, &out[i]) ||
        __builtin_add_overflow(out[i], floor_div(nanos, 1000), &out[i]))
      throw parquet::ParquetException("an int96 timestamp is out of range");
  }
  return buffer;
}

// Of the first page, dictionary or data.
int64_t chunk_start(const parquet::ColumnChunkMetaData& chunk) {
  const int64_t data = chunk.data_page_offset();
  return chunk.has_dictionary_page() && chunk.dictionary_page_offset() > 0
             ? std::min(data, chunk.dictionary_page_offset())
             : data;
}

}  // namespace

std::shared_ptr<arrow::DataType> decoded_type(const parquet::ColumnDescriptor& column) {
  const LogicalType& logical = *column.logical_type();
  if (logical.is_decimal()) {
    const auto& decimal = static_cast<const parquet::DecimalLogicalType&>(logical);
    if (decimal.precision() > 38)
      fail(ErrorKind::unsupported, "column {}: a decimal of more than 38 digits", column.name());
    return arrow::decimal128(decimal.precision(), decimal.scale());
  }
  switch (column.physical_type()) {
    case parquet::Type::BOOLEAN:
      return arrow::boolean();
    case parquet::Type::INT32:
      if (logical.is_date()) return arrow::date32();
      if (logical.is_time()) return arrow::time32(TimeUnit::MILLI);
      if (logical.is_int()) {
        const auto& integer = static_cast<const parquet::IntLogicalType&>(logical);
        if (!integer.is_signed() && integer.bit_width() == 32) return arrow::uint32();
      }
      return arrow::int32();
    case parquet::Type::INT64:
      if (logical.is_time())
        return arrow::time64(
            arrow_unit(static_cast<const parquet::TimeLogicalType&>(logical).time_unit(), column.name()));
      if (logical.is_timestamp()) {
        const auto& timestamp = static_cast<const parquet::TimestampLogicalType&>(logical);
        return arrow::timestamp(arrow_unit(timestamp.time_unit(), column.name()),
                                timestamp.is_adjusted_to_utc() ? "UTC" : "");
      }
      if (logical.is_int() && !static_cast<const parquet::IntLogicalType&>(logical).is_signed()) return arrow::uint64();
      return arrow::int64();
    case parquet::Type::INT96:
      return arrow::timestamp(TimeUnit::MICRO);
    case parquet::Type::FLOAT:
      return arrow::float32();
    case parquet::Type::DOUBLE:
      return arrow::float64();
    case parquet::Type::BYTE_ARRAY:
      return logical.is_string() || logical.is_enum() || logical.is_JSON() ? arrow::utf8() : arrow::binary();
    case parquet::Type::FIXED_LEN_BYTE_ARRAY:
      if (logical.is_float16()) return arrow::float16();
      return arrow::fixed_size_binary(column.type_length());
    default:
      fail(ErrorKind::unsupported, "column {}: unknown Parquet type", column.name());
  }
}

// The bytes of the dictionary page and then of the pages asked for, one after another, as if nothing lay between them.
class FlatColumnReader::PageStream : public arrow::io::InputStream {
 public:
  PageStream(std::shared_ptr<arrow::io::RandomAccessFile> file, PageSpan dictionary, const std::vector<PageSpan>& pages,
             const std::vector<RowRange>& wanted)
      : file_(std::move(file)), pages_(pages), wanted_(pages.size(), false) {
    size_t range = 0;
    for (size_t i = 0; i < pages.size(); ++i) {
      while (range < wanted.size() && wanted[range].end <= pages[i].rows.first) ++range;
      wanted_[i] = range < wanted.size() && wanted[range].first < pages[i].rows.end;
    }
    position_ = dictionary.offset;
    span_end_ = dictionary.offset + dictionary.size_bytes;
  }

  // The page served after the one being served. At first, after the dictionary, it is page 0.
  void set_next_page(size_t page) { next_page_ = page; }
  // The page last begun; nullopt: none yet.
  std::optional<size_t> page() const { return page_; }
  int64_t pages_begun() const { return pages_begun_; }

  arrow::Status Close() override { return arrow::Status::OK(); }
  bool closed() const override { return false; }
  arrow::Result<int64_t> Tell() const override { return served_; }

  arrow::Result<std::string_view> Peek(int64_t bytes) override {
    ARROW_RETURN_NOT_OK(fetch(bytes));
    return std::string_view(reinterpret_cast<const char*>(buffer_->data()) + (position_ - buffer_offset_),
                            static_cast<size_t>(std::min(bytes, available())));
  }
  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(int64_t bytes) override {
    ARROW_RETURN_NOT_OK(fetch(bytes));
    const int64_t size = std::min(bytes, available());
    auto result = arrow::SliceBuffer(buffer_, position_ - buffer_offset_, size);
    position_ += size;
    served_ += size;
    return result;
  }
  arrow::Result<int64_t> Read(int64_t bytes, void* out) override {
    ARROW_ASSIGN_OR_RAISE(auto buffer, Read(bytes));
    std::memcpy(out, buffer->data(), static_cast<size_t>(buffer->size()));
    return buffer->size();
  }

 private:
  // Bytes of the span being served that are in the buffer.
  int64_t available() const { return std::min(span_end_, buffer_offset_ + buffer_->size()) - position_; }

  // Begins the next page if the span is exhausted, and has the next `bytes` of the span, or what is left of it,
  // buffered.
  arrow::Status fetch(int64_t bytes) {
    if (position_ == span_end_ && next_page_ < pages_.size()) {
      page_ = next_page_++;
      ++pages_begun_;
      position_ = pages_[*page_].offset;
      span_end_ = position_ + pages_[*page_].size_bytes;
    }
    const int64_t needed = std::min(bytes, span_end_ - position_);
    if (position_ >= buffer_offset_ && position_ + needed <= buffer_offset_ + buffer_->size())
      return arrow::Status::OK();
    const int64_t end = std::max(position_ + needed, std::min(fetch_end(), position_ + kReadBytes));
    ARROW_ASSIGN_OR_RAISE(buffer_, file_->ReadAt(position_, end - position_));
    buffer_offset_ = position_;
    return arrow::Status::OK();
  }

  // Where what will be wanted without a gap ends.
  int64_t fetch_end() const {
    int64_t end = span_end_;
    for (size_t i = next_page_;
         i < pages_.size() && wanted_[i] && pages_[i].offset == end && end < position_ + kReadBytes; ++i)
      end += pages_[i].size_bytes;
    return end;
  }

  std::shared_ptr<arrow::io::RandomAccessFile> file_;
  const std::vector<PageSpan>& pages_;
  std::vector<bool> wanted_;
  int64_t position_, span_end_;  // in the file
  size_t next_page_ = 0;
  std::optional<size_t> page_;
  int64_t pages_begun_ = 0;
  int64_t served_ = 0;
  std::shared_ptr<arrow::Buffer> buffer_ = std::make_shared<arrow::Buffer>(nullptr, 0);
  int64_t buffer_offset_ = 0;
};

// Holds each data page's number of values, which no checksum covers, against the index or at least the chunk's: where a
// page claims more than it has, padding may pass for values, and those of later pages move to other rows.
class FlatColumnReader::CheckedPages : public parquet::PageReader {
 public:
  // The column reader owns this and outlives it.
  CheckedPages(const FlatColumnReader& column, int64_t value_count, std::unique_ptr<parquet::PageReader> inner)
      : column_(column), value_count_(value_count), inner_(std::move(inner)) {}

  std::shared_ptr<parquet::Page> NextPage() override {
    auto page = inner_->NextPage();
    const auto* data = dynamic_cast<const parquet::DataPage*>(page.get());
    if (data == nullptr) return page;
    values_seen_ += data->num_values();
    const std::optional<size_t> open = column_.has_index_ ? column_.stream_->page() : std::nullopt;
    if ((open && data->num_values() != column_.pages_[*open].rows.size()) || values_seen_ > value_count_)
      throw parquet::ParquetException("column ", column_.column_.name(), " has a page of ", data->num_values(),
                                      " values where there cannot be so many or few: the file is damaged");
    return page;
  }
  void set_max_page_header_size(uint32_t size) override { inner_->set_max_page_header_size(size); }

 private:
  const FlatColumnReader& column_;
  int64_t value_count_;
  std::unique_ptr<parquet::PageReader> inner_;
  int64_t values_seen_ = 0;
};

FlatColumnReader::FlatColumnReader(std::shared_ptr<arrow::io::RandomAccessFile> file,
                                   const parquet::ColumnDescriptor& column, const parquet::ColumnChunkMetaData& chunk,
                                   std::vector<PageSpan> pages, int64_t group_rows, const std::vector<RowRange>& wanted,
                                   const parquet::ReaderProperties& properties)
    : column_(column), pages_(std::move(pages)), has_index_(!pages_.empty()) {
  const int64_t start = chunk_start(chunk);
  if (start < 0 || chunk.total_compressed_size() < 0)
    throw parquet::ParquetException("column ", column_.name(), " has a negative offset or size");
  PageSpan dictionary{.offset = start};
  if (has_index_) {
    // Whatever precedes the first data page: some writers do not say that there is a dictionary.
    dictionary.size_bytes = pages_[0].offset - start;
  } else {
    pages_.push_back({.offset = start, .size_bytes = chunk.total_compressed_size(), .rows = {0, group_rows}});
  }
  stream_ = std::make_shared<PageStream>(std::move(file), dictionary, pages_, wanted);
  std::unique_ptr<parquet::PageReader> page_reader = std::make_unique<CheckedPages>(
      *this, chunk.num_values(),
      parquet::PageReader::Open(stream_, chunk.num_values(), chunk.compression(), properties, column_));
  if (column_.physical_type() == parquet::Type::BYTE_ARRAY) {
    const double row_bytes = static_cast<double>(chunk.total_uncompressed_size()) / static_cast<double>(group_rows);
    byte_arrays_ = std::make_unique<ByteArrayColumn>(column_, std::move(page_reader), std::max(0.0, row_bytes));
    return;
  }
  reader_ = parquet::internal::RecordReader::Make(&column_, parquet::internal::LevelInfo::ComputeLevelInfo(&column_));
  reader_->SetPageReader(std::move(page_reader));
}

FlatColumnReader::~FlatColumnReader() = default;

int64_t FlatColumnReader::pages_read() const { return has_index_ ? stream_->pages_begun() : 0; }

void FlatColumnReader::skip(int64_t count, bool decodes) {
  if (count == 0) return;
  const int64_t skipped = byte_arrays_ ? byte_arrays_->skip(count) : reader_->SkipRecords(count);
  if (skipped != count) throw parquet::ParquetException("column ", column_.name(), " ends early");
  if (decodes) values_decoded_ += count;
}

void FlatColumnReader::go_to(int64_t row) {
  if (row == row_) return;
  const std::optional<size_t> page = stream_->page();
  if (!page || row >= pages_[*page].rows.end) {
    const auto after = std::upper_bound(pages_.begin(), pages_.end(), row,
                                        [](int64_t value, const PageSpan& span) { return value < span.rows.first; });
    const size_t wanted = static_cast<size_t>(after - pages_.begin()) - 1;
    // Said before the rest of the open page is dropped, since that may begin the next one.
    stream_->set_next_page(wanted);
    if (page) skip(pages_[*page].rows.end - row_, false);
    row_ = pages_[wanted].rows.first;
  }
  skip(row - row_, true);
  row_ = row;
}

std::shared_ptr<arrow::Array> FlatColumnReader::read(RowRange rows) {
  go_to(rows.first);
  auto array = byte_arrays_ ? read_byte_arrays(rows.size()) : read_values(rows.size());
  values_decoded_ += rows.size();
  row_ = rows.end;
  return array;
}

std::shared_ptr<arrow::Array> FlatColumnReader::read_byte_arrays(int64_t count) {
  const auto type = decoded_type(column_);
  const std::shared_ptr<arrow::BinaryArray> array = byte_arrays_->read(count);
  if (array->length() != count) throw parquet::ParquetException("column ", column_.name(), " ends early");
  if (type->id() == arrow::Type::DECIMAL128) return bytes_as_decimals(*array, type);
  auto data = array->data()->Copy();
  data->type = type;
  return arrow::MakeArray(data);
}

std::shared_ptr<arrow::Array> FlatColumnReader::read_values(int64_t count) {
  reader_->Reset();
  reader_->Reserve(count);
  for (int64_t read = 0; read < count;) {
    const int64_t step = reader_->ReadRecords(count - read);
    if (step <= 0) throw parquet::ParquetException("column ", column_.name(), " ends early");
    read += step;
  }
  const auto type = decoded_type(column_);
  if (auto* fixed = dynamic_cast<parquet::internal::BinaryRecordReader*>(reader_.get())) {
    arrow::ArrayVector chunks = fixed->GetBuilderChunks();
    if (chunks.size() > 1)
      fail(ErrorKind::unsupported, "column {}: {} values take more than 2 GiB; read fewer rows at once", column_.name(),
           count);
    if (chunks.empty() || chunks[0]->length() != count)
      throw parquet::ParquetException("column ", column_.name(), " has not the values its levels promise");
    if (type->id() == arrow::Type::DECIMAL128) return bytes_as_decimals(*chunks[0], type);
    auto data = chunks[0]->data()->Copy();
    data->type = type;
    return arrow::MakeArray(data);
  }
  if (reader_->values_written() != count)
    throw parquet::ParquetException("column ", column_.name(), " has not the values its levels promise");
  const int64_t null_count = reader_->nullable_values() ? reader_->null_count() : 0;
  std::shared_ptr<arrow::Buffer> validity, values;
  if (reader_->nullable_values()) {
    auto bits = reader_->ReleaseIsValid();
    if (null_count > 0) validity = std::move(bits);
  }
  switch (column_.physical_type()) {
    case parquet::Type::BOOLEAN: {
      PARQUET_ASSIGN_OR_THROW(values, arrow::AllocateBitmap(count));
      const uint8_t* bytes = reader_->values();
      int64_t i = 0;
      arrow::internal::GenerateBitsUnrolled(values->mutable_data(), 0, count, [&] { return bytes[i++] != 0; });
      break;
    }
    case parquet::Type::INT96:
      values = int96_as_micros(reader_->values(), count, validity ? validity->data() : nullptr);
      break;
    default:
      if (type->id() == arrow::Type::DECIMAL128) {
        values = column_.physical_type() == parquet::Type::INT32
                     ? integers_as_decimals<int32_t>(reader_->values(), count)
                     : integers_as_decimals<int64_t>(reader_->values(), count);
      } else {
        values = reader_->ReleaseValues();
      }
  }
  return arrow::MakeArray(arrow::ArrayData::Make(type, count, {std::move(validity), std::move(values)}, null_count));
}

std::vector<PageSpan> page_spans(const parquet::OffsetIndex& index, const parquet::ColumnChunkMetaData& chunk,
                                 int64_t group_rows) {
  const auto& locations = index.page_locations();
  const int64_t start = chunk_start(chunk);
  const int64_t end = start + chunk.total_compressed_size();
  std::vector<PageSpan> pages;
  for (size_t i = 0; i < locations.size(); ++i) {
    const auto& location = locations[i];
    const int64_t next_row = i + 1 < locations.size() ? locations[i + 1].first_row_index : group_rows;
    const bool in_chunk = location.offset >= (pages.empty() ? start : pages.back().offset + pages.back().size_bytes) &&
                          location.compressed_page_size > 0 && location.offset + location.compressed_page_size <= end;
    if (!in_chunk || location.first_row_index != (pages.empty() ? 0 : pages.back().rows.end) ||
        next_row <= location.first_row_index)
      return {};
    pages.push_back({.offset = location.offset,
                     .size_bytes = location.compressed_page_size,
                     .rows = {location.first_row_index, next_row}});
  }
  return pages;
}

}  // namespace firn::iceberg
