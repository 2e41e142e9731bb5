#include "cli/firn/schema_text.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

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

// Gives ids to what has none, so that a schema can be written by hand; the table gives out its own anyway.
void fill_ids(Json& type, int32_t& next_id) {
  if (!type.is_object()) return;
  const auto fill = [&](const char* key) {
    if (!type.contains(key)) type[key] = next_id++;
  };
  const std::string kind = type.contains("type") && type["type"].is_string() ? type["type"].get<std::string>() : "";
  if (kind == "struct" && type.contains("fields") && type["fields"].is_array()) {
    for (Json& field : type["fields"]) {
      if (!field.is_object()) continue;
      if (!field.contains("id")) field["id"] = next_id++;
      if (!field.contains("required")) field["required"] = false;
      if (field.contains("type")) fill_ids(field["type"], next_id);
    }
  } else if (kind == "list") {
    fill("element-id");
    if (!type.contains("element-required")) type["element-required"] = false;
    if (type.contains("element")) fill_ids(type["element"], next_id);
  } else if (kind == "map") {
    fill("key-id");
    fill("value-id");
    if (!type.contains("value-required")) type["value-required"] = false;
    if (type.contains("key")) fill_ids(type["key"], next_id);
    if (type.contains("value")) fill_ids(type["value"], next_id);
  }
}

std::string trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(" \t") + 1 - begin));
}

// At commas outside brackets: "day(ts), bucket(16, id)" is two.
std::vector<std::string> split_terms(const std::vector<std::string>& texts) {
  std::vector<std::string> terms;
  for (const std::string& text : texts) {
    int depth = 0;
    std::string term;
    for (const char c : text + ",") {
      if (c == '(' || c == '[') ++depth;
      if (c == ')' || c == ']') --depth;
      if (c == ',' && depth == 0) {
        if (term = trimmed(term); !term.empty()) terms.push_back(term);
        term.clear();
      } else {
        term += c;
      }
    }
  }
  return terms;
}

// At commas outside brackets of any kind.
std::vector<std::string> split_members(std::string_view text) {
  std::vector<std::string> members(1);
  int depth = 0;
  for (const char c : text) {
    if (c == '<' || c == '(' || c == '[') ++depth;
    if (c == '>' || c == ')' || c == ']') --depth;
    if (c == ',' && depth == 0) {
      members.emplace_back();
    } else {
      members.back() += c;
    }
  }
  return members;
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
    const std::vector<std::string> parts = split_members(*inner);
    if (parts.size() == 2)
      return {{"type", "map"}, {"key", type_json(trimmed(parts[0]))}, {"value", type_json(trimmed(parts[1]))}};
  }
  if (const auto inner = within(text, "struct")) {
    Json json = {{"type", "struct"}, {"fields", Json::array()}};
    for (const std::string& member : split_members(*inner)) {
      const size_t colon = member.find(':');
      if (colon == std::string::npos)
        fail_usage("'{}' is no field of a struct: struct<name: type, …>", trimmed(member));
      json["fields"].push_back({{"name", trimmed(std::string_view(member).substr(0, colon))},
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
  const size_t open = term.find('(');
  if (open == std::string::npos || !term.ends_with(')')) return {.column = term, .transform = "identity"};
  std::string transform = trimmed(std::string_view(term).substr(0, open));
  std::string column = trimmed(std::string_view(term).substr(open + 1, term.size() - open - 2));
  const size_t comma = column.find(',');
  if (comma != std::string::npos && transform.find('[') == std::string::npos) {
    transform += "[" + trimmed(std::string_view(column).substr(0, comma)) + "]";
    column = trimmed(std::string_view(column).substr(comma + 1));
  }
  return {.column = column, .transform = transform};
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

}  // namespace

Schema read_schema_file(const std::string& path) {
  Json json = parse_json(make_local_file_io()->read(std::filesystem::absolute(path).string()), path);
  if (json.is_object() && !json.contains("type")) json["type"] = "struct";
  int32_t next_id = kFirstFreeId;
  fill_ids(json, next_id);
  return Schema::from_json(json, path);
}

iceberg::TypePtr parse_type(const std::string& text) {
  try {
    Json json = trimmed(text).starts_with('{') ? parse_json(text, "the type") : type_json(trimmed(text));
    int32_t next_id = kFirstFreeId;
    fill_ids(json, next_id);
    return iceberg::type_from_json(json, "the type");
  } catch (const Error& e) {
    throw CLI::ValidationError(e.what());
  }
}

Field parse_column(const std::string& text) {
  std::string rest = trimmed(text);
  const size_t space = rest.find(' ');
  if (space == std::string::npos) {
    fail_usage("column '{}' is not of the form \"name type\" or \"name type required\"", text);
  }
  Field field{.name = rest.substr(0, space)};
  rest = trimmed(std::string_view(rest).substr(space));
  field.required = take_word(rest, "required") || take_word(rest, "not null");
  field.type = parse_type(rest);
  return field;
}

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
