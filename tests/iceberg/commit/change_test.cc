// What a snapshot that removes, replaces or rewrites leaves in the table, and what stands against it (Iceberg spec,
// "Snapshots", "Commit Conflict Resolution and Retry"; protocols P1.7).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "iceberg/bounds.h"
#include "iceberg/manifest/file_identity.h"
#include "iceberg/metadata/changes.h"
#include "iceberg/tiny_table.h"
#include "support/fake_store.h"

namespace firn::iceberg {
namespace {

using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using Strings = std::vector<std::string>;

constexpr const char* kLocation = "mem://w/t";

DataFile in_partition(DataFile file, const std::string& name) {
  file.partition = {Value(name)};
  return file;
}

// Of `data_path`, at an offset of a shared file.
DataFile vector_of(const std::string& data_path, const std::string& puffin_path, int64_t offset) {
  DataFile file = tiny_file(puffin_path, 1, 500);
  file.content = FileContent::position_deletes;
  file.file_format = "PUFFIN";
  file.referenced_data_file = data_path;
  file.content_offset = offset;
  file.content_size_bytes = 40;
  return file;
}

DataFile equality_deletes(const std::string& path) {
  DataFile file = tiny_file(path);
  file.content = FileContent::equality_deletes;
  file.equality_ids = {1};
  return file;
}

class Change : public ::testing::Test {
 protected:
  void make(int version, bool partitioned = false) {
    const Schema schema = tiny_schema();
    const PartitionSpec spec = partitioned ? make_partition_spec({{"name"}}, schema) : PartitionSpec();
    create_filesystem_table(
        store, new_table_metadata(kLocation, schema, spec, {},
                                  tiny_properties({{"format-version", std::to_string(version)}}), now_ms()));
    table = open_filesystem_table(store, kLocation);
  }
  SnapshotChange change_of(const std::string& operation, std::vector<DataFile> added,
                           std::vector<DataFile> removed = {}) {
    SnapshotChange change;
    change.operation = operation;
    change.added = std::move(added);
    change.removed = std::move(removed);
    change.written_schema = table->load().metadata->schema();
    return change;
  }
  CommitResult commit(const std::string& operation, std::vector<DataFile> added, std::vector<DataFile> removed = {}) {
    return commit_snapshot(*table, change_of(operation, std::move(added), std::move(removed)));
  }
  std::optional<int64_t> head() { return table->load().metadata->current_snapshot_id; }
  std::vector<ManifestEntry> entries() {
    const LoadedTable loaded = table->load();
    return live_entries(*loaded.metadata, *loaded.metadata->current_snapshot(), *store);
  }
  const std::map<std::string, std::string>& summary() {
    last_ = table->load();
    return last_.metadata->current_snapshot()->summary;
  }
  // The message of a refused commit, which must leave the table as it was.
  std::string refusal(const SnapshotChange& change) {
    const auto before = head();
    try {
      commit_snapshot(*table, change);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::commit_conflict) << e.what();
      EXPECT_EQ(head(), before);
      return e.what();
    }
    ADD_FAILURE() << "it was committed";
    return "";
  }

