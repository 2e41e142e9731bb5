#include "support/temp_folder.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "base/error.h"

namespace firn {

TempFolder::TempFolder() {
  const char* root = std::getenv("TMPDIR");
  path_ = std::string(root != nullptr && *root != '\0' ? root : "/tmp") + "/firn-test-XXXXXX";
  if (::mkdtemp(path_.data()) == nullptr) fail_errno(errno, "make a temporary folder " + path_);
}

TempFolder::~TempFolder() {
  std::error_code ignored;  // a leftover folder is no reason to fail a test
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace firn
