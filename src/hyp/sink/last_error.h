// What stopped a sink in a partition, for `hyp sink status`.
#pragma once

#include <string>

#include "hyp/cache/cache.h"

namespace firn::hyp {

struct LastError {
  std::string error_kind, error;
};

// <stateDir>/<sink>/errors/<dataset>/<partition-key>.json. Beside the watermarks, not among them: a source's name may
// end in anything.
std::string last_error_path(const std::string& state_dir, const std::string& sink, const PartitionId& partition);
// Empty members: the last run was fine.
LastError load_last_error(const std::string& path);
void save_last_error(const std::string& path, const LastError& error);

}  // namespace firn::hyp
