#include "iceberg/scan/json_text.h"

#include <cmath>

#include <fmt/format.h>

#include "base/hash.h"

namespace firn::iceberg {

namespace {

template <class T>
void append_float(T value, std::string& out) {
  out.push_back('"');
  if (std::isnan(value)) {
    out += "NaN";
  } else if (std::isinf(value)) {
    out += value < 0 ? "-Infinity" : "Infinity";
  } else {
    const size_t begin = out.size();
    fmt::format_to(std::back_inserter(out), "{}", value);  // the shortest that reads back
    if (out.find_first_of(".e", begin) == std::string::npos) out += ".0";
  }
  out.push_back('"');
}

}  // namespace

void append_json_string(std::string_view text, std::string& out) {
  out.push_back('"');
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (static_cast<unsigned char>(c) >= 0x20) {
      out.push_back(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\b') {
      out += "\\b";
    } else if (c == '\f') {
      out += "\\f";
    } else {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(c));
    }
  }
  out.push_back('"');
}

void append_json_float(double value, std::string& out) { append_float(value, out); }
void append_json_float(float value, std::string& out) { append_float(value, out); }

void append_json_decimal(const arrow::Decimal128& value, int32_t scale, std::string& out) {
  std::string digits = value.ToIntegerString();
  const bool negative = digits.front() == '-';
  if (negative) digits.erase(0, 1);
  const auto fraction = static_cast<size_t>(scale);
  if (digits.size() <= fraction) digits.insert(0, fraction + 1 - digits.size(), '0');
  if (fraction > 0) digits.insert(digits.size() - fraction, 1, '.');
  out += negative ? "\"-" : "\"";
  out += digits;
  out.push_back('"');
}

void append_json_hex(std::string_view bytes, std::string& out) {
  out.push_back('"');
  out += to_hex(bytes);
  out.push_back('"');
}

void append_json_uuid(std::string_view bytes, std::string& out) {
  const std::string hex = to_hex(bytes);
  fmt::format_to(std::back_inserter(out), "\"{}-{}-{}-{}-{}\"", hex.substr(0, 8), hex.substr(8, 4), hex.substr(12, 4),
                 hex.substr(16, 4), hex.substr(20));
}

}  // namespace firn::iceberg
