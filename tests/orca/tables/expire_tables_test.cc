// History made shorter around what open runs rest on (orca-tables.md, "table_defaults"; protocols P3.2, P14.3).
#include "orca/tables/world.h"

namespace firn::orca {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

constexpr int64_t kNow = 1'000 * DAY_MS;

class ExpireTables : public ::testing::Test {
 protected:
  int64_t append_at(int64_t ms, int64_t id, const Table& table) {
    set_clock_ms(ms);
    return World::append_by_other(table, day_rows("d1", {id}));
  }
  std::vector<ExpiredTable> expire(ExpireRequest request = {}) {
    set_clock_ms(kNow);
    return expire_tables(request);
  }
  static std::vector<int64_t> left(const Table& table) {
    std::vector<int64_t> ids;
    for (const auto& snapshot : table.operations()->load().metadata->snapshots) ids.push_back(snapshot.snapshot_id);
    return ids;
  }

  World world_;
  Table events_ = (set_clock_ms(kNow - 100 * DAY_MS), world_.make_table());
};

TEST_F(ExpireTables, KeepsThirtyDaysOfATableThatOrcaMade) {
  append_at(kNow - 50 * DAY_MS, 1, events_);
  append_at(kNow - 40 * DAY_MS, 2, events_);
  const int64_t young = append_at(kNow - 20 * DAY_MS, 3, events_);
  const int64_t head = append_at(kNow - DAY_MS, 4, events_);
  const auto expired = expire();
  ASSERT_EQ(expired.size(), 1u);
  EXPECT_EQ(expired[0].dataset, "nyc.events");
  EXPECT_EQ(expired[0].snapshots, 2);
  EXPECT_GT(expired[0].files, 0);
  EXPECT_EQ(expired[0].error, "");
  EXPECT_THAT(left(events_), UnorderedElementsAre(young, head));
  EXPECT_EQ(ids(events_), (Ids{1, 2, 3, 4}));  // no row of the head goes
}

TEST_F(ExpireTables, FollowsTheTablesOwnProperty) {
  iceberg::commit_metadata(*events_.operations(), [](iceberg::TableMetadata& next) {
    return iceberg::update_properties(next, {{"history.expire.max-snapshot-age-ms", std::to_string(3 * DAY_MS)}}, {});
  });
  append_at(kNow - 4 * DAY_MS, 1, events_);
  const int64_t young = append_at(kNow - 2 * DAY_MS, 2, events_);
  expire();
  EXPECT_THAT(left(events_), UnorderedElementsAre(young));
}

TEST_F(ExpireTables, ATableThatOrcaDidNotMakeKeepsAllItsSnapshots) {
  iceberg::create_filesystem_table(
      world_.store, iceberg::new_table_metadata("mem://w/nyc/foreign", event_schema(), {}, {}, {}, kNow - 90 * DAY_MS));
  const Table foreign = load_dataset("nyc.foreign");
  append_at(kNow - 80 * DAY_MS, 1, foreign);
  append_at(kNow - 70 * DAY_MS, 2, foreign);
  EXPECT_EQ(expire().size(), 1u);
  EXPECT_EQ(expire({.datasets = {"nyc.foreign"}}).size(), 0u);
  EXPECT_EQ(left(foreign).size(), 2u);
}

TEST_F(ExpireTables, AnOpenRunsPinStays) {
  const int64_t pinned = append_at(kNow - 50 * DAY_MS, 1, events_);
  StepNames names;
  names.datasets.reads = {"nyc.events"};
  Attempt step = world_.attempt(names);
  scan(step, events_);
  append_at(kNow - 45 * DAY_MS, 2, events_);
  const int64_t head = append_at(kNow - 40 * DAY_MS, 3, events_);
  ExpireRequest request;
  request.pins = step.record->pins();
  const auto expired = expire(request);
  EXPECT_EQ(expired.at(0).snapshots, 1);
  EXPECT_EQ(expired.at(0).pinned, 1);
  EXPECT_THAT(left(events_), UnorderedElementsAre(pinned, head));
  Attempt retry = world_.attempt(names, 2);
  EXPECT_EQ(lines_of(scan(retry, events_)), Lines{R"({"id":1,"day":"d1"})"});
}

TEST_F(ExpireTables, WhatASearchForCommitsWalksStays) {  // P3.2
  Attempt step = world_.attempt({});
  find_commit(step, events_);
  const int64_t committed = append_at(kNow - 50 * DAY_MS, 1, events_);
  const int64_t between = append_at(kNow - 45 * DAY_MS, 2, events_);
  const int64_t head = append_at(kNow - 40 * DAY_MS, 3, events_);
  ExpireRequest request;
  request.floors = world_.kept({}).floors;
  expire(request);
  EXPECT_THAT(left(events_), UnorderedElementsAre(committed, between, head));
  append(step, events_, day_rows("d1", {4}));
}

TEST_F(ExpireTables, WhatWasCommittedSinceTheOldestOpenRunBeganStaysWithTheOneBefore) {  // P14.1
  append_at(kNow - 60 * DAY_MS, 1, events_);
  const int64_t before = append_at(kNow - 50 * DAY_MS, 2, events_);
  const int64_t since = append_at(kNow - 45 * DAY_MS, 3, events_);
  const int64_t head = append_at(kNow - 40 * DAY_MS, 4, events_);
  ExpireRequest request;
  request.oldest_start_ms = kNow - 48 * DAY_MS;
  expire(request);
  EXPECT_THAT(left(events_), UnorderedElementsAre(before, since, head));
}

TEST_F(ExpireTables, WhatWasTheHeadWithinTheLastHourStays) {
  append_at(kNow - 60 * DAY_MS, 1, events_);
  const int64_t loaded = append_at(kNow - 50 * DAY_MS, 2, events_);  // by a step that has not pinned it yet
  const int64_t head = append_at(kNow - 60'000, 3, events_);
  expire();
  EXPECT_THAT(left(events_), UnorderedElementsAre(loaded, head));
}

TEST_F(ExpireTables, ADryRunOnlySaysWhatWouldGo) {
  append_at(kNow - 50 * DAY_MS, 1, events_);
  append_at(kNow - 40 * DAY_MS, 2, events_);
  ExpireRequest request;
  request.dry_run = true;
  EXPECT_EQ(expire(request).at(0).snapshots, 1);
  EXPECT_EQ(left(events_).size(), 2u);
}

TEST_F(ExpireTables, OneFailingTableDoesNotStopTheOthers) {
  append_at(kNow - 50 * DAY_MS, 1, events_);
  append_at(kNow - 40 * DAY_MS, 2, events_);
  const auto expired = expire({.datasets = {"nyc.none", "nyc.events"}});
  ASSERT_EQ(expired.size(), 2u);
  EXPECT_THAT(expired[0].error, HasSubstr("nyc.none"));
  EXPECT_EQ(expired[1].snapshots, 1);
}

TEST_F(ExpireTables, NeedsAWarehouse) {
  ::unsetenv("ORCA_WAREHOUSE");
  EXPECT_REFUSED(expire(), ErrorKind::config, HasSubstr("ORCA_WAREHOUSE"));
}

}  // namespace
}  // namespace firn::orca
