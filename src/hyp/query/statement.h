// A statement's syntax tree, and what DuckDB alone does not tell of it.
#pragma once

#include <optional>
#include <string>

#include "base/json.h"
#include "hyp/query/cut.h"
#include "hyp/query/duckdb_handle.h"

namespace firn::hyp {

// As json_serialize_sql gives it; nullopt if `sql` does not parse, or is no SELECT.
std::optional<Json> parse_select(duckdb_connection connection, const std::string& sql);

// A string member of a node of the tree; empty if it has none of that name.
std::string text_of(const Json& node, const char* key);

// DuckDB hands a replacement scan the last part of a table's name alone, so that x.y would read the dataset y: throws
// invalid_argument for it.
void check_qualified_names(const Json& ast, Cut& cut);

// Whether its first word is one of a statement that reads.
bool begins_as_reading(std::string_view sql);

// Datasets are no tables of DuckDB's catalog: `show tables` as a statement that lists them; any other `sql` as it is.
std::string with_tables_shown(const std::string& sql, Cut& cut);

// DuckDB's message; where it misses a table, with the datasets that there are.
std::string with_datasets_named(std::string message, Cut& cut);

}  // namespace firn::hyp