  std::shared_ptr<FakeStore> store = std::make_shared<FakeStore>();
  std::shared_ptr<TableOperations> table;
  LoadedTable last_;
};

TEST_F(Change, AnOverwriteTakesOneFileAndLeavesTheOthersTheirNumbers) {
  make(3);
  commit("append", {tiny_file("a", 10, 100), tiny_file("b", 5, 50)});
  commit("overwrite", {tiny_file("c", 4, 40)}, {tiny_file("a")});
  EXPECT_EQ(live_paths(*table), (Strings{"b", "c"}));
  EXPECT_THAT(summary(), IsSupersetOf(std::map<std::string, std::string>{{"operation", "overwrite"},
                                                                         {"added-data-files", "1"},
                                                                         {"deleted-data-files", "1"},
                                                                         {"added-records", "4"},
                                                                         {"deleted-records", "10"},
                                                                         {"added-files-size", "40"},
                                                                         {"removed-files-size", "100"},
                                                                         {"total-data-files", "2"},
                                                                         {"total-records", "9"},
                                                                         {"total-files-size", "90"}}));
  for (const ManifestEntry& entry : entries()) {
    EXPECT_EQ(entry.sequence_number, entry.file.file_path == "b" ? 1 : 2);
    EXPECT_EQ(entry.file.first_row_id, entry.file.file_path == "b" ? 10 : 15);
  }
}

TEST_F(Change, TheSnapshotSaysWhichFilesItRemoved) {
  make(2);
  commit("append", {tiny_file("a"), tiny_file("b")});
  const CommitResult result = commit("delete", {}, {tiny_file("a")});
  const TableMetadata& metadata = *result.table.metadata;
  Strings removed;
  const std::string& list = metadata.current_snapshot()->manifest_list;
  for (const ManifestFile& manifest : read_manifest_list(store->read(list), list)) {
    EXPECT_EQ(manifest.deleted_files_count, 1);
    EXPECT_EQ(manifest.existing_files_count, 1);
    for (const ManifestEntry& entry :
         read_manifest(store->read(manifest.manifest_path), manifest, metadata.spec(), metadata.schema(), false)) {
      if (entry.status != EntryStatus::deleted) continue;
      removed.push_back(entry.file.file_path);
      EXPECT_EQ(entry.snapshot_id, result.snapshot_id);
      EXPECT_EQ(entry.sequence_number, 1);  // of the file, not of the delete
    }
  }
  EXPECT_EQ(removed, Strings{"a"});
}

TEST_F(Change, ARemovedFileThatIsGoneIsAConflict) {
  make(2);
  commit("append", {tiny_file("a"), tiny_file("b")});
  const SnapshotChange late = change_of("overwrite", {tiny_file("c")}, {tiny_file("a")});
  commit("delete", {}, {tiny_file("a")});
  EXPECT_THAT(refusal(late), HasSubstr("a was to be replaced"));
  EXPECT_EQ(live_paths(*table), Strings{"b"});
}

TEST_F(Change, ARemovalIsStagedAgainOverAnAppendThatCameFirst) {
  make(2);
  commit("append", {tiny_file("a"), tiny_file("b")});
  const SnapshotChange change = change_of("delete", {}, {tiny_file("a")});
  store->before_put([&](const std::string& path) {
    if (!path.ends_with(".metadata.json")) return;
    store->before_put(nullptr);
    commit_snapshot(*open_filesystem_table(store, kLocation), change_of("append", {tiny_file("c")}));
  });
  commit_snapshot(*table, change);
  EXPECT_EQ(live_paths(*table), (Strings{"b", "c"}));
  EXPECT_EQ(summary().at("total-data-files"), "2");
}

TEST_F(Change, AllDeletesOfARemovedFileGoWithIt) {
  make(3);
  commit("append", {tiny_file("a"), tiny_file("b")});
  SnapshotChange deletes = change_of("delete", {vector_of("a", "v", 4), vector_of("b", "v", 44)});
  deletes.read_check = ReadCheck{.since_snapshot_id = head()};
  commit_snapshot(*table, deletes);
  EXPECT_EQ(summary().at("added-dvs"), "2");
  EXPECT_EQ(summary().at("added-position-deletes"), "2");
  commit("delete", {}, {tiny_file("a")});
  EXPECT_EQ(summary().at("removed-dvs"), "1");
  EXPECT_EQ(summary().at("total-delete-files"), "1");
  Strings left;
  for (const ManifestEntry& entry : entries()) {
    left.push_back(entry.file.content == FileContent::data ? entry.file.file_path
                                                           : "deletes of " + entry.file.referenced_data_file);
  }
  EXPECT_THAT(left, ::testing::UnorderedElementsAre("b", "deletes of b"));
}

TEST_F(Change, AVectorIsReplacedByOneOfTheSamePuffinFile) {
  make(3);
  commit("append", {tiny_file("a"), tiny_file("b")});
  SnapshotChange first = change_of("delete", {vector_of("a", "v", 4), vector_of("b", "v", 44)});
  first.read_check = ReadCheck{.since_snapshot_id = head()};
  commit_snapshot(*table, first);
  SnapshotChange second = change_of("delete", {vector_of("b", "w", 4)}, {vector_of("b", "v", 44)});
  second.read_check = ReadCheck{.since_snapshot_id = head()};
  commit_snapshot(*table, second);
  std::map<std::string, std::string> vectors;
  for (const ManifestEntry& entry : entries()) {
    if (is_deletion_vector(entry.file)) vectors[entry.file.referenced_data_file] = entry.file.file_path;
  }
  EXPECT_EQ(vectors, (std::map<std::string, std::string>{{"a", "v"}, {"b", "w"}}));
}

TEST_F(Change, ReplacedPartitionsLoseEveryFileAndItsDeletes) {
  make(2, true);
  commit("append",
         {in_partition(tiny_file("x1"), "x"), in_partition(tiny_file("x2"), "x"), in_partition(tiny_file("y"), "y")});
  commit("delete", {in_partition(equality_deletes("ex"), "x"), in_partition(equality_deletes("ey"), "y")});
  SnapshotChange change = change_of("overwrite", {in_partition(tiny_file("x3"), "x")});
  change.replaced_partitions = {{0, {Value(std::string("x"))}}};
  commit_snapshot(*table, change);
  EXPECT_EQ(live_paths(*table), (Strings{"ey", "x3", "y"}));
  EXPECT_EQ(summary().at("changed-partition-count"), "1");
}

TEST_F(Change, ARewriteKeepsTheDataSequenceNumberItWasGiven) {
  make(2);
  commit("append", {tiny_file("a")});
  commit("append", {tiny_file("b")});
  commit("delete", {equality_deletes("e")});
  SnapshotChange rewrite = change_of("replace", {tiny_file("ab", 2)}, {tiny_file("a"), tiny_file("b")});
  rewrite.data_sequence_number = 2;
  commit_snapshot(*table, rewrite);
  for (const ManifestEntry& entry : entries()) {
    if (entry.file.file_path != "ab") continue;
    EXPECT_EQ(entry.sequence_number, 2);
    EXPECT_EQ(entry.file_sequence_number, 4);
  }
  const LoadedTable loaded = table->load();
  const std::string& list = loaded.metadata->current_snapshot()->manifest_list;
  int64_t lowest = 100;
  for (const ManifestFile& manifest : read_manifest_list(store->read(list), list)) {
    if (manifest.content == ManifestContent::data) lowest = std::min(lowest, *manifest.min_sequence_number);
  }
  EXPECT_EQ(lowest, 2);
}

TEST_F(Change, AStagedSnapshotMovesNoBranch) {
  make(3);
  commit("append", {tiny_file("a")});
  const auto before = head();
  SnapshotChange staged = change_of("append", {tiny_file("b", 7)});
  staged.stage_only = true;
  staged.summary["wap.id"] = "w1";
  const CommitResult result = commit_snapshot(*table, staged);
  EXPECT_EQ(head(), before);
  const TableMetadata& metadata = *result.table.metadata;
  ASSERT_NE(metadata.find_snapshot(result.snapshot_id), nullptr);
  EXPECT_EQ(metadata.find_snapshot(result.snapshot_id)->parent_snapshot_id, before);
  EXPECT_EQ(metadata.last_sequence_number, 2);
  EXPECT_EQ(metadata.next_row_id, 8);
  EXPECT_EQ(metadata.snapshot_log.size(), 1u);
  commit("append", {tiny_file("c")});
  EXPECT_EQ(live_paths(*table), (Strings{"a", "c"}));
}

TEST_F(Change, ATransactionIsOneVersionOrNone) {
  make(3);
  commit("append", {tiny_file("a", 3)});
  const int64_t version = table->load().version;
  const auto set = [](TableMetadata& next) {
    next.properties["step"] = "1";
    return true;
  };
  const CommitResult result = commit_transaction(
      *table, {change_of("append", {tiny_file("b", 2)}), set, change_of("delete", {}, {tiny_file("a"), tiny_file("b")}),
               change_of("append", {tiny_file("c")})});
  EXPECT_EQ(result.table.version, version + 1);
  EXPECT_EQ(result.table.metadata->snapshots.size(), 4u);
  EXPECT_EQ(result.table.metadata->properties.at("step"), "1");
  EXPECT_EQ(live_paths(*table), Strings{"c"});
  EXPECT_EQ(summary().at("total-records"), "1");
  EXPECT_EQ(head(), result.snapshot_id);

  try {
    commit_transaction(*table, {change_of("append", {tiny_file("d")}), change_of("delete", {}, {tiny_file("gone")})});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::commit_conflict);
  }
  EXPECT_EQ(live_paths(*table), Strings{"c"});
  EXPECT_EQ(table->load().version, version + 1);
}

