// overwrite_rows and replace_partitions.
#include "row_table.h"

namespace firn::iceberg {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class Overwrite : public ::testing::TestWithParam<int32_t> {};
INSTANTIATE_TEST_SUITE_P(, Overwrite, ::testing::Values(2, 3),
                         [](const auto& info) { return "V" + std::to_string(info.param); });

TEST_P(Overwrite, OldRowsGoAndNewOnesComeInOneSnapshot) {
  for (const RowMode mode : {RowMode::copy_on_write, RowMode::merge_on_read}) {
    RowTable table(GetParam());
    table.append(R"([{"id":1,"part":"a"},{"id":2,"part":"b"},{"id":3,"part":"a"}])");
    const auto rows = table.reader(R"([{"id":7,"part":"a"},{"id":8,"part":"a"}])");
    const RowsResult result =
        overwrite_rows(*table.table, parse_expression("part = 'a'"), *rows, {.rows = {.mode = mode}});
    EXPECT_EQ(result.counts.rows_deleted, 2);
    EXPECT_EQ(result.counts.rows_inserted, 2);
    EXPECT_THAT(table.ids(), ElementsAre(2, 7, 8));
    EXPECT_EQ(table.metadata().current_snapshot()->operation(), "overwrite");
    EXPECT_EQ(table.num_snapshots(), 2u);
    EXPECT_THAT(table.orphans(), IsEmpty());
    if (GetParam() == 3) {
      EXPECT_EQ(table.lineage("_row_id").at("2"), "1");
    }
  }
}

TEST_P(Overwrite, RowsThatAreNotOfTheFilterAreRefusedWhereItIsAsked) {
  RowTable table(GetParam());
  table.append(R"([{"id":1,"part":"a"}])");
  const OverwriteOptions strict{.validate_rows = true};
  for (const char* row : {R"([{"id":7,"part":"a"},{"id":8,"part":"b"}])", R"([{"id":8,"part":null}])"}) {
    const auto rows = table.reader(row);
    expect_error(ErrorKind::invalid_argument, R"("id":8)",
                 [&] { overwrite_rows(*table.table, parse_expression("part = 'a'"), *rows, strict); });
  }
  EXPECT_THAT(table.ids(), ElementsAre(1));
  EXPECT_THAT(table.orphans(), IsEmpty());
  const auto rows = table.reader(R"([{"id":7,"part":"a"}])");
  overwrite_rows(*table.table, parse_expression("part = 'a'"), *rows, strict);
  EXPECT_THAT(table.ids(), ElementsAre(7));
}

TEST_P(Overwrite, WhatMatchesNothingIsAnAppendOrNothingAtAll) {
  RowTable table(GetParam());
  const auto rows = table.reader(R"([{"id":7}])");
  overwrite_rows(*table.table, parse_expression("id = 1"), *rows);
  EXPECT_EQ(table.metadata().current_snapshot()->operation(), "append");
  const auto none = table.reader("[]");
  EXPECT_FALSE(overwrite_rows(*table.table, parse_expression("id = 1"), *none).commit);
  EXPECT_THAT(table.ids(), ElementsAre(7));
}

TEST_P(Overwrite, PartitionsOfTheNewRowsAreReplacedAndNoOthers) {
  RowTable table(GetParam(), {{"part"}});
  table.append(R"([{"id":1,"part":"a"},{"id":2,"part":"b"},{"id":3,"part":null}])");
  table.append(R"([{"id":4,"part":"a"},{"id":5,"part":"c"}])");
  delete_rows(*table.table, parse_expression("id = 4"), {.mode = RowMode::merge_on_read});
  const auto rows = table.reader(R"([{"id":7,"part":"a"},{"id":8,"part":null},{"id":9,"part":"d"}])");
  const RowsResult result = replace_partitions(*table.table, *rows);
  EXPECT_EQ(result.counts.rows_deleted, 2);
  EXPECT_EQ(result.counts.rows_inserted, 3);
  EXPECT_THAT(table.ids(), ElementsAre(2, 5, 7, 8, 9));
  EXPECT_EQ(table.summary().at("replace-partitions"), "true");
  EXPECT_EQ(table.metadata().current_snapshot()->operation(), "overwrite");
  const auto none = table.reader("[]");
  EXPECT_FALSE(replace_partitions(*table.table, *none).commit);
}

TEST_P(Overwrite, AnUnpartitionedTableIsReplacedWhole) {
  RowTable table(GetParam(), {{"part"}});
  table.append(R"([{"id":1,"part":"a"},{"id":2,"part":"b"}])");
  table.change_metadata([](TableMetadata& next) {
    next.partition_specs.push_back({.spec_id = 1});
    next.default_spec_id = 1;
  });
  table.append(R"([{"id":3,"part":"a"}])");
  const auto rows = table.reader(R"([{"id":7,"part":"a"}])");
  EXPECT_EQ(replace_partitions(*table.table, *rows).counts.rows_deleted, 3);
  EXPECT_THAT(table.ids(), ElementsAre(7));
}

TEST_P(Overwrite, NoNewRowReplacesNothing) {
  RowTable table(GetParam());
  table.append(R"([{"id":1,"part":"a"},{"id":2,"part":"b"}])");
  const auto none = table.reader("[]");
  EXPECT_FALSE(replace_partitions(*table.table, *none).commit);
  EXPECT_THAT(table.ids(), ElementsAre(1, 2));
}

TEST_P(Overwrite, APreparedReplacementCountsTheFilesThatGo) {
  RowTable table(GetParam(), {{"part"}});
  table.append(R"([{"id":1,"part":"a"},{"id":2,"part":"b"}])");
  table.append(R"([{"id":3,"part":"a"},{"id":4,"part":"a"}])");
  delete_rows(*table.table, parse_expression("id = 4"), {.mode = RowMode::merge_on_read});
  const auto rows = table.reader(R"([{"id":7,"part":"a"}])");
  const PreparedRows prepared = prepare_replace_partitions(table.metadata(), table.store, *rows);
  EXPECT_EQ(prepared.files_replaced, 3);                                   // two data files and the deletes of one
  EXPECT_EQ(prepared.counts.rows_deleted, 2 + (GetParam() == 2 ? 1 : 0));  // a v2 delete file is not read
}

// Dynamic overwrite takes what others added meanwhile too, unless an isolation is asked for.
TEST_P(Overwrite, AReplacementHoldsWhateverWasCommittedMeanwhile) {
  RowTable table(GetParam(), {{"part"}});
  table.append(R"([{"id":1,"part":"a"}])");
  const TableMetadata base = table.metadata();
  const auto prepare = [&](const RowOptions& options) {
    const auto rows = table.reader(R"([{"id":7,"part":"a"}])");
    return prepare_replace_partitions(base, table.store, *rows, options);
  };
  const PreparedRows strict = prepare({.isolation = Isolation::serializable});
  const PreparedRows free = prepare({});
  table.append(R"([{"id":2,"part":"b"}])");
  table.append(R"([{"id":3,"part":"a"}])");
  expect_error(ErrorKind::commit_conflict, "added", [&] { commit_snapshot(*table.table, *strict.change); });
  commit_snapshot(*table.table, *free.change);
  EXPECT_THAT(table.ids(), ElementsAre(2, 7));
}

}  // namespace
}  // namespace firn::iceberg
