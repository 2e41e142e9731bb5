// delete_rows: the rows that go and those that stay, by hand-computed tables, in both modes and on both versions.
#include "row_table.h"

namespace firn::iceberg {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

struct Case {
  int32_t version;
  RowMode mode;
};
class DeleteRows : public ::testing::TestWithParam<Case> {
 protected:
  RowOptions options() const {
    RowOptions options;
    options.mode = GetParam().mode;
    return options;
  }
  bool is_merge_on_read() const { return GetParam().mode == RowMode::merge_on_read; }
  bool is_v3() const { return GetParam().version == 3; }
  RowTable make(const std::vector<PartitionDeclaration>& partitions = {},
                std::map<std::string, std::string> properties = {}) const {
    return RowTable(GetParam().version, partitions, std::move(properties));
  }
};
INSTANTIATE_TEST_SUITE_P(, DeleteRows,
                         ::testing::Values(Case{2, RowMode::copy_on_write}, Case{2, RowMode::merge_on_read},
                                           Case{3, RowMode::copy_on_write}, Case{3, RowMode::merge_on_read}),
                         [](const auto& info) {
                           return std::string("V") + std::to_string(info.param.version) +
                                  (info.param.mode == RowMode::copy_on_write ? "CopyOnWrite" : "MergeOnRead");
                         });

TEST_P(DeleteRows, TakesMatchingRowsAndLeavesTheOthers) {
  RowTable table = make();
  table.append(R"([{"id":1,"part":"a","val":1},{"id":2,"part":"b","val":2},{"id":3,"part":null,"val":null}])");
  table.append(R"([{"id":4,"part":"a","val":4}])");
  const RowsResult result = delete_rows(*table.table, parse_expression("id in (1, 3, 9)"), options());
  ASSERT_TRUE(result.commit);
  EXPECT_EQ(result.counts.rows_deleted, 2);
  EXPECT_EQ(result.counts.rows_updated + result.counts.rows_inserted, 0);
  EXPECT_THAT(table.ids(), ElementsAre(2, 4));
  EXPECT_EQ(table.metadata().current_snapshot()->operation(), is_merge_on_read() ? "delete" : "overwrite");
  EXPECT_THAT(table.files_of(FileContent::position_deletes), SizeIs(is_merge_on_read() ? 1 : 0));
  EXPECT_THAT(table.orphans(), IsEmpty());
}

TEST_P(DeleteRows, NothingMatchedMakesNoSnapshotAndNoFile) {
  RowTable table = make();
  EXPECT_FALSE(delete_rows(*table.table, parse_expression("id = 1"), options()).commit);  // no rows at all
  table.append(R"([{"id":1},{"id":5}])");
  const size_t files = table.store->paths().size();
  const RowsResult result = delete_rows(*table.table, parse_expression("id = 3"), options());
  EXPECT_FALSE(result.commit);
  EXPECT_EQ(result.counts.rows_deleted, 0);
  EXPECT_EQ(table.num_snapshots(), 1u);
  EXPECT_EQ(table.store->paths().size(), files);
}

TEST_P(DeleteRows, FilesProvenToMatchGoUnread) {
  RowTable table = make({{"part"}});
  table.append(R"([{"id":1,"part":"a"},{"id":2,"part":"a"}])");
  table.append(R"([{"id":7,"part":"b"},{"id":8,"part":"b"}])");
  const auto paths = table.data_paths();
  const RowsResult by_partition = delete_rows(*table.table, parse_expression("part = 'a'"), options());
  EXPECT_EQ(by_partition.counts.rows_deleted, 2);
  EXPECT_EQ(table.metadata().current_snapshot()->operation(), "delete");
  const RowsResult by_bounds = delete_rows(*table.table, parse_expression("id >= 7"), options());
  EXPECT_EQ(by_bounds.counts.rows_deleted, 2);
  for (const std::string& path : paths) EXPECT_EQ(table.store->num_reads(path), 0) << path;
  EXPECT_THAT(table.files(), IsEmpty());
  EXPECT_EQ(table.num_snapshots(), 4u);
}

// Case 1: bounds leave out null and NaN, so they prove no whole file for a comparison.
TEST_P(DeleteRows, ANullOrNaNThatDoesNotMatchSurvives) {
  RowTable table = make();
  table.append(R"([{"id":null,"part":"x","val":1},{"id":5,"part":"x","val":1}])");
  delete_rows(*table.table, parse_expression("id = 5"), options());
  EXPECT_THAT(table.ids(), ElementsAre(-1));
  table.append(R"([{"id":6,"part":"x","val":NaN},{"id":7,"part":"x","val":5}])");
  delete_rows(*table.table, parse_expression("val < 10 and id > 0"), options());
  EXPECT_THAT(table.ids(), ElementsAre(-1, 6));
  delete_rows(*table.table, parse_expression("id != 6"), options());
  EXPECT_THAT(table.ids(), ElementsAre(-1, 6));
  delete_rows(*table.table, parse_expression("id is null"), options());
  EXPECT_THAT(table.ids(), ElementsAre(6));
  delete_rows(*table.table, parse_expression("isnan(val)"), options());
  EXPECT_THAT(table.ids(), IsEmpty());
}

TEST_P(DeleteRows, NoFilterEmptiesTheTable) {
  RowTable table = make();
  table.append(R"([{"id":1},{"id":2}])");
  table.append(R"([{"id":3}])");
  EXPECT_EQ(delete_rows(*table.table, nullptr, options()).counts.rows_deleted, 3);
  EXPECT_THAT(table.files(), IsEmpty());
  EXPECT_FALSE(delete_rows(*table.table, nullptr, options()).commit);
}

TEST_P(DeleteRows, EarlierDeletesOfEveryKindHold) {
  RowTable table = make();
  table.append(R"([{"id":1},{"id":2},{"id":3},{"id":4},{"id":5},{"id":6}])");
  table.delete_equal({1}, R"([{"id":2}])");
  table.delete_positions({{table.data_paths()[0], {0}}});
  EXPECT_THAT(table.ids(), ElementsAre(3, 4, 5, 6));
  EXPECT_EQ(delete_rows(*table.table, parse_expression("id <= 3"), options()).counts.rows_deleted, 1);
  EXPECT_THAT(table.ids(), ElementsAre(4, 5, 6));
  EXPECT_EQ(delete_rows(*table.table, parse_expression("id = 6 or id = 1"), options()).counts.rows_deleted, 1);
  EXPECT_THAT(table.ids(), ElementsAre(4, 5));
  // A row like the one that was deleted by its value comes back and stays.
  table.append(R"([{"id":2}])");
  EXPECT_THAT(table.ids(), ElementsAre(2, 4, 5));
  EXPECT_EQ(delete_rows(*table.table, parse_expression("id >= 2"), options()).counts.rows_deleted, 3);
  EXPECT_THAT(table.ids(), IsEmpty());
}

TEST_P(DeleteRows, DeletesLieInTheSpecOfTheirDataFile) {
  RowTable table = make({{"part"}});
  table.append(R"([{"id":1,"part":"a"},{"id":2,"part":"a"},{"id":3,"part":null}])");
  table.evolve_spec("id", "bucket[4]");
  table.append(R"([{"id":4,"part":"a"},{"id":5,"part":"b"}])");
  delete_rows(*table.table, parse_expression("id in (1, 4)"), options());
  EXPECT_THAT(table.ids(), ElementsAre(2, 3, 5));
  for (const DataFile& file : table.files_of(FileContent::position_deletes)) {
    ASSERT_FALSE(file.referenced_data_file.empty());
    for (const DataFile& data : table.files_of(FileContent::data)) {
      if (data.file_path != file.referenced_data_file) continue;
      EXPECT_EQ(file.partition_spec_id, data.partition_spec_id);
      EXPECT_EQ(file.partition, data.partition);
    }
  }
  if (is_merge_on_read()) return;
  for (const DataFile& data : table.files_of(FileContent::data)) {
    // The row that stayed was written anew under the new spec.
    EXPECT_EQ(data.partition_spec_id, data.partition == std::vector<Value>{Value()} ? 0 : 1);
  }
}

TEST_P(DeleteRows, RowsThatStayKeepTheirLineage) {
  if (!is_v3()) return;
  RowTable table = make();
  table.append(R"([{"id":1},{"id":2},{"id":3}])");
  table.append(R"([{"id":4},{"id":5}])");
  auto row_ids = table.lineage("_row_id");
  auto updated = table.lineage("_last_updated_sequence_number");
  delete_rows(*table.table, parse_expression("id in (2, 4)"), options());
  for (const char* id : {"2", "4"}) {
    EXPECT_EQ(row_ids.erase(id), 1u);
    updated.erase(id);
  }
  EXPECT_EQ(table.lineage("_row_id"), row_ids);
  EXPECT_EQ(table.lineage("_last_updated_sequence_number"), updated);
  EXPECT_EQ(row_ids.at("1"), "0");
  EXPECT_EQ(row_ids.at("5"), "4");
  EXPECT_EQ(updated.at("5"), "2");
  table.append(R"([{"id":6}])");  // row ids never come twice
  const auto later = table.lineage("_row_id");
  for (const auto& [id, row_id] : row_ids) EXPECT_NE(later.at("6"), row_id);
}

TEST_P(DeleteRows, RewrittenFilesHaveTheCurrentSchema) {
  RowTable table = make();
  table.append(R"([{"id":1,"part":"a","val":1},{"id":2,"part":"b","val":2}])");
  table.change_metadata([](TableMetadata& next) {
    std::vector<Field> fields = next.schema().fields();
    fields.erase(fields.begin() + 1);
    fields[0].name = "key";
    fields.push_back(column(4, "note", primitive(TypeId::string)));
    set_current_schema(next, Schema(fields, next.current_schema_id), 4);
  });
  RowOptions any_case = options();
  any_case.case_sensitive = false;
  delete_rows(*table.table, parse_expression("KEY = 1"), any_case);
  EXPECT_THAT(table.rows(), ElementsAre(R"({"key":2,"val":"2.0","note":null})"));
  expect_error(ErrorKind::invalid_argument, "KEY",
               [&] { delete_rows(*table.table, parse_expression("KEY = 2"), options()); });
}

TEST_P(DeleteRows, RowsFromBeforeAStructWithRequiredMembersStay) {
  RowTable table = make();
  table.append(R"([{"id":1},{"id":2},{"id":3}])");
  table.change_metadata(add_required_members);
  delete_rows(*table.table, parse_expression("id = 1"), options());
  EXPECT_THAT(table.ids(), ElementsAre(2, 3));
  EXPECT_THAT(table.rows({.columns = {"st"}}), Each(R"({"st":null})"));
  if (is_v3()) {
    EXPECT_THAT(table.rows({.columns = {"v"}}), Each(R"({"v":null})"));
    return;  // a variant's bytes are no text, which the rows below are
  }
  // With one that has the members, and its nulls beside it, once more.
  table.append(R"([{"id":4,"st":{"r":"a","deep":{"x":1,"s":null,"l":["b"],"m":[["k",2]],"f":"cd"}}},{"id":5}])");
  const Lines before = table.rows();
  delete_rows(*table.table, parse_expression("id in (2, 5)"), options());
  EXPECT_THAT(table.rows(), ElementsAre(before[1], before[2]));
  EXPECT_THAT(before[2], HasSubstr(R"("r":"a")"));
}

TEST_P(DeleteRows, ABranchChangesAlone) {
  RowTable table = make();
  table.append(R"([{"id":1},{"id":2},{"id":3}])");
  RowOptions dev = options();
  dev.branch = "dev";
  delete_rows(*table.table, parse_expression("id = 2"), dev);
  table.append(R"([{"id":9}])");
  delete_rows(*table.table, parse_expression("id = 3 or id = 9"), dev);
  EXPECT_THAT(table.ids(), ElementsAre(1, 2, 3, 9));
  EXPECT_THAT(table.ids("dev"), ElementsAre(1));
}

TEST_P(DeleteRows, ACommitIdIsDoneOnce) {
  RowTable table = make();
  table.append(R"([{"id":1},{"id":2}])");
  RowOptions once = options();
  once.summary["why"] = "test";
  once.commit_id = CommitId{"firn.commit-id", "x", table.metadata().last_sequence_number};
  const RowsResult first = delete_rows(*table.table, parse_expression("id = 1"), once);
  EXPECT_EQ(table.summary().at("why"), "test");
  const RowsResult again = delete_rows(*table.table, parse_expression("id = 1"), once);
  ASSERT_TRUE(again.commit);
  EXPECT_TRUE(again.commit->recognised);
  EXPECT_EQ(again.commit->snapshot_id, first.commit->snapshot_id);
  EXPECT_EQ(again.counts.rows_deleted, 0);
  EXPECT_EQ(table.num_snapshots(), 2u);
}

TEST_P(DeleteRows, TheTablesPropertySaysTheMode) {
  RowTable table = make({}, {{"write.delete.mode", is_merge_on_read() ? "merge-on-read" : "copy-on-write"}});
  table.append(R"([{"id":1},{"id":2}])");
  delete_rows(*table.table, parse_expression("id = 1"));
  EXPECT_EQ(table.files_of(FileContent::position_deletes).empty(), !is_merge_on_read());
  table.change_metadata([](TableMetadata& next) { next.properties["write.delete.mode"] = "merge-on-write"; });
  expect_error(ErrorKind::invalid_argument, "write.delete.mode",
               [&] { delete_rows(*table.table, parse_expression("id = 2")); });
}

TEST(DeleteVectors, OneHoldsTheEarlierOneAndReplacesIt) {
  RowTable table(3);
  table.append(R"([{"id":1},{"id":2},{"id":3},{"id":4}])");
  table.append(R"([{"id":5},{"id":6}])");
  RowOptions options;
  options.mode = RowMode::merge_on_read;
  delete_rows(*table.table, parse_expression("id in (1, 5)"), options);
  const auto first = table.files_of(FileContent::position_deletes);
  ASSERT_THAT(first, SizeIs(2));
  EXPECT_EQ(first[0].file_path, first[1].file_path);  // one Puffin file
  EXPECT_EQ(first[0].file_format, "PUFFIN");
  delete_rows(*table.table, parse_expression("id = 3"), options);
  const auto second = table.files_of(FileContent::position_deletes);
  ASSERT_THAT(second, SizeIs(2));
  std::map<std::string, int64_t> cardinality;
  for (const DataFile& file : second) cardinality[file.referenced_data_file] += file.record_count;
  for (const DataFile& file : table.files_of(FileContent::data))
    EXPECT_EQ(cardinality.at(file.file_path), file.record_count == 4 ? 2 : 1);
  EXPECT_THAT(table.ids(), ElementsAre(2, 4, 6));
  EXPECT_EQ(table.summary().at("total-position-deletes"), "3");
}

TEST(DeleteVectors, FoldInPositionDeletesOfVersion2) {
  for (const char* granularity : {"file", "partition"}) {
    RowTable table(2, {}, {{"write.delete.granularity", granularity}, {"write.delete.mode", "merge-on-read"}});
    table.append(R"([{"id":1},{"id":2},{"id":3}])");
    table.append(R"([{"id":4},{"id":5},{"id":6}])");
    delete_rows(*table.table, parse_expression("id in (1, 4)"));
    EXPECT_THAT(table.files_of(FileContent::position_deletes), SizeIs(std::string(granularity) == "file" ? 2 : 1));
    table.change_metadata([](TableMetadata& next) { next.format_version = 3; });
    EXPECT_EQ(delete_rows(*table.table, parse_expression("id in (1, 2)")).counts.rows_deleted, 1);
    EXPECT_THAT(table.ids(), ElementsAre(3, 5, 6));
    int64_t vectors = 0;
    for (const DataFile& file : table.files_of(FileContent::position_deletes)) {
      if (!is_deletion_vector(file)) {
        EXPECT_NE(single_data_file(file), table.data_paths()[0] + "x");
        continue;
      }
      ++vectors;
      EXPECT_EQ(file.record_count, 2);
    }
    EXPECT_EQ(vectors, 1);
    EXPECT_THAT(table.files_of(FileContent::position_deletes), SizeIs(2));
    delete_rows(*table.table, parse_expression("id = 5"));
    EXPECT_THAT(table.ids(), ElementsAre(3, 6));
  }
}

// What a rewrite reads and writes is the same for types that only version 3 has, and for nested ones.
TEST(DeleteRowsOf, RewritesCarryEveryTypeThrough) {
  const Schema schema(
      {column(1, "id", primitive(TypeId::long_)), column(2, "nothing", primitive(TypeId::unknown)),
       column(3, "any", primitive(TypeId::variant)), column(4, "ns", primitive(TypeId::timestamptz_ns)),
       column(5, "shape", Type::geometry("")), column(6, "earth", Type::geography("", "")),
       column(7, "dec", Type::decimal(38, 5)), column(8, "fixed", Type::fixed(2)),
       column(9, "list",
              Type::list_of(10, false,
                            Type::struct_of(
                                {column(11, "x", primitive(TypeId::int_)), column(12, "u", primitive(TypeId::uuid))}))),
       column(13, "map", Type::map_of(14, primitive(TypeId::string), 15, false, primitive(TypeId::float_)))});
  const std::string row =
      R"("nothing":null,"any":{"metadata":"\u0001\u0000\u0000","value":"\f\u0005"},"ns":1,"shape":"wkb",)"
      R"("earth":"wkb","dec":"-1.00000","fixed":"ab","list":[{"x":1,"u":"0123456789abcdef"},null,{"x":null}],)"
      R"("map":[["a",1.5],["b",null]]})";
  for (const RowMode mode : {RowMode::copy_on_write, RowMode::merge_on_read}) {
    RowTable table(3, {}, {}, schema);
    table.append(R"([{"id":1,)" + row + R"(,{"id":2,)" + row + R"(,{"id":3}])");
    Lines rows = table.rows();
    ASSERT_THAT(rows, SizeIs(3));
    delete_rows(*table.table, parse_expression("id = 1"), {.mode = mode});
    rows.erase(rows.begin());
    EXPECT_EQ(table.rows(), rows);
    const auto source = table.reader(R"([{"id":3,)" + row + R"(,{"id":2,)" + row + "]");
    const RowsResult result = upsert_rows(*table.table, *source, {.rows = {.mode = mode}, .key_columns = {"id"}});
    EXPECT_EQ(result.counts.rows_updated, 1);
    std::string third = rows[0];
    third.replace(third.find("2"), 1, "3");
    EXPECT_THAT(table.rows(), ElementsAre(rows[0], third));
  }
}

TEST(DeleteRowsOf, FormatVersion1IsRefused) {
  RowTable table(2);
  TableMetadata metadata = table.metadata();
  metadata.format_version = 1;
  expect_error(ErrorKind::unsupported, "version 1",
               [&] { prepare_delete_rows(metadata, table.store, parse_expression("id = 1")); });
}

// Equality deletes that come after a rewrite was read still hit its rows (the data sequence number is the one read).
TEST(DeleteRowsOf, RewrittenRowsStayOpenToLaterEqualityDeletes) {
  RowTable table(2);
  table.append(R"([{"id":1},{"id":2},{"id":3}])");
  const PreparedRows prepared = prepare_delete_rows(table.metadata(), table.store, parse_expression("id = 1"),
                                                    {.isolation = Isolation::snapshot});
  table.delete_equal({1}, R"([{"id":3}])");
  commit_snapshot(*table.table, *prepared.change);
  EXPECT_THAT(table.ids(), ElementsAre(2));
}

TEST(DeleteRowsOf, RowsThatEarlierDeletesHideLeaveTheirFilesWhereThatIsAskedFor) {
  for (const int32_t version : {2, 3}) {
    RowTable table(version);
    table.append(R"([{"id":1},{"id":2},{"id":3}])");
    table.append(R"([{"id":4},{"id":5}])");
    table.append(R"([{"id":6}])");
    delete_rows(*table.table, parse_expression("id in (1, 2, 4, 5)"), {.mode = RowMode::merge_on_read});
    RowOptions options;
    options.mode = RowMode::copy_on_write;
    EXPECT_FALSE(delete_rows(*table.table, parse_expression("id in (1, 4)"), options).commit);
    options.removes_hidden = true;
    EXPECT_EQ(delete_rows(*table.table, parse_expression("id in (1, 4)"), options).counts.rows_deleted, 0);
    int64_t stored = 0;
    for (const DataFile& file : table.files_of(FileContent::data)) stored += file.record_count;
    EXPECT_EQ(stored, 2) << version;  // 3 and 6
    EXPECT_THAT(table.ids(), ElementsAre(3, 6));
    EXPECT_FALSE(delete_rows(*table.table, parse_expression("id in (1, 4)"), options).commit);
  }
}

TEST(DeleteRowsOf, PreparedRowsThatAreDiscardedLeaveNothing) {
  for (const RowMode mode : {RowMode::copy_on_write, RowMode::merge_on_read}) {
    RowTable table(3);
    table.append(R"([{"id":1},{"id":2}])");
    const PreparedRows prepared =
        prepare_delete_rows(table.metadata(), table.store, parse_expression("id = 1"), {.mode = mode});
    EXPECT_THAT(table.orphans(), SizeIs(1));
    discard(prepared, *table.store);
    EXPECT_THAT(table.orphans(), IsEmpty());
  }
}

}  // namespace
}  // namespace firn::iceberg
