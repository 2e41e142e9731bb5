// What a cache may lose or repeat, before the real receiver: the specification's known gap, lost, restored and cloned
// caches, units of which nothing is left, resets, a receiver restored from a backup. Blobs and archives:
// sink/acceptance_test.cc.
#include "hyp/forward/end_to_end_box.h"

#include "base/test_world.h"
#include "hyp/sink/empty_partition.h"
#include "hyp/sink/reset.h"

namespace firn::hyp {
namespace {

const PartitionId kWeb = {"logs", "web"};
constexpr int64_t kHourMs = 3'600'000;

class ReceiverAcceptance : public EndToEnd {
 protected:
  ReceiverAcceptance() { sink_.parallel_max = 1; }

  void begin_anew() {
    receiver_->kill();
    fs::remove_all(box_.live);
    fs::remove_all(receiver_config_.cache_root);
    make_directories(box_.live);
    start_receiver();
  }
  void ingest_rows(const Lines& lines) const {
    ASSERT_EQ(run_in_child([&] { box_.ingest_lines("logs", "web", lines); }), 0);
  }
  // The rows in its cache, while it is away for a moment.
  Lines look() {
    receiver_->end();
    Lines there = rows_received(receiver_config_);
    start_receiver();
    return there;
  }
  // The passes of the point in one run of the sink, of which nothing then stays.
  std::vector<size_t> passes_of(const std::string& point) {
    receiver_->end();
    copy_folder(box_.live, box_.folder / "saved/live");
    copy_folder(there_, box_.folder / "saved/there");
    start_receiver();
    const std::vector<std::string> names = fault_points_of([&] { box_.ship_well(sink_); });
    receiver_->kill();
    copy_folder(box_.folder / "saved/live", box_.live);
    copy_folder(box_.folder / "saved/there", there_);
    start_receiver();
    std::vector<size_t> passes;
    for (size_t i = 0; i < names.size(); ++i) {
      if (names[i] == point) passes.push_back(i);
    }
    return passes;
  }
  // Ships in a process that ends at its last pass of the point.
  void ship_until(const std::string& point, Crash crash = Crash::process) {
    const std::vector<size_t> passes = passes_of(point);
    ASSERT_FALSE(passes.empty()) << point;
    run_killed_at(passes.back(), crash, [&] { box_.ship_well(sink_); });
  }
  PartitionReset reset_well(ResetTarget target) const {
    Cache cache(box_.config);
    const SinkReset done = reset_sink(cache, sink_, target);
    if (done.failed()) fail(ErrorKind::internal, "{}", done.partitions.at(0).error);
    return done.partitions.at(0);
  }
  std::optional<int64_t> watermark() const { return load_watermark(box_.watermark_file(sink_, kWeb))->seq; }
};

// spec/incremental-sink-reads.md §5 "known gap" and risk #7; case 20: a chunk lands, its watermark write is lost, new
// rows arrive, the sink starts again.
TEST_F(ReceiverAcceptance, KnownGapCase20AUnitThatLandedDoesNotGrowByRowsThatCameBeforeItsRetry) {
  for (const Crash crash : {Crash::process, Crash::power}) {
    for (const char* point : {"forward.answered", "sink.before-watermark"}) {
      SCOPED_TRACE(fmt::format("{}, {}", point, crash == Crash::power ? "power" : "process"));
      begin_anew();
      ingest_rows(rows(1, 3));
      ship_until(point, crash);
      ASSERT_FALSE(HasFatalFailure());
      ASSERT_EQ(look(), sorted_rows(rows(1, 3))) << "it landed";
      ASSERT_FALSE(watermark()) << "and nobody knows";
      ingest_rows(rows(4, 8));
      box_.ship_well(sink_);
      EXPECT_EQ(look(), sorted_rows(rows(1, 8)));
    }
  }
}

// The specification's words for it: the last partial chunk gets a new body, and the receiver stores it beside the old
// one. Whichever chunk of a unit was the last that landed, none of them gets a new body.
TEST_F(ReceiverAcceptance, KnownGapCase20NoChunkOfAUnitGetsANewBody) {
  const auto wide_rows = [](int from, int until) {
    Lines lines;
    for (int n = from; n <= until; ++n) lines.push_back(fmt::format(R"({{"a_long_name_for_so_small_a_value":{}}})", n));
    return lines;
  };
  sink_.unit_bytes_max = 100;  // two rows as JSON; a unit is measured in memory
  ingest_rows(wide_rows(1, 7));
  const std::vector<size_t> answered = passes_of("forward.answered");
  ASSERT_GE(answered.size(), 4u);
  for (const size_t pass : answered) {
    SCOPED_TRACE(pass);
    begin_anew();
    ingest_rows(wide_rows(1, 7));
    proxy_->forget_requests();
    run_killed_at(pass, Crash::process, [&] { box_.ship_well(sink_); });
    ingest_rows(wide_rows(8, 9));
    box_.ship_well(sink_);
    std::map<std::string, std::set<std::string>> ids_by_range;
    for (const ProxiedRequest& request : proxy_->requests()) {
      if (request.method == "POST")
        ids_by_range[request.headers.at("x-hyp-seq-range")].insert(request.headers.at("x-hyp-batch-id"));
    }
    EXPECT_EQ(ids_by_range.size(), 5u) << "1-2, 3-4, 5-6, 7, and of another open 8-9";
    for (const auto& [range, ids] : ids_by_range) EXPECT_EQ(ids.size(), 1u) << range;
    EXPECT_EQ(look(), sorted_rows(wide_rows(1, 9)));
  }
}

TEST_F(ReceiverAcceptance, KnownGapAnAnnouncedUnitThatDidNotLandIsSentAsItWas) {
  ingest_rows(rows(1, 3));
  ship_until("sink.intent-written");
  ASSERT_FALSE(HasFatalFailure());
  ASSERT_EQ(look(), Lines());
  ingest_rows(rows(4, 8));
  const SinkRunReport report = box_.ship_well(sink_);
  EXPECT_EQ(report.rows(), 8);
  EXPECT_EQ(report.units(), 2);
  EXPECT_EQ(look(), sorted_rows(rows(1, 8)));
}

TEST_F(ReceiverAcceptance, AClientThatLostItsWatermarksRepeatsAndSkipsNothing) {
  sink_.unit_rows_max = 2;
  ingest_rows(rows(1, 5));
  ingest_rows(rows(6, 7));
  box_.ship_well(sink_);
  fs::remove_all(box_.config.state_dir);
  ingest_rows(rows(8, 9));
  EXPECT_EQ(box_.ship_well(sink_).rows(), 2);
  EXPECT_EQ(look(), sorted_rows(rows(1, 9)));
}

TEST_F(ReceiverAcceptance, AClientThatLostItsWholeCacheSendsItsNewRows) {
  for (const bool with_state : {true, false}) {
    SCOPED_TRACE(with_state ? "the state is left" : "the state is lost, too");
    begin_anew();
    ingest_rows(rows(1, 3));
    box_.ship_well(sink_);
    fs::remove_all(with_state ? box_.config.cache_root : box_.live);
    ingest_rows(rows(1, 3));  // the same numbers and the same rows, captured anew
    EXPECT_EQ(box_.ship_well(sink_).rows(), 3);
    EXPECT_EQ(look(), sorted_rows(rows(1, 3) + rows(1, 3)));
  }
}

TEST_F(ReceiverAcceptance, AClientRestoredFromAnOldBackupWithItsClockAnHourBackSendsWhatItThenCaptured) {
  constexpr int64_t kNow = 1'800'000'000'000;
  for (const bool with_state : {true, false}) {
    SCOPED_TRACE(with_state ? "with its state" : "without its state");
    begin_anew();
    set_clock_ms(kNow - 24 * kHourMs);
    ingest_rows(rows(1, 3));
    box_.ship_well(sink_);
    const std::string backup = box_.folder / "backup";
    copy_folder(box_.live, backup);
    set_clock_ms(kNow);
    ingest_rows(rows(4, 6));
    box_.ship_well(sink_);
    copy_folder(backup, box_.live);
    if (!with_state) fs::remove_all(box_.config.state_dir);
    fs::remove_all(box_.config.cache_root + "/spool");
    set_clock_ms(kNow - kHourMs);
    ingest_rows(rows(7, 8));
    const SinkRunReport report = box_.ship_well(sink_);
    set_clock_ms(std::nullopt);
    EXPECT_EQ(report.rows(), 2);
    EXPECT_EQ(look(), sorted_rows(rows(1, 8)));
  }
}

// In processes of their own, at once, each capturing and shipping; the third lost its watermarks after the fork.
TEST_F(ReceiverAcceptance, ClonesThatRunAtOnceShipSharedRowsOnceAndTheirOwnRowsEach) {
  constexpr int kClones = 3, kRounds = 4;
  sink_.unit_rows_max = 2;
  ingest_rows(rows(1, 3));
  ASSERT_EQ(run_in_child([&] { box_.ship_well(sink_); }), 0);
  ingest_rows(rows(4, 9));  // not sent when the disk is cloned
  for (int clone = 0; clone < kClones; ++clone) {
    copy_folder(box_.config.cache_root, fmt::format("{}/clone{}/cache", box_.folder.path(), clone));
    if (clone < 2) copy_folder(box_.config.state_dir, fmt::format("{}/clone{}/state", box_.folder.path(), clone));
  }
  const auto own_row = [](int clone, int round) { return fmt::format(R"({{"of":{},"round":{}}})", clone, round); };
  const int failed = run_in_children(kClones, [&](int clone) {
    SinkConfig sink = sink_;
    sink.unit_rows_max = clone + 1;  // each cuts its units differently
    box_.set_root(fmt::format("{}/clone{}", box_.folder.path(), clone));
    for (int round = 0; round < kRounds; ++round) {
      Cache cache(box_.config);
      ingest(cache, {make_frame("logs", "web", {own_row(clone, round), R"({"same":true})"})});
      const SinkRunReport report = run_sink(cache, sink);
      if (report.failed()) fail(ErrorKind::internal, "clone {}: {}", clone, report.partitions.at(0).error);
    }
  });
  EXPECT_EQ(failed, 0);
  Lines expected = rows(1, 9);
  for (int clone = 0; clone < kClones; ++clone) {
    for (int round = 0; round < kRounds; ++round) {
      expected.push_back(own_row(clone, round));
      expected.emplace_back(R"({"same":true})");
    }
  }
  EXPECT_EQ(look(), sorted_rows(expected));
}

TEST_F(ReceiverAcceptance, AUnitWhoseRowsWereAllPurgedOrEvictedMovesTheStreamOn) {
  for (const bool is_purged : {true, false}) {
    SCOPED_TRACE(is_purged ? "purged" : "evicted");
    begin_anew();
    DatasetConfig& logs = box_.declare("logs");
    logs.retention.days = 1;
    logs.retention.grace_days = 1;
    box_.config.sinks = {sink_};
    ingest_rows(rows(1, 3));
    ship_until("sink.intent-written");
    ASSERT_FALSE(HasFatalFailure());
    ASSERT_EQ(empty_partition(box_.config, kWeb, is_purged), 0);
    ingest_rows(rows(4, 5));
    EXPECT_EQ(box_.ship_well(sink_).rows(), 2);
    EXPECT_EQ(look(), sorted_rows(rows(4, 5)));
    fs::remove_all(box_.config.state_dir);
    EXPECT_EQ(box_.ship_well(sink_).rows(), 0) << "a lost watermark finds its way over the empty unit";
    EXPECT_EQ(look(), sorted_rows(rows(4, 5)));
  }
}

TEST_F(ReceiverAcceptance, AResetToNowAsAStreamsFirstWordStaysWhereTheWatermarkIsLost) {
  ingest_rows(rows(1, 2));
  ingest_rows(rows(3, 4));
  EXPECT_EQ(reset_well({ResetTarget::To::now}).rows_skipped, 4);
  EXPECT_EQ(box_.ship_well(sink_).rows(), 0);
  fs::remove_all(box_.config.state_dir);
  EXPECT_EQ(box_.ship_well(sink_).rows(), 0);
  fs::remove_all(box_.config.state_dir);
  ingest_rows(rows(5, 6));
  EXPECT_EQ(box_.ship_well(sink_).rows(), 2);
  EXPECT_EQ(look(), sorted_rows(rows(5, 6)));
}

TEST_F(ReceiverAcceptance, AReceiverRestoredFromABackupStopsTheSinkAndNothingMovesUntilTold) {
  ingest_rows(rows(1, 3));
  box_.ship_well(sink_);
  receiver_->end();
  copy_folder(there_, box_.folder / "older");
  start_receiver();
  ingest_rows(rows(4, 5));
  box_.ship_well(sink_);
  receiver_->end();
  copy_folder(box_.folder / "older", there_);
  start_receiver();
  const auto confirmed = watermark();
  for (int n : {6, 7}) {  // each captured by another process, whose open the receiver never saw
    ingest_rows(rows(n, n));
    EXPECT_EQ(box_.ship(sink_).partitions.at(0).error_kind, "destination_behind");
    EXPECT_EQ(watermark(), confirmed);
    EXPECT_EQ(look(), sorted_rows(rows(1, 3)));
  }
  EXPECT_EQ(reset_well({ResetTarget::To::destination}).rows_missed, 2);
  EXPECT_EQ(box_.ship_well(sink_).rows(), 4);
  EXPECT_EQ(look(), sorted_rows(rows(1, 7)));
}

TEST_F(ReceiverAcceptance, AReceiverThatLostItsLedgerAndKeptItsTablesIsToldWhatTheyHave) {
  ingest_rows(rows(1, 3));
  box_.ship_well(sink_);
  receiver_->end();  // flushed
  fs::remove_all(receiver_config_.cache_root + "/receiver");
  start_receiver();
  ingest_rows(rows(4, 4));
  EXPECT_EQ(box_.ship(sink_).partitions.at(0).error_kind, "destination_behind");
  EXPECT_EQ(look(), sorted_rows(rows(1, 3)));
  EXPECT_EQ(reset_well({ResetTarget::To::number, *watermark()}).rows_to_send, 1);
  EXPECT_EQ(box_.ship_well(sink_).rows(), 1);
  EXPECT_EQ(look(), sorted_rows(rows(1, 4)));
}

}  // namespace
}  // namespace firn::hyp
