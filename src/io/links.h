// Many hard links at once.
#pragma once

#include <string>
#include <vector>

namespace firn {

struct HardLink {
  std::string from, to;
};

// Each in order, missing folders made; each folder is synced once, after all: durable when it returns. Throws
// already_exists, not_found and io; some links may then be there.
void hard_link_all(const std::vector<HardLink>& links);

}  // namespace firn
