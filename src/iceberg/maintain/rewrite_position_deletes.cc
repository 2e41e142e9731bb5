#include "iceberg/maintain/rewrite_position_deletes.h"

#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "base/fault_point.h"
#include "base/span.h"
#include "iceberg/commit/commit.h"
#include "iceberg/commit/history.h"
#include "iceberg/maintain/dangling_deletes.h"
#include "iceberg/maintain/reach.h"
#include "iceberg/maintain/remove_files.h"
#include "iceberg/manifest/file_identity.h"
#include "iceberg/manifest/snapshot_manifests.h"
#include "iceberg/scan/delete_cache.h"
#include "iceberg/scan/scan.h"
#include "iceberg/write/delete_writer.h"

namespace firn::iceberg {
namespace {

bool is_position_file(const DataFile& file) {
  return file.content == FileContent::position_deletes && !is_deletion_vector(file);
}

// Position delete files that may be rewritten together, and the data files that they concern.
struct DeleteGroup {
  std::vector<DataFile> files;
  std::vector<DataFile> dangling;  // of `files`
  std::vector<const FileScanTask*> tasks;
  std::unordered_set<std::string> paths;  // of `files`
};

std::vector<DataFile> position_files(const TableMetadata& metadata, const Snapshot& snapshot, FileIO& io) {
  static const std::vector<int32_t> kPaths = {kDeleteFilePathFieldId};
  std::vector<DataFile> files;
  for (const ManifestFile& manifest :
       snapshot_manifests(metadata, snapshot, [&io](const std::string& path) { return io.read(path); })) {
    if (manifest.content != ManifestContent::deletes || !may_hold_live_files(manifest)) continue;
    for_each_live(metadata, manifest, io, Missing::fail, kPaths, [&](ManifestEntry& entry) {
      if (is_position_file(entry.file)) files.push_back(std::move(entry.file));
    });
  }
  return files;
}

class Rewrite {
 public:
  Rewrite(TableOperations& table, const RewritePositionDeletesOptions& options)
      : table_(table), options_(options), base_(table.load()) {}

  RewritePositionDeletesResult run() {
    const Snapshot* head = branch_head(*base_.metadata, options_.branch);
    if (head == nullptr) return {};
    std::vector<DataFile> files = position_files(*base_.metadata, *head, *table_.io());
    if (files.empty()) return {};
    ScanOptions scan;
    scan.snapshot_id = head->snapshot_id;
    plan_ = plan_scan(*base_.metadata, table_.io(), scan);
    for (DeleteGroup& group : make_groups(std::move(files), *head)) rewrite(group);
    return std::move(result_);
  }

 private:
  bool makes_vectors() const { return base_.metadata->format_version >= 3; }

  // On v3 all at once: a data file has one vector, whatever the partition of the delete files that go.
  std::vector<DeleteGroup> make_groups(std::vector<DataFile> files, const Snapshot& head) {
    std::unordered_map<std::string, size_t> index;
    std::unordered_map<std::string, size_t> group_of_path;
    std::vector<DeleteGroup> groups;
    for (DataFile& file : files) {
      const std::string key = makes_vectors() ? "" : partition_key(file.partition_spec_id, file.partition);
      const auto [found, is_new] = index.try_emplace(key, groups.size());
      if (is_new) groups.emplace_back();
      group_of_path[file.file_path] = found->second;
      groups[found->second].paths.insert(file.file_path);
      groups[found->second].files.push_back(std::move(file));
    }
    for (const FileScanTask& task : plan_.tasks) {
      std::unordered_set<size_t> concerned;
      for (const auto& file : task.deletes) {
        if (const auto found = group_of_path.find(file->file_path); found != group_of_path.end())
          concerned.insert(found->second);
      }
      for (const size_t group : concerned) groups[group].tasks.push_back(&task);
    }
    for (DataFile& file : find_dangling_deletes(*base_.metadata, head, *table_.io())) {
      if (const auto found = group_of_path.find(file.file_path); found != group_of_path.end())
        groups[found->second].dangling.push_back(std::move(file));
    }
    return groups;
  }

  bool is_worthwhile(const DeleteGroup& group) const {
    if (makes_vectors() || options_.rewrite_all) return true;
    const size_t ideal = delete_granularity(*base_.metadata) == DeleteGranularity::file ? group.tasks.size() : 1;
    return group.files.size() > ideal && static_cast<int64_t>(group.files.size()) >= options_.min_input_files;
  }

  void rewrite(const DeleteGroup& group) {
    const bool is_whole = is_worthwhile(group);
    const std::vector<DataFile>& removed = is_whole ? group.files : group.dangling;
    if (removed.empty()) return;
    int64_t positions_before = 0;
    for (const DataFile& file : removed) {
      positions_before += file.record_count;
      result_.paths.push_back(file.file_path);
    }
    result_.files_removed += static_cast<int64_t>(removed.size());
    if (options_.dry_run) return;

    SnapshotChange change;
    change.operation = "replace";
    change.branch = options_.branch;
    change.summary = options_.summary;
    change.removed = removed;
    change.read_check = ReadCheck{};
    change.read_check->since_snapshot_id = plan_.snapshot_id;
    int64_t positions = 0;
    if (is_whole) change.added = write(group, positions);
    try {
      fault_point("rewrite_position_deletes.commit");
      result_.snapshots.push_back(commit_snapshot(table_, change).snapshot_id);
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::commit_unknown) discard_written(change.added, *table_.io());
      throw;
    }
    result_.files_added += static_cast<int64_t>(change.added.size());
    result_.positions += positions;
    result_.positions_dropped += positions_before - positions;
  }

  std::vector<DataFile> write(const DeleteGroup& group, int64_t& positions) {
    PositionDeleteWriter writer(table_.io(), *base_.metadata);
    for (const FileScanTask* concerned : group.tasks) {
      FileScanTask task;
      task.file = concerned->file;
      task.data_sequence_number = concerned->data_sequence_number;
      for (const auto& file : concerned->deletes) {
        if (is_deletion_vector(*file) || group.paths.contains(file->file_path)) task.deletes.push_back(file);
      }
      PositionSet deleted = load_deleted_positions(task, *table_.io(), plan_.delete_cache.get());
      positions += deleted.size();
      writer.add(task.file, std::move(deleted));
    }
    return writer.finish();
  }

  TableOperations& table_;
  const RewritePositionDeletesOptions& options_;
  const LoadedTable base_;
  ScanPlan plan_;
  RewritePositionDeletesResult result_;
};

}  // namespace

RewritePositionDeletesResult rewrite_position_deletes(TableOperations& table,
                                                      const RewritePositionDeletesOptions& options) {
  Span span("iceberg.rewrite_position_deletes");
  span.set("table", table.location());
  return Rewrite(table, options).run();
}

}  // namespace firn::iceberg
