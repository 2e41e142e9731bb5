// Rows whose content an earlier row has too (P5.3).
#pragma once

#include <atomic>
#include <vector>

#include "hyp/maintain/live_data.h"
#include "hyp/maintain/number_set.h"

namespace firn::hyp {

struct Duplicates {
  NumberSet numbers;                  // of every row but the first, by number, of its _hyp_cache_row_id
  std::vector<int64_t> rows_by_file;  // how many of them each of the table's files has
};

// Looks at all rows of the table by an external sort of (row id, number); about `memory_bytes_max` are held, and the
// numbers found. Rows without a row id, and those in the ranges `kept`, are no duplicates of any. Throws cancelled.
Duplicates find_duplicates(const LiveTable& live, const std::vector<SequenceRange>& kept, int64_t memory_bytes_max,
                           const std::atomic<bool>* cancelled);

void check_not_cancelled(const std::atomic<bool>* cancelled);  // throws cancelled

}  // namespace firn::hyp
