// What one append leaves in the table: summary, sequence numbers, row ids, manifests (Iceberg spec, "Snapshots").
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "iceberg/tiny_table.h"
#include "support/fake_store.h"

namespace firn::iceberg {
namespace {

using ::testing::IsSupersetOf;
using ::testing::Pair;

constexpr const char* kLocation = "mem://w/t";

class Append : public ::testing::Test {
 protected:
  std::shared_ptr<TableOperations> make(std::map<std::string, std::string> properties = {}) {
    create_filesystem_table(store, tiny_metadata(kLocation, std::move(properties)));
    return open_filesystem_table(store, kLocation);
  }
  CommitResult append(TableOperations& table, std::vector<DataFile> files) {
    SnapshotChange commit = tiny_append(*table.load().metadata, "");
    commit.added = std::move(files);
    return commit_snapshot(table, commit);
  }
  std::vector<ManifestFile> manifests(const LoadedTable& table) {
    const std::string& path = table.metadata->current_snapshot()->manifest_list;
    return read_manifest_list(store->read(path), path);
  }

  std::shared_ptr<FakeStore> store = std::make_shared<FakeStore>();
};

TEST_F(Append, TheSummaryHasTheCountsThatJavaWrites) {
  const auto table = make();
  append(*table, {tiny_file("a", 10, 1000), tiny_file("b", 5, 500)});
  const CommitResult second = append(*table, {tiny_file("c", 3, 300)});
  const Snapshot& snapshot = *second.table.metadata->current_snapshot();
  EXPECT_EQ(snapshot.snapshot_id, second.snapshot_id);
  EXPECT_EQ(snapshot.operation(), "append");
  EXPECT_EQ(snapshot.summary, (std::map<std::string, std::string>{{"operation", "append"},
                                                                  {"added-data-files", "1"},
                                                                  {"added-records", "3"},
                                                                  {"added-files-size", "300"},
                                                                  {"changed-partition-count", "1"},
                                                                  {"total-records", "18"},
                                                                  {"total-files-size", "1800"},
                                                                  {"total-data-files", "3"},
                                                                  {"total-delete-files", "0"},
                                                                  {"total-position-deletes", "0"},
                                                                  {"total-equality-deletes", "0"}}));
  EXPECT_EQ(snapshot.schema_id, 0);
  ASSERT_TRUE(snapshot.parent_snapshot_id);
  EXPECT_EQ(second.table.metadata->snapshots.size(), 2u);
}

TEST_F(Append, ATotalThatTheParentLacksStaysUnknown) {
  const auto table = make();
  append(*table, {tiny_file("a", 10)});
  commit_metadata(*table, [](TableMetadata& next) {
    Snapshot first = next.snapshots[0];
    if (first.summary.erase("total-records") == 0) return false;
    next.snapshots.replace(0, first);
    return true;
  });
  const CommitResult second = append(*table, {tiny_file("b", 3)});
  const auto& summary = second.table.metadata->current_snapshot()->summary;
  EXPECT_FALSE(summary.contains("total-records"));
  EXPECT_EQ(summary.at("total-data-files"), "2");
}

TEST_F(Append, ChangedPartitionsAreCounted) {
  const Schema schema = tiny_schema();
  create_filesystem_table(store, new_table_metadata(kLocation, schema, make_partition_spec({{"name"}}, schema), {},
                                                    tiny_properties(), now_ms()));
  const auto table = open_filesystem_table(store, kLocation);
  std::vector<DataFile> files = {tiny_file("a"), tiny_file("b"), tiny_file("c"), tiny_file("d")};
  files[0].partition = {Value(std::string("x"))};
  files[1].partition = {Value(std::string("y"))};
  files[2].partition = {Value(std::string("x"))};
  files[3].partition = {Value()};
  const CommitResult result = append(*table, files);
  EXPECT_EQ(result.table.metadata->current_snapshot()->summary.at("changed-partition-count"), "3");
  EXPECT_EQ(live_paths(*table), (std::vector<std::string>{"a", "b", "c", "d"}));
}

TEST_F(Append, SequenceNumbersAreThoseOfTheCommitThatAdded) {
  const auto table = make();
  append(*table, {tiny_file("a")});
  append(*table, {tiny_file("b")});
  const LoadedTable head = table->load();
  EXPECT_EQ(head.metadata->last_sequence_number, 2);
  std::map<std::string, int64_t> numbers;
  for (const ManifestEntry& entry : live_entries(*head.metadata, *head.metadata->current_snapshot(), *store)) {
    numbers[entry.file.file_path] = *entry.sequence_number;
    EXPECT_EQ(entry.sequence_number, entry.file_sequence_number);
  }
  EXPECT_EQ(numbers, (std::map<std::string, int64_t>{{"a", 1}, {"b", 2}}));
}

TEST_F(Append, RowIdsGoOnWhereTheTableStopped) {
  const auto table = make({{"format-version", "3"}});
  append(*table, {tiny_file("a", 10), tiny_file("b", 5)});
  const CommitResult second = append(*table, {tiny_file("c", 3)});
  const TableMetadata& metadata = *second.table.metadata;
  EXPECT_EQ(metadata.next_row_id, 18);
  EXPECT_EQ(metadata.snapshots[0].first_row_id, 0);
  EXPECT_EQ(metadata.snapshots[0].added_rows, 15);
  EXPECT_EQ(metadata.snapshots[1].first_row_id, 15);
  EXPECT_EQ(metadata.snapshots[1].added_rows, 3);
  std::map<std::string, int64_t> first_ids;
  for (const ManifestEntry& entry : live_entries(metadata, *metadata.current_snapshot(), *store)) {
    first_ids[entry.file.file_path] = *entry.file.first_row_id;
  }
  EXPECT_EQ(first_ids, (std::map<std::string, int64_t>{{"a", 0}, {"b", 10}, {"c", 15}}));
}

TEST_F(Append, SmallManifestsAreMergedAndEntriesKeepTheirNumbersAndRowIds) {
  const auto table = make({{"format-version", "3"}, {"commit.manifest.min-count-to-merge", "4"}});
  constexpr int kCommits = 30;
  for (int i = 0; i < kCommits; ++i) append(*table, {tiny_file(fmt::format("f{:02}", i), 2)});
  const LoadedTable head = table->load();
  EXPECT_LE(manifests(head).size(), 5u);
  EXPECT_EQ(head.metadata->next_row_id, 2 * kCommits);
  const auto entries = live_entries(*head.metadata, *head.metadata->current_snapshot(), *store);
  ASSERT_EQ(entries.size(), static_cast<size_t>(kCommits));
  for (const ManifestEntry& entry : entries) {
    const int i = std::stoi(entry.file.file_path.substr(1));
    EXPECT_EQ(entry.sequence_number, i + 1);
    EXPECT_EQ(entry.file_sequence_number, i + 1);
    EXPECT_EQ(entry.file.first_row_id, 2 * i);
    EXPECT_EQ(entry.snapshot_id, head.metadata->snapshots[static_cast<size_t>(i)].snapshot_id);
  }
}

TEST_F(Append, ManifestsStayApartWhereMergingIsOff) {
  const auto table = make({{"commit.manifest-merge.enabled", "false"}, {"commit.manifest.min-count-to-merge", "2"}});
  for (int i = 0; i < 6; ++i) append(*table, {tiny_file(std::to_string(i))});
  EXPECT_EQ(manifests(table->load()).size(), 6u);
}

TEST_F(Append, ManifestsThatFillTheTargetAreMergedAndThenLeftAlone) {
  const auto table = make({{"commit.manifest.target-size-bytes", "12000"}});
  for (int i = 0; i < 40; ++i) append(*table, {tiny_file(std::to_string(i))});
  const LoadedTable head = table->load();
  EXPECT_LT(manifests(head).size(), 20u);
  EXPECT_EQ(live_paths(*table).size(), 40u);
}

// P1.8
TEST_F(Append, NothingThatThisProcessWroteIsReadBack) {
  const auto table = make({{"commit.manifest.min-count-to-merge", "4"}});
  const int64_t reads = store->num_reads(".metadata.json");
  for (int i = 0; i < 10; ++i) append(*table, {tiny_file(std::to_string(i))});
  EXPECT_EQ(store->num_reads(".avro"), 0);
  EXPECT_EQ(store->num_reads(".metadata.json"), reads);
}

TEST_F(Append, ABranchTakesCommitsOfItsOwn) {
  const auto table = make();
  append(*table, {tiny_file("a")});
  SnapshotChange commit = tiny_append(*table->load().metadata, "b");
  commit.branch = "dev";
  const CommitResult result = commit_snapshot(*table, commit);
  const TableMetadata& metadata = *result.table.metadata;
  EXPECT_EQ(metadata.refs.at("dev").snapshot_id, result.snapshot_id);
  EXPECT_EQ(metadata.find_snapshot(result.snapshot_id)->parent_snapshot_id, metadata.current_snapshot_id);
  EXPECT_EQ(live_paths(*table), std::vector<std::string>{"a"});
  EXPECT_EQ(live_entries(metadata, *metadata.find_snapshot(result.snapshot_id), *store).size(), 2u);
}

TEST_F(Append, AnAppendOfNoFilesIsASnapshotOfTheSameFiles) {
  const auto table = make();
  append(*table, {tiny_file("a")});
  append(*table, {});
  EXPECT_EQ(table->load().metadata->snapshots.size(), 2u);
  EXPECT_EQ(live_paths(*table), std::vector<std::string>{"a"});
}

TEST_F(Append, AFileOfAnotherSpecIsRefused) {
  const auto table = make();
  DataFile file = tiny_file("a");
  file.partition_spec_id = 4;
  try {
    append(*table, {file});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::invalid_argument);
  }
}

}  // namespace
}  // namespace firn::iceberg
