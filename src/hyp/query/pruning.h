// What a statement's WHERE clauses prove about the rows of a dataset that it can use (protocols P13.2).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "hyp/query/cut.h"
#include "hyp/query/duckdb_handle.h"
#include "iceberg/expr/expression.h"

namespace firn::hyp {

// By dataset, predicates on its columns that every row which can reach the statement's result satisfies, as far as they
// can be told safely from its AST (statement.h); a dataset that is named more than once, or anything doubtful, has
// none. Pruning by them may change speed alone.
std::map<std::string, std::vector<iceberg::ExpressionPtr>> find_pruning(duckdb_connection connection, Cut& cut,
                                                                        const Json& ast);

}  // namespace firn::hyp
