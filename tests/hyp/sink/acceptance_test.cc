// What a cache may lose or repeat, case by case: the specification's known gap, lost, restored and cloned caches, units
// of which nothing is left. See coverage.md for where the rest is.
#include <thread>

#include "base/fault_point.h"
#include "base/test_world.h"
#include "hyp/sink/empty_partition.h"
#include "hyp/sink/sink_box.h"
#include "support/crash.h"

namespace firn::hyp {
namespace {

const PartitionId kWeb = {"logs", "web"};
constexpr int64_t kHourMs = 3'600'000;

std::string row(int n) { return fmt::format(R"({{"n":{}}})", n); }
Lines rows_between(int first, int last) {
  Lines rows;
  for (int n = first; n <= last; ++n) rows.push_back(row(n));
  return rows;
}

class SinkAcceptance : public testing::TestWithParam<SinkKind> {
 protected:
  // Ships in a process that ends at its first pass of the point.
  void ship_until(const std::string& point, Crash crash = Crash::process) {
    const auto names = fault_points_of([&] {
      const std::string saved = box_.folder / "saved";  // the same run, tried on a copy
      copy_folder(box_.live, saved);
      try {
        box_.ship_well(sink_);
      } catch (const Error&) {
        ::_exit(1);
      }
      copy_folder(saved, box_.live);
    });
    const auto found = std::find(names.begin(), names.end(), point);
    ASSERT_NE(found, names.end()) << point;
    run_killed_at(static_cast<size_t>(found - names.begin()), crash, [&] { box_.ship_well(sink_); });
  }

