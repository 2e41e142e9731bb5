// Which delete files apply to which data file (Iceberg spec, "Scan Planning").
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "iceberg/manifest/file_identity.h"

namespace firn::iceberg {

// Built on one thread, then read by any number.
class DeleteIndex {
 public:
  // `is_global`: the file's spec is unpartitioned.
  void add(DataFile file, int64_t data_sequence_number, bool is_global);
  bool empty() const { return empty_; }
  // Deletion vector first (then no position delete file), equality deletes last. Throws corrupt for two deletion
  // vectors of one data file.
  std::vector<std::shared_ptr<const DataFile>> applicable(const DataFile& data_file,
                                                          int64_t data_sequence_number) const;

 private:
  struct Entry {
    std::shared_ptr<const DataFile> file;
    int64_t data_sequence_number = 0;
  };
  using Entries = std::unordered_map<std::string, std::vector<Entry>>;
  bool empty_ = true;
  Entries vectors_by_path_, positions_by_path_, positions_by_partition_, equality_by_partition_;
  std::vector<Entry> equality_global_;
};

}  // namespace firn::iceberg
