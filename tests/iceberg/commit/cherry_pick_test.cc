// Publishing staged snapshots and picking those of other branches (Iceberg spec, "Snapshot summary": wap.id,
// published-wap-id, source-snapshot-id).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "iceberg/commit/cherry_pick.h"
#include "iceberg/metadata/changes.h"
#include "iceberg/tiny_table.h"
#include "support/fake_store.h"

namespace firn::iceberg {
namespace {

using Strings = std::vector<std::string>;

constexpr const char* kLocation = "mem://w/t";

DataFile in_partition(DataFile file, const std::string& name) {
  file.partition = {Value(name)};
  return file;
}

class CherryPick : public ::testing::Test {
 protected:
  void make(bool partitioned = false, int version = 2) {
    const Schema schema = tiny_schema();
    const PartitionSpec spec = partitioned ? make_partition_spec({{"name"}}, schema) : PartitionSpec();
    create_filesystem_table(
        store, new_table_metadata(kLocation, schema, spec, {},
                                  tiny_properties({{"format-version", std::to_string(version)}}), now_ms()));
    table = open_filesystem_table(store, kLocation);
  }
  int64_t commit(std::vector<DataFile> added, const std::string& branch = "main") {
    SnapshotChange change = base_change(std::move(added));
    change.branch = branch;
    return commit_snapshot(*table, change).snapshot_id;
  }
  int64_t stage(std::vector<DataFile> added, const std::string& wap_id) {
    SnapshotChange change = base_change(std::move(added));
    change.stage_only = true;
    change.summary["wap.id"] = wap_id;
    return commit_snapshot(*table, change).snapshot_id;
  }
  // Replaces partition `name` with `file`, on a branch of its own.
  int64_t replace_on_branch(DataFile file, std::vector<DataFile> removed, const std::string& branch) {
    SnapshotChange change = base_change({std::move(file)});
    change.operation = "overwrite";
    change.removed = std::move(removed);
    change.branch = branch;
    change.summary["replace-partitions"] = "true";
    return commit_snapshot(*table, change).snapshot_id;
  }
  void make_branch(const std::string& name) {
    commit_metadata(*table, [&](TableMetadata& next) { return set_branch(next, name, {}, now_ms()); });
  }
  ErrorKind refusal(const std::function<void()>& work) {
    try {
      work();
    } catch (const Error& e) {
      return e.kind();
    }
    ADD_FAILURE() << "nothing was thrown";
    return ErrorKind::internal;
  }
  const Snapshot& head(const CommitResult& result) { return *result.table.metadata->current_snapshot(); }

  std::shared_ptr<FakeStore> store = std::make_shared<FakeStore>();
  std::shared_ptr<TableOperations> table;

