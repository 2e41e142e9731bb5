// Units: what a sink sends at once, cut from a partition's new rows (P10.1, P10.5).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hyp/cache/cache.h"
#include "hyp/sink/watermark.h"

namespace firn::hyp {

struct Unit {
  PartitionId partition;
  std::string stream;  // <cacheId>/<dataset>/<partition key>, each segment encoded
  PendingUnit range;
  std::optional<int64_t> open_since;  // the open's first number less one; nullopt: the cache no longer lists the open
  std::optional<SentUnit> previous;   // the unit before it, if this sink remembers it
  bool is_resumed = false;            // an earlier run announced it: that run may have brought some of it
};

std::string stream_of(const std::string& cache_id, const PartitionId& partition);

// A unit's clean rows in order, once. Memory is bounded whatever the unit's size. One thread.
class UnitRows {
 public:
  // Rows in memory.
  UnitRows(iceberg::Schema schema, std::vector<SequencedBatch> batches);
  // Reads (since, until] from the cache, in the range's columns that the partition still has.
  UnitRows(const Cache& cache, const PartitionId& partition, const PendingUnit& range,
           iceberg::ReadCounters* counters = nullptr);
  const iceberg::Schema& schema() const { return schema_; }  // ids of the partition's table
  std::shared_ptr<arrow::RecordBatch> next();                // never empty; nullptr at the end
  std::optional<SequencedBatch> next_numbered();             // the same with the rows' numbers
  int64_t rows_read() const { return rows_read_; }           // so far

 private:
  iceberg::Schema schema_;
  std::vector<SequencedBatch> batches_;
  size_t next_batch_ = 0;
  std::unique_ptr<SequencedReader> reader_;
  int64_t rows_read_ = 0;
};

struct UnitLimits {
  int64_t rows_max = 0;
  int64_t bytes_max = 0;              // of Arrow buffers
  int64_t held_bytes_max = 64 << 20;  // kept in memory until they are sent; of bigger units the rows are read twice
  std::optional<int64_t> until;       // no row above it
};
struct CutUnit {
  Unit unit;  // without a key
  UnitRows rows;
  int64_t first = 0;  // number of the first row
};
// The next unit above the watermark: rows of one open, at least one and within the limits, and never some of several
// rows that share a number (P9.1). nullopt: nothing is new, or the partition has no column yet: a row is nothing at a
// destination until it has one, so rows like {} wait. What it saw is durable when it returns (P10.8). Throws
// corrupt if a row's number belongs to no open.
std::optional<CutUnit> cut_unit(Cache& cache, const PartitionId& partition, const Watermark& watermark,
                                const UnitLimits& limits, iceberg::ReadCounters* counters = nullptr);

// The unit that an intent announced.
Unit pending_unit(Cache& cache, const PartitionId& partition, const Watermark& watermark);

// Rows of the partition with numbers in (since, until], without decoding anything but these numbers.
struct RowCount {
  int64_t rows = 0;
  std::optional<int64_t> lowest, highest;
};
RowCount count_rows(const Cache& cache, const PartitionId& partition, std::optional<int64_t> since,
                    std::optional<int64_t> until);

}  // namespace firn::hyp
