// The rows of a cache table's head, file by file.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hyp/cache/cache.h"
#include "hyp/cache/visible_schema.h"
#include "hyp/maintain/compaction_plan.h"
#include "iceberg/scan/scan.h"

namespace firn::hyp {

// A live data file.
struct LiveData {
  iceberg::DataFile file;  // as the manifest has it, with all metrics
  size_t task = 0;         // of the plan
  FileShape shape;
};

struct LiveTable {
  std::shared_ptr<const iceberg::TableMetadata> metadata;
  std::shared_ptr<FileIO> io;                     // that finds the files of a cache that was moved, too
  std::string location;                           // where the table lies
  std::shared_ptr<const iceberg::ScanPlan> plan;  // of all columns
  std::vector<LiveData> files;                    // in the plan's order
  int32_t seq_id = 0;

  const iceberg::FileScanTask& task(const LiveData& data) const { return plan->tasks[data.task]; }
  // Where the file is on the disk.
  std::string path_on_disk(const std::string& path) const;
  // Its rows that are not deleted, in file order, with these columns (of the table, or _pos).
  std::shared_ptr<arrow::RecordBatchReader> read(const LiveData& data, const iceberg::Schema& columns,
                                                 int64_t batch_rows_max) const;
};

// Reads the head's manifests. Requires a table that has the hidden columns.
LiveTable load_live(const HeldTable& held);

// Rows of a data file that no snapshot names yet, whose number is in [lower, upper].
std::shared_ptr<arrow::RecordBatchReader> read_new_file(const iceberg::TableMetadata& metadata,
                                                        const iceberg::DataFile& file, const iceberg::Schema& columns,
                                                        int64_t lower, int64_t upper,
                                                        const std::shared_ptr<FileIO>& io);

// The columns that for_each_number takes.
iceberg::Schema number_and_position(const iceberg::TableMetadata& metadata, int32_t seq_id);
// Throws commit_conflict for a row without a number: another program added it.
void for_each_number(arrow::RecordBatchReader& rows, const std::string& path,
                     const std::function<void(int64_t number, int64_t position)>& visit);

}  // namespace firn::hyp
