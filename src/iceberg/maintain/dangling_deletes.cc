#include "iceberg/maintain/dangling_deletes.h"

#include <mutex>
#include <string>
#include <unordered_map>

#include "base/parallel.h"
#include "iceberg/maintain/reach.h"
#include "iceberg/manifest/file_identity.h"
#include "iceberg/manifest/snapshot_manifests.h"

namespace firn::iceberg {
namespace {

// Delete files that have not yet been found to apply to a data file.
class UnusedDeletes {
 public:
  void add(const ManifestEntry& entry, bool is_global) {
    files_.push_back({entry.file, entry.sequence_number.value_or(0), false});
    const size_t index = files_.size() - 1;
    const std::string path = entry.file.content == FileContent::position_deletes ? single_data_file(entry.file) : "";
    if (!path.empty()) {
      by_path_[path].push_back(index);
    } else if (entry.file.content == FileContent::equality_deletes && is_global) {
      global_.push_back(index);
    } else {
      by_partition_[partition_key(entry.file.partition_spec_id, entry.file.partition)].push_back(index);
    }
  }

  void see(const ManifestEntry& data) {
    const int64_t sequence_number = data.sequence_number.value_or(0);
    const auto use = [&](const std::vector<size_t>& indices) {
      for (const size_t index : indices) {
        Delete& file = files_[index];
        if (file.is_used) continue;
        const bool is_equality = file.file.content == FileContent::equality_deletes;
        file.is_used = is_equality
                           ? sequence_number < file.sequence_number
                           : sequence_number <= file.sequence_number && may_name(file.file, data.file.file_path);
      }
    };
    use(global_);
    if (const auto found = by_path_.find(data.file.file_path); found != by_path_.end()) use(found->second);
    if (by_partition_.empty()) return;
    const auto found = by_partition_.find(partition_key(data.file.partition_spec_id, data.file.partition));
    if (found != by_partition_.end()) use(found->second);
  }

  bool empty() const { return files_.empty(); }
  std::vector<DataFile> unused() const {
    std::vector<DataFile> unused;
    for (const Delete& file : files_) {
      if (!file.is_used) unused.push_back(file.file);
    }
    return unused;
  }

 private:
  struct Delete {
    DataFile file;
    int64_t sequence_number;
    bool is_used;
  };
  std::vector<Delete> files_;
  std::vector<size_t> global_;  // equality deletes of an unpartitioned spec
  std::unordered_map<std::string, std::vector<size_t>> by_path_, by_partition_;
};

}  // namespace

std::vector<DataFile> find_dangling_deletes(const TableMetadata& metadata, const Snapshot& snapshot, FileIO& io,
                                            const std::unordered_set<std::string>& gone) {
  const std::vector<ManifestFile> manifests =
      snapshot_manifests(metadata, snapshot, [&io](const std::string& path) { return io.read(path); });
  static const std::vector<int32_t> kPaths = {kDeleteFilePathFieldId};
  UnusedDeletes deletes;
  for (const ManifestFile& manifest : manifests) {
    if (manifest.content != ManifestContent::deletes || !may_hold_live_files(manifest)) continue;
    const bool is_global = metadata.spec(manifest.partition_spec_id).is_unpartitioned();
    for_each_live(metadata, manifest, io, Missing::fail, kPaths,
                  [&](const ManifestEntry& entry) { deletes.add(entry, is_global); });
  }
  if (deletes.empty()) return {};
  std::mutex mutex;
  parallel_for(manifests.size(), 0, [&](size_t i) {
    if (manifests[i].content != ManifestContent::data || !may_hold_live_files(manifests[i])) return;
    for_each_live(metadata, manifests[i], io, Missing::fail, {}, [&](const ManifestEntry& entry) {
      if (gone.contains(entry.file.file_path)) return;
      const std::lock_guard lock(mutex);
      deletes.see(entry);
    });
  });
  return deletes.unused();
}

}  // namespace firn::iceberg