  SinkBox box_;
  SinkConfig sink_ = [&] {
    SinkConfig sink = make_sink(GetParam(), box_.out());
    sink.parallel_max = 1;
    return sink;
  }();
};

// spec/incremental-sink-reads.md §5 "known gap" and risk #7; case 20: a unit lands, its watermark write is lost, new
// rows arrive, the sink starts again.
TEST_P(SinkAcceptance, KnownGapCase20AUnitThatLandedDoesNotGrowByRowsThatCameBeforeItsRetry) {
  for (const Crash crash : {Crash::process, Crash::power}) {
    for (const char* point :
         {"sink.before-watermark", GetParam() == SinkKind::blob ? "sink.claimed" : "sink.committed"}) {
      SCOPED_TRACE(fmt::format("{}, {}", point, crash == Crash::power ? "power" : "process"));
      fs::remove_all(box_.live);
      ASSERT_EQ(run_in_child([&] { box_.ingest_lines("logs", "web", rows_between(1, 3)); }), 0);
      ship_until(point, crash);
      ASSERT_FALSE(HasFatalFailure());
      ASSERT_EQ(delivered_rows(sink_), sorted_rows(rows_between(1, 3))) << "it landed";
      ASSERT_FALSE(load_watermark(box_.watermark_file(sink_, kWeb))->seq) << "and nobody knows";
      ASSERT_EQ(run_in_child([&] { box_.ingest_lines("logs", "web", rows_between(4, 8)); }), 0);
      const SinkRunReport report = box_.ship_well(sink_);
      EXPECT_EQ(report.partitions.at(0).recognised_units, 1);
      EXPECT_EQ(report.rows(), 5);
      EXPECT_EQ(delivered_rows(sink_), sorted_rows(rows_between(1, 8)));
    }
  }
}

// The same where what was announced never arrived: it is sent as announced, then what came.
TEST_P(SinkAcceptance, KnownGapAnAnnouncedUnitThatDidNotLandIsSentAsItWas) {
  box_.ingest_lines("logs", "web", rows_between(1, 3));
  ship_until("sink.intent-written");
  ASSERT_FALSE(HasFatalFailure());
  ASSERT_EQ(delivered_rows(sink_), Lines());
  box_.ingest_lines("logs", "web", rows_between(4, 8));
  const SinkRunReport report = box_.ship_well(sink_);
  EXPECT_EQ(report.rows(), 8);
  EXPECT_EQ(report.units(), 2);
  EXPECT_EQ(delivered_rows(sink_), sorted_rows(rows_between(1, 8)));
}

TEST_P(SinkAcceptance, AClientThatLostItsWholeCacheSendsItsNewRowsAndOverwritesNothing) {
  for (const bool with_state : {true, false}) {
    SCOPED_TRACE(with_state ? "the state is left" : "the state is lost, too");
    fs::remove_all(box_.live);
    box_.ingest_lines("logs", "web", rows_between(1, 3));
    box_.ship_well(sink_);
    const auto before = files_below(box_.out());
    fs::remove_all(box_.config.cache_root);
    if (!with_state) fs::remove_all(box_.config.state_dir);
    box_.ingest_lines("logs", "web", rows_between(1, 3));  // the same numbers and the same rows, captured anew
    EXPECT_EQ(box_.ship_well(sink_).rows(), 3);
    EXPECT_EQ(delivered_rows(sink_), sorted_rows(rows_between(1, 3) + rows_between(1, 3)));
    const auto after = files_below(box_.out());
    if (GetParam() == SinkKind::blob) {
      EXPECT_TRUE(std::includes(after.begin(), after.end(), before.begin(), before.end()));
    }
  }
}

TEST_P(SinkAcceptance, AClientRestoredFromAnOldBackupWithItsClockAnHourBackSendsWhatItThenCaptured) {
  constexpr int64_t kNow = 1'800'000'000'000;
  for (const bool with_state : {true, false}) {
    SCOPED_TRACE(with_state ? "with its state" : "without its state");
    fs::remove_all(box_.live);
    set_clock_ms(kNow - 24 * kHourMs);
    box_.ingest_lines("logs", "web", rows_between(1, 3));
    box_.ship_well(sink_);
    const std::string backup = box_.folder / "backup";
    copy_folder(box_.live, backup);
    set_clock_ms(kNow);
    box_.ingest_lines("logs", "web", rows_between(4, 6));
    box_.ship_well(sink_);
    fs::remove_all(box_.config.cache_root);
    fs::remove_all(box_.config.state_dir);
    copy_folder(backup + "/cache", box_.config.cache_root);
    if (with_state) copy_folder(backup + "/state", box_.config.state_dir);
    fs::remove_all(box_.config.cache_root + "/spool");
    set_clock_ms(kNow - kHourMs);
    box_.ingest_lines("logs", "web", rows_between(7, 8));
    const SinkRunReport report = box_.ship_well(sink_);
    set_clock_ms(std::nullopt);
    EXPECT_EQ(report.rows(), 2);
    EXPECT_EQ(delivered_rows(sink_), sorted_rows(rows_between(1, 8)));
  }
}

// In processes of their own, at once, each capturing and shipping; the third lost its watermarks after the fork.
TEST_P(SinkAcceptance, ClonesThatRunAtOnceShipSharedRowsOnceAndTheirOwnRowsEach) {
  constexpr int kClones = 3, kRounds = 4;
  sink_.unit_rows_max = 2;
  ASSERT_EQ(run_in_child([&] {
              box_.ingest_lines("logs", "web", rows_between(1, 3));
              box_.ship_well(sink_);
              box_.ingest_lines("logs", "web", rows_between(4, 9));  // not sent when the disk is cloned
            }),
            0);
  for (int clone = 0; clone < kClones; ++clone) {
    copy_folder(box_.config.cache_root, fmt::format("{}/clone{}/cache", box_.folder.path(), clone));
    if (clone < 2) copy_folder(box_.config.state_dir, fmt::format("{}/clone{}/state", box_.folder.path(), clone));
  }
  const int failed = run_in_children(kClones, [&](int clone) {
    SinkConfig sink = sink_;
    sink.unit_rows_max = clone + 1;  // each cuts its units differently
    box_.set_root(fmt::format("{}/clone{}", box_.folder.path(), clone));
    for (int round = 0; round < kRounds; ++round) {
      const Lines own = {fmt::format(R"({{"of":{},"round":{}}})", clone, round), R"({"same":true})"};
      Cache cache(box_.config);
      ingest(cache, {make_frame("logs", "web", own)});
      const SinkRunReport report = run_sink(cache, sink);
      if (report.failed()) fail(ErrorKind::internal, "clone {}: {}", clone, report.partitions.at(0).error);
    }
  });
  EXPECT_EQ(failed, 0);
  Lines expected = rows_between(1, 9);
  for (int clone = 0; clone < kClones; ++clone) {
    for (int round = 0; round < kRounds; ++round) {
      expected.push_back(fmt::format(R"({{"of":{},"round":{}}})", clone, round));
      expected.emplace_back(R"({"same":true})");
    }
  }
  EXPECT_EQ(delivered_rows(sink_), sorted_rows(expected));
}

TEST_P(SinkAcceptance, AUnitWhoseRowsWereAllPurgedOrEvictedMovesTheStreamOn) {
  for (const bool is_purged : {true, false}) {
    SCOPED_TRACE(is_purged ? "purged" : "evicted");
    fs::remove_all(box_.live);
    DatasetConfig& logs = box_.declare("logs");
    logs.retention.days = 1;
    logs.retention.grace_days = 1;
    box_.config.sinks = {sink_};
    ASSERT_EQ(run_in_child([&] { box_.ingest_lines("logs", "web", rows_between(1, 3)); }), 0);
    ship_until("sink.intent-written");
    ASSERT_FALSE(HasFatalFailure());
    ASSERT_EQ(empty_partition(box_.config, kWeb, is_purged), 0);
    ASSERT_EQ(run_in_child([&] { box_.ingest_lines("logs", "web", rows_between(4, 5)); }), 0);
    EXPECT_EQ(box_.ship_well(sink_).rows(), 2);
    EXPECT_EQ(delivered_rows(sink_), sorted_rows(rows_between(4, 5)));
    fs::remove_all(box_.config.state_dir);
    EXPECT_EQ(box_.ship_well(sink_).rows(), 0) << "a lost watermark finds its way over the empty unit";
    EXPECT_EQ(delivered_rows(sink_), sorted_rows(rows_between(4, 5)));
  }
}

INSTANTIATE_TEST_SUITE_P(Destinations, SinkAcceptance, testing::Values(SinkKind::blob, SinkKind::iceberg),
                         [](const auto& test) { return test.param == SinkKind::blob ? "blob" : "iceberg"; });

}  // namespace
}  // namespace firn::hyp
