// Incremental append scans, as Java's IncrementalAppendScan has them.
#include "iceberg/scan/appends.h"

#include "iceberg/scan/test_table.h"

namespace firn::iceberg {
namespace {

const Schema& id_schema() {
  static const Schema kSchema({optional(1, "id", long_type())});
  return kSchema;
}

// Snapshots 1, 2, … each add the row of their number.
class Appends : public testing::Test {
 protected:
  Appends() : table_(id_schema()) {
    for (int i = 1; i <= 4; ++i) append(std::to_string(i));
  }

  void append(const std::string& id) {
    table_.commit({table_.data_file(id + ".parquet", id_schema(), "[{\"id\":" + id + "}]")});
  }
  void set_operation(size_t snapshot, const std::string& operation) {
    SnapshotList& snapshots = table_.metadata().snapshots;
    Snapshot changed = snapshots[snapshot - 1];
    changed.summary["operation"] = operation;
    snapshots.replace(snapshot - 1, changed);
  }

  Lines rows(const AppendRange& range, const ScanOptions& options = {}) {
    const auto plan = std::make_shared<const ScanPlan>(plan_appends(table_.metadata(), table_.io(), range, options));
    return TestTable::drain(*read_tasks(plan, table_.io(), options), plan->projection);
  }
  ErrorKind error(const AppendRange& range, const std::string& says, const ScanOptions& options = {}) {
    try {
      rows(range, options);
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(says), std::string::npos) << e.what();
      return e.kind();
    }
    ADD_FAILURE() << "nothing was thrown";
    return ErrorKind::internal;
  }

  TestTable table_;
};

TEST_F(Appends, AreThoseAfterTheFirstSnapshotUpToTheLast) {
  EXPECT_EQ(rows({.from_snapshot_id = 1, .to_snapshot_id = 3}), (Lines{R"({"id":2})", R"({"id":3})"}));
  EXPECT_EQ(rows({.from_snapshot_id = 2, .from_inclusive = true, .to_snapshot_id = 3}),
            (Lines{R"({"id":2})", R"({"id":3})"}));
  EXPECT_EQ(rows({.from_snapshot_id = 3}), Lines{R"({"id":4})"});
  EXPECT_EQ(rows({.from_snapshot_id = 4}), Lines{});
  EXPECT_EQ(rows({.to_snapshot_id = 2}), (Lines{R"({"id":1})", R"({"id":2})"}));
  EXPECT_EQ(rows({}), (Lines{R"({"id":1})", R"({"id":2})", R"({"id":3})", R"({"id":4})"}));
}

TEST_F(Appends, AreFilteredAndProjectedAsAScanIs) {
  ScanOptions options;
  options.filter = parse_expression("id != 3");
  options.columns = {"_pos", "id"};
  EXPECT_EQ(rows({.from_snapshot_id = 1}, options), (Lines{R"({"_pos":0,"id":2})", R"({"_pos":0,"id":4})"}));
  options.filter = parse_expression("id > 9");
  EXPECT_EQ(rows({}, options), Lines{});
}

TEST_F(Appends, KeepRowsThatWereDeletedSince) {
  table_.commit({table_.position_deletes("d.parquet", {{table_.path("3.parquet"), {0}}})});
  set_operation(5, "delete");
  EXPECT_EQ(rows({.from_snapshot_id = 2, .to_snapshot_id = 4}), (Lines{R"({"id":3})", R"({"id":4})"}));
}

TEST_F(Appends, RefuseOtherOperationsInBetweenUnlessToldToSkipThem) {
  set_operation(3, "overwrite");
  EXPECT_EQ(error({.from_snapshot_id = 1}, "snapshot 3"), ErrorKind::invalid_argument);
  EXPECT_EQ(rows({.from_snapshot_id = 1, .skips_other_operations = true}), (Lines{R"({"id":2})", R"({"id":4})"}));
  EXPECT_EQ(rows({.from_snapshot_id = 3}), Lines{R"({"id":4})"});
  set_operation(3, "replace");  // a compaction adds no row
  EXPECT_EQ(rows({.from_snapshot_id = 1}), (Lines{R"({"id":2})", R"({"id":4})"}));
}

TEST_F(Appends, NeedAnAncestorToStartFrom) {
  EXPECT_EQ(error({.from_snapshot_id = 3, .to_snapshot_id = 2}, "no ancestor"), ErrorKind::invalid_argument);
  EXPECT_EQ(error({.from_snapshot_id = 99}, "99"), ErrorKind::invalid_argument);
  EXPECT_EQ(error({.to_snapshot_id = 99}, "99"), ErrorKind::not_found);
  ScanOptions at_a_time;
  at_a_time.as_of_ms = 1000;
  EXPECT_EQ(error({}, "between snapshots", at_a_time), ErrorKind::invalid_argument);
}

TEST_F(Appends, MayStartAtASnapshotThatExpired) {
  table_.metadata().snapshots.erase_if([](const Snapshot& snapshot) { return snapshot.snapshot_id <= 2; });
  EXPECT_EQ(rows({.from_snapshot_id = 2}), (Lines{R"({"id":3})", R"({"id":4})"}));
  EXPECT_EQ(error({.from_snapshot_id = 2, .from_inclusive = true}, "2"), ErrorKind::invalid_argument);
  EXPECT_EQ(error({.from_snapshot_id = 1}, "1"), ErrorKind::invalid_argument);
}

TEST_F(Appends, OfABranchAreThoseOnItsLine) {
  SnapshotRef ref;
  ref.snapshot_id = 3;
  table_.metadata().refs["dev"] = ref;
  ScanOptions options;
  options.ref = "dev";
  EXPECT_EQ(rows({.from_snapshot_id = 2}, options), Lines{R"({"id":3})"});
}

// Case 15, on the incremental path.
TEST_F(Appends, HaveTheTablesCurrentColumnsAndNoOldValuesUnderOldNames) {
  set_current_schema(table_.metadata(), Schema({optional(2, "id", string_type())}, 1), 2);
  EXPECT_EQ(rows({.from_snapshot_id = 3}), Lines{R"({"id":null})"});
}

TEST(AppendsOfAnEmptyTable, AreNone) {
  TestTable table(id_schema());
  EXPECT_TRUE(plan_appends(table.metadata(), table.io(), {}, {}).tasks.empty());
  EXPECT_THROW(plan_appends(table.metadata(), table.io(), {.from_snapshot_id = 1}, {}), Error);
}

}  // namespace
}  // namespace firn::iceberg
