// Commits that a retry recognises (orca-tables.md, "append", "append_files", "commit", "find_commit"; protocols P3).
#include "iceberg/commit/cherry_pick.h"
#include "iceberg/write/delete_writer.h"
#include "orca/tables/world.h"

namespace firn::orca {
namespace {

using iceberg::DataFile;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Pair;

class Commit : public ::testing::Test {
 protected:
  DataFiles written(const std::string& day, const Ids& ids) { return write_files(events_, day_rows(day, ids)); }
  std::vector<DataFile> data_files() {
    std::vector<DataFile> files;
    for (const auto& file : live(events_)) {
      if (file.file.content == iceberg::FileContent::data) files.push_back(file.file);
    }
    return files;
  }
  Table fresh() { return load_dataset("nyc.events"); }

  World world_;
  StepNames names_;
  Table events_ = world_.make_table();
};

TEST_F(Commit, AppendWritesOneSnapshotAndReturnsItsId) {
  Attempt step = world_.attempt(names_);
  const int64_t id = append(step, events_, batches_of(R"([{"id": 1, "day": "d1"}, {"id": 2, "day": "d2"}])"));
  EXPECT_EQ(num_snapshots(events_), 1u);
  EXPECT_EQ(fresh().metadata().current_snapshot_id, id);
  EXPECT_EQ(events_.metadata().current_snapshot_id, id);  // the handle has it
  EXPECT_EQ(snapshot(events_, id).operation(), "append");
  EXPECT_EQ(ids(events_), (Ids{1, 2}));
}

TEST_F(Commit, ItsSummarySaysWhoCommittedWhat) {
  names_.partition = "2024-01-01";
  names_.number = 7;
  Attempt step = world_.attempt(names_, 3);
  const int64_t first = append(step, events_, day_rows("d1", {1}));
  const int64_t second = append(step, events_, day_rows("d1", {2}));
  const auto made = summary(events_, first);
  for (const auto& [key, value] : Properties{{"orca.pipeline", "nyc"},
                                             {"orca.run", "run-a"},
                                             {"orca.run-number", "7"},
                                             {"orca.step", "load"},
                                             {"orca.partition", "2024-01-01"},
                                             {"orca.attempt", "3"},
                                             {"orca.commit", "1"},
                                             {"orca.code", "code-1"},
                                             {"orca.reads", "{}"},
                                             {"orca.label", "append"}})
    EXPECT_THAT(made, Contains(Pair(key, value)));
  EXPECT_EQ(summary(events_, second).at("orca.commit"), "2");
}

TEST_F(Commit, TheSummaryOfEachKindOfCommitSaysSo) {
  names_.datasets.replaces = {"nyc.days"};
  Table days = world_.make_table("nyc.days");
  Attempt step = world_.attempt(names_);
  const Properties made[] = {
      summary(events_, append(step, events_, day_rows("d1", {1}))),
      summary(events_, append_files(step, events_, written("d1", {2}))),
      summary(events_, commit(step, events_, "append", {.added = written("d1", {3}).files, .removed = {}})),
      summary(events_, replace_partitions(step, events_, day_rows("d1", {4}))),
      summary(events_, replace_partition_files(step, events_, written("d1", {5}))),
      summary(days, append(step, days, day_rows("d1", {6}))),
      summary(days, append_files(step, days, write_files(days, day_rows("d1", {7})))),
  };
  const char* commits[] = {"1", "2", "3", "4", "5", "1", "2"};
  for (size_t i = 0; i < std::size(made); ++i) {
    SCOPED_TRACE(i);
    for (const auto& [key, value] : Properties{{"orca.pipeline", "nyc"},
                                               {"orca.run", "run-a"},
                                               {"orca.run-number", "1"},
                                               {"orca.step", "load"},
                                               {"orca.partition", ""},
                                               {"orca.attempt", "1"},
                                               {"orca.commit", commits[i]},
                                               {"orca.code", "code-1"},
                                               {"orca.reads", "{}"}})
      EXPECT_THAT(made[i], Contains(Pair(key, value)));
  }
}

TEST_F(Commit, ARetryFindsTheSnapshotAndCommitsNothing) {
  Attempt first = world_.attempt(names_);
  const int64_t one = append(first, events_, day_rows("d1", {1}));
  const int64_t two = append(first, events_, day_rows("d1", {2}));  // killed before the database heard of it
  World::append_by_other(events_, day_rows("d1", {3}));
  Attempt retry = world_.attempt(names_, 2);
  Table again = fresh();
  EXPECT_EQ(append(retry, again, day_rows("d1", {1})), one);
  EXPECT_EQ(append(retry, again, day_rows("d1", {2})), two);
  const int64_t three = append(retry, again, day_rows("d1", {4}));  // the first attempt did not get so far
  EXPECT_EQ(summary(events_, three).at("orca.commit"), "3");
  EXPECT_EQ(ids(events_), (Ids{1, 2, 3, 4}));
  EXPECT_EQ(num_unnamed_files(events_), 0u);  // nothing was written for what was found
}

TEST_F(Commit, AnotherRunStepOrPartitionIsNoRetry) {
  Attempt first = world_.attempt(names_);
  append(first, events_, day_rows("d1", {1}));
  StepNames run = names_, step = names_, partition = names_;
  run.run = "run-b";
  step.step = "other";
  partition.partition = "p";
  for (const StepNames& names : {run, step, partition}) {
    Attempt other = world_.attempt(names);
    EXPECT_EQ(find_commit(other, events_), std::nullopt);
    append(other, events_, day_rows("d1", {2}));
  }
  EXPECT_EQ(ids(events_), (Ids{1, 2, 2, 2}));
}

TEST_F(Commit, EachTableCountsItsOwnCommits) {
  names_.datasets.writes.push_back("nyc.more");
  Table more = world_.make_table("nyc.more");
  Attempt step = world_.attempt(names_);
  append(step, events_, day_rows("d1", {1}));
  const int64_t id = append(step, more, day_rows("d1", {2}));
  EXPECT_EQ(summary(more, id).at("orca.commit"), "1");
}

TEST_F(Commit, NoRowsCommitAnEmptySnapshotSoThatCommitsKeepTheirNumbers) {
  Attempt first = world_.attempt(names_);
  const int64_t one = append(first, events_, {});
  const int64_t two = append_files(first, events_, DataFiles());
  EXPECT_EQ(num_snapshots(events_), 2u);
  EXPECT_EQ(summary(events_, two).at("orca.commit"), "2");
  Attempt retry = world_.attempt(names_, 2);
  EXPECT_EQ(append(retry, events_, {}), one);
  EXPECT_EQ(append_files(retry, events_, {}), two);
  EXPECT_EQ(ids(events_), Ids{});
}

TEST_F(Commit, FindCommitSaysWhetherTheNextCommitIsThere) {
  Attempt first = world_.attempt(names_);
  EXPECT_EQ(find_commit(first, events_), std::nullopt);
  const int64_t id = append(first, events_, day_rows("d1", {1}));
  EXPECT_EQ(find_commit(first, events_), std::nullopt);  // that is its second commit's turn
  Attempt retry = world_.attempt(names_, 2);
  const Table stale = events_;
  EXPECT_EQ(find_commit(retry, stale), id);
  EXPECT_EQ(find_commit(retry, stale), id);  // asking takes nothing
  append(retry, events_, {});
  EXPECT_EQ(find_commit(retry, events_), std::nullopt);
}

TEST_F(Commit, FindCommitReadsNoManifestAndNoData) {
  Attempt first = world_.attempt(names_);
  for (int i = 0; i < 3; ++i) append(first, events_, day_rows("d1", {i}));
  Attempt retry = world_.attempt(names_, 2);
  const Table table = fresh();
  const int64_t avro = world_.store->num_reads(".avro"), data = world_.store->num_reads(".parquet");
  EXPECT_TRUE(find_commit(retry, table));
  EXPECT_EQ(world_.store->num_reads(".avro"), avro);
  EXPECT_EQ(world_.store->num_reads(".parquet"), data);
}

TEST_F(Commit, AppendFilesCommitsEntriesWrittenElsewhereAsOneAppend) {
  DataFiles files = written("d1", {1});
  files.add(written("d2", {2}));
  Attempt step = world_.attempt(names_);
  const int64_t id = append_files(step, events_, files);
  EXPECT_EQ(snapshot(events_, id).operation(), "append");
  EXPECT_EQ(num_snapshots(events_), 1u);
  EXPECT_EQ(ids(events_), (Ids{1, 2}));
}

TEST_F(Commit, ARetryOfAppendFilesCommitsItsFilesNotAgain) {
  Attempt first = world_.attempt(names_);
  const int64_t id = append_files(first, events_, written("d1", {1}));
  Attempt retry = world_.attempt(names_, 2);
  ASSERT_TRUE(find_commit(retry, events_));
  EXPECT_EQ(append_files(retry, events_, {}), id);
  Attempt third = world_.attempt(names_, 3);  // it did not ask first: its files are left unreferenced
  EXPECT_EQ(append_files(third, events_, written("d1", {1})), id);
  EXPECT_EQ(ids(events_), Ids{1});
  EXPECT_EQ(num_unnamed_files(events_), 1u);
}

TEST_F(Commit, FilesOfAnAttemptThatDiedBeforeCommittingStayUnreferenced) {
  written("d1", {1});
  Attempt retry = world_.attempt(names_, 2);
  append_files(retry, events_, written("d1", {1}));
  EXPECT_EQ(ids(events_), Ids{1});
  EXPECT_EQ(num_unnamed_files(events_), 1u);
}

TEST_F(Commit, AppendFilesRefusesDeleteFiles) {
  DataFiles files = written("d1", {1});
  files.files[0].content = iceberg::FileContent::equality_deletes;
  Attempt step = world_.attempt(names_);
  EXPECT_REFUSED(append_files(step, events_, files), ErrorKind::invalid_argument, HasSubstr("commit()"));
  EXPECT_EQ(num_snapshots(events_), 0u);
}

TEST_F(Commit, AppendFilesRefusesFilesThatAreGone) {  // P15
  DataFiles files = written("d1", {1});
  files.add(written("d1", {2}));
  world_.store->remove(files.files[1].file_path);
  Attempt step = world_.attempt(names_);
  EXPECT_REFUSED(append_files(step, events_, files), ErrorKind::not_found, HasSubstr(files.files[1].file_path));
  EXPECT_EQ(num_snapshots(events_), 0u);
}

TEST_F(Commit, FilesOfAnAppendThatFailsAreRemoved) {
  Attempt step = world_.attempt(names_);
  world_.kept(names_).current_attempt = 2;
  EXPECT_REFUSED(append(step, events_, day_rows("d1", {1})), ErrorKind::lease_lost, HasSubstr("taken over"));
  EXPECT_EQ(num_unnamed_files(events_), 0u);
}

TEST_F(Commit, IsRecognisedInsideTheLoopWhenAnotherAttemptIsFirst) {  // P3.1
  Attempt zombie = world_.attempt(names_);
  zombie.record->always_leased = true;
  int64_t other_id = 0;
  world_.store->before_put([&](const std::string& path) {
    if (other_id != 0 || !path.ends_with("v2.metadata.json")) return;
    other_id = -1;
    Attempt successor = world_.attempt(names_, 2);
    Table table = load_dataset("nyc.events");
    other_id = append(successor, table, day_rows("d1", {1}));
  });
  EXPECT_EQ(append(zombie, events_, day_rows("d1", {1})), other_id);
  EXPECT_EQ(ids(events_), Ids{1});
  EXPECT_EQ(num_unnamed_files(events_), 0u);  // those of the zombie went
}

TEST_F(Commit, TheFloorIsRecordedBeforeAnythingIsPublished) {  // P3.2
  World::append_by_other(events_, day_rows("d1", {1}));
  Attempt step = world_.attempt(names_);
  bool seen = false;
  world_.store->before_put([&](const std::string& path) {
    if (!path.ends_with(".metadata.json")) return;
    seen = true;
    ASSERT_EQ(world_.kept(names_).floors.size(), 1u);
    EXPECT_EQ(world_.kept(names_).floors[0].sequence, 1);
    EXPECT_EQ(world_.kept(names_).floors[0].table_uuid, events_.metadata().table_uuid);
  });
  append(step, events_, day_rows("d1", {2}));
  EXPECT_TRUE(seen);
}

TEST_F(Commit, AHistoryThatIsCutAboveTheFloorIsNoAnswer) {  // P3.2
  Attempt first = world_.attempt(names_);
  find_commit(first, events_);  // the floor
  const int64_t between = World::append_by_other(events_, day_rows("d1", {1}));
  World::append_by_other(events_, day_rows("d1", {2}));
  forget_snapshots(events_, {between});
  EXPECT_REFUSED(append(first, events_, day_rows("d1", {3})), ErrorKind::commit_unknown, HasSubstr("nyc.events"),
                 HasSubstr("expired"));
  EXPECT_REFUSED(find_commit(first, events_), ErrorKind::commit_unknown, HasSubstr(std::to_string(between)));
  EXPECT_EQ(ids(events_), (Ids{1, 2}));
  names_.run = "run-b";  // its floor is above the gap
  Attempt fresh_run = world_.attempt(names_);
  append(fresh_run, events_, day_rows("d1", {3}));
}

TEST_F(Commit, ACommitThatWasRolledBackIsMadeAgain) {  // P3.2
  const int64_t before = World::append_by_other(events_, day_rows("d1", {1}));
  Attempt first = world_.attempt(names_);
  append(first, events_, day_rows("d1", {2}));
  iceberg::commit_metadata(*events_.operations(), [&](iceberg::TableMetadata& next) {
    return iceberg::rollback_to_snapshot(next, before, now_ms());
  });
  Attempt retry = world_.attempt(names_, 2);
  append(retry, events_, day_rows("d1", {2}));
  EXPECT_EQ(ids(events_), (Ids{1, 2}));
}

TEST_F(Commit, ACherryPickOfTheCommitStandsForIt) {  // P3.2
  const int64_t before = World::append_by_other(events_, day_rows("d1", {1}));
  Attempt first = world_.attempt(names_);
  const int64_t id = append(first, events_, day_rows("d1", {2}));
  iceberg::commit_metadata(*events_.operations(), [&](iceberg::TableMetadata& next) {
    return iceberg::rollback_to_snapshot(next, before, now_ms());
  });
  World::append_by_other(events_, day_rows("d1", {3}));
  const int64_t picked = iceberg::cherry_pick(*events_.operations(), id).snapshot_id;
  ASSERT_NE(picked, id);
  Attempt retry = world_.attempt(names_, 2);
  EXPECT_EQ(append(retry, events_, day_rows("d1", {2})), picked);
  EXPECT_EQ(ids(events_), (Ids{1, 2, 3}));
}

TEST_F(Commit, ATableMadeInThePlaceOfTheFirstOneIsSearchedWhole) {
  Attempt first = world_.attempt(names_);
  for (int i = 0; i < 3; ++i) World::append_by_other(events_, day_rows("d1", {i}));
  find_commit(first, events_);
  for (const std::string& path : world_.store->paths()) world_.store->remove(path);
  Table again = world_.make_table();
  Attempt retry = world_.attempt(names_, 2);
  const int64_t id = append(retry, again, day_rows("d1", {9}));
  Attempt third = world_.attempt(names_, 3);
  EXPECT_EQ(append(third, again, day_rows("d1", {9})), id);
  EXPECT_EQ(ids(again), Ids{9});
}

// --- steps that do not repeat themselves (P14.2)

TEST_F(Commit, ACommitFoundOfAnotherFunctionIsAnError) {
  Attempt first = world_.attempt(names_);
  append(first, events_, day_rows("d1", {1}));
  Attempt retry = world_.attempt(names_, 2);
  EXPECT_REFUSED(replace_partitions(retry, events_, day_rows("d1", {1})), ErrorKind::step_not_deterministic,
                 HasSubstr("append"), HasSubstr("replace_partitions"));
  EXPECT_REFUSED(commit(retry, events_, "append", {}), ErrorKind::step_not_deterministic, HasSubstr("commit"));
}

TEST_F(Commit, ACommitFoundOfAnotherOperationIsAnError) {
  Attempt first = world_.attempt(names_);
  commit(first, events_, "append", {});
  Attempt retry = world_.attempt(names_, 2);
  EXPECT_REFUSED(commit(retry, events_, "replace", {}), ErrorKind::step_not_deterministic, HasSubstr("replace"));
  EXPECT_EQ(num_snapshots(events_), 1u);
}

TEST_F(Commit, ARetryThatMakesFewerCommitsIsAnError) {
  Attempt first = world_.attempt(names_);
  append(first, events_, day_rows("d1", {1}));
  append(first, events_, day_rows("d1", {2}));
  Attempt retry = world_.attempt(names_, 2);
  append(retry, events_, day_rows("d1", {1}));
  EXPECT_REFUSED(retry.ctx->check_result(), ErrorKind::step_not_deterministic, HasSubstr("2 times"));
  append(retry, events_, day_rows("d1", {2}));
  retry.ctx->check_result();
  first.ctx->check_result();
}

// --- commit()

TEST_F(Commit, CommitAddsAndRemovesFilesAsOneSnapshotOfItsOperation) {
  World::append_by_other(events_, day_rows("d1", {1}));
  World::append_by_other(events_, day_rows("d1", {2}));
  events_.refresh();
  Attempt step = world_.attempt(names_);
  const int64_t id = commit(step, events_, "replace", {.added = written("d1", {1, 2}).files, .removed = data_files()});
  EXPECT_EQ(snapshot(events_, id).operation(), "replace");
  EXPECT_EQ(ids(events_), (Ids{1, 2}));
  EXPECT_EQ(live(events_).size(), 1u);
  Attempt retry = world_.attempt(names_, 2);
  EXPECT_EQ(commit(retry, events_, "replace", {}), id);
}

TEST_F(Commit, CommitRefusesAnOperationThatIsNone) {
  Attempt step = world_.attempt(names_);
  EXPECT_REFUSED(commit(step, events_, "compact", {}), ErrorKind::invalid_argument, HasSubstr("compact"));
}

TEST_F(Commit, CommitRefusesToRemoveFilesThatAreNotAllCurrent) {
  World::append_by_other(events_, day_rows("d1", {1}));
  World::append_by_other(events_, day_rows("d2", {2}));
  events_.refresh();
  const std::vector<DataFile> planned = data_files();
  iceberg::SnapshotChange change;
  change.operation = "delete";
  change.removed = {planned[0]};
  iceberg::commit_snapshot(*events_.operations(), change);
  Attempt step = world_.attempt(names_);
  EXPECT_REFUSED(commit(step, events_, "replace", {.added = written("d1", {1, 2}).files, .removed = planned}),
                 ErrorKind::commit_conflict, HasSubstr(planned[0].file_path));
  EXPECT_EQ(live(events_).size(), 1u);
  EXPECT_EQ(num_snapshots(events_), 3u);
}

TEST_F(Commit, CommitRefusesThatOnEachRetryToo) {
  World::append_by_other(events_, day_rows("d1", {1}));
  World::append_by_other(events_, day_rows("d2", {2}));
  events_.refresh();
  const std::vector<DataFile> planned = data_files();
  const DataFiles compacted = written("d1", {1, 2});
  bool done = false;
  world_.store->before_put([&](const std::string& path) {
    if (done || !path.ends_with("v4.metadata.json")) return;
    done = true;  // just before the first try is published
    iceberg::SnapshotChange change;
    change.operation = "delete";
    change.removed = {planned[1]};
    iceberg::commit_snapshot(*events_.operations(), change);
  });
  Attempt step = world_.attempt(names_);
  EXPECT_REFUSED(commit(step, events_, "replace", {.added = compacted.files, .removed = planned}),
                 ErrorKind::commit_conflict, HasSubstr(planned[1].file_path));
  EXPECT_TRUE(done);
  EXPECT_EQ(ids(events_).size(), 1u);
}

TEST_F(Commit, CommitPlannedOnlyOnAnotherWritersAppendIsTriedAgain) {
  World::append_by_other(events_, day_rows("d1", {1}));
  events_.refresh();
  bool done = false;
  world_.store->before_put([&](const std::string& path) {
    if (done || !path.ends_with("v3.metadata.json")) return;
    done = true;
    World::append_by_other(events_, day_rows("d1", {2}));
  });
  Attempt step = world_.attempt(names_);
  const std::vector<DataFile> planned = data_files();
  commit(step, events_, "replace", {.added = written("d1", {1}).files, .removed = planned});
  EXPECT_EQ(ids(events_), (Ids{1, 2}));
}

TEST_F(Commit, CommitRefusesWhenRowsOfItsFilesWereDeletedSince) {
  World::append_by_other(events_, day_rows("d1", {1, 2}));
  names_.datasets.reads = {"nyc.events"};
  Attempt step = world_.attempt(names_);
  scan(step, events_);  // what it plans on
  iceberg::RowOptions options;
  options.mode = iceberg::RowMode::merge_on_read;
  iceberg::delete_rows(*events_.operations(), iceberg::parse_expression("id = 1"), options);
  events_.refresh();
  EXPECT_REFUSED(commit(step, events_, "replace", {.added = written("d1", {1, 2}).files, .removed = data_files()}),
                 ErrorKind::commit_conflict, HasSubstr("delete"));
  EXPECT_EQ(ids(events_), Ids{2});
}

TEST_F(Commit, DeleteFilesGoThroughCommit) {
  World::append_by_other(events_, day_rows("d1", {1, 2}));
  events_.refresh();
  iceberg::AppendWriter writer(events_.io(), events_.metadata(), {.equality_ids = {1}});
  const Schema keys = iceberg::equality_delete_schema(events_.metadata(), {1});
  writer.write(batches_of(R"([{"id": 1, "day": "d1"}])", keys).front());
  Attempt step = world_.attempt(names_);
  commit(step, events_, "delete", {.added = writer.finish(), .removed = {}});
  EXPECT_EQ(ids(events_), Ids{2});
}

TEST_F(Commit, OutsideAReplaceALaterRunsFilesAreNotRemoved) {  // P14.1
  StepNames later = names_;
  later.run = "run-b";
  later.number = 2;
  Attempt second = world_.attempt(later);
  append(second, events_, day_rows("d1", {1}));
  Attempt first = world_.attempt(names_);
  EXPECT_REFUSED(commit(first, events_, "delete", {.added = {}, .removed = data_files()}), ErrorKind::commit_conflict,
                 HasSubstr("run-b"), HasSubstr("later run"));
  commit(first, events_, "replace", {.added = written("d1", {1}).files, .removed = data_files()});  // rows stay
  EXPECT_EQ(ids(events_), Ids{1});
}

}  // namespace
}  // namespace firn::orca
