// Which files of a partition a compaction takes up, and which of those together. Values only.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace firn::hyp {

// What the plan looks at of a live data file.
struct FileShape {
  std::string partition;  // of the table's own spec, as a key
  int64_t bytes = 0, rows = 0;
  int64_t rows_hidden = 0;  // by deletes of this file alone
  // It has deletes that cannot be told of the file under another path (equality deletes, position deletes of several
  // files), or rows out of sequence order: it cannot be linked.
  bool must_rewrite = false;
  int64_t lower = std::numeric_limits<int64_t>::min();  // of its numbers, inclusive
  int64_t upper = std::numeric_limits<int64_t>::max();

  int64_t live_bytes() const {
    return rows <= 0 ? bytes
                     : static_cast<int64_t>(static_cast<double>(bytes) * static_cast<double>(rows - rows_hidden) /
                                            static_cast<double>(rows));
  }
};

constexpr int64_t smallest_near(int64_t target_bytes) { return target_bytes / 4 * 3; }

// Files that become one row stream, in the order of their numbers.
struct CompactionGroup {
  std::vector<size_t> files;  // indices of the shapes
  int64_t bytes = 0;          // live
};

struct CompactionPlan {
  std::vector<size_t> linked;  // stay as they are
  std::vector<CompactionGroup> groups;
  int64_t gathered_files = 0, gathered_bytes = 0;  // of the groups
  int64_t files_spared = 0;                        // how many fewer there will be, about
  int64_t bytes_reclaimed = 0;                     // of deleted rows in the groups
};

// A file is taken up if it is below 75% of the target, if three tenths of its rows are deleted, or if it must be. Files
// are rewritten together that follow one another in their partition's sequence with none between them that stays, so
// that the new files overlap no other. One that is half as large again as all others of such a stretch together stays
// though it is small: what a row is rewritten into is at least 5/3 as large each time, so it is rewritten as often as
// the logarithm of the target says. One that would be rewritten alone stays, deletes aside.
CompactionPlan plan_compaction(const std::vector<FileShape>& files, int64_t target_bytes);

// What to roll the files of a group at, so that they come out even and near the target.
int64_t file_share(int64_t group_bytes, int64_t target_bytes);

}  // namespace firn::hyp
