// What a run reads of the cache: its cost follows the new rows (P9.2).
#include "hyp/sink/sink_box.h"

namespace firn::hyp {
namespace {

constexpr int64_t kPageRows = 4096;  // write.parquet.page-row-limit of cache tables
constexpr int64_t kNewRows = 1000;

Lines flights() {
  static const Lines lines = lines_of_jsonl(std::string(FIRN_SOURCE_DIR) + "/examples/data/flights-02.ndjson.gz");
  return lines;
}

Lines part_of(const Lines& lines, size_t begin, size_t end) {
  return {lines.begin() + static_cast<std::ptrdiff_t>(begin), lines.begin() + static_cast<std::ptrdiff_t>(end)};
}

class IncrementalRun : public testing::TestWithParam<SinkKind> {
 protected:
  SinkRunReport ship(const SinkRunOptions& options) {
    Cache cache(box_.config);
    SinkRunReport report = run_sink(cache, sink_, options);
    for (const PartitionRun& run : report.partitions) EXPECT_EQ(run.error, "");
    return report;
  }
  // Ships what is new, and expects that it is kNewRows, of which at most `decoded_max` a column were decoded.
  void expect_cost(int64_t files, int64_t decoded_max) {
    iceberg::ReadCounters counters;
    SinkRunOptions options;
    options.counters = &counters;
    EXPECT_EQ(ship(options).rows(), kNewRows);
    EXPECT_EQ(counters.files_opened, files);
    EXPECT_GE(counters.rows_decoded, kNewRows);
    EXPECT_LE(counters.rows_decoded, decoded_max);
    Cache cache(box_.config);
    const auto num_columns = static_cast<int64_t>(cache.dataset_schema("flights").fields().size());
    EXPECT_LE(counters.values_decoded, decoded_max * (num_columns + 1));  // and _hyp_ingest_seq
  }
  int64_t num_delivered() const {
    if (sink_.kind == SinkKind::iceberg) {
      return std::stoll(archive_table(sink_.path, "flights").metadata->current_snapshot()->summary.at("total-records"));
    }
    int64_t rows = 0;
    for (const auto& [path, claim] : claims_of(sink_.path)) rows += claim["rows"].get<int64_t>();
    return rows;
  }

  SinkBox box_;
  SinkConfig sink_ = make_sink(GetParam(), box_.out());
};

TEST_P(IncrementalRun, DecodesTheNewRowsAloneOfFilesThatHaveSome) {
  const Lines rows = flights();
  const size_t before = rows.size() - kNewRows;
  box_.ingest_lines("flights", "default", part_of(rows, 0, before));
  EXPECT_EQ(ship({}).rows(), static_cast<int64_t>(before));
  box_.ingest_lines("flights", "default", part_of(rows, before, rows.size()));
  expect_cost(1, kNewRows + kPageRows);
  EXPECT_EQ(num_delivered(), static_cast<int64_t>(rows.size()));
}

TEST_P(IncrementalRun, DecodesAPageMoreWhereAFileIsShippedInPart) {
  const Lines rows = flights();
  box_.ingest_lines("flights", "default", rows);
  // The first unit leaves the last thousand rows of the file.
  sink_.unit_rows_max = static_cast<int64_t>(rows.size()) - kNewRows;
  std::atomic<bool> cancelled{false};
  SinkRunOptions options;
  options.cancelled = &cancelled;
  options.progress = [&](const PartitionId&, int64_t) { cancelled = true; };
  EXPECT_EQ(ship(options).rows(), sink_.unit_rows_max);
  expect_cost(1, kNewRows + kPageRows);
  EXPECT_EQ(num_delivered(), static_cast<int64_t>(rows.size()));
}

TEST_P(IncrementalRun, DecodesNothingWhereNothingIsNew) {
  box_.ingest_lines("flights", "default", part_of(flights(), 0, 5000));
  ship({});
  iceberg::ReadCounters counters;
  SinkRunOptions options;
  options.counters = &counters;
  EXPECT_EQ(ship(options).units(), 0);
  EXPECT_EQ(counters.files_opened, 0);
  EXPECT_EQ(counters.rows_decoded, 0);
}

TEST_P(IncrementalRun, DecodesOneRowGroupAFileWhereColumnsAreNested) {
  const auto rows_from = [](int begin, int end) {
    Lines rows;
    for (int i = begin; i < end; ++i)
      rows.push_back(fmt::format(R"({{"n":{0},"tags":["t{0}",null],"in":{{"a":{0}}}}})", i));
    return rows;
  };
  box_.ingest_lines("flights", "default", rows_from(0, 20'000));
  ship({});
  box_.ingest_lines("flights", "default", rows_from(20'000, 20'000 + kNewRows));
  iceberg::ReadCounters counters;
  SinkRunOptions options;
  options.counters = &counters;
  EXPECT_EQ(ship(options).rows(), kNewRows);
  EXPECT_EQ(counters.files_opened, 1);
  EXPECT_EQ(counters.row_groups_read, 1);
  EXPECT_EQ(counters.rows_decoded, kNewRows);
}

INSTANTIATE_TEST_SUITE_P(Destinations, IncrementalRun, testing::Values(SinkKind::blob, SinkKind::iceberg),
                         [](const auto& test) { return test.param == SinkKind::blob ? "blob" : "iceberg"; });

}  // namespace
}  // namespace firn::hyp
