#include "cli/firn/schema_text.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include <fmt/ranges.h>

#include "cli/firn/command.h"
#include "io/file_io.h"

namespace firn::cli {
namespace {

using iceberg::Field;
using iceberg::PartitionDeclaration;
using iceberg::Schema;
using iceberg::SortBy;
using iceberg::Type;
using iceberg::TypeId;

constexpr int32_t kFirstFreeId = 1'000'000;  // above those that a hand-written schema which has some would use

// Of a type's ids: those that it has stay, or all are given anew.
enum class Ids : uint8_t { fill, renew };

// Gives ids to what has none, so that a schema can be written by hand; the table gives out its own anyway.
void fill_ids(Json& type, int32_t& next_id, Ids ids) {
  if (!type.is_object()) return;
  const auto fill = [&](Json& json, const char* key) {
    if (ids == Ids::renew || !json.contains(key)) json[key] = next_id++;
  };
  const std::string kind = type.contains("type") && type["type"].is_string() ? type["type"].get<std::string>() : "";
  if (kind == "struct" && type.contains("fields") && type["fields"].is_array()) {
    for (Json& field : type["fields"]) {
      if (!field.is_object()) continue;
      fill(field, "id");
      if (!field.contains("required")) field["required"] = false;
      if (field.contains("type")) fill_ids(field["type"], next_id, ids);
    }
  } else if (kind == "list") {
    fill(type, "element-id");
    if (!type.contains("element-required")) type["element-required"] = false;
    if (type.contains("element")) fill_ids(type["element"], next_id, ids);
  } else if (kind == "map") {
    fill(type, "key-id");
    fill(type, "value-id");
    if (!type.contains("value-required")) type["value-required"] = false;
    if (type.contains("key")) fill_ids(type["key"], next_id, ids);
    if (type.contains("value")) fill_ids(type["value"], next_id, ids);
  }
}

std::string trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(" \t") + 1 - begin));
}

// Where the name in double quotes that begins at `at` ends; `at` where none begins.
size_t skip_quoted(std::string_view text, size_t at) {
  constexpr std::string_view kBefore = " \t.,:(<";
  if (text[at] != '"' || (at > 0 && kBefore.find(text[at - 1]) == std::string_view::npos)) return at;
  for (size_t end = at + 1; end < text.size(); ++end) {
    if (text[end] != '"') continue;
    if (end + 1 == text.size() || text[end + 1] != '"') return end + 1;
    ++end;
  }
  fail_usage("'{}': the quote before {} is not closed", text, text.substr(at + 1));
}

size_t find_unquoted(std::string_view text, char wanted) {
  for (size_t at = 0; at < text.size();) {
    if (const size_t end = skip_quoted(text, at); end > at) {
      at = end;
    } else if (text[at] == wanted) {
      return at;
    } else {
      ++at;
    }
  }
  return std::string_view::npos;
}

// At commas outside of brackets and quotes.
std::vector<std::string> split_at_commas(std::string_view text, std::string_view open, std::string_view close) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::max(skip_quoted(text, at), at + 1);
    const char c = text[at];
    if (open.find(c) != std::string_view::npos) ++depth;
    if (close.find(c) != std::string_view::npos) --depth;
    if (c == ',' && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += text.substr(at, end - at);
    }
    at = end;
  }
  return parts;
}

// "day(ts), bucket(16, id)" is two.
std::vector<std::string> split_terms(const std::vector<std::string>& texts) {
  std::vector<std::string> terms;
  for (const std::string& text : texts) {
    for (const std::string& part : split_at_commas(text, "([", ")]")) {
      if (std::string term = trimmed(part); !term.empty()) terms.push_back(std::move(term));
    }
  }
  return terms;
}

// What lies within "list<…>", for `kind` "list".
std::optional<std::string> within(const std::string& text, std::string_view kind) {
  if (!text.starts_with(kind) || !text.ends_with('>')) return std::nullopt;
  const std::string rest = trimmed(std::string_view(text).substr(kind.size()));
  return rest.starts_with('<') ? std::optional(rest.substr(1, rest.size() - 2)) : std::nullopt;
}

