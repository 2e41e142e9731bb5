#include "iceberg/maintain/reach.h"

#include "base/error.h"
#include "base/log.h"
#include "base/parallel.h"
#include "iceberg/manifest/snapshot_manifests.h"

namespace firn::iceberg {
namespace {

constexpr size_t kListsAtOnce = 64;  // held before they are gathered

// Whether `error` was passed over.
bool pass_over(const Error& error, Missing missing) {
  if (missing == Missing::fail || error.kind() != ErrorKind::not_found) return false;
  spdlog::info("passed over, it is gone already: {}", error.what());
  return true;
}

std::vector<ManifestFile> manifests_of(const TableMetadata& metadata, const Snapshot& snapshot, FileIO& io,
                                       Missing missing) {
  try {
    return snapshot_manifests(metadata, snapshot, [&io](const std::string& path) { return io.read(path); });
  } catch (const Error& e) {
    if (!pass_over(e, missing)) throw;
    return {};
  }
}

}  // namespace

ReachedManifests reach_manifests(const TableMetadata& metadata, const std::vector<const Snapshot*>& snapshots,
                                 FileIO& io, int threads, Missing missing) {
  ReachedManifests reached;
  for (size_t begin = 0; begin < snapshots.size(); begin += kListsAtOnce) {
    std::vector<std::vector<ManifestFile>> lists(std::min(kListsAtOnce, snapshots.size() - begin));
    parallel_for(lists.size(), threads,
                 [&](size_t i) { lists[i] = manifests_of(metadata, *snapshots[begin + i], io, missing); });
    for (std::vector<ManifestFile>& list : lists) {
      for (ManifestFile& manifest : list) {
        if (!reached.paths.insert(manifest.manifest_path).second) continue;
        manifest.partitions.reset();
        reached.manifests.push_back(std::move(manifest));
      }
    }
  }
  return reached;
}

bool for_each_live(const TableMetadata& metadata, const ManifestFile& manifest, FileIO& io, Missing missing,
                   const std::vector<int32_t>& columns_wanted, const std::function<void(ManifestEntry&)>& visit) {
  std::string bytes;
  try {
    bytes = io.read(manifest.manifest_path);
  } catch (const Error& e) {
    if (!pass_over(e, missing)) throw;
    return false;
  }
  std::vector<ManifestEntry> entries = read_manifest(bytes, manifest, metadata.spec(manifest.partition_spec_id),
                                                     metadata.schema(), /*live_only=*/true, &columns_wanted);
  bytes = {};
  for (ManifestEntry& entry : entries) {
    entry.file.partition_spec_id = manifest.partition_spec_id;
    visit(entry);
  }
  return true;
}

}  // namespace firn::iceberg
