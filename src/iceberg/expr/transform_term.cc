#include "iceberg/expr/transform_term.h"

#include <fmt/format.h>

#include "base/civil_time.h"
#include "base/error.h"
#include "iceberg/bounds.h"

namespace firn::iceberg {
namespace {

using arrow::Decimal128;

// Days from 1970-01-01 to the first of a month given as months since 1970 (any year: the civil calendar repeats every
// 400 years of 146,097 days).
int64_t days_of_month(int64_t months) {
  const int64_t cycles = floor_div(months, 4800);
  const int64_t within = floor_mod(months, 4800);
  const CivilDate date{
      .year = static_cast<int32_t>(1970 + within / 12), .month = static_cast<int32_t>(within % 12 + 1), .day = 1};
  return cycles * 146'097 + days_from_civil(date);
}

// A transform T that keeps the order, on column x: the rows that compare so with a value n of its result type. None of
// them has a null x.
class OrderedTerm {
 public:
  virtual ~OrderedTerm() = default;
  virtual ExpressionPtr below(const Value& n) const = 0;           // T(x) < n
  virtual ExpressionPtr above(const Value& n) const = 0;           // T(x) > n
  virtual ExpressionPtr equal_or_below(const Value& n) const = 0;  // T(x) <= n
  virtual ExpressionPtr equal_or_above(const Value& n) const = 0;  // T(x) >= n
  virtual ExpressionPtr prefix(Op, const Value&) const {
    fail(ErrorKind::invalid_argument, "starts_with takes no transform but truncate of a string or binary column");
  }

  ExpressionPtr compare(Op op, const Value& n) const {
    switch (op) {
      case Op::lt:
        return below(n);
      case Op::lt_eq:
        return equal_or_below(n);
      case Op::gt:
        return above(n);
      case Op::gt_eq:
        return equal_or_above(n);
      case Op::eq:
        return and_(equal_or_above(n), equal_or_below(n));
      case Op::not_eq_:
        return or_(below(n), above(n));
      default:
        return prefix(op, n);
    }
  }
};

// year, month, day, hour, and truncate of numbers: the rows of a result are those from start(n) up to start(n + 1),
// with results a step apart.
class NumericTerm : public OrderedTerm {
 public:
  NumericTerm(const Transform& transform, const BoundColumn& column) : transform_(transform), column_(column) {}
  ExpressionPtr below(const Value& n) const override { return column_.compare(Op::lt, start_at_or_above(n, false)); }
  ExpressionPtr equal_or_below(const Value& n) const override {
    return column_.compare(Op::lt, start_at_or_above(n, true));
  }
  ExpressionPtr above(const Value& n) const override { return column_.compare(Op::gt_eq, start_at_or_above(n, true)); }
  ExpressionPtr equal_or_above(const Value& n) const override {
    return column_.compare(Op::gt_eq, start_at_or_above(n, false));
  }

 private:
  // The first column value whose result is n or more (above n, if `next`).
  PlacedLiteral start_at_or_above(const Value& n, bool next) const {
    if (const auto* unscaled = std::get_if<Decimal128>(&n)) return decimal_start(*unscaled, next);
    __int128 number = std::holds_alternative<int32_t>(n) ? std::get<int32_t>(n) : std::get<int64_t>(n);
    if (next) ++number;
    if (transform_.kind != TransformKind::truncate)
      return place_integer(time_unit_start(transform_.kind, static_cast<int64_t>(number), *column_.type),
                           *column_.type);
    const __int128 width = transform_.parameter;
    __int128 multiple = number / width * width;
    if (multiple < number) multiple += width;
    return place_integer(multiple, *column_.type);
  }

  PlacedLiteral decimal_start(const Decimal128& n, bool next) const {
    const Decimal128 width(transform_.parameter), number = n + Decimal128(next ? 1 : 0);
    Decimal128 multiple = number / width * width;
    if (multiple < number) multiple += width;
    if (multiple.FitsInPrecision(column_.type->precision())) return {Place::exact, multiple};
    return {multiple < Decimal128(0) ? Place::below : Place::above, {}};
  }

  const Transform& transform_;
  const BoundColumn& column_;
};

// truncate of strings (by code point) and bytes. Whole results have the width; shorter ones are the value itself.
class PrefixTerm : public OrderedTerm {
 public:
  PrefixTerm(const Transform& transform, const BoundColumn& column) : transform_(transform), column_(column) {}