TEST_F(Change, ATransactionIsRebasedWhole) {
  make(2);
  commit("append", {tiny_file("a")});
  const std::vector<firn::iceberg::Change> changes = {change_of("append", {tiny_file("b")}),
                                                      change_of("delete", {}, {tiny_file("a")})};
  store->before_put([&](const std::string& path) {
    if (!path.ends_with(".metadata.json")) return;
    store->before_put(nullptr);
    commit_snapshot(*open_filesystem_table(store, kLocation), change_of("append", {tiny_file("c")}));
  });
  commit_transaction(*table, changes);
  EXPECT_EQ(live_paths(*table), (Strings{"b", "c"}));
  EXPECT_EQ(table->load().metadata->snapshots.size(), 4u);
}

TEST_F(Change, RewrittenManifestsGatherPartitionsAndKeepNumbers) {
  make(3, true);
  for (int i = 0; i < 8; ++i) {
    commit("append", {in_partition(tiny_file(fmt::format("f{}", i), 2), i % 2 ? "odd" : "even")});
  }
  const auto before = entries();
  SnapshotChange rewrite = change_of("replace", {});
  rewrite.rewrites_manifest = [](const ManifestFile&) { return true; };
  const CommitResult result = commit_snapshot(*table, rewrite);
  EXPECT_THAT(summary(), IsSupersetOf(std::map<std::string, std::string>{{"operation", "replace"},
                                                                         {"manifests-created", "1"},
                                                                         {"manifests-kept", "0"},
                                                                         {"manifests-replaced", "8"},
                                                                         {"entries-processed", "8"}}));
  EXPECT_EQ(result.table.metadata->next_row_id, 16);
  const auto after = entries();
  ASSERT_EQ(after.size(), before.size());
  std::map<std::string, const ManifestEntry*> by_path;
  for (const ManifestEntry& entry : before) by_path[entry.file.file_path] = &entry;
  for (size_t i = 0; i < after.size(); ++i) {
    const ManifestEntry& old = *by_path.at(after[i].file.file_path);
    EXPECT_EQ(after[i].sequence_number, old.sequence_number);
    EXPECT_EQ(after[i].file_sequence_number, old.file_sequence_number);
    EXPECT_EQ(after[i].snapshot_id, old.snapshot_id);
    EXPECT_EQ(after[i].file.first_row_id, old.file.first_row_id);
    EXPECT_EQ(std::get<std::string>(after[i].file.partition[0]), i < 4 ? "even" : "odd");
  }
}

