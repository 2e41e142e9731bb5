// Publishing a version, and telling what became of it (protocols P1.2–P1.6), over a store that lies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/fault_point.h"
#include "iceberg/tiny_table.h"
#include "support/fake_store.h"

namespace firn::iceberg {
namespace {

constexpr const char* kLocation = "mem://w/t";

std::string version_path(int64_t version) { return fmt::format("{}/metadata/v{}.metadata.json", kLocation, version); }

// A snapshot of `id` added to `base`, without files.
TableMetadata with_snapshot(const LoadedTable& base, int64_t id) {
  TableMetadata next = *base.metadata;
  Snapshot snapshot;
  snapshot.snapshot_id = id;
  snapshot.parent_snapshot_id = next.current_snapshot_id;
  snapshot.sequence_number = next.last_sequence_number + 1;
  snapshot.manifest_list = fmt::format("{}/metadata/snap-{}.avro", kLocation, id);
  snapshot.summary = {{"operation", "append"}};
  snapshot.schema_id = next.current_schema_id;
  add_snapshot(next, snapshot, "main");
  return next;
}

class Publish : public ::testing::Test {
 protected:
  void make(std::map<std::string, std::string> properties = {}) {
    create_filesystem_table(store, tiny_metadata(kLocation, std::move(properties)));
  }
  std::shared_ptr<TableOperations> open() { return open_filesystem_table(store, kLocation); }
  // `num` commits by another process; its snapshots are numbered from `first_id`.
  void commit_elsewhere(int num, int64_t first_id) {
    const auto table = open();
    for (int i = 0; i < num; ++i) {
      const LoadedTable base = table->load();
      ASSERT_EQ(table->publish(base, with_snapshot(base, first_id + i), first_id + i).outcome, PublishOutcome::landed);
    }
  }
  void drop() {
    for (const std::string& path : store->paths()) store->remove(path);
  }
  std::vector<int64_t> snapshot_ids() {
    const LoadedTable head = open()->load();
    std::vector<int64_t> ids;
    for (const Snapshot& snapshot : head.metadata->snapshots) ids.push_back(snapshot.snapshot_id);
    return ids;
  }
  std::string hint() { return store->read(std::string(kLocation) + "/metadata/version-hint.text"); }

