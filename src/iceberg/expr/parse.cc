// The text and the JSON form of expressions.
#include <charconv>

#include <fmt/format.h>

#include "base/error.h"
#include "iceberg/expr/parse.h"

namespace firn::iceberg {
namespace {

constexpr int kDepthMax = 500;  // of parentheses, or of JSON: hostile text must not exhaust the stack

// a op b op c … as a tree of low depth.
ExpressionPtr balanced(Op op, const std::vector<ExpressionPtr>& parts, size_t begin, size_t end) {
  if (end - begin == 1) return parts[begin];
  const size_t middle = begin + (end - begin) / 2;
  auto left = balanced(op, parts, begin, middle);
  auto right = balanced(op, parts, middle, end);
  return op == Op::and_ ? and_(std::move(left), std::move(right)) : or_(std::move(left), std::move(right));
}

bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<uint8_t>(c) >= 0x80;
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

enum class TokenKind : uint8_t { end, name, quoted_name, string, bytes, number, symbol };

struct Token {
  TokenKind kind = TokenKind::end;
  std::string text;   // names as written; strings without their quotes; numbers and symbols as written
  size_t offset = 0;  // of its first byte
};

class Parser {
 public:
  // `schema`: of the columns, or nullptr where they are not known.
  explicit Parser(std::string_view text, const Schema* schema = nullptr) : text_(text), schema_(schema) { advance(); }

  ExpressionPtr parse_all() {
    auto expression = parse_or(0);
    if (token_.kind != TokenKind::end) fail_here("an operator or the end");
    return expression;
  }

 private:
  struct Term {
    std::string column;
    std::optional<Transform> transform;
    bool quoted = false;
  };

  ExpressionPtr parse_or(int depth) {
    if (depth > kDepthMax) fail_here(fmt::format("at most {} levels of parentheses", kDepthMax));
    std::vector<ExpressionPtr> parts{parse_and(depth)};
    while (take_keyword("or")) parts.push_back(parse_and(depth));
    return balanced(Op::or_, parts, 0, parts.size());
  }

  ExpressionPtr parse_and(int depth) {
    std::vector<ExpressionPtr> parts{parse_unary(depth)};
    while (take_keyword("and")) parts.push_back(parse_unary(depth));
    return balanced(Op::and_, parts, 0, parts.size());
  }

  ExpressionPtr parse_unary(int depth) {
    bool negated = false;
    while (take_keyword("not")) negated = !negated;
    auto expression = parse_primary(depth);
    return negated ? not_(std::move(expression)) : expression;
  }

  ExpressionPtr parse_primary(int depth) {
    if (take_symbol("(")) {
      auto expression = parse_or(depth + 1);
      expect_symbol(")");
      return expression;
    }
    if (starts_literal()) return parse_reversed();
    if (is_keyword("true") || is_keyword("false")) {
      const bool value = is_keyword("true");
      advance();
      return value ? always_true() : always_false();
    }
    if (token_.kind != TokenKind::name && token_.kind != TokenKind::quoted_name) fail_here("a column");
    const Token first = token_;
    Term term = parse_column();
    if (!term.quoted && take_symbol("(")) {
      const std::string function = lower(term.column);
      if (function == "isnan" || function == "is_nan") return parse_call(Op::is_nan);
      if (function == "isnull" || function == "is_null") return parse_call(Op::is_null);
      if (function == "starts_with") {
        term = parse_column();
        expect_symbol(",");
        Value prefix = parse_literal(&term);
        expect_symbol(")");
        return leaf(Op::starts_with, term, {std::move(prefix)});
      }
      term = parse_transform(function, first);
    }
    return parse_predicate(term);
  }

  ExpressionPtr parse_call(Op op) {
    const Term term = parse_column();
    expect_symbol(")");
    return leaf(op, term, {});
  }

