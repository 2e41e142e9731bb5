// Which files of a table's folders are taken for orphans, and which are not.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

class Orphans : public ::testing::TestWithParam<int> {
 protected:
  RealTable make(RealTableOptions options = {}) {
    options.version = GetParam();
    return RealTable(options);
  }
  static OrphanOptions now() {
    OrphanOptions options;
    options.older_than_ms = now_ms() + 1;
    return options;
  }
  static void put(RealTable& table, const std::string& path) { table.io->put_if_absent(path, "left behind"); }
};
INSTANTIATE_TEST_SUITE_P(Versions, Orphans, ::testing::Values(2, 3), ::testing::PrintToStringParamName());

TEST_P(Orphans, WhatNothingReachesGoesAndAllElseStays) {
  RealTable table = make({.partition = {{"p"}}});
  const int64_t first = table.append_ids({1, 2});
  table.delete_positions({{table.data_files()[0].file_path, {0}}});
  table.delete_ids({2});
  table.append_ids({3}, "b");
  table.change([&](TableMetadata& next) { return set_tag(next, "t", {.snapshot_id = first}, now_ms()); });
  const std::set<std::string> before = table.files();
  const std::vector<std::string> left = {"/data/x.parquet", "/data/p=a/y.parquet", "/metadata/snap-1.avro", "/z"};
  for (const std::string& path : left) put(table, table.location + path);

  OrphanOptions options = now();
  options.dry_run = true;
  const OrphanResult dry = remove_orphan_files(table.ops(), options);
  EXPECT_THAT(dry.files.paths, SizeIs(4));
  EXPECT_EQ(table.files().size(), before.size() + 4);
  const OrphanResult result = remove_orphan_files(table.ops(), now());
  EXPECT_EQ(result.files.paths, dry.files.paths);
  EXPECT_EQ(result.files.bytes, 44);
  EXPECT_EQ(table.files(), before);
  EXPECT_THAT(table.rows_at(first), SizeIs(2));
  EXPECT_THAT(table.ids(), ElementsAre(3));
}

TEST_P(Orphans, FilesOfExpiredSnapshotsThatACrashLeftGo) {
  RealTable table = make();
  table.append_ids({1});
  table.commit("overwrite", table.write(RealTable::rows_of({2})), table.data_files());
  table.change([](TableMetadata& next) { return remove_snapshots(next, {next.snapshots[0].snapshot_id}); });
  EXPECT_THAT(remove_orphan_files(table.ops(), now()).files.paths, SizeIs(3));  // data file, manifest, list
  EXPECT_EQ(table.files(), table.named_paths());
  EXPECT_THAT(table.ids(), ElementsAre(2));
}

TEST_P(Orphans, StatisticsAndOldMetadataOfTheLogStay) {
  RealTable table = make({.properties = {{"write.metadata.previous-versions-max", "2"}}});
  for (int64_t id = 1; id <= 5; ++id) table.append_ids({id});
  const std::string path = table.location + "/metadata/a.stats";
  put(table, path);
  table.change([&](TableMetadata& next) {
    return set_statistics(next, Json{{"snapshot-id", *next.current_snapshot_id},
                                     {"statistics-path", path},
                                     {"file-size-in-bytes", 11},
                                     {"file-footer-size-in-bytes", 4},
                                     {"blob-metadata", Json::array()}});
  });
  const OrphanResult result = remove_orphan_files(table.ops(), now());
  EXPECT_THAT(
      result.files.paths,
      ElementsAre(table.location + "/metadata/v1.metadata.json", table.location + "/metadata/v2.metadata.json",
                  table.location + "/metadata/v3.metadata.json", table.location + "/metadata/v4.metadata.json"));
  EXPECT_TRUE(table.exists(path));
  EXPECT_TRUE(table.exists(table.location + "/metadata/version-hint.text"));
  EXPECT_THAT(table.ids(), SizeIs(5));
}

TEST_P(Orphans, VersionsAboveTheHeadAreBeingPublishedAndStay) {
  RealTable table = make();
  table.append_ids({1});
  const std::string above = table.location + "/metadata/v9.metadata.json";  // the probe upwards ends before it
  put(table, above);
  EXPECT_THAT(remove_orphan_files(table.ops(), now()).files.paths, IsEmpty());
  EXPECT_TRUE(table.exists(above));
}

