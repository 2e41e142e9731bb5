// Rows removed at once and for good, wherever the cache has them (P8).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "hyp/cache/cache.h"
#include "iceberg/expr/expression.h"

namespace firn::hyp {

struct PurgeReport {
  int64_t rows = 0;                                // removed from the live generations; dry run: that would be
  int64_t partitions = 0;                          // that had such rows
  std::vector<std::string> waiting;                // what still holds such rows until its readers end, and why
  std::map<std::string, int64_t> sent_rows;        // by sink: purged rows that it already has
  std::map<std::string, int64_t> maybe_sent_rows;  // by sink: it announced them, or was running: they may have arrived,
                                                   // or still may; or how far it is cannot be read
  std::vector<std::string> problems;               // partitions that failed; the others are done
};

// Removes every row of `dataset` that `where` (unbound, over the visible columns) is true for. The caller has flushed
// the spools first. Rows of another system get their numbers first (P9.3). Rewrites the live generation's files that
// hold such rows, also those that a delete hides, then removes what held them from older snapshots and generations that
// no reader holds; the rest goes at the next upkeep once its reader ends. A partition that lacks a column of `where` is
// judged with that column null. A pending unit may get fewer rows, its range stays. Waits for a compaction of the
// partition to end. Rejected lines are no rows and stay.
//   Killed anywhere and run again, it completes. Throws invalid_argument for a column that no partition and no
// declaration has, and for a literal that is none of its column's type; then nothing was done.
PurgeReport purge(Cache& cache, const std::string& dataset, const iceberg::ExpressionPtr& where, bool dry_run = false);

}  // namespace firn::hyp
