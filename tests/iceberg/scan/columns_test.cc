// What a scan's columns hold: projection, partition values, row lineage, metadata columns (spec, "Column Projection").
#include "base/error.h"
#include "iceberg/scan/test_table.h"

namespace firn::iceberg {
namespace {

ScanOptions columns(std::vector<std::string> names, const char* filter = nullptr) {
  ScanOptions options;
  options.columns = std::move(names);
  if (filter != nullptr) options.filter = parse_expression(filter);
  return options;
}

const Schema& abc_schema() {
  static const Schema kSchema(
      {optional(1, "a", long_type()), optional(2, "b", string_type()),
       optional(3, "c", Type::struct_of({optional(4, "d", long_type()), optional(5, "e", string_type())}))});
  return kSchema;
}

constexpr const char* kAbcRows =
    R"([{"a":1,"b":"x","c":{"d":10,"e":"p"}},{"a":2,"b":null,"c":null},{"a":3,"b":"z","c":{"d":30,"e":null}}])";

TEST(ScanColumns, ComeInTheOrderAskedForAndFilterColumnsStayOut) {
  TestTable table(abc_schema());
  table.commit({table.data_file("a.parquet", abc_schema(), kAbcRows)});
  EXPECT_EQ(table.rows(columns({"b", "a"})),
            (Lines{R"({"b":"x","a":1})", R"({"b":null,"a":2})", R"({"b":"z","a":3})"}));
  EXPECT_EQ(table.rows(columns({"b"}, "a > 1")), (Lines{R"({"b":null})", R"({"b":"z"})"}));
  EXPECT_EQ(table.rows(columns({"b"}, "c.d = 30")), (Lines{R"({"b":"z"})"}));
  EXPECT_EQ(table.rows(columns({"c"}, "c.d = 30 and b is not null")), (Lines{R"({"c":{"d":30,"e":null}})"}));
  EXPECT_EQ(table.rows(columns({"c"}, "c.d is null")), (Lines{R"({"c":null})"}));
}

TEST(ScanColumns, AreFoundByNameInAnyCaseOnlyWhereAskedTo) {
  TestTable table(abc_schema());
  table.commit({table.data_file("a.parquet", abc_schema(), kAbcRows)});
  ScanOptions options = columns({"B"}, "A = 3");
  EXPECT_THROW(table.rows(options), Error);
  options.case_sensitive = false;
  EXPECT_EQ(table.rows(options), (Lines{R"({"b":"z"})"}));
}

TEST(ScanColumns, FileAndPositionTellWhereARowLies) {
  TestTable table(abc_schema());
  const DataFile data = table.data_file("a.parquet", abc_schema(), kAbcRows, /*row_group_rows=*/1);
  table.commit({data});
  table.commit({table.position_deletes("d.parquet", {{data.file_path, {1}}})});
  EXPECT_EQ(table.rows(columns({"_pos", "a", "_file"})),
            (Lines{fmt::format(R"({{"_pos":0,"a":1,"_file":"{}"}})", data.file_path),
                   fmt::format(R"({{"_pos":2,"a":3,"_file":"{}"}})", data.file_path)}));
  EXPECT_EQ(table.rows(columns({"_pos"}, "b = 'z'")), (Lines{R"({"_pos":2})"}));
  EXPECT_EQ(table.rows(columns({"_pos"})), (Lines{R"({"_pos":0})", R"({"_pos":2})"}));
}

// Case 16.
TEST(ScanColumns, OfIdentityPartitionsComeFromTheManifestWhereFilesLackThem) {
  const Schema schema({optional(1, "v", long_type()), optional(2, "region", string_type())});
  const Schema stored({schema.fields()[0]});
  TestTable table(schema, 2, make_partition_spec({{"region", "identity"}}, schema));
  DataFile east = table.data_file("east.parquet", stored, R"([{"v":1},{"v":2}])");
  east.partition = {std::string("East")};
  DataFile none = table.data_file("none.parquet", stored, R"([{"v":3}])");
  none.partition = {Value{}};
  table.commit({east, none});
  for (const bool prune : {true, false}) {
    const auto rows = [&](std::vector<std::string> names, const char* filter = nullptr) {
      ScanOptions options = columns(std::move(names), filter);
      options.prune = prune;
      return table.rows(options);
    };
    EXPECT_EQ(rows({}),
              (Lines{R"({"v":1,"region":"East"})", R"({"v":2,"region":"East"})", R"({"v":3,"region":null})"}));
    EXPECT_EQ(rows({"region"}), (Lines{R"({"region":"East"})", R"({"region":"East"})", R"({"region":null})"}));
    EXPECT_EQ(rows({"v"}, "region = 'East'"), (Lines{R"({"v":1})", R"({"v":2})"}));
    EXPECT_EQ(rows({"v"}, "region = 'West'"), Lines{});
    EXPECT_EQ(rows({"v"}, "region is null"), (Lines{R"({"v":3})"}));
    EXPECT_EQ(rows({"region"}, "v = 2 or region is null"), (Lines{R"({"region":"East"})", R"({"region":null})"}));
  }
  DataFile gone = table.equality_deletes("d.parquet", Schema({schema.fields()[1], schema.fields()[0]}),
                                         R"([{"region":"East","v":2},{"region":"West","v":1}])", {1, 2});
  gone.partition = {std::string("East")};
  table.commit({gone});
  EXPECT_EQ(table.rows(columns({"v"})), (Lines{R"({"v":1})", R"({"v":3})"}));
}

TEST(ScanColumns, OfIdentityPartitionsHaveTheTypeThatTheirColumnWasPromotedTo) {
  const Schema before({optional(1, "v", long_type()), optional(2, "n", int_type()),
                       optional(3, "f", Type::primitive(TypeId::float_)), optional(4, "d", Type::decimal(4, 2))});
  const Schema after({optional(1, "v", long_type()), optional(2, "n", long_type()),
                      optional(3, "f", Type::primitive(TypeId::double_)), optional(4, "d", Type::decimal(9, 2))},
                     1);
  TestTable table(before, 2, make_partition_spec({{"n", "identity"}, {"f", "identity"}, {"d", "identity"}}, before));
  DataFile file = table.data_file("a.parquet", before, R"([{"v":1,"n":-7,"f":0.5,"d":"1.25"}])");
  file.partition = {int32_t{-7}, 0.5F, arrow::Decimal128(125)};
  table.commit({file});
  set_current_schema(table.metadata(), after, 4);
  const Lines expected = {R"({"v":1,"n":-7,"f":"0.5","d":"1.25"})"};
  EXPECT_EQ(table.rows(), expected);
  EXPECT_EQ(table.rows(columns({}, "n = -7 and f = 0.5 and d = 1.25")), expected);
  EXPECT_EQ(table.rows(columns({}, "n = 7 or f > 0.5 or d < 1.25")), Lines{});
  ScanOptions first;
  first.snapshot_id = 1;
  EXPECT_EQ(table.rows(first), expected);
  // Deletes of the same partition, in a manifest written since, find it.
  DataFile deletes = table.equality_deletes("d.parquet", Schema({after.fields()[0]}), R"([{"v":1}])", {1});
  deletes.partition = {int64_t{-7}, 0.5, arrow::Decimal128(125)};
  table.commit({deletes});
  EXPECT_EQ(table.rows(), Lines{});
}

TEST(ScanColumns, OfIdentityPartitionsWithinStructsComeFromTheManifestToo) {
  const Schema schema(
      {optional(1, "s", Type::struct_of({optional(2, "p", long_type()), optional(3, "q", long_type())}))});
  const Schema stored({optional(1, "s", Type::struct_of({optional(3, "q", long_type())}))});
  PartitionSpec spec;
  spec.fields = {PartitionField{{2}, 1000, "s_p", Transform::parse("identity")}};
  TestTable table(schema, 2, spec);
  DataFile file = table.data_file("a.parquet", stored, R"([{"s":{"q":1}},{"s":null},{"s":{"q":3}}])", 2);
  file.partition = {int64_t{7}};
  table.commit({file});
  EXPECT_EQ(table.rows(), (Lines{R"({"s":{"p":7,"q":1}})", R"({"s":null})", R"({"s":{"p":7,"q":3}})"}));
}

// Case 15.
TEST(ScanColumns, DroppedAndAddedAgainUnderTheirNameHaveNoOldValues) {
  const Schema before({optional(1, "id", long_type()), optional(2, "value", string_type()),
                       optional(3, "a", Type::struct_of({optional(4, "inner", string_type())}))});
  const Schema after({optional(1, "id", long_type()), optional(5, "value", string_type()),
                      optional(3, "a", Type::struct_of({optional(6, "inner", string_type())}))},
                     1);
  TestTable table(before);
  table.commit({table.data_file("a.parquet", before, R"([{"id":1,"value":"old","a":{"inner":"old"}}])")});
  set_current_schema(table.metadata(), after, 6);
  table.commit({table.data_file("b.parquet", after, R"([{"id":2,"value":"new","a":{"inner":"new"}}])")});
  EXPECT_EQ(table.rows(),
            (Lines{R"({"id":1,"value":null,"a":{"inner":null}})", R"({"id":2,"value":"new","a":{"inner":"new"}})"}));
  EXPECT_EQ(table.rows(columns({"id"}, "value = 'old' or a.inner = 'old'")), Lines{});
  ScanOptions first;
  first.snapshot_id = 1;
  EXPECT_EQ(table.rows(first), (Lines{R"({"id":1,"value":"old","a":{"inner":"old"}})"}));
}

TEST(ScanColumns, OfAFilterThatTheManifestCountsAndTheFileLacksAreAnErrorAndNotNull) {
  const Schema schema({optional(1, "id", long_type()), optional(2, "s", string_type())});
  TestTable table(schema);
  // As where a bit of its field id is flipped.
  DataFile file = table.data_file("a.parquet", Schema({optional(9, "id", long_type())}), R"([{"id": 1}, {"id": 2}])");
  file.value_counts = {{1, 2}};
  file.null_value_counts = {{1, 0}};
  table.commit({file});
  ScanOptions options;
  options.filter = parse_expression("id = 1 or s = 'x'");
  const auto plan = std::make_shared<const ScanPlan>(plan_scan(table.metadata(), table.io(), options));
  const auto reader = read_tasks(plan, table.io(), options);
  std::shared_ptr<arrow::RecordBatch> batch;
  try {
    ADD_FAILURE() << reader->ReadNext(&batch).ToString();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::corrupt);
    const std::string message = error.what();
    EXPECT_NE(message.find("a.parquet"), std::string::npos) << message;
    EXPECT_NE(message.find("it has no column id (id 1), its manifest entry counts 2 values of it"), std::string::npos)
        << message;
  }
}

TEST(RowLineage, IsInheritedWhereTheFileHasNullAndKeptWhereItHasAValue) {
  const Schema schema({optional(1, "v", long_type())});
  const Schema with_lineage(
      {optional(1, "v", long_type()), optional(kRowIdFieldId, "_row_id", long_type()),
       optional(kLastUpdatedSequenceNumberFieldId, "_last_updated_sequence_number", long_type())});
  TestTable table(schema, 3);
  table.commit({table.data_file("a.parquet", schema, R"([{"v":1},{"v":2},{"v":3}])", 2)});
  const DataFile rewritten = table.data_file(
      "b.parquet", with_lineage,
      R"([{"v":4,"_row_id":1,"_last_updated_sequence_number":1},{"v":5,"_row_id":null,"_last_updated_sequence_number":null},
          {"v":6,"_row_id":0,"_last_updated_sequence_number":null}])");
  table.commit({rewritten});
  table.commit({table.deletion_vector("d.puffin", table.path("a.parquet"), {0})});
  ScanOptions options;
  options.row_lineage = true;
  EXPECT_EQ(table.rows(options), (Lines{R"({"v":2,"_row_id":1,"_last_updated_sequence_number":1})",
                                        R"({"v":3,"_row_id":2,"_last_updated_sequence_number":1})",
                                        R"({"v":4,"_row_id":1,"_last_updated_sequence_number":1})",
                                        R"({"v":5,"_row_id":4,"_last_updated_sequence_number":2})",
                                        R"({"v":6,"_row_id":0,"_last_updated_sequence_number":2})"}));
  EXPECT_EQ(table.rows(columns({"_row_id"}, "v = 5")), (Lines{R"({"_row_id":4})"}));
}

TEST(RowLineage, IsNullWhereTheTableHasNoRowIds) {
  const Schema schema({optional(1, "v", long_type())});
  TestTable table(schema, 2);
  table.commit({table.data_file("a.parquet", schema, R"([{"v":1}])")});
  ScanOptions options;
  options.row_lineage = true;
  EXPECT_EQ(table.rows(options), (Lines{R"({"v":1,"_row_id":null,"_last_updated_sequence_number":null})"}));
}

}  // namespace
}  // namespace firn::iceberg
