// Text of filters on a table that is known.
#pragma once

#include <string_view>

#include "iceberg/expr/expression.h"
#include "iceberg/schema.h"

namespace firn::iceberg {

// As parse_expression, whose 'quoted' texts are the bytes of a binary or fixed column as they stand: here such a column
// takes x'0aff' alone, and a fixed one is equal only to a value of its length. Throws invalid_argument naming the
// column; names that `schema` lacks are left to bind.
ExpressionPtr parse_expression_on(const Schema& schema, std::string_view text);

}  // namespace firn::iceberg
