// Rows that a person wants gone are gone, wherever the cache had them (P8).
#include "hyp/maintain/purge.h"

#include <unistd.h>

#include <filesystem>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/fault_point.h"
#include "hyp/cache/files_with.h"
#include "hyp/cache/generations.h"
#include "hyp/cache/layout.h"
#include "hyp/maintain/compaction.h"
#include "hyp/maintain/retention.h"
#include "hyp/sink/sink_box.h"
#include "iceberg/rows/rows.h"
#include "support/crash.h"

namespace firn::hyp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

const PartitionId kWeb = {"logs", "web"}, kDb = {"logs", "db"};
const std::string kAnn = "ann-6d20e4";  // short enough to stand whole in a column's bounds
const std::string kWhereAnn = "who = '" + kAnn + "'";

std::string row_of(int64_t id, const std::string& who) { return fmt::format(R"({{"id":{},"who":"{}"}})", id, who); }

const Lines kWebRows = {row_of(1, "bob"), row_of(2, kAnn), row_of(3, "cid"), row_of(4, kAnn)};
const Lines kWebLater = {row_of(5, kAnn), row_of(6, "bob")};
const Lines kWebLast = {row_of(7, "dan"), row_of(8, "eve")};
const Lines kWebKept = {row_of(1, "bob"), row_of(3, "cid"), row_of(6, "bob"), row_of(7, "dan"), row_of(8, "eve")};

struct PurgeBox : SinkBox {
  PurgeBox() {
    // What crashes leave is simulated (io/unsynced.h), so memory will do.
    Cache cache(config);  // of one process: a sink may send them at once
    for (const Lines& lines : {kWebRows, kWebLater, kWebLast}) ingest(cache, {make_frame("logs", "web", lines)});
  }
  PurgeReport purge_where(const std::string& where, bool dry_run = false) const {
    Cache cache(config);
    return purge(cache, "logs", iceberg::parse_expression(where), dry_run);
  }
  // Throws what stopped any partition.
  PurgeReport purge_well(const std::string& where) const {
    PurgeReport report = purge_where(where);
    if (!report.problems.empty()) fail(ErrorKind::internal, "{}", report.problems[0]);
    return report;
  }
  Lines rows(const PartitionId& partition = kWeb) const { return cached_rows(Cache(config), partition); }
  std::vector<std::string> files_with_ann() const { return files_with(config.cache_root, kAnn); }
};

TEST(Purge, TakesMatchingRowsFromEveryFileOfTheCacheAtOnce) {
  PurgeBox box;
  box.ingest_lines("logs", "db", {row_of(9, kAnn), row_of(10, "bob")});
  box.ingest_lines("other", "web", {row_of(11, "bob")});
  const PurgeReport report = box.purge_well(kWhereAnn);
  EXPECT_EQ(report.rows, 4);
  EXPECT_EQ(report.partitions, 2);
  EXPECT_THAT(report.waiting, IsEmpty());
  EXPECT_EQ(box.rows(), sorted_rows(kWebKept));
  EXPECT_EQ(box.rows(kDb), Lines{row_of(10, "bob")});
  EXPECT_THAT(box.files_with_ann(), IsEmpty());
  EXPECT_EQ(box.purge_well(kWhereAnn).rows, 0);
}

TEST(Purge, LeavesTheRestInSequenceOrderUnderItsNumbers) {
  PurgeBox box;
  const Cache cache(box.config);
  const SequencedRows before = read_sequenced(cache, kWeb);
  box.purge_well(kWhereAnn);
  const SequencedRows after = read_sequenced(cache, kWeb);
  EXPECT_THAT(after.after,
              ElementsAre(before.after[0], before.after[2], before.after[5], before.after[6], before.after[7]));
  EXPECT_EQ(sorted_rows(after.rows), sorted_rows(kWebKept));
  // Files that say they are sorted are not sorted again by their readers.
  const auto held = cache.hold(kWeb);
  const iceberg::TableMetadata& metadata = *held->table.metadata;
  for (const auto& live : iceberg::live_files(metadata, *metadata.current_snapshot(), *held->operations->io()))
    EXPECT_EQ(live.file.sort_order_id, metadata.default_sort_order_id) << live.file.file_path;
  EXPECT_EQ(metadata.int_property(kMaxSeqProperty, 0), before.after.back());
  // What comes next comes after.
  box.ingest_lines("logs", "web", {row_of(12, "fay")});
  ReadOptions newer;
  newer.since_exclusive = before.after[5];
  EXPECT_EQ(sorted_rows(read_sequenced(cache, kWeb, newer).rows),
            sorted_rows({row_of(7, "dan"), row_of(8, "eve"), row_of(12, "fay")}));
}