// A reader of rows with id = 5 that then commits; another process commits `between` first.
class Conflict : public Change {
 protected:
  static DataFile with_ids(const std::string& path, int64_t lowest, int64_t highest) {
    DataFile file = tiny_file(path, 2);
    const Type& type = *Type::primitive(TypeId::long_);
    file.value_counts = {{1, 2}};
    file.null_value_counts = {{1, 0}};
    file.lower_bounds = {{1, to_bytes(Value(lowest), type)}};
    file.upper_bounds = {{1, to_bytes(Value(highest), type)}};
    return file;
  }
  SnapshotChange replacing_a(ReadCheck check) {
    check.since_snapshot_id = head();
    check.filter = parse_expression("id = 5");
    SnapshotChange change = change_of("overwrite", {tiny_file("a2")}, {tiny_file("a")});
    change.read_check = check;
    return change;
  }
};

TEST_F(Conflict, AddedRowsThatMayMatchAreRefusedUnderSerializableIsolationAlone) {
  make(2);
  commit("append", {with_ids("a", 1, 9)});
  const SnapshotChange serializable = replacing_a({.no_added_data = true});
  const SnapshotChange snapshot = replacing_a({});
  commit("append", {with_ids("far", 100, 200)});
  commit("append", {with_ids("near", 3, 7)});
  EXPECT_THAT(refusal(serializable), HasSubstr("near"));
  commit_snapshot(*table, snapshot);
  EXPECT_EQ(live_paths(*table), (Strings{"a2", "far", "near"}));
}

TEST_F(Conflict, AddedRowsThatCannotMatchAreNone) {
  make(2);
  commit("append", {with_ids("a", 1, 9)});
  const SnapshotChange change = replacing_a({.no_added_data = true});
  commit("append", {with_ids("far", 100, 200)});
  commit_snapshot(*table, change);
  EXPECT_EQ(live_paths(*table), (Strings{"a2", "far"}));
}

