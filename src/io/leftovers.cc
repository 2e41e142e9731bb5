#include "io/leftovers.h"

#include <filesystem>

#include "base/error.h"
#include "io/local.h"
#include "io/temporary_file.h"

namespace firn {

void remove_leftovers(const std::string& folder, bool recursive) {
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code gone;
    const std::filesystem::file_status status = it->symlink_status(gone);
    if (std::filesystem::is_directory(status) && recursive) remove_leftovers(it->path().string(), true);
    if (std::filesystem::is_regular_file(status) && is_temporary_name(it->path().filename().string())) {
      remove_file(it->path().string());
    }
  }
  if (error && error != std::errc::no_such_file_or_directory) fail_errno(error.value(), "list " + folder);
}

}  // namespace firn