TEST(Purge, AWholePartitionOfTheTableGoesWithTheFolderThatNamesIt) {
  PurgeBox box;
  iceberg::PartitionDeclaration by_who;
  by_who.column = "who";
  by_who.transform = "identity";
  box.declare("people").cache_partitioning = {by_who};
  box.ingest_lines("people", "web", kWebRows);
  Cache cache(box.config);
  EXPECT_EQ(purge(cache, "people", iceberg::parse_expression(kWhereAnn)).rows, 2);
  EXPECT_THAT(files_with(box.config.cache_root + "/datasets/people", kAnn), IsEmpty());
  EXPECT_EQ(cached_rows(cache, {"people", "web"}), sorted_rows({kWebRows[0], kWebRows[2]}));
}

TEST(Purge, AColumnThatAPartitionLacksIsNullThere) {
  PurgeBox box;
  box.ingest_lines("logs", "db", {R"({"id":1})", R"({"id":2})"});
  EXPECT_EQ(box.purge_where("who = 'bob'", true).rows, 2);
  EXPECT_EQ(box.purge_where("not (who = 'bob')", true).rows, 6);  // null is neither
  EXPECT_EQ(box.purge_where("who is null", true).rows, 2);
  EXPECT_EQ(box.purge_where("not (who is not null)", true).rows, 2);
  EXPECT_EQ(box.purge_where("who is not null", true).rows, 8);
  EXPECT_EQ(box.purge_where("who = 'bob' or id = 2", true).rows, 4);
  EXPECT_EQ(box.purge_where("not (who = 'bob' and id < 6)", true).rows, 7);
  EXPECT_EQ(box.purge_well("who is null and id = 1").rows, 1);
  EXPECT_EQ(box.rows(kDb), Lines{R"({"id":2})"});
  EXPECT_EQ(box.rows(), sorted_rows(kWebRows + kWebLater + kWebLast));
}

TEST(Purge, AColumnThatNoPartitionHasIsRefusedByItsName) {
  PurgeBox box;
  try {
    box.purge_where("whp = 'bob'");
    FAIL() << "nothing was refused";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::invalid_argument);
    EXPECT_THAT(e.what(), HasSubstr("\"whp\", did you mean \"who\""));
  }
  EXPECT_THROW(box.purge_where("_hyp_ingest_seq > 0"), Error);
  EXPECT_THROW(box.purge_where("id = 'x'"), Error);
  EXPECT_EQ(box.rows(), sorted_rows(kWebRows + kWebLater + kWebLast));
}

TEST(Purge, ADryRunCountsAndChangesNothing) {
  PurgeBox box;
  const auto files = files_below(box.config.cache_root);
  const PurgeReport report = box.purge_where(kWhereAnn, /*dry_run=*/true);
  EXPECT_EQ(report.rows, 3);
  EXPECT_EQ(report.partitions, 1);
  EXPECT_EQ(files_below(box.config.cache_root), files);
}

