// What facts about a set of rows prove about a predicate.
#pragma once

#include <functional>

#include "iceberg/expr/expression.h"

namespace firn::iceberg {

enum class Proof : uint8_t { open, every_row, no_row };

// How many rows of the set have some property.
enum class Share : uint8_t { unknown, none, all };

// One column over a set of rows. What is not known stays at its default.
struct ColumnFacts {
  Share nulls = Share::unknown;
  Share nans = Share::unknown;  // among the values that are not null; none for a type without NaN
  std::optional<Value> lower;   // of the values that are neither null nor NaN
  std::optional<Value> upper;
  bool upper_exclusive = false;
  struct Buckets {
    Transform transform;
    int32_t lowest = 0, highest = 0;
  };
  std::optional<Buckets> buckets;  // of the values that are not null
};

// `predicate` is bound and no and, or or not. Facts of the other alternative than the predicate's type are not used.
Proof prove(const Expression& predicate, const ColumnFacts& facts);

// The whole of `bound`, by what `leaf` proves about each predicate.
Proof prove_all(const Expression& bound, const std::function<Proof(const Expression&)>& leaf);

// Facts from counts and bounds: NaN bounds and bounds out of order are dropped, counts out of order too.
ColumnFacts facts_from(const ColumnBounds& bounds, const Type& type);

}  // namespace firn::iceberg