  ExpressionPtr below(const Value& n) const override {
    if (length(n) > width()) return equal_or_below(cut(n));
    return on_column(Op::lt, n);
  }
  ExpressionPtr equal_or_below(const Value& n) const override {
    if (length(n) < width()) return on_column(Op::lt_eq, n);
    return or_(on_column(Op::lt, cut(n)), on_column(Op::starts_with, cut(n)));
  }
  ExpressionPtr above(const Value& n) const override {
    if (length(n) < width()) return on_column(Op::gt, n);
    return and_(on_column(Op::gt, cut(n)), on_column(Op::not_starts_with, cut(n)));
  }
  ExpressionPtr equal_or_above(const Value& n) const override {
    if (length(n) > width()) return above(cut(n));
    return on_column(Op::gt_eq, n);
  }
  ExpressionPtr prefix(Op op, const Value& n) const override {
    if (length(n) <= width()) return on_column(op, n);
    return op == Op::starts_with ? always_false() : column_.test(Op::not_null);
  }

 private:
  size_t width() const { return static_cast<size_t>(transform_.parameter); }
  size_t length(const Value& n) const {
    const auto& text = std::get<std::string>(n);
    return column_.type->id() == TypeId::string ? count_code_points(text) : text.size();
  }
  Value cut(const Value& n) const { return apply(transform_, n, *column_.type); }
  ExpressionPtr on_column(Op op, const Value& n) const { return column_.compare(op, {Place::exact, n}); }

  const Transform& transform_;
  const BoundColumn& column_;
};

ExpressionPtr bind_bucket(const Transform& transform, const BoundColumn& column, Op op,
                          const std::vector<PlacedLiteral>& literals) {
  const BoundColumn term{column.name, column.field_id, Type::primitive(TypeId::int_)};
  ExpressionPtr bound;
  if (op == Op::in || op == Op::not_in) {
    std::vector<Value> exact;
    for (const PlacedLiteral& literal : literals)
      if (literal.place == Place::exact) exact.push_back(literal.value);
    bound = term.one_of(op, std::move(exact));
  } else if (op == Op::starts_with || op == Op::not_starts_with) {
    fail(ErrorKind::invalid_argument, "{}({}) is a number: it has no prefix", transform.name, column.name);
  } else {
    bound = term.compare(op, literals[0]);
  }
  if (!bound->field_id) return bound;
  auto e = std::make_shared<Expression>(*bound);
  e->type = column.type;
  if (!e->literals.empty()) e->transform = transform;  // a null test is one of the column
  return e;
}

// A literal that is no result of the transform's type, e.g. year(ts) < 2.5.
ExpressionPtr compare_placed(const OrderedTerm& term, const BoundColumn& column, Op op, const PlacedLiteral& literal) {
  if (literal.place == Place::exact) return term.compare(op, literal.value);
  if (literal.place == Place::between) {
    if (op == Op::lt || op == Op::lt_eq) return term.equal_or_below(literal.value);
    if (op == Op::gt || op == Op::gt_eq) return term.above(literal.value);
    return op == Op::not_eq_ ? column.test(Op::not_null) : always_false();
  }
  return column.compare(op, literal);
}

}  // namespace

__int128 time_unit_start(TransformKind kind, int64_t ordinal, const Type& source) {
  __int128 seconds = 0;
  switch (kind) {
    case TransformKind::year:
      seconds = static_cast<__int128>(days_of_month(ordinal * 12)) * 86'400;
      break;
    case TransformKind::month:
      seconds = static_cast<__int128>(days_of_month(ordinal)) * 86'400;
      break;
    case TransformKind::day:
      seconds = static_cast<__int128>(ordinal) * 86'400;
      break;
    default:
      seconds = static_cast<__int128>(ordinal) * 3600;
      break;
  }
  if (source.id() == TypeId::date) return seconds / 86'400;
  return seconds * (is_nanos(source) ? 1'000'000'000 : 1'000'000);
}

ExpressionPtr bind_transform_term(const Transform& transform, const BoundColumn& column, Op op,
                                  const std::vector<PlacedLiteral>& literals) {
  if (transform.kind == TransformKind::bucket) return bind_bucket(transform, column, op, literals);
  const bool by_prefix = column.type->id() == TypeId::string || column.type->id() == TypeId::binary;
  std::unique_ptr<OrderedTerm> term;
  if (by_prefix)
    term = std::make_unique<PrefixTerm>(transform, column);
  else
    term = std::make_unique<NumericTerm>(transform, column);
  if (op != Op::in && op != Op::not_in) return compare_placed(*term, column, op, literals[0]);
  ExpressionPtr any = op == Op::in ? always_false() : column.test(Op::not_null);
  for (const PlacedLiteral& literal : literals)
    any = op == Op::in ? or_(any, compare_placed(*term, column, Op::eq, literal))
                       : and_(any, compare_placed(*term, column, Op::not_eq_, literal));
  return any;
}

}  // namespace firn::iceberg
