#include "iceberg/scan/row_json.h"

#include <algorithm>
#include <vector>

#include <arrow/array.h>
#include <fmt/format.h>

#include "base/civil_time.h"
#include "base/error.h"
#include "iceberg/scan/json_text.h"
#include "iceberg/scan/variant_json.h"

namespace firn::iceberg {

namespace {

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
  out.push_back('"');
  out += text;
  out.push_back('"');
}

void append_value(const arrow::Array& array, const Type& type, int64_t index, std::string& out);

void append_struct(const arrow::StructArray& array, const Type& type, int64_t index, std::string& out) {
  out.push_back('{');
  for (size_t i = 0; i < type.fields().size(); ++i) {
    if (i > 0) out.push_back(',');
    append_json_string(type.fields()[i].name, out);
    out.push_back(':');
    append_value(*array.field(static_cast<int>(i)), *type.fields()[i].type, index, out);
  }
  out.push_back('}');
}

void append_list(const arrow::ListArray& array, const Type& type, int64_t index, std::string& out) {
  out.push_back('[');
  for (int64_t i = array.value_offset(index); i < array.value_offset(index + 1); ++i) {
    if (i > array.value_offset(index)) out.push_back(',');
    append_value(*array.values(), *type.element().type, i, out);
  }
  out.push_back(']');
}

// Maps have no order: pairs come sorted by their own text.
void append_map(const arrow::MapArray& array, const Type& type, int64_t index, std::string& out) {
  std::vector<std::string> pairs;
  for (int64_t i = array.value_offset(index); i < array.value_offset(index + 1); ++i) {
    std::string& pair = pairs.emplace_back("[");
    append_value(*array.keys(), *type.key().type, i, pair);
    pair.push_back(',');
    append_value(*array.items(), *type.value().type, i, pair);
    pair.push_back(']');
  }
  std::sort(pairs.begin(), pairs.end());
  out.push_back('[');
  for (size_t i = 0; i < pairs.size(); ++i) {
    if (i > 0) out.push_back(',');
    out += pairs[i];
  }
  out.push_back(']');
}

void append_variant(const arrow::StructArray& array, int64_t index, std::string& out) {
  const std::shared_ptr<arrow::Array> metadata = array.GetFieldByName("metadata");
  const std::shared_ptr<arrow::Array> value = array.GetFieldByName("value");
  if (!metadata || !value) fail(ErrorKind::internal, "a variant column without metadata and value");
  out += "{\"variant\":";
  append_variant_json(bytes_at(*metadata, index), bytes_at(*value, index), out);
  out.push_back('}');
}

void append_value(const arrow::Array& array, const Type& type, int64_t index, std::string& out) {
  if (array.IsNull(index)) {
    out += "null";
    return;
  }
  switch (type.id()) {
    case TypeId::unknown:
      out += "null";
      break;
    case TypeId::boolean_:
      out += value_at<arrow::BooleanArray>(array, index) ? "true" : "false";
      break;
    case TypeId::int_:
      out += std::to_string(value_at<arrow::Int32Array>(array, index));
      break;
    case TypeId::long_:
      out += std::to_string(value_at<arrow::Int64Array>(array, index));
      break;
    case TypeId::float_:
      append_json_float(value_at<arrow::FloatArray>(array, index), out);
      break;
    case TypeId::double_:
      append_json_float(value_at<arrow::DoubleArray>(array, index), out);
      break;
    case TypeId::decimal:
      append_json_decimal(arrow::Decimal128(static_cast<const arrow::Decimal128Array&>(array).GetValue(index)),
                          type.scale(), out);
      break;
    case TypeId::date:
      append_quoted(format_date(value_at<arrow::Date32Array>(array, index)), out);
      break;
    case TypeId::time:
      append_quoted(format_time_us(value_at<arrow::Time64Array>(array, index)), out);
      break;
    case TypeId::timestamp:
    case TypeId::timestamptz:
      append_quoted(
          format_timestamp_us(value_at<arrow::TimestampArray>(array, index), type.id() == TypeId::timestamptz), out);
      break;
    case TypeId::timestamp_ns:
    case TypeId::timestamptz_ns:
      append_quoted(
          format_timestamp_ns(value_at<arrow::TimestampArray>(array, index), type.id() == TypeId::timestamptz_ns), out);
      break;
    case TypeId::string:
      append_json_string(bytes_at(array, index), out);
      break;
    case TypeId::uuid:
      append_json_uuid(bytes_at(array, index), out);
      break;
    case TypeId::fixed:
    case TypeId::binary:
    case TypeId::geometry:
    case TypeId::geography:
      append_json_hex(bytes_at(array, index), out);
      break;
    case TypeId::variant:
      append_variant(static_cast<const arrow::StructArray&>(array), index, out);
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
  }
}

}  // namespace

void append_row_json(const arrow::RecordBatch& batch, const Schema& schema, int64_t index, std::string& out) {
  out.push_back('{');
  for (int i = 0; i < batch.num_columns(); ++i) {
    const Field& field = schema.fields()[static_cast<size_t>(i)];
    if (i > 0) out.push_back(',');
    append_json_string(field.name, out);
    out.push_back(':');
    append_value(*batch.column(i), *field.type, index, out);
  }
  out.push_back('}');
}

void append_value_json(const arrow::Array& array, const Type& type, int64_t index, std::string& out) {
  append_value(array, type, index, out);
}

}  // namespace firn::iceberg
