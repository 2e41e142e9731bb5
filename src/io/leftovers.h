// What killed writers leave on a local disk.
#pragma once

#include <string>

namespace firn {

// Removes the temporary files (".<name>.tmp-<random>", file_io.h) in `folder`, and below it if `recursive`; links are
// not followed. Requires that nobody writes there. An absent folder is fine; throws io.
void remove_leftovers(const std::string& folder, bool recursive);

}  // namespace firn
