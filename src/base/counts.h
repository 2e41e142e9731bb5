// Counts as people read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace firn {

std::string format_count(int64_t count);                           // "1,234"
std::string format_counted(int64_t count, std::string_view noun);  // "1 row", "1,234 rows": an s makes it many
std::string format_counted(int64_t count, std::string_view one, std::string_view many);  // "1 row is", "2 rows are"

}  // namespace firn