  // After "name(": `column)`, or `parameter, column)` in either order.
  Term parse_transform(const std::string& function, const Token& at) {
    std::string parameter;
    if (token_.kind == TokenKind::number) {
      parameter = token_.text;
      advance();
      expect_symbol(",");
    }
    Term term = parse_column();
    if (parameter.empty() && take_symbol(",")) {
      if (token_.kind != TokenKind::number) fail_here("a number");
      parameter = token_.text;
      advance();
    }
    expect_symbol(")");
    term.transform = Transform::parse(parameter.empty() ? function : fmt::format("{}[{}]", function, parameter));
    if (term.transform->kind == TransformKind::unknown)
      fail_at(at.offset, "isnan, starts_with or a transform (year, month, day, hour, bucket(N, c), truncate(W, c))");
    return term;
  }

  ExpressionPtr parse_predicate(const Term& term) {
    if (const auto op = take_comparison()) {
      Value value = parse_literal(&term);
      if (*op == Op::eq || *op == Op::not_eq_) check_length(term, value);
      return leaf(*op, term, {std::move(value)});
    }
    if (take_keyword("is")) {
      const bool negated = take_keyword("not");
      if (take_keyword("null")) return leaf(negated ? Op::not_null : Op::is_null, term, {});
      if (take_keyword("nan")) return leaf(negated ? Op::not_nan : Op::is_nan, term, {});
      fail_here("null or nan");
    }
    const bool negated = take_keyword("not");
    if (take_keyword("in")) {
      expect_symbol("(");
      std::vector<Value> values{parse_literal(&term)};
      while (take_symbol(",")) values.push_back(parse_literal(&term));
      expect_symbol(")");
      for (const Value& value : values) check_length(term, value);
      return leaf(negated ? Op::not_in : Op::in, term, std::move(values));
    }
    if (take_keyword("like")) return parse_like(term, negated);
    if (take_keyword("between")) {
      Value low = parse_literal(&term);
      if (!take_keyword("and")) fail_here("and");
      auto range = and_(leaf(Op::gt_eq, term, {std::move(low)}), leaf(Op::lt_eq, term, {parse_literal(&term)}));
      return negated ? not_(std::move(range)) : range;
    }
    if (negated) fail_here("in, like or between");
    return leaf(Op::eq, term, {true});  // a boolean column alone
  }

  ExpressionPtr parse_like(const Term& term, bool negated) {
    if (token_.kind != TokenKind::string) fail_here("a quoted pattern");
    check_text(term, token_.text);
    std::string prefix;
    bool any_end = false;
    for (size_t i = 0; i < token_.text.size(); ++i) {
      char c = token_.text[i];
      const bool escaped = c == '\\' && i + 1 < token_.text.size();
      if (escaped) c = token_.text[++i];
      if (any_end || (!escaped && c == '_'))
        fail_here("a pattern of a prefix and % at its end (\\_ and \\% stand for themselves)");
      if (!escaped && c == '%')
        any_end = true;
      else
        prefix.push_back(c);
    }
    advance();
    if (any_end) return leaf(negated ? Op::not_starts_with : Op::starts_with, term, {std::move(prefix)});
    return leaf(negated ? Op::not_eq_ : Op::eq, term, {std::move(prefix)});
  }

  // `5 < x`.
  ExpressionPtr parse_reversed() {
    const Token literal = token_;
    Value value = parse_literal(nullptr);
    auto op = take_comparison();
    if (!op) fail_here("a comparison");
    switch (*op) {
      case Op::lt:
        op = Op::gt;
        break;
      case Op::lt_eq:
        op = Op::gt_eq;
        break;
      case Op::gt:
        op = Op::lt;
        break;
      case Op::gt_eq:
        op = Op::lt_eq;
        break;
      default:
        break;
    }
    const Token first = token_;
    Term term = parse_column();
    if (!term.quoted && take_symbol("(")) term = parse_transform(lower(term.column), first);
    if (literal.kind == TokenKind::string) check_text(term, literal.text);
    if (*op == Op::eq || *op == Op::not_eq_) check_length(term, value);
    return leaf(*op, term, {std::move(value)});
  }

  Term parse_column() {
    Term term;
    while (true) {
      if (token_.kind != TokenKind::name && token_.kind != TokenKind::quoted_name) fail_here("a column");
      term.quoted |= token_.kind == TokenKind::quoted_name;
      term.column += token_.text;
      advance();
      if (!take_symbol(".")) return term;
      term.column += '.';
    }
  }

