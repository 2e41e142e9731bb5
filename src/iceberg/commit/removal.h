// Which live files of a base a change takes away.
#pragma once

#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "iceberg/commit/commit.h"

namespace firn::iceberg {

// Values only. `change` must outlive it.
class Removal {
 public:
  explicit Removal(const SnapshotChange& change);
  bool empty() const { return !removes_data_ && delete_keys_.empty(); }
  // False proves that no file of `manifest` goes. `base` has its spec.
  bool may_take_from(const ManifestFile& manifest, const TableMetadata& base) const;
  bool takes(const DataFile& file) const;
  // Throws commit_conflict if a file that was named to go is not among `found` (file_key of live files that go).
  void check_found(const std::unordered_set<std::string>& found, const TableMetadata& base) const;

 private:
  using Tuples = std::unordered_map<std::string, PartitionTuple>;  // by partition_key

  const SnapshotChange& change_;
  bool removes_data_ = false;
  std::unordered_set<std::string> data_keys_, delete_keys_;  // file_key
  std::unordered_set<std::string> replaced_;                 // partition_key
  Tuples data_tuples_, delete_tuples_;                       // where such files lie
};

}  // namespace firn::iceberg
