#include "iceberg/expr/expression.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/hash.h"

namespace firn::iceberg {
namespace {

ExpressionPtr make(Op op, std::vector<ExpressionPtr> children) {
  auto expression = std::make_shared<Expression>();
  expression->op = op;
  expression->children = std::move(children);
  return expression;
}

std::string in_quotes(std::string_view text, char quote) {
  std::string out(1, quote);
  for (const char c : text) {
    if (c == quote) out.push_back(quote);
    out.push_back(c);
  }
  out.push_back(quote);
  return out;
}

// Quoted as a whole where it is not plain names with dots between: a quoted name stands for what it spells, dots
// included.
std::string column_text(const std::string& column) {
  bool plain = !column.empty();
  bool at_start = true;
  for (const char c : column) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    if (!letter && (at_start || !((c >= '0' && c <= '9') || c == '.'))) plain = false;
    at_start = c == '.';
  }
  return plain && !at_start ? column : in_quotes(column, '"');
}

std::string term_text(const Expression& predicate) {
  if (!predicate.transform) return column_text(predicate.column);
  const Transform& transform = *predicate.transform;
  const std::string column = column_text(predicate.column);
  if (transform.kind == TransformKind::bucket || transform.kind == TransformKind::truncate)
    return fmt::format("{}({}, {})", transform.kind == TransformKind::bucket ? "bucket" : "truncate",
                       transform.parameter, column);
  return fmt::format("{}({})", transform.name, column);
}

std::string bound_literal_text(const Value& value, const Type& type) {
  switch (type.id()) {
    case TypeId::boolean_:
    case TypeId::int_:
    case TypeId::long_:
    case TypeId::decimal:
      return to_display(value, type);
    case TypeId::float_:
    case TypeId::double_: {
      std::string text = to_display(value, type);
      return text.find_first_of("In") == std::string::npos ? text : in_quotes(text, '\'');  // NaN, Infinity
    }
    case TypeId::fixed:
    case TypeId::binary:
      return "x'" + to_hex(std::get<std::string>(value)) + "'";
    default:
      return in_quotes(to_display(value, type), '\'');
  }
}

std::string unbound_literal_text(const Value& value) {
  if (const auto* v = std::get_if<bool>(&value)) return *v ? "true" : "false";
  if (const auto* v = std::get_if<int32_t>(&value)) return std::to_string(*v);
  if (const auto* v = std::get_if<int64_t>(&value)) return std::to_string(*v);
  if (std::holds_alternative<float>(value)) return bound_literal_text(value, *Type::primitive(TypeId::float_));
  if (std::holds_alternative<double>(value)) return bound_literal_text(value, *Type::primitive(TypeId::double_));
  if (const auto* v = std::get_if<arrow::Decimal128>(&value)) return v->ToIntegerString();
  if (const auto* v = std::get_if<std::string>(&value)) return in_quotes(*v, '\'');
  if (const auto* v = std::get_if<NestedJson>(&value)) {
    if (!v->text.starts_with('"')) return v->text;
    return in_quotes(parse_json(v->text, "a literal").get<std::string>(), '\'');
  }
  return "null";
}

std::string literal_text(const Expression& predicate, size_t i) {
  const Value& value = predicate.literals.at(i);
  if (!predicate.type || is_null(value) || predicate.transform) return unbound_literal_text(value);
  return bound_literal_text(value, *predicate.type);
}

std::string literal_list(const Expression& predicate) {
  std::string text;
  for (size_t i = 0; i < predicate.literals.size(); ++i) text += (i == 0 ? "" : ", ") + literal_text(predicate, i);
  return "(" + text + ")";
}

std::string prefix_pattern(const Expression& predicate) {
  const Value& value = predicate.literals.at(0);
  std::string prefix;
  if (const auto* json = std::get_if<NestedJson>(&value))
    prefix = parse_json(json->text, "a literal").get<std::string>();
  else
    prefix = std::get<std::string>(value);
  std::string pattern;
  for (const char c : prefix) {
    if (c == '%' || c == '_' || c == '\\') pattern.push_back('\\');
    pattern.push_back(c);
  }
  return in_quotes(pattern + "%", '\'');
}

void collect_ids(const Expression& expression, std::vector<int32_t>& ids) {
  if (expression.field_id) ids.push_back(*expression.field_id);
  for (const ExpressionPtr& child : expression.children) collect_ids(*child, ids);
}

}  // namespace

