#include "iceberg/expr/prove.h"

#include <algorithm>

#include "iceberg/bounds.h"

namespace firn::iceberg {
namespace {

bool may_be_nan(const Type& type) { return type.id() == TypeId::float_ || type.id() == TypeId::double_; }

// The values of a set lie in [lower, upper], or [lower, upper) if exclusive.
class Range {
 public:
  explicit Range(const ColumnFacts& facts) : facts_(facts) {}
  bool all_below(const Value& v) const {
    if (!facts_.upper) return false;
    const auto order = compare(*facts_.upper, v);
    return order < 0 || (facts_.upper_exclusive && order == 0);
  }
  bool all_at_or_below(const Value& v) const { return facts_.upper && compare(*facts_.upper, v) <= 0; }
  bool all_above(const Value& v) const { return facts_.lower && compare(*facts_.lower, v) > 0; }
  bool all_at_or_above(const Value& v) const { return facts_.lower && compare(*facts_.lower, v) >= 0; }
  bool all_equal(const Value& v) const {
    return !facts_.upper_exclusive && facts_.lower && facts_.upper && compare(*facts_.lower, v) == 0 &&
           compare(*facts_.upper, v) == 0;
  }

 private:
  const ColumnFacts& facts_;
};

bool may_equal(const ColumnFacts& facts, const Range& range, const Value& v, const Type& type) {
  if (range.all_below(v) || range.all_above(v)) return false;
  if (!facts.buckets || !can_transform(facts.buckets->transform, type)) return true;
  const int32_t bucket = std::get<int32_t>(apply(facts.buckets->transform, v, type));
  return facts.buckets->lowest <= bucket && bucket <= facts.buckets->highest;
}

// Java orders uuids as two signed halves, the specification by unsigned bytes, and bounds do not tell whose they are.
// What is kept bounds the values in either order: nothing where the high halves differ in sign, else whole ranges of
// low halves.
void widen_uuid_bounds(ColumnFacts& facts) {
  if (!facts.lower || !facts.upper) {
    facts.lower.reset();
    facts.upper.reset();
    return;
  }
  auto& lower = std::get<std::string>(*facts.lower);
  auto& upper = std::get<std::string>(*facts.upper);
  if (lower == upper) return;
  if (((lower[0] ^ upper[0]) & 0x80) != 0) {
    facts.lower.reset();
    facts.upper.reset();
    return;
  }
  std::fill(lower.begin() + 8, lower.end(), '\0');
  std::fill(upper.begin() + 8, upper.end(), '\xFF');
}

Proof proof(bool every_row, bool no_row) { return every_row ? Proof::every_row : no_row ? Proof::no_row : Proof::open; }

Proof opposite(Proof proof) {
  return proof == Proof::open ? proof : proof == Proof::every_row ? Proof::no_row : Proof::every_row;
}

// All that start with `prefix` lie in [prefix, next_bytes(prefix)), in byte order.
Proof prove_prefix(const Range& range, const Value& prefix) {
  const auto next = next_bytes(std::get<std::string>(prefix));
  const bool none = range.all_below(prefix) || (next && range.all_at_or_above(*next));
  const bool all = range.all_at_or_above(prefix) && (!next || range.all_below(*next));
  return proof(all, none);
}

// Over the values that are neither null nor NaN.
Proof prove_values(const Expression& e, const ColumnFacts& facts) {
  const Range range(facts);
  switch (e.op) {
    case Op::lt:
      return proof(range.all_below(e.literals[0]), range.all_at_or_above(e.literals[0]));
    case Op::lt_eq:
      return proof(range.all_at_or_below(e.literals[0]), range.all_above(e.literals[0]));
    case Op::gt:
      return proof(range.all_above(e.literals[0]), range.all_at_or_below(e.literals[0]));
    case Op::gt_eq:
      return proof(range.all_at_or_above(e.literals[0]), range.all_below(e.literals[0]));
    case Op::starts_with:
      return prove_prefix(range, e.literals[0]);
    case Op::not_starts_with:
      return opposite(prove_prefix(range, e.literals[0]));
    default:
      break;
  }
  bool may = false, all = false;
  for (const Value& literal : e.literals) {
    may |= may_equal(facts, range, literal, *e.type);
    all |= range.all_equal(literal);
  }
  const Proof in = proof(all, !may);
  return e.op == Op::eq || e.op == Op::in ? in : opposite(in);
}

bool usable(const Value& bound, const Value& literal) { return bound.index() == literal.index(); }

}  // namespace

Proof prove(const Expression& e, const ColumnFacts& given) {
  if (e.op == Op::always_true) return Proof::every_row;
  if (e.op == Op::always_false) return Proof::no_row;
  if (e.op == Op::is_null) return proof(given.nulls == Share::all, given.nulls == Share::none);
  if (e.op == Op::not_null) return proof(given.nulls == Share::none, given.nulls == Share::all);
  if (given.nulls == Share::all) return Proof::no_row;

  const bool no_nulls = given.nulls == Share::none;
  const Share nans = may_be_nan(*e.type) && !e.transform ? given.nans : Share::none;
  if (e.op == Op::is_nan) return proof(nans == Share::all && no_nulls, nans == Share::none);
  if (e.op == Op::not_nan) return proof(nans == Share::none && no_nulls, nans == Share::all);

  // NaN is unequal to each literal, and compares false otherwise.
  const bool nan_matches = e.op == Op::not_eq_ || e.op == Op::not_in;
  if (nans == Share::all) return nan_matches ? proof(no_nulls, false) : Proof::no_row;

  ColumnFacts facts = given;
  if (facts.lower && !usable(*facts.lower, e.literals[0])) facts.lower.reset();
  if (facts.upper && !usable(*facts.upper, e.literals[0])) facts.upper.reset();
  if (e.transform) facts.buckets.reset();
  const Proof values = prove_values(e, facts);
  if (values == Proof::every_row && no_nulls && (nan_matches || nans == Share::none)) return values;
  if (values == Proof::no_row && (!nan_matches || nans == Share::none)) return values;
  return Proof::open;
}

Proof prove_all(const Expression& bound, const std::function<Proof(const Expression&)>& leaf) {
  if (bound.op != Op::and_ && bound.op != Op::or_) return leaf(bound);
  // `and` is decided by one side without rows, `or` by one with every row; the other way round it takes both.
  const Proof decides = bound.op == Op::and_ ? Proof::no_row : Proof::every_row;
  const Proof left = prove_all(*bound.children[0], leaf);
  if (left == decides) return left;
  const Proof right = prove_all(*bound.children[1], leaf);
  return right == decides || right == left ? right : Proof::open;
}

ColumnFacts facts_from(const ColumnBounds& bounds, const Type& type) {
  ColumnFacts facts;
  const bool counted = bounds.value_count && *bounds.value_count >= 0 && bounds.null_count && *bounds.null_count >= 0 &&
                       *bounds.null_count <= *bounds.value_count;
  if (bounds.null_count == 0) facts.nulls = Share::none;
  if (counted && *bounds.null_count == *bounds.value_count && *bounds.value_count > 0) facts.nulls = Share::all;
  if (!may_be_nan(type) || bounds.nan_count == 0)
    facts.nans = Share::none;
  else if (counted && facts.nulls != Share::all && bounds.nan_count == *bounds.value_count - *bounds.null_count)
    facts.nans = Share::all;
  if (bounds.lower && !is_null(*bounds.lower) && !is_nan(*bounds.lower)) facts.lower = bounds.lower;
  if (bounds.upper && !is_null(*bounds.upper) && !is_nan(*bounds.upper)) facts.upper = bounds.upper;
  if (type.id() == TypeId::uuid) widen_uuid_bounds(facts);
  if (facts.lower && facts.upper && (!usable(*facts.lower, *facts.upper) || compare(*facts.lower, *facts.upper) > 0)) {
    facts.lower.reset();
    facts.upper.reset();
  }
  return facts;
}

}  // namespace firn::iceberg
