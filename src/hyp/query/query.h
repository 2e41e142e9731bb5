// SQL over the cache with DuckDB (protocols P13): each dataset is a table of its name, spooled rows included, and what
// its queryable sink has.
#pragma once

#include <atomic>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <string>

#include <arrow/record_batch.h>

#include "hyp/cache/cache.h"

namespace firn::hyp {

struct QueryOptions {
  bool prune = true;                                  // false: projection alone (tests compare both)
  int threads = 0;                                    // 0: hardware
  int64_t memory_bytes_max = 0;                       // 0: DuckDB's default
  const std::atomic<bool>* cancelled = nullptr;       // interrupts the statement; then throws cancelled
  iceberg::ReadCounters* counters = nullptr;          // of what was read of the cache's tables
  iceberg::ReadCounters* blob_counters = nullptr;     // of queryable blobs; a file whose row groups are all pruned is
                                                      // no pruned file
  iceberg::ReadCounters* archive_counters = nullptr;  // of queryable archives
};

// Runs one SQL statement (a SELECT, or what only reads) on one cut of the cache: what is visible when the statement
// starts, and what queryable sinks have of it. The result streams; the reader keeps the connection, and must be dropped
// before `cache`. Throws invalid_argument with DuckDB's message. No extension is loaded, and no file, socket or
// environment variable is reachable from SQL.
std::shared_ptr<arrow::RecordBatchReader> run_query(const Cache& cache, const std::string& sql,
                                                    const QueryOptions& options = {});

enum class OutputFormat : uint8_t { table, json, csv, parquet };
// Writes the whole result; returns the number of rows. json: one object a line. Throws invalid_argument for parquet.
int64_t write_result(arrow::RecordBatchReader& rows, OutputFormat format, std::ostream& out);
// As a file, which appears (or replaces the one that is there) once it is whole.
int64_t write_result_file(arrow::RecordBatchReader& rows, OutputFormat format, const std::string& path);

}  // namespace firn::hyp
