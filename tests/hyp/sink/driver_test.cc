// A run as a whole: partitions at once, what it costs where nothing is new, and rows that leave while it runs.
#include "hyp/sink/driver.h"

#include <mutex>
#include <set>
#include <thread>

#include "base/clock.h"
#include "base/fault_point.h"
#include "base/test_world.h"
#include "hyp/maintain/compaction.h"
#include "hyp/maintain/purge.h"
#include "hyp/maintain/retention.h"
#include "hyp/sink/sink_box.h"
#include "support/crash.h"
#include "support/local_disk.h"

namespace firn::hyp {
namespace {

const PartitionId kWeb = {"logs", "web"};

std::string row(int n) { return fmt::format(R"({{"n":{}}})", n); }
Lines rows_up_to(int last) {
  Lines rows;
  for (int n = 1; n <= last; ++n) rows.push_back(row(n));
  return rows;
}

// The local disk, and what was read on it.
class ReadsSeen final : public LocalDisk {
 public:
  std::shared_ptr<arrow::io::RandomAccessFile> open(const std::string& path) override {
    note(path);
    return LocalDisk::open(path);
  }
  std::string read(const std::string& path) override {
    note(path);
    return LocalDisk::read(path);
  }
  std::optional<std::string> read_if_exists(const std::string& path) override {
    note(path);
    return LocalDisk::read_if_exists(path);
  }
  std::vector<FileInfo> list(const std::string& folder, bool recursive) override {
    note(folder);
    return LocalDisk::list(folder, recursive);
  }

  Lines take() {
    std::lock_guard guard(mutex_);
    return std::exchange(seen_, {});
  }

 private:
  void note(const std::string& path) {
    std::lock_guard guard(mutex_);
    seen_.push_back(path);
  }
  std::mutex mutex_;
  Lines seen_;
};

class SinkDriver : public testing::TestWithParam<SinkKind> {
 protected:
  ~SinkDriver() override { set_fault_handler(nullptr); }

  // Runs `work` in the middle of the sink's run, at the first pass of the point.
  void once_at(const char* point, std::function<void()> work) {
    set_fault_handler([this, point, work = std::move(work)](const char* name) {
      if (std::string_view(name) != point || std::exchange(is_done_, true)) return;
      work();
    });
  }

