// A sink that a person moves (P10.6): what it skips and repeats, and that nothing undoes it.
#include "hyp/sink/reset.h"

#include "base/clock.h"
#include "base/fault_point.h"
#include "hyp/maintain/retention.h"
#include "hyp/sink/offsets.h"
#include "hyp/sink/sink_box.h"
#include "iceberg/commit/commit.h"
#include "iceberg/maintain/maintain.h"
#include "support/crash.h"

namespace firn::hyp {
namespace {

using To = ResetTarget::To;

const PartitionId kWeb = {"logs", "web"};
// Three opens of two rows each: every call of ingest_lines is a process of its own.
const std::vector<Lines> kOpens = {
    {R"({"n":1})", R"({"n":2})"}, {R"({"n":3})", R"({"n":4})"}, {R"({"n":5})", R"({"n":6})"}};
const Lines kAll = {R"({"n":1})", R"({"n":2})", R"({"n":3})", R"({"n":4})", R"({"n":5})", R"({"n":6})"};
const Lines kLater = {R"({"n":10})", R"({"n":11})"};

Lines from_to(size_t from, size_t to) {
  return {kAll.begin() + static_cast<std::ptrdiff_t>(from - 1), kAll.begin() + static_cast<std::ptrdiff_t>(to)};
}

class SinkResets : public testing::TestWithParam<SinkKind> {
 protected:
  void ingest_opens() {
    for (const Lines& lines : kOpens) box_.ingest_lines("logs", "web", lines);
    const Cache cache(box_.config);
    numbers_ = read_sequenced(cache, kWeb).after;
  }
  SinkReset reset(ResetTarget target, bool dry_run = false) {
    Cache cache(box_.config);
    ResetOptions options;
    options.dry_run = dry_run;
    return reset_sink(cache, sink_, target, options);
  }
  // Throws what stopped it.
  PartitionReset reset_well(ResetTarget target) {
    const SinkReset done = reset(target);
    if (done.failed()) fail(ErrorKind::internal, "{}", done.partitions.at(0).error);
    EXPECT_TRUE(done.is_done);
    return done.partitions.at(0);
  }
  void lose_watermarks() const { fs::remove_all(box_.config.state_dir); }
  std::optional<int64_t> watermark() const {
    const auto loaded = load_watermark(box_.watermark_file(sink_, kWeb));
    return loaded ? loaded->seq : std::nullopt;
  }

