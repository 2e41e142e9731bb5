// Files in a table's folders that nothing of the table reaches: leftovers of crashes and of failed commits.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "iceberg/catalog/catalog.h"
#include "iceberg/maintain/file_counts.h"

namespace firn::iceberg {

// What to do with a listed file whose path is a reached file's but for another scheme or authority.
enum class PrefixMismatch : uint8_t { error, ignore, remove };

struct OrphanOptions {
  // Only files changed before this go, and never one changed after the call began. It must be above the longest time
  // that a writer takes from its first file to its commit. nullopt: 3 days ago.
  std::optional<int64_t> older_than_ms;
  bool any_age =
      false;  // instead: the caller keeps all writers out by a lock, so that what is named by nothing is waste
  // The folder to look in: the table's location, its write.data.path or write.metadata.path, or a folder below one of
  // these. Empty: the table's location alone; a data or metadata path outside of it must be named, since other tables
  // may write there too.
  std::string location;
  // Schemes and authorities taken for one: {"s3a", "s3"}. Beside these, s3, s3a and s3n are one scheme, and file:,
  // file:/// and a bare path the same. A reached path without scheme fits any.
  std::map<std::string, std::string> equal_schemes, equal_authorities;
  PrefixMismatch prefix_mismatch = PrefixMismatch::error;
  bool dry_run = false;
  int threads = 0;
};

struct OrphanResult {
  FileCounts files;
  std::vector<std::string> other_tables;        // folders of other tables below the location; not looked into
  std::vector<std::string> folders_not_listed;  // write.data.path and write.metadata.path outside of the location
};

// Reached are: data and delete files live in any snapshot, manifests, manifest lists, the head's metadata file and
// those of its log, statistics, version-hint.text and its lock, the metadata of later versions. On a disk a file is
// known by what it is: by "//", ".", "..", relative paths and links the same one is reached. The folder is listed
// before the table is loaded, so what is committed meanwhile is reached. Names that begin with '_' or '.' (and what
// lies in folders of such names, those of partition fields aside) are not looked at, but for what killed writers left
// (FileIO::list_leftovers).
//   Memory grows with the number of files listed. Throws invalid_argument where gc.enabled is false, the location is
// not the table's, prefixes differ with PrefixMismatch::error, or a file that would go has the name of one that the
// table names elsewhere and that is not there (naming some; nothing was removed then).
OrphanResult remove_orphan_files(TableOperations& table, const OrphanOptions& options);

struct StrayOptions {
  std::optional<int64_t> older_than_ms;  // as above; younger versions may be a live writer's, who takes it back itself
  bool dry_run = false;
};

// Versions v<N> of a table directory that belong to another table-uuid than the version that version-hint.text names: a
// writer of a dropped table died before its check (P1.5), and the table cannot be opened until they are gone. Throws
// not_found if there is no table, corrupt if the hint names no version, since then nothing tells which table is meant.
FileCounts remove_stray_versions(const std::shared_ptr<FileIO>& io, const std::string& location,
                                 const StrayOptions& options);

}  // namespace firn::iceberg
