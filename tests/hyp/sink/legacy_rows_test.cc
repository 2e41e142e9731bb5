// Sinks over caches of other systems, whose rows had no numbers (P9.3).
#include "hyp/cache/legacy_table.h"
#include "hyp/cache/table_opens.h"
#include "hyp/maintain/purge.h"
#include "hyp/sink/sink_box.h"
#include "iceberg/expr/expression.h"
#include "support/crash.h"

namespace firn::hyp {
namespace {

const PartitionId kPartition{"logs", "s"};
const Lines kOld = {R"({"id":1,"text":"a"})", R"({"id":2,"text":"b"})", R"({"id":2,"text":"b"})",
                    R"({"id":3,"text":"c"})"};
const Lines kNew = {R"({"id":10,"text":"x"})", R"({"id":11,"text":"y"})"};

class SinkLegacyRows : public testing::TestWithParam<SinkKind> {
 protected:
  SinkLegacyRows() {
    const int failed = run_in_child([&] {
      Cache cache(box_.config);
      make_legacy_table(cache, kPartition, id_and_text());
      append_as_other(cache, kPartition, {kOld[0], kOld[1]});
      append_as_other(cache, kPartition, {kOld[2], kOld[3]});
    });
    EXPECT_EQ(failed, 0);
  }
  void write_watermark(const std::string& seq) {
    replace_file(box_.watermark_file(sink_, kPartition),
                 fmt::format(R"({{"v":1,"continuation":{{"v":1,"seq":"{}"}},"exportedRowCount":4}})", seq));
  }

  SinkBox box_;
  SinkConfig sink_ = make_sink(GetParam(), box_.out());
};

TEST_P(SinkLegacyRows, AreAllShippedOnceWithoutAWatermark) {
  sink_.unit_rows_max = 3;
  box_.ingest_lines("logs", "s", {kNew[0]});
  EXPECT_EQ(box_.ship_well(sink_).rows(), 5);
  box_.ingest_lines("logs", "s", {kNew[1]});
  EXPECT_EQ(box_.ship_well(sink_).rows(), 1);
  EXPECT_EQ(box_.ship_well(sink_).rows(), 0);
  EXPECT_EQ(delivered_rows(sink_), sorted_rows(kOld + kNew));
}

TEST_P(SinkLegacyRows, AreBelowAWatermarkOfAnotherSystem) {
  write_watermark("0");
  box_.ingest_lines("logs", "s", {kNew[0]});
  EXPECT_EQ(box_.ship_well(sink_).rows(), 1);
  box_.ingest_lines("logs", "s", {kNew[1]});
  EXPECT_EQ(box_.ship_well(sink_).rows(), 1);
  EXPECT_EQ(delivered_rows(sink_), sorted_rows(kNew));
}

TEST_P(SinkLegacyRows, ThatAppearLaterAreShippedOnceToo) {
  box_.ship_well(sink_);
  {
    Cache cache(box_.config);
    append_as_other(cache, kPartition, {kNew[0]});
  }
  EXPECT_EQ(box_.ship_well(sink_).rows(), 1);
  box_.ingest_lines("logs", "s", {kNew[1]});
  EXPECT_EQ(box_.ship_well(sink_).rows(), 1);
  EXPECT_EQ(delivered_rows(sink_), sorted_rows(kOld + kNew));
}

TEST_P(SinkLegacyRows, AreNotRepeatedWhereTheWatermarkIsLost) {
  sink_.unit_rows_max = 3;
  box_.ship_well(sink_);
  fs::remove_all(box_.config.state_dir);
  box_.ingest_lines("logs", "s", {kNew[0]});
  EXPECT_EQ(box_.ship_well(sink_).rows(), 1);
  EXPECT_EQ(delivered_rows(sink_), sorted_rows(kOld + Lines{kNew[0]}));
}

TEST_P(SinkLegacyRows, ThatTwoCopiesShareGoOnce) {
  const std::string copy = box_.folder / "copy", cache_root = box_.config.cache_root;
  {
    Cache cache(box_.config);
    cache.sequence().cache_id();  // before the copy is made
  }
  copy_folder(cache_root, copy);
  box_.ingest_lines("logs", "s", {kNew[0]});
  sink_.unit_rows_max = 3;
  EXPECT_EQ(box_.ship_well(sink_).rows(), 5);
  copy_folder(copy, cache_root);
  fs::remove_all(box_.config.state_dir);
  box_.ingest_lines("logs", "s", {kNew[1]});
  sink_.unit_rows_max = 2;
  EXPECT_EQ(box_.ship_well(sink_).rows(), 1);
  EXPECT_EQ(delivered_rows(sink_), sorted_rows(kOld + kNew));
}

// A purge leaves the rows that stay their numbers and their open, whether or not they had them before.
TEST_P(SinkLegacyRows, ThatTwoCopiesShareGoOnceThoughOneOfThemPurgedSomeFirst) {
  const std::string copy = box_.folder / "copy", cache_root = box_.config.cache_root;
  {
    Cache cache(box_.config);
    cache.sequence().cache_id();  // before the copy is made
  }
  copy_folder(cache_root, copy);
  {
    Cache cache(box_.config);
    EXPECT_EQ(purge(cache, "logs", iceberg::parse_expression("id = 1")).rows, 1);
    EXPECT_EQ(read_sequenced(cache, kPartition).after, (std::vector<int64_t>{-2, -1, 0}));
  }
  EXPECT_EQ(box_.ship_well(sink_).rows(), 3);
  copy_folder(copy, cache_root);
  fs::remove_all(box_.config.state_dir);
  box_.ingest_lines("logs", "s", {kNew[0]});
  EXPECT_EQ(box_.ship_well(sink_).rows(), 1);
  EXPECT_EQ(delivered_rows(sink_), sorted_rows({kOld[1], kOld[2], kOld[3], kNew[0]}));
}

TEST_P(SinkLegacyRows, ArriveOnceWhereverTheProcessDies) {
  sink_.unit_rows_max = 3;
  const std::string saved = box_.folder / "saved";
  copy_folder(box_.live, saved);
  const auto ship = [&] { box_.ship_well(sink_); };
  const auto points = fault_points_of(ship);
  const auto numbered = std::find(points.begin(), points.end(), "legacy.numbered") - points.begin();
  ASSERT_LT(static_cast<size_t>(numbered), points.size());
  for (const Crash crash : {Crash::process, Crash::power}) {
    // What comes after the numbering is crash_test's.
    for (size_t point = 0; point < points.size(); point += point <= static_cast<size_t>(numbered) ? 1 : 9) {
      SCOPED_TRACE(fmt::format("{} {}", point, points[point]));
      copy_folder(saved, box_.live);
      run_killed_at(point, crash, ship);
      ASSERT_EQ(run_in_child(ship), 0);
      ASSERT_EQ(delivered_rows(sink_), sorted_rows(kOld));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Destinations, SinkLegacyRows, testing::Values(SinkKind::blob, SinkKind::iceberg),
                         [](const auto& test) { return test.param == SinkKind::blob ? "blob" : "iceberg"; });

}  // namespace
}  // namespace firn::hyp
