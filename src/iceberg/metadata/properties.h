// Table properties that firn reads as numbers, words and paths.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "iceberg/metadata/table_metadata.h"

namespace firn::iceberg {

// Throws invalid_argument naming the first property whose value firn could not use: every later commit or write would
// fail for it. Properties that firn does not read may have any value, and truth values too: what is not "true" is
// false.
void check_properties(const std::map<std::string, std::string>& properties);

// What a commit waits by, from 0 on. For a value that is none, which another engine set, `fallback` with a warning:
// else no commit could set it right.
int64_t wait_property(const TableMetadata& metadata, std::string_view key, int64_t fallback);

}  // namespace firn::iceberg
