// Datasets as DuckDB tables: a replacement scan turns a table's name into hyp_scan('<dataset>'), a table function with
// projection pushdown that several threads read.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "hyp/query/cut.h"
#include "hyp/query/duckdb_handle.h"
#include "iceberg/expr/expression.h"

namespace firn::hyp {

struct DatasetScanContext {
  Cut* cut = nullptr;
  duckdb_connection connection = nullptr;
  // By dataset: predicates that every row which the statement can use satisfies (P13.2). They prune, and DuckDB filters
  // anyway.
  std::map<std::string, std::vector<iceberg::ExpressionPtr>> pruning;
  bool prune = true;  // false: every file, row group and page is read
  int threads = 1;
  iceberg::ReadCounters* counters = nullptr;          // of the cache's tables
  iceberg::ReadCounters* blob_counters = nullptr;     // of queryable blobs
  iceberg::ReadCounters* archive_counters = nullptr;  // of queryable archives
  std::string failure;                                // what a dataset that was named could not be opened for
};

// `context` outlives the connection's statements.
void register_dataset_scan(duckdb_database database, duckdb_connection connection, DatasetScanContext* context);

// The rows' Arrow schema as DuckDB is to see it: uuid columns as UUID, no field ids.
std::shared_ptr<arrow::Schema> scan_schema(const iceberg::Schema& schema);

}  // namespace firn::hyp
