// Snapshots that nobody needs any more, and the files that only they reach (Iceberg spec, "Snapshot Retention Policy").
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "iceberg/catalog/catalog.h"
#include "iceberg/maintain/file_counts.h"

namespace firn::iceberg {

struct ExpireOptions {
  // Snapshots of a branch older than this may go. nullopt: history.expire.max-snapshot-age-ms before now (5 days).
  std::optional<int64_t> older_than_ms;
  // Of each branch at least so many stay, its head included. nullopt: history.expire.min-snapshots-to-keep (1). A
  // branch's own max-snapshot-age-ms and min-snapshots-to-keep go before this and the age above.
  std::optional<int32_t> retain_last;
  // These go whatever their age. Given without older_than_ms and retain_last, nothing else goes, no ref either.
  std::vector<int64_t> snapshot_ids;
  // These stay, whatever is said above: what open runs and held readers rest on.
  std::vector<int64_t> keep;
  // Drops partition specs that no manifest of a kept snapshot has, and schemas that none was written with and whose
  // columns all are in a schema that stays (older equality deletes and specs still need dropped ones).
  bool clean_expired_metadata = false;
  int64_t files_held_max = 500'000;  // paths compared in one pass; more files take more passes over the manifests
  bool dry_run = false;
  int threads = 0;  // reading manifests and removing files; 0: hardware
};

struct ExpireResult {
  std::vector<int64_t> expired_snapshots;
  std::vector<std::string> removed_refs;  // older than their max-ref-age-ms
  std::vector<int32_t> removed_specs, removed_schemas;
  FileCounts files;
};

// The refs (main aside) whose max-ref-age-ms has passed go; then stay: what a ref names, of a branch the ancestors that
// are young enough or among the first to keep, and snapshots of no branch (staged ones) until they are older than
// older_than_ms. The rest is taken out of the metadata by a commit that judges each try's base anew. Only then files
// are removed, in parallel: those that an expired snapshot reaches and no snapshot of the head loaded after the commit
// does. A data or delete file stays while any live entry of any kept snapshot has its path (case 13), however either is
// spelled. What a crash in between leaves is named by nothing and falls to orphan removal.
//   Read are: the manifest lists, manifests that only expired snapshots have, and kept manifests until all of those
// files are found again.
//   That commit also notes in the properties firn.offset.*, JSON with a "snapshot" that an exporter's rows rest on,
//   with
// "rolledBack": true where the base lists that snapshot and main's history does not lead to it: what is left afterwards
// would not tell.
//   Throws invalid_argument where gc.enabled is false (files may be another table's), or a ref or `keep` names one of
// snapshot_ids; not_found for one that is not there; what commit_metadata throws. After the commit: what reading kept
// manifests throws, and then nothing of that pass was removed. Manifests of expired snapshots that are gone are passed
// over.
ExpireResult expire_snapshots(TableOperations& table, const ExpireOptions& options);

}  // namespace firn::iceberg
