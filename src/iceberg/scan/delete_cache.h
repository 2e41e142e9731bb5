// Delete files as what a row is looked up in, loaded once for the tasks that share them.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "iceberg/puffin/puffin.h"
#include "iceberg/scan/scan.h"

namespace firn::iceberg {

// The content of one delete file. Immutable once loaded.
struct LoadedDeletes {
  std::unordered_map<std::string, PositionSet> positions_by_path;
  std::unordered_set<std::string> equality_keys;  // as equality_key.h encodes them
  int64_t memory_bytes = 0;
};

// Thread-safe. Keeps the most recently used within `bytes_max`; what is larger alone is handed out and not kept.
class DeleteCache {
 public:
  explicit DeleteCache(int64_t bytes_max) : bytes_max_(bytes_max) {}
  // The value of `key`, from `load` (outside of the cache's lock; one thread at a time for a key) unless it is there.
  // What load throws passes through, and the next caller tries again.
  std::shared_ptr<const LoadedDeletes> get(const std::string& key, const std::function<LoadedDeletes()>& load);

 private:
  struct Entry {
    std::mutex loading;
    std::shared_ptr<const LoadedDeletes> value;  // guarded by loading
    int64_t charged_bytes = 0;                   // guarded by mutex_
  };
  void charge(const std::string& key, const std::shared_ptr<Entry>& entry, int64_t bytes);

  const int64_t bytes_max_;
  std::mutex mutex_;
  int64_t bytes_ = 0;
  struct Slot {
    std::shared_ptr<Entry> entry;
    std::list<std::string>::iterator recency;
  };
  std::list<std::string> by_recency_;  // the newest first
  std::unordered_map<std::string, Slot> slots_;
};

std::shared_ptr<DeleteCache> make_delete_cache();

// Positions deleted from the task's file by its position delete files and deletion vectors. Throws corrupt, unsupported
// (naming the delete file) and io.
PositionSet load_deleted_positions(const FileScanTask& task, FileIO& io, DeleteCache* cache);

// The keys of one equality delete file. `columns` are those of its equality ids with the structs around them.
std::shared_ptr<const LoadedDeletes> load_equality_keys(const DataFile& file, const Schema& columns,
                                                        const std::optional<NameMapping>& name_mapping, FileIO& io,
                                                        DeleteCache* cache);

}  // namespace firn::iceberg