// The specification's JSON of a type in words; SQL's names of two types are taken too.
Json type_json(const std::string& text) {
  if (const auto inner = within(text, "list")) return {{"type", "list"}, {"element", type_json(trimmed(*inner))}};
  if (const auto inner = within(text, "map")) {
    const std::vector<std::string> parts = split_at_commas(*inner, "<([", ">)]");
    if (parts.size() == 2)
      return {{"type", "map"}, {"key", type_json(trimmed(parts[0]))}, {"value", type_json(trimmed(parts[1]))}};
  }
  if (const auto inner = within(text, "struct")) {
    Json json = {{"type", "struct"}, {"fields", Json::array()}};
    for (const std::string& member : split_at_commas(*inner, "<([", ">)]")) {
      const size_t colon = find_unquoted(member, ':');
      if (colon == std::string::npos)
        fail_usage("'{}' is no field of a struct: struct<name: type, …>", trimmed(member));
      json["fields"].push_back({{"name", parse_name(trimmed(std::string_view(member).substr(0, colon)))},
                                {"type", type_json(trimmed(std::string_view(member).substr(colon + 1)))}});
    }
    return json;
  }
  if (text == "bigint") return "long";
  if (text == "integer") return "int";
  std::string name = text;
  if (name.starts_with("fixed(") && name.ends_with(')')) name = "fixed[" + name.substr(6, name.size() - 7) + "]";
  const iceberg::TypePtr type = iceberg::parse_primitive_type(name);
  if (!type) {
    fail_usage(
        "'{}' is no type; there are boolean, int, long, float, double, decimal(P,S), date, time, timestamp, "
        "timestamptz, timestamp_ns, timestamptz_ns, string, uuid, fixed[N], binary, unknown, variant, list<T>, "
        "map<K, V>, struct<name: T, …>, and all of them as the specification's JSON",
        text);
  }
  return type->to_string();
}

PartitionDeclaration parse_term(const std::string& term) {
  const size_t open = find_unquoted(term, '(');
  if (open == std::string::npos || !term.ends_with(')')) return {.column = parse_name(term), .transform = "identity"};
  std::string transform = trimmed(std::string_view(term).substr(0, open));
  std::string column = trimmed(std::string_view(term).substr(open + 1, term.size() - open - 2));
  const size_t comma = find_unquoted(column, ',');
  if (comma != std::string::npos && transform.find('[') == std::string::npos) {
    transform += "[" + trimmed(std::string_view(column).substr(0, comma)) + "]";
    column = trimmed(std::string_view(column).substr(comma + 1));
  }
  return {.column = parse_name(column), .transform = transform};
}

bool take_word(std::string& text, std::string_view word) {
  if (text.size() <= word.size()) return false;
  const size_t at = text.size() - word.size();
  const bool same = std::equal(word.begin(), word.end(), text.begin() + static_cast<std::ptrdiff_t>(at),
                               [](char a, char b) { return a == std::tolower(static_cast<unsigned char>(b)); });
  if (!same || text[at - 1] != ' ') return false;
  text = trimmed(std::string_view(text).substr(0, at));
  return true;
}

iceberg::TypePtr parse_type_from(const std::string& text, int32_t& next_id) {
  try {
    Json json = trimmed(text).starts_with('{') ? parse_json(text, "the type") : type_json(trimmed(text));
    fill_ids(json, next_id, Ids::renew);
    return iceberg::type_from_json(json, "the type");
  } catch (const Error& e) {
    throw CLI::ValidationError(e.what());
  }
}

}  // namespace

Schema read_schema_file(const std::string& path) {
  Json json = parse_json(make_local_file_io()->read(std::filesystem::absolute(path).string()), path);
  if (json.is_object() && !json.contains("type")) json["type"] = "struct";
  int32_t next_id = kFirstFreeId;
  fill_ids(json, next_id, Ids::fill);
  return Schema::from_json(json, path);
}

