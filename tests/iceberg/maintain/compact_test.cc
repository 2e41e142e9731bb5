// Compaction: which files are rewritten, what their rows are afterwards, and what others may do meanwhile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "iceberg/maintain/real_table.h"
#include "iceberg/manifest/file_identity.h"
#include "support/temp_folder.h"

namespace firn::iceberg {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Ids = std::vector<int64_t>;

class Compact : public ::testing::TestWithParam<int> {
 protected:
  RealTable make(RealTableOptions options = {}) {
    options.version = GetParam();
    return RealTable(options);
  }
  // Rewrites what can be.
  static CompactOptions eager() {
    CompactOptions options;
    options.min_input_files = 2;
    return options;
  }
  static CompactResult compact_well(RealTable& table, const CompactOptions& options) {
    const CompactResult result = compact(table.ops(), options);
    for (const CompactFailure& failure : result.failures) ADD_FAILURE() << failure.message;
    return result;
  }
  // A second run must leave the table alone.
  static void expect_nothing_left(RealTable& table, const CompactOptions& options) {
    const int64_t version = table.ops().load().version;
    EXPECT_EQ(compact_well(table, options).groups, 0);
    EXPECT_EQ(table.ops().load().version, version);
  }
};
INSTANTIATE_TEST_SUITE_P(Versions, Compact, ::testing::Values(2, 3), ::testing::PrintToStringParamName());

TEST_P(Compact, SmallFilesOfAPartitionBecomeOneAndRowsStayAsTheyWere) {
  RealTable table = make({.partition = {{"p"}}});
  for (int64_t id = 1; id <= 5; ++id) {
    table.append_ids({id}, "a");
    table.append_ids({10 + id}, "b");
  }
  const Lines before = table.rows();
  const CompactResult result = compact_well(table, {});
  EXPECT_EQ(result.groups, 2);
  EXPECT_EQ(result.groups_rewritten, 2);
  EXPECT_EQ(result.files_rewritten, 10);
  EXPECT_EQ(result.files_added, 2);
  EXPECT_THAT(result.snapshots, SizeIs(2));  // a commit a group
  EXPECT_THAT(table.data_files(), SizeIs(2));
  EXPECT_EQ(table.rows(), before);
  EXPECT_EQ(table.head().operation(), "replace");
  EXPECT_EQ(table.head().summary.at("total-records"), "10");
  expect_nothing_left(table, {});
}

TEST_P(Compact, FewerThanMinInputFilesAreLeftAlone) {
  RealTable table = make();
  for (int64_t id = 1; id <= 4; ++id) table.append_ids({id});
  EXPECT_EQ(compact_well(table, {}).groups, 0);
  table.append_ids({5});
  EXPECT_EQ(compact_well(table, {}).groups, 1);
}

TEST_P(Compact, FilesOfGoodSizeAreLeftAlone) {
  RealTable table = make();
  for (int64_t id = 1; id <= 6; ++id) table.append_ids({id});
  const int64_t size = table.data_files()[0].file_size_bytes;
  CompactOptions options = eager();
  options.target_file_size_bytes = size + 10;
  options.min_file_size_bytes = size - 10;
  options.max_file_size_bytes = size * 2;
  EXPECT_EQ(compact_well(table, options).groups, 0);
  options.rewrite_all = true;
  EXPECT_EQ(compact_well(table, options).files_rewritten, 6);
}

TEST_P(Compact, ALargeFileIsSplit) {
  RealTable table = make();
  Json rows = Json::array();
  std::mt19937_64 random(1);
  for (int64_t id = 0; id < 60'000; ++id)
    rows.push_back({{"id", id}, {"p", "a"}, {"text", std::to_string(random()) + std::to_string(random())}});
  table.append(rows.dump());
  ASSERT_THAT(table.data_files(), SizeIs(1));
  const int64_t size = table.data_files()[0].file_size_bytes;
  const Lines before = table.lineage();
  CompactOptions options;
  options.target_file_size_bytes = size / 3;
  const CompactResult result = compact_well(table, options);
  EXPECT_EQ(result.files_rewritten, 1);
  EXPECT_EQ(result.files_added, GetParam() == 2 ? 3 : 4);  // lineage takes room too
  EXPECT_EQ(table.lineage(), before);
  expect_nothing_left(table, options);
}

TEST_P(Compact, DeletesOfEveryKindAreAppliedAndGo) {
  RealTable table = make();
  table.append_ids({1, 2, 3});
  table.append_ids({4, 5, 6});
  const std::vector<DataFile> files = table.data_files();
  table.delete_positions({{files[0].file_path, {0}}, {files[1].file_path, {1}}});
  const Ids left = table.ids();
  ASSERT_THAT(left, SizeIs(4));
  table.delete_ids({left[0]});
  const Lines before = table.lineage();
  const auto num_deletes = static_cast<int64_t>(table.delete_files().size());
  CompactOptions dry = eager();
  dry.dry_run = true;
  EXPECT_EQ(compact(table.ops(), dry).delete_files_removed, num_deletes);
  const CompactResult result = compact_well(table, eager());
  EXPECT_EQ(table.lineage(), before);
  EXPECT_THAT(table.data_files(), SizeIs(1));
  EXPECT_EQ(table.data_files()[0].record_count, 3);
  EXPECT_THAT(table.delete_files(), IsEmpty());
  EXPECT_EQ(result.delete_files_removed, num_deletes);  // with their data files, and by the commit after it
  EXPECT_EQ(table.head().summary.at("total-delete-files"), "0");
  expect_nothing_left(table, eager());
}

TEST_P(Compact, AFileWhoseRowsAreAllDeletedGoes) {
  RealTable table = make();
  table.append_ids({1, 2});
  table.delete_ids({1, 2});
  CompactOptions options = eager();
  options.delete_file_threshold = 1;
  const CompactResult result = compact_well(table, options);
  EXPECT_EQ(result.files_rewritten, 1);
  EXPECT_EQ(result.files_added, 0);
  EXPECT_THAT(table.live(), IsEmpty());
  EXPECT_THAT(table.ids(), IsEmpty());
}

TEST_P(Compact, AFileWithManyDeletedRowsIsRewrittenAlone) {
  RealTable table = make();
  table.append_ids({1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  const std::string path = table.data_files()[0].file_path;
  CompactOptions options;
  options.min_file_size_bytes = 0;
  table.delete_positions({{path, {0, 1}}});
  EXPECT_EQ(compact_well(table, options).groups, 0);  // 20%
  table.delete_positions({{path, {2}}});
  EXPECT_EQ(compact_well(table, options).groups, 1);  // 30%
  EXPECT_THAT(table.ids(), SizeIs(7));
  EXPECT_THAT(table.delete_files(), IsEmpty());
}

TEST_P(Compact, TheNumberOfDeleteFilesCounts) {
  RealTable table = make();
  table.append_ids({1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  CompactOptions options;
  options.min_file_size_bytes = 0;
  options.delete_file_threshold = 2;
  table.delete_ids({1});
  EXPECT_EQ(compact_well(table, options).groups, 0);
  table.delete_ids({2});
  EXPECT_EQ(compact_well(table, options).groups, 1);
  EXPECT_THAT(table.ids(), SizeIs(8));
  expect_nothing_left(table, options);
}

TEST_P(Compact, OnlyFilesThatMayHoldAMatchingRowAreRewritten) {
  RealTable table = make();
  for (const int64_t id : {1, 2, 11, 12}) table.append_ids({id});
  CompactOptions options = eager();
  options.filter = parse_expression("id > 10");
  const CompactResult result = compact_well(table, options);
  EXPECT_EQ(result.files_rewritten, 2);
  EXPECT_THAT(table.data_files(), SizeIs(3));
  EXPECT_THAT(table.ids(), ElementsAre(1, 2, 11, 12));
  // Rows of a chosen file that do not match stay too.
  table.append_ids({5, 50});
  table.append_ids({6, 60});
  options.filter = parse_expression("id >= 50");
  EXPECT_EQ(compact_well(table, options).files_rewritten, 2);
  EXPECT_THAT(table.ids(), ElementsAre(1, 2, 5, 6, 11, 12, 50, 60));
}

TEST_P(Compact, FilesOfOlderSpecsComeIntoTheDefaultOneAndArePackedWithIt) {
  RealTable table = make({.partition = {{"p"}}});
  for (int64_t id = 1; id <= 4; ++id) table.append_ids({id}, id % 2 == 0 ? "a" : "b");
  table.change([](TableMetadata& next) {
    return update_spec(next, {.remove = {"p"}, .add = {{.column = "id", .transform = "bucket[2]"}}});
  });
  for (int64_t id = 5; id <= 8; ++id) table.append_ids({id});
  const Lines before = table.lineage();
  compact_well(table, eager());
  EXPECT_EQ(table.lineage(), before);
  std::set<std::string> partitions;
  for (const DataFile& file : table.data_files()) {
    EXPECT_EQ(file.partition_spec_id, table.metadata()->default_spec_id);
    EXPECT_TRUE(partitions.insert(partition_key(file.partition_spec_id, file.partition)).second);
  }
  expect_nothing_left(table, eager());
}

TEST_P(Compact, RowsKeepTheirLineage) {
  if (GetParam() < 3) GTEST_SKIP() << "version 2 has no lineage";
  RealTable table = make();
  table.append_ids({1, 2});
  table.append_ids({3, 4});
  const Lines before = table.lineage();
  ASSERT_THAT(before, Contains(HasSubstr("\"_row_id\":3")));
  ASSERT_THAT(before, Contains(HasSubstr("\"_last_updated_sequence_number\":2")));
  compact_well(table, eager());
  EXPECT_EQ(table.lineage(), before);
  table.append_ids({5});
  const Lines with_new = table.lineage();
  compact_well(table, eager());  // rows that carry their ids, and one that inherits them
  EXPECT_EQ(table.lineage(), with_new);
}

TEST_P(Compact, RowsOfATableFromVersion2GetTheirIdsOnce) {
  RealTable table;
  table.append_ids({1});
  table.append_ids({2});
  table.change([](TableMetadata& next) { return upgrade_format_version(next, 3); });
  table.append_ids({3});
  compact_well(table, eager());
  EXPECT_THAT(table.ids(), ElementsAre(1, 2, 3));
  std::set<std::string> row_ids;
  ScanOptions options;
  options.columns = {"_row_id"};
  const Lines rows = table.rows(options);
  EXPECT_THAT(std::set<std::string>(rows.begin(), rows.end()), SizeIs(3));
  EXPECT_THAT(rows, Each(::testing::Not(HasSubstr("null"))));
}

TEST_P(Compact, EqualityDeletesMadeMeanwhileStillApply) {
  RealTable table = make();
  table.append_ids({1, 2});
  table.append_ids({3, 4});
  bool is_done = false;
  table.store->before_put([&](const std::string& path) {
    if (std::exchange(is_done, is_done || path.ends_with(".metadata.json")) || !path.ends_with(".metadata.json"))
      return;
    table.delete_ids({2, 3});
  });
  EXPECT_EQ(compact_well(table, eager()).groups_rewritten, 1);
  ASSERT_TRUE(is_done);
  EXPECT_THAT(table.data_files(), SizeIs(1));
  EXPECT_THAT(table.ids(), ElementsAre(1, 4));
  EXPECT_THAT(table.delete_files(), SizeIs(1));  // it applies still
}

TEST_P(Compact, APositionDeleteMadeMeanwhileIsAConflictThatLeavesTheTableAsItWas) {
  RealTable table = make({.partition = {{"p"}}});
  for (const char* p : {"a", "b"}) {
    table.append_ids({1, 2}, p);
    table.append_ids({3, 4}, p);
  }
  bool is_done = false;
  const std::string target = table.data_files()[0].file_path;
  table.store->before_put([&](const std::string& path) {
    if (std::exchange(is_done, is_done || path.ends_with(".metadata.json")) || !path.ends_with(".metadata.json"))
      return;
    table.delete_positions({{target, {0}}});
  });
  const CompactResult result = compact(table.ops(), eager());
  ASSERT_TRUE(is_done);
  ASSERT_THAT(result.failures, SizeIs(1));
  EXPECT_EQ(result.failures[0].kind, ErrorKind::commit_conflict);
  EXPECT_THAT(result.failures[0].files, Contains(target));
  EXPECT_EQ(result.groups_rewritten, 1);  // the other partition's
  EXPECT_THAT(table.ids(), SizeIs(7));
  // Nothing of the group that failed is left in the store.
  OrphanOptions orphans;
  orphans.older_than_ms = now_ms() + 1;
  orphans.dry_run = true;
  EXPECT_THAT(remove_orphan_files(table.ops(), orphans).files.paths, IsEmpty());
  EXPECT_EQ(compact_well(table, eager()).groups_rewritten, 1);
  EXPECT_THAT(table.ids(), SizeIs(7));
}

TEST_P(Compact, AFileThatAnotherCommitRemovedMeanwhileIsAConflict) {
  RealTable table = make();
  table.append_ids({1});
  table.append_ids({2});
  bool is_done = false;
  table.store->before_put([&](const std::string& path) {
    if (std::exchange(is_done, is_done || path.ends_with(".metadata.json")) || !path.ends_with(".metadata.json"))
      return;
    table.commit("delete", {}, {table.data_files()[0]});
  });
  const CompactResult result = compact(table.ops(), eager());
  ASSERT_THAT(result.failures, SizeIs(1));
  EXPECT_EQ(result.failures[0].kind, ErrorKind::commit_conflict);
  EXPECT_THAT(table.ids(), SizeIs(1));
}

TEST_P(Compact, AGroupThatCannotBeReadDoesNotStopTheOthers) {
  RealTable table = make({.partition = {{"p"}}});
  for (const char* p : {"a", "b", "c"}) {
    table.append_ids({1}, p);
    table.append_ids({2}, p);
  }
  std::string broken;
  for (const DataFile& file : table.data_files()) {
    if (std::get<std::string>(file.partition[0]) == "b") broken = file.file_path;
  }
  table.store->break_path(broken, 1000);
  const CompactResult result = compact(table.ops(), eager());
  ASSERT_THAT(result.failures, SizeIs(1));
  EXPECT_THAT(result.failures[0].files, Contains(broken));
  EXPECT_EQ(result.groups_rewritten, 2);
  table.store->break_path(broken, 0);
  EXPECT_THAT(table.ids(), SizeIs(6));
}

TEST_P(Compact, GroupsAreGatheredIntoAsManyCommitsAsAllowed) {
  RealTable table = make({.partition = {{"p"}}});
  for (const char* p : {"a", "b", "c", "d", "e"}) {
    table.append_ids({1}, p);
    table.append_ids({2}, p);
  }
  CompactOptions options = eager();
  options.commits_max = 2;
  options.parallel_groups = 3;
  options.dry_run = true;
  const CompactResult dry = compact_well(table, options);
  EXPECT_EQ(dry.groups, 5);
  EXPECT_EQ(dry.files_rewritten, 10);
  EXPECT_THAT(dry.snapshots, IsEmpty());
  EXPECT_THAT(table.data_files(), SizeIs(10));
  options.dry_run = false;
  const CompactResult result = compact_well(table, options);
  EXPECT_THAT(result.snapshots, SizeIs(2));
  EXPECT_EQ(result.groups_rewritten, 5);
  EXPECT_EQ(std::set<std::string>(result.paths.begin(), result.paths.end()),
            std::set<std::string>(dry.paths.begin(), dry.paths.end()));
  EXPECT_THAT(table.data_files(), SizeIs(5));
  EXPECT_THAT(table.ids(), SizeIs(10));
}

TEST_P(Compact, OneGroupsConflictIsItsOwnInACommitOfSeveral) {
  RealTable table = make({.partition = {{"p"}}});
  for (const char* p : {"a", "b", "c"}) {
    table.append_ids({1, 2}, p);
    table.append_ids({3, 4}, p);
  }
  CompactOptions options = eager();
  options.commits_max = 1;
  bool is_done = false;
  const std::string target = table.data_files()[0].file_path;
  table.store->before_put([&](const std::string& path) {
    if (std::exchange(is_done, is_done || path.ends_with(".metadata.json")) || !path.ends_with(".metadata.json"))
      return;
    table.delete_positions({{target, {0}}});
  });
  const CompactResult result = compact(table.ops(), options);
  EXPECT_THAT(result.failures, SizeIs(1));
  EXPECT_EQ(result.groups_rewritten, 2);
  EXPECT_THAT(table.ids(), SizeIs(11));
}

TEST_P(Compact, ABranchIsCompactedAloneAndItsSnapshotsAreItsOwn) {
  RealTable table = make();
  table.append_ids({1});
  table.append_ids({2});
  table.change([](TableMetadata& next) { return set_branch(next, "b", {}, now_ms()); });
  table.append_ids({3}, "a", "b");
  CompactOptions options = eager();
  options.branch = "b";
  compact_well(table, options);
  EXPECT_THAT(table.data_files("b"), SizeIs(1));
  EXPECT_THAT(table.data_files("main"), SizeIs(2));
  ScanOptions scan;
  scan.ref = "b";
  EXPECT_THAT(table.ids(scan), ElementsAre(1, 2, 3));
  EXPECT_THAT(table.ids(), ElementsAre(1, 2));
}

// In the order of files and of rows in them.
Ids stored_ids(RealTable& table) {
  ScanOptions options;
  options.columns = {"id"};
  const auto base = table.metadata();
  const auto reader = scan(*base, table.io, options);
  Ids ids;
  std::shared_ptr<arrow::RecordBatch> batch;
  while (reader->ReadNext(&batch).ok() && batch) {
    const auto& column = static_cast<const arrow::Int64Array&>(*batch->column(0));
    for (int64_t row = 0; row < column.length(); ++row) ids.push_back(column.Value(row));
  }
  return ids;
}

TEST_P(Compact, SortingGivesFilesOfTheTablesOrderAndIsDoneOnce) {
  RealTable table =
      make({.order = SortOrder{.fields = {{.transform = Transform::parse("identity"), .source_ids = {1}}}}});
  WriteOptions unsorted;
  unsorted.sort_order = SortOrder{};
  table.commit("append", table.write(RealTable::rows_of({5, 1, 9}), unsorted));
  table.commit("append", table.write(RealTable::rows_of({8, 2, 4}), unsorted));
  CompactOptions options;  // two files only: they are rewritten for their order
  options.strategy = CompactStrategy::sort;
  const Lines before = table.lineage();
  EXPECT_EQ(compact_well(table, options).files_rewritten, 2);
  EXPECT_THAT(stored_ids(table), ElementsAre(1, 2, 4, 5, 8, 9));
  EXPECT_EQ(table.data_files()[0].sort_order_id, table.metadata()->default_sort_order_id);
  EXPECT_EQ(table.lineage(), before);
  expect_nothing_left(table, options);
}

TEST_P(Compact, AnOrderOfOnesOwnSortsWithoutNamingIt) {
  RealTable table = make();
  table.append_ids({5, 1, 9});
  table.append_ids({8, 2, 4});
  CompactOptions options = eager();
  options.strategy = CompactStrategy::sort;
  options.sort_order = SortOrder{
      .order_id = 7,
      .fields = {
          {.transform = Transform::parse("identity"), .source_ids = {1}, .ascending = false, .nulls_first = false}}};
  EXPECT_EQ(compact_well(table, options).files_rewritten, 2);
  EXPECT_THAT(stored_ids(table), ElementsAre(9, 8, 5, 4, 2, 1));
  EXPECT_EQ(table.data_files()[0].sort_order_id.value_or(0), 0);
  expect_nothing_left(table, options);
}

TEST_P(Compact, SortingWithoutAnOrderIsRefused) {
  RealTable table = make();
  table.append_ids({1});
  CompactOptions options;
  options.strategy = CompactStrategy::sort;
  EXPECT_THROW(compact(table.ops(), options), Error);
  options = {};
  options.target_file_size_bytes = 100;
  options.min_file_size_bytes = 100;
  EXPECT_THROW(compact(table.ops(), options), Error);
}

TEST_P(Compact, SortingSpillsWhatItsBudgetDoesNotHold) {
  const TempFolder spill;
  RealTable table = make();
  std::mt19937_64 random(7);
  for (int file = 0; file < 4; ++file) {
    Ids ids;
    for (int i = 0; i < 20'000; ++i) ids.push_back(static_cast<int64_t>(random() >> 1));
    table.append_ids(ids);
  }
  const Lines before = table.lineage();
  CompactOptions options = eager();
  options.strategy = CompactStrategy::sort;
  options.sort_order = SortOrder{.fields = {{.transform = Transform::parse("identity"), .source_ids = {1}}}};
  options.memory_bytes_max = 2 << 20;  // of rows that take about 5 MB
  options.spill_folder = spill.path();
  const CompactResult result = compact_well(table, options);
  EXPECT_GE(result.runs_spilled, 3);
  const Ids stored = stored_ids(table);
  EXPECT_TRUE(std::is_sorted(stored.begin(), stored.end()));
  EXPECT_EQ(table.lineage(), before);
  options.memory_bytes_max = 256 << 20;
  options.rewrite_all = true;
  EXPECT_EQ(compact_well(table, options).runs_spilled, 0);
}

TEST_P(Compact, DanglingDeletesGoAndThoseInUseStay) {
  RealTable table = make({.partition = {{"p"}}});
  table.append_ids({1, 2}, "a");
  table.append_ids({3, 4}, "b");
  table.delete_ids({1}, "a");
  table.delete_ids({3}, "b");
  const std::vector<DataFile> files = table.data_files();
  // All data of partition a is replaced by rows that are younger than its deletes.
  const bool first_is_a = std::get<std::string>(files[0].partition[0]) == "a";
  table.commit("overwrite", table.write(RealTable::rows_of({1, 5}, "a")), {files[first_is_a ? 0 : 1]});
  ASSERT_THAT(table.delete_files(), SizeIs(2));
  const Ids before = table.ids();
  EXPECT_THAT(remove_dangling_deletes(table.ops(), "main", /*dry_run=*/true), SizeIs(1));
  ASSERT_THAT(table.delete_files(), SizeIs(2));
  EXPECT_THAT(remove_dangling_deletes(table.ops()), SizeIs(1));
  ASSERT_THAT(table.delete_files(), SizeIs(1));
  EXPECT_EQ(std::get<std::string>(table.delete_files()[0].partition[0]), "b");
  EXPECT_EQ(table.ids(), before);
  EXPECT_THAT(remove_dangling_deletes(table.ops()), IsEmpty());
}

TEST_P(Compact, EqualityDeletesOfAnUnpartitionedSpecAreInUseWhileAnyOlderFileIsThere) {
  RealTable table = make();
  table.append_ids({1, 2});
  table.delete_ids({1});
  table.change([](TableMetadata& next) { return update_spec(next, {.add = {{.column = "p"}}}); });
  table.append_ids({3}, "b");
  EXPECT_THAT(remove_dangling_deletes(table.ops()), IsEmpty());
  EXPECT_THAT(table.ids(), ElementsAre(2, 3));
}

TEST_P(Compact, WritersAtWorkLoseNothing) {
  RealTable table = make({.properties = {{"commit.retry.num-retries", "1000"}}});
  for (int64_t id = 0; id < 10; ++id) table.append_ids({id});
  std::thread writer([&] {
    for (int64_t id = 10; id < 40; ++id) table.append_ids({id});
    for (int64_t id = 0; id < 10; ++id) table.delete_ids({id});
  });
  for (int i = 0; i < 10; ++i) {
    const CompactResult result = compact(table.ops(), eager());
    for (const CompactFailure& failure : result.failures) EXPECT_EQ(failure.kind, ErrorKind::commit_conflict);
  }
  writer.join();
  CompactOptions all = eager();
  all.rewrite_all = true;  // a single file with deletes is not worth it otherwise
  compact_well(table, all);
  Ids expected;
  for (int64_t id = 10; id < 40; ++id) expected.push_back(id);
  EXPECT_EQ(table.ids(), expected);
  EXPECT_THAT(table.data_files(), SizeIs(1));
  EXPECT_THAT(table.delete_files(), IsEmpty());
}

TEST_P(Compact, AnUnknownOutcomeLeavesTheFilesThatMayBeNamed) {
  RealTable table = make({.properties = {{"commit.status-check.num-retries", "0"}, {"commit.retry.num-retries", "0"}}});
  table.append_ids({1});
  table.append_ids({2});
  table.store->lie_once(".metadata.json", Lie::late);
  EXPECT_THROW(
      {
        try {
          compact(table.ops(), eager());
        } catch (const Error& e) {
          EXPECT_EQ(e.kind(), ErrorKind::commit_unknown);
          throw;
        }
      },
      Error);
  table.store->deliver_late();
  EXPECT_THAT(table.data_files(), SizeIs(1));
  EXPECT_THAT(table.ids(), ElementsAre(1, 2));
}

TEST_P(Compact, RowsFromBeforeAStructWithRequiredMembersAreRewritten) {
  RealTable table = make();
  for (int64_t id = 1; id <= 3; ++id) table.append_ids({id});
  table.change([](TableMetadata& next) {
    return update_schema(next, [](SchemaUpdate& update) {
      const auto inner =
          Type::struct_of({{.id = 1, .name = "x", .required = true, .type = Type::primitive(TypeId::int_)}});
      NewColumn added;
      added.name = "st";
      added.type = Type::struct_of({{.id = 2, .name = "deep", .required = true, .type = inner}});
      update.add_column(added);
    });
  });
  const Lines before = table.rows();
  EXPECT_EQ(compact_well(table, eager()).groups_rewritten, 1);
  EXPECT_EQ(table.rows(), before);
  table.append(R"([{"id":4,"st":{"deep":{"x":7}}}])");
  const Lines mixed = table.rows();
  EXPECT_EQ(compact_well(table, eager()).groups_rewritten, 1);
  EXPECT_EQ(table.rows(), mixed);
  EXPECT_THAT(mixed, Contains(HasSubstr(R"("st":{"deep":{"x":7}})")));
}

}  // namespace
}  // namespace firn::iceberg
