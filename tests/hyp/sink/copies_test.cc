// Lost files, restored backups and copied caches: the destination's numbers decide (P10.5, P10.6).
#include "hyp/sink/sink_box.h"

#include "base/clock.h"
#include "hyp/cache/table_opens.h"
#include "hyp/sink/offsets.h"
#include "hyp/sink/reset.h"
#include "iceberg/commit/commit.h"
#include "iceberg/metadata/changes.h"

namespace firn::hyp {
namespace {

const Lines kShared = {R"({"n":1})", R"({"n":2})", R"({"n":2})", R"({"n":3})"};
const Lines kLater = {R"({"n":10})", R"({"n":11})"};
const PartitionId kWeb = {"logs", "web"};

class SinkCopies : public testing::TestWithParam<SinkKind> {
 protected:
  SinkBox box_;
  SinkConfig sink_ = make_sink(GetParam(), box_.out());
};

TEST_P(SinkCopies, ALostWatermarkIsFoundAgainAtTheDestination) {
  sink_.unit_rows_max = 2;
  box_.ingest_lines("logs", "web", kShared);
  box_.ingest_lines("logs", "web", {R"({"n":5})"});
  box_.ship_well(sink_);
  const auto watermark = load_watermark(box_.watermark_file(sink_, kWeb));
  fs::remove_all(box_.config.state_dir);
  box_.ingest_lines("logs", "web", kLater);
  const SinkRunReport report = box_.ship_well(sink_);
  EXPECT_EQ(report.rows(), 2);
  EXPECT_GT(report.partitions.at(0).recognised_units, 0);
  EXPECT_EQ(delivered_rows(sink_), sorted_rows(kShared + Lines{R"({"n":5})"} + kLater));
  const auto found = load_watermark(box_.watermark_file(sink_, kWeb));
  EXPECT_GT(*found->seq, *watermark->seq);
  EXPECT_EQ(found->exported_row_count, 7);
}

TEST_P(SinkCopies, AnOlderWatermarkRepeatsNothing) {
  sink_.unit_rows_max = 2;
  box_.ingest_lines("logs", "web", kShared);
  SinkRunOptions options;
  std::atomic<bool> cancelled{false};
  options.cancelled = &cancelled;
  options.progress = [&](const PartitionId&, int64_t) { cancelled = true; };
  {
    Cache cache(box_.config);
    run_sink(cache, sink_, options);
  }
  const std::string path = box_.watermark_file(sink_, kWeb);
  const std::string older = make_local_file_io()->read(path);
  box_.ship_well(sink_);
  box_.ingest_lines("logs", "web", kLater);
  replace_file(path, older);  // its intent is lost with it
  sink_.unit_rows_max = 100;  // and the unit grows past what landed
  EXPECT_EQ(box_.ship_well(sink_).rows(), 2);
  EXPECT_EQ(delivered_rows(sink_), sorted_rows(kShared + kLater));
}

TEST_P(SinkCopies, ALostStateFolderOfARunningProcessIsNoCopyOfIt) {
  Cache cache(box_.config);
  ingest(cache, {make_frame("logs", "web", kShared)});
  EXPECT_EQ(run_sink(cache, sink_).rows(), 4);
  fs::remove_all(box_.config.state_dir);
  const SinkRunReport report = run_sink(cache, sink_);
  EXPECT_FALSE(report.failed()) << report.partitions.at(0).error;
  EXPECT_EQ(report.rows(), 0);
  ingest(cache, {make_frame("logs", "web", kLater)});
  EXPECT_EQ(run_sink(cache, sink_).rows(), 2);
  EXPECT_EQ(delivered_rows(sink_), sorted_rows(kShared + kLater));
}

TEST_P(SinkCopies, TwoCopiesShipSharedRowsOnceAndTheirOwnRowsEach) {
  box_.ingest_lines("logs", "web", kShared);
  const Copies copies(box_);
  SinkConfig small = sink_;
  small.unit_rows_max = 1;
  box_.ship_well(small);
  copies.turn();
  EXPECT_EQ(box_.ship_well(sink_).rows(), 0);
  for (int turn = 0; turn < 6; ++turn) {
    copies.turn();
    const Lines own(static_cast<size_t>(turn % 2 + 1), turn % 2 == 0 ? R"({"of":"a"})" : R"({"of":"b"})");
    box_.ingest_lines("logs", "web", own);
    EXPECT_EQ(box_.ship_well(sink_).rows(), static_cast<int64_t>(own.size()));
  }
  const Lines a(3, R"({"of":"a"})"), b(6, R"({"of":"b"})");
  EXPECT_EQ(delivered_rows(sink_), sorted_rows(kShared + a + b));
}

TEST_P(SinkCopies, CopiesThatCutTheirUnitsDifferentlyMeetAgain) {
  box_.ingest_lines("logs", "web", kShared);
  const Copies copies(box_);
  SinkConfig two = sink_, three = sink_;
  two.unit_rows_max = 2;
  three.unit_rows_max = 3;
  std::atomic<bool> cancelled{false};
  SinkRunOptions one_unit;
  one_unit.cancelled = &cancelled;
  one_unit.progress = [&](const PartitionId&, int64_t) { cancelled = true; };
  {
    Cache cache(box_.config);
    EXPECT_EQ(run_sink(cache, two, one_unit).rows(), 2);
  }
  copies.turn();
  EXPECT_EQ(box_.ship_well(three).rows(), 2) << "the rest";
  copies.turn();
  EXPECT_EQ(box_.ship_well(two).rows(), 0);
  EXPECT_EQ(delivered_rows(sink_), sorted_rows(kShared));
}

TEST_P(SinkCopies, ACacheRestoredFromAnOlderBackupShipsItsNewRowsOnly) {
  box_.ingest_lines("logs", "web", kShared);
  const std::string backup = box_.folder / "backup";
  for (const bool with_state : {false, true}) {
    SCOPED_TRACE(with_state ? "with its state" : "without its state");
    SinkBox box;
    SinkConfig sink = sink_;
    sink.path = box.out();
    box.ingest_lines("logs", "web", kShared);
    box.ship_well(sink);
    copy_folder(box.live, backup);
    box.ingest_lines("logs", "web", {R"({"lost":1})", R"({"lost":2})"});
    box.ship_well(sink);
    copy_folder(backup + "/cache", box.config.cache_root);
    if (with_state) copy_folder(backup + "/state", box.config.state_dir);
    box.ingest_lines("logs", "web", kLater);
    EXPECT_EQ(box.ship_well(sink).rows(), 2);
    EXPECT_EQ(delivered_rows(sink), sorted_rows(kShared + Lines{R"({"lost":1})", R"({"lost":2})"} + kLater));
  }
}

TEST_P(SinkCopies, ANewCacheUnderTheOldStateShipsAllItsRows) {
  box_.ingest_lines("logs", "web", kShared);
  box_.ship_well(sink_);
  fs::remove_all(box_.config.cache_root);
  box_.ingest_lines("logs", "web", kLater);
  EXPECT_EQ(box_.ship_well(sink_).rows(), 2);
  EXPECT_EQ(delivered_rows(sink_), sorted_rows(kShared + kLater));
}

TEST_P(SinkCopies, ADestinationThatLostConfirmedRowsStopsTheSink) {
  box_.ingest_lines("logs", "web", kShared);
  box_.ship_well(sink_);
  const std::string older = box_.folder / "older";
  copy_folder(box_.out(), older);
  Cache cache(box_.config);
  ingest(cache, {make_frame("logs", "web", kLater)});
  EXPECT_EQ(run_sink(cache, sink_).rows(), 2);
  copy_folder(older, box_.out());  // restored from a backup
  ingest(cache, {make_frame("logs", "web", {R"({"n":20})"})});
  const SinkRunReport report = run_sink(cache, sink_);
  EXPECT_EQ(report.partitions.at(0).error_kind, "destination_behind");
  EXPECT_NE(report.partitions.at(0).error.find("another path"), std::string::npos) << report.partitions.at(0).error;
  EXPECT_NE(report.partitions.at(0).error.find("hyp sink reset --sink out --partition logs/web --to destination"),
            std::string::npos)
      << report.partitions.at(0).error;
  EXPECT_EQ(delivered_rows(sink_), sorted_rows(kShared));

  SinkConfig anew = sink_;
  anew.name = "anew";
  anew.path = box_.live + "/anew";
  EXPECT_EQ(run_sink(cache, anew).rows(), 7);
  EXPECT_EQ(delivered_rows(anew), sorted_rows(kShared + kLater + Lines{R"({"n":20})"}));
}

TEST_P(SinkCopies, ADestinationThatWasRemovedStopsTheSinkWhoeverCapturesNext) {
  box_.ingest_lines("logs", "web", kShared);
  box_.ship_well(sink_);
  fs::remove_all(box_.out());
  const auto behind = [&] {
    const SinkRunReport report = box_.ship(sink_);
    EXPECT_EQ(report.partitions.at(0).error_kind, "destination_behind");
    return report.partitions.at(0).error;
  };
  EXPECT_NE(behind().find("4 (numbers 1 to 4)"), std::string::npos) << "nothing is new, and it is told all the same";
  box_.ingest_lines("logs", "web", kLater);  // by another process, in an open of its own, which begins anew there
  EXPECT_NE(behind().find("4 (numbers 1 to 4), and 2 (numbers"), std::string::npos) << behind();
  EXPECT_EQ(delivered_rows(sink_), Lines());
  Cache cache(box_.config);
  EXPECT_NE(sink_status(cache, sink_).at(0).last_error, "");

  SinkConfig anew = sink_;
  anew.name = "anew";
  EXPECT_EQ(run_sink(cache, anew).rows(), 6);
  EXPECT_EQ(delivered_rows(anew), sorted_rows(kShared + kLater));
}

TEST_P(SinkCopies, ADestinationRestoredFromAnOlderCopyStopsTheSinkWhoeverCapturesNext) {
  box_.ingest_lines("logs", "web", kShared);
  box_.ship_well(sink_);
  copy_folder(box_.out(), box_.folder / "older");
  box_.ingest_lines("logs", "web", kLater);
  box_.ship_well(sink_);
  copy_folder(box_.folder / "older", box_.out());
  box_.ingest_lines("logs", "web", {R"({"n":20})"});
  EXPECT_EQ(box_.ship(sink_).partitions.at(0).error_kind, "destination_behind");
  EXPECT_EQ(delivered_rows(sink_), sorted_rows(kShared));
}

TEST_P(SinkCopies, ALostWatermarkIsFoundAgainAfterMoreOpensThanADestinationKeeps) {
  if (GetParam() == SinkKind::blob) GTEST_SKIP() << "claims are kept of all opens";
  Lines all;
  for (int i = 0; i < 70; ++i) {
    all.push_back(fmt::format(R"({{"n":{}}})", i));
    box_.ingest_lines("logs", "web", {all.back()});
  }
  EXPECT_EQ(box_.ship_well(sink_).rows(), 70);
  fs::remove_all(box_.config.state_dir);
  all.push_back(R"({"n":70})");
  box_.ingest_lines("logs", "web", {all.back()});
  EXPECT_EQ(box_.ship_well(sink_).rows(), 1);
  EXPECT_EQ(delivered_rows(sink_), sorted_rows(all));
  EXPECT_EQ(load_watermark(box_.watermark_file(sink_, kWeb))->exported_row_count, 71);
}

TEST_P(SinkCopies, RowsWithoutAnyColumnWaitForOneInsteadOfBeingLost) {
  const Lines empty = {"{}", R"({"error":null})"};
  box_.ingest_lines("logs", "web", empty);
  const SinkRunReport waiting = box_.ship_well(sink_);
  EXPECT_EQ(waiting.units(), 0);
  EXPECT_NE(waiting.partitions.at(0).note.find("2 rows wait"), std::string::npos);
  Cache cache(box_.config);
  EXPECT_EQ(sink_status(cache, sink_).at(0).rows_behind, 2);
  box_.ingest_lines("logs", "web", {R"({"error":"x"})"});
  EXPECT_EQ(box_.ship_well(sink_).rows(), 3);
  EXPECT_EQ(delivered_rows(sink_), sorted_rows(Lines{"{}", "{}", R"({"error":"x"})"}));
}

TEST_P(SinkCopies, NumbersOfOurOwnOpenThatWeDidNotSendStopTheSink) {
  Cache cache(box_.config);
  ingest(cache, {make_frame("logs", "web", kShared)});
  {
    Cache twin(box_.config);  // stands for a copy of this running process, which has the open in its memory
    ASSERT_EQ(run_sink(twin, sink_).rows(), 4);
  }
  // This process sent them; so to another place, where it did not.
  SinkConfig elsewhere = sink_;
  elsewhere.path = box_.live + "/moved";
  copy_folder(box_.out(), elsewhere.path);
  fs::remove_all(box_.config.state_dir);
  const SinkRunReport report = run_sink(cache, elsewhere);
  EXPECT_EQ(report.partitions.at(0).error_kind, "already_exists");
  EXPECT_NE(report.partitions.at(0).error.find(cache.sequence().open_id()), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Destinations, SinkCopies, testing::Values(SinkKind::blob, SinkKind::iceberg),
                         [](const auto& test) { return test.param == SinkKind::blob ? "blob" : "iceberg"; });

TEST(SinkCopies, AMissingClaimBelowOthersStopsASinkThatLostItsWatermark) {
  SinkBox box;
  SinkConfig sink = make_sink(SinkKind::blob, box.out());
  sink.unit_rows_max = 1;
  box.ingest_lines("logs", "web", kShared);
  box.ship_well(sink);
  for (const auto& [path, claim] : claims_of(box.out())) {
    if (path.ends_with("/1.json")) fs::remove(path);
  }
  fs::remove_all(box.config.state_dir);
  sink.unit_rows_max = 100;
  const SinkRunReport report = box.ship(sink);
  EXPECT_EQ(report.partitions.at(0).error_kind, "corrupt");
  EXPECT_NE(report.partitions.at(0).error.find("a claim from 2 on"), std::string::npos)
      << report.partitions.at(0).error;
}

// A table repeats 64 opens. One that was dropped and that the sequence file lost must not leave its numbers to the one
// before it, whose last number at a destination says nothing about them (P5.1, P10.5).
TEST(LostSequenceFile, GivesNoNumberToAnotherOpen) {
  SinkBox box;
  box.ingest_lines("quiet", "web", kLater);
  const std::string file = box.config.cache_root + "/_hyp_ingest_seq.json";
  const std::string older = make_local_file_io()->read(file);
  for (int n = 0; n < 66; ++n) box.ingest_lines("logs", "web", {fmt::format(R"({{"n":{}}})", n)});
  using Row = std::pair<std::string, int64_t>;
  const auto issuers = [&] {
    Cache cache(box.config);
    std::map<Row, std::string> found;
    for (const PartitionId& partition : {PartitionId{"quiet", "web"}, kWeb}) {
      const std::vector<OpenRange> opens = partition_opens(cache, partition);
      for (const int64_t seq : read_sequenced(cache, partition).after) {
        for (const OpenRange& open : opens) {
          if (open.since_exclusive < seq && seq <= open.until) found[{partition.dataset, seq}] = open.open_id;
        }
      }
    }
    return found;
  };
  const std::map<Row, std::string> before = issuers();
  ASSERT_EQ(before.size(), 68u);
  for (const bool is_older : {false, true}) {
    SCOPED_TRACE(is_older);
    is_older ? replace_file(file, older) : static_cast<void>(fs::remove(file));
    const std::map<Row, std::string> after = issuers();
    EXPECT_EQ(after.size(), 66u) << "all but the rows of the two opens that nobody lists";
    for (const auto& [row, open] : after) EXPECT_EQ(open, before.at(row)) << row.first << " " << row.second;
  }
}

// The other copy's opens have higher numbers than the one of which rows are gone.
TEST(SinkCopies, ACopysOpensAreNoEvidenceThatRowsAreStillInAnArchive) {
  SinkBox box;
  const SinkConfig sink = make_sink(SinkKind::iceberg, box.out());
  box.ingest_lines("logs", "web", kShared);
  box.ship_well(sink);
  const Copies copies(box);
  copies.turn();
  for (int n = 20; n < 23; ++n) box.ingest_lines("logs", "web", {fmt::format(R"({{"n":{}}})", n)});
  box.ship_well(sink);
  const Lines before = delivered_rows(sink);
  copies.turn();
  box.ingest_lines("logs", "web", kLater);
  box.ship_well(sink);
  const auto operations = iceberg::open_filesystem_table(make_local_file_io(), box.out() + "/hyp/logs");
  iceberg::commit_metadata(*operations, [](iceberg::TableMetadata& next) {
    return iceberg::rollback_to_snapshot(next, *next.current_snapshot()->parent_snapshot_id, now_ms());
  });
  EXPECT_EQ(box.ship(sink).partitions.at(0).error_kind, "destination_behind");
  {
    Cache cache(box.config);
    const SinkReset done = reset_sink(cache, sink, {ResetTarget::To::destination});
    ASSERT_FALSE(done.failed()) << done.partitions.at(0).error;
    EXPECT_EQ(done.partitions.at(0).rows_missed, static_cast<int64_t>(kLater.size()));
  }
  box.ship_well(sink);
  EXPECT_EQ(delivered_rows(sink), sorted_rows(before + kLater));
}

TEST(SinkCopies, AnArchiveRolledBackStopsTheSink) {
  SinkBox box;
  const SinkConfig sink = make_sink(SinkKind::iceberg, box.out());
  box.ingest_lines("logs", "web", kShared);
  box.ship_well(sink);
  box.ingest_lines("logs", "web", kLater);
  box.ship_well(sink);
  const auto io = make_local_file_io();
  const auto operations = iceberg::open_filesystem_table(io, box.out() + "/hyp/logs");
  const auto head = operations->load();
  iceberg::TableMetadata next = *head.metadata;
  next.current_snapshot_id = head.metadata->current_snapshot()->parent_snapshot_id;
  next.refs["main"].snapshot_id = *next.current_snapshot_id;
  ASSERT_EQ(operations->publish(head, next, 0).outcome, iceberg::PublishOutcome::landed);

  box.ingest_lines("logs", "web", {R"({"n":20})"});
  const SinkRunReport report = box.ship(sink);
  EXPECT_EQ(report.partitions.at(0).error_kind, "destination_behind");
  EXPECT_EQ(delivered_rows(sink), sorted_rows(kShared));
}

}  // namespace
}  // namespace firn::hyp
