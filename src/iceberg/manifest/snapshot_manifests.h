// The manifests of a snapshot, whatever version of the format it was written in.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "iceberg/manifest/manifest.h"

namespace firn::iceberg {

// As the manifest list says; old v1 snapshots name their manifests in the metadata, and then counts, bounds and lengths
// are unknown. `read` gives a file's bytes. Throws corrupt.
std::vector<ManifestFile> snapshot_manifests(const TableMetadata& metadata, const Snapshot& snapshot,
                                             const std::function<std::string(const std::string& path)>& read);

// False only where the counts say that every file of the manifest was deleted.
bool may_hold_live_files(const ManifestFile& manifest);

}  // namespace firn::iceberg
