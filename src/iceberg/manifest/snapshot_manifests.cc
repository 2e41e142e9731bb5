#include "iceberg/manifest/snapshot_manifests.h"

namespace firn::iceberg {

namespace {

// Such tables have the first spec alone (as Java reads them).
ManifestFile embedded_manifest(const TableMetadata& metadata, const Snapshot& snapshot, const std::string& path) {
  ManifestFile manifest;
  manifest.manifest_path = path;
  manifest.partition_spec_id = metadata.partition_specs.empty() ? 0 : metadata.partition_specs.front().spec_id;
  manifest.sequence_number = 0;
  manifest.min_sequence_number = 0;
  manifest.added_snapshot_id = snapshot.snapshot_id;
  return manifest;
}

}  // namespace

std::vector<ManifestFile> snapshot_manifests(const TableMetadata& metadata, const Snapshot& snapshot,
                                             const std::function<std::string(const std::string& path)>& read) {
  if (!snapshot.manifest_list.empty()) return read_manifest_list(read(snapshot.manifest_list), snapshot.manifest_list);
  std::vector<ManifestFile> manifests;
  for (const std::string& path : snapshot.manifests) manifests.push_back(embedded_manifest(metadata, snapshot, path));
  return manifests;
}

bool may_hold_live_files(const ManifestFile& manifest) {
  return manifest.added_files_count != 0 || manifest.existing_files_count != 0;  // unknown counts are not 0
}

}  // namespace firn::iceberg
