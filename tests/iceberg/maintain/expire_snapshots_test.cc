// What expiry keeps, what it takes, and what of the store goes with it (Iceberg spec, "Snapshot Retention Policy"; case
// 13 of the public bug reports).
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/fault_point.h"
#include "iceberg/maintain/real_table.h"
#include "support/temp_folder.h"

namespace firn::iceberg {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;
using Ids = std::vector<int64_t>;

ErrorKind kind_of_failure(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& e) {
    return e.kind();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorKind::internal;
}

class Expire : public ::testing::TestWithParam<int> {
 protected:
  RealTable make(RealTableOptions options = {}) {
    options.version = GetParam();
    return RealTable(options);
  }
  static ExpireOptions all_old() {
    ExpireOptions options;
    options.older_than_ms = now_ms() + 1;
    return options;
  }
};
INSTANTIATE_TEST_SUITE_P(Versions, Expire, ::testing::Values(2, 3), ::testing::PrintToStringParamName());

// Case 13, with A told by path: what takes the file away is any of the expired snapshots.
TEST_P(Expire, AFileStaysWhileAnOlderKeptSnapshotReachesIt) {
  RealTable table = make();
  const int64_t append_a = table.append_ids({1});
  const std::vector<DataFile> a = table.data_files();
  const int64_t delete_a = table.commit("delete", {}, a);
  const int64_t append_a2 = table.append_ids({2});

  ExpireOptions options;
  options.snapshot_ids = {delete_a};
  const ExpireResult result = expire_snapshots(table.ops(), options);
  EXPECT_THAT(result.expired_snapshots, ElementsAre(delete_a));
  EXPECT_EQ(result.files.data_files, 0);
  EXPECT_TRUE(table.exists(a[0].file_path));
  EXPECT_THAT(table.snapshot_ids(), ElementsAre(append_a, append_a2));
  EXPECT_THAT(table.rows_at(append_a), SizeIs(1));
  EXPECT_THAT(table.rows_at(append_a2), SizeIs(1));
}

// What an exporter would take for there, since the history is cut above it (protocols P3.3).
TEST_P(Expire, NotesOfAnExportersOffsetThatItsRowsWereRolledBack) {
  RealTable table = make();
  const auto set_offset = [&](const std::string& name, const std::string& value) {
    commit_metadata(table.ops(), [&](TableMetadata& next) { return update_properties(next, {{name, value}}, {}); });
  };
  const auto offset = [](int64_t snapshot) {
    return fmt::format(R"({{"opens":{{"o":"7"}},"snapshot":{}}})", snapshot);
  };
  const int64_t first = table.append_ids({1});
  const int64_t kept = table.append_ids({2});
  const int64_t lost = table.append_ids({3});
  set_offset("firn.offset.kept", offset(kept));
  set_offset("firn.offset.lost", offset(lost));
  set_offset("firn.offset.gone", offset(12345));
  set_offset("firn.offset.none", R"({"opens":{}})");
  set_offset("firn.offset.damaged", "{");
  set_offset("other.offset", offset(lost));
  const Properties before = table.metadata()->properties;
  commit_metadata(table.ops(), [&](TableMetadata& next) { return rollback_to_snapshot(next, kept, now_ms()); });
  table.append_ids({4});

  ExpireOptions options = all_old();
  options.dry_run = true;
  expire_snapshots(table.ops(), options);
  EXPECT_EQ(table.metadata()->properties, before);
  options.dry_run = false;
  EXPECT_THAT(expire_snapshots(table.ops(), options).expired_snapshots, UnorderedElementsAre(first, kept, lost));
  Properties noted = before;
  noted["firn.offset.lost"] = fmt::format(R"({{"opens":{{"o":"7"}},"snapshot":{},"rolledBack":true}})", lost);
  EXPECT_EQ(table.metadata()->properties, noted);
  table.append_ids({5});
  expire_snapshots(table.ops(), options);
  EXPECT_EQ(table.metadata()->properties, noted) << "a later expiry knows no better";
}

TEST_P(Expire, ANoteOfARollbackEndsWhenMainHasTheSnapshotAgain) {
  RealTable table = make();
  const int64_t first = table.append_ids({1});
  const int64_t lost = table.append_ids({2});
  const std::string offset = fmt::format(R"({{"snapshot":{}}})", lost);
  commit_metadata(table.ops(), [&](TableMetadata& next) {
    set_tag(next, "lost", {.snapshot_id = lost}, now_ms());
    update_properties(next, {{"firn.offset.s", offset}}, {});
    return rollback_to_snapshot(next, first, now_ms());
  });
  table.append_ids({3});
  expire_snapshots(table.ops(), all_old());
  EXPECT_THAT(table.metadata()->property("firn.offset.s", ""), HasSubstr("rolledBack"));
  commit_metadata(table.ops(), [&](TableMetadata& next) { return set_current_snapshot(next, lost, now_ms()); });
  table.append_ids({4});
  expire_snapshots(table.ops(), all_old());
  EXPECT_EQ(table.metadata()->property("firn.offset.s", ""), offset);
}

TEST_P(Expire, AFileAddedAgainStaysWhenItsFirstLifeExpires) {
  RealTable table = make();
  const int64_t append_a = table.append_ids({1});
  const std::vector<DataFile> a = table.data_files();
  const int64_t delete_a = table.commit("delete", {}, a);
  const int64_t again = table.commit("append", a);

  const ExpireResult result = expire_snapshots(table.ops(), all_old());
  EXPECT_THAT(result.expired_snapshots, UnorderedElementsAre(append_a, delete_a));
  EXPECT_TRUE(table.exists(a[0].file_path));
  EXPECT_THAT(table.rows_at(again), SizeIs(1));
}

TEST_P(Expire, AFileStaysThatAKeptSnapshotSpellsOtherwise) {
  const TempFolder folder;
  int num_tables = 0;
  for (const std::string spelling : {"/data/../data/", "//data//", "/data/./", "/link/", "file:", "gone"}) {
    SCOPED_TRACE(spelling);
    RealTable table = make({.io = make_local_file_io(), .location = folder / ("t" + std::to_string(++num_tables))});
    const int64_t append_a = table.append_ids({1});
    std::vector<DataFile> a = table.data_files();
    const std::string first_path = a[0].file_path, name = first_path.substr(first_path.rfind('/') + 1);
    std::filesystem::create_directory_symlink(table.location + "/data", table.location + "/link");
    const int64_t delete_a = table.commit("delete", {}, a);
    const bool is_gone = spelling == "gone";  // nobody can tell what is meant
    a[0].file_path = spelling == "file:" ? spelling + first_path
                     : is_gone           ? folder / "gone" + "/" + name
                                         : table.location + spelling + name;
    const int64_t again = table.commit("append", a);

    const ExpireResult result = expire_snapshots(table.ops(), all_old());
    EXPECT_THAT(result.expired_snapshots, UnorderedElementsAre(append_a, delete_a));
    EXPECT_EQ(result.files.data_files, 0);
    EXPECT_TRUE(table.exists(first_path));
    if (!is_gone) {
      EXPECT_THAT(table.rows_at(again), SizeIs(1));
    }
  }
}

TEST_P(Expire, AFileGoesWhereAKeptSnapshotHasAnotherOfItsName) {
  const TempFolder folder;
  RealTable table = make({.io = make_local_file_io(), .location = folder / "t"});
  table.append_ids({1});
  std::vector<DataFile> a = table.data_files();
  const std::string path = a[0].file_path, copy = folder / path.substr(path.rfind('/') + 1);
  std::filesystem::copy_file(path, copy);
  table.commit("delete", {}, a);
  a[0].file_path = copy;
  const int64_t kept = table.commit("append", a);
  EXPECT_EQ(expire_snapshots(table.ops(), all_old()).files.data_files, 1);
  EXPECT_FALSE(table.exists(path));
  EXPECT_THAT(table.rows_at(kept), SizeIs(1));
}

TEST_P(Expire, AFileAddedAgainStaysWhenItsSecondLifeExpires) {
  RealTable table = make();
  const int64_t append_a = table.append_ids({1});
  const std::vector<DataFile> a = table.data_files();
  const int64_t delete_a = table.commit("delete", {}, a);
  const int64_t again = table.commit("append", a);
  const int64_t last = table.commit("overwrite", table.write(RealTable::rows_of({2})), a);

  ExpireOptions options;
  options.snapshot_ids = {delete_a, again};
  const ExpireResult result = expire_snapshots(table.ops(), options);
  EXPECT_EQ(result.files.data_files, 0);
  EXPECT_TRUE(table.exists(a[0].file_path));
  EXPECT_THAT(table.rows_at(append_a), SizeIs(1));
  EXPECT_THAT(table.rows_at(last), SizeIs(1));

  options.snapshot_ids = {append_a};  // and with the last that reaches it, it goes
  EXPECT_EQ(expire_snapshots(table.ops(), options).files.data_files, 1);
  EXPECT_FALSE(table.exists(a[0].file_path));
}

TEST_P(Expire, AFileStaysWhileATagOrAnotherBranchReachesIt) {
  for (const bool is_branch : {false, true}) {
    SCOPED_TRACE(is_branch);
    RealTable table = make();
    const int64_t append_a = table.append_ids({1});
    const std::vector<DataFile> a = table.data_files();
    table.change([&](TableMetadata& next) {
      return is_branch ? set_branch(next, "side", {}, now_ms()) : set_tag(next, "side", {}, now_ms());
    });
    table.commit("delete", {}, a);
    const int64_t last = table.append_ids({2});
    const ExpireResult result = expire_snapshots(table.ops(), all_old());
    EXPECT_EQ(result.files.data_files, 0);
    EXPECT_THAT(table.snapshot_ids(), UnorderedElementsAre(append_a, last));
    EXPECT_THAT(table.rows_at(append_a), SizeIs(1));

    table.change([](TableMetadata& next) { return remove_ref(next, "side"); });
    EXPECT_EQ(expire_snapshots(table.ops(), all_old()).files.data_files, 1);
    EXPECT_FALSE(table.exists(a[0].file_path));
  }
}

TEST_P(Expire, AFileStaysWhenAMergedManifestOfAKeptSnapshotHasIt) {
  RealTable table = make({.properties = {{"commit.manifest.min-count-to-merge", "2"}}});
  for (int64_t id = 1; id <= 6; ++id) table.append_ids({id});
  const ExpireResult result = expire_snapshots(table.ops(), all_old());
  EXPECT_THAT(result.expired_snapshots, SizeIs(5));
  EXPECT_EQ(result.files.data_files, 0);
  EXPECT_GT(result.files.manifests, 0);
  EXPECT_THAT(table.ids(), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_P(Expire, DeleteFilesGoWithTheLastSnapshotThatReachesThem) {
  RealTable table = make();
  table.append_ids({1, 2, 3});
  const std::string data = table.data_files()[0].file_path;
  table.delete_positions({{data, {0}}});
  table.delete_ids({2});
  const std::vector<DataFile> deletes = table.delete_files();
  ASSERT_THAT(deletes, SizeIs(2));
  EXPECT_EQ(expire_snapshots(table.ops(), all_old()).files.total(), 2);  // two manifest lists
  EXPECT_THAT(table.ids(), ElementsAre(3));

  std::vector<DataFile> removed = table.data_files();
  removed.insert(removed.end(), deletes.begin(), deletes.end());
  table.commit("overwrite", table.write(RealTable::rows_of({9})), removed);
  const ExpireResult result = expire_snapshots(table.ops(), all_old());
  EXPECT_EQ(result.files.data_files, 1);
  EXPECT_EQ(result.files.position_delete_files, 1);
  EXPECT_EQ(result.files.equality_delete_files, 1);
  for (const DataFile& file : removed) EXPECT_FALSE(table.exists(file.file_path));
  EXPECT_THAT(table.ids(), ElementsAre(9));
}

TEST_P(Expire, APuffinFileStaysWhileOneOfItsVectorsIsReached) {
  if (GetParam() < 3) GTEST_SKIP() << "version 2 has no vectors";
  RealTable table = make();
  table.append_ids({1, 2});
  table.append_ids({3, 4});
  const std::vector<DataFile> data = table.data_files();
  table.delete_positions({{data[0].file_path, {0}}, {data[1].file_path, {0}}});
  const std::vector<DataFile> vectors = table.delete_files();
  ASSERT_THAT(vectors, SizeIs(2));
  ASSERT_EQ(vectors[0].file_path, vectors[1].file_path);
  table.commit("overwrite", table.write(RealTable::rows_of({9})), {data[0]});  // its vector goes too
  ASSERT_THAT(table.delete_files(), SizeIs(1));
  EXPECT_EQ(expire_snapshots(table.ops(), all_old()).files.position_delete_files, 0);
  EXPECT_TRUE(table.exists(vectors[0].file_path));
  EXPECT_THAT(table.ids(), SizeIs(2));
}

TEST_P(Expire, SnapshotsOlderThanTheTablesAgeGoAndTheNewestStays) {
  RealTable table = make();
  const int64_t old = table.append_ids({1});
  const int64_t young = table.append_ids({2});
  const int64_t head = table.append_ids({3});
  table.set_age({old}, 6 * kDayMs);
  table.set_age({young}, 4 * kDayMs);
  EXPECT_THAT(expire_snapshots(table.ops(), {}).expired_snapshots, ElementsAre(old));  // 5 days
  table.set_properties({{"history.expire.max-snapshot-age-ms", std::to_string(3 * kDayMs)}});
  EXPECT_THAT(expire_snapshots(table.ops(), {}).expired_snapshots, ElementsAre(young));
  table.set_age({head}, 100 * kDayMs);
  EXPECT_THAT(expire_snapshots(table.ops(), {}).expired_snapshots, IsEmpty());
}

TEST_P(Expire, TheLastNOfEachBranchStayWhateverTheirAge) {
  RealTable table = make();
  Ids ids;
  for (int64_t id = 1; id <= 4; ++id) ids.push_back(table.append_ids({id}));
  table.change([&](TableMetadata& next) { return set_branch(next, "b", {.snapshot_id = ids[1]}, now_ms()); });
  const int64_t on_b = table.append_ids({5}, "a", "b");
  ExpireOptions options = all_old();
  options.retain_last = 2;
  EXPECT_THAT(expire_snapshots(table.ops(), options).expired_snapshots, UnorderedElementsAre(ids[0]));
  EXPECT_THAT(table.snapshot_ids(), UnorderedElementsAre(ids[1], ids[2], ids[3], on_b));

  table.set_properties({{"history.expire.min-snapshots-to-keep", "2"}});
  EXPECT_THAT(expire_snapshots(table.ops(), all_old()).expired_snapshots, IsEmpty());
}

TEST_P(Expire, ABranchsOwnRetentionGoesBeforeTheOptions) {
  RealTable table = make();
  Ids ids;
  for (int64_t id = 1; id <= 5; ++id) ids.push_back(table.append_ids({id}));
  table.set_age(ids, 10 * kDayMs);
  table.change([](TableMetadata& next) { return set_ref_retention(next, "main", {.min_snapshots_to_keep = 3}); });
  EXPECT_THAT(expire_snapshots(table.ops(), all_old()).expired_snapshots, UnorderedElementsAre(ids[0], ids[1]));
  table.change([](TableMetadata& next) {
    return set_ref_retention(next, "main", {.min_snapshots_to_keep = 1, .max_snapshot_age_ms = 20 * kDayMs});
  });
  EXPECT_THAT(expire_snapshots(table.ops(), all_old()).expired_snapshots, IsEmpty());
}

TEST_P(Expire, RefsOlderThanTheirAgeGoAndMainNever) {
  RealTable table = make();
  const int64_t tagged = table.append_ids({1});
  const int64_t branched = table.append_ids({2});
  const int64_t head = table.append_ids({3});
  table.change([&](TableMetadata& next) {
    set_tag(next, "t", {.snapshot_id = tagged, .max_ref_age_ms = kDayMs}, now_ms());
    set_tag(next, "kept", {.snapshot_id = tagged, .max_ref_age_ms = 100 * kDayMs}, now_ms());
    return set_branch(next, "b", {.snapshot_id = branched}, now_ms());
  });
  table.set_age({tagged, branched, head}, 10 * kDayMs);
  EXPECT_THAT(expire_snapshots(table.ops(), all_old()).removed_refs, ElementsAre("t"));
  EXPECT_THAT(table.snapshot_ids(), UnorderedElementsAre(tagged, branched, head));
  table.set_properties({{"history.expire.max-ref-age-ms", std::to_string(kDayMs)}});
  const ExpireResult result = expire_snapshots(table.ops(), all_old());
  EXPECT_THAT(result.removed_refs, ElementsAre("b"));
  EXPECT_THAT(result.expired_snapshots, ElementsAre(branched));
  EXPECT_TRUE(table.metadata()->refs.contains("kept"));
  EXPECT_TRUE(table.metadata()->refs.contains("main"));
}

TEST_P(Expire, StagedSnapshotsStayUntilTheyAreOld) {
  RealTable table = make();
  table.append_ids({1});
  SnapshotChange change;
  change.added = table.write(RealTable::rows_of({2}));
  change.written_schema = table.metadata()->schema();
  change.stage_only = true;
  change.summary["wap.id"] = "w";
  const int64_t staged = commit_snapshot(table.ops(), change).snapshot_id;
  EXPECT_THAT(expire_snapshots(table.ops(), {}).expired_snapshots, IsEmpty());
  table.set_age({staged}, 6 * kDayMs);
  const ExpireResult result = expire_snapshots(table.ops(), {});
  EXPECT_THAT(result.expired_snapshots, ElementsAre(staged));
  EXPECT_EQ(result.files.data_files, 1);
  EXPECT_THAT(table.ids(), ElementsAre(1));
}

TEST_P(Expire, SnapshotsThatAreHeldStay) {
  RealTable table = make();
  const int64_t held = table.append_ids({1});
  const int64_t other = table.commit("overwrite", table.write(RealTable::rows_of({2})), table.data_files());
  table.append_ids({3});
  ExpireOptions options = all_old();
  options.keep = {held};
  EXPECT_THAT(expire_snapshots(table.ops(), options).expired_snapshots, ElementsAre(other));
  EXPECT_THAT(table.rows_at(held), SizeIs(1));
}

TEST_P(Expire, WhatARefOrAHolderNamesIsNotExpiredById) {
  RealTable table = make();
  const int64_t first = table.append_ids({1});
  const int64_t head = table.append_ids({2});
  ExpireOptions options;
  options.snapshot_ids = {head};
  EXPECT_EQ(kind_of_failure([&] { expire_snapshots(table.ops(), options); }), ErrorKind::invalid_argument);
  options.snapshot_ids = options.keep = {first};
  EXPECT_EQ(kind_of_failure([&] { expire_snapshots(table.ops(), options); }), ErrorKind::invalid_argument);
  options.snapshot_ids = {first + 1};
  options.keep = {};
  EXPECT_EQ(kind_of_failure([&] { expire_snapshots(table.ops(), options); }), ErrorKind::not_found);
  EXPECT_THAT(table.snapshot_ids(), ElementsAre(first, head));
}

TEST_P(Expire, TheHistoryBeforeAnExpiredSnapshotGoes) {
  RealTable table = make();
  table.append_ids({1});
  const int64_t middle = table.append_ids({2});
  const int64_t head = table.append_ids({3});
  ExpireOptions options;
  options.snapshot_ids = {middle};
  expire_snapshots(table.ops(), options);
  Ids log;
  for (const SnapshotLogEntry& entry : table.metadata()->snapshot_log) log.push_back(entry.snapshot_id);
  EXPECT_THAT(log, ElementsAre(head));
}

TEST_P(Expire, StatisticsOfExpiredSnapshotsGo) {
  RealTable table = make();
  const int64_t first = table.append_ids({1});
  const int64_t head = table.append_ids({2});
  const auto add = [&](int64_t id, const std::string& path) {
    table.io->put_if_absent(path, "statistics");
    table.change([&](TableMetadata& next) {
      return set_statistics(next, Json{{"snapshot-id", id},
                                       {"statistics-path", path},
                                       {"file-size-in-bytes", 10},
                                       {"file-footer-size-in-bytes", 4},
                                       {"blob-metadata", Json::array()}});
    });
  };
  add(first, table.location + "/metadata/a.stats");
  add(head, table.location + "/metadata/b.stats");
  const ExpireResult result = expire_snapshots(table.ops(), all_old());
  EXPECT_EQ(result.files.statistics_files, 1);
  EXPECT_FALSE(table.exists(table.location + "/metadata/a.stats"));
  EXPECT_TRUE(table.exists(table.location + "/metadata/b.stats"));
  EXPECT_THAT(table.metadata()->statistics, SizeIs(1));
}

TEST_P(Expire, ADryRunTellsTheSameAndDoesNothing) {
  RealTable table = make();
  table.append_ids({1});
  table.commit("overwrite", table.write(RealTable::rows_of({2})), table.data_files());
  const std::set<std::string> before = table.files();
  ExpireOptions options = all_old();
  options.dry_run = true;
  const ExpireResult dry = expire_snapshots(table.ops(), options);
  EXPECT_EQ(table.files(), before);
  const ExpireResult real = expire_snapshots(table.ops(), all_old());
  EXPECT_EQ(dry.expired_snapshots, real.expired_snapshots);
  EXPECT_EQ(dry.files.paths, real.files.paths);
  EXPECT_EQ(real.files.data_files, 1);
  EXPECT_THAT(real.files.failed, IsEmpty());
  for (const std::string& path : real.files.paths) EXPECT_FALSE(table.exists(path));
  EXPECT_THAT(table.files(), IsSupersetOf(table.named_paths()));
}

TEST_P(Expire, ManyFilesAreComparedInSeveralPassesWithTheSameResult) {
  RealTable table = make({.properties = {{"commit.manifest.min-count-to-merge", "3"}}});
  for (int64_t id = 1; id <= 12; ++id) table.append_ids({id});
  const std::vector<DataFile> files = table.data_files();
  table.commit("delete", {}, {files[0], files[3], files[7]});
  ExpireOptions options = all_old();
  options.dry_run = true;
  const ExpireResult one_pass = expire_snapshots(table.ops(), options);
  options.dry_run = false;
  options.files_held_max = 1;
  const ExpireResult passes = expire_snapshots(table.ops(), options);
  EXPECT_EQ(passes.files.data_files, 3);
  EXPECT_EQ(std::set<std::string>(passes.files.paths.begin(), passes.files.paths.end()),
            std::set<std::string>(one_pass.files.paths.begin(), one_pass.files.paths.end()));
  EXPECT_EQ(passes.files.total(), one_pass.files.total());
  EXPECT_THAT(table.ids(), SizeIs(9));
}

TEST_P(Expire, TablesWhoseFilesMayBeOthersAreLeftAlone) {
  RealTable table = make({.properties = {{"gc.enabled", "false"}}});
  table.append_ids({1});
  table.append_ids({2});
  EXPECT_EQ(kind_of_failure([&] { expire_snapshots(table.ops(), all_old()); }), ErrorKind::invalid_argument);
  EXPECT_THAT(table.snapshot_ids(), SizeIs(2));
}

TEST_P(Expire, SpecsAndSchemasThatNothingUsesGoIfAsked) {
  RealTable table = make({.partition = {{"p"}}});
  table.append_ids({1});
  const std::vector<DataFile> old = table.data_files();
  table.change([](TableMetadata& next) {
    return update_spec(next, {.remove = {"p"}, .add = {{.column = "id", .transform = "bucket[4]"}}});
  });
  table.change([](TableMetadata& next) {  // its columns are all in the schema that follows
    return update_schema(
        next, [](SchemaUpdate& update) { update.add_column({.name = "more", .type = Type::primitive(TypeId::int_)}); });
  });
  table.change([](TableMetadata& next) {
    return update_schema(
        next, [](SchemaUpdate& update) { update.add_column({.name = "most", .type = Type::primitive(TypeId::int_)}); });
  });
  ExpireOptions options = all_old();
  options.clean_expired_metadata = true;
  expire_snapshots(table.ops(), options);
  EXPECT_THAT(table.metadata()->partition_specs, SizeIs(2));  // the old one has a live file
  EXPECT_THAT(table.metadata()->schemas, SizeIs(2));          // the snapshot's, the current one

  table.commit("overwrite", table.write(R"([{"id": 2, "p": "a", "text": "x"}])"), old);
  table.append(R"([{"id": 3, "p": "a", "text": "x"}])");  // the one before says what it removed, under the old spec
  options.older_than_ms = now_ms() + 1;
  const ExpireResult result = expire_snapshots(table.ops(), options);
  EXPECT_THAT(result.removed_specs, ElementsAre(0));
  EXPECT_THAT(table.metadata()->partition_specs, SizeIs(1));
  EXPECT_THAT(table.metadata()->schemas, SizeIs(1));
  EXPECT_THAT(table.ids(), ElementsAre(2, 3));
  EXPECT_FALSE(table.exists(old[0].file_path));  // found through a spec that is gone
}

TEST_P(Expire, ASchemaStaysForAColumnThatNoOtherHas) {
  RealTable table = make();
  table.append_ids({1, 2});
  WriteOptions write;
  write.equality_ids = {3};
  table.commit("delete", table.write(R"([{"text": "r1"}])", write));
  table.change([](TableMetadata& next) {
    return update_schema(next, [](SchemaUpdate& update) { update.drop_column("text"); });
  });
  table.append(R"([{"id": 3, "p": "a"}])");
  ExpireOptions options = all_old();
  options.clean_expired_metadata = true;
  expire_snapshots(table.ops(), options);
  EXPECT_THAT(table.metadata()->schemas, SizeIs(2));
  EXPECT_THAT(table.ids(), ElementsAre(2, 3));
}

TEST_P(Expire, ATagSetMeanwhileIsSeenByTheNextTry) {
  RealTable table = make();
  const int64_t first = table.append_ids({1});
  const int64_t second = table.commit("overwrite", table.write(RealTable::rows_of({2})), table.data_files());
  table.append_ids({3});
  bool is_done = false;
  table.store->before_put([&](const std::string& path) {
    if (is_done || !path.ends_with(".metadata.json")) return;
    is_done = true;
    const auto other = open_filesystem_table(table.io, table.location);
    commit_metadata(*other, [&](TableMetadata& next) { return set_tag(next, "t", {.snapshot_id = first}, now_ms()); });
  });
  const ExpireResult result = expire_snapshots(table.ops(), all_old());
  EXPECT_THAT(result.expired_snapshots, ElementsAre(second));
  EXPECT_EQ(result.files.data_files, 0);
  EXPECT_THAT(table.rows_at(first), SizeIs(1));
}

TEST_P(Expire, AnExpiryWhoseAnswerIsLostStillRemovesItsFiles) {
  RealTable table = make();
  const int64_t first = table.append_ids({1});
  const std::vector<DataFile> gone = table.data_files();
  table.commit("overwrite", table.write(RealTable::rows_of({2})), gone);
  table.store->lie_once(".metadata.json", Lie::applied);
  const ExpireResult result = expire_snapshots(table.ops(), all_old());
  EXPECT_THAT(result.expired_snapshots, ElementsAre(first));
  EXPECT_EQ(result.files.data_files, 1);
  EXPECT_FALSE(table.exists(gone[0].file_path));
}

TEST_P(Expire, NothingIsRemovedWhereAKeptManifestCannotBeRead) {
  RealTable table = make();
  table.append_ids({1});
  const std::vector<DataFile> gone = table.data_files();
  table.commit("overwrite", table.write(RealTable::rows_of({2})), gone);
  const std::string list = table.head().manifest_list;
  const std::string kept = read_manifest_list(table.io->read(list), list).front().manifest_path;
  table.store->break_path(kept, 1000);
  EXPECT_EQ(kind_of_failure([&] { expire_snapshots(table.ops(), all_old()); }), ErrorKind::io);
  EXPECT_TRUE(table.exists(gone[0].file_path));
  EXPECT_THAT(table.snapshot_ids(), SizeIs(1));  // what remains is orphans
}

TEST_P(Expire, AFileThatCannotBeRemovedIsNamedAndTheOthersGo) {
  RealTable table = make();
  table.append_ids({1});
  const std::vector<DataFile> gone = table.data_files();
  table.commit("overwrite", table.write(RealTable::rows_of({2})), gone);
  table.store->break_path(gone[0].file_path, 1000);
  const ExpireResult result = expire_snapshots(table.ops(), all_old());
  EXPECT_THAT(result.files.failed, ElementsAre(gone[0].file_path));
  EXPECT_EQ(result.files.data_files, 1);
  EXPECT_EQ(result.files.manifest_lists, 1);
}

TEST_P(Expire, WhatAnotherExpiryRemovedIsPassedOver) {
  RealTable table = make();
  table.append_ids({1});
  const std::string list = table.head().manifest_list;
  table.commit("overwrite", table.write(RealTable::rows_of({2})), table.data_files());
  table.io->remove(list);
  EXPECT_THAT(expire_snapshots(table.ops(), all_old()).expired_snapshots, SizeIs(1));
  EXPECT_THAT(table.ids(), ElementsAre(2));
}

TEST_P(Expire, AnEmptyTableHasNothingToExpire) {
  RealTable table = make();
  const int64_t version = table.ops().load().version;
  EXPECT_EQ(expire_snapshots(table.ops(), all_old()).files.total(), 0);
  EXPECT_EQ(table.ops().load().version, version);
}

}  // namespace
}  // namespace firn::iceberg