  bool starts_literal() const {
    return token_.kind == TokenKind::string || token_.kind == TokenKind::bytes || token_.kind == TokenKind::number;
  }

  // The type of the values that `term` has; nullptr: not known.
  const Type* type_of(const Term& term) const {
    const bool is_bucket = term.transform && term.transform->kind == TransformKind::bucket;
    const Field* field = schema_ == nullptr || is_bucket ? nullptr : schema_->find_field(term.column);
    return field == nullptr ? nullptr : field->type.get();
  }

  void check_text(const Term& term, std::string_view text) const {
    const Type* type = type_of(term);
    if (type == nullptr || (type->id() != TypeId::binary && type->id() != TypeId::fixed)) return;
    const bool is_hex = text.size() % 2 == 0 && text.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
    fail(ErrorKind::invalid_argument, "Column {} of type {} is compared with the text '{}': bytes are written as x'{}'",
         term.column, type->to_string(), text, is_hex ? lower(text) : "0aff");
  }

  void check_length(const Term& term, const Value& value) const {
    const Type* type = type_of(term);
    const auto* bytes = std::get_if<std::string>(&value);
    if (type == nullptr || term.transform || type->id() != TypeId::fixed || bytes == nullptr) return;
    if (bytes->size() == static_cast<size_t>(type->length())) return;
    fail(ErrorKind::invalid_argument, "Column {} of type {} is compared with {} bytes: none of its values is equal",
         term.column, type->to_string(), bytes->size());
  }

  // `term`: what it is compared with, if that is known.
  Value parse_literal(const Term* term) {
    const Token token = token_;
    advance();
    switch (token.kind) {
      case TokenKind::string:
        if (term != nullptr) check_text(*term, token.text);
        return token.text;
      case TokenKind::bytes:
        return token.text;
      case TokenKind::number: {
        int64_t integer = 0;
        const char* end = token.text.data() + token.text.size();
        const auto [stop, error] = std::from_chars(token.text.data(), end, integer);
        if (error == std::errc() && stop == end) return integer;
        return NestedJson{token.text};  // its digits are kept for a decimal column
      }
      case TokenKind::name: {
        const std::string word = lower(token.text);
        if (word == "true" || word == "false") return word == "true";
        if (word == "null") return {};
        // date '2024-01-01': the column says the type.
        if (token_.kind == TokenKind::string) return parse_literal(term);
        break;
      }
      default:
        break;
    }
    fail_at(token.offset, "a literal (a number, a 'quoted' text, x'hex', true, false or null)");
  }

  std::optional<Op> take_comparison() {
    static constexpr std::pair<std::string_view, Op> kSymbols[] = {
        {"<", Op::lt}, {"<=", Op::lt_eq}, {">", Op::gt},       {">=", Op::gt_eq},
        {"=", Op::eq}, {"==", Op::eq},    {"!=", Op::not_eq_}, {"<>", Op::not_eq_},
    };
    if (token_.kind != TokenKind::symbol) return std::nullopt;
    for (const auto& [symbol, op] : kSymbols) {
      if (token_.text != symbol) continue;
      advance();
      return op;
    }
    return std::nullopt;
  }

  static ExpressionPtr leaf(Op op, const Term& term, std::vector<Value> literals) {
    if (!term.transform) return predicate(op, term.column, std::move(literals));
    return predicate(op, *term.transform, term.column, std::move(literals));
  }

  static std::string lower(std::string_view text) {
    std::string out(text);
    for (char& c : out)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return out;
  }

  bool is_keyword(std::string_view word) const { return token_.kind == TokenKind::name && lower(token_.text) == word; }

  bool take_keyword(std::string_view word) {
    if (!is_keyword(word)) return false;
    advance();
    return true;
  }

  bool take_symbol(std::string_view symbol) {
    if (token_.kind != TokenKind::symbol || token_.text != symbol) return false;
    advance();
    return true;
  }

  void expect_symbol(std::string_view symbol) {
    if (!take_symbol(symbol)) fail_here(symbol);
  }

