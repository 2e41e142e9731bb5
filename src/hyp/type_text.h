// Column types as configurations spell them.
#pragma once

#include <string>
#include <string_view>

#include "iceberg/type.h"

namespace firn::hyp {

// Iceberg's names ("long", "timestamptz", "decimal(9,2)", "fixed[16]"), and "list<T>", "map<K, V>", "struct<a: T, b:
// T>" at any depth. Names in structs end at ':'. Everything nested is optional; ids are those counted from `next_id`,
// which is left past them. Throws invalid_argument saying what is wrong where.
iceberg::TypePtr parse_type(std::string_view text, int32_t& next_id);
// The spelling that parse_type reads back, ids and what is required left out.
std::string type_text(const iceberg::Type& type);

}  // namespace firn::hyp