 private:
  SnapshotChange base_change(std::vector<DataFile> added) {
    SnapshotChange change = tiny_append(*table->load().metadata, "");
    change.added = std::move(added);
    return change;
  }
};

TEST_F(CherryPick, AStagedSnapshotThatFollowsTheHeadOnlyMovesTheBranch) {
  make();
  commit({tiny_file("a")});
  const int64_t staged = stage({tiny_file("b")}, "w1");
  EXPECT_EQ(live_paths(*table), Strings{"a"});
  const CommitResult result = publish_staged(*table, "w1");
  EXPECT_EQ(result.snapshot_id, staged);
  EXPECT_EQ(result.table.metadata->current_snapshot_id, staged);
  EXPECT_EQ(result.table.metadata->snapshots.size(), 2u);
  EXPECT_EQ(result.table.metadata->snapshot_log.back().snapshot_id, staged);
  EXPECT_EQ(live_paths(*table), (Strings{"a", "b"}));
  EXPECT_EQ(refusal([&] { publish_staged(*table, "w1"); }), ErrorKind::already_exists);
}

TEST_F(CherryPick, IntoAnEmptyTableTheFirstSnapshotIsTaken) {
  make();
  const int64_t staged = stage({tiny_file("a")}, "w1");
  EXPECT_EQ(table->load().metadata->current_snapshot(), nullptr);
  EXPECT_EQ(publish_staged(*table, "w1").snapshot_id, staged);
  EXPECT_EQ(live_paths(*table), Strings{"a"});
}

TEST_F(CherryPick, AnAppendIsAppliedAgainWhereTheHeadWentOn) {
  for (const int version : {2, 3}) {
    SCOPED_TRACE(version);
    store = std::make_shared<FakeStore>();
    make(false, version);
    commit({tiny_file("a", 10)});
    const int64_t staged = stage({tiny_file("b", 5)}, "w1");
    commit({tiny_file("c", 2)});
    const CommitResult result = publish_staged(*table, "w1");
    EXPECT_NE(result.snapshot_id, staged);
    EXPECT_EQ(head(result).snapshot_id, result.snapshot_id);
    EXPECT_EQ(head(result).operation(), "append");
    EXPECT_EQ(head(result).summary.at("source-snapshot-id"), std::to_string(staged));
    EXPECT_EQ(head(result).summary.at("published-wap-id"), "w1");
    EXPECT_FALSE(head(result).summary.contains("wap.id"));
    EXPECT_EQ(head(result).summary.at("total-records"), "17");
    EXPECT_EQ(live_paths(*table), (Strings{"a", "b", "c"}));
    EXPECT_EQ(refusal([&] { publish_staged(*table, "w1"); }), ErrorKind::already_exists) << "once";
    EXPECT_EQ(refusal([&] { cherry_pick(*table, staged); }), ErrorKind::already_exists);
    if (version < 3) continue;
    std::map<std::string, int64_t> ids;
    const LoadedTable loaded = table->load();
    for (const ManifestEntry& entry : live_entries(*loaded.metadata, *loaded.metadata->current_snapshot(), *store))
      ids[entry.file.file_path] = *entry.file.first_row_id;
    EXPECT_EQ(ids, (std::map<std::string, int64_t>{{"a", 0}, {"b", 17}, {"c", 15}}))
        << "a new snapshot gives row ids of its own";
  }
}

TEST_F(CherryPick, AWapIdIsPublishedOnceWhateverTheSnapshot) {
  make();
  commit({tiny_file("a")});
  const int64_t first = stage({tiny_file("b")}, "same");
  const int64_t second = stage({tiny_file("c")}, "same");
  EXPECT_EQ(refusal([&] { publish_staged(*table, "same"); }), ErrorKind::invalid_argument) << "which of them?";
  cherry_pick(*table, first);
  EXPECT_EQ(refusal([&] { cherry_pick(*table, second); }), ErrorKind::already_exists);
  EXPECT_EQ(refusal([&] { publish_staged(*table, "other"); }), ErrorKind::not_found);
  EXPECT_EQ(live_paths(*table), (Strings{"a", "b"}));
  // Asked for by the id, the one that is left is meant.
  publish_staged(*table, "same");
  EXPECT_EQ(live_paths(*table), (Strings{"a", "b", "c"}));
  EXPECT_EQ(refusal([&] { publish_staged(*table, "same"); }), ErrorKind::already_exists);
  EXPECT_EQ(live_paths(*table), (Strings{"a", "b", "c"}));
}

TEST_F(CherryPick, OfAnotherBranchGoesWhereItIsAsked) {
  make();
  commit({tiny_file("a")});
  make_branch("dev");
  make_branch("audit");
  const int64_t on_dev = commit({tiny_file("b")}, "dev");
  commit({tiny_file("c")});
  const CommitResult on_main = cherry_pick(*table, on_dev);
  EXPECT_EQ(live_paths(*table), (Strings{"a", "b", "c"}));
  EXPECT_EQ(on_main.table.metadata->refs.at("dev").snapshot_id, on_dev);
  const CommitResult on_audit = cherry_pick(*table, on_dev, "audit");
  EXPECT_EQ(on_audit.table.metadata->refs.at("audit").snapshot_id, on_dev) << "its head is the parent";
  EXPECT_EQ(on_audit.table.metadata->refs.at("main").snapshot_id, on_main.snapshot_id);
  EXPECT_EQ(refusal([&] { cherry_pick(*table, on_dev, "nowhere"); }), ErrorKind::not_found);
  EXPECT_EQ(refusal([&] { cherry_pick(*table, 12345); }), ErrorKind::not_found);
  EXPECT_EQ(refusal([&] { cherry_pick(*table, on_dev, "dev"); }), ErrorKind::already_exists);
}

TEST_F(CherryPick, APartitionOverwriteIsAppliedIfItsPartitionsAreAsTheyWere) {
  make(true);
  commit({in_partition(tiny_file("x1"), "x"), in_partition(tiny_file("y1"), "y")});
  make_branch("dev");
  const int64_t replaced =
      replace_on_branch(in_partition(tiny_file("x2"), "x"), {in_partition(tiny_file("x1"), "x")}, "dev");
  commit({in_partition(tiny_file("y2"), "y")});
  const CommitResult result = cherry_pick(*table, replaced);
  EXPECT_EQ(head(result).operation(), "overwrite");
  EXPECT_EQ(head(result).summary.at("source-snapshot-id"), std::to_string(replaced));
  EXPECT_EQ(live_paths(*table), (Strings{"x2", "y1", "y2"}));
}

TEST_F(CherryPick, APartitionOverwriteIsRefusedOnceAPartitionChanged) {
  make(true);
  commit({in_partition(tiny_file("x1"), "x"), in_partition(tiny_file("y1"), "y")});
  make_branch("dev");
  const int64_t replaced =
      replace_on_branch(in_partition(tiny_file("x2"), "x"), {in_partition(tiny_file("x1"), "x")}, "dev");
  commit({in_partition(tiny_file("x3"), "x")});
  EXPECT_EQ(refusal([&] { cherry_pick(*table, replaced); }), ErrorKind::commit_conflict);
  EXPECT_EQ(live_paths(*table), (Strings{"x1", "x3", "y1"}));
}

TEST_F(CherryPick, APartitionOverwriteOfAnotherHistoryIsRefused) {
  make(true);
  const int64_t first = commit({in_partition(tiny_file("x1"), "x")});
  make_branch("dev");
  commit({in_partition(tiny_file("x2"), "x")}, "dev");
  const int64_t replaced =
      replace_on_branch(in_partition(tiny_file("y1"), "y"), {in_partition(tiny_file("x2"), "x")}, "dev");
  commit({in_partition(tiny_file("z1"), "z")});
  EXPECT_EQ(refusal([&] { cherry_pick(*table, replaced); }), ErrorKind::commit_conflict);
  EXPECT_NE(table->load().metadata->current_snapshot_id, first);
}

TEST_F(CherryPick, OtherOperationsOnlyFastForward) {
  make();
  commit({tiny_file("a"), tiny_file("b")});
  make_branch("dev");
  SnapshotChange change = tiny_append(*table->load().metadata, "");
  change.operation = "delete";
  change.added.clear();
  change.removed = {tiny_file("a")};
  change.branch = "dev";
  const int64_t deleted = commit_snapshot(*table, change).snapshot_id;
  make_branch("same");
  EXPECT_EQ(cherry_pick(*table, deleted, "same").snapshot_id, deleted);
  commit({tiny_file("c")});
  EXPECT_EQ(refusal([&] { cherry_pick(*table, deleted); }), ErrorKind::unsupported);
  EXPECT_EQ(live_paths(*table), (Strings{"a", "b", "c"}));
}

// P1.6
TEST_F(CherryPick, ALostAnswerDoesNotPickTwice) {
  make();
  commit({tiny_file("a")});
  stage({tiny_file("b")}, "w1");
  commit({tiny_file("c")});
  store->lie_once("v5.metadata.json", Lie::applied);
  const CommitResult result = publish_staged(*table, "w1");
  EXPECT_EQ(table->load().metadata->current_snapshot_id, result.snapshot_id);
  EXPECT_EQ(live_paths(*table), (Strings{"a", "b", "c"}));
}

}  // namespace
}  // namespace firn::iceberg