ExpressionPtr always_true() {
  static const ExpressionPtr kTrue = make(Op::always_true, {});
  return kTrue;
}

ExpressionPtr always_false() {
  static const ExpressionPtr kFalse = make(Op::always_false, {});
  return kFalse;
}

ExpressionPtr and_(ExpressionPtr a, ExpressionPtr b) {
  if (a->op == Op::always_false || b->op == Op::always_true) return a;
  if (b->op == Op::always_false || a->op == Op::always_true) return b;
  return make(Op::and_, {std::move(a), std::move(b)});
}

ExpressionPtr or_(ExpressionPtr a, ExpressionPtr b) {
  if (a->op == Op::always_true || b->op == Op::always_false) return a;
  if (b->op == Op::always_true || a->op == Op::always_false) return b;
  return make(Op::or_, {std::move(a), std::move(b)});
}

ExpressionPtr not_(ExpressionPtr a) {
  if (a->op == Op::always_true) return always_false();
  if (a->op == Op::always_false) return always_true();
  if (a->op == Op::not_) return a->children[0];
  return make(Op::not_, {std::move(a)});
}

ExpressionPtr predicate(Op op, std::string column, std::vector<Value> literals) {
  auto expression = std::make_shared<Expression>();
  expression->op = op;
  expression->column = std::move(column);
  expression->literals = std::move(literals);
  return expression;
}

ExpressionPtr predicate(Op op, Transform transform, std::string column, std::vector<Value> literals) {
  auto expression = std::make_shared<Expression>();
  expression->op = op;
  expression->column = std::move(column);
  expression->literals = std::move(literals);
  expression->transform = std::move(transform);
  return expression;
}

std::string to_string(const Expression& expression) {
  const auto child = [&](size_t i) { return to_string(*expression.children.at(i)); };
  const auto compared = [&](const char* symbol) {
    return fmt::format("{} {} {}", term_text(expression), symbol, literal_text(expression, 0));
  };
  switch (expression.op) {
    case Op::always_true:
      return "true";
    case Op::always_false:
      return "false";
    case Op::and_:
      return fmt::format("({} and {})", child(0), child(1));
    case Op::or_:
      return fmt::format("({} or {})", child(0), child(1));
    case Op::not_:
      return fmt::format("not ({})", child(0));
    case Op::is_null:
      return term_text(expression) + " is null";
    case Op::not_null:
      return term_text(expression) + " is not null";
    case Op::is_nan:
      return term_text(expression) + " is nan";
    case Op::not_nan:
      return term_text(expression) + " is not nan";
    case Op::lt:
      return compared("<");
    case Op::lt_eq:
      return compared("<=");
    case Op::gt:
      return compared(">");
    case Op::gt_eq:
      return compared(">=");
    case Op::eq:
      return compared("=");
    case Op::not_eq_:
      return compared("!=");
    case Op::in:
      return fmt::format("{} in {}", term_text(expression), literal_list(expression));
    case Op::not_in:
      return fmt::format("{} not in {}", term_text(expression), literal_list(expression));
    case Op::starts_with:
      return fmt::format("{} like {}", term_text(expression), prefix_pattern(expression));
    case Op::not_starts_with:
      return fmt::format("{} not like {}", term_text(expression), prefix_pattern(expression));
  }
  return {};
}

std::vector<int32_t> referenced_field_ids(const Expression& bound) {
  std::vector<int32_t> ids;
  collect_ids(bound, ids);
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

}  // namespace firn::iceberg
