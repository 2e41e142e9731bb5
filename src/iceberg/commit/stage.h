// Turning one change into manifests, and a base into the metadata that would follow it (protocols P1.1, P1.8).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "iceberg/commit/commit.h"
#include "iceberg/commit/removal.h"
#include "iceberg/commit/summary.h"
#include "iceberg/manifest/manifest.h"

namespace firn::iceberg {

// The files of one snapshot, staged under names that no other attempt uses. Manifests are written once, whatever the
// number of tries; a manifest list is written per try. What was not kept at its end is removed. One thread. `change`
// must outlive it.
class StagedSnapshot {
 public:
  StagedSnapshot(std::shared_ptr<FileIO> io, const SnapshotChange& change, int64_t snapshot_id);
  ~StagedSnapshot();
  StagedSnapshot(const StagedSnapshot&) = delete;
  StagedSnapshot& operator=(const StagedSnapshot&) = delete;

  const SnapshotChange& change() const { return change_; }
  int64_t snapshot_id() const { return snapshot_id_; }
  // `base` with the snapshot added; everything that it names is durable when it returns. Throws
  // commit_conflict if `base` lacks a file that was to go.
  TableMetadata stage(TableMetadata base);
  // The last try is known to be lost, so nothing names its manifest list: removed.
  void drop_list();
  // The last try landed: what it names stays.
  void keep_named();
  // Whether a try may have landed: then everything stays (P1.6).
  void set_may_be_named(bool may_be_named) { may_be_named_ = may_be_named; }

 private:
  // A manifest of the base without the files that go.
  struct Filtered {
    std::optional<ManifestFile> file;  // nullopt: none of its files goes
    std::vector<DataFile> removed;
  };

  void write_added(const TableMetadata& base);
  std::vector<ManifestFile> base_manifests(const TableMetadata& base, const Snapshot* parent);
  std::vector<ManifestFile> without_removed(const TableMetadata& base, std::vector<ManifestFile> manifests,
                                            SummaryCounts& counts);
  const Filtered& filter(const TableMetadata& base, const ManifestFile& manifest);
  std::vector<ManifestFile> merge_small(const TableMetadata& base, std::vector<ManifestFile> manifests);
  ManifestFile merge(const TableMetadata& base, const std::vector<ManifestFile>& parts);
  std::vector<ManifestFile> rewrite_chosen(const TableMetadata& base, std::vector<ManifestFile> manifests,
                                           std::map<std::string, std::string>& summary);
  std::vector<ManifestFile> cluster(const TableMetadata& base, const std::vector<ManifestFile>& parts);
  std::vector<ManifestEntry> live_entries(const TableMetadata& base, const ManifestFile& manifest);
  ManifestFile write_existing(const TableMetadata& base, const std::vector<ManifestEntry>& entries, int32_t spec_id,
                              ManifestContent content, const char* fault_point_name);
  void write_file(const std::string& path, std::string bytes);
  std::string new_path(const TableMetadata& base, const std::string& name) const;
  void remove(const std::string& path);

  std::shared_ptr<FileIO> io_;
  const SnapshotChange& change_;
  const int64_t snapshot_id_;
  const std::string uuid_;  // in every name here
  const Removal removal_;
  int32_t num_manifests_ = 0, num_lists_ = 0;
  std::vector<ManifestFile> added_;  // sequence numbers null: inherited on commit
  bool is_written_ = false;
  // What was made of manifests of a base, by their paths: a later try on the same ones takes it.
  std::map<std::string, Filtered> filtered_;
  std::map<std::vector<std::string>, ManifestFile> merged_;
  std::map<std::vector<std::string>, std::vector<ManifestFile>> clustered_;
  std::map<std::string, ManifestFile> counted_;  // v1 manifests whose counts had to be read
  std::vector<std::string> named_;               // manifests of ours in the last try's list
  std::string list_path_;                        // of the last try
  std::vector<std::string> written_;             // and to be removed, unless kept
  bool may_be_named_ = false;
};

}  // namespace firn::iceberg
