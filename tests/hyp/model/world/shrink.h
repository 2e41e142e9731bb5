// A failing run made short.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hyp/model/world/step.h"

namespace firn::hyp::model {

// The problem that a run of these steps meets; nullopt: none.
using Run = std::function<std::optional<std::string>(const std::vector<Step>&)>;

// `steps` without what is not needed for `run` to meet a problem, be it another one: ranges of steps, crashes,
// arguments that only make a step larger. Ends after about `seconds`.
std::vector<Step> shrink(std::vector<Step> steps, const Run& run, int64_t seconds);

}  // namespace firn::hyp::model
