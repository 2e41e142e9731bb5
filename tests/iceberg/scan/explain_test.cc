// Why a scan reads what it reads.
#include "iceberg/scan/explain.h"

#include "iceberg/parquet/file_writer.h"
#include "iceberg/scan/test_table.h"

namespace firn::iceberg {
namespace {

std::vector<std::string> rules(const std::vector<ExplainedFile>& files) {
  std::vector<std::string> out;
  for (const ExplainedFile& file : files)
    out.push_back(file.pruned_by == PlanRule::none ? "read" : std::string(to_string(file.pruned_by)));
  return out;
}

TEST(ExplainScan, NamesTheRuleThatLeftOutEachManifestAndFile) {
  const Schema schema({optional(1, "id", long_type()), optional(2, "p", string_type())});
  TestTable table(schema, 2, make_partition_spec({{"p", "identity"}}, schema));
  const auto file = [&](const std::string& name, const std::string& p, int64_t lower, int64_t upper) {
    DataFile made = table.data_file(name, schema,
                                    fmt::format(R"([{{"id":{},"p":"{}"}},{{"id":{},"p":"{}"}}])", lower, p, upper, p));
    made.partition = {p};
    made.lower_bounds[1] = to_bytes(lower, *long_type());
    made.upper_bounds[1] = to_bytes(upper, *long_type());
    made.value_counts[1] = 2;
    made.null_value_counts[1] = 0;
    return made;
  };
  table.commit({file("a.parquet", "x", 1, 5), file("b.parquet", "y", 1, 5), file("c.parquet", "x", 6, 9)});
  table.commit({file("d.parquet", "z", 1, 9)});
  DataFile deletes = table.position_deletes("del.parquet", {{table.path("a.parquet"), {0}}});
  deletes.partition = {std::string("x")};
  table.commit({deletes});

  ScanOptions options;
  options.filter = parse_expression("p = 'x' and id < 3");
  const ScanExplanation why = explain_scan(table.metadata(), table.io(), options);
  ASSERT_EQ(why.manifests.size(), 3u);
  EXPECT_EQ(why.manifests[0].pruned_by, PlanRule::none);
  EXPECT_EQ(why.manifests[1].pruned_by, PlanRule::partition_range);
  EXPECT_EQ(why.manifests[2].pruned_by, PlanRule::none);
  EXPECT_EQ(why.manifests[2].content, ManifestContent::deletes);
  EXPECT_EQ(rules(why.files), (std::vector<std::string>{"read", "partition", "metrics"}));
  EXPECT_EQ(why.files[0].deletes, (std::vector<std::string>{table.path("del.parquet")}));
  EXPECT_EQ(why.files[0].residual, "id < 3");
  ASSERT_EQ(why.files[0].row_groups.size(), 1u);
  EXPECT_EQ(why.files[0].row_groups[0].rows_selected, 2);
  EXPECT_TRUE(why.files[1].row_groups.empty());

  options.prune = false;
  EXPECT_EQ(rules(explain_scan(table.metadata(), table.io(), options).files),
            (std::vector<std::string>{"read", "read", "read", "read"}));
}

TEST(ExplainScan, SaysWhichRowGroupsAndPagesAreReadAndWhy) {
  const Schema schema({optional(1, "id", long_type()), optional(2, "s", string_type())});
  TestTable table(schema);
  ParquetWriteOptions write;
  write.page_row_limit = 100;
  write.bloom_filters[2] = {};
  ParquetFileWriter writer(*table.io(), table.path("a.parquet"), schema, write);
  // Three row groups of 1,000 rows in ten pages: id counts up, s is an even number.
  for (int group = 0; group < 3; ++group) {
    std::string rows = "[";
    for (int i = 0; i < 1000; ++i)
      rows += fmt::format(R"({}{{"id":{},"s":"k{}"}})", i > 0 ? "," : "", group * 1000 + i, (group * 1000 + i) * 2);
    const auto type = arrow::struct_(to_arrow_schema(schema)->fields());
    const auto array = *arrow::json::ArrayFromJSONString(type, rows + "]");
    writer.write(*arrow::RecordBatch::Make(to_arrow_schema(schema), 1000,
                                           (*arrow::RecordBatch::FromStructArray(array))->columns()));
    writer.end_row_group();
  }
  DataFile file = writer.close();
  file.lower_bounds.clear();
  file.upper_bounds.clear();
  table.commit({file});

  const auto groups = [&](const char* filter) {
    ScanOptions options;
    if (filter != nullptr) options.filter = parse_expression(filter);
    return explain_scan(table.metadata(), table.io(), options).files.at(0).row_groups;
  };
  const auto by_id = groups("id between 1150 and 1250");
  ASSERT_EQ(by_id.size(), 3u);
  EXPECT_EQ(by_id[0].rule, GroupRule::statistics);
  EXPECT_EQ(by_id[0].rows_selected, 0);
  EXPECT_EQ(by_id[1].rule, GroupRule::page_index);
  EXPECT_EQ(by_id[1].rows_selected, 200);
  EXPECT_EQ(by_id[1].pages, 20);
  EXPECT_EQ(by_id[1].pages_selected, 4);
  EXPECT_EQ(by_id[2].rule, GroupRule::statistics);
  // Odd numbers lie between the bounds and are not there.
  for (const RowGroupChoice& group : groups("s = 'k1001'")) {
    EXPECT_NE(group.rule, GroupRule::none);
    EXPECT_EQ(group.rows_selected, 0);
  }
  const auto all = groups(nullptr);
  EXPECT_EQ(all[2].rule, GroupRule::none);
  EXPECT_EQ(all[2].rows_selected, 1000);
}

TEST(ExplainScan, OfATableWithoutSnapshotHasNothingToSay) {
  TestTable table(Schema({optional(1, "id", long_type())}));
  const ScanExplanation why = explain_scan(table.metadata(), table.io(), {});
  EXPECT_FALSE(why.snapshot_id);
  EXPECT_TRUE(why.files.empty());
}

}  // namespace
}  // namespace firn::iceberg
