// The log goes to standard error, one line an event; FIRN_LOG=debug|info|warn|error (default warn; the daemon sets
// info).
#pragma once

#include <spdlog/spdlog.h>

namespace firn {

void init_log(spdlog::level::level_enum default_level);  // reads FIRN_LOG; call once from main

}  // namespace firn
