// Which row groups a filter may match, by the bloom filters of their columns (Parquet format, "Bloom Filter").
#pragma once

#include <functional>
#include <memory>

#include <parquet/bloom_filter.h>
#include <parquet/schema.h>

#include "iceberg/expr/expression.h"
#include "iceberg/parquet/row_selection.h"

namespace firn::iceberg {

// The bloom filter of a leaf's chunk; nullptr: it has none. Called at most once a leaf, and only for those compared by
// equality.
using LoadBloomFilter = std::function<std::unique_ptr<parquet::BloomFilter>(int leaf)>;

// False proves that no row of the group matches. Values are hashed as the file's physical type has them, whatever the
// table's type has become since; where that cannot be told, nothing is proven.
bool bloom_might_match(const Expression& filter, const FilterColumns& columns, const parquet::SchemaDescriptor& schema,
                       const LoadBloomFilter& load);

}  // namespace firn::iceberg