  std::shared_ptr<FakeStore> store = std::make_shared<FakeStore>();
};

TEST_F(Publish, AVersionIsTheHeadOnceItLanded) {
  make();
  const auto table = open();
  const LoadedTable base = table->load();
  const auto published = table->publish(base, with_snapshot(base, 7), 7);
  ASSERT_EQ(published.outcome, PublishOutcome::landed);
  EXPECT_EQ(published.table.version, 2);
  EXPECT_EQ(hint(), "2");
  EXPECT_EQ(snapshot_ids(), std::vector<int64_t>{7});
  const LoadedTable head = open()->load();
  EXPECT_EQ(head.metadata_path, version_path(2));
  EXPECT_EQ(head.file_version, published.table.file_version);
  ASSERT_EQ(head.metadata->metadata_log.size(), 1u);
  EXPECT_EQ(head.metadata->metadata_log[0].metadata_file, version_path(1));
  EXPECT_GE(head.metadata->last_updated_ms, base.metadata->last_updated_ms);
}

TEST_F(Publish, OfTwoOnOneBaseOneIsLost) {
  make();
  const auto a = open(), b = open();
  const LoadedTable base_a = a->load(), base_b = b->load();
  EXPECT_EQ(a->publish(base_a, with_snapshot(base_a, 1), 1).outcome, PublishOutcome::landed);
  const auto lost = b->publish(base_b, with_snapshot(base_b, 2), 2);
  EXPECT_EQ(lost.outcome, PublishOutcome::lost);
  EXPECT_EQ(lost.table.version, 2);
  EXPECT_EQ(snapshot_ids(), std::vector<int64_t>{1});
}

// P1.3: the name is free again, since old versions were pruned.
TEST_F(Publish, AWriter150CommitsBehindIsLostAndLeavesNoStray) {
  make({{"write.metadata.previous-versions-max", "5"}, {"write.metadata.delete-after-commit.enabled", "true"}});
  const auto behind = open();
  const LoadedTable base = behind->load();
  commit_elsewhere(150, 1000);
  ASSERT_FALSE(store->stat(version_path(2)));
  EXPECT_EQ(behind->publish(base, with_snapshot(base, 1), 1).outcome, PublishOutcome::lost);
  EXPECT_FALSE(store->stat(version_path(2)));
  EXPECT_EQ(hint(), "151");
  EXPECT_EQ(snapshot_ids().size(), 150u);
}

TEST_F(Publish, AWriterWithoutSnapshot150CommitsBehindIsLostToo) {
  make({{"write.metadata.previous-versions-max", "5"}, {"write.metadata.delete-after-commit.enabled", "true"}});
  const auto behind = open();
  const LoadedTable base = behind->load();
  commit_elsewhere(150, 1000);
  TableMetadata next = *base.metadata;
  next.properties["owner"] = "old";
  EXPECT_EQ(behind->publish(base, next, 0).outcome, PublishOutcome::lost);
  EXPECT_FALSE(store->stat(version_path(2)));
  EXPECT_EQ(open()->load().metadata->property("owner", ""), "");
}

// P1.3 again, where a crash left the base of the one behind: then the hint alone tells.
TEST_F(Publish, ABaseThatACrashLeftBehindDoesNotProveTheHead) {
  make({{"write.metadata.previous-versions-max", "5"}, {"write.metadata.delete-after-commit.enabled", "true"}});
  const auto behind = open();
  const LoadedTable first = behind->load();
  const std::string bytes = store->read(version_path(1));
  commit_elsewhere(50, 1000);
  store->replace(version_path(1), bytes);  // as if its pruner had died
  const LoadedTable base{first.metadata, first.metadata_path, 1, store->stat(version_path(1))->version};
  EXPECT_EQ(behind->publish(base, with_snapshot(base, 2), 2).outcome, PublishOutcome::lost);
  EXPECT_FALSE(store->stat(version_path(2)));
  EXPECT_EQ(snapshot_ids().size(), 50u);
}

TEST_F(Publish, AWriterOfADroppedTableIsRefusedAndItsStrayRemoved) {
  make();
  commit_elsewhere(149, 1000);
  const auto old_writer = open();
  const LoadedTable base = old_writer->load();
  ASSERT_EQ(base.version, 150);
  drop();
  make();
  commit_elsewhere(2, 1);
  try {
    old_writer->publish(base, with_snapshot(base, 99), 99);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::not_found);
  }
  EXPECT_FALSE(store->stat(version_path(151)));
  EXPECT_EQ(snapshot_ids(), (std::vector<int64_t>{1, 2}));
}

TEST_F(Publish, APutThatWasAppliedThoughItFailedHasLanded) {
  make();
  const auto table = open();
  const LoadedTable base = table->load();
  store->lie_once("v2.metadata.json", Lie::applied);
  EXPECT_EQ(table->publish(base, with_snapshot(base, 7), 7).outcome, PublishOutcome::landed);
  EXPECT_EQ(hint(), "2");
  EXPECT_EQ(snapshot_ids(), std::vector<int64_t>{7});
}

TEST_F(Publish, ARefusalThatOurOwnPutCausedHasLanded) {
  make();
  const auto table = open();
  const LoadedTable base = table->load();
  store->lie_once("v2.metadata.json", Lie::twice);
  EXPECT_EQ(table->publish(base, with_snapshot(base, 7), 7).outcome, PublishOutcome::landed);
  TableMetadata next = *table->load().metadata;
  next.properties["owner"] = "me";
  store->lie_once("v3.metadata.json", Lie::twice);
  EXPECT_EQ(table->publish(table->load(), next, 0).outcome, PublishOutcome::landed);
  EXPECT_EQ(open()->load().metadata->property("owner", ""), "me");
}

TEST_F(Publish, APutThatWasLostIsPutAgain) {
  make();
  const auto table = open();
  const LoadedTable base = table->load();
  store->lie_once("v2.metadata.json", Lie::lost);
  EXPECT_EQ(table->publish(base, with_snapshot(base, 7), 7).outcome, PublishOutcome::landed);
  EXPECT_EQ(snapshot_ids(), std::vector<int64_t>{7});
}

TEST_F(Publish, ALatePutDoesNotCommitTwice) {
  make();
  const auto table = open();
  const LoadedTable base = table->load();
  store->lie_once("v2.metadata.json", Lie::late);
  int64_t puts = 0;
  store->before_put([&](const std::string& path) {
    if (path.ends_with("v2.metadata.json") && ++puts == 2)
      store->deliver_late();  // between the look and the second put
  });
  EXPECT_EQ(table->publish(base, with_snapshot(base, 7), 7).outcome, PublishOutcome::landed);
  EXPECT_EQ(puts, 2);
  EXPECT_EQ(snapshot_ids(), std::vector<int64_t>{7});
}

TEST_F(Publish, WithoutAnyAnswerTheOutcomeIsUnknown) {
  make();
  const auto table = open();
  const LoadedTable base = table->load();
  store->break_path(".metadata.json", 1000);
  EXPECT_EQ(table->publish(base, with_snapshot(base, 7), 7).outcome, PublishOutcome::unknown);
  store->break_path(".metadata.json", 0);
  EXPECT_EQ(snapshot_ids(), std::vector<int64_t>{});
}

TEST_F(Publish, AnotherWriterInPlaceOfAPutWithoutAnswerProvesTheLoss) {
  make();
  const auto table = open();
  const LoadedTable base = table->load();
  store->lie_once("v2.metadata.json", Lie::lost);
  int passes = 0;
  set_fault_handler([&](const char* name) {
    if (std::string(name) != "commit.publish" || ++passes != 2) return;
    commit_elsewhere(3, 100);  // before ours is put a second time
  });
  EXPECT_EQ(table->publish(base, with_snapshot(base, 7), 7).outcome, PublishOutcome::lost);
  set_fault_handler(nullptr);
  EXPECT_EQ(snapshot_ids(), (std::vector<int64_t>{100, 101, 102}));
}

TEST_F(Publish, ASnapshotBelowTheHeadHasLandedWhateverWasPublishedSince) {
  make();
  const auto table = open();
  const LoadedTable base = table->load();
  bool is_done = false;
  set_fault_handler([&](const char* name) {
    if (is_done || std::string(name) != "commit.published") return;
    is_done = true;
    commit_elsewhere(5, 100);
  });
  const auto published = table->publish(base, with_snapshot(base, 7), 7);
  set_fault_handler(nullptr);
  EXPECT_EQ(published.outcome, PublishOutcome::landed);
  EXPECT_EQ(published.table.version, 7);
  EXPECT_EQ(hint(), "7");
}

TEST_F(Publish, OldVersionsGoOldestFirstAfterTheHintAndTheLogNamesThoseThatStay) {
  make({{"write.metadata.previous-versions-max", "3"}, {"write.metadata.delete-after-commit.enabled", "true"}});
  commit_elsewhere(10, 100);
  std::vector<std::string> files;
  for (const std::string& path : store->paths()) {
    if (path.ends_with(".metadata.json")) files.push_back(path);
  }
  EXPECT_THAT(files,
              ::testing::UnorderedElementsAre(version_path(8), version_path(9), version_path(10), version_path(11)));
  std::vector<std::string> logged;
  const LoadedTable head = open()->load();
  for (const MetadataLogEntry& entry : head.metadata->metadata_log) logged.push_back(entry.metadata_file);
  EXPECT_EQ(logged, (std::vector<std::string>{version_path(8), version_path(9), version_path(10)}));
}

TEST_F(Publish, OldVersionsStayUnlessTheTableSaysSo) {
  make({{"write.metadata.previous-versions-max", "3"}});
  commit_elsewhere(10, 100);
  EXPECT_TRUE(store->stat(version_path(1)));
  EXPECT_EQ(open()->load().metadata->metadata_log.size(), 3u);
}

TEST_F(Publish, TheHintNeverGoesBelowAVersionThatIsThere) {
  make();
  const auto table = open();
  const LoadedTable base = table->load();
  set_fault_handler([&](const char* name) {
    if (std::string(name) != "commit.hint") return;
    set_fault_handler(nullptr);
    commit_elsewhere(4, 100);  // after our check, before our hint
  });
  EXPECT_EQ(table->publish(base, with_snapshot(base, 7), 7).outcome, PublishOutcome::landed);
  set_fault_handler(nullptr);
  EXPECT_EQ(hint(), "6");
}

TEST_F(Publish, AHintThatCannotBeWrittenDoesNotUndoTheCommit) {
  make();
  const auto table = open();
  const LoadedTable base = table->load();
  set_fault_handler([&](const char* name) {
    if (std::string(name) == "commit.hint") throw Error(ErrorKind::io, "disk full");
  });
  EXPECT_EQ(table->publish(base, with_snapshot(base, 7), 7).outcome, PublishOutcome::landed);
  set_fault_handler(nullptr);
  EXPECT_EQ(hint(), "1");
  EXPECT_EQ(snapshot_ids(), std::vector<int64_t>{7});
}

TEST_F(Publish, AnotherCatalogsTableIsNotCommittedTo) {
  store->replace(std::string(kLocation) + "/metadata/00003-9ec47bf9.metadata.json",
                 serialize_table_metadata(tiny_metadata(kLocation)));
  const auto table = open();
  const LoadedTable base = table->load();
  try {
    table->publish(base, with_snapshot(base, 7), 7);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::unsupported);
  }
  EXPECT_EQ(store->paths().size(), 1u);
}

