// Literals brought to the type they are compared with.
#pragma once

#include <string_view>

#include "iceberg/type.h"

namespace firn::iceberg {

// Where a literal lies among the values of a type.
enum class Place : uint8_t {
  exact,    // it is `value`
  between,  // above `value` and below the next one
  below,    // below all
  above,    // above all
  nan,      // comparable with none
};

struct PlacedLiteral {
  Place place = Place::exact;
  Value value;  // of the type; null unless exact or between
};

// `literal` (not null) among the values of `type`, a primitive type with an order. A double is rounded to a float
// column's nearest value. `column` titles the invalid_argument thrown for a literal that cannot be converted.
PlacedLiteral place_literal(const Value& literal, const Type& type, std::string_view column);

// The place of an integer among the values of `type`: int, long, date or a timestamp (whose value is the integer).
PlacedLiteral place_integer(__int128 value, const Type& type);

}  // namespace firn::iceberg
