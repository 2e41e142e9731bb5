// Lasting registrations of `hyp collect`, in <cacheRoot>/collect.json, besides the configuration's.
#pragma once

#include <string>
#include <vector>

#include "hyp/config.h"

namespace firn::hyp {

std::vector<CollectConfig> load_registrations(const std::string& cache_root);
void add_registration(const std::string& cache_root, const CollectConfig& collect);  // replaces the one of that name
bool remove_registration(const std::string& cache_root, const std::string& name);  // false: there is none of that name

}  // namespace firn::hyp
