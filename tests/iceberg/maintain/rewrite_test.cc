// Manifests and position deletes written anew: the table reads as before, from fewer files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "iceberg/maintain/real_table.h"
#include "iceberg/manifest/file_identity.h"

namespace firn::iceberg {
namespace {

using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class Rewrite : public ::testing::TestWithParam<int> {
 protected:
  RealTable make(RealTableOptions options = {}) {
    options.version = GetParam();
    return RealTable(options);
  }
  static std::vector<ManifestFile> manifests(RealTable& table) {
    const std::string list = table.head().manifest_list;
    return read_manifest_list(table.io->read(list), list);
  }
  // What an entry is, whatever manifest it lies in.
  static Lines entries(RealTable& table) {
    Lines lines;
    for (const LiveFile& file : table.live()) {
      lines.push_back(fmt::format("{} {} {} {} {} {} {}", file_key(file.file), file.snapshot_id,
                                  file.data_sequence_number, file.file_sequence_number, file.file.record_count,
                                  file.file.first_row_id.value_or(-1),
                                  partition_key(file.file.partition_spec_id, file.file.partition)));
    }
    std::sort(lines.begin(), lines.end());
    return lines;
  }
};
INSTANTIATE_TEST_SUITE_P(Versions, Rewrite, ::testing::Values(2, 3), ::testing::PrintToStringParamName());

TEST_P(Rewrite, ManifestsBecomeOneASpecAndContentAndEntriesKeepTheirNumbers) {
  RealTable table = make({.partition = {{"p"}}});
  for (int64_t id = 1; id <= 6; ++id) table.append_ids({id}, id % 2 == 0 ? "a" : "b");
  table.delete_ids({1}, "b");
  table.delete_ids({2}, "a");
  ASSERT_THAT(manifests(table), SizeIs(8));
  const Lines before = entries(table), rows = table.lineage();
  RewriteManifestsOptions options;
  options.dry_run = true;
  EXPECT_THAT(rewrite_manifests(table.ops(), options).rewritten, SizeIs(8));
  ASSERT_THAT(manifests(table), SizeIs(8));
  const RewriteManifestsResult result = rewrite_manifests(table.ops(), {});
  EXPECT_THAT(result.rewritten, SizeIs(8));
  EXPECT_THAT(result.added, SizeIs(2));
  EXPECT_EQ(result.entries, 8);
  EXPECT_THAT(manifests(table), SizeIs(2));
  EXPECT_EQ(entries(table), before);
  EXPECT_EQ(table.lineage(), rows);
  const Snapshot& head = table.head();
  EXPECT_EQ(head.operation(), "replace");
  EXPECT_EQ(head.summary.at("manifests-created"), "2");
  EXPECT_EQ(head.summary.at("manifests-kept"), "0");
  EXPECT_EQ(head.summary.at("manifests-replaced"), "8");
  EXPECT_EQ(head.summary.at("entries-processed"), "8");
  EXPECT_EQ(head.summary.at("total-records"), "6");

  EXPECT_FALSE(rewrite_manifests(table.ops(), {}).snapshot_id);
}

TEST_P(Rewrite, ManifestsOfManyPartitionsAreClusteredByThem) {
  RealTable table = make({.partition = {{"p"}}});
  for (int round = 0; round < 4; ++round) {
    for (const char* p : {"a", "b", "c", "d", "e", "f", "g", "h"}) table.append_ids({round}, p);
  }
  int64_t size = 0;
  for (const ManifestFile& manifest : manifests(table)) size += manifest.manifest_length;
  RewriteManifestsOptions options;
  options.target_size_bytes = size / 4 + 1;
  const Lines before = entries(table);
  rewrite_manifests(table.ops(), options);
  EXPECT_EQ(entries(table), before);
  const std::vector<ManifestFile> written = manifests(table);
  ASSERT_THAT(written, SizeIs(4));
  std::set<std::pair<std::string, std::string>> ranges;
  for (const ManifestFile& manifest : written)
    ranges.emplace(*manifest.partitions->at(0).lower_bound, *manifest.partitions->at(0).upper_bound);
  EXPECT_EQ(ranges, (std::set<std::pair<std::string, std::string>>{{"a", "b"}, {"c", "d"}, {"e", "f"}, {"g", "h"}}));
  EXPECT_FALSE(table.metadata()->properties.contains("commit.manifest.target-size-bytes"));
  EXPECT_FALSE(rewrite_manifests(table.ops(), options).snapshot_id);
}

TEST_P(Rewrite, OnlyManifestsOfTheSpecAskedForAreRewritten) {
  RealTable table = make({.partition = {{"p"}}});
  table.append_ids({1});
  table.append_ids({2});
  table.change([](TableMetadata& next) { return update_spec(next, {.remove = {"p"}}); });
  table.append_ids({3});
  table.append_ids({4});
  RewriteManifestsOptions options;
  options.spec_id = 0;
  EXPECT_THAT(rewrite_manifests(table.ops(), options).rewritten, SizeIs(2));
  EXPECT_THAT(manifests(table), SizeIs(3));
  EXPECT_EQ(table.head().summary.at("manifests-kept"), "2");
  EXPECT_THAT(table.ids(), ElementsAre(1, 2, 3, 4));
  options.spec_id = 9;
  EXPECT_THROW(rewrite_manifests(table.ops(), options), Error);
}

TEST_P(Rewrite, AnAppendMeanwhileIsKept) {
  RealTable table = make();
  table.append_ids({1});
  table.append_ids({2});
  bool is_done = false;
  table.store->before_put([&](const std::string& path) {
    if (std::exchange(is_done, is_done || path.ends_with(".metadata.json")) || !path.ends_with(".metadata.json"))
      return;
    table.append_ids({3});
  });
  rewrite_manifests(table.ops(), {});
  EXPECT_THAT(manifests(table), SizeIs(2));
  EXPECT_THAT(table.ids(), ElementsAre(1, 2, 3));
}

TEST_P(Rewrite, PositionDeletesOfAPartitionBecomeOneFile) {
  if (GetParam() > 2) GTEST_SKIP() << "version 3 has vectors";
  RealTable table = make({.partition = {{"p"}}, .properties = {{"write.delete.granularity", "partition"}}});
  table.append_ids({1, 2, 3, 4}, "a");
  table.append_ids({5, 6, 7, 8}, "a");
  table.append_ids({9, 10}, "b");
  const std::vector<DataFile> data = table.data_files();
  std::map<std::string, std::string> partition_of;
  for (const DataFile& file : data) partition_of[file.file_path] = std::get<std::string>(file.partition[0]);
  for (int64_t position = 0; position < 2; ++position) {
    for (const DataFile& file : data) {
      if (partition_of[file.file_path] == "a") table.delete_positions({{file.file_path, {position}}});
    }
  }
  for (const DataFile& file : data) {
    if (partition_of[file.file_path] == "b") table.delete_positions({{file.file_path, {1}}});
  }
  ASSERT_THAT(table.delete_files(), SizeIs(5));
  const Lines before = table.rows();
  EXPECT_EQ(rewrite_position_deletes(table.ops(), {}).files_removed, 0);  // fewer than five in each partition
  RewritePositionDeletesOptions options;
  options.min_input_files = 4;
  const RewritePositionDeletesResult result = rewrite_position_deletes(table.ops(), options);
  EXPECT_EQ(result.files_removed, 4);
  EXPECT_EQ(result.files_added, 1);
  EXPECT_EQ(result.positions, 4);
  EXPECT_THAT(table.delete_files(), SizeIs(2));
  EXPECT_EQ(table.rows(), before);
  EXPECT_EQ(table.head().operation(), "replace");
  EXPECT_EQ(rewrite_position_deletes(table.ops(), options).files_removed, 0);
}

TEST_P(Rewrite, PositionDeletesOfADataFileBecomeOneFileWhereTheGranularityIsFile) {
  if (GetParam() > 2) GTEST_SKIP() << "version 3 has vectors";
  RealTable table = make({.properties = {{"write.delete.granularity", "file"}}});
  table.append_ids({1, 2, 3, 4});
  table.append_ids({5, 6, 7, 8});
  const std::vector<DataFile> data = table.data_files();
  for (int64_t position = 0; position < 3; ++position)
    table.delete_positions({{data[0].file_path, {position}}, {data[1].file_path, {position}}});
  ASSERT_THAT(table.delete_files(), SizeIs(6));
  const Lines before = table.rows();
  EXPECT_EQ(rewrite_position_deletes(table.ops(), {}).files_added, 2);
  EXPECT_THAT(table.delete_files(), SizeIs(2));
  EXPECT_EQ(table.rows(), before);
  EXPECT_EQ(rewrite_position_deletes(table.ops(), {}).files_removed, 0);
}

TEST_P(Rewrite, PositionsOfFilesThatAreGoneAreDropped) {
  if (GetParam() > 2) GTEST_SKIP() << "version 3 has vectors";
  RealTable table = make({.properties = {{"write.delete.granularity", "partition"}}});
  table.append_ids({1, 2, 3});
  table.append_ids({4, 5, 6});
  const std::vector<DataFile> data = table.data_files();
  table.delete_positions({{data[0].file_path, {0}}, {data[1].file_path, {0}}});
  table.delete_positions({{data[0].file_path, {1}}, {data[1].file_path, {1}}});
  table.commit("delete", {}, {data[0]});
  const Lines before = table.rows();
  RewritePositionDeletesOptions options;
  options.min_input_files = 2;
  const RewritePositionDeletesResult result = rewrite_position_deletes(table.ops(), options);
  EXPECT_EQ(result.positions, 2);
  EXPECT_EQ(result.positions_dropped, 2);
  EXPECT_EQ(table.rows(), before);
  // With the other one gone, nothing is left to rewrite: what remains is dropped whatever its number.
  table.commit("delete", {}, {data[1]});
  ASSERT_THAT(table.live(), SizeIs(Ge(0u)));
  rewrite_position_deletes(table.ops(), {});
  EXPECT_THAT(table.live(), IsEmpty());
}

TEST_P(Rewrite, PositionDeletesOfAnUpgradedTableBecomeVectors) {
  for (const char* granularity : {"file", "partition"}) {
    SCOPED_TRACE(granularity);
    RealTable table({.partition = {{"p"}}, .properties = {{"write.delete.granularity", granularity}}});
    table.append_ids({1, 2, 3}, "a");
    table.append_ids({4, 5, 6}, "a");
    table.append_ids({7, 8, 9}, "b");
    const std::vector<DataFile> data = table.data_files();
    table.delete_positions({{data[0].file_path, {0}}, {data[1].file_path, {2}}});
    table.delete_positions({{data[0].file_path, {1}}, {data[2].file_path, {1}}});
    table.change([](TableMetadata& next) { return upgrade_format_version(next, 3); });
    table.append_ids({10, 11}, "c");
    const Lines before = table.rows();
    RewritePositionDeletesOptions options;
    options.dry_run = true;
    const auto files = static_cast<int64_t>(table.delete_files().size());
    EXPECT_EQ(rewrite_position_deletes(table.ops(), options).files_removed, files);
    options.dry_run = false;
    const RewritePositionDeletesResult result = rewrite_position_deletes(table.ops(), options);
    EXPECT_EQ(result.files_removed, files);
    EXPECT_EQ(result.files_added, 3);
    EXPECT_EQ(result.positions, 4);
    for (const DataFile& file : table.delete_files()) EXPECT_TRUE(is_deletion_vector(file));
    EXPECT_THAT(table.delete_files(), SizeIs(3));
    EXPECT_EQ(table.rows(), before);
    EXPECT_EQ(rewrite_position_deletes(table.ops(), options).files_removed, 0);
    table.delete_positions({{data[0].file_path, {2}}});  // a vector more, merged with the one made here
    EXPECT_THAT(table.rows(), SizeIs(before.size() - 1));
  }
}

TEST_P(Rewrite, AVectorMadeMeanwhileIsAConflict) {
  RealTable table;
  table.append_ids({1, 2, 3});
  const std::string path = table.data_files()[0].file_path;
  table.delete_positions({{path, {0}}});
  table.change([](TableMetadata& next) { return upgrade_format_version(next, 3); });
  bool is_done = false;
  table.store->before_put([&](const std::string& put) {
    if (std::exchange(is_done, is_done || put.ends_with(".metadata.json")) || !put.ends_with(".metadata.json")) return;
    table.delete_positions({{path, {0, 1}}});
  });
  EXPECT_THROW(
      {
        try {
          rewrite_position_deletes(table.ops(), {});
        } catch (const Error& e) {
          EXPECT_EQ(e.kind(), ErrorKind::commit_conflict);
          throw;
        }
      },
      Error);
  EXPECT_THAT(table.ids(), ElementsAre(3));
  rewrite_position_deletes(table.ops(), {});
  EXPECT_THAT(table.ids(), ElementsAre(3));
  EXPECT_THAT(table.delete_files(), SizeIs(1));
}

}  // namespace
}  // namespace firn::iceberg
