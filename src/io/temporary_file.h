// A file beside its destination that gets the destination's name once its bytes are durable. Within io/ only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "io/local.h"

namespace firn {

// The fault points of one way to publish.
struct PublishPoints {
  const char* before_name;              // bytes synced, the name not yet there
  const char* before_temporary_unlink;  // linked; nullptr for a rename
  const char* before_directory_sync;
};

// "<folder>/.<name>.tmp-<random>", made with its missing folders; gone after destruction. A killed process leaves it:
// such names are ignored by FileIO::list, and no reader ever opens one.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& path);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::string& path() const { return path_; }  // the destination
  void write(std::string_view bytes);
  // Syncs the bytes, links the file to path() and syncs the directory. False if path() is taken: nothing happened then.
  bool link_to_path(const PublishPoints& points);
  // Syncs the bytes, renames the file over path() and syncs the directory.
  void rename_over_path(const PublishPoints& points);

 private:
  void sync();

  std::string path_;
  std::string temporary_path_;
  Descriptor fd_;
  bool is_temporary_ = true;  // the temporary name exists
};

bool is_temporary_name(std::string_view name);
// Whether temporary_name_for() gives such names: what only looks like one may be another program's.
bool is_own_temporary_name(std::string_view name);
std::string temporary_name_for(std::string_view name);
std::string parent_folder(const std::string& path);  // "." for a bare name

// Without a fault point of their own; recorded in the ledger of io/unsynced.h.
void sync_directory_now(const std::string& folder);
void rename_now(const std::string& from, const std::string& to);

// What make_directories knows to be durable, forgotten, as a new process knows nothing. For tests that restart within
// one (base/fault_point.h).
void forget_durable_folders();

}  // namespace firn