  SinkBox box_;
  SinkConfig sink_ = make_sink(GetParam(), box_.out());
  std::vector<int64_t> numbers_;  // of kAll
};

TEST_P(SinkResets, ToNowAsAStreamsFirstWordStaysWhereTheWatermarkIsLost) {
  ingest_opens();
  const PartitionReset now = reset_well({To::now});
  EXPECT_EQ(now.rows_skipped, 6);
  EXPECT_EQ(now.rows_to_send, 0);
  EXPECT_EQ(now.watermark_before, std::nullopt);
  EXPECT_EQ(now.watermark_after, numbers_.back());
  EXPECT_EQ(box_.ship_well(sink_).rows(), 0);
  lose_watermarks();
  EXPECT_EQ(box_.ship_well(sink_).rows(), 0);
  lose_watermarks();
  box_.ingest_lines("logs", "web", kLater);
  EXPECT_EQ(box_.ship_well(sink_).rows(), 2);
  EXPECT_EQ(delivered_rows(sink_), sorted_rows(kLater));
}

TEST_P(SinkResets, ToNowSkipsWhatWasNotSentAlone) {
  ingest_opens();
  sink_.unit_rows_max = 1;
  std::atomic<bool> cancelled{false};
  int units = 0;
  SinkRunOptions options;
  options.cancelled = &cancelled;
  options.progress = [&](const PartitionId&, int64_t) { cancelled = ++units == 3; };
  {
    Cache cache(box_.config);
    EXPECT_EQ(run_sink(cache, sink_, options).rows(), 3);
  }
  EXPECT_EQ(reset_well({To::now}).rows_skipped, 3);
  lose_watermarks();
  box_.ingest_lines("logs", "web", kLater);
  EXPECT_EQ(box_.ship_well(sink_).rows(), 2);
  EXPECT_EQ(delivered_rows(sink_), sorted_rows(from_to(1, 3) + kLater));
}

TEST_P(SinkResets, ToStartRepeatsAllEvenWhereTheWatermarkIsLost) {
  ingest_opens();
  box_.ship_well(sink_);
  const PartitionReset start = reset_well({To::start});
  EXPECT_EQ(start.rows_repeated, 6);
  EXPECT_EQ(start.rows_to_send, 6);
  EXPECT_EQ(start.watermark_before, numbers_.back());
  EXPECT_EQ(start.watermark_after, std::nullopt);
  lose_watermarks();
  sink_.unit_rows_max = 1;  // blobs: other objects than the first time
  EXPECT_EQ(box_.ship_well(sink_).rows(), 6);
  EXPECT_EQ(box_.ship_well(sink_).rows(), 0);
  const Lines twice = GetParam() == SinkKind::iceberg ? kAll + kAll : kAll;  // of blobs only claims count
  EXPECT_EQ(delivered_rows(sink_), sorted_rows(twice));
}

TEST_P(SinkResets, ToANumberRepeatsTheRowsAboveItInEveryOpen) {
  ingest_opens();
  sink_.unit_rows_max = 1;
  box_.ship_well(sink_);
  for (const bool is_lost : {false, true}) {
    SCOPED_TRACE(is_lost ? "then the watermark is lost" : "");
    const PartitionReset back = reset_well({To::number, numbers_[2]});
    EXPECT_EQ(back.rows_repeated, 3);
    EXPECT_EQ(back.watermark_after, numbers_[2]);
    if (is_lost) lose_watermarks();
    EXPECT_EQ(box_.ship_well(sink_).rows(), 3);
    EXPECT_EQ(watermark(), numbers_.back());
  }
  const Lines again = from_to(4, 6);
  EXPECT_EQ(delivered_rows(sink_), sorted_rows(GetParam() == SinkKind::iceberg ? kAll + again + again : kAll));
}

TEST_P(SinkResets, ToANumberSkipsTheRowsBelowItInEveryOpen) {
  ingest_opens();
  const PartitionReset forward = reset_well({To::number, numbers_[3]});
  EXPECT_EQ(forward.rows_skipped, 4);
  EXPECT_EQ(forward.rows_to_send, 2);
  lose_watermarks();
  EXPECT_EQ(box_.ship_well(sink_).rows(), 2);
  EXPECT_EQ(delivered_rows(sink_), sorted_rows(from_to(5, 6)));
}

TEST_P(SinkResets, ANumberWithinAnOpenPartsIt) {
  ingest_opens();
  EXPECT_EQ(reset_well({To::number, numbers_[4]}).rows_skipped, 5);
  EXPECT_EQ(box_.ship_well(sink_).rows(), 1);
  EXPECT_EQ(delivered_rows(sink_), sorted_rows(from_to(6, 6)));
}

TEST_P(SinkResets, NeverSkipsARowThatIsYetToCome) {
  ingest_opens();
  EXPECT_EQ(reset_well({To::number, numbers_.back() + 5000}).watermark_after, numbers_.back());
  box_.ingest_lines("logs", "web", kLater);
  EXPECT_EQ(box_.ship_well(sink_).rows(), 2);
  EXPECT_EQ(delivered_rows(sink_), sorted_rows(kLater));
}

TEST_P(SinkResets, WhatIsSkippedMayBeSentAfterAll) {
  ingest_opens();
  reset_well({To::now});
  const PartitionReset start = reset_well({To::start});
  EXPECT_EQ(start.rows_repeated, 6) << "they count as sent";
  EXPECT_EQ(box_.ship_well(sink_).rows(), 6);
  EXPECT_EQ(delivered_rows(sink_), sorted_rows(kAll));
}

TEST_P(SinkResets, ACopyOfTheCacheThatLostItsWatermarksKeepsToIt) {
  ingest_opens();
  const Copies copies(box_);
  reset_well({To::now});
  box_.ingest_lines("logs", "web", kLater);
  box_.ship_well(sink_);
  copies.turn();
  lose_watermarks();
  EXPECT_EQ(box_.ship_well(sink_).rows(), 0) << "the rows that both have were skipped";
  box_.ingest_lines("logs", "web", {R"({"of":"the copy"})"});
  EXPECT_EQ(box_.ship_well(sink_).rows(), 1);
  EXPECT_EQ(delivered_rows(sink_), sorted_rows(kLater + Lines{R"({"of":"the copy"})"}));
}

TEST_P(SinkResets, WithinTheProcessThatCapturesItGoesOn) {
  Cache cache(box_.config);
  ingest(cache, {make_frame("logs", "web", kAll)});
  for (const To to : {To::now, To::start, To::destination, To::now}) {
    const SinkReset done = reset_sink(cache, sink_, {to});
    ASSERT_FALSE(done.failed()) << done.partitions.at(0).error;
  }
  lose_watermarks();
  ingest(cache, {make_frame("logs", "web", kLater)});
  const SinkRunReport report = run_sink(cache, sink_);
  EXPECT_EQ(report.partitions.at(0).error, "");
  EXPECT_EQ(report.rows(), 2);
  EXPECT_EQ(delivered_rows(sink_), sorted_rows(kLater));
}

TEST_P(SinkResets, ToTheDestinationSendsWhatARestoredOneLost) {
  box_.ingest_lines("logs", "web", kOpens[0]);
  box_.ship_well(sink_);
  copy_folder(box_.out(), box_.folder / "older");
  box_.ingest_lines("logs", "web", kOpens[1]);
  box_.ship_well(sink_);
  copy_folder(box_.folder / "older", box_.out());
  box_.ingest_lines("logs", "web", kOpens[2]);
  const auto before = watermark();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(box_.ship(sink_).partitions.at(0).error_kind, "destination_behind");
    EXPECT_EQ(watermark(), before) << "nothing moves until told";
    EXPECT_EQ(delivered_rows(sink_), sorted_rows(kOpens[0]));
  }
  const PartitionReset done = reset_well({To::destination});
  EXPECT_EQ(done.rows_missed, 2);
  EXPECT_EQ(done.rows_repeated + done.rows_skipped, 0);
  EXPECT_EQ(done.rows_to_send, 4);
  EXPECT_EQ(done.note.find(fmt::format("of the rows with numbers in ({}, {}], ", *done.watermark_after, *before)), 0U)
      << done.note;
  EXPECT_EQ(box_.ship_well(sink_).rows(), 4);
  EXPECT_EQ(delivered_rows(sink_), sorted_rows(kAll));
}

TEST_P(SinkResets, ToADestinationThatIsGoneSendsAllThatTheCacheHas) {
  ingest_opens();
  box_.ship_well(sink_);
  fs::remove_all(box_.out());
  EXPECT_TRUE(box_.ship(sink_).failed());
  EXPECT_EQ(reset_well({To::destination}).watermark_after, std::nullopt);
  EXPECT_EQ(box_.ship_well(sink_).rows(), 6);
  EXPECT_EQ(delivered_rows(sink_), sorted_rows(kAll));
}

TEST_P(SinkResets, ToTheDestinationFindsADamagedWatermarksPlace) {
  ingest_opens();
  box_.ship_well(sink_);
  replace_file(box_.watermark_file(sink_, kWeb), "{\"v\":");
  EXPECT_NE(reset_well({To::destination}).note.find("written anew"), std::string::npos);
  EXPECT_EQ(box_.ship_well(sink_).rows(), 0);
  EXPECT_EQ(watermark(), numbers_.back());
}

TEST_P(SinkResets, AnAnnouncedUnitIsForgotten) {
  ingest_opens();
  ASSERT_EQ(run_in_child([&] {
              set_fault_handler([](const char* name) {
                if (std::string_view(name) == "sink.intent-written") ::_exit(0);
              });
              box_.ship(sink_);
              ::_exit(1);
            }),
            0);
  ASSERT_TRUE(load_watermark(box_.watermark_file(sink_, kWeb))->pending);
  const PartitionReset done = reset_well({To::now});
  EXPECT_TRUE(done.drops_pending);
  EXPECT_FALSE(load_watermark(box_.watermark_file(sink_, kWeb))->pending);
  EXPECT_EQ(box_.ship_well(sink_).rows(), 0);
  EXPECT_EQ(delivered_rows(sink_), Lines());
}

TEST_P(SinkResets, ADryRunAndANoChangeNothing) {
  ingest_opens();
  box_.ship_well(sink_);
  const auto before = files_below(box_.live);
  const std::string file = make_local_file_io()->read(box_.watermark_file(sink_, kWeb));
  const SinkReset plan = reset({To::start}, /*dry_run=*/true);
  EXPECT_FALSE(plan.is_done);
  EXPECT_EQ(plan.partitions.at(0).rows_repeated, 6);
  Cache cache(box_.config);
  ResetOptions options;
  options.confirm = [](const SinkReset& shown) {
    EXPECT_EQ(shown.partitions.at(0).rows_repeated, 6);
    return false;
  };
  EXPECT_FALSE(reset_sink(cache, sink_, {To::start}, options).is_done);
  EXPECT_EQ(files_below(box_.live), before);
  EXPECT_EQ(make_local_file_io()->read(box_.watermark_file(sink_, kWeb)), file);
}

TEST_P(SinkResets, IsAskedAboutAgainWhereRowsCameMeanwhile) {
  ingest_opens();
  Cache cache(box_.config);
  std::vector<int64_t> asked;
  ResetOptions options;
  options.confirm = [&](const SinkReset& shown) {
    asked.push_back(shown.partitions.at(0).rows_skipped);
    if (asked.size() == 1) ingest(cache, {make_frame("logs", "web", kLater)});
    return true;
  };
  EXPECT_TRUE(reset_sink(cache, sink_, {To::now}, options).is_done);
  EXPECT_EQ(asked, (std::vector<int64_t>{6, 8}));
}

TEST_P(SinkResets, TakesThePartitionAskedForAndTheOthersWhereOneFails) {
  box_.ingest_lines("logs", "a", {R"({"n":1})"});
  box_.ingest_lines("logs", "b", {R"({"n":2})"});
  Cache cache(box_.config);
  ResetOptions options;
  options.partition = PartitionId{"logs", "b"};
  EXPECT_EQ(reset_sink(cache, sink_, {To::now}, options).partitions.size(), 1U);
  EXPECT_EQ(box_.ship_well(sink_).rows(), 1);
  EXPECT_EQ(delivered_rows(sink_), Lines{R"({"n":1})"});
  options.partition = PartitionId{"logs", "c"};
  EXPECT_THROW(reset_sink(cache, sink_, {To::now}, options), Error);

  replace_file(box_.watermark_file(sink_, {"logs", "a"}), R"({"v":2})");  // of a later version
  const SinkReset both = reset_sink(cache, sink_, {To::start});
  EXPECT_TRUE(both.failed());
  EXPECT_EQ(both.partitions.at(0).error_kind, "unsupported");
  EXPECT_EQ(both.partitions.at(1).error, "");
  EXPECT_EQ(both.partitions.at(1).watermark_after, std::nullopt);
}

// Killed at every point by a crash or a power cut, then a run of the sink or none, and the reset again.
TEST_P(SinkResets, KilledAnywhereAndMadeAgainItIsRight) {
  prefer_memory();
  SinkBox box;
  SinkConfig sink = make_sink(GetParam(), box.out());
  sink.unit_rows_max = 1;
  ASSERT_EQ(run_in_child([&] {
              for (const Lines& lines : kOpens) box.ingest_lines("logs", "web", lines);
              std::atomic<bool> cancelled{false};
              int units = 0;
              SinkRunOptions options;
              options.cancelled = &cancelled;
              options.progress = [&](const PartitionId&, int64_t) { cancelled = ++units == 4; };
              Cache cache(box.config);
              run_sink(cache, sink, options);
            }),
            0);
  const std::string saved = box.folder / "saved";
  copy_folder(box.live, saved);
  std::vector<int64_t> numbers;
  {
    const Cache cache(box.config);
    numbers = read_sequenced(cache, kWeb).after;
  }
  // Rows 1 to 4 are sent.
  struct Case {
    ResetTarget target;
    Lines after;           // at an archive in the end
    Lines after_of_blobs;  // named by claims in the end
  };
  const Lines kept = from_to(1, 4);
  for (const Case& c : {Case{{To::now}, kept, kept}, Case{{To::start}, kept + kAll, kAll},
                        Case{{To::number, numbers[0]}, kept + from_to(2, 6), kAll},
                        Case{{To::number, numbers[4]}, kept + from_to(6, 6), kept + from_to(6, 6)},
                        Case{{To::destination}, kAll, kAll}}) {
    copy_folder(saved, box.live);
    const auto reset = [&] {
      Cache cache(box.config);
      if (reset_sink(cache, sink, c.target).failed()) fail(ErrorKind::internal, "not reset");
    };
    const auto points = fault_points_of(reset);
    ASSERT_GE(points.size(), 3U);
    const Lines least = sorted_rows(GetParam() == SinkKind::iceberg ? c.after : c.after_of_blobs);
    for (size_t point = 0; point < points.size(); ++point) {
      for (const size_t way : {0, 1, 2}) {
        if (std::getenv("FIRN_LONG") == nullptr && way != point % 3) continue;
        SCOPED_TRACE(fmt::format("to {}, {}: killed at {} ({}), way {}", static_cast<int>(c.target.to), c.target.seq,
                                 point, points[point], way));
        copy_folder(saved, box.live);
        run_killed_at(point, way == 1 ? Crash::power : Crash::process, reset);
        if (way == 2) {
          ASSERT_EQ(run_in_child([&] { box.ship(sink); }), 0);
        }
        ASSERT_EQ(run_in_child(reset), 0);
        ASSERT_EQ(run_in_child([&] { box.ship_well(sink); }), 0);
        const Lines rows = delivered_rows(sink);
        if (way != 2) {
          EXPECT_EQ(rows, least);
          continue;
        }
        // A run in between may send what was to be skipped; what was not to be repeated is there once all the same.
        EXPECT_TRUE(std::includes(rows.begin(), rows.end(), least.begin(), least.end()))
            << fmt::to_string(fmt::join(rows, " "));
        if (c.target.to == To::now || c.target.to == To::destination) {
          EXPECT_EQ(std::adjacent_find(rows.begin(), rows.end()), rows.end());
        }
      }
    }
  }
}

// Three opens, of which retention empties the one in the middle.
class SinkResetsAfterRetention : public SinkResets {
 protected:
  void make() {
    box_.declare("logs").primary_timestamp_column = "at";
    box_.config.datasets["logs"].retention.days = 30;
    box_.ingest_lines("logs", "web", kNew[0]);
    box_.ingest_lines("logs", "web", {R"({"n":3,"at":"2020-01-05T00:00:00Z"})"});
    box_.ingest_lines("logs", "web", kNew[1]);
    box_.ship_well(sink_);
    Cache cache(box_.config);
    ASSERT_EQ(apply_retention(cache, kWeb, now_ms()).rows_removed, 1);
  }
  const std::vector<Lines> kNew = {{R"({"n":1,"at":"2124-01-05T00:00:00Z"})", R"({"n":2,"at":"2124-01-05T00:00:00Z"})"},
                                   {R"({"n":4,"at":"2124-01-05T00:00:00Z"})"}};
};

TEST_P(SinkResetsAfterRetention, ToStartSendsTheRowsBeforeAnOpenThatWasEmptiedToo) {
  make();
  for (const bool is_lost : {false, true}) {
    SCOPED_TRACE(is_lost ? "then the watermark is lost" : "");
    const PartitionReset start = reset_well({To::start});
    EXPECT_EQ(start.rows_repeated, 3);
    EXPECT_EQ(start.rows_to_send, 3);
    EXPECT_TRUE(start.is_start);
    if (is_lost) lose_watermarks();
    EXPECT_EQ(box_.ship_well(sink_).rows(), 3);
    EXPECT_EQ(box_.ship_well(sink_).rows(), 0);
  }
}

TEST_P(SinkResetsAfterRetention, ToANumberSendsTheRowsAboveItOnBothSidesOfAnEmptiedOpen) {
  make();
  EXPECT_EQ(reset_well({To::number, 1}).rows_to_send, GetParam() == SinkKind::iceberg ? 2 : 3);
  EXPECT_EQ(box_.ship_well(sink_).rows(), GetParam() == SinkKind::iceberg ? 2 : 3) << "a blob ends where a unit ended";
}

TEST_P(SinkResetsAfterRetention, ToNowAndToTheDestinationStayWhereTheSinkIs) {
  make();
  for (const To to : {To::now, To::destination}) {
    const PartitionReset stays = reset_well({to});
    EXPECT_EQ(stays.watermark_after, stays.watermark_before);
    EXPECT_EQ(stays.rows_skipped + stays.rows_repeated + stays.rows_missed + stays.rows_to_send, 0);
  }
}

TEST_P(SinkResetsAfterRetention, ToADestinationThatLostRowsSaysThatThoseWhichLeftTheCacheCannotBeSent) {
  make();
  const int64_t confirmed = watermark().value();
  fs::remove_all(box_.out());
  const PartitionReset done = reset_well({To::destination});
  EXPECT_EQ(done.note, fmt::format("of the rows with numbers up to {}, which were confirmed there, the cache still has "
                                   "3; those that it no longer has (retention, purge) cannot be sent",
                                   confirmed));
  EXPECT_EQ(box_.ship_well(sink_).rows(), 3);
  EXPECT_EQ(reset_well({To::destination}).note, "") << "it has all that was confirmed";
}

TEST_P(SinkResets, ANumberBelowTheFirstIsNotTakenForTheStart) {
  ingest_opens();
  box_.ship_well(sink_);
  for (const int64_t number : {int64_t{-5}, int64_t{0}}) {
    const SinkReset refused = reset({To::number, number});
    EXPECT_EQ(refused.partitions.at(0).error_kind, "invalid_argument");
    EXPECT_NE(refused.partitions.at(0).error.find("the first number"), std::string::npos);
  }
  EXPECT_EQ(box_.ship_well(sink_).rows(), 0);
}

// Retention trusts the watermark (P8).
TEST_P(SinkResets, TheWatermarkIsLowBeforeAnythingCountsAsUnsent) {
  ingest_opens();
  box_.ship_well(sink_);
  const char* point = GetParam() == SinkKind::blob ? "sink.before-withdraw" : "sink.before-reset";
  ASSERT_EQ(run_in_child([&] {
              set_fault_handler([&](const char* name) {
                if (std::string_view(name) == point) ::_exit(0);
              });
              reset({To::start});
              ::_exit(1);
            }),
            0);
  EXPECT_EQ(watermark(), std::nullopt);
}

INSTANTIATE_TEST_SUITE_P(Destinations, SinkResetsAfterRetention, testing::Values(SinkKind::blob, SinkKind::iceberg),
                         [](const auto& test) { return test.param == SinkKind::blob ? "blob" : "iceberg"; });
INSTANTIATE_TEST_SUITE_P(Destinations, SinkResets, testing::Values(SinkKind::blob, SinkKind::iceberg),
                         [](const auto& test) { return test.param == SinkKind::blob ? "blob" : "iceberg"; });

TEST(SinkReset, ABlobCanOnlyEndWhereAUnitEndedAndItsObjectsStay) {
  SinkBox box;
  SinkConfig sink = make_sink(SinkKind::blob, box.out());
  sink.unit_rows_max = 2;
  box.ingest_lines("logs", "web", kAll);
  box.ship_well(sink);
  Cache cache(box.config);
  const std::vector<int64_t> numbers = read_sequenced(cache, kWeb).after;
  const auto objects = files_below(box.out() + "/logs");
  const SinkReset done = reset_sink(cache, sink, {To::number, numbers[2]});
  EXPECT_EQ(done.partitions.at(0).watermark_after, numbers[1]) << "the unit of rows 3 and 4 is repeated whole";
  EXPECT_EQ(done.partitions.at(0).rows_repeated, 4);
  EXPECT_EQ(files_below(box.out() + "/logs"), objects);
  EXPECT_EQ(blob_rows(box.out()), sorted_rows(from_to(1, 2)));
  EXPECT_EQ(box.ship_well(sink).rows(), 4);
  EXPECT_EQ(blob_rows(box.out()), sorted_rows(kAll));
}

TEST(SinkReset, ABlobsSkippedRowsAreAClaimWithoutAnObject) {
  SinkBox box;
  const SinkConfig sink = make_sink(SinkKind::blob, box.out());
  box.ingest_lines("logs", "web", kAll);
  Cache cache(box.config);
  const OpenRange open = open_ranges(cache.sequence().opens()).at(0);
  reset_sink(cache, sink, {To::now});
  const auto claims = claims_of(box.out());
  ASSERT_EQ(claims.size(), 1U);
  EXPECT_TRUE(claims.begin()->first.ends_with(fmt::format("{}/{}.json", open.open_id, open.since_exclusive)));
  EXPECT_EQ(claims.begin()->second,
            (Json{{"until", std::to_string(open.since_exclusive + 6)}, {"object", nullptr}, {"rows", 0}}));
  EXPECT_TRUE(files_below(box.out() + "/logs").empty());
}

class ArchiveReset : public testing::Test {
 protected:
  StreamOffsets offsets() const {
    const Cache cache(box_.config);
    return read_offsets(*archive_table(box_.out(), "logs").metadata, cache.sequence().cache_id() + "/logs/source=web");
  }
  std::shared_ptr<iceberg::TableOperations> table() const {
    return iceberg::open_filesystem_table(make_local_file_io(), box_.out() + "/hyp/logs");
  }
  // main is what it was `steps` snapshots ago.
  void roll_back(int steps) const {
    const auto operations = table();
    const auto head = operations->load();
    iceberg::TableMetadata next = *head.metadata;
    for (int i = 0; i < steps; ++i) {
      next.current_snapshot_id = next.find_snapshot(*next.current_snapshot_id)->parent_snapshot_id;
    }
    next.refs["main"].snapshot_id = *next.current_snapshot_id;
    ASSERT_EQ(operations->publish(head, next, 0).outcome, iceberg::PublishOutcome::landed);
  }

