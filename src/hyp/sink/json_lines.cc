#include "hyp/sink/json_lines.h"

#include <cmath>
#include <iterator>
#include <utility>
#include <vector>

#include <arrow/array.h>
#include <arrow/util/base64.h>
#include <fmt/format.h>

#include "base/civil_time.h"
#include "base/error.h"
#include "iceberg/scan/json_text.h"

namespace firn::hyp {
namespace {

using iceberg::Type;
using iceberg::TypeId;

template <class Array>
auto value_at(const arrow::Array& array, int64_t index) {
  return static_cast<const Array&>(array).Value(index);
}

std::string_view bytes_at(const arrow::Array& array, int64_t index) {
  if (array.type_id() == arrow::Type::FIXED_SIZE_BINARY) {
    return static_cast<const arrow::FixedSizeBinaryArray&>(array).GetView(index);
  }
  return static_cast<const arrow::BinaryArray&>(array).GetView(index);
}

void append_quoted(std::string_view text, std::string& out) {
  out += '"';
  out += text;
  out += '"';
}

template <class T>
void append_number(T value, std::string& out) {
  if (std::isnan(value)) return append_quoted("NaN", out);
  if (std::isinf(value)) return append_quoted(value < 0 ? "-Infinity" : "Infinity", out);
  const size_t begin = out.size();
  fmt::format_to(std::back_inserter(out), "{}", value);                  // the shortest that reads back
  if (out.find_first_of(".e", begin) == std::string::npos) out += ".0";  // else it would read back as an integer
}

bool is_null_at(const arrow::Array& array, const iceberg::Field& field, int64_t index) {
  return field.type->id() == TypeId::unknown || array.IsNull(index);
}

void append_value(const arrow::Array& array, const iceberg::Field& field, int64_t index, std::string& out);

void append_struct(const arrow::StructArray& array, const Type& type, int64_t index, std::string& out) {
  out += '{';
  for (size_t i = 0; i < type.fields().size(); ++i) {
    if (i > 0) out += ',';
    iceberg::append_json_string(type.fields()[i].name, out);
    out += ':';
    append_value(*array.field(static_cast<int>(i)), type.fields()[i], index, out);
  }
  out += '}';
}

void append_list(const arrow::ListArray& array, const Type& type, int64_t index, std::string& out) {
  out += '[';
  for (int64_t i = array.value_offset(index); i < array.value_offset(index + 1); ++i) {
    if (i > array.value_offset(index)) out += ',';
    append_value(*array.values(), type.element(), i, out);
  }
  out += ']';
}

void append_map(const arrow::MapArray& array, const Type& type, int64_t index, std::string& out) {
  const bool is_object = type.key().type->id() == TypeId::string;
  out += is_object ? '{' : '[';
  for (int64_t i = array.value_offset(index); i < array.value_offset(index + 1); ++i) {
    if (i > array.value_offset(index)) out += ',';
    if (!is_object) out += '[';
    append_value(*array.keys(), type.key(), i, out);
    out += is_object ? ':' : ',';
    append_value(*array.items(), type.value(), i, out);
    if (!is_object) out += ']';
  }
  out += is_object ? '}' : ']';
}

void append_value(const arrow::Array& array, const iceberg::Field& field, int64_t index, std::string& out) {
  const Type& type = *field.type;
  if (is_null_at(array, field, index)) {
    out += "null";
    return;
  }
  switch (type.id()) {
    case TypeId::boolean_:
      out += value_at<arrow::BooleanArray>(array, index) ? "true" : "false";
      break;
    case TypeId::int_:
      fmt::format_to(std::back_inserter(out), "{}", value_at<arrow::Int32Array>(array, index));
      break;
    case TypeId::long_:
      fmt::format_to(std::back_inserter(out), "{}", value_at<arrow::Int64Array>(array, index));
      break;
    case TypeId::float_:
      append_number(value_at<arrow::FloatArray>(array, index), out);
      break;
    case TypeId::double_:
      append_number(value_at<arrow::DoubleArray>(array, index), out);
      break;
    case TypeId::decimal:
      iceberg::append_json_decimal(arrow::Decimal128(static_cast<const arrow::Decimal128Array&>(array).GetValue(index)),
                                   type.scale(), out);
      break;
    case TypeId::date:
      append_quoted(format_date(value_at<arrow::Date32Array>(array, index)), out);
      break;
    case TypeId::time:
      append_quoted(format_time_us(value_at<arrow::Time64Array>(array, index)), out);
      break;
    case TypeId::timestamp:
      append_quoted(format_timestamp_us(value_at<arrow::TimestampArray>(array, index), false), out);
      break;
    case TypeId::timestamptz:
      append_quoted(format_timestamp_us(value_at<arrow::TimestampArray>(array, index), false) + "Z", out);
      break;
    case TypeId::timestamp_ns:
      append_quoted(format_timestamp_ns(value_at<arrow::TimestampArray>(array, index), false), out);
      break;
    case TypeId::timestamptz_ns:
      append_quoted(format_timestamp_ns(value_at<arrow::TimestampArray>(array, index), false) + "Z", out);
      break;
    case TypeId::string:
      iceberg::append_json_string(bytes_at(array, index), out);
      break;
    case TypeId::uuid:
      iceberg::append_json_uuid(bytes_at(array, index), out);
      break;
    case TypeId::fixed:
    case TypeId::binary:
    case TypeId::geometry:
    case TypeId::geography:
      append_quoted(arrow::util::base64_encode(bytes_at(array, index)), out);
      break;
    case TypeId::struct_:
      append_struct(static_cast<const arrow::StructArray&>(array), type, index, out);
      break;
    case TypeId::list:
      append_list(static_cast<const arrow::ListArray&>(array), type, index, out);
      break;
    case TypeId::map:
      append_map(static_cast<const arrow::MapArray&>(array), type, index, out);
      break;
    case TypeId::variant:
      fail(ErrorKind::unsupported, "column {}: a variant cannot be written as JSON lines; use Parquet", field.name);
    case TypeId::unknown:
      break;
  }
}

}  // namespace

void append_json_lines(const arrow::RecordBatch& batch, const iceberg::Schema& schema, NullColumns nulls,
                       std::string& out) {
  std::vector<std::string> names;  // each with its colon
  for (const iceberg::Field& field : schema.fields()) {
    iceberg::append_json_string(field.name, names.emplace_back());
    names.back() += ':';
  }
  for (int64_t row = 0; row < batch.num_rows(); ++row) {
    char before = '{';
    for (size_t i = 0; i < names.size(); ++i) {
      const arrow::Array& column = *batch.column(static_cast<int>(i));
      const iceberg::Field& field = schema.fields()[i];
      if (nulls == NullColumns::left_out && is_null_at(column, field, row)) continue;
      out += std::exchange(before, ',');
      out += names[i];
      append_value(column, field, row, out);
    }
    out += before == '{' ? "{}\n" : "}\n";
  }
}

}  // namespace firn::hyp
