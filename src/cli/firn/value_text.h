// Values from text, as iceberg/scan/row_json.h spells them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <arrow/array/builder_base.h>

#include "base/json.h"
#include "iceberg/type.h"

namespace firn::cli {

// `builder` has to_arrow_type(type). Both throw invalid_argument saying what is wrong; the builder may then hold a part
// of the value, and is not to be used any more.

// A value as JSON: numbers also as strings (floats are spelled so), decimals also as numbers.
void append_json(arrow::ArrayBuilder& builder, const iceberg::Field& field, const Json& json);
// A value without the quotes that JSON would put around it; nested types are JSON. nullopt: null.
void append_text(arrow::ArrayBuilder& builder, const iceberg::Field& field, std::optional<std::string_view> text);

// Bytes from hex, in either case, and the 16 of a uuid's text; nullopt for what is none.
std::optional<std::string> bytes_of_hex(std::string_view text);
std::optional<std::string> bytes_of_uuid(std::string_view text);

}  // namespace firn::cli
