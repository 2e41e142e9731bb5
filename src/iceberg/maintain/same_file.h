// Whether two paths mean one file, however each is spelled. Within maintain/ only: what is removed must be reached by
// no spelling.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "iceberg/maintain/remove_files.h"

namespace firn::iceberg {

// One text for all spellings that text alone tells to be one: local paths absolute as FileIO opens them, without
// "file:", "//", "." and ".."; s3a and s3n are s3. Links are not followed.
std::string path_key(const std::string& path);

// FileInfo::version of what FileIO finds under `path`; empty: nothing is there, or no file of this store. Two local
// paths with the same one are the same file, by whatever links.
std::string version_there(FileIO& io, const std::string& path);

// Files that are to go unless something that stays has them. Not thread-safe.
class DoomedFiles {
 public:
  explicit DoomedFiles(FileIO& io) : io_(io) {}

  void add(const std::string& path, FileKind kind, int64_t size_bytes);  // again: no change
  // Takes out the file that `path` means. A path that matches none and has the base name of some is looked up in the
  // store: those that are the same file stay, and where nothing is there all of that name do, since nobody can tell.
  void keep(const std::string& path);
  bool empty() const { return num_doomed_ == 0; }
  bool contains(const std::string& path) const;
  std::vector<DoomedFile> files() const;  // by path

 private:
  struct Entry {
    DoomedFile file;  // path empty: it is the key
    bool stays = false;
    bool is_looked_up = false;
    std::string version;
  };
  using Entries = std::unordered_map<std::string, Entry>;

  void keep(Entry& entry);

  FileIO& io_;
  Entries entries_;  // by path_key()
  std::unordered_multimap<std::string_view, Entries::value_type*> by_name_;
  int64_t num_doomed_ = 0;
};

}  // namespace firn::iceberg
