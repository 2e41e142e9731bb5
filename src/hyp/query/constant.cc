#include "hyp/query/constant.h"

#include <cmath>
#include <cstdlib>
#include <string>

#include "hyp/query/statement.h"

namespace firn::hyp {
namespace {

using iceberg::TypeId;
using iceberg::Value;

enum class ConstantKind : uint8_t { text, integer, decimal, floating, boolean_, temporal };

struct Constant {
  ConstantKind kind;
  std::string sql;  // DuckDB's spelling
};

std::string quoted(const std::string& text) {
  std::string sql = "'";
  for (const char c : text) sql += c == '\'' ? "''" : std::string(1, c);
  return sql + "'";
}

std::optional<Constant> plain_constant(const Json& node) {
  const auto value = node.find("value");
  if (value == node.end() || !value->is_object() || !value->contains("type") || !value->contains("value"))
    return std::nullopt;
  if (value->contains("is_null") && (*value)["is_null"] != false) return std::nullopt;
  const std::string id = text_of((*value)["type"], "id");
  const Json& content = (*value)["value"];
  if (id == "VARCHAR" && content.is_string()) {
    const auto text = content.get<std::string>();
    if (text.find('\0') != std::string::npos) return std::nullopt;
    return Constant{ConstantKind::text, quoted(text)};
  }
  if ((id == "TINYINT" || id == "SMALLINT" || id == "INTEGER" || id == "BIGINT") && content.is_number_integer()) {
    return Constant{ConstantKind::integer, fmt::format("{}::{}", content.get<int64_t>(), id)};
  }
  if (id == "BOOLEAN" && content.is_boolean())
    return Constant{ConstantKind::boolean_, content.get<bool>() ? "true" : "false"};
  if (id == "DOUBLE" && content.is_number() && std::isfinite(content.get<double>())) {
    return Constant{ConstantKind::floating, fmt::format("'{}'::DOUBLE", content.get<double>())};
  }
  if (id == "DECIMAL" && content.is_number_integer()) {  // the unscaled number
    const Json& info = (*value)["type"]["type_info"];
    if (!info.is_object() || !info.contains("width") || !info.contains("scale")) return std::nullopt;
    const int64_t unscaled = content.get<int64_t>();
    const uint64_t magnitude = unscaled < 0 ? 0 - static_cast<uint64_t>(unscaled) : static_cast<uint64_t>(unscaled);
    const auto scale = info["scale"].get<size_t>();
    const std::string padded = fmt::format("{:0>{}}", magnitude, scale + 1);
    const std::string digits = padded.substr(0, padded.size() - scale) + "." + padded.substr(padded.size() - scale);
    return Constant{ConstantKind::decimal, fmt::format("'{}{}'::DECIMAL({},{})", unscaled < 0 ? "-" : "", digits,
                                                       info["width"].get<int>(), scale)};
  }
  return std::nullopt;
}

// No 'now' or 'today', which mean another time when the statement runs, and no infinity.
bool is_fixed_time(const std::string& quoted_text) {
  return quoted_text.size() > 2 && quoted_text[1] >= '0' && quoted_text[1] <= '9';
}

std::optional<Constant> to_constant(const Json& node) {
  if (text_of(node, "class") == "CONSTANT") return plain_constant(node);
  if (text_of(node, "class") != "CAST" || !node.contains("child") || !node.contains("cast_type")) return std::nullopt;
  if (const auto tried = node.find("try_cast"); tried != node.end() && *tried != false) return std::nullopt;
  const std::string target = text_of(node["cast_type"], "id");
  if (target != "DATE" && target != "TIMESTAMP" && target != "TIMESTAMP WITH TIME ZONE") return std::nullopt;
  if (text_of(node["child"], "class") != "CONSTANT") return std::nullopt;
  const auto inner = plain_constant(node["child"]);
  if (!inner || inner->kind != ConstantKind::text) return std::nullopt;
  if (!is_fixed_time(inner->sql)) return std::nullopt;
  return Constant{ConstantKind::temporal, fmt::format("cast({} as {})", inner->sql, target)};
}

// DuckDB's name of a column type that is pruned by, or nullptr.
const char* duckdb_type(const iceberg::Type& type) {
  switch (type.id()) {
    case TypeId::boolean_:
      return "BOOLEAN";
    case TypeId::int_:
      return "INTEGER";
    case TypeId::long_:
      return "BIGINT";
    case TypeId::float_:
      return "FLOAT";
    case TypeId::double_:
      return "DOUBLE";
    case TypeId::decimal:
      return "DECIMAL";
    case TypeId::date:
      return "DATE";
    case TypeId::timestamp:
      return "TIMESTAMP";
    case TypeId::timestamptz:
      return "TIMESTAMPTZ";
    case TypeId::string:
      return "VARCHAR";
    default:
      return nullptr;
  }
}

// Whether DuckDB compares a column of `id` with such a constant in a type that holds the column's values exactly. An
// integer column and a DOUBLE meet in DOUBLE, where neighbours become equal; a text column and a number meet in the
// number's type.
bool compares_exactly(TypeId id, ConstantKind kind) {
  switch (id) {
    case TypeId::boolean_:
      return kind == ConstantKind::boolean_;
    case TypeId::int_:
    case TypeId::long_:
    case TypeId::decimal:
      return kind == ConstantKind::integer || kind == ConstantKind::decimal;
    case TypeId::float_:
      return kind == ConstantKind::integer;
    case TypeId::double_:
      return kind == ConstantKind::integer || kind == ConstantKind::decimal || kind == ConstantKind::floating;
    case TypeId::date:
    case TypeId::timestamp:
    case TypeId::timestamptz:
      return kind == ConstantKind::text || kind == ConstantKind::temporal;
    case TypeId::string:
      return kind == ConstantKind::text;
    default:
      return false;
  }
}

// The constant cast to the column's type by DuckDB, as text; nullopt if it does not cast, or to another value.
std::optional<std::string> cast_by_duckdb(duckdb_connection connection, const Constant& constant,
                                          const std::string& type) {
  const std::string sql =
      fmt::format("select cast(v as varchar), v = {0} from (select try_cast({0} as {1}) as v)", constant.sql, type);
  DuckStatement statement;
  DuckResult result;
  if (duckdb_prepare(connection, sql.c_str(), statement.out()) != DuckDBSuccess) return std::nullopt;
  if (duckdb_execute_prepared(statement.get(), &result.result) != DuckDBSuccess) return std::nullopt;
  if (take_text(duckdb_value_varchar(&result.result, 1, 0)) != "true") return std::nullopt;
  return take_text(duckdb_value_varchar(&result.result, 0, 0));
}

std::optional<Value> parse_literal(const std::string& text, const iceberg::Type& type) {
  switch (type.id()) {
    case TypeId::boolean_:
      return Value(text == "true");
    case TypeId::int_:
    case TypeId::long_:
      return Value(static_cast<int64_t>(std::strtoll(text.c_str(), nullptr, 10)));
    case TypeId::float_:
    case TypeId::double_: {
      const double number = std::strtod(text.c_str(), nullptr);
      constexpr double kExactBelow = 16777216;  // 2^24: a float holds every integer up to it
      if (!std::isfinite(number) || (type.id() == TypeId::float_ && std::abs(number) > kExactBelow))
        return std::nullopt;
      return Value(number);
    }
    default:
      return Value(text);
  }
}

}  // namespace

std::optional<Value> to_literal(duckdb_connection connection, const Json& node, const iceberg::Type& type) {
  const char* name = duckdb_type(type);
  if (name == nullptr) return std::nullopt;
  const auto constant = to_constant(node);
  if (!constant || !compares_exactly(type.id(), constant->kind)) return std::nullopt;
  const bool is_time = type.id() == TypeId::date || type.id() == TypeId::timestamp || type.id() == TypeId::timestamptz;
  if (is_time && constant->kind == ConstantKind::text && !is_fixed_time(constant->sql)) return std::nullopt;
  std::string column_type = name;
  if (type.id() == TypeId::decimal) column_type = fmt::format("DECIMAL({},{})", type.precision(), type.scale());
  const auto text = cast_by_duckdb(connection, *constant, column_type);
  if (!text) return std::nullopt;
  auto literal = parse_literal(*text, type);
  if (!literal) return std::nullopt;
  try {  // what firn cannot read as such a literal (infinity, years BC) proves nothing
    const iceberg::Schema schema({{1, "c", false, std::make_shared<const iceberg::Type>(type), "", {}, {}}});
    iceberg::bind(*iceberg::predicate(iceberg::Op::eq, "c", {*literal}), schema);
  } catch (const Error&) {
    return std::nullopt;
  }
  return literal;
}

}  // namespace firn::hyp
