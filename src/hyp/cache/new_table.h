// The first generation of a partition: made here, or found.
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

// Makes a table that another system or an older cache made one of ours, by one additive commit where it is not: the
// hidden columns, format version 3, sorted by _hyp_ingest_seq, our properties where it has none of them; and its cursor
// repeats the cacheId (P5.1). Its rows stay as they are (legacy_rows.h numbers them); `held` is its head then. Throws
// schema_mismatch if a hidden column has another type, unsupported for a table that cannot be written. Requires the
// partition lock.
void adopt_table(const Cache& cache, const PartitionId& partition, HeldTable& held);
bool is_adopted(const iceberg::TableMetadata& metadata);

}  // namespace firn::hyp
