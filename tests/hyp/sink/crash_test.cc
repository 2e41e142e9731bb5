// A sink that dies anywhere, and comes again with more rows waiting (case 20).
#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>
#include <random>
#include <set>

#include "hyp/maintain/compaction.h"
#include "hyp/maintain/purge.h"
#include "hyp/maintain/retention.h"
#include "hyp/sink/sink_box.h"
#include "support/crash.h"
#include "support/test_seed.h"

namespace firn::hyp {
namespace {

const PartitionId kWeb = {"logs", "web"};
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
      SCOPED_TRACE(
          fmt::format("{} {} ({})", crash == Crash::power ? "power cut at" : "killed at", point, points[point]));
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

// Each of a row of its own, so that what arrived is known row by row.
struct Rows {
  static std::string of(int n) { return fmt::format(R"({{"m":"text","n":{}}})", n); }
  static std::string with_new_column(int n) { return fmt::format(R"({{"n":{},"since{}":true}})", n, n); }
};

enum class Meanwhile : uint8_t { new_rows, new_column, retention, compaction, purge, other_version };
constexpr std::array kMeanwhile = {Meanwhile::new_rows,   Meanwhile::new_column, Meanwhile::retention,
                                   Meanwhile::compaction, Meanwhile::purge,      Meanwhile::other_version};
constexpr std::array kMeanwhileNames = {"new rows", "new column", "retention", "compaction", "purge", "other version"};

class CrashWorld {
 public:
  CrashWorld(SinkKind kind, BlobFormat format) : sink_(make_sink(kind, box_.out(), format, "zstd")) {
    DatasetConfig& logs = box_.declare("logs");
    logs.retention.days = 1;
    logs.retention.wait_for_sink_ack = true;
    logs.retention.grace_days = 365;
    sink_.unit_rows_max = 3;
    sink_.parallel_max = 1;
    box_.config.sinks = {sink_};
    in_child([&] { flush("web", 1, 4); });
    in_child([&] { flush("web", 5, 4); });
    in_child([&] { flush("db", 101, 2); });
    in_child([&] {  // half of it is sent
      std::atomic<bool> cancelled{false};
      SinkRunOptions options;
      options.cancelled = &cancelled;
      options.progress = [&](const PartitionId&, int64_t) { cancelled = true; };
      options.partition = kWeb;
      Cache cache(box_.config);
      run_sink(cache, sink_, options);
    });
    in_child([&] { flush("web", 9, 4); });
    copy_folder(box_.live, saved_);
    points_ = fault_points_of([&] { box_.ship_well(sink_); });
  }

  const std::vector<std::string>& points() const { return points_; }

  void crash_at(size_t point, Crash crash) {
    copy_folder(saved_, box_.live);
    sent_limits_ = sink_;
    next_ = kFirstNew;
    purged_.clear();
    run_killed_at(point, crash, [&] { box_.ship_well(sink_); });
  }

  void happen(Meanwhile what, std::mt19937_64& random) {
    const bool is_first = next_ == kFirstNew;
    const int first = next_;
    next_ += 10;
    switch (what) {
      case Meanwhile::new_rows:
        return in_child([&] { flush(random() % 2 == 0 ? "web" : "db", first, 3); });
      case Meanwhile::new_column:
        return in_child([&] { box_.ingest_lines("logs", "web", {Rows::with_new_column(first)}); });
      case Meanwhile::retention:
        return in_child([&] {
          Cache cache(box_.config);
          int64_t removed = 0;  // rows 1 to 3 were sent before
          for (const PartitionId& partition : cache.partitions("logs"))
            removed += apply_retention(cache, partition, now_ms() + int64_t{3} * 86'400'000).rows_removed;
          if (removed == 0 && purged_.empty()) fail(ErrorKind::internal, "rows that were sent are past their age");
        });
      case Meanwhile::compaction:
        return in_child([&] {
          Cache cache(box_.config);
          bool is_swapped = false;  // the three files of web
          for (const PartitionId& partition : cache.partitions("logs"))
            is_swapped = compact_partition(cache, partition).swapped || is_swapped;
          if (!is_swapped && is_first) fail(ErrorKind::internal, "nothing was compacted");
        });
      case Meanwhile::purge: {
        const int gone = static_cast<int>(random() % 12) + 1;
        purged_.insert(gone);
        return in_child([&] {
          Cache cache(box_.config);
          const PurgeReport report = purge(cache, "logs", iceberg::parse_expression(fmt::format("n = {}", gone)));
          if (!report.problems.empty()) fail(ErrorKind::internal, "{}", report.problems[0]);
        });
      }
      case Meanwhile::other_version:
        return change_version(random);
    }
  }

