// What other commits did between the read and the commit of a row-level change.
#include "row_table.h"

namespace firn::iceberg {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct Case {
  int32_t version;
  RowMode mode;
};
class Conflicts : public ::testing::TestWithParam<Case> {
 protected:
  RowTable make() const {
    RowTable table(GetParam().version);
    table.append(R"([{"id":1,"val":1},{"id":2,"val":2},{"id":3,"val":3}])");
    return table;
  }
  RowOptions options(Isolation isolation) const {
    RowOptions options;
    options.mode = GetParam().mode;
    options.isolation = isolation;
    return options;
  }
  PreparedRows prepare_delete(RowTable& table, Isolation isolation) const {
    return prepare_delete_rows(table.metadata(), table.store, parse_expression("id >= 3"), options(isolation));
  }
  PreparedRows prepare_upsert(RowTable& table, Isolation isolation) const {
    MergeOptions merge;
    merge.rows = options(isolation);
    merge.key_columns = {"id"};
    const auto rows = table.reader(R"([{"id":3,"val":30},{"id":4,"val":40}])");
    return prepare_upsert_rows(table.metadata(), table.store, *rows, merge);
  }
  // Runs `other` in between the read of a one-call change and its commit, once.
  void before_commit(RowTable& table, const std::function<void()>& other) const {
    auto done = std::make_shared<bool>(false);
    table.store->before_put([done, other](const std::string& path) {
      if (*done || path.find("metadata.json") == std::string::npos) return;
      *done = true;
      other();
    });
  }
};
INSTANTIATE_TEST_SUITE_P(, Conflicts,
                         ::testing::Values(Case{2, RowMode::copy_on_write}, Case{2, RowMode::merge_on_read},
                                           Case{3, RowMode::copy_on_write}, Case{3, RowMode::merge_on_read}),
                         [](const auto& info) {
                           return std::string("V") + std::to_string(info.param.version) +
                                  (info.param.mode == RowMode::copy_on_write ? "CopyOnWrite" : "MergeOnRead");
                         });

TEST_P(Conflicts, AMatchingRowAddedMeanwhileIsOneUnderSerializable) {
  RowTable table = make();
  const PreparedRows strict = prepare_delete(table, Isolation::serializable);
  const PreparedRows free = prepare_delete(table, Isolation::snapshot);
  const PreparedRows upsert = prepare_upsert(table, Isolation::serializable);
  table.append(R"([{"id":4,"val":4}])");
  expect_error(ErrorKind::commit_conflict, "added", [&] { commit_snapshot(*table.table, *strict.change); });
  expect_error(ErrorKind::commit_conflict, "added", [&] { commit_snapshot(*table.table, *upsert.change); });
  commit_snapshot(*table.table, *free.change);
  EXPECT_THAT(table.ids(), ElementsAre(1, 2, 4));
}

TEST_P(Conflicts, ARowThatDoesNotMatchIsNone) {
  RowTable table = make();
  const PreparedRows strict = prepare_delete(table, Isolation::serializable);
  table.append(R"([{"id":0,"val":0}])");
  commit_snapshot(*table.table, *strict.change);
  EXPECT_THAT(table.ids(), ElementsAre(0, 1, 2));
}

TEST_P(Conflicts, TheOneCallFormReadsAnewAndTakesTheAddedRowToo) {
  RowTable table = make();
  before_commit(table, [&] { table.append(R"([{"id":4,"val":4}])"); });
  const RowsResult result = delete_rows(*table.table, parse_expression("id >= 3"), options(Isolation::serializable));
  EXPECT_EQ(result.counts.rows_deleted, 2);
  EXPECT_THAT(table.ids(), ElementsAre(1, 2));
  EXPECT_EQ(table.num_snapshots(), 3u);
  EXPECT_THAT(table.orphans(), IsEmpty());
}

TEST_P(Conflicts, AnUpsertReadsAnewAndUpdatesTheAddedRow) {
  RowTable table = make();
  before_commit(table, [&] { table.append(R"([{"id":4,"val":4}])"); });
  MergeOptions merge;
  merge.rows = options(Isolation::serializable);
  merge.key_columns = {"id"};
  const auto rows = table.reader(R"([{"id":3,"val":30},{"id":4,"val":40}])");
  const RowsResult result = upsert_rows(*table.table, *rows, merge);
  EXPECT_EQ(result.counts.rows_updated, 2);
  EXPECT_EQ(result.counts.rows_inserted, 0);
  EXPECT_THAT(table.rows({.columns = {"id", "val"}}),
              ElementsAre(R"({"id":1,"val":"1.0"})", R"({"id":2,"val":"2.0"})", R"({"id":3,"val":"30.0"})",
                          R"({"id":4,"val":"40.0"})"));
  EXPECT_THAT(table.orphans(), IsEmpty());
}

TEST_P(Conflicts, NewRowsOfAnOverwriteAreWrittenOnce) {
  RowTable table = make();
  before_commit(table, [&] { table.append(R"([{"id":4,"val":4}])"); });
  const auto rows = table.reader(R"([{"id":7,"val":7}])");
  OverwriteOptions overwrite;
  overwrite.rows = options(Isolation::serializable);
  const RowsResult result = overwrite_rows(*table.table, parse_expression("id >= 3"), *rows, overwrite);
  EXPECT_EQ(result.counts.rows_deleted, 2);
  EXPECT_THAT(table.ids(), ElementsAre(1, 2, 7));
  EXPECT_THAT(table.orphans(), IsEmpty());
}

TEST_P(Conflicts, AFileThatIsGoneIsOne) {
  for (const Isolation isolation : {Isolation::serializable, Isolation::snapshot}) {
    RowTable table = make();
    const PreparedRows prepared = prepare_delete(table, isolation);
    const PreparedRows upsert = prepare_upsert(table, isolation);
    // A rewrite of the file, as compaction does: the same rows elsewhere.
    const TableMetadata base = table.metadata();
    AppendWriter writer(table.store, base);
    writer.write(table.batch(R"([{"id":1,"val":1},{"id":2,"val":2},{"id":3,"val":3}])", base.schema()));
    SnapshotChange rewrite;
    rewrite.operation = "replace";
    rewrite.removed = table.files_of(FileContent::data);
    rewrite.added = writer.finish();
    rewrite.written_schema = base.schema();
    commit_snapshot(*table.table, rewrite);
    expect_error(ErrorKind::commit_conflict, "", [&] { commit_snapshot(*table.table, *prepared.change); });
    expect_error(ErrorKind::commit_conflict, "", [&] { commit_snapshot(*table.table, *upsert.change); });
    EXPECT_THAT(table.ids(), ElementsAre(1, 2, 3));
  }
}

// Two that take other rows of one file: neither may bring back what the other took.
TEST_P(Conflicts, TwoDeletesOfOneFileBothHold) {
  RowTable table = make();
  before_commit(table, [&] { delete_rows(*table.table, parse_expression("id = 1"), options(Isolation::snapshot)); });
  delete_rows(*table.table, parse_expression("id = 3"), options(Isolation::snapshot));
  EXPECT_THAT(table.ids(), ElementsAre(2));
}

TEST_P(Conflicts, ARowUpdatedAndDeletedAtOnceIsNotBothThereAndGone) {
  RowTable table = make();
  const PreparedRows upsert = prepare_upsert(table, Isolation::snapshot);
  delete_rows(*table.table, parse_expression("id = 3"), options(Isolation::snapshot));
  expect_error(ErrorKind::commit_conflict, "", [&] { commit_snapshot(*table.table, *upsert.change); });
  EXPECT_THAT(table.ids(), ElementsAre(1, 2));
}

TEST_P(Conflicts, AnEqualityDeleteMeanwhileIsNotUndone) {
  RowTable table = make();
  before_commit(table, [&] { table.delete_equal({1}, R"([{"id":2}])"); });
  MergeOptions merge;
  merge.rows = options(Isolation::snapshot);
  merge.key_columns = {"id"};
  const auto rows = table.reader(R"([{"id":3,"val":30}])");
  upsert_rows(*table.table, *rows, merge);
  EXPECT_THAT(table.ids(), ElementsAre(1, 3));
}

TEST_P(Conflicts, TriesRunOutAndNothingIsLeftBehind) {
  RowTable table = make();
  table.change_metadata([](TableMetadata& next) { next.properties["commit.retry.num-retries"] = "2"; });
  int64_t next_id = 10;
  bool inside = false;
  table.store->before_put([&](const std::string& path) {
    if (inside || path.find("metadata.json") == std::string::npos) return;
    inside = true;
    table.append(fmt::format(R"([{{"id":{}}}])", next_id++));
    inside = false;
  });
  expect_error(ErrorKind::commit_conflict, "",
               [&] { delete_rows(*table.table, parse_expression("id >= 3"), options(Isolation::serializable)); });
  table.store->before_put({});
  EXPECT_THAT(table.orphans(), IsEmpty());
  EXPECT_GE(next_id, 13);
}

TEST(UnknownOutcome, LeavesFilesThatMayBeNamed) {
  RowTable table(2, {}, {{"commit.retry.num-retries", "0"}, {"commit.status-check.num-retries", "0"}});
  table.append(R"([{"id":1},{"id":2}])");
  table.store->lie_once("v3.metadata.json", Lie::late);
  expect_error(ErrorKind::commit_unknown, "", [&] { delete_rows(*table.table, parse_expression("id = 1")); });
  table.store->deliver_late();
  EXPECT_THAT(table.ids(), ElementsAre(2));
}

}  // namespace
}  // namespace firn::iceberg