TEST(Purge, RowsThatADeletionVectorHidesGoToo) {
  PurgeBox box;
  {
    Cache cache(box.config);
    const FileLock lock = cache.lock(kWeb);
    const auto held = cache.hold(kWeb, /*acting=*/true);
    iceberg::RowOptions options;
    options.mode = iceberg::RowMode::merge_on_read;
    iceberg::delete_rows(*held->operations, iceberg::parse_expression("id = 2 or id = 3 or id = 8"), options);
  }
  EXPECT_EQ(box.purge_well("id = 2 or id = 4").rows, 1);
  EXPECT_EQ(box.rows(), sorted_rows({row_of(1, "bob"), row_of(5, kAnn), row_of(6, "bob"), row_of(7, "dan")}));
  // The last row of ann's is in a file of its own right, the hidden one was in another.
  EXPECT_EQ(box.purge_well(kWhereAnn).rows, 1);
  EXPECT_THAT(box.files_with_ann(), IsEmpty());
  EXPECT_EQ(box.purge_well("who = 'eve'").rows, 0);  // hidden, and nothing else of it matched
  EXPECT_THAT(files_with(box.config.cache_root, "eve"), IsEmpty());
  EXPECT_EQ(box.rows(), sorted_rows({row_of(1, "bob"), row_of(6, "bob"), row_of(7, "dan")}));
}

TEST(Purge, AReaderThatBeganBeforeItSeesItsRowsAndIsNamedUntilItEnds) {
  PurgeBox box;
  Cache cache(box.config);
  {
    SequencedReader reader(cache, kWeb, {});
    const PurgeReport report = box.purge_well(kWhereAnn);
    EXPECT_EQ(report.rows, 3);
    ASSERT_THAT(report.waiting, SizeIs(1));
    EXPECT_THAT(report.waiting[0], HasSubstr("source=web/table-1, snapshot "));
    EXPECT_THAT(report.waiting[0], HasSubstr("a reader holds it"));
    EXPECT_EQ(box.rows(), sorted_rows(kWebKept));
    int64_t rows = 0;
    while (const auto batch = reader.next()) rows += batch->rows->num_rows();
    EXPECT_EQ(rows, 8);
    // It still waits, and a reader of what has no such row is no matter.
    const SequencedReader clean(cache, kWeb, {});
    EXPECT_THAT(box.purge_well(kWhereAnn).waiting, SizeIs(1));
  }
  sweep_partition(cache, kWeb, Sweep::when_due);
  EXPECT_THAT(box.files_with_ann(), IsEmpty());
  EXPECT_EQ(box.rows(), sorted_rows(kWebKept));
}

TEST(Purge, ATagThatNamesSuchRowsIsNamed) {
  PurgeBox box;
  Cache cache(box.config);
  const auto operations = cache.hold(kWeb)->operations;
  const int64_t tagged = *operations->load().metadata->current_snapshot_id;
  iceberg::commit_metadata(*operations, [&](iceberg::TableMetadata& next) {
    next.refs["kept"] = {.snapshot_id = tagged, .is_branch = false};
    return true;
  });
  const PurgeReport report = box.purge_well(kWhereAnn);
  ASSERT_THAT(report.waiting, SizeIs(1));
  EXPECT_THAT(report.waiting[0], HasSubstr("the tag 'kept' names it"));
}

TEST(Purge, AReaderOfAnOlderGenerationIsNamedUntilItEnds) {
  PurgeBox box;
  Cache cache(box.config);
  {
    SequencedReader reader(cache, kWeb, {});
    ASSERT_TRUE(compact_partition(cache, kWeb).swapped);
    const PurgeReport report = box.purge_well(kWhereAnn);
    EXPECT_EQ(report.rows, 3);
    ASSERT_THAT(report.waiting, SizeIs(1));
    EXPECT_THAT(report.waiting[0], HasSubstr("table-1: a reader holds this older generation"));
    int64_t rows = 0;
    while (const auto batch = reader.next()) rows += batch->rows->num_rows();
    EXPECT_EQ(rows, 8);
  }
  sweep_partition(cache, kWeb, Sweep::when_due);
  EXPECT_THAT(box.files_with_ann(), IsEmpty());
  EXPECT_EQ(box.rows(), sorted_rows(kWebKept));
}

