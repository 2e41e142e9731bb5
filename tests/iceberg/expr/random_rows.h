// Random rows, filters and partition specs over one schema of every type, and what is true of a row in three-valued
// logic.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <arrow/array.h>
#include <gtest/gtest.h>

#include "iceberg/bounds.h"
#include "iceberg/expr/row_filter.h"
#include "iceberg/expr/rows.h"

namespace firn::iceberg {

inline TypePtr prim(TypeId id) { return Type::primitive(id); }

inline const Schema& test_schema() {
  static const Schema kSchema({
      {.id = 1, .name = "b", .type = prim(TypeId::boolean_)},
      {.id = 2, .name = "i", .type = prim(TypeId::int_)},
      {.id = 3, .name = "l", .type = prim(TypeId::long_)},
      {.id = 4, .name = "f", .type = prim(TypeId::float_)},
      {.id = 5, .name = "d", .type = prim(TypeId::double_)},
      {.id = 6, .name = "dec", .type = Type::decimal(9, 2)},
      {.id = 7, .name = "dt", .type = prim(TypeId::date)},
      {.id = 8, .name = "tm", .type = prim(TypeId::time)},
      {.id = 9, .name = "ts", .type = prim(TypeId::timestamp)},
      {.id = 10, .name = "tz", .type = prim(TypeId::timestamptz)},
      {.id = 11, .name = "tn", .type = prim(TypeId::timestamp_ns)},
      {.id = 12, .name = "s", .type = prim(TypeId::string)},
      {.id = 13, .name = "u", .type = prim(TypeId::uuid)},
      {.id = 14, .name = "fx", .type = Type::fixed(3)},
      {.id = 15, .name = "bin", .type = prim(TypeId::binary)},
      {.id = 16,
       .name = "st",
       .type = Type::struct_of({{.id = 17, .name = "x", .type = prim(TypeId::int_)},
                                {.id = 18, .name = "y", .type = prim(TypeId::string)}})},
  });
  return kSchema;
}

inline const std::vector<int32_t>& leaf_ids() {
  static const std::vector<int32_t> kIds = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 17, 18};
  return kIds;
}

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) {}

  // The ends of int64, which are no timestamps that text can spell, and where truncate wraps around.
  bool extremes = true;

  uint64_t below(uint64_t n) { return random_() % n; }
  bool one_in(uint64_t n) { return below(n) == 0; }
  template <class T>
  T any(const std::vector<T>& values) {
    return values[below(values.size())];
  }

  Value value(const Type& type) {
    constexpr int64_t kDay = 86'400'000'000;
    const auto near = [&](int64_t unit) {  // around multiples of a unit, before and after 1970
      return static_cast<int64_t>(below(7)) * unit - 3 * unit + static_cast<int64_t>(below(3)) - 1;
    };
    switch (type.id()) {
      case TypeId::boolean_:
        return one_in(2);
      case TypeId::int_:
        return any<int32_t>({extremes ? INT32_MIN : 0, INT32_MAX, static_cast<int32_t>(near(10))});
      case TypeId::long_:
        return any<int64_t>({extremes ? INT64_MIN : 0, INT64_MAX, near(10), near(1'000'000'007)});
      case TypeId::float_:
        return any<float>({NAN, -0.0F, 0.0F, 1.5F, -1.5F, INFINITY, -INFINITY, std::numeric_limits<float>::max()});
      case TypeId::double_:
        return any<double>({NAN, -0.0, 0.0, 0.1, -0.1, INFINITY, -INFINITY, 1e300});
      case TypeId::decimal:  // truncated to a partition it must still fit
        return arrow::Decimal128(any<int64_t>({-999'999'900, 999'999'999, near(50), near(5000)}));
      case TypeId::date:
        return static_cast<int32_t>(any<int64_t>({near(31), near(365), -719'162, 2'932'896}));
      case TypeId::time:
        return any<int64_t>({0, kDay - 1, static_cast<int64_t>(below(5))});
      case TypeId::timestamp:
      case TypeId::timestamptz:
        return any<int64_t>(
            {near(kDay), near(kDay / 24), near(366 * kDay), extremes ? INT64_MIN : 0, extremes ? INT64_MAX : 0});
      case TypeId::timestamp_ns:
        return any<int64_t>({near(kDay * 1000), near(kDay / 24 * 1000), INT64_MIN, INT64_MAX});
      case TypeId::uuid:
        return std::string(15, '\0') + any<std::string>({std::string(1, '\0'), "\x7F", "\x80", "\xFF"});
      case TypeId::fixed:
        return bytes(3);
      case TypeId::binary:
        return bytes(below(4));
      default:
        return text(below(5));
    }
  }

  std::string text(uint64_t length) {
    std::string out;
    for (; length > 0; --length) out += any<std::string>({"a", "b", "é", "日", "\U0001F600", "\U0010FFFF"});
    return out;
  }

  std::string bytes(uint64_t length) {
    std::string out;
    for (; length > 0; --length) out += any<char>({'\0', 'a', '\x7F', '\x80', '\xFF'});
    return out;
  }

  Cell cell(const Type& type) {
    Cell cell;
    cell.null = one_in(6);
    if (type.id() == TypeId::struct_)
      for (const Field& member : type.fields()) cell.members.push_back(this->cell(*member.type));
    else if (!cell.null)
      cell.value = value(type);
    return cell;
  }

  Row row() {
    Row row;
    for (const Field& field : test_schema().fields()) row.push_back(cell(*field.type));
    return row;
  }

  ExpressionPtr leaf(int32_t id) {
    const Field& field = *test_schema().find_field(id);
    std::vector<Op> ops = {Op::is_null, Op::not_null, Op::lt,      Op::lt_eq, Op::gt,
                           Op::gt_eq,   Op::eq,       Op::not_eq_, Op::in,    Op::not_in};
    if (field.type->id() == TypeId::float_ || field.type->id() == TypeId::double_) {
      ops.push_back(Op::is_nan);
      ops.push_back(Op::not_nan);
    }
    if (field.type->id() == TypeId::string || field.type->id() == TypeId::binary) {
      ops.push_back(Op::starts_with);
      ops.push_back(Op::not_starts_with);
    }
    const Op op = any(ops);
    std::vector<Value> literals;
    size_t count = op == Op::in || op == Op::not_in ? 1 + below(one_in(4) ? 20 : 4) : 1;
    if (op == Op::is_null || op == Op::not_null || op == Op::is_nan || op == Op::not_nan) count = 0;
    for (size_t i = 0; i < count; ++i)
      literals.push_back(one_in(20) && op != Op::starts_with && op != Op::not_starts_with ? Value()
                                                                                          : value(*field.type));
    return predicate(op, test_schema().full_name(id), std::move(literals));
  }

  ExpressionPtr tree(int depth, const std::vector<int32_t>& ids) {
    if (depth == 0 || one_in(3)) return leaf(any(ids));
    switch (below(5)) {
      case 0:
        return not_(tree(depth - 1, ids));
      case 1:
      case 2:
        return or_(tree(depth - 1, ids), tree(depth - 1, ids));
      default:
        return and_(tree(depth - 1, ids), tree(depth - 1, ids));
    }
  }

 private:
  std::mt19937_64 random_;
};

enum class Truth { no, unknown, yes };

// SQL's three-valued logic, value by value, on the unbound expression.
inline Truth truth(const Expression& e, const Row& row) {
  const auto to_truth = [](bool b) { return b ? Truth::yes : Truth::no; };
  switch (e.op) {
    case Op::always_true:
      return Truth::yes;
    case Op::always_false:
      return Truth::no;
    case Op::not_: {
      const Truth t = truth(*e.children[0], row);
      return t == Truth::unknown ? t : to_truth(t == Truth::no);
    }
    case Op::and_:
      return std::min(truth(*e.children[0], row), truth(*e.children[1], row));
    case Op::or_:
      return std::max(truth(*e.children[0], row), truth(*e.children[1], row));
    default:
      break;
  }
  const Cell& cell = cell_of(test_schema(), row, test_schema().find_field(e.column)->id);
  if (e.op == Op::is_null) return to_truth(cell.null);
  if (e.op == Op::not_null) return to_truth(!cell.null);
  if (cell.null) return Truth::unknown;
  if (e.op == Op::is_nan) return to_truth(is_nan(cell.value));
  if (e.op == Op::not_nan) return to_truth(!is_nan(cell.value));
  const auto one = [&](Op op, const Value& literal) {
    if (is_null(literal)) return Truth::unknown;
    if (is_nan(cell.value) || is_nan(literal)) return to_truth(op == Op::not_eq_);
    if (op == Op::starts_with || op == Op::not_starts_with)
      return to_truth(std::get<std::string>(cell.value).starts_with(std::get<std::string>(literal)) ==
                      (op == Op::starts_with));
    const auto order = compare(cell.value, literal);
    switch (op) {
      case Op::lt:
        return to_truth(order < 0);
      case Op::lt_eq:
        return to_truth(order <= 0);
      case Op::gt:
        return to_truth(order > 0);
      case Op::gt_eq:
        return to_truth(order >= 0);
      case Op::eq:
        return to_truth(order == 0);
      default:
        return to_truth(order != 0);
    }
  };
  if (e.op != Op::in && e.op != Op::not_in) return one(e.op, e.literals[0]);
  Truth any = e.op == Op::in ? Truth::no : Truth::yes;
  for (const Value& literal : e.literals)
    any = e.op == Op::in ? std::max(any, one(Op::eq, literal)) : std::min(any, one(Op::not_eq_, literal));
  return any;
}

inline std::vector<bool> truths(const Expression& e, const std::vector<Row>& rows) {
  std::vector<bool> out;
  for (const Row& row : rows) out.push_back(truth(e, row) == Truth::yes);
  return out;
}

inline std::vector<bool> evaluated(const Expression& bound, const arrow::RecordBatch& batch) {
  const auto array = evaluate(bound, batch);
  EXPECT_EQ(array->null_count(), 0);
  std::vector<bool> out;
  for (int64_t i = 0; i < array->length(); ++i) out.push_back(array->Value(i));
  return out;
}

inline std::vector<Row> random_rows(Generator& g, size_t count) {
  std::vector<Row> rows;
  for (size_t i = 0; i < count; ++i) rows.push_back(g.row());
  return rows;
}

// A file's metrics over `rows`: some left out, strings and bytes cut to `width`.
inline DataFile metrics_of(Generator& g, const std::vector<Row>& rows, int32_t width) {
  DataFile file;
  file.record_count = static_cast<int64_t>(rows.size());
  for (const int32_t id : leaf_ids()) {
    const Type& type = *test_schema().find_field(id)->type;
    int64_t nulls = 0, nans = 0;
    std::optional<Value> low, high;
    for (const Row& row : rows) {
      const Cell& cell = cell_of(test_schema(), row, id);
      nulls += cell.null ? 1 : 0;
      nans += !cell.null && is_nan(cell.value) ? 1 : 0;
      if (cell.null || is_nan(cell.value)) continue;
      if (!low || compare(cell.value, *low) < 0) low = cell.value;
      if (!high || compare(cell.value, *high) > 0) high = cell.value;
    }
    if (!g.one_in(8)) file.value_counts[id] = file.record_count;
    if (!g.one_in(8)) file.null_value_counts[id] = nulls;
    if (!g.one_in(3)) file.nan_value_counts[id] = nans;
    if (low) low = truncate_lower(*low, type, width);
    if (high) high = truncate_upper(*high, type, width);
    if (low && !g.one_in(8)) file.lower_bounds[id] = to_bytes(*low, type);
    if (high && !g.one_in(8)) file.upper_bounds[id] = to_bytes(*high, type);
  }
  return file;
}

inline PartitionSpec random_spec(Generator& g) {
  static const std::vector<std::string> kTransforms = {
      "identity", "bucket[3]", "truncate[2]", "truncate[10]", "year", "month", "day", "hour", "void", "zorder"};
  PartitionSpec spec;
  for (uint64_t n = 1 + g.below(2); n > 0; --n) {
    const int32_t id = g.any(leaf_ids());
    Transform transform = Transform::parse(g.any(kTransforms));
    while (!can_transform(transform, *test_schema().find_field(id)->type))
      transform = Transform::parse(g.any(kTransforms));
    const auto field_id = static_cast<int32_t>(1000 + spec.fields.size());
    spec.fields.push_back({{id}, field_id, "p" + std::to_string(field_id), transform});
  }
  return spec;
}

// As old Java writers did: toward zero before 1970 (cases.md 4).
inline Value toward_zero(const Transform& transform, const Value& value, const Type& type) {
  const Value right = apply(transform, value, type);
  const auto* ordinal = std::get_if<int32_t>(&right);
  const bool is_time = transform.kind == TransformKind::year || transform.kind == TransformKind::month ||
                       transform.kind == TransformKind::day || transform.kind == TransformKind::hour;
  if (!is_time || !ordinal || *ordinal >= 0 || type.id() == TypeId::date) return right;
  if (std::get<int64_t>(value) == INT64_MIN) return right;
  const Value before = apply(transform, std::get<int64_t>(value) - 1, type);
  return std::get<int32_t>(before) == *ordinal ? Value(*ordinal + 1) : right;  // not at the unit's first instant
}

inline std::vector<Value> tuple_of(const PartitionSpec& spec, const Row& row, bool old_java) {
  std::vector<Value> tuple;
  for (const PartitionField& field : spec.fields) {
    const Type& type = *test_schema().find_field(field.source_id())->type;
    const Value& value = cell_of(test_schema(), row, field.source_id()).value;
    if (field.transform.kind == TransformKind::unknown)
      tuple.push_back(Value("?"));
    else
      tuple.push_back(old_java ? toward_zero(field.transform, value, type) : apply(field.transform, value, type));
  }
  return tuple;
}

inline bool same_tuple(const std::vector<Value>& a, const std::vector<Value>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (is_null(a[i]) || is_null(b[i])) {
      if (is_null(a[i]) != is_null(b[i])) return false;
    } else if (compare(a[i], b[i]) != 0) {
      return false;
    }
  }
  return true;
}

inline std::vector<int32_t> source_ids(const PartitionSpec& spec) {
  std::vector<int32_t> ids;
  for (const PartitionField& field : spec.fields) ids.push_back(field.source_id());
  return ids;
}

}  // namespace firn::iceberg
