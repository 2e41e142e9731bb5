// Constants of a statement as literals of a column's type.
#pragma once

#include <optional>

#include "base/json.h"
#include "hyp/query/duckdb_handle.h"
#include "iceberg/expr/expression.h"

namespace firn::hyp {

// `node`, an expression of DuckDB's syntax tree, as a literal for predicates on a column of `type`: nullopt unless it
// is a constant (or a cast of one, as DATE '…' is) that DuckDB compares with the column in the column's own type, or in
// one that holds both exactly, and whose cast to the column's type loses nothing.
std::optional<iceberg::Value> to_literal(duckdb_connection connection, const Json& node, const iceberg::Type& type);

}  // namespace firn::hyp