  SinkBox box_;
  SinkConfig sink_ = make_sink(GetParam(), box_.out());
  bool is_done_ = false;
};

TEST_P(SinkDriver, ShipsPartitionsAtOnceWithinTheLimitAndReportsThemInOrder) {
  Lines all;
  for (int i = 0; i < 12; ++i) {
    all.push_back(row(i));
    box_.ingest_lines(i % 2 == 0 ? "logs" : "hosts", fmt::format("s{:02}", i), {all.back()});
  }
  for (const int64_t limit : {1, 3, 100}) {
    SCOPED_TRACE(limit);
    SinkConfig sink = sink_;
    sink.name = fmt::format("sink{}", limit);
    sink.path = fmt::format("{}{}", box_.out(), limit);
    sink.parallel_max = limit;
    std::atomic<int> active{0}, most{0};
    std::set<std::thread::id> threads;
    SinkRunOptions options;
    options.progress = [&](const PartitionId&, int64_t) {  // one call at a time
      EXPECT_EQ(active++, 0);
      most = std::max<int>(most, active);
      threads.insert(std::this_thread::get_id());
      --active;
    };
    Cache cache(box_.config);
    const SinkRunReport report = run_sink(cache, sink, options);
    EXPECT_FALSE(report.failed());
    EXPECT_LE(threads.size(), static_cast<size_t>(limit));
    ASSERT_EQ(report.partitions.size(), 12U);
    EXPECT_TRUE(std::is_sorted(report.partitions.begin(), report.partitions.end(),
                               [](const PartitionRun& a, const PartitionRun& b) { return a.partition < b.partition; }));
    for (const PartitionRun& run : report.partitions) EXPECT_EQ(run.rows, 1);
    EXPECT_EQ(delivered_rows(sink), sorted_rows(all));
  }
}

TEST_P(SinkDriver, OneRunOfASinkAtATimeInWhateverProcesses) {
  sink_.unit_rows_max = 3;
  ASSERT_EQ(run_in_child([&] { box_.ingest_lines("logs", "web", rows_up_to(9)); }), 0);
  const std::string lock = sink_lock_path(box_.config.state_dir, sink_.name);
  once_at("sink.intent-written", [&] {
    const int status = run_in_child([&] {
      if (FileLock::try_acquire(lock, FileLock::Mode::exclusive)) fail(ErrorKind::internal, "another run could begin");
    });
    EXPECT_EQ(status, 0);
  });
  EXPECT_EQ(box_.ship_well(sink_).rows(), 9);
  EXPECT_TRUE(is_done_);
  set_fault_handler(nullptr);

  ASSERT_EQ(run_in_child([&] { box_.ingest_lines("logs", "web", {row(10), row(11), row(12), row(13)}); }), 0);
  constexpr int kRuns = 4;
  const auto told = [&](int run) { return fmt::format("{}/run{}", box_.folder.path(), run); };
  ASSERT_EQ(
      run_in_children(kRuns, [&](int run) { replace_file(told(run), std::to_string(box_.ship_well(sink_).rows())); }),
      0);
  std::multiset<std::string> shipped;
  for (int run = 0; run < kRuns; ++run) shipped.insert(make_local_file_io()->read(told(run)));
  EXPECT_EQ(shipped, (std::multiset<std::string>{"0", "0", "0", "4"})) << "who comes later finds nothing new";
  EXPECT_EQ(delivered_rows(sink_), sorted_rows(rows_up_to(13)));
}

TEST_P(SinkDriver, PartitionsOfOneDatasetShippedAtOnceLoseNothingBesideEachOther) {
  Lines all;
  for (int i = 0; i < 8; ++i) {
    Lines lines;
    for (int n = 0; n < 6; ++n) lines.push_back(fmt::format(R"({{"n":{},"only{}":true}})", i * 10 + n, i));
    box_.ingest_lines("logs", fmt::format("s{}", i), lines);
    all.insert(all.end(), lines.begin(), lines.end());
  }
  sink_.unit_rows_max = 2;
  sink_.parallel_max = 8;
  const SinkRunReport report = box_.ship_well(sink_);
  EXPECT_EQ(report.units(), 24);
  EXPECT_EQ(delivered_rows(sink_), sorted_rows(all));
  if (GetParam() == SinkKind::iceberg) {
    const auto table = archive_table(sink_.path, "logs");
    EXPECT_EQ(table.metadata->snapshots.size(), 24U) << "one snapshot a unit";
  }
}

TEST_P(SinkDriver, ATickWithNothingNewReadsTheMetadataAlone) {
  const auto io = std::make_shared<ReadsSeen>();
  Cache cache(box_.config, io);
  for (int i = 0; i < 5; ++i) ingest(cache, {make_frame("logs", "web", {row(i)}), make_frame("logs", "db", {row(i)})});
  EXPECT_EQ(run_sink(cache, sink_).rows(), 10);
  io->take();
  for (int tick = 0; tick < 3; ++tick) {
    const SinkRunReport report = run_sink(cache, sink_);
    EXPECT_EQ(report.units(), 0);
    int64_t claims = 0;
    for (const std::string& path : io->take()) {
      EXPECT_FALSE(path.ends_with(".avro") || path.ends_with(".parquet") || path.ends_with(".puffin")) << path;
      claims += path.find("/_firn/") != std::string::npos;
    }
    EXPECT_EQ(claims, GetParam() == SinkKind::blob ? 2 : 0) << "one look a partition whether the last unit is there";
  }
  ingest(cache, {make_frame("logs", "web", {row(99)})});
  EXPECT_EQ(run_sink(cache, sink_).rows(), 1);
}

TEST_P(SinkDriver, AnnouncesWhatARetryWouldSendWhereRowsWerePurgedJustBefore) {
  box_.ingest_lines("logs", "web", rows_up_to(6));
  std::optional<PendingUnit> announced;
  Cache cache(box_.config);
  const int64_t last = read_sequenced(cache, kWeb).after.back();
  set_fault_handler([&](const char* name) {
    if (std::string_view(name) == "sink.before-intent" && !std::exchange(is_done_, true)) {
      Cache other(box_.config);
      EXPECT_EQ(purge(other, "logs", iceberg::parse_expression("n = 2 or n = 6")).rows, 2);
    }
    if (std::string_view(name) == "sink.intent-written")
      announced = load_watermark(box_.watermark_file(sink_, kWeb))->pending;
  });
  const SinkRunReport report = run_sink(cache, sink_);
  EXPECT_FALSE(report.failed()) << report.partitions.at(0).error;
  ASSERT_TRUE(announced);
  EXPECT_EQ(announced->rows, 4);
  EXPECT_EQ(announced->until, last) << "the range stays";
  EXPECT_EQ(report.rows(), 4);
  EXPECT_EQ(delivered_rows(sink_), sorted_rows({row(1), row(3), row(4), row(5)}));
  EXPECT_EQ(load_watermark(box_.watermark_file(sink_, kWeb))->exported_row_count, 4);
}

TEST_P(SinkDriver, AnnouncesNothingWhereAllRowsLeftJustBefore) {
  box_.ingest_lines("logs", "web", rows_up_to(3));
  box_.ingest_lines("logs", "db", {row(10)});
  sink_.parallel_max = 1;
  once_at("sink.before-intent", [&] {
    Cache other(box_.config);
    purge(other, "logs", iceberg::parse_expression("true"));
  });
  EXPECT_EQ(box_.ship_well(sink_).units(), 0);
  EXPECT_EQ(delivered_rows(sink_), Lines());
}

TEST_P(SinkDriver, ACompactionJustBeforeAnIntentChangesNothing) {
  for (int n = 1; n <= 3; ++n) {
    Cache cache(box_.config);
    ingest(cache, {make_frame("logs", "web", {row(n), row(n + 10)})});
  }
  once_at("sink.before-intent", [&] {
    Cache other(box_.config);
    EXPECT_TRUE(compact_partition(other, kWeb).swapped);
  });
  EXPECT_EQ(box_.ship_well(sink_).rows(), 6);
  EXPECT_EQ(delivered_rows(sink_), sorted_rows({row(1), row(2), row(3), row(11), row(12), row(13)}));
}

TEST_P(SinkDriver, TellsWhereItIsInRowsTimeAndBytes) {
  constexpr int64_t kNow = 1'800'000'000'000;
  set_clock_ms(kNow);
  box_.ingest_lines("logs", "web", rows_up_to(2));
  const SinkRunReport report = box_.ship_well(sink_);
  set_clock_ms(kNow + 60'000);
  box_.ingest_lines("logs", "web", {row(3)});
  set_clock_ms(kNow + 90'000);
  box_.ingest_lines("logs", "web", {row(4), row(5)});
  const Cache cache(box_.config);
  const SinkPartitionStatus status = sink_status(cache, sink_).at(0);
  set_clock_ms(std::nullopt);
  EXPECT_EQ(status.rows_behind, 3);
  EXPECT_EQ(status.oldest_behind_ms, kNow + 60'000);
  EXPECT_EQ(status.exported_rows, 2);
  EXPECT_GT(report.bytes(), 0);
  EXPECT_EQ(status.exported_bytes, report.bytes());
  EXPECT_EQ(status.shipped_at, "2027-01-15T08:00:00.000Z");
  EXPECT_FALSE(status.pending);
}

TEST_P(SinkDriver, TellsWhatIsAnnounced) {
  box_.ingest_lines("logs", "web", rows_up_to(2));
  std::optional<SinkPartitionStatus> seen;
  once_at("sink.intent-written", [&] {
    const Cache cache(box_.config);
    seen = sink_status(cache, sink_).at(0);
  });
  set_clock_ms(1'800'000'000'000);
  box_.ship_well(sink_);
  set_clock_ms(std::nullopt);
  ASSERT_TRUE(seen && seen->pending);
  EXPECT_EQ(seen->pending->rows, 2);
  EXPECT_EQ(seen->pending->until - seen->pending->since, 2);
  EXPECT_EQ(seen->pending->announced_at, "2027-01-15T08:00:00.000Z");
}

TEST_P(SinkDriver, TakesAWholeDatasetWhereThatIsChosen) {
  box_.ingest_lines("logs", "a", {row(1)});
  box_.ingest_lines("logs", "b", {row(2)});
  box_.ingest_lines("hosts", "a", {row(3)});
  Cache cache(box_.config);
  SinkRunOptions options;
  options.partition.dataset = "logs";
  EXPECT_EQ(run_sink(cache, sink_, options).partitions.size(), 2U);
  EXPECT_EQ(delivered_rows(sink_), sorted_rows({row(1), row(2)}));
  options.partition.dataset = "lags";
  EXPECT_THROW(run_sink(cache, sink_, options), Error);
}

INSTANTIATE_TEST_SUITE_P(Destinations, SinkDriver, testing::Values(SinkKind::blob, SinkKind::iceberg),
                         [](const auto& test) { return test.param == SinkKind::blob ? "blob" : "iceberg"; });

}  // namespace
}  // namespace firn::hyp
