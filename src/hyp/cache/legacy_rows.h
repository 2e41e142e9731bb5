// Rows without a sequence number get one (protocols P9.3).
#pragma once

#include <cstdint>

#include "hyp/cache/cache.h"

namespace firn::hyp {

// Numbers the rows of the partition that lack a number, in one commit under the partition lock, after making the table
// one of ours if it is not (adopt_table). The first time they get −(n−1)…0 in the order of their files, as the table's
// legacy open, whose id copies of one cache agree on; rows found later get new numbers above all others. Row and batch
// ids that they lack are filled in; the time in a batch id is that of the snapshot which brought the row, as far as it
// is known. Returns how many rows were numbered. Where every row has a number it costs a plan of the manifests that
// this process does not know. Memory is bounded. Throws commit_conflict if a writer that takes no partition lock came
// in between; then nothing was numbered.
int64_t number_legacy_rows(const Cache& cache, const PartitionId& partition);

}  // namespace firn::hyp
