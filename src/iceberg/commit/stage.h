// Turning data files into manifests, and a base into the metadata that would follow it (protocols P1.1, P1.8).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "iceberg/commit/commit.h"
#include "iceberg/manifest/manifest.h"

namespace firn::iceberg {

// The files of one commit, staged under names that no other attempt uses. Manifests are written once, whatever the
// number of tries; a manifest list is written per try. What was not kept at its end is removed. One thread. `commit`
// must outlive it.
class StagedAppend {
 public:
  StagedAppend(std::shared_ptr<FileIO> io, const AppendCommit& commit, int64_t snapshot_id);
  ~StagedAppend();
  StagedAppend(const StagedAppend&) = delete;
  StagedAppend& operator=(const StagedAppend&) = delete;

  // The metadata that adds the snapshot to `base`; everything that it names is durable when it returns.
  TableMetadata stage(const TableMetadata& base);
  // The last try is known to be lost, so nothing names its manifest list: removed.
  void drop_list();
  // The last try landed: what it names stays.
  void keep_named();
  // Whether a try may have landed: then everything stays (P1.6).
  void set_may_be_named(bool may_be_named) { may_be_named_ = may_be_named; }

 private:
  void write_manifests(const TableMetadata& base);
  std::vector<ManifestFile> merge_small(const TableMetadata& base, std::vector<ManifestFile> manifests);
  ManifestFile merge(const TableMetadata& base, const std::vector<ManifestFile>& parts);
  void write_file(const std::string& path, std::string bytes);
  std::string new_path(const TableMetadata& base, const std::string& name) const;
  void remove(const std::string& path);

  std::shared_ptr<FileIO> io_;
  const AppendCommit& commit_;
  const int64_t snapshot_id_;
  const std::string uuid_;  // in every name here
  int32_t num_manifests_ = 0, num_lists_ = 0;
  std::vector<ManifestFile> added_;  // sequence numbers null: inherited on commit
  bool is_written_ = false;
  std::map<std::vector<std::string>, ManifestFile>
      merged_;                        // by the paths merged: a later try on the same parts takes it
  std::vector<std::string> named_;    // manifests of ours in the last try's list
  std::string list_path_;             // of the last try
  std::vector<std::string> written_;  // and to be removed, unless kept
  bool may_be_named_ = false;
};

}  // namespace firn::iceberg