TEST_F(Publish, ACompressedVersionOfAHadoopWriterTakesTheNumber) {
  make({{"write.metadata.compression-codec", "gzip"}});
  const auto table = open();
  const LoadedTable base = table->load();
  store->replace(std::string(kLocation) + "/metadata/v2.gz.metadata.json",
                 serialize_table_metadata(with_snapshot(base, 1)));
  EXPECT_EQ(table->publish(base, with_snapshot(base, 2), 2).outcome, PublishOutcome::lost);
  EXPECT_EQ(snapshot_ids(), std::vector<int64_t>{1});
}

TEST_F(Publish, CreationIsSettledWhateverTheStoreAnswers) {
  for (const Lie lie : {Lie::lost, Lie::applied, Lie::late, Lie::twice}) {
    SCOPED_TRACE(static_cast<int>(lie));
    drop();
    store->lie_once("v1.metadata.json", lie);
    const TableMetadata metadata = tiny_metadata(kLocation);
    EXPECT_EQ(create_filesystem_table(store, metadata).version, 1);
    store->deliver_late();
    EXPECT_EQ(open()->load().metadata->table_uuid, metadata.table_uuid);
    EXPECT_EQ(hint(), "1");
  }
}

TEST_F(Publish, OfTwoCreatorsOneIsRefused) {
  std::string other_uuid;
  store->before_put([&](const std::string&) {
    store->before_put(nullptr);
    const TableMetadata other = tiny_metadata(kLocation);
    other_uuid = other.table_uuid;
    create_filesystem_table(store, other);
  });
  try {
    make();
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::already_exists);
  }
  EXPECT_EQ(open()->load().metadata->table_uuid, other_uuid);
}

TEST_F(Publish, CreationWhereFirstVersionsWerePrunedIsRefused) {
  make({{"write.metadata.previous-versions-max", "2"}, {"write.metadata.delete-after-commit.enabled", "true"}});
  commit_elsewhere(9, 100);
  ASSERT_FALSE(store->stat(version_path(1)));
  try {
    make();
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::already_exists);
  }
  EXPECT_FALSE(store->stat(version_path(1)));
}

}  // namespace
}  // namespace firn::iceberg