  [[noreturn]] void fail_here(std::string_view expected) const { fail_at(token_.offset, expected); }

  [[noreturn]] void fail_at(size_t offset, std::string_view expected) const {
    std::string_view found = text_.substr(offset, 20);
    fail(ErrorKind::invalid_argument, "The filter is wrong at byte {}: expected {}, found {}", offset + 1, expected,
         found.empty() ? "the end" : found);
  }

  // Reads the text between two `quote`s from at_ on, doubled ones standing for themselves.
  std::string quoted_text(char quote) {
    const size_t begin = at_++;
    std::string out;
    while (true) {
      if (at_ >= text_.size()) fail_at(begin, fmt::format("a closing {}", quote));
      const char c = text_[at_++];
      if (c != quote) {
        out.push_back(c);
      } else if (at_ < text_.size() && text_[at_] == quote) {
        out.push_back(quote);
        ++at_;
      } else {
        return out;
      }
    }
  }

  void advance() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
    token_ = {.offset = at_};
    if (at_ >= text_.size()) return;
    const char c = text_[at_];
    const char next = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
    if (c == '\'') {
      token_.kind = TokenKind::string;
      token_.text = quoted_text('\'');
    } else if ((c == 'x' || c == 'X') && next == '\'') {
      ++at_;
      token_.kind = TokenKind::bytes;
      token_.text = hex_bytes(quoted_text('\''));
    } else if (c == '"') {
      token_.kind = TokenKind::quoted_name;
      token_.text = quoted_text('"');
    } else if (is_digit(c) || ((c == '-' || c == '+' || c == '.') && (is_digit(next) || next == '.'))) {
      read_number();
    } else if (is_name_start(c)) {
      const size_t begin = at_;
      while (at_ < text_.size() && (is_name_start(text_[at_]) || is_digit(text_[at_]) || text_[at_] == '$')) ++at_;
      token_.kind = TokenKind::name;
      token_.text = text_.substr(begin, at_ - begin);
    } else {
      const bool two = (next == '=' && (c == '<' || c == '>' || c == '!' || c == '=')) || (c == '<' && next == '>');
      token_.kind = TokenKind::symbol;
      token_.text = text_.substr(at_, two ? 2 : 1);
      at_ += two ? 2 : 1;
    }
  }

  void read_number() {
    const size_t begin = at_;
    if (text_[at_] == '+' || text_[at_] == '-') ++at_;
    const size_t digits = at_;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      const bool exponent_sign = (c == '+' || c == '-') && (text_[at_ - 1] == 'e' || text_[at_ - 1] == 'E');
      if (!is_digit(c) && c != '.' && c != 'e' && c != 'E' && !exponent_sign) break;
      ++at_;
    }
    std::string number(text_.substr(digits, at_ - digits));
    double value = 0;
    const auto [stop, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    if (error == std::errc::invalid_argument || stop != number.data() + number.size()) fail_at(begin, "a number");
    token_.kind = TokenKind::number;
    token_.text = (text_[begin] == '-' ? "-" : "") + number;
  }

  std::string hex_bytes(const std::string& hex) const {
    std::string bytes;
    for (size_t i = 0; i < hex.size(); i += 2) {
      uint8_t byte = 0;
      const char* begin = hex.data() + i;
      if (hex.size() % 2 != 0 || std::from_chars(begin, begin + 2, byte, 16).ptr != begin + 2)
        fail_at(token_.offset, "two hexadecimal digits for each byte");
      bytes.push_back(static_cast<char>(byte));
    }
    return bytes;
  }

