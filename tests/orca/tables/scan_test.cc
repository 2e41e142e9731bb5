// Reads pinned by a step's first attempt (orca-tables.md, "scan"; protocols P14.3).
#include "orca/tables/world.h"

namespace firn::orca {
namespace {

using ::testing::HasSubstr;

class Scan : public ::testing::Test {
 protected:
  Scan() { names_.datasets = {.reads = {"nyc.events"}, .writes = {"nyc.out"}, .replaces = {}}; }
  static Ids ids_of(const TableScan& scan) {
    Ids found;
    for (const std::string& line : lines_of(scan)) found.push_back(parse_json(line, "row")["id"]);
    return found;
  }

  World world_;
  StepNames names_;
  Table events_ = world_.make_table();
};

TEST_F(Scan, ReadsTheCurrentSnapshotFirstAndTheSameOneOnARetry) {
  World::append_by_other(events_, day_rows("d1", {1}));
  Attempt first = world_.attempt(names_);
  EXPECT_EQ(ids_of(scan(first, events_)), Ids{1});
  World::append_by_other(events_, day_rows("d1", {2}));
  EXPECT_EQ(ids_of(scan(first, events_)), Ids{1});  // again in the same attempt
  Attempt retry = world_.attempt(names_, 2);
  EXPECT_EQ(ids_of(scan(retry, load_dataset("nyc.events"))), Ids{1});
  names_.run = "run-b";
  Attempt later = world_.attempt(names_);
  EXPECT_EQ(ids_of(scan(later, events_)), (Ids{1, 2}));
}

TEST_F(Scan, AHandleLoadedLongAgoDoesNotPinAnOldSnapshot) {
  World::append_by_other(events_, day_rows("d1", {1}));
  Attempt first = world_.attempt(names_);
  EXPECT_EQ(ids_of(scan(first, events_)), Ids{1});
}

TEST_F(Scan, ATableThatWasEmptyStaysEmptyForTheStep) {
  Attempt first = world_.attempt(names_);
  const TableScan empty = scan(first, events_);
  EXPECT_EQ(empty.snapshot_id(), std::nullopt);
  EXPECT_EQ(ids_of(empty), Ids{});
  World::append_by_other(events_, day_rows("d1", {1}));
  Attempt retry = world_.attempt(names_, 2);
  EXPECT_EQ(ids_of(scan(retry, load_dataset("nyc.events"))), Ids{});
  EXPECT_TRUE(scan(retry, events_).plan().tasks.empty());
}

TEST_F(Scan, SeesWhatWasThereThoughItWasReplacedSince) {
  World::append_by_other(events_, day_rows("d1", {1}));
  Attempt first = world_.attempt(names_);
  scan(first, events_);
  iceberg::delete_rows(*events_.operations(), nullptr);
  EXPECT_EQ(ids_of(scan(first, events_)), Ids{1});
  EXPECT_EQ(ids(events_), Ids{});
}

TEST_F(Scan, TakesColumnsAndAFilter) {
  World::append_by_other(events_, day_rows("d1", {1, 2, 3}));
  Attempt first = world_.attempt(names_);
  iceberg::ScanOptions options;
  options.columns = {"id"};
  options.filter = iceberg::parse_expression("id > 1");
  EXPECT_EQ(lines_of(scan(first, events_, options)), (Lines{R"({"id":2})", R"({"id":3})"}));
  options.snapshot_id = 1;
  EXPECT_REFUSED(scan(first, events_, options), ErrorKind::invalid_argument, HasSubstr("pinned"));
}

TEST_F(Scan, AColumnAddedSinceIsReadAsNullWhereItIsNamed) {
  World::append_by_other(events_, day_rows("d1", {1}));
  names_.datasets.writes.push_back("nyc.events");
  Attempt first = world_.attempt(names_);
  scan(first, events_);
  ensure_table(first, "nyc.events",
               Schema({column(1, "id", primitive(TypeId::long_)), column(2, "day", primitive(TypeId::string)),
                       column(3, "note", primitive(TypeId::string))}));
  World::append_by_other(events_, day_rows("d1", {2}));
  EXPECT_EQ(lines_of(scan(first, events_)), Lines{R"({"id":1,"day":"d1"})"});  // the same data as before
  iceberg::ScanOptions options;
  options.columns = {"id", "note"};
  EXPECT_EQ(lines_of(scan(first, events_, options)), Lines{R"({"id":1,"note":null})"});
}

TEST_F(Scan, APinThatAForeignExpiryTookIsAnErrorNeverOtherRows) {
  const int64_t pinned = World::append_by_other(events_, day_rows("d1", {1}));
  Attempt first = world_.attempt(names_);
  scan(first, events_);
  World::append_by_other(events_, day_rows("d1", {2}));
  forget_snapshots(events_, {pinned});
  EXPECT_REFUSED(scan(first, events_), ErrorKind::not_found, HasSubstr("nyc.events"),
                 HasSubstr(std::to_string(pinned)));
}

TEST_F(Scan, ATableMadeInThePlaceOfThePinnedOneIsAnError) {
  Attempt first = world_.attempt(names_);
  scan(first, events_);
  for (const std::string& path : world_.store->paths()) world_.store->remove(path);
  const Table other = world_.make_table();
  EXPECT_REFUSED(scan(first, other), ErrorKind::not_found, HasSubstr("dropped"));
}

TEST_F(Scan, WhatWasReadIsInTheSummaryOfWhatIsCommitted) {
  const int64_t read = World::append_by_other(events_, day_rows("d1", {1}));
  names_.datasets.reads.push_back("nyc.other");
  const Table other = world_.make_table("nyc.other");
  Table out = world_.make_table("nyc.out");
  Attempt step = world_.attempt(names_);
  scan(step, events_);
  scan(step, other);
  const int64_t id = append(step, out, day_rows("d1", {1}));
  EXPECT_EQ(parse_json(summary(out, id).at("orca.reads"), "reads"),
            (Json{{"nyc.events", read}, {"nyc.other", nullptr}}));
}

}  // namespace
}  // namespace firn::orca
