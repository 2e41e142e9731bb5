#include "hyp/query/statement.h"

#include <algorithm>

namespace firn::hyp {
namespace {

constexpr std::string_view kNotFinite[] = {"Infinity", "-Infinity", "NaN", "-NaN"};

// As SQL spells a table's name.
std::string identifier(const std::string& name) {
  const auto is_plain = [](char c) {
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  const bool starts_with_digit = !name.empty() && name[0] >= '0' && name[0] <= '9';
  if (!name.empty() && !starts_with_digit && std::all_of(name.begin(), name.end(), is_plain)) return name;
  return '"' + name + '"';  // a dataset's name has no quote
}

// JSON has no such numbers, and DuckDB writes them all the same ("select 1e400"): as null, which is no constant.
std::string with_finite_numbers(const std::string& text) {
  std::string finite;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (!in_string) {
      const std::string_view rest = std::string_view(text).substr(i);
      const auto word = std::find_if(std::begin(kNotFinite), std::end(kNotFinite),
                                     [&](std::string_view one) { return rest.starts_with(one); });
      if (word != std::end(kNotFinite)) {
        finite += "null";
        i += word->size() - 1;
        continue;
      }
    }
    if (text[i] == '"') in_string = !in_string;
    finite += text[i];
    if (in_string && text[i] == '\\' && i + 1 < text.size()) finite += text[++i];
  }
  return finite;
}

}  // namespace

std::string text_of(const Json& node, const char* key) {
  const auto found = node.find(key);
  return found != node.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::optional<Json> parse_select(duckdb_connection connection, const std::string& sql) {
  DuckStatement statement;
  DuckResult result;
  if (duckdb_prepare(connection, "select json_serialize_sql(?::VARCHAR)", statement.out()) != DuckDBSuccess) {
    fail(ErrorKind::internal, "DuckDB gives no syntax trees: {}", duckdb_prepare_error(statement.get()));
  }
  duckdb_bind_varchar(statement.get(), 1, sql.c_str());
  if (duckdb_execute_prepared(statement.get(), &result.result) != DuckDBSuccess) return std::nullopt;
  // DuckDB bounds the depth.
  const std::string text = with_finite_numbers(take_text(duckdb_value_varchar(&result.result, 0, 0)));
  Json ast = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (const auto error = ast.find("error"); error == ast.end() || *error != false) return std::nullopt;
  return ast;
}

void check_qualified_names(const Json& ast, Cut& cut) {
  if (!ast.is_structured()) return;
  if (ast.is_object() && text_of(ast, "type") == "BASE_TABLE") {
    const std::string schema = text_of(ast, "schema_name");
    const std::string table = text_of(ast, "table_name");
    const std::string folded = fold_name(schema);
    const bool is_system = folded == "information_schema" || folded == "pg_catalog";
    if (!schema.empty() && folded != "main" && !is_system && !cut.resolve(table).empty()) {
      fail(ErrorKind::invalid_argument,
           "datasets have no schemas: write {}, or \"{}.{}\" in double quotes if that is a dataset's name",
           identifier(table), schema, table);
    }
  }
  for (const Json& child : ast) check_qualified_names(child, cut);
}

bool begins_as_reading(std::string_view sql) {
  const auto skip = [&](size_t count) { sql.remove_prefix(std::min(count, sql.size())); };
  for (;;) {
    skip(sql.find_first_not_of(" \t\r\n(;"));
    if (sql.starts_with("--")) {
      skip(sql.find('\n'));
    } else if (sql.starts_with("/*")) {
      skip(2);
      skip(sql.find("*/"));
      skip(2);
    } else {
      break;
    }
  }
  const std::string word =
      fold_name(sql.substr(0, sql.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")));
  for (const std::string_view reading : {"select", "with", "values", "from", "describe", "desc", "summarize", "explain",
                                         "show", "table", "pivot", "unpivot"}) {
    if (word == reading) return true;
  }
  return false;
}

std::string with_tables_shown(const std::string& sql, Cut& cut) {
  std::string words;
  for (const char c : sql) {
    const bool is_space = c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == ';';
    if (!is_space) words += c;
    if (is_space && !words.empty() && words.back() != ' ') words += ' ';
  }
  while (!words.empty() && words.back() == ' ') words.pop_back();
  if (fold_name(words) != "show tables") return sql;
  std::string list;
  for (const std::string& name : cut.names()) list += fmt::format("{}('{}')", list.empty() ? "" : ", ", name);
  return list.empty() ? "select '' as name where false"
                      : fmt::format("select name from (values {}) as datasets(name)", list);
}

std::string with_datasets_named(std::string message, Cut& cut) {
  if (message.find("Table with name ") == std::string::npos || message.find(" does not exist!") == std::string::npos)
    return message;
  if (const size_t guess = message.find("\nDid you mean \""); guess != std::string::npos) {  // a table of DuckDB's own
    message.erase(guess, message.find('\n', guess + 1) - guess);
  }
  const std::vector<std::string> names = cut.names();
  if (names.empty()) return message + "\n\nThere is no dataset yet; `hyp ingest DATASET FILE` makes one.";
  constexpr size_t kShownMax = 20;
  std::string list;
  for (size_t i = 0; i < std::min(names.size(), kShownMax); ++i) list += (i > 0 ? ", " : "") + identifier(names[i]);
  return fmt::format("{}\n\nDatasets: {}{}", message, list, names.size() > kShownMax ? ", …" : "");
}

}  // namespace firn::hyp