TEST_F(Conflict, RewrittenFilesBringNoRows) {
  make(2);
  commit("append", {with_ids("a", 1, 9), with_ids("b", 1, 9)});
  const SnapshotChange change = replacing_a({.no_added_data = true, .no_removed_data = true});
  commit("replace", {with_ids("b2", 1, 9)}, {with_ids("b", 1, 9)});
  commit_snapshot(*table, change);
  EXPECT_EQ(live_paths(*table), (Strings{"a2", "b2"}));
}

TEST_F(Conflict, DeletesOfAReplacedFileWouldComeBackAndAreRefused) {
  make(3);
  commit("append", {with_ids("a", 1, 9), with_ids("b", 1, 9)});
  const SnapshotChange change = replacing_a({.no_added_deletes = true});
  SnapshotChange of_b = change_of("delete", {vector_of("b", "vb", 4)});
  of_b.read_check = ReadCheck{.since_snapshot_id = head()};
  commit_snapshot(*table, of_b);
  SnapshotChange of_a = change_of("delete", {vector_of("a", "va", 4)});
  of_a.read_check = ReadCheck{.since_snapshot_id = head()};
  commit_snapshot(*table, of_a);
  EXPECT_THAT(refusal(change), HasSubstr("va"));
}

TEST_F(Conflict, EqualityDeletesStandAgainstAReplacedFileUnlessItKeepsItsSequenceNumber) {
  make(2);
  commit("append", {with_ids("a", 1, 9)});
  SnapshotChange fresh = replacing_a({.no_added_deletes = true});
  SnapshotChange keeping = fresh;
  keeping.data_sequence_number = 1;
  commit("delete", {equality_deletes("e")});
  EXPECT_THAT(refusal(fresh), HasSubstr("e"));
  commit_snapshot(*table, keeping);
  EXPECT_EQ(live_paths(*table), (Strings{"a2", "e"}));
}

TEST_F(Conflict, AVectorForAFileThatGotAnotherOrIsGoneIsRefused) {
  make(3);
  commit("append", {tiny_file("a"), tiny_file("b")});
  const auto vector_change = [&](const std::string& data_path, const std::string& path) {
    SnapshotChange change = change_of("delete", {vector_of(data_path, path, 4)});
    change.read_check = ReadCheck{.since_snapshot_id = head()};
    return change;
  };
  const SnapshotChange of_a = vector_change("a", "v1"), of_b = vector_change("b", "v2");
  commit_snapshot(*table, vector_change("a", "other"));
  EXPECT_THAT(refusal(of_a), HasSubstr("another"));
  commit("replace", {tiny_file("b2")}, {tiny_file("b")});
  EXPECT_THAT(refusal(of_b), HasSubstr("removed b"));
}

TEST_F(Conflict, DeletesSayWhatTheyWereMadeFrom) {
  make(3);
  commit("append", {tiny_file("a")});
  try {
    commit("delete", {vector_of("a", "v", 4)});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::invalid_argument);
  }
}

TEST_F(Conflict, AHistoryThatWasRolledBackIsAConflict) {
  make(2);
  commit("append", {with_ids("a", 1, 9)});
  const auto first = head();
  commit("append", {with_ids("b", 1, 9)});
  const SnapshotChange change = replacing_a({.no_added_data = true});
  commit_metadata(*table, [&](TableMetadata& next) {
    next.current_snapshot_id = first;
    next.refs["main"].snapshot_id = *first;
    return true;
  });
  EXPECT_THAT(refusal(change), HasSubstr("rolled back"));
}

// Another engine may have set it; firn refuses to.
TEST_F(Change, ABadWaitOfAnotherEngineStopsNoCommitThatSetsItRight) {
  const std::vector<std::string> keys = {"commit.retry.num-retries", "commit.retry.min-wait-ms",
                                         "commit.retry.total-timeout-ms", "commit.status-check.num-retries"};
  TableMetadata metadata = tiny_metadata(kLocation);
  for (const std::string& key : keys) metadata.properties[key] = "abc";
  create_filesystem_table(store, metadata);
  table = open_filesystem_table(store, kLocation);
  commit_snapshot(*table, tiny_append(*table->load().metadata, "a"));
  EXPECT_EQ(live_paths(*table), Strings{"a"});
  commit_metadata(*table, [&](TableMetadata& next) { return update_properties(next, {}, keys); });
  EXPECT_EQ(table->load().metadata->properties.count(keys[0]), 0U);
}

}  // namespace
}  // namespace firn::iceberg
