#include "io/links.h"

#include <unistd.h>

#include <cerrno>
#include <set>

#include "base/error.h"
#include "base/fault_point.h"
#include "io/local.h"
#include "io/temporary_file.h"
#include "io/unsynced.h"

namespace firn {

void hard_link_all(const std::vector<HardLink>& links) {
  std::set<std::string> folders;
  for (const HardLink& link : links) {
    const std::string folder = parent_folder(link.to);
    if (folders.insert(folder).second) make_directories(folder);
    fault_point("io.hard_link.before_link");
    unsynced::Step step;
    if (::link(link.from.c_str(), link.to.c_str()) != 0)
      fail_errno(errno, fmt::format("link {} to {}", link.from, link.to));
    unsynced::created(link.to);
  }
  for (const std::string& folder : folders) sync_directory(folder);
}

}  // namespace firn
