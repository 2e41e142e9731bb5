// Maintenance, checks and dropping from the command line.
#include "cli/firn/run_firn.h"

namespace firn {
namespace {

using ::testing::HasSubstr;

class FirnMaintain : public FirnCommand {
 protected:
  void create_with_appends(int num_appends, const Strings& more = {}) {
    create(more);
    for (int i = 0; i < num_appends; ++i) append("{\"id\":" + std::to_string(i) + "}\n");
  }
  // Runs it dry and checks that no file changed.
  Json dry(Strings words) {
    words.insert(words.end(), {"--dry-run", "--json"});
    const auto before = files_of_table();
    const Json json = json_of(words);
    EXPECT_EQ(files_of_table(), before) << words_text(words);
    EXPECT_EQ(json["dry-run"], true);
    return json;
  }
};

TEST_F(FirnMaintain, CompactsSmallFiles) {
  create_with_appends(6);
  EXPECT_EQ(dry({"compact", table_})["files-rewritten"], 6);
  const Json done = json_of({"compact", table_, "--json"});
  EXPECT_EQ(done["files-rewritten"], 6);
  EXPECT_EQ(done["files-added"], 1);
  EXPECT_EQ(lines_of(output_of({"files", table_})).size(), 2u);
  EXPECT_EQ(count(), "6\n");
  EXPECT_EQ(output_of({"compact", table_}), "nothing to do\n");
}

TEST_F(FirnMaintain, CompactsInAnOrder) {
  create_with_appends(6);
  output_of({"compact", table_, "--sort-by", "id desc", "--memory", "64MiB"});
  EXPECT_EQ(lines_of(output_of({"scan", table_, "--csv", "--select", "id"})),
            (Strings{"id", "5", "4", "3", "2", "1", "0"}));
  EXPECT_THAT(error_of({"compact", table_, "--sort-by", "nope"}), HasSubstr("nope"));
  EXPECT_THAT(error_of({"compact", table_, "--target-size", "big"}, 2), HasSubstr("128MB"));
}

TEST_F(FirnMaintain, ExpiresOldSnapshots) {
  create_with_appends(3);
  output_of({"delete", table_, "--all"});
  const Json would = dry({"expire", table_, "--older-than", "0s"});
  EXPECT_EQ(would["expired-snapshots"].size(), 3u);
  EXPECT_EQ(would["data-files"], 3);
  const Json done = json_of({"expire", table_, "--older-than", "0s", "--json"});
  EXPECT_EQ(done["expired-snapshots"], would["expired-snapshots"]);
  EXPECT_EQ(done["data-files"], 3);
  EXPECT_EQ(json_of({"snapshots", table_, "--json"}).size(), 1u);
  EXPECT_EQ(output_of({"expire", table_, "--older-than", "0s"}), "nothing to do\n");
  EXPECT_THAT(error_of({"expire", table_, "--older-than", "old"}, 2), HasSubstr("7d"));
}

TEST_F(FirnMaintain, RemovesOrphans) {
  create_with_appends(2);
  const std::string orphan = write("t/data/left.parquet", "left");
  EXPECT_EQ(
      dry({"orphans", table_})["data-files"].get<int64_t>() + dry({"orphans", table_})["other-files"].get<int64_t>(),
      0);  // too young
  std::filesystem::last_write_time(orphan, std::filesystem::file_time_type::clock::now() - std::chrono::hours(100));
  EXPECT_THAT(output_of({"orphans", table_, "--dry-run"}), HasSubstr(orphan));
  EXPECT_EQ(dry({"orphans", table_})["paths"], Json::array({orphan}));
  EXPECT_EQ(json_of({"orphans", table_, "--json"})["paths"], Json::array({orphan}));
  EXPECT_FALSE(std::filesystem::exists(orphan));
  EXPECT_EQ(count(), "2\n");
}

TEST_F(FirnMaintain, CompactingSaysHowManyDeleteFilesGo) {
  create({"--property", "format-version=3"});
  append("{\"id\":1}\n{\"id\":2}\n");
  output_of({"delete", table_, "--where", "id = 1", "--mode", "merge-on-read"});
  EXPECT_EQ(dry({"compact", table_, "--all"})["delete-files-removed"], 1);
  EXPECT_EQ(json_of({"compact", table_, "--all", "--json"})["delete-files-removed"], 1);
  EXPECT_EQ(count(), "1\n");
}

TEST_F(FirnMaintain, FilesOfAnOldSpecAreListedWithoutItsColumn) {
  create({"--column", "ts timestamp", "--column", "d date", "--partition", "day(ts)", "--partition", "d"});
  append("{\"id\":1,\"ts\":\"2024-02-29T12:00:00\",\"d\":\"2024-03-01\"}\n");
  for (const char* field : {"day(ts)", "d"}) output_of({"alter", "drop-partition", table_, field});
  for (const char* column : {"ts", "d"}) output_of({"alter", "drop-column", table_, column});
  EXPECT_THAT(output_of({"files", table_}), HasSubstr("ts_day=2024-02-29/d=2024-03-01"));
  output_of({"partitions", table_});
  append("{\"id\":2}\n");
  output_of({"delete", table_, "--where", "id = 1", "--mode", "merge-on-read"});
  EXPECT_EQ(count(), "1\n");
}

// As tables look that other catalogs write.
class FirnForeignTable : public FirnMaintain {
 protected:
  void create_foreign() {
    create_with_appends(2);
    std::filesystem::rename(table_ + "/metadata/v3.metadata.json",
                            table_ + "/metadata/00003-2a9e2566-699c-44b1-b7f0-87cec3758a67.metadata.json");
    for (const char* name : {"v1.metadata.json", "v2.metadata.json", "version-hint.text"})
      std::filesystem::remove(table_ + "/metadata/" + name);
  }
};

TEST_F(FirnForeignTable, IsRefusedByADryRunAsByTheRealOne) {
  create_foreign();
  EXPECT_EQ(count(), "2\n");
  EXPECT_THAT(output_of({"describe", table_}), HasSubstr("read only: another catalog"));
  EXPECT_TRUE(json_of({"describe", table_, "--json"})["read-only"]);
  const std::string rows = write("x.ndjson", "{\"id\":9}\n");
  const std::string head = json_of({"snapshots", table_, "--json"})[1]["snapshot-id"].dump();
  const auto before = files_of_table();
  const std::vector<Strings> all = {{"append", table_, rows},
                                    {"delete", table_, "--all"},
                                    {"overwrite", table_, rows, "--all"},
                                    {"upsert", table_, rows, "--key", "id"},
                                    {"alter", "add-column", table_, "x", "int"},
                                    {"tag", table_, "t"},
                                    {"branch", table_, "b"},
                                    {"rollback", table_, "main"},
                                    {"cherry-pick", table_, head},
                                    {"compact", table_, "--all"},
                                    {"expire", table_, "--older-than", "0s"},
                                    {"rewrite-manifests", table_},
                                    {"rewrite-deletes", table_}};
  for (Strings words : all) {
    SCOPED_TRACE(words_text(words));
    const std::string refused = error_of(words);
    EXPECT_THAT(refused, HasSubstr("another catalog"));
    EXPECT_EQ(lines_of(refused).size(), 1u) << refused;
    words.push_back("--dry-run");
    EXPECT_EQ(error_of(words), refused);
  }
  EXPECT_EQ(files_of_table(), before);
}

TEST_F(FirnMaintain, ACopiedTableNamesItsOwnFiles) {
  create_with_appends(2);
  const std::string copy = folder_ / "t-copy";
  std::filesystem::copy(table_, copy, std::filesystem::copy_options::recursive);
  const std::string recorded = json_of({"files", copy, "--json"})[0]["file-path"];
  const std::string lost = copy + recorded.substr(table_.size());
  const std::string orphan = write("t-copy/data/left.parquet", "left");
  std::filesystem::last_write_time(orphan, std::filesystem::file_time_type::clock::now() - std::chrono::hours(100));
  EXPECT_EQ(lines_of(output_of({"orphans", copy, "--dry-run"}))[0], orphan);
  EXPECT_EQ(json_of({"orphans", copy, "--json"})["paths"], Json::array({orphan}));
  std::filesystem::remove(lost);
  const ProgramResult verified = run_firn({"verify", copy, "--json"});
  EXPECT_EQ(Json::parse(verified.out)["findings"][0]["object"], lost);
  EXPECT_THAT(run_firn({"scan", copy}).err, HasSubstr(lost));
  EXPECT_EQ(count(), "2\n");  // the original has all
}

TEST_F(FirnMaintain, ARelocationThatIsAskedForGoesBeforeTheTablesOwn) {
  create_with_appends(1);
  const std::string copy = folder_ / "t-copy";
  std::filesystem::copy(table_, copy, std::filesystem::copy_options::recursive);
  std::filesystem::rename(copy + "/data", folder_ / "elsewhere");
  std::filesystem::rename(table_, folder_ / "away");
  EXPECT_EQ(rows_of(copy, {"--relocate", table_ + "/data=" + (folder_ / "elsewhere")}),
            (Strings{R"({"id":0,"name":null})"}));
}

TEST_F(FirnMaintain, VerifySaysOnceWhatSeveralSnapshotsShare) {
  create_with_appends(3);
  const Strings manifests = lines_of(output_of({"metadata", table_, "manifests", "--json"}));
  std::filesystem::remove(parse_json(manifests.back(), "row")["path"].get<std::string>());
  const ProgramResult result = run_firn({"verify", table_, "--all-snapshots"});
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(lines_of(result.out).size(), 2u) << result.out;
  EXPECT_EQ(lines_of(result.out).back(), "1 error, 0 warnings");
}

TEST_F(FirnMaintain, ExpiringTellsTheSizeOfWhatGoes) {
  create_with_appends(2);
  EXPECT_THAT(output_of({"expire", table_, "--older-than", "0s", "--dry-run"}), ::testing::Not(HasSubstr("(0 bytes)")));
}

TEST_F(FirnMaintain, RewritesManifests) {
  create_with_appends(3);
  const size_t num_manifests = lines_of(output_of({"metadata", table_, "manifests", "--json"})).size();
  ASSERT_GT(num_manifests, 1u);
  EXPECT_EQ(dry({"rewrite-manifests", table_})["rewritten"].size(), num_manifests);
  EXPECT_EQ(json_of({"rewrite-manifests", table_, "--json"})["added"].size(), 1u);
  EXPECT_EQ(lines_of(output_of({"metadata", table_, "manifests", "--json"})).size(), 1u);
  EXPECT_EQ(count(), "3\n");
}

TEST_F(FirnMaintain, RewritesPositionDeletesAsVectors) {
  create();
  append("{\"id\":1}\n{\"id\":2}\n{\"id\":3}\n");
  output_of({"delete", table_, "--where", "id = 1", "--mode", "merge-on-read"});
  output_of({"alter", "upgrade", table_, "3"});
  EXPECT_EQ(dry({"rewrite-deletes", table_})["files-removed"], 1);
  EXPECT_EQ(json_of({"rewrite-deletes", table_, "--json"})["files-added"], 1);
  EXPECT_THAT(output_of({"files", table_, "--json"}), HasSubstr("PUFFIN"));
  EXPECT_EQ(count(), "2\n");
}

TEST_F(FirnMaintain, VerifyFindsAMissingFile) {
  create_with_appends(2);
  EXPECT_EQ(output_of({"verify", table_, "--strict", "--data", "--all-snapshots"}), "nothing is wrong\n");
  EXPECT_EQ(json_of({"verify", table_, "--json"})["findings"].size(), 0u);
  const std::string lost = json_of({"files", table_, "--json"})[0]["file-path"];
  std::filesystem::remove(lost);
  const ProgramResult result = run_firn({"verify", table_, "--json"});
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(Json::parse(result.out)["findings"][0]["object"], lost);
  EXPECT_THAT(run_firn({"verify", table_}).out, HasSubstr(lost));
}

TEST_F(FirnMaintain, ADroppedTableIsGone) {
  create_with_appends(2);
  const Json would = dry({"drop", table_});
  EXPECT_EQ(would["files"], static_cast<int64_t>(files_of_table().size()));
  EXPECT_EQ(json_of({"drop", table_, "--json"})["files"], would["files"]);
  EXPECT_THAT(error_of({"scan", table_}), HasSubstr(table_));
  create();
  EXPECT_EQ(count(), "0\n");
}

}  // namespace
}  // namespace firn
