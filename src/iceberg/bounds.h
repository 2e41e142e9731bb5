// Column bounds cut short for manifests (Iceberg spec, "Field-level Metrics and Statistics").
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "iceberg/value.h"

namespace firn::iceberg {

// Well-formed UTF-8: no overlong form, no surrogate, nothing above U+10FFFF.
bool is_utf8(std::string_view text);
// The first `width` code points of well-formed UTF-8; all of it if it has fewer.
std::string_view code_point_prefix(std::string_view text, size_t width);
size_t count_code_points(std::string_view text);  // of well-formed UTF-8

// The least text, in byte order, that is above `prefix` and all that starts with it: its last code point is bumped
// (past the surrogates), or dropped where it is U+10FFFF and the one before bumped. nullopt: there is none.
std::optional<std::string> next_utf8(std::string_view prefix);
// Likewise for bytes: the last byte that is not 0xFF is bumped, what follows it dropped.
std::optional<std::string> next_bytes(std::string_view prefix);

// `value` of `type` (string, fixed or binary; of other types it is returned as it is) cut to `width` code points or
// bytes, so that it stays a bound (cases.md 2): the lower one is a prefix, the upper one the next of that prefix if
// anything was cut, nullopt if there is no such value. A string that is no UTF-8 has no bound: nullopt from both.
std::optional<Value> truncate_lower(const Value& value, const Type& type, int32_t width);
std::optional<Value> truncate_upper(const Value& value, const Type& type, int32_t width);

}  // namespace firn::iceberg
