// Runs that replace partitions (orca-tables.md, "Replacing partitions", "replace_partitions"; protocols P14.1).
#include "iceberg/write/delete_writer.h"
#include "orca/tables/world.h"
#include "support/captured_log.h"

namespace firn::orca {
namespace {

using iceberg::DataFile;
using ::testing::AllOf;
using ::testing::HasSubstr;

class Replace : public ::testing::Test {
 protected:
  Replace() {
    for (StepNames* names : {&a_, &b_, &c_}) names->datasets = {.reads = {}, .writes = {}, .replaces = {"nyc.events"}};
    b_.run = "run-b";
    b_.number = 2;
    c_.run = "run-c";
    c_.number = 3;
  }
  StepNames of(const StepNames& names, const std::string& step, const std::string& partition = "") {
    StepNames other = names;
    other.step = step;
    other.partition = partition;
    return other;
  }
  int64_t load(const StepNames& names, const std::string& day, const Ids& ids, int64_t attempt = 1) {
    Attempt step = world_.attempt(names, attempt);
    Table table = load_dataset("nyc.events");
    return append(step, table, day_rows(day, ids));
  }
  // As another engine compacts all files of a day.
  int64_t compact_day(const std::string& day) {
    const Table table = load_dataset("nyc.events");
    iceberg::SnapshotChange change;
    change.operation = "replace";
    for (const auto& file : live(table)) {
      if (std::get<std::string>(file.file.partition.at(0)) == day) change.removed.push_back(file.file);
    }
    change.added = write_files(table, day_rows(day, ids(table, day))).files;
    return iceberg::commit_snapshot(*table.operations(), change).snapshot_id;
  }
  void update_spec(const iceberg::SpecChange& update) {
    iceberg::commit_metadata(*events_.operations(),
                             [&](iceberg::TableMetadata& next) { return iceberg::update_spec(next, update); });
    events_.refresh();
  }

