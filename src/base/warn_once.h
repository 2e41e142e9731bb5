#pragma once

#include <string>

namespace firn {

// Logs what is true for as long as the process runs, and would be said again at every occasion: the first time alone.
void warn_once(const std::string& message);

}  // namespace firn
