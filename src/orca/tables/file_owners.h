// Whose rows a live file has, and so whether a run may take it away (protocols P14.1).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "iceberg/manifest/manifest.h"
#include "io/file_io.h"
#include "orca/ctx.h"

namespace firn::orca {

// A file is its entry's snapshot's; one that a rewrite (operation replace, such as a compaction) added also belongs to
// those whose files the rewrite was made of. Snapshots say by their summary which run committed them.
//   A snapshot that has expired says nothing. What it added is an earlier writer's where its sequence number is at or
// below that of a snapshot from before the run began (runs are numbered in the order of their starts); anything younger
// may be this run's or a later one's. So where no snapshot from before the run is left, nothing is removed. `orca
// expire` keeps what open runs need.
class FileOwners {
 public:
  // `base` and `io` must outlive it. `title`: of the table, for messages.
  FileOwners(const iceberg::TableMetadata& base, FileIO& io, const AttemptId& id, std::string title);

  // Whether a replacement of the file's partition by this run takes it away: false for a file of this run. Throws
  // commit_conflict saying whose file it is, and what to do, where the partition may not be replaced:
  //   - a later run of the pipeline wrote it, or rows in it;
  //   - another writer added it after this run's first commit to the table;
  //   - a rewrite made it of this run's files and others; or nothing tells whose it is.
  bool is_replaced(const iceberg::ManifestEntry& entry);

  // Throws commit_conflict where a later run wrote the file or rows in it, or that cannot be told.
  void check_not_later(const iceberg::ManifestEntry& entry);

 private:
  struct Origin {
    const iceberg::Snapshot* snapshot = nullptr;  // nullptr: it has expired
    int64_t sequence = 0;
  };
  struct Removed {  // an entry that a rewrite removed
    std::string partition_key;
    int32_t spec_id = 0;
    int64_t sequence = 0;
  };

  const iceberg::Snapshot* by_id(int64_t id) const;
  bool is_own(const iceberg::Snapshot& snapshot) const;
  bool is_later(const iceberg::Snapshot& snapshot) const;
  bool is_before_run(int64_t sequence) const { return sequence <= before_run_; }
  // What rows of the file come from, rewrites followed back.
  std::vector<Origin> origins_of(const iceberg::ManifestEntry& entry);
  void add_origins(Origin origin, const std::string& partition_key, int32_t spec_id, std::vector<Origin>& origins);
  const std::vector<Removed>& removed_by(const iceberg::Snapshot& rewrite);
  void check_origins(const iceberg::ManifestEntry& entry, const std::vector<Origin>& origins) const;
  [[noreturn]] void fail_unknown(const iceberg::ManifestEntry& entry) const;

  const iceberg::TableMetadata& base_;
  FileIO& io_;
  const AttemptId& id_;
  const std::string title_;
  std::unordered_map<int64_t, const iceberg::Snapshot*> by_id_, by_sequence_;
  std::unordered_map<int64_t, std::vector<Removed>> removed_;  // by a rewrite's id
  std::optional<int64_t> first_own_;  // sequence number of this run's first commit to the table
  int64_t before_run_ = 0;            // what is at or below it was there before the run began
  bool is_whole_ = false;             // all snapshots of main since then are there
};

}  // namespace firn::orca