// All that upkeep does, while one reader reads on.
TEST(Purge, AReaderThatBeganBeforeRetentionAndCompactionSeesItsRowsToTheEnd) {
  PurgeBox box;
  DatasetConfig& logs = box.declare("logs");
  logs.primary_timestamp_column = "at";
  logs.retention.days = 1;
  const Lines old_rows = {fmt::format(R"({{"at":"2020-01-01T00:00:00Z","who":"{}"}})", kAnn),
                          R"({"at":"2020-01-02T00:00:00Z","who":"bob"})"};
  box.ingest_lines("logs", "db", old_rows);
  const Lines new_rows = {R"({"who":"bob"})", R"({"who":"cid"})"};  // by the time of ingest
  for (const std::string& row : new_rows) box.ingest_lines("logs", "db", {row});
  Cache cache(box.config);
  {
    SequencedReader reader(cache, kDb, {});
    EXPECT_EQ(apply_retention(cache, kDb, now_ms()).rows_removed, 2);
    sweep_partition(cache, kDb, Sweep::all);
    ASSERT_TRUE(compact_partition(cache, kDb).swapped);
    sweep_partition(cache, kDb, Sweep::all);
    EXPECT_EQ(cached_rows(cache, kDb), sorted_rows(new_rows));
    int64_t rows = 0;
    while (const auto batch = reader.next()) rows += batch->rows->num_rows();
    EXPECT_EQ(rows, 4);
  }
  sweep_partition(cache, kDb, Sweep::when_due);
  EXPECT_THAT(files_with(cache.folder(kDb), kAnn), IsEmpty());
  EXPECT_EQ(cached_rows(cache, kDb), sorted_rows(new_rows));
}

TEST(Purge, WaitsForACompactionAndTheRowsDoNotComeBackWithIt) {
  PurgeBox box;
  Cache cache(box.config);
  for (int i = 0; i < 5; ++i) {
    std::jthread compactor([&] { compact_partition(cache, kWeb); });
    box.purge_well(kWhereAnn);
    compactor.join();
    EXPECT_EQ(box.rows(), sorted_rows(kWebKept));
    sweep_partition(cache, kWeb, Sweep::all);
    EXPECT_THAT(box.files_with_ann(), IsEmpty());
  }
}

// Does `work` in a process that dies at the first pass of `point`.
void run_killed_at_name(const std::string& point, const std::function<void()>& work) {
  constexpr int kKilled = 137;
  const int status = run_in_child([&] {
    set_fault_handler([&](const char* name) {
      if (name == point) ::_exit(kKilled);
    });
    work();
  });
  ASSERT_EQ(status, kKilled) << point << " was not passed";
}

TEST(Purge, WhatADeadFlushAndADeadCompactionWroteGoesToo) {
  PurgeBox box;
  run_killed_at_name("compaction.before-swap", [&] {
    Cache cache(box.config);
    compact_partition(cache, kWeb);
  });
  EXPECT_THAT(list_generations(Cache(box.config).folder(kWeb)), ElementsAre("table-1", "table-2"));
  run_killed_at_name("flush.commit", [&] { box.ingest_lines("logs", "web", {row_of(10, kAnn)}); });
  {
    Cache cache(box.config);
    const auto spool = Spool::open(box.config.cache_root);
    EXPECT_EQ(flush(cache, *spool).rows, 1);
  }
  EXPECT_EQ(box.purge_well(kWhereAnn).rows, 4);
  EXPECT_THAT(box.files_with_ann(), IsEmpty());
  EXPECT_EQ(box.rows(), sorted_rows(kWebKept));
}

TEST(PurgeOfSinks, SaysHowManyOfTheRowsEachSinkHas) {
  PurgeBox box;
  SinkConfig first = make_sink(SinkKind::blob, box.out() + "/first");
  first.name = "first";
  SinkConfig second = first;
  second.name = "second";
  second.path = box.out() + "/second";
  box.config.sinks = {first, second};
  box.ship_well(first);
  box.ingest_lines("logs", "web", {row_of(9, kAnn)});
  EXPECT_THAT(box.purge_where(kWhereAnn, true).sent_rows, ElementsAre(Pair("first", 3)));
  const PurgeReport report = box.purge_well(kWhereAnn);
  EXPECT_EQ(report.rows, 4);
  EXPECT_THAT(report.sent_rows, ElementsAre(Pair("first", 3)));
  EXPECT_THAT(report.maybe_sent_rows, IsEmpty());
  box.ship_well(first);
  box.ship_well(second);
  EXPECT_EQ(delivered_rows(first), sorted_rows(kWebRows + kWebLater + kWebLast));
  EXPECT_EQ(delivered_rows(second), sorted_rows(kWebKept));
}

