// What was committed to the live generation while its successor was written (P7).
#pragma once

#include <vector>

#include "hyp/maintain/new_generation.h"

namespace firn::hyp {

// Rows that the new generation leaves out on purpose.
struct DroppedRows {
  NumberSet numbers;
  std::vector<int64_t> rows_by_file;  // of the live table that was read
};

// Sets which rows of a linked file of `live` are hidden: those that its deletes hide, and those in `dropped` that are
// in none of the `kept` ranges.
void hide_rows(NewFile& file, const LiveTable& live, size_t live_index, const DroppedRows& dropped,
               const std::vector<SequenceRange>& kept);

// Brings `generation`, which was made from `before`, to the rows of `now`: files that came are linked, of files and
// rows that went the rows are found again by their number and hidden, and dropped rows in the `pending` ranges come
// back, since a retry of the unit sends them (P8). Requires the partition lock. A row that went stays in its file until
// that is rewritten; who may not have that (a purge) takes the compactor's lock. Returns how many rows came back.
// Throws commit_conflict for what cannot be carried over: another program's equality deletes, rows that came back,
// columns that are others now.
int64_t carry_over(NewGeneration& generation, const LiveTable& before, const LiveTable& now, const DroppedRows& dropped,
                   const std::vector<SequenceRange>& pending);

}  // namespace firn::hyp
