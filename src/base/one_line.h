// Text from outside, made safe to show.
#pragma once

#include <string>
#include <string_view>

namespace firn {

// For a line of text: control characters as "\n", "\x1b", bytes that are no UTF-8 as "\xff". Sources, columns and what
// a server answers may have any.
std::string on_one_line(std::string_view text);

}  // namespace firn