TEST(PurgeOfSinks, RowsThatARunningSinkMayStillSendAreCountedApart) {
  PurgeBox box;
  box.config.sinks = {make_sink(SinkKind::blob, box.out())};
  {
    const FileLock running = FileLock::acquire(sink_lock_path(box.config.state_dir, "out"), FileLock::Mode::exclusive);
    EXPECT_THAT(box.purge_well(kWhereAnn).maybe_sent_rows, ElementsAre(Pair("out", 3)));
  }
  EXPECT_THAT(box.purge_well("who = 'bob'").maybe_sent_rows, IsEmpty());
}

// A unit was announced and the process died, before it was sent or before that was confirmed; then some of its rows, or
// all, are purged.
class PurgeOfAnAnnouncedUnit : public testing::TestWithParam<std::tuple<SinkKind, std::string, std::string>> {};

TEST_P(PurgeOfAnAnnouncedUnit, ArrivesWithoutThemOnceAndWithoutRepeats) {
  const auto& [kind, died_at, where] = GetParam();
  PurgeBox box;
  const SinkConfig sink = make_sink(kind, box.out());
  box.config.sinks = {sink};
  const auto ship = [&] { box.ship_well(sink); };
  run_killed_at_name(died_at, ship);
  const bool has_arrived = died_at == "sink.before-watermark";
  const Lines all = kWebRows + kWebLater + kWebLast;
  const PurgeReport report = box.purge_well(where);
  EXPECT_GT(report.rows, 0);
  EXPECT_THAT(report.sent_rows, IsEmpty());
  EXPECT_THAT(report.maybe_sent_rows, ElementsAre(Pair(sink.name, report.rows)));
  const Lines kept = box.rows();
  ship();
  EXPECT_EQ(delivered_rows(sink), has_arrived ? sorted_rows(all) : kept);
  box.ingest_lines("logs", "web", {row_of(20, "new")});
  ship();
  EXPECT_EQ(delivered_rows(sink), sorted_rows((has_arrived ? all : kept) + Lines{row_of(20, "new")}));
}

INSTANTIATE_TEST_SUITE_P(Sinks, PurgeOfAnAnnouncedUnit,
                         testing::Combine(testing::Values(SinkKind::blob, SinkKind::iceberg),
                                          testing::Values("sink.intent-written", "sink.before-watermark"),
                                          testing::Values(kWhereAnn, std::string("id > 6"), std::string("id >= 0"))));

struct PurgeCrash : testing::Test {
  PurgeCrash() {
    if (fs::is_directory("/dev/shm")) ::setenv("TMPDIR", "/dev/shm", /*replace=*/0);
  }
};

TEST_F(PurgeCrash, KilledAnywhereAndRunAgainItCompletes) {
  PurgeBox box;
  ASSERT_EQ(run_in_child([&] {
              Cache cache(box.config);
              compact_partition(cache, kWeb);  // an older generation has them too
              box.ingest_lines("logs", "web", {row_of(9, kAnn), row_of(10, "fay")});
            }),
            0);
  const std::string saved = box.folder / "saved";
  copy_folder(box.live, saved);
  const Lines kept = kWebKept + Lines{row_of(10, "fay")};
  const auto work = [&] { box.purge_well(kWhereAnn); };
  const auto points = fault_points_of(work);
  ASSERT_THAT(points, ::testing::IsSupersetOf({"purge.delete", "purge.deleted", "purge.sweep", "purge.swept"}));
  for (const Crash crash : {Crash::process, Crash::power, Crash::power_later}) {
    for (size_t point = 0; point < points.size(); ++point) {
      if (crash == Crash::power_later && !leaves_undurable(points[point])) continue;
      SCOPED_TRACE(fmt::format("{} at {} ({})", to_text(crash), point, points[point]));
      copy_folder(saved, box.live);
      run_killed_at(point, crash, work);
      work();
      EXPECT_EQ(box.rows(), sorted_rows(kept));
      EXPECT_THAT(box.files_with_ann(), IsEmpty());
      if (testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace firn::hyp
