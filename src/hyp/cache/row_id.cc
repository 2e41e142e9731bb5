#include "hyp/cache/row_id.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/arrow_status.h"
#include "base/hash.h"

namespace firn::hyp {
namespace {

void append_u32(std::string& out, size_t value) {
  const auto narrow = static_cast<uint32_t>(value);
  out.append(reinterpret_cast<const char*>(&narrow),
             sizeof narrow);  // little-endian hosts only, as Arrow's buffers are
}

void append_u64(std::string& out, uint64_t value) { out.append(reinterpret_cast<const char*>(&value), sizeof value); }

void append_text(std::string& out, std::string_view text) {
  append_u32(out, text.size());
  out += text;
}

void append_int(std::string& out, char tag, int64_t value) {
  out += tag;
  append_u64(out, static_cast<uint64_t>(value));
}

uint64_t double_bits(double value) {
  constexpr uint64_t kNan = 0x7ff8000000000000;  // one for all NaNs
  return std::isnan(value) ? kNan : std::bit_cast<uint64_t>(value);
}

void append_double(std::string& out, double value) {
  out += 'd';
  append_u64(out, double_bits(value));
}

// Indices of `names` in byte order of the name.
std::vector<int> order_by_name(const arrow::FieldVector& fields) {
  std::vector<int> order(fields.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int a, int b) { return fields[a]->name() < fields[b]->name(); });
  return order;
}

template <class ArrayType>
const ArrayType& as(const arrow::Array& array) {
  return static_cast<const ArrayType&>(array);
}

char timestamp_tag(const arrow::TimestampType& type) {
  const bool is_nano = type.unit() == arrow::TimeUnit::NANO;
  if (type.timezone().empty()) return is_nano ? 'n' : 't';
  return is_nano ? 'N' : 'T';
}

void append_value(const arrow::Array& array, int64_t i, std::string& out);

void append_struct(const arrow::StructArray& array, int64_t i, std::string& out) {
  out += '{';
  const auto& fields = array.type()->fields();
  for (const int child : order_by_name(fields)) {
    const arrow::Array& values = *array.field(child);
    if (values.IsNull(i)) continue;
    out += 'c';
    append_text(out, fields[child]->name());
    append_value(values, i, out);
  }
  out += '}';
}

void append_element(const arrow::Array& values, int64_t i, std::string& out) {
  values.IsNull(i) ? out.push_back('0') : append_value(values, i, out);
}

void append_map(const arrow::MapArray& array, int64_t i, std::string& out) {
  std::vector<std::string> entries;
  for (int64_t at = array.value_offset(i); at < array.value_offset(i + 1); ++at) {
    append_element(*array.keys(), at, entries.emplace_back());
    append_element(*array.items(), at, entries.back());
  }
  std::sort(entries.begin(), entries.end());  // a map has no order
  out += 'm';
  append_u32(out, entries.size());
  for (const std::string& entry : entries) out += entry;
}

// `array` is not null at `i`.
void append_value(const arrow::Array& array, int64_t i, std::string& out) {
  switch (array.type_id()) {
    case arrow::Type::BOOL:
      out += as<arrow::BooleanArray>(array).Value(i) ? "b1" : "b0";
      return;
    case arrow::Type::INT32:
      return append_int(out, 'i', as<arrow::Int32Array>(array).Value(i));
    case arrow::Type::INT64:
      return append_int(out, 'i', as<arrow::Int64Array>(array).Value(i));
    case arrow::Type::FLOAT:
      return append_double(out, as<arrow::FloatArray>(array).Value(i));
    case arrow::Type::DOUBLE:
      return append_double(out, as<arrow::DoubleArray>(array).Value(i));
    case arrow::Type::DATE32:
      return append_int(out, 'D', as<arrow::Date32Array>(array).Value(i));
    case arrow::Type::TIME64:
      return append_int(out, 'h', as<arrow::Time64Array>(array).Value(i));
    case arrow::Type::TIMESTAMP:
      return append_int(out, timestamp_tag(static_cast<const arrow::TimestampType&>(*array.type())),
                        as<arrow::TimestampArray>(array).Value(i));
    case arrow::Type::DECIMAL128: {
      const auto& decimals = as<arrow::Decimal128Array>(array);
      out += 'x';
      append_u32(out, static_cast<size_t>(static_cast<const arrow::Decimal128Type&>(*array.type()).scale()));
      out += decimals.GetView(i);
      return;
    }
    case arrow::Type::STRING:
      out += 's';
      return append_text(out, as<arrow::StringArray>(array).GetView(i));
    case arrow::Type::BINARY:
      out += 'y';
      return append_text(out, as<arrow::BinaryArray>(array).GetView(i));
    case arrow::Type::FIXED_SIZE_BINARY:
      out += 'f';
      return append_text(out, as<arrow::FixedSizeBinaryArray>(array).GetView(i));
    case arrow::Type::STRUCT:
      return append_struct(as<arrow::StructArray>(array), i, out);
    case arrow::Type::LIST: {
      const auto& lists = as<arrow::ListArray>(array);
      out += 'l';
      append_u32(out, static_cast<size_t>(lists.value_length(i)));
      for (int64_t at = lists.value_offset(i); at < lists.value_offset(i + 1); ++at) {
        append_element(*lists.values(), at, out);
      }
      return;
    }
    case arrow::Type::MAP:
      return append_map(as<arrow::MapArray>(array), i, out);
    default:
      fail(ErrorKind::internal, "a row id over a column of Arrow type {}", array.type()->ToString());
  }
}

// How a column's values are put: the usual ones without a look at the array's class a value.
enum class Shape : uint8_t { wide, narrow, real, text, other };

// Heads are copied by words, the last one past its end: a call to copy a few bytes costs more.
constexpr size_t kHeadWord = 16;

struct Column {
  std::string head;      // marks the column and its name, then the kind of its values unless they are `other`
  size_t head_size = 0;  // `head` goes on with zeros up to a multiple of kHeadWord
  Shape shape = Shape::other;
  const arrow::Array* values = nullptr;
  const void* numbers = nullptr;  // of wide, narrow and real
  bool may_be_null = false;

