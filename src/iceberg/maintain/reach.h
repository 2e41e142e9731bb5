// What snapshots reach: their manifests, and the files live in those. Within maintain/ only.
#pragma once

#include <functional>
#include <string>
#include <unordered_set>
#include <vector>

#include "iceberg/manifest/manifest.h"
#include "io/file_io.h"

namespace firn::iceberg {

// The manifests of some snapshots, each once, without the bounds of their partitions. In the order of `snapshots`.
struct ReachedManifests {
  std::vector<ManifestFile> manifests;
  std::unordered_set<std::string> paths;  // of manifests
};
enum class Missing : uint8_t { fail, pass_over };  // of a file that is not there
ReachedManifests reach_manifests(const TableMetadata& metadata, const std::vector<const Snapshot*>& snapshots,
                                 FileIO& io, int threads, Missing missing);

// Calls visit(entry) for each live entry, with column metrics of `columns_wanted` alone. False: the manifest is not
// there (Missing::pass_over).
bool for_each_live(const TableMetadata& metadata, const ManifestFile& manifest, FileIO& io, Missing missing,
                   const std::vector<int32_t>& columns_wanted, const std::function<void(ManifestEntry&)>& visit);

}  // namespace firn::iceberg
