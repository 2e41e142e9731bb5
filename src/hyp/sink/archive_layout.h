// How an archive table is laid out (spec/iceberg-export-partitioning.md): by day of the dataset's primary timestamp,
// sorted by its lookup columns. The writer's own default, whatever the cache's layout.
#pragma once

#include <string>

#include "hyp/config.h"
#include "iceberg/metadata/table_metadata.h"

namespace firn::hyp {

// day(primaryTimestampColumn) where the schema has that column and it is a date or timestamp, else unpartitioned.
iceberg::PartitionSpec archive_spec(const DatasetConfig& dataset, const iceberg::Schema& schema);
// The identity columns of cachePartitioning that the schema has, in declared order, ascending, nulls first.
iceberg::SortOrder archive_order(const DatasetConfig& dataset, const iceberg::Schema& schema);

// Throws partition_spec_drift if the table's spec is not the one derived from `schema`, in either direction. Sort
// orders may differ: they are no drift.
void check_archive_spec(const iceberg::TableMetadata& table, const DatasetConfig& dataset,
                        const iceberg::Schema& schema);

// The empty table, format version 3.
iceberg::TableMetadata new_archive_table(const std::string& location, const DatasetConfig& dataset,
                                         const iceberg::Schema& schema);

// For spans: "day(ts)" or "unpartitioned"; "session_id,cwd" or "unsorted".
std::string display_spec(const iceberg::TableMetadata& table);
std::string display_order(const iceberg::TableMetadata& table);

}  // namespace firn::hyp
