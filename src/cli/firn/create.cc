// A new table from a schema file.
#include <algorithm>
#include <cctype>
#include <filesystem>

#include "base/clock.h"
#include "base/json.h"
#include "cli/firn/command.h"
#include "cli/firn/text_table.h"

namespace firn::cli {
namespace {

using iceberg::PartitionDeclaration;
using iceberg::Schema;
using iceberg::SortField;
using iceberg::SortOrder;

// Gives ids to what has none, so that a schema can be written by hand; the table gives out its own anyway.
void fill_ids(Json& type, int32_t& next_id) {
  if (!type.is_object()) return;
  const auto fill = [&](const char* key) {
    if (!type.contains(key)) type[key] = next_id++;
  };
  const std::string kind = type.value("type", "");
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

Schema read_schema(const std::string& path) {
  Json json = parse_json(make_local_file_io()->read(std::filesystem::absolute(path).string()), path);
  if (json.is_object() && !json.contains("type")) json["type"] = "struct";
  int32_t next_id = 1'000'000;  // above those that a file which has some would use
  fill_ids(json, next_id);
  return Schema::from_json(json, path);
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

// "day(ts)", "bucket[16](id)", "bucket(16, id)", "truncate(4, s)", or a column.
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

// Nulls come first where values ascend, and last where they descend, unless the term says otherwise.
SortOrder parse_sort_order(const std::vector<std::string>& texts, const Schema& schema) {
  SortOrder order;
  for (std::string term : split_terms(texts)) {
    const std::string whole = term;
    const bool nulls_first = take_word(term, "nulls first"), nulls_last = !nulls_first && take_word(term, "nulls last");
    const bool is_descending = take_word(term, "desc");
    if (!is_descending) take_word(term, "asc");
    const PartitionDeclaration parsed = parse_term(term);
    const iceberg::Field* column = schema.find_field(parsed.column);
    if (!column) fail(ErrorKind::invalid_argument, "--sort '{}': the schema has no column '{}'", whole, parsed.column);
    SortField field;
    field.transform = iceberg::Transform::parse(parsed.transform);
    field.source_ids = {column->id};
    field.ascending = !is_descending;
    field.nulls_first = nulls_first || (!nulls_last && !is_descending);
    order.fields.push_back(std::move(field));
  }
  order.order_id = order.fields.empty() ? 0 : 1;
  return order;
}

std::map<std::string, std::string> parse_properties(const std::vector<std::string>& texts) {
  std::map<std::string, std::string> properties;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      fail(ErrorKind::invalid_argument, "--property '{}' is not of the form key=value", text);
    }
    properties[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return properties;
}

}  // namespace

void create(const TableArgument& argument, const CreateArguments& arguments) {
  const Schema schema = read_schema(arguments.schema_file);
  std::vector<PartitionDeclaration> declared;
  for (const std::string& term : split_terms(arguments.partition_by)) declared.push_back(parse_term(term));
  const iceberg::PartitionSpec spec = make_partition_spec(declared, schema);
  const SortOrder order = parse_sort_order(arguments.sort_by, schema);
  const auto properties = parse_properties(arguments.properties);

  const std::shared_ptr<FileIO> io = make_local_file_io();
  const bool is_path = argument.table.find('/') != std::string::npos || argument.warehouse.empty();
  const iceberg::LoadedTable made =
      is_path ? create_filesystem_table(io, new_table_metadata(iceberg::normal_location(argument.table), schema, spec,
                                                               order, properties, now_ms()))
              : iceberg::make_filesystem_catalog(io, argument.warehouse)
                    ->create(argument.table, schema, spec, order, properties);
  print_text(fmt::format("created {} ({})\n", made.metadata->location, made.metadata->table_uuid));
}

}  // namespace firn::cli
