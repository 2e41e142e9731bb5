// Which snapshot a scan reads, and with which schema.
#pragma once

#include "iceberg/scan/scan.h"

namespace firn::iceberg {

struct SnapshotChoice {
  const Snapshot* snapshot = nullptr;  // nullptr: the table has none
  Schema schema;
};

// As ScanOptions says. The snapshot lives in `metadata`. Throws not_found, and invalid_argument for more than one
// choice.
SnapshotChoice choose_snapshot(const TableMetadata& metadata, const ScanOptions& options);

// `options.columns` and row lineage as a schema over `table_schema`. Throws not_found naming a column and those that
// exist.
Schema choose_columns(const Schema& table_schema, const ScanOptions& options);

}  // namespace firn::iceberg
