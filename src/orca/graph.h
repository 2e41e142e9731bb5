// A pipeline's steps as a picture.
#pragma once

#include <string>

#include "orca/pipeline.h"

namespace firn::orca {

std::string graph_text(const Pipeline& pipeline);
std::string graph_svg(const Pipeline& pipeline);

}  // namespace firn::orca
