// Which snapshot, schema and files a scan takes.
#include "iceberg/scan/test_table.h"

namespace firn::iceberg {
namespace {

const Schema& id_schema() {
  static const Schema kSchema({optional(1, "id", long_type())});
  return kSchema;
}

// Three snapshots with ids 1, 2 and 3 at 1, 2 and 3 seconds, each with the row of its id.
class ScanPlanning : public testing::Test {
 protected:
  ScanPlanning() : table_(id_schema()) {
    for (int i = 1; i <= 3; ++i) {
      table_.commit({table_.data_file(fmt::format("{}.parquet", i), id_schema(), fmt::format(R"([{{"id":{}}}])", i))});
    }
  }
  Lines rows(const std::function<void(ScanOptions&)>& choose) {
    ScanOptions options;
    choose(options);
    return table_.rows(options);
  }
  void expect_error(ErrorKind kind, const std::string& part, const std::function<void(ScanOptions&)>& choose) {
    try {
      rows(choose);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind);
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }
  TestTable table_;
};

TEST_F(ScanPlanning, ReadsTheSnapshotChosenByIdRefOrTime) {
  const Lines one = {R"({"id":1})"};
  const Lines two = {R"({"id":1})", R"({"id":2})"};
  table_.metadata().refs["audit"] = SnapshotRef{2, true, {}, {}, {}};
  table_.metadata().refs["old"] = SnapshotRef{1, false, {}, {}, {}};
  const auto sorted = [](Lines lines) {
    std::sort(lines.begin(), lines.end());
    return lines;
  };
  EXPECT_EQ(rows([](ScanOptions&) {}).size(), 3U);
  EXPECT_EQ(rows([](ScanOptions& o) { o.ref = "main"; }).size(), 3U);
  EXPECT_EQ(sorted(rows([](ScanOptions& o) { o.snapshot_id = 2; })), two);
  EXPECT_EQ(sorted(rows([](ScanOptions& o) { o.ref = "audit"; })), two);
  EXPECT_EQ(rows([](ScanOptions& o) { o.ref = "old"; }), one);
  EXPECT_EQ(rows([](ScanOptions& o) { o.as_of_ms = 1000; }), one);
  EXPECT_EQ(rows([](ScanOptions& o) { o.as_of_ms = 1999; }), one);
  EXPECT_EQ(sorted(rows([](ScanOptions& o) { o.as_of_ms = 2000; })), two);
}

TEST_F(ScanPlanning, FollowsTheLogAndNotTheParentsForATime) {
  table_.metadata().snapshot_log.push_back({4000, 1});  // rolled back
  EXPECT_EQ(rows([](ScanOptions& o) { o.as_of_ms = 4500; }), (Lines{R"({"id":1})"}));
  EXPECT_EQ(rows([](ScanOptions& o) { o.as_of_ms = 3500; }).size(), 3U);
  table_.metadata().snapshot_log.clear();  // optional in metadata
  EXPECT_EQ(rows([](ScanOptions& o) { o.as_of_ms = 1500; }), (Lines{R"({"id":1})"}));
}

TEST_F(ScanPlanning, NamesWhatIsNotThere) {
  expect_error(ErrorKind::not_found, "77", [](ScanOptions& o) { o.snapshot_id = 77; });
  expect_error(ErrorKind::not_found, "main", [](ScanOptions& o) { o.ref = "nope"; });
  expect_error(ErrorKind::not_found, "1970-01-01T00:00:00.500Z", [](ScanOptions& o) { o.as_of_ms = 500; });
  expect_error(ErrorKind::not_found, "the table has: id", [](ScanOptions& o) { o.columns = {"nope"}; });
  expect_error(ErrorKind::invalid_argument, "not more than one", [](ScanOptions& o) {
    o.ref = "main";
    o.snapshot_id = 1;
  });
}

TEST_F(ScanPlanning, ReadsASnapshotAndATagWithTheirSchemaAndABranchWithTheTables) {
  table_.metadata().refs["tag"] = SnapshotRef{3, false, {}, {}, {}};
  table_.metadata().refs["branch"] = SnapshotRef{1, true, {}, {}, {}};
  set_current_schema(table_.metadata(), Schema({optional(1, "renamed", long_type())}, 1), 1);
  EXPECT_EQ(rows([](ScanOptions& o) { o.snapshot_id = 1; }), (Lines{R"({"id":1})"}));
  EXPECT_EQ(rows([](ScanOptions& o) { o.as_of_ms = 1000; }), (Lines{R"({"id":1})"}));
  EXPECT_EQ(rows([](ScanOptions& o) { o.ref = "branch"; }), (Lines{R"({"renamed":1})"}));
  EXPECT_EQ(rows([](ScanOptions& o) { o.ref = "tag"; }).front().substr(0, 5), R"({"id")");
  EXPECT_EQ(rows([](ScanOptions&) {}).front().substr(0, 10), R"({"renamed")");
}

TEST(ScanPlan, OfATableWithoutSnapshotHasNoRows) {
  TestTable table(id_schema());
  EXPECT_EQ(table.rows(), Lines{});
  ScanOptions options;
  options.ref = "main";
  EXPECT_EQ(table.rows(options), Lines{});
}

TEST(ScanPlan, SkipsManifestsAndFilesThatCannotMatch) {
  const Schema schema({optional(1, "id", long_type()), optional(2, "p", long_type())});
  TestTable table(schema, 2, make_partition_spec({{"p", "identity"}}, schema));
  for (int64_t p = 0; p < 3; ++p) {
    std::vector<DataFile> files;
    for (int64_t i = 0; i < 2; ++i) {
      const int64_t id = 10 * p + i;
      DataFile file =
          table.data_file(fmt::format("{}.parquet", id), schema, fmt::format(R"([{{"id":{},"p":{}}}])", id, p));
      file.partition = {p};
      file.value_counts = {{1, 1}};
      file.null_value_counts = {{1, 0}};
      file.lower_bounds = {{1, to_bytes(Value{id}, *long_type())}};
      file.upper_bounds = file.lower_bounds;
      files.push_back(file);
    }
    table.commit(files);
  }
  ReadCounters counters;
  ScanOptions options;
  options.counters = &counters;
  options.filter = parse_expression("p = 1 and id = 11");
  EXPECT_EQ(table.rows(options), (Lines{R"({"id":11,"p":1})"}));
  EXPECT_EQ(counters.manifests_read, 1);
  EXPECT_EQ(counters.manifests_skipped, 2);
  EXPECT_EQ(counters.files_planned, 1);
  EXPECT_EQ(counters.files_pruned, 1);
  options.prune = false;
  options.counters = nullptr;
  EXPECT_EQ(table.rows(options), (Lines{R"({"id":11,"p":1})"}));
  EXPECT_EQ(plan_scan(table.metadata(), table.io(), options).tasks.size(), 6U);
}

TEST(LiveFiles, AreThoseOfTheSnapshotWithTheirSequenceNumbers) {
  TestTable table(id_schema());
  const DataFile data = table.data_file("a.parquet", id_schema(), R"([{"id":1}])");
  table.commit({data});
  table.commit({table.position_deletes("d.parquet", {{data.file_path, {0}}})});
  const std::vector<LiveFile> live = live_files(table.metadata(), *table.metadata().current_snapshot(), *table.io());
  ASSERT_EQ(live.size(), 2U);
  EXPECT_EQ(live[0].file.file_path, data.file_path);
  EXPECT_EQ(live[0].data_sequence_number, 1);
  EXPECT_EQ(live[0].snapshot_id, 1);
  EXPECT_EQ(live[1].file.content, FileContent::position_deletes);
  EXPECT_EQ(live[1].file_sequence_number, 2);
  EXPECT_EQ(live_files(table.metadata(), *table.metadata().find_snapshot(1), *table.io()).size(), 1U);
}

}  // namespace
}  // namespace firn::iceberg
