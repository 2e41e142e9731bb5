// The filters of the conformance set over its rows: as many match as its oracle says.
#include <gtest/gtest.h>

#include <arrow/array.h>

#include "../conformance_tables.h"
#include "iceberg/expr/row_filter.h"
#include "iceberg/expr/rows.h"

namespace firn::iceberg {
namespace {

// The set spells floats as strings; all else is the specification's JSON, members by name.
Cell cell_from_json(const Json& json, const Type& type) {
  Cell cell;
  if (json.is_null()) return cell;
  cell.null = false;
  if (type.id() == TypeId::struct_) {
    for (const Field& member : type.fields())
      cell.members.push_back(cell_from_json(json.at(member.name), *member.type));
  } else if (type.id() == TypeId::float_ || type.id() == TypeId::double_) {
    const double number = std::strtod(json.get<std::string>().c_str(), nullptr);
    cell.value =
        type.id() == TypeId::double_ ? Value(number) : Value(std::strtof(json.get<std::string>().c_str(), nullptr));
  } else if (!type.is_nested() && type.id() != TypeId::variant) {
    cell.value = from_json(json, type, "a row");
  }
  return cell;
}

int64_t count_matches(const Expression& bound, const arrow::RecordBatch& batch) {
  return evaluate(bound, batch)->true_count();
}

TEST(Conformance, FiltersMatchAsManyRowsAsTheOracleSays) {
  int filters = 0;
  for (const auto& folder : table_folders()) {
    if (!std::filesystem::exists(folder / "expected.json")) continue;
    SCOPED_TRACE(folder.filename().string());
    const Json expected = parse_json(read_whole(folder / "expected.json"), folder.string());
    const Json* plans = find_member(expected, "plans");
    const Json& current = expected.at("snapshots").at(0);
    if (!plans || !current.contains("schema") || !current.contains("rows")) continue;
    const Schema schema = Schema::from_json(current.at("schema"), folder.string());
    std::vector<Row> rows;
    for (const Json& json : current.at("rows")) {
      Row row;
      for (const Field& field : schema.fields()) row.push_back(cell_from_json(json.at(field.name), *field.type));
      rows.push_back(std::move(row));
    }
    const auto batch = to_batch(schema, rows);
    for (const Json& plan : *plans) {
      SCOPED_TRACE(plan.at("filter").dump());
      const auto filter = expression_from_json(plan.at("filter"), folder.string());
      const auto bound = bind(*filter, schema);
      EXPECT_EQ(count_matches(*bound, *batch), plan.at("rows").get<int64_t>());
      EXPECT_EQ(count_matches(*bind(*parse_expression(to_string(*bound)), schema), *batch),
                plan.at("rows").get<int64_t>());
      ++filters;
    }
  }
  EXPECT_GT(filters, 10);
}

}  // namespace
}  // namespace firn::iceberg
