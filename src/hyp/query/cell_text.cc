#include "hyp/query/cell_text.h"

#include <cmath>
#include <iterator>

#include <arrow/scalar.h>
#include <arrow/util/decimal.h>
#include <fmt/format.h>

#include "base/arrow_status.h"
#include "base/civil_time.h"
#include "base/hash.h"
#include "base/json.h"
#include "iceberg/scan/json_text.h"

namespace firn::hyp {
namespace {

template <class Array>
auto value_of(const arrow::Array& array, int64_t row) {
  return static_cast<const Array&>(array).GetView(row);
}

// Without the zeros at the end of a fraction, which say nothing.
std::string with_short_fraction(const std::string& time) {
  const size_t point = time.find('.');
  if (point == std::string::npos) return time;
  size_t end = point + 1;
  while (end < time.size() && time[end] >= '0' && time[end] <= '9') ++end;
  size_t last = end;
  while (last > point && (time[last - 1] == '0' || time[last - 1] == '.')) --last;
  return time.substr(0, last) + time.substr(end);
}

std::string spaced(std::string timestamp) {  // SQL's form
  timestamp[timestamp.find('T')] = ' ';
  return with_short_fraction(timestamp);
}

std::string timestamp_text(const arrow::Array& array, int64_t row) {
  const auto& type = static_cast<const arrow::TimestampType&>(*array.type());
  const int64_t value = value_of<arrow::TimestampArray>(array, row);
  const bool with_offset = !type.timezone().empty();  // the session's time zone is UTC
  switch (type.unit()) {
    case arrow::TimeUnit::SECOND:
      return spaced(format_timestamp_us(value * 1'000'000, with_offset));
    case arrow::TimeUnit::MILLI:
      return spaced(format_timestamp_us(value * 1'000, with_offset));
    case arrow::TimeUnit::MICRO:
      return spaced(format_timestamp_us(value, with_offset));
    case arrow::TimeUnit::NANO:
      return spaced(format_timestamp_ns(value, with_offset));
  }
  return "";
}

std::string interval_text(const arrow::MonthDayNanoIntervalType::MonthDayNanos& interval) {
  std::string text;
  const auto part = [&](int64_t count, const char* unit) {
    if (count != 0) text += fmt::format("{}{} {}{}", text.empty() ? "" : " ", count, unit, count == 1 ? "" : "s");
  };
  part(interval.months, "month");
  part(interval.days, "day");
  if (interval.nanoseconds != 0 || text.empty()) {
    const int64_t micros = interval.nanoseconds / 1000;
    const int64_t magnitude = micros < 0 ? -micros : micros;
    text += fmt::format("{}{}{:02}:{:02}:{:02}", text.empty() ? "" : " ", micros < 0 ? "-" : "",
                        magnitude / 3'600'000'000, magnitude / 60'000'000 % 60, magnitude / 1'000'000 % 60);
    if (magnitude % 1'000'000 != 0) text += fmt::format(".{:06}", magnitude % 1'000'000);
  }
  return with_short_fraction(text);
}

template <class T>
void append_floating(T value, std::string& out) {
  if (std::isnan(value)) {
    out += "\"NaN\"";
  } else if (std::isinf(value)) {
    out += value < 0 ? "\"-Infinity\"" : "\"Infinity\"";
  } else {
    const size_t begin = out.size();
    fmt::format_to(std::back_inserter(out), "{}", value);
    if (out.find_first_of(".e", begin) == std::string::npos) out += ".0";
  }
}

void append_items(const arrow::Array& values, int64_t begin, int64_t end, std::string& out) {
  out += '[';
  for (int64_t i = begin; i < end; ++i) {
    if (i > begin) out += ',';
    append_cell_json(values, i, out);
  }
  out += ']';
}

void append_map(const arrow::MapArray& map, int64_t row, std::string& out) {
  out += '{';
  for (int64_t i = map.value_offset(row); i < map.value_offset(row + 1); ++i) {
    if (i > map.value_offset(row)) out += ',';
    iceberg::append_json_string(cell_text(*map.keys(), i), out);
    out += ':';
    append_cell_json(*map.items(), i, out);
  }
  out += '}';
}

void append_struct(const arrow::StructArray& array, int64_t row, std::string& out) {
  out += '{';
  for (int i = 0; i < array.num_fields(); ++i) {
    if (i > 0) out += ',';
    iceberg::append_json_string(array.type()->field(i)->name(), out);
    out += ':';
    append_cell_json(*array.field(i), row, out);
  }
  out += '}';
}

}  // namespace

void append_cell_json(const arrow::Array& array, int64_t row, std::string& out) {
  if (array.type_id() == arrow::Type::NA || array.IsNull(row)) {
    out += "null";
    return;
  }
  const auto append_text = [&](std::string_view text) { iceberg::append_json_string(text, out); };
  switch (array.type_id()) {
    case arrow::Type::BOOL:
      out += value_of<arrow::BooleanArray>(array, row) ? "true" : "false";
      break;
    case arrow::Type::FLOAT:
      append_floating(value_of<arrow::FloatArray>(array, row), out);
      break;
    case arrow::Type::DOUBLE:
      append_floating(value_of<arrow::DoubleArray>(array, row), out);
      break;
    case arrow::Type::STRING:
      append_text(value_of<arrow::StringArray>(array, row));
      break;
    case arrow::Type::LARGE_STRING:
      append_text(value_of<arrow::LargeStringArray>(array, row));
      break;
    case arrow::Type::BINARY:
      append_text(to_hex(value_of<arrow::BinaryArray>(array, row)));
      break;
    case arrow::Type::LARGE_BINARY:
      append_text(to_hex(value_of<arrow::LargeBinaryArray>(array, row)));
      break;
    case arrow::Type::FIXED_SIZE_BINARY:
      append_text(to_hex(value_of<arrow::FixedSizeBinaryArray>(array, row)));
      break;
    case arrow::Type::DATE32:
      append_text(format_date(value_of<arrow::Date32Array>(array, row)));
      break;
    case arrow::Type::TIME64:
      append_text(with_short_fraction(format_time_us(value_of<arrow::Time64Array>(array, row))));
      break;
    case arrow::Type::TIMESTAMP:
      append_text(timestamp_text(array, row));
      break;
    case arrow::Type::INTERVAL_MONTH_DAY_NANO:
      append_text(interval_text(static_cast<const arrow::MonthDayNanoIntervalArray&>(array).GetValue(row)));
      break;
    case arrow::Type::STRUCT:
      append_struct(static_cast<const arrow::StructArray&>(array), row, out);
      break;
    case arrow::Type::LIST: {
      const auto& list = static_cast<const arrow::ListArray&>(array);
      append_items(*list.values(), list.value_offset(row), list.value_offset(row + 1), out);
      break;
    }
    case arrow::Type::FIXED_SIZE_LIST: {
      const auto& list = static_cast<const arrow::FixedSizeListArray&>(array);
      append_items(*list.values(), list.value_offset(row), list.value_offset(row + 1), out);
      break;
    }
    case arrow::Type::DECIMAL128: {
      const auto& type = static_cast<const arrow::Decimal128Type&>(*array.type());
      std::string quoted;
      iceberg::append_json_decimal(
          arrow::Decimal128(reinterpret_cast<const uint8_t*>(value_of<arrow::Decimal128Array>(array, row).data())),
          type.scale(), quoted);
      out.append(quoted, 1, quoted.size() - 2);
      break;
    }
    case arrow::Type::DICTIONARY: {  // an ENUM
      const auto& codes = static_cast<const arrow::DictionaryArray&>(array);
      append_cell_json(*codes.dictionary(), codes.GetValueIndex(row), out);
      break;
    }
    case arrow::Type::MAP:
      append_map(static_cast<const arrow::MapArray&>(array), row, out);
      break;
    default: {
      const std::string text = check(array.GetScalar(row), "print a value")->ToString();
      if (arrow::is_integer(array.type_id())) {
        out += text;
      } else {
        append_text(text);
      }
    }
  }
}

std::string cell_text(const arrow::Array& array, int64_t row) {
  if (array.type_id() == arrow::Type::NA || array.IsNull(row)) return "";
  if (array.type_id() == arrow::Type::STRING) return std::string(value_of<arrow::StringArray>(array, row));
  if (array.type_id() == arrow::Type::LARGE_STRING) return std::string(value_of<arrow::LargeStringArray>(array, row));
  std::string json;
  append_cell_json(array, row, json);
  if (json.size() < 2 || json.front() != '"') return json;
  if (json.find('\\') != std::string::npos) return parse_json(json, "a cell").get<std::string>();
  return json.substr(1, json.size() - 2);
}

}  // namespace firn::hyp
