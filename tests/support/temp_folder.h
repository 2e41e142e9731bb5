// A folder of its own for one test.
#pragma once

#include <string>
#include <string_view>

namespace firn {

// Made under TMPDIR (or /tmp), removed with all that is in it on destruction.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  std::string path_;
};

}  // namespace firn
