// Pieces of JSON text that rows and variants share.
#pragma once

#include <string>
#include <string_view>

#include <arrow/util/decimal.h>

namespace firn::iceberg {

// In quotes; only '"', '\' and control characters below 0x20 are escaped. The text must be UTF-8.
void append_json_string(std::string_view text, std::string& out);
// In quotes, the shortest text that strtod (strtof) reads back as the value; "NaN", "Infinity", "-Infinity".
void append_json_float(double value, std::string& out);
void append_json_float(float value, std::string& out);
// In quotes, exactly `scale` digits after the point (Arrow would turn to exponents).
void append_json_decimal(const arrow::Decimal128& value, int32_t scale, std::string& out);
void append_json_hex(std::string_view bytes, std::string& out);
void append_json_uuid(std::string_view bytes, std::string& out);  // 16 bytes

}  // namespace firn::iceberg
