// What one run ships, and what it leaves alone.
#include "hyp/sink/sink_box.h"

namespace firn::hyp {
namespace {

const Lines kRows = {R"({"n":1})", R"({"n":2})", R"({"n":2})"};

class SinkRun : public testing::TestWithParam<SinkKind> {
 protected:
  SinkBox box_;
  SinkConfig sink_ = make_sink(GetParam(), box_.out());
};

TEST_P(SinkRun, ShipsOnlyWhatIsNewAndThenNothing) {
  box_.ingest_lines("logs", "web", kRows);
  const SinkRunReport first = box_.ship_well(sink_);
  EXPECT_EQ(first.rows(), 3);
  EXPECT_EQ(first.units(), 1);
  EXPECT_GT(first.bytes(), 0);
  box_.ingest_lines("logs", "web", {R"({"n":3})"});
  const SinkRunReport second = box_.ship_well(sink_);
  EXPECT_EQ(second.rows(), 1);
  EXPECT_EQ(second.partitions.at(0).recognised_units, 0);
  const auto before = files_below(box_.live);
  const SinkRunReport third = box_.ship_well(sink_);
  EXPECT_EQ(third.rows(), 0);
  EXPECT_EQ(third.units(), 0);
  EXPECT_EQ(files_below(box_.live), before);
  EXPECT_EQ(delivered_rows(sink_), sorted_rows(kRows + Lines{R"({"n":3})"}));
}

TEST_P(SinkRun, NeverPutsRowsOfTwoOpensInOneUnit) {
  for (const std::string& row : kRows) box_.ingest_lines("logs", "web", {row});
  EXPECT_EQ(box_.ship_well(sink_).units(), 3);
  EXPECT_EQ(delivered_rows(sink_), sorted_rows(kRows));
}

TEST_P(SinkRun, KeepsUnitsWithinTheirLimits) {
  Lines lines;
  for (int i = 0; i < 10; ++i) lines.push_back(fmt::format(R"({{"n":{},"text":"{}"}})", i, std::string(1000, 'x')));
  box_.ingest_lines("logs", "web", lines);
  sink_.unit_rows_max = 4;
  std::vector<int64_t> units;
  SinkRunOptions options;
  options.progress = [&](const PartitionId&, int64_t rows) { units.push_back(rows); };
  {
    Cache cache(box_.config);
    EXPECT_FALSE(run_sink(cache, sink_, options).failed());
  }
  EXPECT_EQ(units, (std::vector<int64_t>{4, 4, 2}));
  EXPECT_EQ(delivered_rows(sink_), sorted_rows(lines));

  box_.ingest_lines("logs", "db", lines);
  sink_.unit_bytes_max = 3500;
  units.clear();
  Cache cache(box_.config);
  EXPECT_FALSE(run_sink(cache, sink_, options).failed());
  EXPECT_EQ(units, (std::vector<int64_t>{3, 3, 3, 1}));
  EXPECT_EQ(delivered_rows(sink_), sorted_rows(lines + lines));
}

TEST_P(SinkRun, ShipsAtLeastOneRowAUnit) {
  box_.ingest_lines("logs", "web", kRows);
  sink_.unit_bytes_max = 1;
  EXPECT_EQ(box_.ship_well(sink_).units(), 3);
  EXPECT_EQ(delivered_rows(sink_), sorted_rows(kRows));
}

TEST_P(SinkRun, StopsBetweenUnitsWhenCancelled) {
  box_.ingest_lines("logs", "web", kRows);
  sink_.unit_rows_max = 1;
  std::atomic<bool> cancelled{false};
  SinkRunOptions options;
  options.cancelled = &cancelled;
  options.progress = [&](const PartitionId&, int64_t) { cancelled = true; };
  {
    Cache cache(box_.config);
    const SinkRunReport report = run_sink(cache, sink_, options);
    EXPECT_FALSE(report.failed());
    EXPECT_EQ(report.rows(), 1);
  }
  EXPECT_EQ(box_.ship_well(sink_).rows(), 2);
  EXPECT_EQ(delivered_rows(sink_), sorted_rows(kRows));
}

TEST_P(SinkRun, TakesOnlyItsDatasetsAndThePartitionAskedFor) {
  box_.ingest_lines("logs", "web", {R"({"n":1})"});
  box_.ingest_lines("logs", "db", {R"({"n":2})"});
  box_.ingest_lines("hosts", "web", {R"({"n":3})"});
  sink_.datasets = {"logs"};
  {
    Cache cache(box_.config);
    SinkRunOptions options;
    options.partition = PartitionId{"logs", "db"};
    EXPECT_EQ(run_sink(cache, sink_, options).rows(), 1);
  }
  EXPECT_EQ(delivered_rows(sink_), Lines{R"({"n":2})"});
  EXPECT_EQ(box_.ship_well(sink_).rows(), 1);
  EXPECT_EQ(delivered_rows(sink_), (Lines{R"({"n":1})", R"({"n":2})"}));
}

TEST_P(SinkRun, NamesThatLookLikePathsStayApartAndInside) {
  Lines all;
  int n = 0;
  for (const char* source : {"a/b", "a", "..", ".", "", "a%2Fb", "source=a", "A"}) {
    const std::string row = fmt::format(R"({{"n":{}}})", ++n);
    box_.ingest_lines("logs", source, {row});
    all.push_back(row);
  }
  EXPECT_EQ(box_.ship_well(sink_).partitions.size(), 8u);
  EXPECT_EQ(delivered_rows(sink_), sorted_rows(all));
  EXPECT_EQ(box_.ship_well(sink_).rows(), 0);
  for (const auto& entry : fs::directory_iterator(box_.live)) {
    const std::string name = entry.path().filename().string();
    EXPECT_TRUE(name == "cache" || name == "state" || name == "out") << name;
  }
}

TEST_P(SinkRun, ShowsHowFarItIs) {
  box_.ingest_lines("logs", "web", kRows);
  Cache cache(box_.config);
  auto status = sink_status(cache, sink_).at(0);
  EXPECT_EQ(status.watermark, std::nullopt);
  EXPECT_EQ(status.rows_behind, 3);
  EXPECT_EQ(status.exported_rows, 0);
  run_sink(cache, sink_);
  status = sink_status(cache, sink_).at(0);
  EXPECT_EQ(status.watermark, status.highest_seq);
  EXPECT_EQ(status.rows_behind, 0);
  EXPECT_EQ(status.exported_rows, 3);
  EXPECT_FALSE(status.updated_at.empty());
  ingest(cache, {make_frame("logs", "web", {R"({"n":9})", R"({"n":9})"})});
  EXPECT_EQ(sink_status(cache, sink_).at(0).rows_behind, 2);
}

TEST_P(SinkRun, OneBadPartitionStopsNoOtherAndIsShownUntilItIsWell) {
  box_.ingest_lines("logs", "a", {R"({"n":1})"});
  box_.ingest_lines("logs", "b", {R"({"n":2})"});
  const std::string watermark = box_.watermark_file(sink_, {"logs", "a"});
  replace_file(watermark, "{\"v\":1,");
  const SinkRunReport report = box_.ship(sink_);
  EXPECT_TRUE(report.failed());
  EXPECT_EQ(report.partitions.at(0).error_kind, "corrupt");
  EXPECT_NE(report.partitions.at(0).error.find(watermark), std::string::npos);
  EXPECT_EQ(delivered_rows(sink_), Lines{R"({"n":2})"});
  fs::remove(watermark);
  {
    Cache cache(box_.config);
    EXPECT_NE(sink_status(cache, sink_).at(0).last_error.find("damaged"), std::string::npos);
  }
  EXPECT_FALSE(box_.ship(sink_).failed());
  EXPECT_EQ(delivered_rows(sink_), (Lines{R"({"n":1})", R"({"n":2})"}));
  Cache cache(box_.config);
  EXPECT_EQ(sink_status(cache, sink_).at(0).last_error, "");
}

TEST_P(SinkRun, ReadsAWatermarkOfTheSpecificationAlone) {
  box_.ingest_lines("logs", "web", kRows);
  box_.ship_well(sink_);
  const std::string path = box_.watermark_file(sink_, {"logs", "web"});
  const int64_t seq = *load_watermark(path)->seq;
  replace_file(
      path, fmt::format(
                R"({{"v":1,"continuation":{{"v":1,"seq":"{}"}},"exportedRowCount":3,"updatedAt":"2026-01-01"}})", seq));
  EXPECT_EQ(box_.ship_well(sink_).rows(), 0);
  box_.ingest_lines("logs", "web", {R"({"n":7})"});
  EXPECT_EQ(box_.ship_well(sink_).rows(), 1);
  EXPECT_EQ(delivered_rows(sink_), sorted_rows(kRows + Lines{R"({"n":7})"}));
  EXPECT_EQ(load_watermark(path)->exported_row_count, 4);
}

INSTANTIATE_TEST_SUITE_P(Destinations, SinkRun, testing::Values(SinkKind::blob, SinkKind::iceberg),
                         [](const auto& test) { return test.param == SinkKind::blob ? "blob" : "iceberg"; });

}  // namespace
}  // namespace firn::hyp
