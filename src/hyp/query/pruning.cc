#include "hyp/query/pruning.h"

#include <algorithm>
#include <set>

#include "hyp/query/constant.h"
#include "hyp/query/statement.h"

namespace firn::hyp {
namespace {

using iceberg::ExpressionPtr;
using iceberg::Op;

bool is_absent(const Json& node, const char* key) {
  const auto found = node.find(key);
  return found == node.end() || found->is_null();
}

bool is_empty(const Json& node, const char* key) {
  const auto found = node.find(key);
  return found == node.end() || found->is_null() || found->empty();
}

// What has to be known of the whole statement before any block of it is trusted.
struct Names {
  std::map<std::string, int> tables;  // how often a name stands where a table may be meant
  std::set<std::string> ctes;
  bool is_doubtful = false;  // something else may read a dataset
};

// Functions that make rows of their arguments alone. Others may read a dataset that no table name shows: hyp_scan('…'),
// query('select …'), query_table('…').
bool is_plain_table_function(const std::string& name) {
  static const std::set<std::string> kNames = {"range",      "generate_series", "unnest",   "repeat",
                                               "repeat_row", "json_each",       "json_tree"};
  return kNames.contains(name);
}

void collect_names(const Json& node, Names& names) {
  if (node.is_array()) {
    for (const Json& item : node) collect_names(item, names);
    return;
  }
  if (!node.is_object()) return;
  if (const std::string table = text_of(node, "table_name"); !table.empty()) ++names.tables[fold_name(table)];
  const std::string type = text_of(node, "type");
  if (type == "SHOW_REF") names.is_doubtful = true;
  if (type == "TABLE_FUNCTION") {
    const auto function = node.find("function");
    const bool is_plain =
        function != node.end() && is_plain_table_function(fold_name(text_of(*function, "function_name")));
    names.is_doubtful = names.is_doubtful || !is_plain;
  }
  if (const auto ctes = node.find("cte_map"); ctes != node.end() && ctes->is_object() && ctes->contains("map")) {
    for (const Json& entry : (*ctes)["map"]) names.ctes.insert(fold_name(text_of(entry, "key")));
  }
  if (const std::string cte = text_of(node, "cte_name"); !cte.empty()) names.ctes.insert(fold_name(cte));
  for (const Json& member : node) collect_names(member, names);
}

// The base tables of a FROM that has INNER and CROSS joins alone; false: something else is in it.
bool collect_tables(const Json& from, std::vector<const Json*>& tables) {
  const std::string type = text_of(from, "type");
  if (type == "BASE_TABLE") {
    tables.push_back(&from);
    return true;
  }
  if (type == "SUBQUERY" || type == "TABLE_FUNCTION" || type == "EXPRESSION_LIST") return is_absent(from, "sample");
  if (type != "JOIN") return false;
  const std::string kind = text_of(from, "ref_type");
  if (!(kind == "CROSS" || (kind == "REGULAR" && text_of(from, "join_type") == "INNER")) || !is_absent(from, "sample"))
    return false;
  return from.contains("left") && from.contains("right") && collect_tables(from["left"], tables) &&
         collect_tables(from["right"], tables);
}

std::string visible_name(const Json& table) {
  const std::string alias = text_of(table, "alias");
  return fold_name(alias.empty() ? text_of(table, "table_name") : alias);
}

// One dataset in one SELECT block.
struct Block {
  duckdb_connection connection;
  const iceberg::Schema& schema;
  std::string name;               // what columns are qualified by, in lower case
  bool is_alone = false;          // in its FROM: unqualified columns are its own
  std::set<std::string> aliases;  // of the select list, in lower case
};

// The dataset's column that `node` names, as DuckDB resolves it; nullptr if it is none or may be another.
const iceberg::Field* resolve_column(const Block& block, const Json& node) {
  if (text_of(node, "class") != "COLUMN_REF" || !node.contains("column_names")) return nullptr;
  const Json& names = node["column_names"];
  std::string column;
  if (names.size() == 1 && block.is_alone) {
    column = fold_name(names[0].get<std::string>());
    if (block.aliases.contains(column)) return nullptr;
  } else if (names.size() == 2 && fold_name(names[0].get<std::string>()) == block.name) {
    column = fold_name(names[1].get<std::string>());
  } else {
    return nullptr;
  }
  const iceberg::Field* found = nullptr;
  for (const iceberg::Field& field : block.schema.fields()) {
    if (names.size() == 2 && fold_name(field.name) == block.name) return nullptr;  // it may mean a field of that column
    if (fold_name(field.name) != column) continue;
    if (found != nullptr) return nullptr;
    found = &field;
  }
  // Predicates name columns by dotted paths.
  return found != nullptr && found->name.find('.') == std::string::npos ? found : nullptr;
}

// DuckDB orders NaN above every number and equal to itself; bounds leave it out, so that where NaN makes the predicate
// true its presence has to be ruled out as well.
ExpressionPtr with_nan(Op op, const iceberg::Field& field, ExpressionPtr predicate) {
  const bool is_floating = field.type->id() == iceberg::TypeId::float_ || field.type->id() == iceberg::TypeId::double_;
  const bool takes_nan = op == Op::gt || op == Op::gt_eq || op == Op::not_eq_ || op == Op::not_in;
  return is_floating && takes_nan ? iceberg::or_(std::move(predicate), iceberg::predicate(Op::is_nan, field.name))
                                  : predicate;
}

ExpressionPtr compare(const Block& block, Op op, const Json& column, const Json& constant) {
  const iceberg::Field* field = resolve_column(block, column);
  if (field == nullptr) return nullptr;
  const auto value = to_literal(block.connection, constant, *field->type);
  return value ? with_nan(op, *field, iceberg::predicate(op, field->name, {*value})) : nullptr;
}

std::optional<Op> comparison_op(const std::string& type) {
  if (type == "COMPARE_EQUAL") return Op::eq;
  if (type == "COMPARE_NOTEQUAL") return Op::not_eq_;
  if (type == "COMPARE_LESSTHAN") return Op::lt;
  if (type == "COMPARE_GREATERTHAN") return Op::gt;
  if (type == "COMPARE_LESSTHANOREQUALTO") return Op::lt_eq;
  if (type == "COMPARE_GREATERTHANOREQUALTO") return Op::gt_eq;
  return std::nullopt;
}

Op flipped(Op op) {
  switch (op) {
    case Op::lt:
      return Op::gt;
    case Op::gt:
      return Op::lt;
    case Op::lt_eq:
      return Op::gt_eq;
    case Op::gt_eq:
      return Op::lt_eq;
    default:
      return op;
  }
}

// `node` as predicates on the block's dataset; nothing for what is not of a form that is known to be safe.
void collect_conjuncts(const Block& block, const Json& node, std::vector<ExpressionPtr>& conjuncts) {
  const std::string type = text_of(node, "type");
  const auto add = [&](ExpressionPtr predicate) {
    if (predicate) conjuncts.push_back(std::move(predicate));
  };
  if (type == "CONJUNCTION_AND") {
    for (const Json& child : node["children"]) collect_conjuncts(block, child, conjuncts);
  } else if (const auto op = comparison_op(type); op && text_of(node, "class") == "COMPARISON") {
    add(compare(block, *op, node["left"], node["right"]));
    add(compare(block, flipped(*op), node["right"], node["left"]));
  } else if (type == "COMPARE_BETWEEN") {
    add(compare(block, Op::gt_eq, node["input"], node["lower"]));
    add(compare(block, Op::lt_eq, node["input"], node["upper"]));
  } else if (type == "COMPARE_IN" || type == "COMPARE_NOT_IN") {
    const Json& children = node["children"];
    const iceberg::Field* field = children.size() > 1 ? resolve_column(block, children[0]) : nullptr;
    if (field == nullptr) return;
    std::vector<iceberg::Value> values;
    for (size_t i = 1; i < children.size(); ++i) {
      const auto value = to_literal(block.connection, children[i], *field->type);
      if (!value) return;
      values.push_back(*value);
    }
    const Op in = type == "COMPARE_IN" ? Op::in : Op::not_in;
    add(with_nan(in, *field, iceberg::predicate(in, field->name, std::move(values))));
  } else if (type == "OPERATOR_IS_NULL" || type == "OPERATOR_IS_NOT_NULL") {
    const iceberg::Field* field = node["children"].size() == 1 ? resolve_column(block, node["children"][0]) : nullptr;
    if (field != nullptr) add(iceberg::predicate(type == "OPERATOR_IS_NULL" ? Op::is_null : Op::not_null, field->name));
  }
}

// The select list's aliases, in lower case.
std::set<std::string> select_aliases(const Json& select) {
  std::set<std::string> aliases;
  if (const auto list = select.find("select_list"); list != select.end()) {
    for (const Json& item : *list) {
      if (const std::string alias = text_of(item, "alias"); !alias.empty()) aliases.insert(fold_name(alias));
    }
  }
  return aliases;
}

struct Search {
  duckdb_connection connection;
  Cut& cut;
  Names names;
  std::map<std::string, std::vector<ExpressionPtr>> found;

