// Which rows deletes take away (Iceberg spec, "Scan Planning", "Delete Formats").
#include "iceberg/scan/test_table.h"

namespace firn::iceberg {
namespace {

const Schema& id_schema() {
  static const Schema kSchema({optional(1, "id", long_type())});
  return kSchema;
}

std::string ids_json(int64_t begin, int64_t end) {
  Json rows = Json::array();
  for (int64_t id = begin; id < end; ++id) rows.push_back({{"id", id}});
  return rows.dump();
}

Lines ids(const std::vector<int64_t>& values) {
  Lines lines;
  for (const int64_t id : values) lines.push_back(fmt::format("{{\"id\":{}}}", id));
  return lines;
}

ExpressionPtr parsed(const char* text) { return parse_expression(text); }

ErrorKind error_of(TestTable& table, std::string* message = nullptr) {
  try {
    table.rows();
  } catch (const Error& error) {
    if (message != nullptr) *message = error.what();
    return error.kind();
  }
  ADD_FAILURE() << "no error";
  return ErrorKind::internal;
}

// Case 17.
TEST(PositionDeletes, CountFromTheFilesFirstRowInEveryRowGroup) {
  for (const int32_t version : {2, 3}) {
    TestTable table(id_schema(), version);
    const DataFile data = table.data_file("a.parquet", id_schema(), ids_json(0, 30), /*row_group_rows=*/10);
    const DataFile deletes = version == 2 ? table.position_deletes("d.parquet", {{data.file_path, {21, 25}}})
                                          : table.deletion_vector("d.puffin", data.file_path, {21, 25});
    table.commit({data});
    table.commit({deletes});
    for (const int64_t batch_rows : {65536, 4}) {
      ScanOptions options;
      options.batch_rows_max = batch_rows;
      options.columns = {"id"};
      std::vector<int64_t> expected;
      for (int64_t id = 0; id < 30; ++id) {
        if (id != 21 && id != 25) expected.push_back(id);
      }
      EXPECT_EQ(table.rows(options), ids(expected));
      ReadCounters counters;  // the first groups are pruned, and their rows count all the same
      options.counters = &counters;
      options.filter = parsed("id >= 20");
      EXPECT_EQ(table.rows(options), ids({20, 22, 23, 24, 26, 27, 28, 29}));
      EXPECT_GT(counters.row_groups_pruned + counters.pages_pruned, 0);
    }
  }
}

TEST(PositionDeletes, OfOneFileServeAllTheDataFilesTheyName) {
  TestTable table(id_schema());
  const DataFile a = table.data_file("a.parquet", id_schema(), ids_json(0, 5));
  const DataFile b = table.data_file("b.parquet", id_schema(), ids_json(10, 15));
  const DataFile c = table.data_file("c.parquet", id_schema(), ids_json(20, 25));
  table.commit({a, b, c});
  table.commit({table.position_deletes("d1.parquet", {{a.file_path, {0, 4}}, {c.file_path, {1, 2}}}),
                table.position_deletes("d2.parquet", {{a.file_path, {0, 1}}, {b.file_path, {4}}, {"/another", {3}}})});
  EXPECT_EQ(table.rows(), ids({2, 3, 10, 11, 12, 13, 20, 23, 24}));
}

TEST(PositionDeletes, ApplyToFilesOfTheirOwnCommitAndOlderOnesOnly) {
  TestTable table(id_schema());
  const DataFile old_file = table.data_file("old.parquet", id_schema(), ids_json(0, 3));
  const DataFile same = table.data_file("same.parquet", id_schema(), ids_json(10, 13));
  DataFile later = table.data_file("later.parquet", id_schema(), ids_json(20, 23));
  table.commit({old_file});
  table.commit({same, table.position_deletes(
                          "d.parquet", {{old_file.file_path, {1}}, {same.file_path, {1}}, {later.file_path, {1}}})});
  table.commit({later});
  EXPECT_EQ(table.rows(), ids({0, 2, 10, 12, 20, 21, 22}));
}

TEST(PositionDeletes, OfAFileScopedDeleteApplyWhateverItsPartition) {
  PartitionSpec spec = make_partition_spec({{"id", "bucket[4]"}}, id_schema());
  TestTable table(id_schema(), 2, spec);
  DataFile data = table.data_file("a.parquet", id_schema(), ids_json(0, 4));
  data.partition = {int32_t{1}};
  DataFile deletes = table.position_deletes("d.parquet", {{data.file_path, {2}}});
  deletes.partition = {int32_t{3}};
  deletes.lower_bounds[kDeleteFilePathFieldId] = data.file_path;
  deletes.upper_bounds[kDeleteFilePathFieldId] = data.file_path;
  table.commit({data});
  table.commit({deletes});
  EXPECT_EQ(table.rows(), ids({0, 1, 3}));
  ScanOptions options;
  options.filter = parsed("id >= 2");
  EXPECT_EQ(table.rows(options), ids({3}));
}

TEST(DeletionVectors, ReplaceThePositionDeletesOfTheirFile) {
  TestTable table(id_schema(), 3);
  const DataFile a = table.data_file("a.parquet", id_schema(), ids_json(0, 5));
  const DataFile b = table.data_file("b.parquet", id_schema(), ids_json(10, 12));
  table.commit({a, b});
  table.commit({table.position_deletes("d.parquet", {{a.file_path, {0, 1}}, {b.file_path, {0}}})});
  EXPECT_EQ(table.rows(), ids({2, 3, 4, 11}));
  table.commit({table.deletion_vector("d.puffin", a.file_path, {1, 4})});
  EXPECT_EQ(table.rows(), ids({0, 2, 3, 11}));
}

TEST(DeletionVectors, ThatAreWrongAreNamedAndNeverIgnored) {
  const auto broken = [](const std::function<void(DataFile&)>& change, int copies = 1) {
    TestTable table(id_schema(), 3);
    const DataFile data = table.data_file("a.parquet", id_schema(), ids_json(0, 5));
    DataFile vector = table.deletion_vector("d.puffin", data.file_path, {1, 4});
    change(vector);
    table.commit({data});
    for (int i = 0; i < copies; ++i) table.commit({vector});
    std::string message;
    EXPECT_EQ(error_of(table, &message), ErrorKind::corrupt) << message;
    EXPECT_NE(message.find("d.puffin"), std::string::npos) << message;
  };
  broken([](DataFile& vector) { vector.content_offset = 5; });
  broken([](DataFile& vector) { vector.content_offset = 1 << 20; });
  broken([](DataFile& vector) { vector.content_size_bytes = 1 << 20; });
  broken([](DataFile& vector) { vector.record_count = 3; });
  broken([](DataFile&) {}, /*copies=*/2);
}

// Case 14.
TEST(EqualityDeletes, MatchNullWithNullAlone) {
  const Schema schema(
      {optional(1, "id", long_type()), optional(2, "cat", string_type()), optional(3, "later", long_type())});
  const Schema old_columns({schema.fields()[0], schema.fields()[1]});
  TestTable table(schema);
  table.commit(
      {table.data_file("a.parquet", old_columns,
                       R"([{"id":1,"cat":null},{"id":2,"cat":null},{"id":3,"cat":"toys"},{"id":4,"cat":""}])")});
  table.commit(
      {table.equality_deletes("d1.parquet", old_columns, R"([{"id":1,"cat":null},{"id":4,"cat":null}])", {1, 2})});
  EXPECT_EQ(table.rows(), (Lines{R"({"id":2,"cat":null,"later":null})", R"({"id":3,"cat":"toys","later":null})",
                                 R"({"id":4,"cat":"","later":null})"}));
  table.commit({table.equality_deletes("d2.parquet", Schema({schema.fields()[1]}), R"([{"cat":"toys"}])", {2})});
  EXPECT_EQ(table.rows(), (Lines{R"({"id":2,"cat":null,"later":null})", R"({"id":4,"cat":"","later":null})"}));
  // The column added later is null in the older file, and a delete of null in it takes those rows.
  table.commit({table.equality_deletes("d3.parquet", Schema({schema.fields()[2], schema.fields()[0]}),
                                       R"([{"later":null,"id":4},{"later":7,"id":2}])", {3, 1})});
  EXPECT_EQ(table.rows(), (Lines{R"({"id":2,"cat":null,"later":null})"}));
}

TEST(EqualityDeletes, ApplyToOlderFilesOnly) {
  TestTable table(id_schema());
  table.commit({table.data_file("old.parquet", id_schema(), ids_json(0, 3))});
  table.commit({table.data_file("same.parquet", id_schema(), ids_json(1, 4)),
                table.equality_deletes("d.parquet", id_schema(), R"([{"id":1},{"id":2}])", {1})});
  table.commit({table.data_file("later.parquet", id_schema(), ids_json(2, 3))});
  EXPECT_EQ(table.rows(), ids({0, 1, 2, 3, 2}));
}

TEST(EqualityDeletes, StayInTheirPartitionUnlessTheirSpecHasNone) {
  const Schema schema({optional(1, "id", long_type()), optional(2, "p", string_type())});
  TestTable table(schema, 2, make_partition_spec({{"p", "identity"}}, schema));
  table.metadata().partition_specs.push_back(PartitionSpec{1, {}});
  const auto in_partition = [](DataFile file, const std::string& p) {
    file.partition = {p};
    return file;
  };
  const auto rows = [](const std::string& p) {
    return fmt::format(R"([{{"id":1,"p":"{0}"}},{{"id":2,"p":"{0}"}},{{"id":3,"p":"{0}"}}])", p);
  };
  table.commit({in_partition(table.data_file("a.parquet", schema, rows("a")), "a"),
                in_partition(table.data_file("b.parquet", schema, rows("b")), "b")});
  table.commit({in_partition(table.equality_deletes("d1.parquet", id_schema(), R"([{"id":1}])", {1}), "a")});
  DataFile global = table.equality_deletes("d2.parquet", id_schema(), R"([{"id":3}])", {1});
  global.partition_spec_id = 1;
  table.commit({global});
  EXPECT_EQ(table.rows(), (Lines{R"({"id":2,"p":"a"})", R"({"id":1,"p":"b"})", R"({"id":2,"p":"b"})"}));
}

TEST(EqualityDeletes, FindRowsByColumnsThatWerePromotedOrDroppedOrAreNotAskedFor) {
  const Schema old_schema(
      {optional(1, "id", int_type()), optional(2, "gone", string_type()), optional(3, "v", string_type()),
       optional(4, "s", Type::struct_of({optional(5, "kept", long_type()), optional(6, "old", int_type())}))});
  TestTable table(old_schema);
  table.commit({table.data_file("a.parquet", old_schema,
                                R"([{"id":1,"gone":"x","v":"a","s":{"kept":1,"old":10}},
                                    {"id":2,"gone":"y","v":"b","s":{"kept":2,"old":20}},
                                    {"id":3,"gone":"z","v":"c","s":null},
                                    {"id":4,"gone":"z","v":"d","s":{"kept":4,"old":null}},
                                    {"id":5,"gone":"z","v":"e","s":{"kept":5,"old":50}}])")});
  table.commit({table.equality_deletes("d1.parquet", Schema({old_schema.fields()[1]}), R"([{"gone":"y"}])", {2})});
  table.commit({table.equality_deletes("d2.parquet", Schema({old_schema.fields()[0]}), R"([{"id":1}])", {1})});
  const Schema nested({optional(4, "s", Type::struct_of({optional(6, "old", int_type())}))});
  table.commit({table.equality_deletes("d3.parquet", nested, R"([{"s":{"old":50}}])", {6})});
  // id becomes long, gone is dropped and its name taken by another column, s.old is dropped.
  const Schema new_schema(
      {optional(1, "id", long_type()), optional(3, "v", string_type()), optional(7, "gone", long_type()),
       optional(4, "s", Type::struct_of({optional(5, "kept", long_type())}))},
      1);
  set_current_schema(table.metadata(), new_schema, 7);
  EXPECT_EQ(table.rows(),
            (Lines{R"({"id":3,"v":"c","gone":null,"s":null})", R"({"id":4,"v":"d","gone":null,"s":{"kept":4}})"}));
  ScanOptions options;
  options.columns = {"v"};
  EXPECT_EQ(table.rows(options), (Lines{R"({"v":"c"})", R"({"v":"d"})"}));
  options.columns = {"s"};
  EXPECT_EQ(table.rows(options), (Lines{R"({"s":null})", R"({"s":{"kept":4}})"}));
  // A delete of null s.old matches a null struct too.
  table.commit({table.equality_deletes("d4.parquet", nested, R"([{"s":{"old":null}}])", {6})});
  EXPECT_EQ(table.rows(options), Lines{});
}

TEST(Deletes, ThatFirnCannotReadAreNamedAndNeverIgnored) {
  for (const FileContent content : {FileContent::position_deletes, FileContent::equality_deletes}) {
    TestTable table(id_schema());
    const DataFile data = table.data_file("a.parquet", id_schema(), ids_json(0, 3));
    DataFile deletes = table.position_deletes("d.orc", {{data.file_path, {1}}});
    deletes.content = content;
    deletes.equality_ids = content == FileContent::equality_deletes ? std::vector<int32_t>{1} : std::vector<int32_t>{};
    deletes.file_format = "ORC";
    table.commit({data});
    table.commit({deletes});
    std::string message;
    EXPECT_EQ(error_of(table, &message), ErrorKind::unsupported);
    EXPECT_NE(message.find("d.orc"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace firn::iceberg
