#include "iceberg/commit/conflicts.h"

#include <algorithm>
#include <unordered_set>

#include "base/error.h"
#include "iceberg/commit/history.h"
#include "iceberg/commit/manifest_cache.h"
#include "iceberg/manifest/file_identity.h"
#include "iceberg/manifest/snapshot_manifests.h"

namespace firn::iceberg {
namespace {

class Checker {
 public:
  Checker(const TableMetadata& base, const SnapshotChange& change, FileIO& io)
      : base_(base), change_(change), check_(*change.read_check), io_(io) {
    if (check_.filter) filter_ = bind(*check_.filter, base.schema());
    for (const PartitionTuple& tuple : check_.partitions) {
      partitions_.insert(partition_key(tuple.spec_id, tuple.values));
    }
    for (const DataFile& file : change.added) {
      if (is_deletion_vector(file)) vector_targets_.insert(file.referenced_data_file);
    }
    required_.insert(change.required_data_files.begin(), change.required_data_files.end());
    required_.insert(vector_targets_.begin(), vector_targets_.end());
    for (const DataFile& file : change.removed) {
      if (file.content == FileContent::data) removed_.push_back(&file);
    }
  }

  // Whether anything that a snapshot may have done could matter.
  bool is_needed() const {
    return check_.no_added_data || check_.no_added_deletes || check_.no_removed_data || !required_.empty();
  }

  void look_at(const Snapshot& snapshot) const {
    const auto read = [&](const std::string& path) { return *manifest_cache().read(io_, path); };
    for (const ManifestFile& manifest : snapshot_manifests(base_, snapshot, read)) {
      if (manifest.added_snapshot_id != snapshot.snapshot_id) continue;
      const std::shared_ptr<const std::string> bytes = manifest_cache().read(io_, manifest.manifest_path);
      const PartitionSpec& spec = base_.spec(manifest.partition_spec_id);
      for (ManifestEntry& entry : read_manifest(*bytes, manifest, spec, base_.schema(), /*live_only=*/false)) {
        if (entry.status == EntryStatus::existing || entry.snapshot_id != snapshot.snapshot_id) continue;
        entry.file.partition_spec_id = manifest.partition_spec_id;
        look_at(snapshot, entry, spec);
      }
    }
  }

  [[noreturn]] void fail_cut(int64_t missing) const {
    fail(ErrorKind::commit_conflict,
         "table {}: what was committed since the rows were read cannot be told: snapshot {} is not in the history of "
         "branch '{}' any more (rolled back or expired). Read the table again and redo the operation",
         base_.location, missing, change_.branch);
  }

 private:
  void look_at(const Snapshot& snapshot, const ManifestEntry& entry, const PartitionSpec& spec) const {
    const DataFile& file = entry.file;
    const bool is_rewrite = snapshot.operation() == "replace";
    if (entry.status == EntryStatus::deleted) {
      if (file.content != FileContent::data) return;
      if (required_.contains(file.file_path)) refuse(snapshot, "removed", file, "which the new deletes are for");
      if (check_.no_removed_data && !is_rewrite && may_match(file, spec)) refuse(snapshot, "removed", file, kRead);
      return;
    }
    if (file.content == FileContent::data) {
      if (check_.no_added_data && !is_rewrite && may_match(file, spec)) refuse(snapshot, "added", file, kRead);
      return;
    }
    if (is_deletion_vector(file) && vector_targets_.contains(file.referenced_data_file)) {
      refuse(snapshot, "added", file, "a deletion vector for a data file that the commit has another for");
    }
    if (check_.no_added_deletes) look_at_delete(snapshot, file, spec, is_rewrite);
  }

  void look_at_delete(const Snapshot& snapshot, const DataFile& file, const PartitionSpec& spec,
                      bool is_rewrite) const {
    const bool is_position = file.content == FileContent::position_deletes;
    for (const DataFile* removed : removed_) {
      const bool same_partition =
          spec.is_unpartitioned() || (file.partition_spec_id == removed->partition_spec_id &&
                                      partition_key(file.partition_spec_id, file.partition) ==
                                          partition_key(removed->partition_spec_id, removed->partition));
      const bool may_apply =
          is_position ? may_name(file, removed->file_path) : same_partition && !change_.data_sequence_number;
      if (may_apply) refuse(snapshot, "added", file, "which may delete rows of " + removed->file_path);
    }
    if (removed_.empty() && !is_rewrite && may_match_partition(file, spec)) refuse(snapshot, "added", file, kRead);
  }

  // The filter against partition and metrics of a data file.
  bool may_match(const DataFile& file, const PartitionSpec& spec) const {
    return may_match_partition(file, spec) && (!filter_ || file_might_match(*filter_, file));
  }

  bool may_match_partition(const DataFile& file, const PartitionSpec& spec) const {
    if (!partitions_.empty() && !partitions_.contains(partition_key(file.partition_spec_id, file.partition)))
      return false;
    return !filter_ || partition_might_match(*filter_, spec, base_.schema(), file.partition);
  }

  [[noreturn]] void refuse(const Snapshot& snapshot, const char* verb, const DataFile& file,
                           const std::string& why) const {
    fail(ErrorKind::commit_conflict,
         "table {}: snapshot {} ({}) {} {}, {}. Nothing was committed; read the table again and redo the operation",
         base_.location, snapshot.snapshot_id, snapshot.operation(), verb, file.file_path, why);
  }

  static constexpr const char* kRead = "which may concern the rows that were read";

  const TableMetadata& base_;
  const SnapshotChange& change_;
  const ReadCheck& check_;
  FileIO& io_;
  ExpressionPtr filter_;                            // bound; nullptr: every row
  std::unordered_set<std::string> partitions_;      // partition_key; empty: all
  std::unordered_set<std::string> required_;        // data files that must stay
  std::unordered_set<std::string> vector_targets_;  // data files that the change has deletion vectors for
  std::vector<const DataFile*> removed_;            // data files
};

}  // namespace

void check_conflicts(const TableMetadata& base, const SnapshotChange& change, const std::set<int64_t>& own,
                     FileIO& io) {
  if (!change.read_check) {
    const bool has_deletes = std::any_of(change.added.begin(), change.added.end(), [](const DataFile& file) {
      return file.content == FileContent::position_deletes;
    });
    if (has_deletes || !change.required_data_files.empty()) {
      fail(ErrorKind::invalid_argument,
           "table {}: a commit of position deletes must say which snapshot they were made from", base.location);
    }
    return;
  }
  const Checker checker(base, change, io);
  if (!checker.is_needed()) return;
  const std::optional<int64_t> since = change.read_check->since_snapshot_id;
  std::vector<const Snapshot*> later;  // the history first: without all of it nothing can be told
  const Snapshot* step = branch_head(base, change.branch);
  while (step && step->snapshot_id != since) {
    later.push_back(step);
    const std::optional<int64_t> parent_id = step->parent_snapshot_id;
    if (parent_id && parent_id == since) break;  // whether or not it is kept
    const Snapshot* parent = parent_id ? base.find_snapshot(*parent_id) : nullptr;
    if (parent_id && !parent) checker.fail_cut(*parent_id);
    step = parent;
  }
  if (since && !step) checker.fail_cut(*since);
  for (const Snapshot* snapshot : later) {
    if (!own.contains(snapshot->snapshot_id)) checker.look_at(*snapshot);
  }
}

}  // namespace firn::iceberg
