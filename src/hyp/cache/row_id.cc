#include "hyp/cache/row_id.h"

#include <bit>
#include <cmath>
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

void append_double(std::string& out, double value) {
  constexpr uint64_t kNan = 0x7ff8000000000000;  // one for all NaNs
  out += 'd';
  append_u64(out, std::isnan(value) ? kNan : std::bit_cast<uint64_t>(value));
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

}  // namespace

std::shared_ptr<arrow::Array> make_row_ids(const arrow::RecordBatch& batch) {
  struct Column {
    std::string prefix;  // marks the column and its name
    const arrow::Array* values;
    bool may_be_null;
  };
  std::vector<Column> columns;
  for (const int i : order_by_name(batch.schema()->fields())) {
    const arrow::Array& values = *batch.column(i);
    if (values.type_id() == arrow::Type::NA) continue;
    columns.push_back({"c", &values, values.null_count() > 0});
    append_text(columns.back().prefix, batch.schema()->field(i)->name());
  }
  arrow::StringBuilder builder;
  constexpr int64_t kHexLength = 64;
  check(builder.Reserve(batch.num_rows()), "row ids");
  check(builder.ReserveData(batch.num_rows() * kHexLength), "row ids");
  std::string text;
  for (int64_t row = 0; row < batch.num_rows(); ++row) {
    text.clear();
    for (const Column& column : columns) {
      if (column.may_be_null && column.values->IsNull(row)) continue;
      text += column.prefix;
      append_value(*column.values, row, text);
    }
    builder.UnsafeAppend(to_hex(sha256(text)));
  }
  return check(builder.Finish(), "row ids");
}

}  // namespace firn::hyp
