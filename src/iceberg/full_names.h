// Full names of columns: "a.b" for the member b of a struct a, and for a column that is named "a.b".
#pragma once

#include <optional>
#include <string>

#include "iceberg/schema.h"

namespace firn::iceberg {

// The first full name that two columns of `schema` have; nullopt: each has its own. Java and others refuse to open a
// table with such a schema, and here the outer one alone is found by that name.
std::optional<std::string> repeated_full_name(const Schema& schema);

// Throws invalid_argument where two columns have one full name.
void check_full_names(const Schema& schema);

}  // namespace firn::iceberg
