// Predicates over rows, and what they prove about partitions and files (Iceberg spec, "Scan Planning").
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "iceberg/manifest/manifest.h"

namespace firn::iceberg {

enum class Op : uint8_t {
  always_true,
  always_false,
  and_,
  or_,
  not_,
  is_null,
  not_null,
  is_nan,
  not_nan,
  lt,
  lt_eq,
  gt,
  gt_eq,
  eq,
  not_eq_,
  in,
  not_in,
  starts_with,
  not_starts_with,
};

struct Expression;
using ExpressionPtr = std::shared_ptr<const Expression>;

// Immutable. Unbound predicates name a column; bound ones carry its field id and literals of its type.
struct Expression {
  Op op = Op::always_true;
  std::vector<ExpressionPtr> children;  // and, or: two; not: one
  std::string column;                   // dotted name
  std::optional<int32_t> field_id;      // bound
  TypePtr type;                         // bound: the column's
  std::vector<Value> literals;          // one, or more for in and not_in; of `type` once bound
  // The term is transform(column). Bound, only buckets are left (bind turns the others into predicates on the column):
  // the literals are bucket numbers (int32) and say nothing of the column's own values, so bounds and bloom filters do
  // not apply.
  std::optional<Transform> transform;
};

ExpressionPtr always_true();
ExpressionPtr always_false();
ExpressionPtr and_(ExpressionPtr a, ExpressionPtr b);
ExpressionPtr or_(ExpressionPtr a, ExpressionPtr b);
ExpressionPtr not_(ExpressionPtr a);
// Literals may be of any type that converts without loss: int for long, string (ISO) for date, time, timestamp, uuid,
// and number text for decimal; bytes for binary and fixed; NestedJson holds a JSON literal (of binary and fixed, hex).
ExpressionPtr predicate(Op op, std::string column, std::vector<Value> literals = {});
ExpressionPtr predicate(Op op, Transform transform, std::string column, std::vector<Value> literals);

// SQL-like text: `ts >= '2024-01-01' and (session_id = 'x' or n in (1, 2)) and not (a is null) and b like 'pre%' and
// isnan(c)`; "quoted" columns; also `between`, `is [not] nan`, x'0aff', and terms such as day(ts) and bucket(16, id).
// Throws invalid_argument with the position.
ExpressionPtr parse_expression(std::string_view text);
// The REST catalog specification's Expression JSON. Throws corrupt.
ExpressionPtr expression_from_json(const Json& json, std::string_view where);
std::string to_string(const Expression& expression);  // as parse_expression reads it

// Columns resolved to ids and literals to the column's type; `not` pushed down to the predicates. A literal outside the
// type's range, or between two of its values, gives the predicate that decides alike (for x int: `x < 2.5` is `x <= 2`,
// `x < 3000000000` is `x is not null`). Throws invalid_argument for an unknown column, one inside a list or map, a type
// that has no order, or a literal that cannot be converted.
ExpressionPtr bind(const Expression& expression, const Schema& schema, bool case_sensitive = true);
std::vector<int32_t> referenced_field_ids(const Expression& bound);

// A row matches if the filter is true in SQL's three-valued logic (so `x != 5` and `not (x = 5)` leave out null x). NaN
// compares false except in not_eq_ and not_in (so `not (x < 5)` keeps NaN); is_nan and not_nan leave out null; -0.0
// equals 0.0; strings and bytes compare by unsigned byte.

// Whether a partition tuple / file / manifest may hold a matching row. All take bound expressions; false proves
// absence.
bool partition_might_match(const Expression& bound, const PartitionSpec& spec, const Schema& schema,
                           const std::vector<Value>& partition);
bool manifest_might_match(const Expression& bound, const PartitionSpec& spec, const Schema& schema,
                          const ManifestFile& manifest);
bool file_might_match(const Expression& bound, const DataFile& file);  // column metrics: inclusive
bool file_must_match(const Expression& bound, const DataFile& file);   // strict: every row matches (case 1)
// What is left to check in a file of this partition: predicates that the partition proves become true or false.
ExpressionPtr residual(const ExpressionPtr& bound, const PartitionSpec& spec, const Schema& schema,
                       const std::vector<Value>& partition);

// Bounds of one column in a row group or page; the same rules as for files.
struct ColumnBounds {
  std::optional<int64_t> value_count, null_count, nan_count;
  std::optional<Value> lower, upper;
};
using BoundsLookup = std::function<ColumnBounds(int32_t field_id)>;  // all unknown for an id it does not know
bool bounds_might_match(const Expression& bound, const BoundsLookup& bounds);

}  // namespace firn::iceberg
