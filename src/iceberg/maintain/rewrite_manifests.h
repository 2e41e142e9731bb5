// Manifests gathered and clustered, so that scans open few of them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "iceberg/catalog/catalog.h"

namespace firn::iceberg {

struct RewriteManifestsOptions {
  std::optional<int32_t> spec_id;            // only manifests of this spec; nullopt: of all
  std::optional<int64_t> target_size_bytes;  // nullopt: commit.manifest.target-size-bytes (8 MiB)
  std::string branch = "main";
  bool rewrite_all = false;  // also where nothing is to be gained
  std::map<std::string, std::string> summary;
  bool dry_run = false;
};

struct RewriteManifestsResult {
  std::optional<int64_t> snapshot_id;  // nullopt: nothing was done
  std::vector<std::string> rewritten;  // manifests that are replaced, or would be
  std::vector<std::string> added;      // dry run: empty
  int64_t entries = 0;                 // live ones of `rewritten`, as far as counts are known
};

// Writes the manifests of a spec and content anew, entries sorted by partition tuple, where they are more than their
// size asks for or their partitions overlap. Entries keep their snapshot, sequence numbers and row ids. One commit of
// operation "replace" with manifests-created, -kept, -replaced and entries-processed in its summary. A second run does
// nothing. Throws not_found for a spec that the table lacks, and what commit_snapshot throws.
RewriteManifestsResult rewrite_manifests(TableOperations& table, const RewriteManifestsOptions& options);

}  // namespace firn::iceberg
