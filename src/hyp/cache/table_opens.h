// The opens that a cache table's rows belong to (protocols P5.1, P9.3, P10.5).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "hyp/cache/cache.h"

namespace firn::hyp {

constexpr size_t kOpensKept = 64;  // of a table, and of a stream at its destination (P10.7)

// Table properties of a table that had rows before firn wrote to it. Its legacy open issued (-rows, until].
inline constexpr const char* kLegacyRowsProperty = "firn.legacy-rows";    // rows that got the numbers -(rows-1)…0
inline constexpr const char* kLegacyOpenProperty = "firn.legacy-open";    // its id, the same in copies of one cache
inline constexpr const char* kLegacyUntilProperty = "firn.legacy-until";  // the highest number that rows had already

// The table's firn.opens with the open that issued `seq`, for the commit that brings rows from `seq` on.
std::string opens_property(const iceberg::TableMetadata& base, const std::vector<Open>& opens, int64_t seq);

// The opens that rows of the table may belong to, ascending: that of its legacy rows if it has any, then the cache's
// (`opens`) from where that ends, and those that it repeats from before these. Throws corrupt.
std::vector<OpenRange> table_opens(const iceberg::TableMetadata& metadata, const std::vector<Open>& opens);
// The same of the partition's head; those of the cache if it has no table.
std::vector<OpenRange> partition_opens(const Cache& cache, const PartitionId& partition);

}  // namespace firn::hyp
