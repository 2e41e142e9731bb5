// Where a commit's id is looked for, and when the answer is that nobody knows (protocols P3.2). Values only.
#include <gtest/gtest.h>

#include "iceberg/tiny_table.h"

namespace firn::iceberg {
namespace {

// A history of snapshots 1, 2, 3 … on main, sequence numbers the same; `ids` are the values of their commit id.
TableMetadata history(const std::vector<std::string>& ids) {
  TableMetadata metadata = tiny_metadata("mem://t");
  for (size_t i = 0; i < ids.size(); ++i) {
    Snapshot snapshot;
    snapshot.snapshot_id = static_cast<int64_t>(i) + 1;
    if (i > 0) snapshot.parent_snapshot_id = static_cast<int64_t>(i);
    snapshot.sequence_number = static_cast<int64_t>(i) + 1;
    snapshot.summary = {{"operation", "append"}, {"id", ids[i]}};
    add_snapshot(metadata, snapshot, "main");
  }
  return metadata;
}

void expire(TableMetadata& metadata, int64_t id) {
  metadata.snapshots.erase_if([&](const Snapshot& snapshot) { return snapshot.snapshot_id == id; });
}

std::optional<int64_t> find(const TableMetadata& metadata, const std::string& value, int64_t floor,
                            const std::string& branch = "main") {
  return find_commit(metadata, branch, CommitId{"id", value, floor});
}

bool is_unknown(const TableMetadata& metadata, const std::string& value, int64_t floor) {
  try {
    find(metadata, value, floor);
  } catch (const Error& e) {
    return e.kind() == ErrorKind::commit_unknown;
  }
  return false;
}

TEST(FindCommit, IsFoundAlongTheBranchAboveTheFloor) {
  const TableMetadata metadata = history({"a", "b", "c"});
  EXPECT_EQ(find(metadata, "b", 0), 2);
  EXPECT_EQ(find(metadata, "b", 1), 2);
  EXPECT_EQ(find(metadata, "b", 2), std::nullopt);  // the floor is from before the first attempt
  EXPECT_EQ(find(metadata, "x", 0), std::nullopt);
  EXPECT_EQ(find(history({}), "a", 0), std::nullopt);
}

TEST(FindCommit, AHistoryCutAboveTheFloorIsNoAnswer) {
  TableMetadata metadata = history({"a", "b", "c", "d"});
  expire(metadata, 2);
  EXPECT_TRUE(is_unknown(metadata, "x", 0));
  EXPECT_TRUE(is_unknown(metadata, "x", 1));
  EXPECT_EQ(find(metadata, "d", 0), 4);             // found before the cut
  EXPECT_EQ(find(metadata, "x", 2), std::nullopt);  // what is gone is at or below the floor
  EXPECT_EQ(find(metadata, "x", 3), std::nullopt);
}

TEST(FindCommit, ARolledBackCommitDoesNotCount) {
  TableMetadata metadata = history({"a", "b", "c"});
  metadata.current_snapshot_id = 1;
  metadata.refs["main"].snapshot_id = 1;
  EXPECT_EQ(find(metadata, "c", 0), std::nullopt);
  EXPECT_EQ(find(metadata, "a", 0), 1);
}

TEST(FindCommit, OtherBranchesDoNotCount) {
  TableMetadata metadata = history({"a", "b"});
  metadata.refs["dev"] = SnapshotRef{.snapshot_id = 1};
  EXPECT_EQ(find(metadata, "b", 0, "dev"), std::nullopt);
  EXPECT_EQ(find(metadata, "a", 0, "dev"), 1);
  EXPECT_EQ(find(metadata, "b", 0, "new"), 2);  // a branch that is not there yet starts at main
}

TEST(FindCommit, ACherryPickStandsForItsSource) {
  TableMetadata metadata = history({"a", "b", "c"});
  metadata.current_snapshot_id = 1;
  metadata.refs["main"].snapshot_id = 1;
  Snapshot picked;
  picked.snapshot_id = 10;
  picked.parent_snapshot_id = 1;
  picked.sequence_number = 4;
  picked.summary = {{"operation", "append"}, {"source-snapshot-id", "3"}};
  add_snapshot(metadata, picked, "main");
  EXPECT_EQ(find(metadata, "c", 0), 10);
  EXPECT_EQ(find(metadata, "b", 0), std::nullopt);
  EXPECT_EQ(find(metadata, "c", 3), std::nullopt);  // the source is from before the first attempt
  expire(metadata, 3);
  EXPECT_TRUE(is_unknown(metadata, "c", 0));
}

}  // namespace
}  // namespace firn::iceberg
