// Reads that stay the same for every attempt of a step (P14.3).
#pragma once

#include <memory>
#include <optional>

#include "iceberg/scan/scan.h"
#include "orca/tables/file_writer.h"
#include "orca/tables/table.h"

namespace firn::orca {

// A table at one snapshot; what it reads is chosen, nothing is read yet. Copyable.
class TableScan {
 public:
  // `options` read `snapshot_id` of `metadata`, or nothing of metadata that have no current snapshot.
  TableScan(std::shared_ptr<const iceberg::TableMetadata> metadata, std::shared_ptr<FileIO> io,
            iceberg::ScanOptions options, std::optional<int64_t> snapshot_id);

  // nullopt: the table had no snapshot when the step first read it, and has no rows for the step.
  const std::optional<int64_t>& snapshot_id() const { return snapshot_id_; }
  iceberg::ScanPlan plan() const;
  std::shared_ptr<arrow::RecordBatchReader> read() const;  // a stream; what it throws, ReadNext throws
  Batches to_batches() const;                              // all of it in memory

 private:
  std::shared_ptr<const iceberg::TableMetadata> metadata_;
  std::shared_ptr<FileIO> io_;
  iceberg::ScanOptions options_;
  std::optional<int64_t> snapshot_id_;
};

// A scan of `table` at this step's pinned snapshot: the one that its first attempt read, else the current one, which is
// then recorded. A table that had no snapshot when it was first read stays empty for the step. `options` choose columns
// and rows; a snapshot, ref or time in them is invalid_argument. Rows have the columns that the table had at that
// snapshot; one that was added since reads as null where it is named. Throws invalid_argument for a dataset that the
// step does not declare in reads=; not_found where the pinned snapshot is gone (only a foreign expiry takes it while
// the run is open), or another table is in the pinned one's place.
TableScan scan(Ctx& ctx, const Table& table, iceberg::ScanOptions options = {});

}  // namespace firn::orca
