// Names to ids, literals to types, `not` to the predicates.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "iceberg/expr/expression.h"
#include "iceberg/expr/literal.h"
#include "iceberg/expr/transform_term.h"

namespace firn::iceberg {
namespace {

Op negated(Op op) {
  switch (op) {
    case Op::is_null:
      return Op::not_null;
    case Op::not_null:
      return Op::is_null;
    case Op::is_nan:
      return Op::not_nan;
    case Op::not_nan:
      return Op::is_nan;
    case Op::lt:
      return Op::gt_eq;
    case Op::lt_eq:
      return Op::gt;
    case Op::gt:
      return Op::lt_eq;
    case Op::gt_eq:
      return Op::lt;
    case Op::eq:
      return Op::not_eq_;
    case Op::not_eq_:
      return Op::eq;
    case Op::in:
      return Op::not_in;
    case Op::not_in:
      return Op::in;
    case Op::starts_with:
      return Op::not_starts_with;
    case Op::not_starts_with:
      return Op::starts_with;
    default:
      return op;
  }
}

bool is_float(const Type& type) { return type.id() == TypeId::float_ || type.id() == TypeId::double_; }
bool is_range(Op op) { return op == Op::lt || op == Op::lt_eq || op == Op::gt || op == Op::gt_eq; }
bool is_null_test(Op op) { return op == Op::is_null || op == Op::not_null; }
bool is_nan_test(Op op) { return op == Op::is_nan || op == Op::not_nan; }
bool is_prefix_test(Op op) { return op == Op::starts_with || op == Op::not_starts_with; }

class Binder {
 public:
  Binder(const Schema& schema, bool case_sensitive) : schema_(schema), case_sensitive_(case_sensitive) {}

  ExpressionPtr bind(const Expression& e, bool negate) const {
    switch (e.op) {
      case Op::always_true:
        return negate ? always_false() : always_true();
      case Op::always_false:
        return negate ? always_true() : always_false();
      case Op::not_:
        return bind(*e.children.at(0), !negate);
      case Op::and_:
      case Op::or_: {
        auto left = bind(*e.children.at(0), negate), right = bind(*e.children.at(1), negate);
        return (e.op == Op::and_) != negate ? and_(std::move(left), std::move(right))
                                            : or_(std::move(left), std::move(right));
      }
      default:
        return bind_predicate(e, negate);
    }
  }

 private:
  ExpressionPtr bind_predicate(const Expression& e, bool negate) const {
    const Field& field = resolve(e);
    const BoundColumn column{e.column, field.id, field.type};
    const Op op = negate ? negated(e.op) : e.op;
    if (e.transform && e.transform->kind != TransformKind::identity) return bind_term(e, column, op);
    if (is_null_test(op)) return bind_null_test(column, op);
    if (field.type->id() == TypeId::unknown) return always_false();  // each value is null: no comparison is true
    if (!has_order(*field.type))
      fail(ErrorKind::invalid_argument, "Column {} of type {} can only be tested for null", e.column,
           field.type->to_string());
    if (is_nan_test(op)) {
      if (!is_float(*field.type))
        fail(ErrorKind::invalid_argument, "Column {} of type {} is never NaN", e.column, field.type->to_string());
      return column.test(op);
    }
    if (is_prefix_test(op) && field.type->id() != TypeId::string && field.type->id() != TypeId::binary)
      fail(ErrorKind::invalid_argument, "Column {} of type {} has no prefix: only string and binary do", e.column,
           field.type->to_string());
    for (const Value& literal : e.literals)
      if (is_null(literal) && op != Op::in) return always_false();  // unknown for each row, negated or not
    if (op == Op::in || op == Op::not_in) return bind_set(e, column, op);
    if (e.literals.size() != 1)
      fail(ErrorKind::invalid_argument, "Column {} is compared with {} literals: it takes one", e.column,
           e.literals.size());
    const PlacedLiteral literal = place_literal(e.literals[0], *field.type, e.column);
    if (is_float(*field.type) && negate && is_range(op)) {
      // `not (x < 5)` is true for NaN, which `x >= 5` is not.
      if (literal.place == Place::nan) return bind_null_test(column, Op::not_null);
      return or_(column.compare(op, literal), column.test(Op::is_nan));
    }
    return column.compare(op, literal);
  }

  ExpressionPtr bind_set(const Expression& e, const BoundColumn& column, Op op) const {
    std::vector<Value> literals;
    for (const Value& literal : e.literals) {
      if (is_null(literal)) continue;
      PlacedLiteral placed = place_literal(literal, *column.type, e.column);
      if (placed.place == Place::exact) literals.push_back(std::move(placed.value));
    }
    return column.one_of(op, std::move(literals));
  }

