// Data files rewritten: small ones gathered, large ones split, deletes applied, rows sorted.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "iceberg/catalog/catalog.h"
#include "iceberg/expr/expression.h"

namespace firn::iceberg {

enum class CompactStrategy : uint8_t {
  bin_pack,  // rows in the order of the files
  sort,      // rows of a group sorted; files that are not of that order are rewritten too
};

struct CompactOptions {
  CompactStrategy strategy = CompactStrategy::bin_pack;
  std::optional<SortOrder> sort_order;  // for sort; nullopt: the table's. One that the table lacks gives order id 0
  ExpressionPtr filter;                 // unbound: only files that may hold a matching row; nullptr: all
  std::string branch = "main";

  // A file is rewritten if it is outside [min, max], or has too many deletes; a group of them if it has
  // min_input_files, or several that together exceed the target, or one above max or with too many deletes.
  std::optional<int64_t> target_file_size_bytes;  // nullopt: write.target-file-size-bytes (512 MiB)
  std::optional<int64_t> min_file_size_bytes;     // 75% of the target
  std::optional<int64_t> max_file_size_bytes;     // 180% of it
  int32_t min_input_files = 5;
  std::optional<int32_t> delete_file_threshold;  // that many delete files or more apply; nullopt: no such rule
  double delete_ratio_threshold = 0.3;           // of a file's rows, known to be deleted by deletes of that file alone
  bool rewrite_all = false;                      // every file, each time

  int64_t max_group_bytes = 100LL << 30;
  int32_t commits_max = 10;                // groups are gathered into at most so many commits; 0: one a group
  int64_t memory_bytes_max = 256LL << 20;  // of all groups at work together
  int parallel_groups = 1;
  int threads = 1;                             // that read files of a group
  std::string spill_folder;                    // empty: the system's temporary folder
  bool remove_dangling_deletes = true;         // delete files that apply to no data file any more, by a last commit
  std::map<std::string, std::string> summary;  // added to each snapshot's
  bool dry_run = false;
};

struct CompactFailure {
  std::vector<std::string> files;  // of the group, unchanged in the table
  ErrorKind kind = ErrorKind::internal;
  std::string message;
};

struct CompactResult {
  int32_t groups = 0;            // planned
  int32_t groups_rewritten = 0;  // committed; in a dry run 0
  int64_t files_rewritten = 0, files_added = 0;
  int64_t bytes_rewritten = 0, bytes_added = 0;  // dry run: bytes_added 0
  int64_t delete_files_removed = 0;              // with their data files, and dangling ones; a dry run tells them too
  int64_t runs_spilled = 0;                      // of sorting
  std::vector<int64_t> snapshots;                // of the commits, in order
  std::vector<std::string> paths;                // of the files rewritten, or to be; the first 100,000
  std::vector<CompactFailure> failures;
};

// Rewrites the data files of `branch` that need it, group by group (of one spec and partition, up to max_group_bytes),
// into the table's default spec and current schema, deletes applied, by commits of operation "replace". Files of older
// specs go first, so that their rows take part in the packing of the partitions that they come to.
//   Rows keep their data sequence number's order: the new files have that of the snapshot read, so equality deletes
// made meanwhile still apply. On v3 rows keep _row_id and _last_updated_sequence_number. A position delete or deletion
// vector added meanwhile for a file of the group, or the file gone, is a conflict: that group fails, its files are
// removed, and it is in `failures`, as is a group that cannot be read; other groups go on. Unless rewrite_all or an
// order that the table lacks is asked for, a second run finds nothing to do. Memory: a budget each group at work,
// batches read ahead aside.
//   Throws invalid_argument for thresholds that contradict each other, what plan_scan throws, and commit_unknown (files
// of that commit stay) after all groups had their turn.
CompactResult compact(TableOperations& table, const CompactOptions& options);

// Takes out delete files of `branch` that apply to no live data file: position deletes and deletion vectors of files
// that are gone, equality deletes below whose sequence number no data file is left. One commit of operation "replace",
// none if there are none. Judged by manifests alone. Returns the paths (dry_run: without commit).
std::vector<std::string> remove_dangling_deletes(TableOperations& table, const std::string& branch = "main",
                                                 bool dry_run = false);

}  // namespace firn::iceberg