  SinkBox box_;
  SinkConfig sink_ = make_sink(SinkKind::iceberg, box_.out());
};

TEST_F(ArchiveReset, SaysWhatItSkippedForWhoReadsTheCacheBesideIt) {
  Cache cache(box_.config);
  ingest(cache, {make_frame("logs", "web", kAll)});
  const std::vector<int64_t> numbers = read_sequenced(cache, kWeb).after;
  const OpenRange open = open_ranges(cache.sequence().opens()).at(0);
  reset_sink(cache, sink_, {To::number, numbers[1]});
  EXPECT_EQ(offsets().skipped, (std::vector<SkippedRows>{{open.since_exclusive, numbers[1], open.open_id}}));
  reset_sink(cache, sink_, {To::number, numbers[3]});
  EXPECT_EQ(offsets().skipped, (std::vector<SkippedRows>{{open.since_exclusive, numbers[3], open.open_id}}))
      << "ranges that touch are one";
  run_sink(cache, sink_);
  EXPECT_EQ(offsets().skipped, (std::vector<SkippedRows>{{open.since_exclusive, numbers[3], open.open_id}}));
  reset_sink(cache, sink_, {To::number, numbers[2]});
  EXPECT_EQ(offsets().skipped, (std::vector<SkippedRows>{{open.since_exclusive, numbers[2], open.open_id}}));
  reset_sink(cache, sink_, {To::start});
  EXPECT_TRUE(offsets().skipped.empty());
}

TEST_F(ArchiveReset, AfterARollbackGoesOnFromWhatIsLeft) {
  for (const Lines& lines : kOpens) box_.ingest_lines("logs", "web", lines);
  box_.ship_well(sink_);
  roll_back(2);
  for (int i = 0; i < 2; ++i) {
    const SinkRunReport report = box_.ship(sink_);
    EXPECT_EQ(report.partitions.at(0).error_kind, "destination_behind");
    EXPECT_NE(report.partitions.at(0).error.find("4 (numbers"), std::string::npos) << report.partitions.at(0).error;
    EXPECT_EQ(delivered_rows(sink_), sorted_rows(kOpens[0])) << "nothing moves until told";
  }
  Cache cache(box_.config);
  const SinkReset done = reset_sink(cache, sink_, {To::destination});
  ASSERT_FALSE(done.failed()) << done.partitions.at(0).error;
  EXPECT_EQ(done.partitions.at(0).rows_missed, 4);
  EXPECT_EQ(box_.ship_well(sink_).rows(), 4);
  EXPECT_EQ(delivered_rows(sink_), sorted_rows(kAll));
  roll_back(1);
  EXPECT_EQ(box_.ship(sink_).partitions.at(0).error_kind, "destination_behind") << "the next rollback shows, too";
}

// Another partition goes on after a rollback, and `firn expire` takes the snapshots that would tell of it.
TEST_F(ArchiveReset, ARollbackIsNotForgottenWhenLaterCommitsAreAllThatIsKept) {
  for (const bool is_compacted : {false, true}) {
    SCOPED_TRACE(is_compacted);
    box_.ingest_lines("logs", "app", kOpens[2]);
    box_.ship_well(sink_);
    for (const Lines& lines : {kOpens[0], kOpens[1]}) box_.ingest_lines("logs", "web", lines);
    box_.ship_well(sink_);
    roll_back(1);
    if (is_compacted) {
      iceberg::compact(*table(), {});
    } else {
      for (int i = 0; i < 2; ++i) {
        box_.ingest_lines("logs", "app", kOpens[2]);
        box_.ship(sink_);
      }
    }
    iceberg::ExpireOptions expire;
    expire.older_than_ms = now_ms() + 1;
    EXPECT_FALSE(iceberg::expire_snapshots(*table(), expire).expired_snapshots.empty());
    const Lines there = delivered_rows(sink_);
    box_.ingest_lines("logs", "web", kOpens[2]);
    const SinkRunReport report = box_.ship(sink_);
    const auto web = std::find_if(report.partitions.begin(), report.partitions.end(),
                                  [](const PartitionRun& run) { return run.partition == kWeb; });
    EXPECT_EQ(web->error_kind, "destination_forgot");
    EXPECT_EQ(delivered_rows(sink_), there) << "nothing moves until told";
    {
      Cache cache(box_.config);
      ResetOptions only;
      only.partition = kWeb;
      EXPECT_EQ(reset_sink(cache, sink_, {To::destination}, only).partitions.at(0).error_kind, "destination_forgot");
      const SinkReset done = reset_sink(cache, sink_, {To::number, read_sequenced(cache, kWeb).after[1]}, only);
      ASSERT_FALSE(done.failed()) << done.partitions.at(0).error;
    }
    EXPECT_EQ(box_.ship_well(sink_).rows(), 4);
    EXPECT_EQ(delivered_rows(sink_), sorted_rows(there + kOpens[1] + kOpens[2]));
    fs::remove_all(box_.live);
  }
}

// The sink saw it before the other engine did; so it is known afterwards, too.
TEST_F(ArchiveReset, ARollbackThatTheSinkSawIsNotForgottenAfterAnotherEnginesExpiry) {
  box_.ingest_lines("logs", "app", kOpens[2]);
  box_.ship_well(sink_);
  for (const Lines& lines : {kOpens[0], kOpens[1]}) box_.ingest_lines("logs", "web", lines);
  box_.ship_well(sink_);
  roll_back(1);
  const auto web_error = [&] {
    const SinkRunReport report = box_.ship(sink_);
    const auto web = std::find_if(report.partitions.begin(), report.partitions.end(),
                                  [](const PartitionRun& run) { return run.partition == kWeb; });
    return web->error_kind;
  };
  const auto expire_elsewhere = [&] {
    iceberg::commit_metadata(*table(), [](iceberg::TableMetadata& next) {
      const iceberg::Snapshot kept = *next.current_snapshot();
      next.snapshots = {kept};
      next.snapshot_log.clear();
      return true;
    });
  };
  box_.ingest_lines("logs", "app", kOpens[2]);
  EXPECT_EQ(web_error(), "destination_behind");
  box_.ingest_lines("logs", "app", kOpens[2]);  // above what the rollback left, so that nothing else tells of it
  EXPECT_EQ(web_error(), "destination_behind");
  const Lines there = delivered_rows(sink_);
  expire_elsewhere();
  box_.ingest_lines("logs", "web", kOpens[2]);
  EXPECT_EQ(web_error(), "destination_forgot");
  EXPECT_EQ(delivered_rows(sink_), there) << "nothing moves until told";
  {
    Cache cache(box_.config);
    ResetOptions only;
    only.partition = kWeb;
    const SinkReset done = reset_sink(cache, sink_, {To::number, read_sequenced(cache, kWeb).after[1]}, only);
    ASSERT_FALSE(done.failed()) << done.partitions.at(0).error;
  }
  EXPECT_EQ(box_.ship_well(sink_).rows(), 4);
  EXPECT_EQ(delivered_rows(sink_), sorted_rows(there + kOpens[1] + kOpens[2]));
  // It is settled: a later expiry is no rollback.
  box_.ingest_lines("logs", "app", kOpens[2]);
  box_.ship_well(sink_);
  expire_elsewhere();
  EXPECT_EQ(web_error(), "");
}

// Moved forward again by who rolled it back.
TEST_F(ArchiveReset, ARollbackThatWasTakenBackIsForgotten) {
  box_.ingest_lines("logs", "web", kOpens[0]);
  box_.ship_well(sink_);
  box_.ingest_lines("logs", "web", kOpens[1]);
  box_.ship_well(sink_);
  const int64_t newest = *table()->load().metadata->current_snapshot_id;
  roll_back(1);
  EXPECT_EQ(box_.ship(sink_).partitions.at(0).error_kind, "destination_behind");
  EXPECT_TRUE(offsets().was_rolled_back);
  iceberg::commit_metadata(*table(), [&](iceberg::TableMetadata& next) {
    next.current_snapshot_id = next.refs["main"].snapshot_id = newest;
    return true;
  });
  EXPECT_EQ(box_.ship_well(sink_).rows(), 0);
  EXPECT_FALSE(offsets().was_rolled_back);
  box_.ingest_lines("logs", "web", kOpens[2]);
  EXPECT_EQ(box_.ship_well(sink_).rows(), 2);
  EXPECT_EQ(delivered_rows(sink_), sorted_rows(kAll));
}

TEST_F(ArchiveReset, AfterARollbackBehindExpiredSnapshotsAPersonHasToSayWhere) {
  box_.ingest_lines("logs", "web", kOpens[0]);
  box_.ship_well(sink_);
  iceberg::commit_metadata(*table(), [](iceberg::TableMetadata& next) {  // another program's snapshot
    iceberg::Snapshot other = *next.current_snapshot();
    other.parent_snapshot_id = other.snapshot_id;
    other.snapshot_id += 1;
    other.sequence_number = ++next.last_sequence_number;
    other.summary = {{"operation", "append"}};
    next.snapshots.push_back(other);
    next.current_snapshot_id = next.refs["main"].snapshot_id = other.snapshot_id;
    return true;
  });
  for (const size_t open : {1, 2}) box_.ingest_lines("logs", "web", kOpens[open]);
  box_.ship_well(sink_);
  roll_back(2);
  iceberg::commit_metadata(*table(), [](iceberg::TableMetadata& next) {
    const iceberg::Snapshot kept = *next.current_snapshot();
    next.snapshots = {kept};
    next.snapshot_log.clear();
    return true;
  });
  // What the run says is what `--to destination` says, so that it sends nobody there.
  EXPECT_EQ(box_.ship(sink_).partitions.at(0).error_kind, "destination_forgot");
  Cache cache(box_.config);
  const SinkReset refused = reset_sink(cache, sink_, {To::destination});
  EXPECT_EQ(refused.partitions.at(0).error_kind, "destination_forgot");
  const SinkReset done = reset_sink(cache, sink_, {To::number, read_sequenced(cache, kWeb).after[1]});
  ASSERT_FALSE(done.failed()) << done.partitions.at(0).error;
  EXPECT_EQ(box_.ship_well(sink_).rows(), 4);
  EXPECT_EQ(delivered_rows(sink_), sorted_rows(kAll));
}

}  // namespace
}  // namespace firn::hyp