  // The restart, and what must then be so.
  void retry_and_check() {
    in_child([&] { box_.ship_well(sent_limits_); });
    const Cache cache(box_.config);
    std::map<int, int> arrived;
    for (const std::string& row : delivered_rows(sink_)) arrived[Json::parse(row)["n"].get<int>()] += 1;
    for (const auto& [n, times] : arrived) EXPECT_EQ(times, 1) << "row " << n;
    for (int n = 1; n <= 12; ++n) EXPECT_TRUE(arrived.contains(n) || purged_.contains(n)) << "row " << n;
    for (const PartitionId& partition : cache.partitions("logs")) {
      for (const std::string& row : cached_rows(cache, partition)) {
        EXPECT_TRUE(arrived.contains(Json::parse(row)["n"].get<int>())) << row;
      }
    }
    for (const SinkPartitionStatus& status : sink_status(cache, sink_)) {
      EXPECT_EQ(status.rows_behind, 0);
      EXPECT_FALSE(status.pending);
      EXPECT_EQ(status.last_error, "");
    }
  }

 private:
  static void in_child(const std::function<void()>& work) { ASSERT_EQ(run_in_child(work), 0); }

  void flush(const std::string& source, int first, int count) {
    Lines lines;
    for (int n = first; n < first + count; ++n) lines.push_back(Rows::of(n));
    box_.ingest_lines("logs", source, lines);
  }

  // The intent is of a firn with other limits and members that this one does not know; the sink's limits are others
  // now.
  void change_version(std::mt19937_64& random) {
    sent_limits_.unit_rows_max = std::array{1, 2, 1000}[random() % 3];
    if (sink_.kind == SinkKind::blob && random() % 2 == 0) {
      sent_limits_.format = BlobFormat::jsonl;
      sent_limits_.compression = "none";
    }
    for (const char* source : {"web", "db"}) {
      const std::string path = box_.watermark_file(sink_, {"logs", source});
      const auto text = make_local_file_io()->read_if_exists(path);
      if (!text) continue;
      Json json = Json::parse(*text);
      json["laterMember"] = {{"a", 1}};
      if (json.contains("pending")) {
        json["pending"]["limits"] = {{"rows", 77}, {"bytes", 7777}, {"perCent", 7}};
        json["pending"]["laterMember"] = "x";
      }
      replace_file(path, json.dump());
    }
  }

  static constexpr int kFirstNew = 1000;
  SinkBox box_;
  SinkConfig sink_, sent_limits_;
  const std::string saved_ = box_.folder / "saved";
  std::vector<std::string> points_;
  int next_ = kFirstNew;
  std::set<int> purged_;
};

TEST_P(SinkCrash, EachRowIsThereOnceWhateverHappensBeforeTheRetry) {
  prefer_memory();
  CrashWorld world(GetParam().kind, GetParam().format);
  ASSERT_GE(world.points().size(), 40U);
  const bool is_long = std::getenv("FIRN_LONG") != nullptr;
  std::mt19937_64 random(test_seed());
  for (size_t point = 0; point < world.points().size(); ++point) {
    std::vector<std::vector<size_t>> draws;  // each some of kMeanwhile, in an order
    if (is_long) {
      for (size_t one = 0; one < kMeanwhile.size(); ++one) draws.push_back({one});
    }
    for (int i = 0; i < (is_long ? 6 : 1); ++i) {
      std::vector<size_t> draw(kMeanwhile.size());
      std::iota(draw.begin(), draw.end(), 0);
      std::shuffle(draw.begin(), draw.end(), random);
      draw.resize(1 + random() % (is_long ? 4 : 2));
      draws.push_back(draw);
    }
    for (const std::vector<size_t>& draw : draws) {
      const Crash crash = GetParam().crashes[random() % GetParam().crashes.size()];
      std::string story =
          fmt::format("{} at {} ({})", crash == Crash::power ? "power cut" : "killed", point, world.points()[point]);
      for (const size_t one : draw) story += fmt::format(", {}", kMeanwhileNames[one]);
      SCOPED_TRACE(story);
      world.crash_at(point, crash);
      for (const size_t one : draw) world.happen(kMeanwhile[one], random);
      world.retry_and_check();
      if (HasFailure()) return;
    }
  }
}

const std::vector<Crash> kBoth = {Crash::process, Crash::power};

INSTANTIATE_TEST_SUITE_P(Destinations, SinkCrash,
                         testing::Values(CrashCase{"parquet", SinkKind::blob, BlobFormat::parquet, kBoth},
                                         CrashCase{"jsonl", SinkKind::blob, BlobFormat::jsonl, {Crash::power}},
                                         CrashCase{"iceberg", SinkKind::iceberg, BlobFormat::parquet, kBoth}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace firn::hyp