  World world_;
  StepNames a_, b_, c_;
  Table events_ = (set_clock_ms(100), world_.make_table());  // tests of expiry move the clock
};

TEST_F(Replace, ANewRunOfAKeyReplacesWhatEarlierRunsLeft) {
  load(a_, "d1", {1, 2});
  load(a_ = of(a_, "other"), "d2", {3});
  const int64_t id = load(b_, "d1", {4});
  EXPECT_EQ(ids(events_, "d1"), Ids{4});
  EXPECT_EQ(ids(events_, "d2"), Ids{3});  // not a partition of its rows
  EXPECT_EQ(snapshot(events_, id).operation(), "overwrite");
  EXPECT_EQ(summary(events_, id).at("orca.replaced-files"), "1");
  EXPECT_EQ(summary(events_, id).at("orca.replaced-records"), "2");
}

TEST_F(Replace, WithoutReplacesANewRunAddsItsRowsASecondTime) {
  for (StepNames* names : {&a_, &b_}) names->datasets = {.reads = {}, .writes = {"nyc.events"}, .replaces = {}};
  load(a_, "d1", {1});
  load(b_, "d1", {1});
  EXPECT_EQ(ids(events_), (Ids{1, 1}));
}

TEST_F(Replace, TheFirstCommitReplacesAndLaterOnesAppend) {
  load(a_, "d1", {1});
  Attempt step = world_.attempt(b_);
  append(step, events_, day_rows("d1", {2}));
  const int64_t second = append(step, events_, day_rows("d1", {3}));
  EXPECT_EQ(ids(events_), (Ids{2, 3}));
  EXPECT_EQ(snapshot(events_, second).operation(), "append");
  EXPECT_EQ(summary(events_, second).at("orca.replaced-files"), "0");
  EXPECT_EQ(summary(events_, second).at("orca.replaced-records"), "0");
}

TEST_F(Replace, FilesOfTheRunFromAnyOfItsStepsAndAttemptsAreNeverRemoved) {
  load(a_, "d1", {1});
  load(of(b_, "one"), "d1", {2});
  load(of(b_, "two", "p"), "d1", {3});
  load(of(b_, "two", "q"), "d1", {4}, 2);
  EXPECT_EQ(ids(events_), (Ids{2, 3, 4}));
}

TEST_F(Replace, ARetryRecognisesItsCommitsSoNothingIsOverwrittenTwice) {
  load(a_, "d1", {1});
  const int64_t id = load(b_, "d1", {2});
  EXPECT_EQ(load(b_, "d1", {2}, 2), id);
  EXPECT_EQ(ids(events_), Ids{2});
  EXPECT_EQ(num_snapshots(events_), 2u);
  Attempt third = world_.attempt(b_, 3);
  EXPECT_EQ(append_files(third, events_, {}), id);
}

TEST_F(Replace, AppendFilesToSuchADatasetReplacesToo) {
  load(a_, "d1", {1});
  Attempt step = world_.attempt(b_);
  append_files(step, events_, write_files(events_, day_rows("d1", {2})));
  EXPECT_EQ(ids(events_), Ids{2});
}

TEST_F(Replace, TheCallsDoTheSameForOneCallToAnyTable) {
  StepNames writer = b_;
  writer.datasets = {.reads = {}, .writes = {"nyc.events"}, .replaces = {}};
  load(a_, "d1", {1});
  load(of(a_, "x"), "d2", {2});
  Attempt step = world_.attempt(writer);
  replace_partitions(step, events_, day_rows("d1", {3}));
  replace_partition_files(step, events_, write_files(events_, day_rows("d2", {4})));
  EXPECT_EQ(ids(events_), (Ids{3, 4}));

  iceberg::create_filesystem_table(
      world_.store, iceberg::new_table_metadata("mem://elsewhere/t", event_schema(), by_day(), {}, {}, now_ms()));
  Table outside = load_table("mem://elsewhere/t");
  World::append_by_other(outside, day_rows("d1", {1}));
  replace_partitions(step, outside, day_rows("d1", {2}));
  EXPECT_EQ(ids(outside), Ids{2});
}

TEST_F(Replace, NoRowsReplaceNothing) {
  load(a_, "d1", {1});
  Attempt step = world_.attempt(b_);
  const int64_t id = append(step, events_, {});
  EXPECT_EQ(snapshot(events_, id).operation(), "append");
  EXPECT_EQ(ids(events_), Ids{1});
}

TEST_F(Replace, AnUnpartitionedTableIsOnePartition) {
  Table flat = world_.make_table("nyc.flat", {});
  for (StepNames* names : {&a_, &b_}) names->datasets.replaces = {"nyc.flat"};
  Attempt first = world_.attempt(a_);
  append(first, flat, day_rows("d1", {1}));
  append(first, flat, day_rows("d2", {2}));
  EXPECT_EQ(ids(flat), (Ids{1, 2}));
  Attempt second = world_.attempt(b_);
  append(second, flat, day_rows("d3", {3}));
  EXPECT_EQ(ids(flat), Ids{3});
}

TEST_F(Replace, FilesOfAnOlderSpecAreLeftAlone) {
  load(a_, "d1", {1});
  update_spec({.remove = {}, .rename = {}, .add = {{"id", "bucket[2]"}}});
  load(b_, "d1", {1});
  EXPECT_EQ(ids(events_), (Ids{1, 1}));  // the older spec's file stays
  load(c_, "d1", {1});
  EXPECT_EQ(ids(events_), (Ids{1, 1}));  // the one of the current spec went
}

TEST_F(Replace, FilesOfAnOlderSpecThatMayHoldTheSameRowsAreWarnedOf) {
  load(a_, "d1", {1, 2});
  load(of(a_, "other"), "d2", {3});
  update_spec({.remove = {}, .rename = {}, .add = {{"id", "bucket[2]"}}});
  {
    const CapturedLog log;
    load(b_, "d1", {1});
    EXPECT_THAT(log.text(), AllOf(HasSubstr("nyc.events"), HasSubstr("1 files with 2 rows of spec 0"),
                                  HasSubstr("firn compact"), HasSubstr("--all")));
  }
  const CapturedLog log;
  load(of(b_, "other"), "d3", {4});
  load(b_, "d1", {1}, 2);
  EXPECT_EQ(log.text(), "") << "no older file has rows of d3, and the retry replaced nothing";
}

TEST_F(Replace, FilesOfAnOlderSpecRewrittenIntoTheCurrentOneAreReplaced) {
  load(a_, "d1", {1});
  load(of(a_, "other"), "d2", {3});
  update_spec({.remove = {}, .rename = {}, .add = {{"id", "bucket[2]"}}});
  load(b_, "d1", {1});
  EXPECT_EQ(ids(events_), (Ids{1, 1, 3}));
  iceberg::compact(*events_.operations(), {.rewrite_all = true});
  const CapturedLog log;
  load(c_, "d1", {1});
  EXPECT_EQ(ids(events_), (Ids{1, 3}));
  EXPECT_EQ(log.text(), "");
}

TEST_F(Replace, ATableThatHasNoPartitionsAnyMoreIsReplacedWhole) {
  load(a_, "d1", {1});
  load(of(a_, "other"), "d2", {2});
  load(of(b_, "one"), "d3", {3});
  update_spec({.remove = {"day"}, .rename = {}, .add = {}});
  Attempt nothing = world_.attempt(of(b_, "nothing"));
  append(nothing, events_, {});
  EXPECT_EQ(ids(events_), (Ids{1, 2, 3})) << "no rows replace nothing";
  const CapturedLog log;
  const int64_t id = load(of(b_, "two"), "d1", {4});
  EXPECT_EQ(ids(events_), (Ids{3, 4})) << "the run's own file of the older spec stays";
  EXPECT_EQ(summary(events_, id).at("orca.replaced-files"), "2");
  load(c_, "d1", {5});
  EXPECT_EQ(ids(events_), Ids{5});
  EXPECT_EQ(log.text(), "");
}

TEST_F(Replace, OfATableThatHasNoPartitionsAnyMoreALaterRunsRowsStay) {  // P14.1
  load(b_, "d1", {1});
  update_spec({.remove = {"day"}, .rename = {}, .add = {}});
  EXPECT_REFUSED(load(a_, "d2", {2}), ErrorKind::commit_conflict, HasSubstr("later run"));
  EXPECT_EQ(ids(events_), Ids{1});
}

TEST_F(Replace, EntriesOfAnotherSpecThanTheTablesAreRefused) {
  const DataFiles files = write_files(events_, day_rows("d1", {1}));
  update_spec({.remove = {"day"}, .rename = {}, .add = {}});
  Attempt step = world_.attempt(b_);
  EXPECT_REFUSED(append_files(step, events_, files), ErrorKind::partition_spec_drift, HasSubstr("spec"));
}

TEST_F(Replace, DeleteFilesOfTheReplacedPartitionGoToo) {
  for (const char* version : {"2", "3"}) {
    SCOPED_TRACE(version);
    const std::string dataset = std::string("nyc.v") + version;
    Table table = world_.make_table(dataset, by_day(), {{"format-version", version}});
    World::append_by_other(table, batches_of(R"([{"id": 1, "day": "d1"}, {"id": 2, "day": "d1"}])"));
    World::append_by_other(table, batches_of(R"([{"id": 1, "day": "d2"}, {"id": 3, "day": "d2"}])"));
    table.refresh();
    iceberg::RowOptions options;
    options.mode = iceberg::RowMode::merge_on_read;  // position deletes, vectors in v3
    iceberg::delete_rows(*table.operations(), iceberg::parse_expression("id = 1"), options);
    iceberg::AppendWriter writer(table.io(), table.metadata(), {.equality_ids = {1}});
    writer.write(batches_of(R"([{"id": 9, "day": "d1"}, {"id": 9, "day": "d2"}])",
                            iceberg::equality_delete_schema(table.metadata(), {1}))
                     .front());
    iceberg::SnapshotChange change;
    change.operation = "delete";
    change.added = writer.finish();
    iceberg::commit_snapshot(*table.operations(), change);
    ASSERT_EQ(live(table).size(), 6u);  // of each day: data, positions, equality

    StepNames names = b_;
    names.datasets.replaces = {dataset};
    names.step = dataset;
    Attempt step = world_.attempt(names);
    const int64_t id = append(step, table, day_rows("d1", {5}));
    EXPECT_EQ(ids(table, "d1"), Ids{5});
    EXPECT_EQ(ids(table, "d2"), Ids{3});
    EXPECT_EQ(live(table).size(), 4u);
    EXPECT_EQ(summary(table, id).at("orca.replaced-files"), "1");  // data files
    EXPECT_EQ(summary(table, id).at("orca.replaced-records"), "2");
  }
}

TEST_F(Replace, IsPlannedAgainOnWhatAnotherWriterCommittedFirst) {
  load(a_, "d1", {1});
  bool done = false;
  world_.store->before_put([&](const std::string& path) {
    if (done || !path.ends_with("v3.metadata.json")) return;
    done = true;
    World::append_by_other(events_, day_rows("d1", {2}));  // before the run's first commit: no concurrent writer
  });
  const int64_t id = load(b_, "d1", {3});
  EXPECT_TRUE(done);
  EXPECT_EQ(ids(events_), Ids{3});
  EXPECT_EQ(summary(events_, id).at("orca.replaced-files"), "2");
}

TEST_F(Replace, AnotherWritersFileAfterTheRunsFirstCommitIsRefused) {
  load(a_, "d1", {1});
  load(of(b_, "one"), "d1", {2});
  const int64_t other = World::append_by_other(events_, day_rows("d2", {3}));
  EXPECT_REFUSED(load(of(b_, "two"), "d2", {4}), ErrorKind::commit_conflict, HasSubstr("two writers"),
                 HasSubstr(std::to_string(other)), HasSubstr("nyc.events"));
  EXPECT_EQ(ids(events_), (Ids{2, 3}));
  EXPECT_EQ(num_unnamed_files(events_), 0u);
  load(of(b_, "three"), "d3", {5});  // other partitions are free
  load(c_, "d2", {6});               // once the other has finished, a rerun replaces it
  EXPECT_EQ(ids(events_), (Ids{2, 5, 6}));
}

TEST_F(Replace, ADeleteByAnotherWriterAfterTheRunsFirstCommitIsRefused) {
  load(of(b_, "one"), "d1", {1, 2});
  iceberg::RowOptions options;
  options.mode = iceberg::RowMode::merge_on_read;
  iceberg::delete_rows(*events_.operations(), iceberg::parse_expression("id = 1"), options);
  EXPECT_REFUSED(load(of(b_, "two"), "d1", {3}), ErrorKind::commit_conflict, HasSubstr("two writers"));
  EXPECT_EQ(ids(events_), Ids{2});
}

TEST_F(Replace, AnEarlierRunNeverRemovesALaterRunsFiles) {  // P14.1
  load(b_, "d1", {1});
  EXPECT_REFUSED(load(a_, "d1", {2}), ErrorKind::commit_conflict, HasSubstr("run-b"), HasSubstr("number 2"),
                 HasSubstr("later run"));
  EXPECT_EQ(ids(events_), Ids{1});
  load(of(a_, "other"), "d2", {3});  // a partition of its own
}

// A lost state, or another folder's, numbers runs from 1 again.
TEST_F(Replace, ARunWhoseNumberAnotherStateGaveIsToldSo) {
  set_clock_ms(1'000);
  load(b_, "d1", {1});
  set_clock_ms(10'000);
  world_.run_started_ms["run-a"] = 9'000;
  EXPECT_REFUSED(load(a_, "d1", {2}), ErrorKind::commit_conflict, HasSubstr("run-b"), HasSubstr("ORCA_STATE"),
                 HasSubstr("another name"));
  EXPECT_EQ(ids(events_), Ids{1});
  a_.pipeline = "nyc2";
  load(a_, "d1", {2});
  EXPECT_EQ(ids(events_), Ids{2});
}

TEST_F(Replace, RunsOfOtherPipelinesAreNeitherEarlierNorLater) {
  StepNames other = c_;
  other.pipeline = "sfo";
  load(other, "d1", {1});
  load(a_, "d1", {2});
  EXPECT_EQ(ids(events_), Ids{2});
}

TEST_F(Replace, TwoRunsOverTheSameDaysLeaveOneRunsRowsADay) {
  load(of(a_, "load", "d1"), "d1", {11});
  load(of(b_, "load", "d1"), "d1", {21});  // b began to replace
  load(of(b_, "load", "d2"), "d2", {22});
  EXPECT_REFUSED(load(of(a_, "load", "d2"), "d2", {12}), ErrorKind::commit_conflict, HasSubstr("run-b"));
  load(of(a_, "load", "d3"), "d3", {13});
  EXPECT_REFUSED(load(of(b_, "load", "d3"), "d3", {23}), ErrorKind::commit_conflict, HasSubstr("run-a"));
  EXPECT_EQ(ids(events_), (Ids{13, 21, 22}));
}

// --- rewrites (compactions) by others

TEST_F(Replace, ARewriteOfTheRunsOwnFilesIsToldApart) {  // P14.1
  load(of(b_, "one"), "d1", {1});
  load(of(b_, "one2"), "d1", {2});
  compact_day("d1");
  EXPECT_REFUSED(load(of(b_, "two"), "d1", {3}), ErrorKind::commit_conflict, HasSubstr("rewrote (compacted)"),
                 HasSubstr("run-b"), HasSubstr("new run"));
  EXPECT_EQ(ids(events_), (Ids{1, 2}));
  load(c_, "d1", {4});
  EXPECT_EQ(ids(events_), Ids{4});
}

TEST_F(Replace, ALaterRunsRowsAreKnownThroughARewrite) {
  load(b_, "d1", {1});
  compact_day("d1");
  compact_day("d1");
  EXPECT_REFUSED(load(a_, "d1", {2}), ErrorKind::commit_conflict, HasSubstr("run-b"), HasSubstr("later run"));
  EXPECT_EQ(ids(events_), Ids{1});
}

TEST_F(Replace, ARewriteOfAnEarlierRunsFilesIsReplaced) {
  load(a_, "d1", {1});
  load(of(c_, "x"), "d2", {9});  // a later run elsewhere does not matter
  compact_day("d1");
  load(b_, "d1", {2});
  EXPECT_EQ(ids(events_), (Ids{2, 9}));
}

TEST_F(Replace, ARewriteByAStepOfTheSameRunKeepsWhatIsItsOwn) {
  load(of(b_, "one"), "d1", {1});
  load(of(b_, "one2"), "d1", {2});
  const auto compact = [&](const StepNames& names) {
    Attempt step = world_.attempt(names);
    Table table = load_dataset("nyc.events");
    FileChanges changes;
    for (const auto& file : live(table)) changes.removed.push_back(file.file);
    changes.added = write_files(table, day_rows("d1", ids(table))).files;
    commit(step, table, "replace", changes);
  };
  compact(of(b_, "compact"));
  load(of(b_, "two"), "d1", {3});
  EXPECT_EQ(ids(events_), (Ids{1, 2, 3}));
  compact(of(c_, "compact"));  // run c rewrites run b's rows, and then would replace them
  EXPECT_REFUSED(load(of(c_, "load"), "d1", {4}), ErrorKind::commit_conflict, HasSubstr("neither stay nor go"));
}

// --- snapshots that have expired

TEST_F(Replace, FilesFromBeforeTheRunAreReplacedThoughTheirSnapshotsExpired) {
  set_clock_ms(1'000);
  const int64_t old = load(a_, "d1", {1});
  set_clock_ms(2'000);
  load(of(a_, "other"), "d2", {2});
  forget_snapshots(events_, {old});
  set_clock_ms(10'000);
  world_.run_started_ms["run-b"] = 9'000;
  load(b_, "d1", {3});
  EXPECT_EQ(ids(events_), (Ids{2, 3}));
}

TEST_F(Replace, FilesSinceTheRunBeganWhoseSnapshotsExpiredAreNotRemoved) {
  set_clock_ms(1'000);
  World::append_by_other(events_, day_rows("d0", {0}));
  set_clock_ms(10'000);
  const int64_t expired = load(c_, "d1", {1});  // a later run
  set_clock_ms(11'000);
  World::append_by_other(events_, day_rows("d2", {2}));
  forget_snapshots(events_, {expired});
  world_.run_started_ms["run-b"] = 9'000;
  EXPECT_REFUSED(load(b_, "d1", {3}), ErrorKind::commit_conflict, HasSubstr("cannot be told"), HasSubstr("new run"));
  EXPECT_EQ(ids(events_), (Ids{0, 1, 2}));
  load(of(b_, "other"), "d0", {9});  // what was there before it began is no later run's
  EXPECT_EQ(ids(events_), (Ids{1, 2, 9}));
  world_.run_started_ms["run-d"] = 12'000;
  StepNames d = b_;
  d.run = "run-d";
  d.number = 4;
  load(d, "d1", {3});
  EXPECT_EQ(ids(events_), (Ids{2, 3, 9}));
}

TEST_F(Replace, ARunThatDoesNotKnowItsStartRemovesNoFileWhoseSnapshotExpired) {
  const int64_t old = load(a_, "d1", {1});
  load(of(a_, "other"), "d2", {2});
  forget_snapshots(events_, {old});
  world_.started_ms = 0;
  EXPECT_REFUSED(load(b_, "d1", {3}), ErrorKind::commit_conflict, HasSubstr("cannot be told"));
  EXPECT_EQ(ids(events_), (Ids{1, 2}));
}

}  // namespace
}  // namespace firn::orca
