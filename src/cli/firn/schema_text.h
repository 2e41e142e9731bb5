// Columns, types, partitions and orders as they are written on the command line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "iceberg/metadata/changes.h"

namespace firn::cli {

// A file with the specification's schema JSON; field ids, "required" and the outer "type" may be left out.
iceberg::Schema read_schema_file(const std::string& path);
// "long", "decimal(9,2)", "list<string>", "map<string, int>", "struct<x: int, y: list<date>>", or the specification's
// JSON; ids may be left out. What is none is wrong usage, here and in a column.
iceberg::TypePtr parse_type(const std::string& text);
// "id long required", "price decimal(9,2)", "\"a b\" int". Ids are given from `next_id` on, at any depth.
iceberg::Field parse_column(const std::string& text, int32_t& next_id);
// A column as commands name it: "a.b" is the field b of a struct a. What stands in double quotes is one name as it is,
// a doubled quote one of its own, as in a filter. The names from the outermost on; what is wrong is wrong usage.
std::vector<std::string> parse_name_path(const std::string& text);
std::string parse_name(const std::string& text);  // the same, joined by dots
// A default of `type`: text as `scan` prints it, JSON for nested types. Throws invalid_argument.
iceberg::Value parse_default(const std::string& text, const iceberg::Type& type);

// Each text is one term, or several at commas: "day(ts)", "bucket[16](id)", "bucket(16, id)", "truncate(4, s)", or a
// column.
std::vector<iceberg::PartitionDeclaration> parse_partitions(const std::vector<std::string>& texts);
// The same, with " asc", " desc", " nulls first", " nulls last" after it.
std::vector<iceberg::SortBy> parse_sort(const std::vector<std::string>& texts);
// Nulls come first where values ascend, and last where they descend, unless a term says otherwise. `option` for errors.
iceberg::SortOrder make_sort_order(const std::vector<iceberg::SortBy>& terms, const iceberg::Schema& schema,
                                   const char* option);

}  // namespace firn::cli
