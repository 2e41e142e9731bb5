// Reading one Parquet data file under a table's schema, with row groups and pages pruned.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include <arrow/record_batch.h>

#include "iceberg/expr/expression.h"
#include "io/file_io.h"

namespace firn::iceberg {

// What a scan did, for tests, `--stats` and spans. Thread-safe; added to, never reset.
struct ReadCounters {
  std::atomic<int64_t> manifests_read{0}, manifests_skipped{0};
  std::atomic<int64_t> files_planned{0}, files_pruned{0};
  std::atomic<int64_t> files_opened{0}, row_groups_read{0}, row_groups_pruned{0}, pages_read{0}, pages_pruned{0};
  std::atomic<int64_t> row_groups_pruned_by_bloom{0};  // of row_groups_pruned
  std::atomic<int64_t> values_decoded{0};              // leaf values, all columns together
  std::atomic<int64_t> rows_decoded{0};                // the largest of a file's columns, summed over files
  std::atomic<int64_t> bytes_read{0};
};

struct ParquetReadRequest {
  Schema projection;                        // what batches have, in order; ids decide (spec, "Column Projection")
  ExpressionPtr filter;                     // bound, or nullptr. Prunes only: rows that do not match may come too
  std::optional<NameMapping> name_mapping;  // for columns without field ids (case 11)
  int64_t batch_rows_max = 65536;
  int64_t file_size_bytes = 0;       // 0: ask
  const DataFile* entry = nullptr;   // what the manifest says of the file, which must agree; null: nothing is known
  int column_threads = 1;            // flat columns decoded at once
  ReadCounters* counters = nullptr;  // may be null; must outlive the reader
};

struct PositionedBatch {
  std::shared_ptr<arrow::RecordBatch> batch;  // columns of to_arrow_schema(projection)
  int64_t first_position = 0;  // file-wide position of its first row; its rows are consecutive in the file
};

// What decided that a row group, or some of its rows, is not read.
enum class GroupRule : uint8_t { none, statistics, bloom_filter, page_index };
std::string_view to_string(GroupRule rule);  // "", "statistics", "bloom filter", "page index"

// What is read of a row group.
struct RowGroupChoice {
  int64_t rows = 0, rows_selected = 0;    // 0 selected: pruned
  int64_t pages = 0, pages_selected = 0;  // of the columns read; 0 without a filter or a page index
  GroupRule rule = GroupRule::none;
};

// What the manifest, the footer and the pages say of rows and values must agree: none goes missing silently.
// Columns that the file lacks come as their initial-default, else null; a required one without default is an error.
// Promoted types come as the projection's. `_pos`-like columns are the scan's business. Flat columns read only the
// pages that the filter leaves; a projection with nested columns reads whole row groups. One thread.
class ParquetFileReader {
 public:
  ParquetFileReader(FileIO& io, const std::string& path, ParquetReadRequest request);
  ~ParquetFileReader();
  std::optional<PositionedBatch> next();  // in file order; nullopt at the end. Throws corrupt naming file and column
  // What next() would read, by the footer and the indexes alone; in place of it.
  std::vector<RowGroupChoice> explain();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace firn::iceberg