  std::string_view text_;
  const Schema* schema_;
  size_t at_ = 0;
  Token token_;
};

struct JsonOp {
  std::string_view name;
  Op op;
};
constexpr JsonOp kUnaryOps[] = {
    {"is-null", Op::is_null}, {"not-null", Op::not_null}, {"is-nan", Op::is_nan}, {"not-nan", Op::not_nan}};
constexpr JsonOp kLiteralOps[] = {{"lt", Op::lt},
                                  {"lt-eq", Op::lt_eq},
                                  {"gt", Op::gt},
                                  {"gt-eq", Op::gt_eq},
                                  {"eq", Op::eq},
                                  {"not-eq", Op::not_eq_},
                                  {"starts-with", Op::starts_with},
                                  {"not-starts-with", Op::not_starts_with}};
constexpr JsonOp kSetOps[] = {{"in", Op::in}, {"not-in", Op::not_in}};

template <size_t N>
std::optional<Op> find_op(const JsonOp (&ops)[N], std::string_view name) {
  for (const JsonOp& known : ops)
    if (known.name == name) return known.op;
  return std::nullopt;
}

const Json& member(const Json& json, const char* key, std::string_view where) {
  const auto found = json.find(key);
  if (found == json.end()) fail(ErrorKind::corrupt, "{}: the expression has no \"{}\"", where, key);
  return *found;
}

Value literal_from_json(const Json& json, std::string_view where) {
  if (json.is_object() && json.contains("value")) return literal_from_json(json["value"], where);
  if (json.is_null()) return {};
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_integer() && !(json.is_number_unsigned() && json.get<uint64_t>() > INT64_MAX))
    return json.get<int64_t>();
  if (json.is_number_float()) return json.get<double>();
  if (json.is_string() || json.is_number()) return NestedJson{json.dump()};
  fail(ErrorKind::corrupt, "{}: a literal is no value of a primitive type", where);
}

ExpressionPtr leaf_from_json(Op op, const Json& json, std::vector<Value> literals, std::string_view where) {
  const Json* term = &member(json, "term", where);
  std::optional<Transform> transform;
  for (int depth = 0; term->is_object() && depth < 3; ++depth) {
    const std::string kind = get_string(*term, "type", where);
    if (kind == "transform")
      transform = Transform::parse(get_string(*term, "transform", where));
    else if (kind != "reference")
      fail(ErrorKind::corrupt, "{}: \"{}\" is no term: reference or transform", where, kind);
    term = &member(*term, "term", where);
  }
  if (!term->is_string()) fail(ErrorKind::corrupt, "{}: a term names no column", where);
  if (transform) return predicate(op, *transform, term->get<std::string>(), std::move(literals));
  return predicate(op, term->get<std::string>(), std::move(literals));
}

ExpressionPtr from_json_at(const Json& json, std::string_view where, int depth) {
  if (depth > kDepthMax)
    fail(ErrorKind::corrupt, "{}: the expression is nested deeper than {} levels", where, kDepthMax);
  if (json.is_boolean()) return json.get<bool>() ? always_true() : always_false();
  if (!json.is_object()) fail(ErrorKind::corrupt, "{}: an expression must be true, false or an object", where);
  const std::string kind = get_string(json, "type", where);
  if (kind == "true") return always_true();
  if (kind == "false") return always_false();
  if (kind == "not") return not_(from_json_at(member(json, "child", where), where, depth + 1));
  if (kind == "and" || kind == "or") {
    auto left = from_json_at(member(json, "left", where), where, depth + 1);
    auto right = from_json_at(member(json, "right", where), where, depth + 1);
    return kind == "and" ? and_(std::move(left), std::move(right)) : or_(std::move(left), std::move(right));
  }
  if (const auto op = find_op(kUnaryOps, kind)) return leaf_from_json(*op, json, {}, where);
  if (const auto op = find_op(kLiteralOps, kind))
    return leaf_from_json(*op, json, {literal_from_json(member(json, "value", where), where)}, where);
  if (const auto op = find_op(kSetOps, kind)) {
    std::vector<Value> literals;
    for (const Json& value : get_array(json, "values", where)) literals.push_back(literal_from_json(value, where));
    return leaf_from_json(*op, json, std::move(literals), where);
  }
  fail(ErrorKind::corrupt, "{}: \"{}\" is no kind of expression", where, kind);
}

}  // namespace

ExpressionPtr parse_expression(std::string_view text) { return Parser(text).parse_all(); }

ExpressionPtr parse_expression_on(const Schema& schema, std::string_view text) {
  return Parser(text, &schema).parse_all();
}

ExpressionPtr expression_from_json(const Json& json, std::string_view where) { return from_json_at(json, where, 0); }

}  // namespace firn::iceberg
