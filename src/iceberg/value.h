// Single values: partition values, bounds, defaults and literals.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include <arrow/util/decimal.h>

#include "base/json.h"

namespace firn::iceberg {

class Type;

// A value of some Iceberg type, which the context names; monostate is null.
//   boolean bool; int, date int32_t; long, time (µs), timestamp(tz) (µs), timestamp(tz)_ns (ns) int64_t; float; double;
//   decimal Decimal128 (unscaled); string UTF-8, uuid 16 bytes big-endian, fixed and binary as std::string.
// Nested values do not occur but in defaults, where they are Json text tagged by NestedJson.
struct NestedJson {
  std::string text;  // the specification's single-value JSON
  bool operator==(const NestedJson&) const = default;
};
using Value =
    std::variant<std::monostate, bool, int32_t, int64_t, float, double, arrow::Decimal128, std::string, NestedJson>;

inline bool is_null(const Value& value) { return std::holds_alternative<std::monostate>(value); }

// Order within one type: numbers by value, with NaN above all and equal to itself, -0.0 below 0.0 only if `total`;
// strings and bytes by unsigned byte; uuid likewise. Both non-null and of the same alternative.
std::strong_ordering compare(const Value& a, const Value& b, bool total = false);
bool is_nan(const Value& value);

// Binary single-value serialization (spec, Appendix D). from_bytes accepts what a promotion leaves behind (4 bytes for
// a long or double, 4 bytes of date for a timestamp): the result has `type`'s alternative. nullopt: ill-formed, treat
// as unknown.
std::string to_bytes(const Value& value, const Type& type);
std::optional<Value> from_bytes(std::string_view bytes, const Type& type);

// JSON single-value serialization (spec, Appendix D). from_json throws corrupt naming `where`.
Json to_json(const Value& value, const Type& type);
Value from_json(const Json& json, const Type& type, std::string_view where);

// A number rounded down to a scale.
struct FlooredDecimal {
  arrow::Decimal128 unscaled;
  bool is_exact = false;  // nothing was cut off
};
// The number that `text` writes in decimal (`-1.50`, `2e-3`), exactly, however many digits it has. nullopt: it is no
// number, or 38 digits do not hold it at `scale`.
std::optional<FlooredDecimal> floor_decimal(std::string_view text, int32_t scale);
// The same, where `type`, a decimal, has that very value.
std::optional<arrow::Decimal128> parse_decimal(std::string_view text, const Type& type);

// For messages and partition paths: the human string of Java's Transform.toHumanString is transforms' job; this one
// prints the value as JSON does, without quotes.
std::string to_display(const Value& value, const Type& type);

// `value` of `from` as a value of `to`, where the promotion is allowed; also date → timestamp. nullopt if it does not
// fit.
std::optional<Value> promote(const Value& value, const Type& from, const Type& to);

}  // namespace firn::iceberg
