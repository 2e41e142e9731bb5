// A sink that dies anywhere, and comes again with more rows waiting (case 20).
#include "hyp/sink/crash_world.h"

namespace firn::hyp {
namespace {

const Lines kFirst = {R"({"m":"same","n":1})", R"({"m":"same","n":1})"};
const Lines kSecond = {R"({"n":4,"when":"2024-03-01T10:00:00.000000+00:00"})"};
const Lines kOther = {R"({"n":5})"};
const Lines kNew = {R"({"n":10})", R"({"m":"same","n":1})", R"({"n":11,"new":true})", R"({"n":12})", R"({"n":13})"};

struct CrashCase {
  const char* name;
  SinkKind kind;
  BlobFormat format;
  std::vector<Crash> crashes;
};

class SinkCrash : public testing::TestWithParam<CrashCase> {};

TEST_P(SinkCrash, EachRowIsThereOnceWhereverTheProcessDies) {
  prefer_memory();
  SinkBox box;
  box.declare("logs").primary_timestamp_column = "when";
  SinkConfig sink = make_sink(GetParam().kind, box.out(), GetParam().format, "gzip");
  sink.unit_rows_max = 2;  // several units
  sink.parallel_max = 1;   // points are counted
  const std::string saved = box.folder / "saved", later = box.folder / "later";
  // Two partitions, one of them with rows of two opens.
  ASSERT_EQ(run_in_child([&] {
              box.ingest_lines("logs", "web", kFirst);
              box.ingest_lines("logs", "db", kOther);
              box.ingest_lines("logs", "web", kSecond);
            }),
            0);
  copy_folder(box.live, saved);
  // The cache as it is once more rows have come: a sink changes nothing in it, so it serves every restart.
  ASSERT_EQ(run_in_child([&] { box.ingest_lines("logs", "web", kNew); }), 0);
  copy_folder(box.config.cache_root, later);
  copy_folder(saved, box.live);
  const auto points = fault_points_of([&] { box.ship_well(sink); });
  ASSERT_EQ(delivered_rows(sink), sorted_rows(kFirst + kSecond + kOther));
  ASSERT_GE(points.size(), 40u);
  const Lines all = sorted_rows(kFirst + kSecond + kOther + kNew);
  for (const Crash crash : GetParam().crashes) {
    for (size_t point = 0; point < points.size(); ++point) {
      if (crash == Crash::power_later && !leaves_undurable(points[point])) continue;
      SCOPED_TRACE(fmt::format("{} at {} ({})", to_text(crash), point, points[point]));
      copy_folder(saved, box.live);
      run_killed_at(point, crash, [&] { box.ship_well(sink); });
      copy_folder(later, box.config.cache_root);
      ASSERT_EQ(run_in_child([&] { box.ship_well(sink); }), 0);
      ASSERT_EQ(delivered_rows(sink), all);
      const Cache cache(box.config);
      for (const SinkPartitionStatus& status : sink_status(cache, sink)) {
        EXPECT_EQ(status.rows_behind, 0);
        EXPECT_FALSE(status.pending);
        EXPECT_EQ(status.exported_rows, status.partition.source == "web" ? 8 : 1);
      }
    }
  }
}

// --- what may happen between the crash and the retry ---

class StoreWorld final : public CrashWorld {
 public:
  StoreWorld(SinkKind kind, BlobFormat format) { begin(make_sink(kind, box_.out(), format, "zstd")); }

 private:
  void change_settings(SinkConfig& sink, std::mt19937_64& random) override {
    CrashWorld::change_settings(sink, random);
    if (sink.kind == SinkKind::blob && random() % 2 == 0) {
      sink.format = BlobFormat::jsonl;
      sink.compression = "none";
    }
  }
};

TEST_P(SinkCrash, EachRowIsThereOnceWhateverHappensBeforeTheRetry) {
  prefer_memory();
  StoreWorld world(GetParam().kind, GetParam().format);
  ASSERT_GE(world.points().size(), 40U);
  crash_at_each_point(world, GetParam().crashes);
}

const std::vector<Crash> kAll = {Crash::process, Crash::power, Crash::power_later};

INSTANTIATE_TEST_SUITE_P(Destinations, SinkCrash,
                         testing::Values(CrashCase{"parquet", SinkKind::blob, BlobFormat::parquet, kAll},
                                         CrashCase{"jsonl", SinkKind::blob, BlobFormat::jsonl, {Crash::power}},
                                         CrashCase{"iceberg", SinkKind::iceberg, BlobFormat::parquet, kAll}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace firn::hyp