TEST_P(Orphans, YoungFilesStay) {
  const TempFolder folder;
  RealTable table = make({.io = make_local_file_io(), .location = folder / "t"});
  table.append_ids({1});
  const std::string old = table.location + "/data/old.parquet", young = table.location + "/data/young.parquet";
  put(table, old);
  put(table, young);
  const auto set_age = [](const std::string& path, int64_t age_s) {
    const timespec time{.tv_sec = now_ms() / 1000 - age_s, .tv_nsec = 0};
    const timespec times[2] = {time, time};
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  };
  set_age(old, 4 * 86400);
  set_age(young, 2 * 86400);
  EXPECT_THAT(remove_orphan_files(table.ops(), {}).files.paths, ElementsAre(old));  // three days
  OrphanOptions options;
  options.older_than_ms = now_ms() + kDayMs;  // the future counts as now
  put(table, table.location + "/data/new.parquet");
  set_age(table.location + "/data/new.parquet", -3600);
  EXPECT_THAT(remove_orphan_files(table.ops(), options).files.paths, ElementsAre(young));
}

TEST_P(Orphans, WhatKilledWritersLeftGoesAndOtherHiddenFilesStay) {
  const TempFolder folder;
  RealTable table = make({.partition = {{"p"}}, .io = make_local_file_io(), .location = folder / "t"});
  table.append_ids({1});
  const std::string data_file = table.data_files()[0].file_path;
  const std::vector<std::string> left = {table.location + "/data/p=a/.x.parquet.tmp-00112233445566ff",
                                         table.location + "/metadata/.v20.metadata.json.tmp-0011223344556677"};
  const std::vector<std::string> kept = {table.location + "/data/.x.parquet.tmp-mine", table.location + "/data/.hidden",
                                         table.location + "/.folder/.x.parquet.tmp-00112233445566ff"};
  std::vector<std::string> all = left;
  all.insert(all.end(), kept.begin(), kept.end());
  for (const std::string& path : all) put(table, path);
  // Killed between the file's name and the end of its temporary one: two names of one file.
  const std::string second_name = data_file.substr(0, data_file.rfind('/')) + "/.y.parquet.tmp-0123456789abcdef";
  std::filesystem::create_hard_link(data_file, second_name);

  EXPECT_THAT(remove_orphan_files(table.ops(), {}).files.paths, IsEmpty()) << "a writer may be at work on them";
  ::usleep(20'000);  // the files' clock is coarse
  EXPECT_THAT(remove_orphan_files(table.ops(), now()).files.paths, UnorderedElementsAre(left[0], left[1], second_name));
  EXPECT_FALSE(std::filesystem::exists(left[0]));
  for (const std::string& path : kept) EXPECT_TRUE(std::filesystem::exists(path)) << path;
  EXPECT_THAT(table.ids(), ElementsAre(1));
}

TEST_P(Orphans, LocalPathsAreOneHoweverTheyAreSpelled) {
  const TempFolder folder;
  for (const std::string prefix : {"", "file:", "file://"}) {
    SCOPED_TRACE(prefix);
    const std::string name = "t" + std::to_string(prefix.size());
    RealTable table = make({.io = make_local_file_io(), .location = folder / name});
    // Files named in another spelling than the table's.
    std::vector<DataFile> files = table.write(RealTable::rows_of({1}));
    for (DataFile& file : files) file.file_path = prefix + file.file_path;
    table.commit("append", files);
    const std::string left = table.location + "/data/left.parquet";
    put(table, left);
    ::usleep(20'000);  // the files' clock is coarse
    EXPECT_THAT(remove_orphan_files(table.ops(), now()).files.paths, ElementsAre(left));
    EXPECT_THAT(table.ids(), ElementsAre(1));
  }
}

TEST_P(Orphans, FilesStayHoweverTheTableSpellsItsFolders) {
  const TempFolder folder;
  std::filesystem::create_directories(folder / "t/real/deep");
  std::filesystem::create_directory_symlink(folder / "t/real", folder / "t/link");
  std::filesystem::create_directory_symlink(folder / "t/real/deep", folder / "t/deep");
  std::filesystem::create_directory_symlink(folder / "t", folder / "other");
  const std::string location = folder / "t";
  const std::string relative = std::filesystem::relative(location).string();
  int num_tables = 0;
  for (const std::string& root : {location + "/", location + "/.", location + "/real/..", location + "/link/..",
                                  location + "/deep/..",  // t/real, though it reads like t
                                  location + "/link", folder / "other", relative, "file://" + location + "//real"}) {
    SCOPED_TRACE(root);
    const std::string rest = fmt::format("/{}", ++num_tables);
    RealTable table = make({.io = make_local_file_io(), .location = location});
    table.change([&](TableMetadata& next) {  // as another engine may: firn sets no relative ones
      next.properties["write.data.path"] = root + "/data" + rest;
      next.properties["write.metadata.path"] = root + "/meta" + rest;
      return true;
    });
    table.append_ids({1});
    table.append_ids({2});
    ASSERT_THAT(table.data_files()[0].file_path, HasSubstr(root + "/data"));
    const std::string left = location + "/left.parquet";
    put(table, left);
    ::usleep(20'000);
    EXPECT_THAT(remove_orphan_files(table.ops(), now()).files.paths, ElementsAre(left));
    EXPECT_THAT(table.ids(), ElementsAre(1, 2));
    for (const char* below : {"/metadata", "/data", "/meta", "/real/data", "/real/meta"})
      std::filesystem::remove_all(location + below);
  }
}

TEST_P(Orphans, AFileReachedThroughALinkToItStays) {
  const TempFolder folder;
  RealTable table = make({.io = make_local_file_io(), .location = folder / "t"});
  std::vector<DataFile> files = table.write(RealTable::rows_of({1}));
  const std::string alias = folder / "t/data/alias.parquet";
  std::filesystem::create_symlink(files[0].file_path, alias);
  files[0].file_path = alias;
  table.commit("append", files);
  ::usleep(20'000);
  EXPECT_THAT(remove_orphan_files(table.ops(), now()).files.paths, IsEmpty());
  EXPECT_THAT(table.ids(), ElementsAre(1));
}

TEST_P(Orphans, NothingGoesWhereAReachedFileIsNotThereAndAnOrphanHasItsName) {
  const TempFolder folder;
  RealTable table = make({.io = make_local_file_io(), .location = folder / "t"});
  std::vector<DataFile> files = table.write(RealTable::rows_of({1}));
  const std::string listed = files[0].file_path;
  files[0].file_path = folder / "gone" + listed.substr(listed.rfind('/'));
  table.commit("append", files);
  put(table, table.location + "/data/left.parquet");
  const std::set<std::string> before = table.files();
  ::usleep(20'000);
  try {
    remove_orphan_files(table.ops(), now());
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::invalid_argument);
    EXPECT_THAT(e.what(), HasSubstr(listed));
    EXPECT_THAT(e.what(), HasSubstr(files[0].file_path));
  }
  EXPECT_EQ(table.files(), before);
}

TEST_P(Orphans, AnOrphanGoesWhereAnotherFileOfItsNameIsReached) {
  const TempFolder folder;
  RealTable table = make({.io = make_local_file_io(), .location = folder / "t"});
  std::vector<DataFile> files = table.write(RealTable::rows_of({1}));
  const std::string listed = files[0].file_path;
  std::filesystem::create_directories(folder / "imported");
  files[0].file_path = folder / "imported" + listed.substr(listed.rfind('/'));
  std::filesystem::copy_file(listed, files[0].file_path);
  table.commit("append", files);
  ::usleep(20'000);
  EXPECT_THAT(remove_orphan_files(table.ops(), now()).files.paths, ElementsAre(listed));
  EXPECT_THAT(table.ids(), ElementsAre(1));
}

TEST_P(Orphans, SchemesOfS3AreOneAndOthersAreWhatTheOptionsSay) {
  // The store takes s3a and other spellings for different objects, so the reached path only has to look like it.
  RealTable table = make({.location = "s3://bucket/t"});
  std::vector<DataFile> files = table.write(RealTable::rows_of({1}));
  for (DataFile& file : files) file.file_path = "s3a" + file.file_path.substr(2);
  table.commit("append", files);
  EXPECT_THAT(remove_orphan_files(table.ops(), now()).files.paths, IsEmpty());

  std::vector<DataFile> strange = table.write(RealTable::rows_of({2}));
  const std::string path = strange[0].file_path;
  strange[0].file_path = "oss" + path.substr(2);
  table.commit("append", strange);
  OrphanOptions options = now();
  EXPECT_THROW(
      {
        try {
          remove_orphan_files(table.ops(), options);
        } catch (const Error& e) {
          EXPECT_EQ(e.kind(), ErrorKind::invalid_argument);
          EXPECT_THAT(e.what(), HasSubstr(strange[0].file_path));
          throw;
        }
      },
      Error);
  options.equal_schemes = {{"oss", "s3"}};
  EXPECT_THAT(remove_orphan_files(table.ops(), options).files.paths, IsEmpty());
  options.equal_schemes = {};
  options.prefix_mismatch = PrefixMismatch::ignore;
  EXPECT_THAT(remove_orphan_files(table.ops(), options).files.paths, IsEmpty());
  options.prefix_mismatch = PrefixMismatch::remove;
  EXPECT_THAT(remove_orphan_files(table.ops(), options).files.paths, ElementsAre(path));
}

TEST_P(Orphans, AuthoritiesAreWhatTheOptionsSay) {
  RealTable table = make({.location = "hdfs://ns1/t"});
  std::vector<DataFile> files = table.write(RealTable::rows_of({1}));
  files[0].file_path = "hdfs://ns1:8020" + files[0].file_path.substr(std::string("hdfs://ns1").size());
  table.commit("append", files);
  OrphanOptions options = now();
  EXPECT_THROW(remove_orphan_files(table.ops(), options), Error);
  options.equal_authorities = {{"ns1:8020", "ns1"}};
  EXPECT_THAT(remove_orphan_files(table.ops(), options).files.paths, IsEmpty());
}

TEST_P(Orphans, TablesBelowTheLocationAreLeftAlone) {
  RealTable table = make({.location = "mem://w/ns"});
  RealTable inner({.io = table.io, .location = "mem://w/ns/deep/t2"});
  inner.append_ids({1});
  put(table, "mem://w/ns/deep/t2/data/left.parquet");
  put(table, "mem://w/ns/deep/left.parquet");
  const OrphanResult result = remove_orphan_files(table.ops(), now());
  EXPECT_THAT(result.files.paths, ElementsAre("mem://w/ns/deep/left.parquet"));
  EXPECT_THAT(result.other_tables, ElementsAre("mem://w/ns/deep/t2"));
  OrphanOptions options = now();
  options.location = "mem://w/ns/deep/t2/data";
  EXPECT_THROW(remove_orphan_files(table.ops(), options), Error);
  options.location = "mem://w/ns/deep/t2";
  EXPECT_THROW(remove_orphan_files(table.ops(), options), Error);
  EXPECT_THAT(inner.ids(), ElementsAre(1));
}

TEST_P(Orphans, OnlyTheTablesFoldersAreLookedAt) {
  RealTable table = make({.properties = {{"write.data.path", "mem://w/elsewhere"}}});
  table.append_ids({1});
  const std::string left = "mem://w/elsewhere/left.parquet";
  put(table, left);
  const OrphanResult result = remove_orphan_files(table.ops(), now());
  EXPECT_THAT(result.files.paths, IsEmpty());
  EXPECT_THAT(result.folders_not_listed, ElementsAre("mem://w/elsewhere"));
  OrphanOptions options = now();
  for (const char* location : {"mem://w", "mem://w/tt", "mem://v/t", "mem://w/elsewher"}) {
    options.location = location;
    EXPECT_THROW(remove_orphan_files(table.ops(), options), Error) << location;
  }
  options.location = "mem://w/elsewhere/";
  EXPECT_THAT(remove_orphan_files(table.ops(), options).files.paths, ElementsAre(left));
  put(table, table.location + "/data/below.parquet");
  put(table, table.location + "/beside.parquet");
  options.location = table.location + "/data";
  EXPECT_THAT(remove_orphan_files(table.ops(), options).files.paths,
              ElementsAre(table.location + "/data/below.parquet"));
  EXPECT_THAT(table.ids(), ElementsAre(1));
}

TEST_P(Orphans, HiddenFilesAreNotLookedAtButForThoseOfPartitions) {
  RealTable table = make();
  table.change([](TableMetadata& next) {
    return update_spec(next, {.add = {{.column = "p", .transform = "identity", .name = "_p"}}});
  });
  table.append_ids({1});
  for (const char* path : {"/_SUCCESS", "/data/.x.crc", "/data/_temporary/0/x.parquet"})
    put(table, table.location + path);
  put(table, table.location + "/data/_p=a/left.parquet");
  EXPECT_THAT(remove_orphan_files(table.ops(), now()).files.paths,
              ElementsAre(table.location + "/data/_p=a/left.parquet"));
}

TEST_P(Orphans, AMovedTablesFilesAreKnownByThePathsItWasWrittenWith) {
  const TempFolder folder;
  {
    RealTable table = make({.io = make_local_file_io(), .location = folder / "old"});
    table.append_ids({1});
  }
  std::filesystem::rename(folder / "old", folder / "new");
  const auto io = make_local_file_io();
  const auto table = open_filesystem_table(io, folder / "new");
  io->put_if_absent(folder / "new/data/left.parquet", "x");
  ::usleep(20'000);
  OrphanOptions options = now();
  EXPECT_THAT(remove_orphan_files(*table, options).files.paths, ElementsAre(folder / "old/data/left.parquet"));
  EXPECT_FALSE(io->stat(folder / "new/data/left.parquet"));
  io->put_if_absent(folder / "new/data/more.parquet", "x");
  options.location = folder / "new/data";
  ::usleep(20'000);
  options.older_than_ms = now_ms() + 1;
  EXPECT_THAT(remove_orphan_files(*table, options).files.paths, SizeIs(1));
  EXPECT_EQ(open_filesystem_table(io, folder / "new")->load().metadata->snapshots.size(), 1u);
}

TEST_P(Orphans, TablesWhoseFilesMayBeOthersAreLeftAlone) {
  RealTable table = make({.properties = {{"gc.enabled", "false"}}});
  EXPECT_THROW(remove_orphan_files(table.ops(), now()), Error);
}

TEST_P(Orphans, AFileCommittedAfterTheListingStays) {
  RealTable table = make();
  table.append_ids({1});
  const std::vector<DataFile> files = table.write(RealTable::rows_of({2}));
  // Committed when the table is loaded for the second time: the listing is over.
  struct Late : TableOperations {
    RealTable& table;
    const std::vector<DataFile>& files;
    int num_loads = 0;
    Late(RealTable& t, const std::vector<DataFile>& f) : table(t), files(f) {}
    const std::string& location() const override { return table.ops().location(); }
    const std::shared_ptr<FileIO>& io() const override { return table.ops().io(); }
    LoadedTable load() override {
      if (++num_loads == 2) table.commit("append", files);
      return table.ops().load();
    }
    Published publish(const LoadedTable& base, TableMetadata next, int64_t id) override {
      return table.ops().publish(base, std::move(next), id);
    }
  } late(table, files);
  EXPECT_THAT(remove_orphan_files(late, now()).files.paths, IsEmpty());
  EXPECT_THAT(table.ids(), ElementsAre(1, 2));
}

// P1.5: a writer of a dropped table published its version into the folder of the new one and died before its check.
TEST_P(Orphans, VersionsOfADroppedTableGoAndTheOneWithTheHintStays) {
  RealTable table = make();
  table.append_ids({1});
  const int64_t version = table.ops().load().version;
  RealTable dropped({.location = "mem://w/other"});
  const std::string bytes = dropped.io->read("mem://w/other/metadata/v1.metadata.json");
  const std::string stray = fmt::format("{}/metadata/v{}.metadata.json", table.location, version + 1);
  table.io->put_if_absent(stray, bytes);
  EXPECT_THROW(open_filesystem_table(table.io, table.location), Error);

  StrayOptions options;
  options.older_than_ms = now_ms() + 1;
  options.dry_run = true;
  EXPECT_THAT(remove_stray_versions(table.io, table.location, options).paths, ElementsAre(stray));
  EXPECT_TRUE(table.exists(stray));
  options.dry_run = false;
  EXPECT_THAT(remove_stray_versions(table.io, table.location, options).paths, ElementsAre(stray));
  EXPECT_EQ(open_filesystem_table(table.io, table.location)->load().version, version);
  EXPECT_THAT(table.ids(), ElementsAre(1));
  EXPECT_THAT(remove_stray_versions(table.io, table.location, options).paths, IsEmpty());
}

TEST_P(Orphans, WithoutAHintNothingTellsWhichVersionIsTheStray) {
  RealTable table = make();
  table.io->remove(table.location + "/metadata/version-hint.text");
  StrayOptions options;
  options.older_than_ms = now_ms() + 1;
  EXPECT_THROW(remove_stray_versions(table.io, table.location, options), Error);
  EXPECT_THROW(remove_stray_versions(table.io, "mem://w/none", options), Error);
}

}  // namespace
}  // namespace firn::iceberg
