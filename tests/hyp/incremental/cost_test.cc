// An incremental read's cost follows the new rows, however many the partition has, before and after retention and
// compaction (P9.2). Counts, no clock: bench/incremental.py measures time.
#include <gtest/gtest.h>

#include "base/civil_time.h"
#include "hyp/cache/cache_box.h"
#include "hyp/cache/generations.h"
#include "hyp/maintain/compaction.h"
#include "hyp/maintain/retention.h"

namespace firn::hyp {
namespace {

constexpr int64_t kFlushRows = 10'000, kNewRows = 1'000, kPageRows = 4096;
constexpr int64_t kDayMs = 86'400'000, kDays = 90, kKeptDays = 60;
const PartitionId kPartition{"events", "s"};

class GrowingPartition {
 public:
  explicit GrowingPartition(int64_t rows) : rows_(rows), start_ms_(now_ms() - kDays * kDayMs) {
    DatasetConfig& dataset = box_.declare(kPartition.dataset);
    dataset.primary_timestamp_column = "ts";
    dataset.retention.days = kKeptDays;
    cache_.emplace(box_.config);
    spool_ = Spool::open(box_.config.cache_root);
    while (next_id_ < rows_) {
      flush_some(kFlushRows);
      if (next_id_ / kFlushRows % 32 == 0) sweep_partition(*cache_, kPartition, Sweep::when_due);
    }
  }

  Cache& cache() { return *cache_; }

  // Reads kNewRows that were just flushed, and then the last kNewRows of a flush ten times as large.
  void expect_flat(const std::string& state) {
    SCOPED_TRACE(state);
    int64_t since = newest();
    flush_some(kNewRows);
    expect_read(since, kNewRows);
    flush_some(kFlushRows);
    since = newest() - kNewRows;
    expect_read(since, kNewRows + kPageRows);
  }

 private:
  int64_t newest() const { return SequencedReader(*cache_, kPartition, {}).max_seq(); }

  void expect_read(int64_t since, int64_t decoded_max) {
    iceberg::ReadCounters counters;
    ReadOptions options;
    options.since_exclusive = since;
    options.counters = &counters;
    SequencedReader reader(*cache_, kPartition, options);
    int64_t rows = 0;
    while (const auto batch = reader.next()) {
      const auto& ids = static_cast<const arrow::Int64Array&>(*batch->rows->GetColumnByName("id"));
      for (int64_t i = 0; i < ids.length(); ++i) EXPECT_EQ(ids.Value(i), next_id_ - kNewRows + rows + i);
      rows += batch->rows->num_rows();
    }
    EXPECT_EQ(rows, kNewRows);
    EXPECT_EQ(counters.files_opened, 1);
    EXPECT_GE(counters.rows_decoded, kNewRows);
    EXPECT_LE(counters.rows_decoded, decoded_max);
    const auto columns = static_cast<int64_t>(reader.schema().fields().size()) + 1;  // and _hyp_ingest_seq
    EXPECT_LE(counters.values_decoded, decoded_max * columns);
  }

  void flush_some(int64_t count) {
    Frame frame = make_frame(kPartition.dataset, kPartition.source, {});
    for (const int64_t end = next_id_ + count; next_id_ < end; ++next_id_) {
      const int64_t ms = start_ms_ + std::min(next_id_, rows_) * (kDays * kDayMs / rows_);
      frame.text += fmt::format(R"({{"id":{},"ts":"{}","user":"user-{}"}})", next_id_, format_timestamp_ms_utc(ms),
                                next_id_ * 7919 % 4000);
      frame.text += '\n';
    }
    spool_->append({frame});
    ASSERT_EQ(flush(*cache_, *spool_).rows, count);
  }

  CacheBox box_;
  std::optional<Cache> cache_;
  std::unique_ptr<Spool> spool_;
  const int64_t rows_, start_ms_;
  int64_t next_id_ = 0;
};

void expect_flat_at(int64_t rows) {
  GrowingPartition partition(rows);
  partition.expect_flat("flushed");
  const RetentionReport retention = apply_retention(partition.cache(), kPartition, now_ms());
  EXPECT_GT(retention.rows_removed, rows / 4);
  partition.expect_flat("after retention");
  const CompactionReport compaction = compact_partition(partition.cache(), kPartition);
  EXPECT_TRUE(compaction.swapped) << compaction.note;
  EXPECT_LT(compaction.files_after, compaction.files_before);
  partition.expect_flat("after compaction");
}

TEST(IncrementalCost, IsThatOfTheNewRowsAtAHundredThousand) { expect_flat_at(100'000); }

TEST(IncrementalCost, IsThatOfTheNewRowsAtAMillionLong) { expect_flat_at(1'000'000); }

}  // namespace
}  // namespace firn::hyp