  ExpressionPtr bind_null_test(const BoundColumn& column, Op op) const {
    const auto path = schema_.path_to(column.field_id);
    const bool required =
        std::all_of(path.begin(), path.end(), [&](int32_t id) { return schema_.find_field(id)->required; });
    if (required) return op == Op::is_null ? always_false() : always_true();
    return column.test(op);
  }

  ExpressionPtr bind_term(const Expression& e, const BoundColumn& column, Op op) const {
    const Transform& transform = *e.transform;
    if (transform.kind == TransformKind::unknown || transform.kind == TransformKind::void_ ||
        !can_transform(transform, *column.type))
      fail(ErrorKind::invalid_argument, "Column {} of type {} has no transform {}", e.column, column.type->to_string(),
           transform.name);
    if (is_null_test(op)) return bind_null_test(column, op);
    if (is_nan_test(op)) fail(ErrorKind::invalid_argument, "{}({}) is never NaN", transform.name, e.column);
    const TypePtr result = result_type(transform, column.type);
    std::vector<PlacedLiteral> literals;
    for (const Value& literal : e.literals) {
      if (!is_null(literal)) {
        literals.push_back(place_literal(literal, *result, fmt::format("{}({})", transform.name, e.column)));
      } else if (op != Op::in) {
        return always_false();
      }
    }
    if (op != Op::in && op != Op::not_in && literals.size() != 1)
      fail(ErrorKind::invalid_argument, "{}({}) is compared with {} literals: it takes one", transform.name, e.column,
           literals.size());
    return bind_transform_term(transform, column, op, literals);
  }

  const Field& resolve(const Expression& e) const {
    const Field* field = case_sensitive_ ? schema_.find_field(e.column) : schema_.find_field_ci(e.column);
    if (!field) {
      std::vector<std::string_view> known;
      for (const Field& column : schema_.fields()) known.push_back(column.name);
      fail(ErrorKind::invalid_argument, "The filter names column {}, which is not there{}; there are: {}", e.column,
           case_sensitive_ && schema_.find_field_ci(e.column) ? " in that case" : "", fmt::join(known, ", "));
    }
    if (schema_.is_nested_below_list_or_map(field->id))
      fail(ErrorKind::invalid_argument,
           "The filter names {}, which lies in a list or map: a row has no single value of it", e.column);
    return *field;
  }

  const Schema& schema_;
  bool case_sensitive_;
};

}  // namespace

ExpressionPtr BoundColumn::test(Op op) const {
  auto e = std::make_shared<Expression>();
  e->op = op;
  e->column = name;
  e->field_id = field_id;
  e->type = type;
  return e;
}

ExpressionPtr BoundColumn::compare(Op op, const PlacedLiteral& literal) const {
  switch (literal.place) {
    case Place::nan:
      return op == Op::not_eq_ ? test(Op::not_null) : always_false();
    case Place::above:
      return op == Op::lt || op == Op::lt_eq || op == Op::not_eq_ ? test(Op::not_null) : always_false();
    case Place::below:
      return op == Op::gt || op == Op::gt_eq || op == Op::not_eq_ ? test(Op::not_null) : always_false();
    case Place::between:
      if (op == Op::eq) return always_false();
      if (op == Op::not_eq_) return test(Op::not_null);
      op = op == Op::lt ? Op::lt_eq : op == Op::gt_eq ? Op::gt : op;
      break;
    case Place::exact:
      break;
  }
  auto e = std::make_shared<Expression>();
  e->op = op;
  e->column = name;
  e->field_id = field_id;
  e->type = type;
  e->literals = {literal.value};
  return e;
}

ExpressionPtr BoundColumn::one_of(Op op, std::vector<Value> literals) const {
  const auto less = [](const Value& a, const Value& b) { return firn::iceberg::compare(a, b) < 0; };
  const auto equal = [](const Value& a, const Value& b) { return firn::iceberg::compare(a, b) == 0; };
  std::sort(literals.begin(), literals.end(), less);
  literals.erase(std::unique(literals.begin(), literals.end(), equal), literals.end());
  if (literals.empty()) return op == Op::in ? always_false() : test(Op::not_null);
  auto e = std::make_shared<Expression>();
  e->op = literals.size() > 1 ? op : op == Op::in ? Op::eq : Op::not_eq_;
  e->column = name;
  e->field_id = field_id;
  e->type = type;
  e->literals = std::move(literals);
  return e;
}

ExpressionPtr bind(const Expression& expression, const Schema& schema, bool case_sensitive) {
  return Binder(schema, case_sensitive).bind(expression, false);
}

}  // namespace firn::iceberg
