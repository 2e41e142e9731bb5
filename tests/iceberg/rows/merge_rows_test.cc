// upsert_rows and merge_rows: what is updated, inserted, deleted and left alone.
#include "row_table.h"

namespace firn::iceberg {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

struct Case {
  int32_t version;
  RowMode mode;
};
class MergeRows : public ::testing::TestWithParam<Case> {
 protected:
  MergeOptions by(std::vector<std::string> keys) const {
    MergeOptions options;
    options.rows.mode = GetParam().mode;
    options.key_columns = std::move(keys);
    return options;
  }
  bool is_v3() const { return GetParam().version == 3; }
  bool is_merge_on_read() const { return GetParam().mode == RowMode::merge_on_read; }
  RowTable make(const std::vector<PartitionDeclaration>& partitions = {}, const Schema& schema = row_schema()) const {
    return RowTable(GetParam().version, partitions, {}, schema);
  }
};
INSTANTIATE_TEST_SUITE_P(, MergeRows,
                         ::testing::Values(Case{2, RowMode::copy_on_write}, Case{2, RowMode::merge_on_read},
                                           Case{3, RowMode::copy_on_write}, Case{3, RowMode::merge_on_read}),
                         [](const auto& info) {
                           return std::string("V") + std::to_string(info.param.version) +
                                  (info.param.mode == RowMode::copy_on_write ? "CopyOnWrite" : "MergeOnRead");
                         });

void expect_counts(const RowsResult& result, int64_t deleted, int64_t updated, int64_t inserted) {
  EXPECT_EQ(result.counts.rows_deleted, deleted);
  EXPECT_EQ(result.counts.rows_updated, updated);
  EXPECT_EQ(result.counts.rows_inserted, inserted);
}

TEST_P(MergeRows, MatchedRowsAreUpdatedOthersInserted) {
  RowTable table = make();
  table.append(R"([{"id":1,"part":"a","val":1},{"id":2,"part":"b","val":2},{"id":3,"part":"c","val":3}])");
  const auto rows = table.reader(R"([{"id":2,"part":"B","val":20},{"id":4,"part":"d","val":4}])");
  expect_counts(upsert_rows(*table.table, *rows, by({"id"})), 0, 1, 1);
  EXPECT_THAT(table.rows(), ElementsAre(R"({"id":1,"part":"a","val":"1.0"})", R"({"id":2,"part":"B","val":"20.0"})",
                                        R"({"id":3,"part":"c","val":"3.0"})", R"({"id":4,"part":"d","val":"4.0"})"));
  EXPECT_EQ(table.metadata().current_snapshot()->operation(), "overwrite");
  EXPECT_EQ(table.num_snapshots(), 2u);
  EXPECT_THAT(table.orphans(), IsEmpty());
  EXPECT_EQ(table.files_of(FileContent::position_deletes).empty(), !is_merge_on_read());
}

TEST_P(MergeRows, EqualRowsAreLeftAloneUnlessAsked) {
  RowTable table = make();
  table.append(R"([{"id":1,"part":"a","val":NaN},{"id":2,"part":null,"val":2}])");
  const std::string same = R"([{"id":1,"part":"a","val":NaN},{"id":2,"part":null,"val":2}])";
  auto rows = table.reader(same);
  const RowsResult result = upsert_rows(*table.table, *rows, by({"id"}));
  EXPECT_FALSE(result.commit);
  expect_counts(result, 0, 0, 0);
  EXPECT_EQ(table.num_snapshots(), 1u);
  MergeOptions all = by({"id"});
  all.skip_equal = false;
  rows = table.reader(same);
  expect_counts(upsert_rows(*table.table, *rows, all), 0, 2, 0);
  EXPECT_THAT(table.ids(), ElementsAre(1, 2));
  rows = table.reader(R"([{"id":1,"part":"a","val":NaN},{"id":2,"part":"x","val":2},{"id":3}])");
  expect_counts(upsert_rows(*table.table, *rows, by({"id"})), 0, 1, 1);
}

TEST_P(MergeRows, UpdatedRowsKeepTheirRowIdAndSayWhenTheyChanged) {
  if (!is_v3()) return;
  for (const bool skip_equal : {true, false}) {
    RowTable table = make();
    table.append(R"([{"id":1,"val":1},{"id":2,"val":2},{"id":3,"val":3}])");
    table.append(R"([{"id":4,"val":4}])");
    MergeOptions options = by({"id"});
    options.skip_equal = skip_equal;
    const auto rows = table.reader(R"([{"id":2,"val":20},{"id":4,"val":40},{"id":5,"val":50}])");
    upsert_rows(*table.table, *rows, options);
    const auto row_ids = table.lineage("_row_id");
    const auto updated = table.lineage("_last_updated_sequence_number");
    EXPECT_EQ(row_ids.at("1"), "0");
    EXPECT_EQ(row_ids.at("2"), "1");
    EXPECT_EQ(row_ids.at("3"), "2");
    EXPECT_EQ(row_ids.at("4"), "3");
    EXPECT_GE(std::stoll(row_ids.at("5")), 4);
    EXPECT_EQ(updated.at("1"), "1");
    EXPECT_EQ(updated.at("2"), "3");
    EXPECT_EQ(updated.at("3"), "1");
    EXPECT_EQ(updated.at("4"), "3");
    EXPECT_EQ(updated.at("5"), "3");
  }
}

TEST_P(MergeRows, NullKeysMatchNothing) {
  RowTable table = make();
  table.append(R"([{"id":null,"part":"a","val":1},{"id":1,"part":null,"val":1}])");
  const std::string source =
      R"([{"id":null,"part":"a","val":2},{"id":null,"part":"a","val":3},{"id":1,"part":null,"val":4}])";
  auto rows = table.reader(source);
  MergeOptions update_only = by({"id", "part"});
  update_only.insert_unmatched = false;
  EXPECT_FALSE(upsert_rows(*table.table, *rows, update_only).commit);
  rows = table.reader(source);
  expect_counts(upsert_rows(*table.table, *rows, by({"id", "part"})), 0, 0, 3);
  EXPECT_EQ(table.metadata().current_snapshot()->operation(), "append");
  EXPECT_THAT(table.rows(), SizeIs(5));
}

TEST_P(MergeRows, FloatKeysTakeNaNForNaNAndBothZerosForOne) {
  const Schema schema({column(1, "k", primitive(TypeId::double_)), column(2, "n", primitive(TypeId::int_))});
  RowTable table = make({}, schema);
  table.append(R"([{"k":NaN,"n":1},{"k":-0.0,"n":2},{"k":1.5,"n":3}])");
  const auto rows = table.reader(R"([{"k":NaN,"n":10},{"k":0.0,"n":20}])");
  expect_counts(upsert_rows(*table.table, *rows, by({"k"})), 0, 2, 0);
  EXPECT_THAT(table.rows({.columns = {"n"}}), ElementsAre(R"({"n":10})", R"({"n":20})", R"({"n":3})"));
}

TEST_P(MergeRows, AKeyTwiceInTheSourceIsNamed) {
  RowTable table = make();
  table.append(R"([{"id":1,"part":"a"}])");
  const auto rows = table.reader(R"([{"id":1,"part":"a"},{"id":2,"part":"x"},{"id":1,"part":"a"}])");
  expect_error(ErrorKind::invalid_argument, "id = 1, part = a", [&] {
    upsert_rows(*table.table, *rows, by({"id", "part"}));
  });
  EXPECT_EQ(table.num_snapshots(), 1u);
  EXPECT_THAT(table.orphans(), IsEmpty());
}

TEST_P(MergeRows, EveryRowOfAKeyIsUpdated) {
  RowTable table = make();
  table.append(R"([{"id":1,"part":"a","val":1},{"id":1,"part":"b","val":2}])");
  table.append(R"([{"id":1,"part":"c","val":3}])");
  const auto rows = table.reader(R"([{"id":1,"part":"z","val":9}])");
  expect_counts(upsert_rows(*table.table, *rows, by({"id"})), 0, 3, 0);
  EXPECT_THAT(table.rows(), ElementsAre(R"({"id":1,"part":"z","val":"9.0"})", R"({"id":1,"part":"z","val":"9.0"})",
                                        R"({"id":1,"part":"z","val":"9.0"})"));
}

TEST_P(MergeRows, ColumnsThatTheSourceLacksKeepTheirValues) {
  RowTable table = make({{"part"}});
  table.append(R"([{"id":1,"part":"a","val":1},{"id":2,"part":"b","val":2}])");
  const Schema narrow = table.metadata().schema().select({"val", "id"});
  const auto rows = table.reader(R"([{"val":20,"id":2},{"val":30,"id":3}])", narrow);
  expect_counts(upsert_rows(*table.table, *rows, by({"id"})), 0, 1, 1);
  EXPECT_THAT(table.rows(), ElementsAre(R"({"id":1,"part":"a","val":"1.0"})", R"({"id":2,"part":"b","val":"20.0"})",
                                        R"({"id":3,"part":null,"val":"30.0"})"));
  MergeOptions all = by({"id"});
  all.skip_equal = false;
  const auto again = table.reader(R"([{"val":21,"id":2}])", narrow);
  expect_counts(upsert_rows(*table.table, *again, all), 0, 1, 0);
  EXPECT_THAT(table.rows()[1], R"({"id":2,"part":"b","val":"21.0"})");
}

TEST_P(MergeRows, AStructWithRequiredMembersIsNullInRowsThatLackIt) {
  RowTable table = make();
  table.append(R"([{"id":1,"part":"a","val":1},{"id":2,"part":"b","val":2}])");
  table.change_metadata(add_required_members);
  const auto rows =
      table.reader(R"([{"val":20,"id":2},{"val":30,"id":3}])", table.metadata().schema().select({"val", "id"}));
  expect_counts(upsert_rows(*table.table, *rows, by({"id"})), 0, 1, 1);
  EXPECT_THAT(table.rows({.columns = {"id", "val", "st"}}),
              ElementsAre(R"({"id":1,"val":"1.0","st":null})", R"({"id":2,"val":"20.0","st":null})",
                          R"({"id":3,"val":"30.0","st":null})"));
}

TEST_P(MergeRows, InsertedRowsTakeWriteDefaults) {
  if (!is_v3()) return;
  Field kind = column(2, "kind", primitive(TypeId::string));
  kind.write_default = Value(std::string("new"));
  const Schema schema(
      {column(1, "id", primitive(TypeId::long_)), kind, column(3, "must", primitive(TypeId::int_), true)});
  RowTable table = make({}, schema);
  auto rows = table.reader(R"([{"id":1,"must":5}])", schema.select({"id", "must"}));
  upsert_rows(*table.table, *rows, by({"id"}));
  EXPECT_THAT(table.rows(), ElementsAre(R"({"id":1,"kind":"new","must":5})"));
  rows = table.reader(R"([{"id":2}])", schema.select({"id"}));
  expect_error(ErrorKind::schema_mismatch, "must", [&] { upsert_rows(*table.table, *rows, by({"id"})); });
}

TEST_P(MergeRows, FlagsLeaveOutUpdatesOrInserts) {
  RowTable table = make();
  table.append(R"([{"id":1,"val":1}])");
  const std::string source = R"([{"id":1,"val":10},{"id":2,"val":20}])";
  MergeOptions insert_only = by({"id"});
  insert_only.update_matched = false;
  auto rows = table.reader(source);
  expect_counts(upsert_rows(*table.table, *rows, insert_only), 0, 0, 1);
  MergeOptions update_only = by({"id"});
  update_only.insert_unmatched = false;
  rows = table.reader(R"([{"id":1,"val":10},{"id":3,"val":30}])");
  expect_counts(upsert_rows(*table.table, *rows, update_only), 0, 1, 0);
  EXPECT_THAT(table.rows({.columns = {"id", "val"}}),
              ElementsAre(R"({"id":1,"val":"10.0"})", R"({"id":2,"val":"20.0"})"));
}

TEST_P(MergeRows, RowsAreDeletedByASourceColumnOrAnExpression) {
  RowTable table = make();
  table.append(R"([{"id":1,"val":1},{"id":2,"val":2},{"id":3,"val":3},{"id":4,"val":4}])");
  std::vector<Field> fields = table.metadata().schema().fields();
  fields.push_back(column(99, "gone", primitive(TypeId::boolean_)));
  MergeOptions options = by({"id"});
  options.delete_column = "gone";
  options.delete_matched = parse_expression("val < 0");
  const auto rows = table.reader(
      R"([{"id":1,"gone":true},{"id":2,"val":-1,"gone":null},{"id":3,"val":30,"gone":false},{"id":8,"gone":true},{"id":9,"val":9}])",
      Schema(fields));
  expect_counts(merge_rows(*table.table, *rows, options), 2, 1, 1);
  EXPECT_THAT(table.rows({.columns = {"id", "val"}}),
              ElementsAre(R"({"id":3,"val":"30.0"})", R"({"id":4,"val":"4.0"})", R"({"id":9,"val":"9.0"})"));
  const auto no_column = table.reader(R"([{"id":1}])");
  expect_error(ErrorKind::invalid_argument, "gone", [&] { merge_rows(*table.table, *no_column, options); });
}

TEST_P(MergeRows, EarlierDeletesHold) {
  RowTable table = make();
  table.append(R"([{"id":1,"val":1},{"id":2,"val":2},{"id":3,"val":3},{"id":4,"val":4}])");
  table.delete_equal({1}, R"([{"id":2}])");
  table.delete_positions({{table.data_paths()[0], {0}}});
  const auto rows = table.reader(R"([{"id":1,"val":10},{"id":2,"val":20},{"id":3,"val":30}])");
  expect_counts(upsert_rows(*table.table, *rows, by({"id"})), 0, 1, 2);
  EXPECT_THAT(table.rows({.columns = {"id", "val"}}),
              ElementsAre(R"({"id":1,"val":"10.0"})", R"({"id":2,"val":"20.0"})", R"({"id":3,"val":"30.0"})",
                          R"({"id":4,"val":"4.0"})"));
}

TEST_P(MergeRows, UpdatedRowsMoveToTheirPartitionUnderTheNewestSpec) {
  RowTable table = make({{"part"}});
  table.append(R"([{"id":1,"part":"a"},{"id":2,"part":"a"}])");
  table.evolve_spec("id", "bucket[4]");
  const auto rows = table.reader(R"([{"id":2,"part":"b"},{"id":3,"part":"a"}])");
  upsert_rows(*table.table, *rows, by({"id"}));
  EXPECT_THAT(table.ids(), ElementsAre(1, 2, 3));
  EXPECT_THAT(table.rows({.columns = {"id"}, .filter = parse_expression("part = 'a'")}),
              ElementsAre(R"({"id":1})", R"({"id":3})"));
  EXPECT_THAT(table.rows({.columns = {"id"}, .filter = parse_expression("id = 2")}), ElementsAre(R"({"id":2})"));
}

TEST_P(MergeRows, FilesWithoutAKeyAreNotRead) {
  RowTable table = make();
  // Ranges of ids, so that a key's place is told by bounds even where the source spans all.
  for (int file = 0; file < 4; ++file) {
    std::string json = "[";
    for (int i = 0; i < 300; ++i) json += fmt::format(R"({}{{"id":{},"val":1}})", i > 0 ? "," : "", 10000 * file + i);
    table.append(json + "]");
  }
  std::string source = "[";
  for (int i = 0; i < 250; ++i)  // more than fit into a list of literals
    source += fmt::format(R"({}{{"id":{},"val":2}})", i > 0 ? "," : "", i);
  source += R"(,{"id":30001,"val":2}])";
  std::map<int64_t, std::string> path_of;
  for (const DataFile& file : table.files_of(FileContent::data))
    path_of[std::get<int64_t>(*from_bytes(file.lower_bounds.at(1), *primitive(TypeId::long_)))] = file.file_path;
  const auto rows = table.reader(source);
  expect_counts(upsert_rows(*table.table, *rows, by({"id"})), 0, 251, 0);
  EXPECT_EQ(table.store->num_reads(path_of.at(10000)), 0);
  EXPECT_EQ(table.store->num_reads(path_of.at(20000)), 0);
  EXPECT_GT(table.store->num_reads(path_of.at(0)), 0);
  EXPECT_GT(table.store->num_reads(path_of.at(30000)), 0);
}

TEST_P(MergeRows, ASourceLargerThanTheBudgetGivesTheSameRows) {
  RowTable table = make();
  std::string json = "[";
  for (int i = 0; i < 3000; ++i)
    json += fmt::format(R"({}{{"id":{},"part":"p{}","val":0}})", i > 0 ? "," : "", (i * 7919) % 3000, i % 10);
  table.append(json + "]");
  std::string source = "[";
  for (int i = 0; i < 3000; ++i)
    source += fmt::format(R"({}{{"id":{},"part":"q","val":1}})", i > 0 ? "," : "", 1500 + (i * 6101) % 3000);
  const auto rows = table.reader(source + "]");
  MergeOptions options = by({"id"});
  options.rows.memory_bytes_max = 1;  // the least piece at a time
  expect_counts(upsert_rows(*table.table, *rows, options), 0, 1500, 1500);
  const auto ids = table.ids();
  ASSERT_EQ(ids.size(), 4500u);
  for (size_t i = 0; i < ids.size(); ++i) ASSERT_EQ(ids[i], static_cast<int64_t>(i));
  EXPECT_THAT(table.rows({.columns = {"id"}, .filter = parse_expression("val = 1")}), SizeIs(3000));
}

TEST_P(MergeRows, KeysOfEveryTypeMatch) {
  const std::vector<std::pair<TypePtr, std::vector<std::string>>> types = {
      {primitive(TypeId::boolean_), {"true", "false"}},
      {primitive(TypeId::int_), {"-5", "7"}},
      {primitive(TypeId::long_), {"-5000000000", "7"}},
      {primitive(TypeId::float_), {"-1.5", "2.5"}},
      {primitive(TypeId::double_), {"-1.5", "2.5"}},
      {Type::decimal(9, 2), {"\"-1.28\"", "\"2.56\""}},
      {Type::decimal(38, 3), {"\"-123456789012345678901234567890.123\"", "\"2.560\""}},
      {primitive(TypeId::date), {"-3", "4"}},
      {primitive(TypeId::time), {"3", "4"}},
      {primitive(TypeId::timestamp), {"-3", "4"}},
      {primitive(TypeId::timestamptz), {"-3", "4"}},
      {primitive(TypeId::string), {"\"\"", "\"O’Brien, a name that is longer than its bounds\""}},
      {primitive(TypeId::uuid), {"\"0123456789abcdef\"", "\"fedcba9876543210\""}},
      {Type::fixed(3), {"\"abc\"", "\"xyz\""}},
      {primitive(TypeId::binary), {"\"\"", "\"a longer one than what bounds keep\""}},
  };
  for (const auto& [type, values] : types) {
    SCOPED_TRACE(type->to_string());
    const Schema schema({column(1, "k", type), column(2, "n", primitive(TypeId::int_))});
    RowTable table = make({}, schema);
    table.append(fmt::format(R"([{{"k":{},"n":1}}])", values[0]));
    table.append(fmt::format(R"([{{"k":{},"n":2}}])", values[1]));
    const auto rows = table.reader(fmt::format(R"([{{"k":{},"n":20}}])", values[1]));
    expect_counts(upsert_rows(*table.table, *rows, by({"k"})), 0, 1, 0);
    EXPECT_THAT(table.rows({.columns = {"n"}}), ElementsAre(R"({"n":1})", R"({"n":20})"));
  }
}

TEST_P(MergeRows, NestedKeysAndNestedValuesMerge) {
  const Schema schema({column(1, "who",
                              Type::struct_of({column(2, "id", primitive(TypeId::long_)),
                                               column(3, "name", primitive(TypeId::string))})),
                       column(4, "tags", Type::list_of(5, false, primitive(TypeId::string)))});
  RowTable table = make({}, schema);
  table.append(
      R"([{"who":{"id":1,"name":"a"},"tags":["x"]},{"who":null,"tags":null},{"who":{"id":2,"name":"b"},"tags":[]}])");
  const auto rows =
      table.reader(R"([{"who":{"id":2,"name":"b"},"tags":["y",null]},{"who":{"id":1,"name":"a"},"tags":["x"]}])");
  expect_counts(upsert_rows(*table.table, *rows, by({"who.id"})), 0, 1, 0);
  EXPECT_THAT(table.rows(), ElementsAre(R"({"who":null,"tags":null})", R"({"who":{"id":1,"name":"a"},"tags":["x"]})",
                                        R"({"who":{"id":2,"name":"b"},"tags":["y",null]})"));
  expect_error(ErrorKind::invalid_argument, "tags", [&] {
    const auto again = table.reader("[]");
    upsert_rows(*table.table, *again, by({"tags.element"}));
  });
}

TEST(MergeKeys, AreTheIdentifierFieldsUnlessNamed) {
  const Schema schema({column(1, "id", primitive(TypeId::long_), true), column(2, "n", primitive(TypeId::int_))}, 0,
                      {1});
  RowTable table(2, {}, {}, schema);
  table.append(R"([{"id":1,"n":1}])");
  const auto rows = table.reader(R"([{"id":1,"n":2}])");
  expect_counts(upsert_rows(*table.table, *rows), 0, 1, 0);
  RowTable without(2);
  const auto others = without.reader(R"([{"id":1}])");
  expect_error(ErrorKind::invalid_argument, "identifier", [&] { upsert_rows(*without.table, *others); });
  expect_error(ErrorKind::invalid_argument, "nope",
               [&] { upsert_rows(*without.table, *others, {.key_columns = {"nope"}}); });
}

TEST(MergeSourceColumns, AreTheTablesByNameOrId) {
  RowTable table(2);
  table.append(R"([{"id":1,"val":1}])");
  const auto plain = arrow::schema({arrow::field("ID", arrow::int32()), arrow::field("VAL", arrow::float32())});
  const auto array = *arrow::json::ArrayFromJSONString(arrow::struct_(plain->fields()), R"([{"ID":1,"VAL":2.5}])");
  const auto reader = *arrow::RecordBatchReader::Make({*arrow::RecordBatch::FromStructArray(array)}, plain);
  MergeOptions options;
  options.key_columns = {"Id"};
  options.rows.case_sensitive = false;
  expect_counts(upsert_rows(*table.table, *reader, options), 0, 1, 0);
  EXPECT_THAT(table.rows({.columns = {"val"}}), ElementsAre(R"({"val":"2.5"})"));
  const auto unknown = *arrow::RecordBatchReader::Make({}, arrow::schema({arrow::field("x", arrow::int32())}));
  expect_error(ErrorKind::schema_mismatch, "x", [&] { upsert_rows(*table.table, *unknown, {.key_columns = {"id"}}); });
}

TEST(MergeModes, ComeFromUpdateAndMergeProperties) {
  RowTable table(2, {}, {{"write.update.mode", "merge-on-read"}, {"write.merge.mode", "copy-on-write"}});
  table.append(R"([{"id":1,"val":1},{"id":2,"val":2}])");
  auto rows = table.reader(R"([{"id":1,"val":10}])");
  upsert_rows(*table.table, *rows, {.key_columns = {"id"}});
  EXPECT_THAT(table.files_of(FileContent::position_deletes), SizeIs(1));
  rows = table.reader(R"([{"id":2,"val":20}])");
  merge_rows(*table.table, *rows, {.key_columns = {"id"}});
  EXPECT_THAT(table.files_of(FileContent::position_deletes), IsEmpty());
  EXPECT_THAT(table.ids(), ElementsAre(1, 2));
}

}  // namespace
}  // namespace firn::iceberg