iceberg::TypePtr parse_type(const std::string& text) {
  int32_t next_id = 1;
  return parse_type_from(text, next_id);
}

Field parse_column(const std::string& text, int32_t& next_id) {
  std::string rest = trimmed(text);
  const size_t space = find_unquoted(rest, ' ');
  if (space == std::string::npos) {
    fail_usage("column '{}' is not of the form \"name type\" or \"name type required\"", text);
  }
  Field field{.id = next_id++, .name = parse_name(rest.substr(0, space))};
  rest = trimmed(std::string_view(rest).substr(space));
  field.required = take_word(rest, "required") || take_word(rest, "not null");
  field.type = parse_type_from(rest, next_id);
  return field;
}

std::vector<std::string> parse_name_path(const std::string& text) {
  std::vector<std::string> names;
  size_t at = 0;
  do {
    const size_t quoted_end = at < text.size() ? skip_quoted(text, at) : at;
    const size_t end = quoted_end > at ? quoted_end : std::min(text.find('.', at), text.size());
    if (end < text.size() && text[end] != '.')
      fail_usage("'{}': text follows the quote that closes a name; within one, quotes are doubled", text);
    std::string name = text.substr(at, end - at);
    if (quoted_end > at) {
      name = name.substr(1, name.size() - 2);
      for (size_t quote = 0; (quote = name.find("\"\"", quote)) != std::string::npos; ++quote) name.erase(quote, 1);
    }
    names.push_back(std::move(name));
    at = end;
  } while (at++ < text.size());
  return names;
}

std::string parse_name(const std::string& text) { return fmt::format("{}", fmt::join(parse_name_path(text), ".")); }

iceberg::Value parse_default(const std::string& text, const Type& type) {
  const bool is_json = type.is_nested() || type.id() == TypeId::boolean_ || type.id() == TypeId::int_ ||
                       type.id() == TypeId::long_ || type.id() == TypeId::float_ || type.id() == TypeId::double_;
  try {
    return iceberg::from_json(is_json ? parse_json(text, "default") : Json(text), type, "default");
  } catch (const Error& e) {
    throw Error(ErrorKind::invalid_argument, fmt::format("'{}' is no default of a {}", text, type.to_string()), e);
  }
}

std::vector<PartitionDeclaration> parse_partitions(const std::vector<std::string>& texts) {
  std::vector<PartitionDeclaration> declared;
  for (const std::string& term : split_terms(texts)) declared.push_back(parse_term(term));
  return declared;
}

std::vector<SortBy> parse_sort(const std::vector<std::string>& texts) {
  std::vector<SortBy> terms;
  for (std::string term : split_terms(texts)) {
    SortBy sort;
    if (take_word(term, "nulls first")) {
      sort.nulls_first = true;
    } else if (take_word(term, "nulls last")) {
      sort.nulls_first = false;
    }
    sort.ascending = !take_word(term, "desc");
    if (sort.ascending) take_word(term, "asc");
    const PartitionDeclaration parsed = parse_term(term);
    sort.column = parsed.column;
    sort.transform = parsed.transform;
    terms.push_back(std::move(sort));
  }
  return terms;
}

iceberg::SortOrder make_sort_order(const std::vector<SortBy>& terms, const Schema& schema, const char* option) {
  iceberg::SortOrder order;
  for (const SortBy& term : terms) {
    const Field* column = schema.find_field(term.column);
    if (!column) fail(ErrorKind::invalid_argument, "{}: the schema has no column '{}'", option, term.column);
    iceberg::SortField field;
    field.transform = iceberg::Transform::parse(term.transform);
    if (!iceberg::can_transform(field.transform, *column->type)) {
      fail(ErrorKind::invalid_argument, "{}: {} cannot be taken of {}, a {}", option, term.transform, term.column,
           column->type->to_string());
    }
    field.source_ids = {column->id};
    field.ascending = term.ascending;
    field.nulls_first = term.nulls_first.value_or(term.ascending);
    order.fields.push_back(std::move(field));
  }
  order.order_id = order.fields.empty() ? 0 : 1;
  return order;
}

}  // namespace firn::cli
