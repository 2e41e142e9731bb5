// The first generation of a partition.
#pragma once

#include "hyp/cache/cache.h"

namespace firn::hyp {

// Metadata of an empty cache table with `visible` columns and the hidden ones, partitioned as the dataset says, sorted
// by _hyp_ingest_seq. Nothing is written. Throws invalid_argument for a cachePartitioning that does not fit the
// columns.
iceberg::TableMetadata new_cache_table(const std::string& location, const iceberg::Schema& visible,
                                       const DatasetConfig& config);

// The name of the next generation's directory: above every directory there. A crash between a table and its cursor
// leaves one that is empty, which the next compactor removes (P7).
std::string next_table_dir(const Cache& cache, const PartitionId& partition);

// Publishes the table, durable, then the cursor that names it, durable (P7, P15). Requires the partition lock.
void publish_first_table(Cache& cache, const PartitionId& partition, const std::string& table_dir,
                         const iceberg::TableMetadata& metadata);

}  // namespace firn::hyp