  template <class T>
  T number(int64_t row) const {
    return static_cast<const T*>(numbers)[row];
  }
};

Column make_column(const std::string& name, const arrow::Array& values) {
  Column column{.head = "c", .values = &values, .may_be_null = values.null_count() > 0};
  append_text(column.head, name);
  const auto set_shape = [&](Shape shape, char tag) {
    column.shape = shape;
    column.head += tag;
  };
  switch (values.type_id()) {
    case arrow::Type::INT64:
      set_shape(Shape::wide, 'i');
      column.numbers = as<arrow::Int64Array>(values).raw_values();
      break;
    case arrow::Type::INT32:
      set_shape(Shape::narrow, 'i');
      column.numbers = as<arrow::Int32Array>(values).raw_values();
      break;
    case arrow::Type::TIMESTAMP:
      set_shape(Shape::wide, timestamp_tag(static_cast<const arrow::TimestampType&>(*values.type())));
      column.numbers = as<arrow::TimestampArray>(values).raw_values();
      break;
    case arrow::Type::DOUBLE:
      set_shape(Shape::real, 'd');
      column.numbers = as<arrow::DoubleArray>(values).raw_values();
      break;
    case arrow::Type::STRING:
      set_shape(Shape::text, 's');
      break;
    default:
      break;
  }
  column.head_size = column.head.size();
  column.head.resize((column.head_size + kHeadWord - 1) / kHeadWord * kHeadWord);
  return column;
}

// The bytes of one row after another, which make_row_ids hashes.
class RowBytes {
 public:
  explicit RowBytes(const std::vector<Column>& columns) : columns_(columns) {}

  std::string_view of(int64_t row) {
    char* at = buffer_.data();
    const char* end = at + buffer_.size();
    const auto make_room = [&](size_t size) {
      if (static_cast<size_t>(end - at) >= size) return;
      at = grow(at, size);
      end = buffer_.data() + buffer_.size();
    };
    for (const Column& column : columns_) {
      if (column.may_be_null && column.values->IsNull(row)) continue;
      make_room(column.head.size() + kHeadWord);
      for (size_t i = 0; i < column.head_size; i += kHeadWord) std::memcpy(at + i, column.head.data() + i, kHeadWord);
      at += column.head_size;
      switch (column.shape) {
        case Shape::wide:
          at = put(at, column.number<int64_t>(row));
          break;
        case Shape::narrow:
          at = put(at, int64_t{column.number<int32_t>(row)});
          break;
        case Shape::real:
          at = put(at, double_bits(column.number<double>(row)));
          break;
        case Shape::text: {
          const std::string_view text = as<arrow::StringArray>(*column.values).GetView(row);
          make_room(sizeof(uint32_t) + text.size());
          at = put(at, static_cast<uint32_t>(text.size()));
          at = std::copy(text.begin(), text.end(), at);
          break;
        }
        case Shape::other:
          scratch_.clear();
          append_value(*column.values, row, scratch_);
          make_room(scratch_.size());
          at = std::copy(scratch_.begin(), scratch_.end(), at);
          break;
      }
    }
    return {buffer_.data(), static_cast<size_t>(at - buffer_.data())};
  }

 private:
  template <class T>
  static char* put(char* at, T value) {
    std::memcpy(at, &value, sizeof value);
    return at + sizeof value;
  }
  [[gnu::noinline]] char* grow(const char* at, size_t size) {
    const auto used = static_cast<size_t>(at - buffer_.data());
    buffer_.resize(2 * (used + size));
    return buffer_.data() + used;
  }

  const std::vector<Column>& columns_;
  std::vector<char> buffer_ = std::vector<char>(1024);
  std::string scratch_;
};

}  // namespace

std::shared_ptr<arrow::Array> make_row_ids(const arrow::RecordBatch& batch) {
  std::vector<Column> columns;
  for (const int i : order_by_name(batch.schema()->fields())) {
    const arrow::Array& values = *batch.column(i);
    if (values.type_id() != arrow::Type::NA) columns.push_back(make_column(batch.schema()->field(i)->name(), values));
  }
  arrow::StringBuilder builder;
  std::array<char, 2 * std::tuple_size_v<Sha256Digest>> hex;
  check(builder.Reserve(batch.num_rows()), "row ids");
  check(builder.ReserveData(batch.num_rows() * static_cast<int64_t>(hex.size())), "row ids");
  RowBytes bytes(columns);
  for (int64_t row = 0; row < batch.num_rows(); ++row) {
    const Sha256Digest digest = sha256(bytes.of(row));
    put_hex({reinterpret_cast<const char*>(digest.data()), digest.size()}, hex.data());
    builder.UnsafeAppend(hex.data(), static_cast<int32_t>(hex.size()));
  }
  return check(builder.Finish(), "row ids");
}

}  // namespace firn::hyp