  void visit_select(const Json& select) {
    if (!select.contains("from_table") || is_absent(select, "where_clause") || !is_absent(select, "sample")) return;
    std::vector<const Json*> tables;
    if (!collect_tables(select["from_table"], tables)) return;
    const bool is_alone = text_of(select["from_table"], "type") == "BASE_TABLE";
    for (const Json* table : tables) {
      const std::string name = fold_name(text_of(*table, "table_name"));
      if (names.tables[name] != 1 || names.ctes.contains(name)) continue;
      if (!text_of(*table, "schema_name").empty() || !text_of(*table, "catalog_name").empty()) continue;
      if (!is_absent(*table, "sample") || !is_absent(*table, "at_clause") || !is_empty(*table, "column_name_alias"))
        continue;
      const std::string visible = visible_name(*table);
      const auto has_that_name = [&](const Json* other) { return visible_name(*other) == visible; };
      if (std::count_if(tables.begin(), tables.end(), has_that_name) != 1) continue;
      const std::string dataset = cut.resolve(text_of(*table, "table_name"));
      if (dataset.empty()) continue;
      const auto held = cut.dataset(dataset);
      const Block block{connection, held->schema, visible, is_alone, select_aliases(select)};
      std::vector<ExpressionPtr> conjuncts;
      collect_conjuncts(block, select["where_clause"], conjuncts);
      if (!conjuncts.empty()) found[dataset] = std::move(conjuncts);
    }
  }

  void visit(const Json& node) {
    if (node.is_object() && text_of(node, "type") == "SELECT_NODE") visit_select(node);
    if (!node.is_structured()) return;
    for (const Json& child : node) visit(child);
  }
};

}  // namespace

std::map<std::string, std::vector<ExpressionPtr>> find_pruning(duckdb_connection connection, Cut& cut,
                                                               const Json& ast) {
  Search search{connection, cut, {}, {}};
  collect_names(ast, search.names);
  if (search.names.is_doubtful) return {};
  search.visit(ast);
  return std::move(search.found);
}

}  // namespace firn::hyp
