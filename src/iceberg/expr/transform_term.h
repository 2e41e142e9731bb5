// Predicates on transform(column), turned into predicates on the column.
#pragma once

#include "iceberg/expr/expression.h"
#include "iceberg/expr/literal.h"

namespace firn::iceberg {

// A column of the schema that a filter is bound to; makes bound predicates on it.
struct BoundColumn {
  std::string name;
  int32_t field_id = 0;
  TypePtr type;

  ExpressionPtr test(Op op) const;  // is_null, not_null, is_nan, not_nan
  // A comparison or prefix test, with a literal that need not be a value of the type.
  ExpressionPtr compare(Op op, const PlacedLiteral& literal) const;
  ExpressionPtr one_of(Op op, std::vector<Value> literals) const;  // in, not_in
};

// `op` on transform(column) against literals of the transform's result type: the same rows. Only bucket[N] stays a
// term. The transform is one of bucket, truncate, year, month, day and hour.
ExpressionPtr bind_transform_term(const Transform& transform, const BoundColumn& column, Op op,
                                  const std::vector<PlacedLiteral>& literals);

// The first value of `source` (date or a timestamp) whose year, month, day or hour since 1970 is `ordinal`, in units of
// `source`; it may lie outside its range.
__int128 time_unit_start(TransformKind kind, int64_t ordinal, const Type& source);

}  // namespace firn::iceberg
