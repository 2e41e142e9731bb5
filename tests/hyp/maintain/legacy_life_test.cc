// A cache of another system, through retention, sinks and compaction.
#include <gtest/gtest.h>

#include "hyp/cache/legacy_table.h"
#include "hyp/cache/table_opens.h"
#include "hyp/maintain/compaction.h"
#include "hyp/maintain/retention_box.h"

namespace firn::hyp {
namespace {

std::string old_row(int n) { return fmt::format(R"({{"n":{},"at":"2024-01-01T00:00:00Z"}})", n); }
std::string young_row(int n) { return fmt::format(R"({{"n":{},"at":"2024-06-14T00:00:00Z"}})", n); }

struct LegacyLife : testing::Test {
  RetentionBox box;

  LegacyLife() {
    box.logs().allow_new_columns = false;
    Cache cache(box.config);
    make_legacy_table(cache, box.partition, *box.logs().schema);
    append_as_other(cache, box.partition, {old_row(1), young_row(2), old_row(3)});
    append_as_other(cache, box.partition, {young_row(4), young_row(5)});
  }
  int64_t ship(const SinkConfig& sink) { return box.ship_well(sink).rows(); }
};

TEST_F(LegacyLife, RowsPastTheirAgeGoWhetherTheyHaveANumberOrNot) {
  EXPECT_EQ(box.apply().rows_removed, 2);
  EXPECT_EQ(box.numbers(), (std::vector<int64_t>{2, 4, 5}));
  Cache cache(box.config);
  const auto after = read_sequenced(cache, box.partition).after;
  EXPECT_EQ(after.size(), 3u);
  EXPECT_EQ(after.back(), 0);
}

TEST_F(LegacyLife, RowsWithoutANumberWaitForTheSinkThatDoesNotHaveThem) {
  box.logs().retention.wait_for_sink_ack = true;
  box.logs().retention.grace_days = 10'000;
  const SinkConfig sink = box.add_sink();
  const RetentionReport waiting = box.apply();
  EXPECT_EQ(waiting.rows_removed, 0);
  EXPECT_EQ(waiting.rows_waiting, (std::map<std::string, int64_t>{{"out", 2}}));
  EXPECT_EQ(ship(sink), 5);
  EXPECT_EQ(box.apply().rows_removed, 2);
  EXPECT_EQ(ship(sink), 0);
  EXPECT_EQ(delivered_rows(sink).size(), 5u);
}

TEST_F(LegacyLife, ACompactionKeepsNumbersAndTheLegacyOpen) {
  const SinkConfig sink = box.add_sink();
  SinkConfig small = sink;
  small.unit_rows_max = 2;
  std::atomic<bool> cancelled{false};
  SinkRunOptions one_unit;
  one_unit.cancelled = &cancelled;
  one_unit.progress = [&](const PartitionId&, int64_t) { cancelled = true; };
  {
    Cache cache(box.config);
    EXPECT_EQ(run_sink(cache, small, one_unit).rows(), 2);
  }
  std::vector<int64_t> before;
  for (int n = 6; n < 10; ++n) box.add({young_row(n)});
  {
    Cache cache(box.config);
    before = read_sequenced(cache, box.partition).after;
    const auto opens = partition_opens(cache, box.partition);
    const CompactionReport report = compact_partition(cache, box.partition);
    EXPECT_TRUE(report.swapped) << report.note;
    EXPECT_EQ(read_sequenced(cache, box.partition).after, before);
    ASSERT_FALSE(partition_opens(cache, box.partition).empty());
    EXPECT_EQ(partition_opens(cache, box.partition)[0].open_id, opens.at(0).open_id);
  }
  box.add({young_row(10)});
  EXPECT_EQ(ship(sink), 8);
  EXPECT_EQ(delivered_rows(sink).size(), 10u);
}

TEST_F(LegacyLife, ACompactionBeforeAnySinkNumbersThemFirst) {
  for (int n = 6; n < 10; ++n) box.add({young_row(n)});
  {
    Cache cache(box.config);
    const CompactionReport report = compact_partition(cache, box.partition);
    EXPECT_TRUE(report.swapped) << report.note;
    const auto before = read_sequenced(cache, box.partition).after;
    EXPECT_EQ(std::vector(before.begin(), before.begin() + 6), (std::vector<int64_t>{-4, -3, -2, -1, 0, 1}));
  }
  EXPECT_EQ(box.numbers(), (std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(ship(box.add_sink()), 9);
}

}  // namespace
}  // namespace firn::hyp
