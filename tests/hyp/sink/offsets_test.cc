// The offset property of an archive (P3.3, P10.7).
#include "hyp/sink/offsets.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json.h"

namespace firn::hyp {
namespace {

PendingUnit unit(const std::string& open_id, int64_t since, int64_t until, bool start) {
  PendingUnit range;
  range.open_id = open_id;
  range.since = since;
  range.until = until;
  range.start = start;
  return range;
}

iceberg::Snapshot snapshot(int64_t id, std::optional<int64_t> parent, int64_t sequence) {
  iceberg::Snapshot result;
  result.snapshot_id = id;
  result.parent_snapshot_id = parent;
  result.sequence_number = sequence;
  return result;
}

TEST(Offsets, AUnitIsTakenIffItsSinceIsTheOpensLast) {
  StreamOffsets offsets;
  offsets.opens = {{"a", 10}};
  EXPECT_EQ(judge(offsets, false, unit("a", 10, 20, false), "t"), UnitVerdict::take);
  EXPECT_EQ(judge(offsets, false, unit("a", 10, 20, true), "t"), UnitVerdict::take);
  EXPECT_EQ(judge(offsets, false, unit("a", 5, 20, false), "t"), UnitVerdict::refuse);
  EXPECT_EQ(judge(offsets, false, unit("a", 12, 20, false), "t"), UnitVerdict::refuse);
  EXPECT_EQ(judge(offsets, false, unit("a", 5, 10, false), "t"), UnitVerdict::landed);
  EXPECT_EQ(judge(offsets, false, unit("a", 0, 9, true), "t"), UnitVerdict::landed);
  EXPECT_EQ(judge(offsets, false, unit("b", 10, 20, true), "t"), UnitVerdict::take);
  EXPECT_EQ(judge(offsets, false, unit("b", 10, 20, false), "t"), UnitVerdict::refuse);
  for (const bool start : {true, false}) {
    EXPECT_EQ(judge(offsets, true, unit("a", 10, 20, start), "t"), UnitVerdict::refuse);
    EXPECT_EQ(judge(offsets, true, unit("a", 0, 5, start), "t"), UnitVerdict::refuse);
    EXPECT_EQ(judge(offsets, true, unit("b", 10, 20, start), "t"), UnitVerdict::refuse);
  }
}

TEST(Offsets, KeepsTheLatest64OpensAndNeverGuessesAboutOthers) {
  StreamOffsets offsets;
  for (int64_t i = 0; i < 70; ++i) offsets = advanced(offsets, unit(fmt::format("o{}", i), i * 10, i * 10 + 10, true));
  EXPECT_EQ(offsets.opens.size(), 64u);
  EXPECT_EQ(offsets.forgot, 60);  // o5 ended at 60
  EXPECT_FALSE(offsets.opens.contains("o5"));
  EXPECT_TRUE(offsets.opens.contains("o6"));
  EXPECT_EQ(judge(offsets, false, unit("new", 60, 70, true), "t"), UnitVerdict::take);
  try {
    judge(offsets, false, unit("o5", 50, 60, true), "t");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::destination_forgot);
  }
}

TEST(Offsets, ComeBackFromTheProperty) {
  StreamOffsets offsets;
  offsets.opens = {{"a", 9007199254740993}, {"b", 2}};
  offsets.forgot = 7;
  offsets.snapshot_id = 5;
  offsets.sequence = 3;
  offsets.skipped = {{1, 2, "b"}, {9007199254740990, 9007199254740993, "a"}};
  iceberg::TableMetadata table;
  EXPECT_TRUE(read_offsets(table, "s").opens.empty());
  table.properties["firn.offset.s"] = to_text(offsets);
  const StreamOffsets read = read_offsets(table, "s");
  EXPECT_EQ(read.opens, offsets.opens);
  EXPECT_EQ(read.forgot, 7);
  EXPECT_EQ(read.snapshot_id, 5);
  EXPECT_EQ(read.sequence, 3);
  EXPECT_EQ(read.skipped, offsets.skipped);
  EXPECT_EQ(Json::parse(table.properties["firn.offset.s"])["skipped"][0], (Json{"1", "2", "b"}));
  EXPECT_FALSE(read.was_rolled_back);
  table.properties["firn.offset.s"] = R"({"opens":{},"sequence":1,"rolledBack":true})";
  EXPECT_TRUE(read_offsets(table, "s").was_rolled_back);
  table.properties["firn.offset.s"] = to_text(read_offsets(table, "s"));
  EXPECT_TRUE(read_offsets(table, "s").was_rolled_back);
  for (const StreamOffsets& settled :
       {moved(read_offsets(table, "s"), "a", 0, 20), advanced(read_offsets(table, "s"), PendingUnit())}) {
    EXPECT_FALSE(settled.was_rolled_back);
  }
  table.properties["firn.offset.s"] = R"({"opens":{},"sequence":1,"skipped":[["1","2"]]})";
  EXPECT_THROW(read_offsets(table, "s"), Error);
  table.properties["firn.offset.s"] = R"({"opens":{"a":"x"},"sequence":1})";
  EXPECT_THROW(read_offsets(table, "s"), Error);
}

TEST(Offsets, ASnapshotOutOfTheHistoryIsARollback) {
  iceberg::TableMetadata table;
  table.snapshots = {snapshot(1, std::nullopt, 1), snapshot(2, 1, 2), snapshot(3, 2, 3), snapshot(4, 2, 4)};
  const auto rolled_back = [&](int64_t head, int64_t id, int64_t sequence) {
    table.current_snapshot_id = head;
    StreamOffsets offsets;
    offsets.snapshot_id = id;
    offsets.sequence = sequence;
    return is_rolled_back(table, offsets);
  };
  EXPECT_FALSE(rolled_back(3, 3, 3));
  EXPECT_FALSE(rolled_back(3, 1, 1));
  EXPECT_TRUE(rolled_back(4, 3, 3)) << "another branch of history";
  EXPECT_TRUE(rolled_back(2, 3, 3));
  table.current_snapshot_id.reset();
  StreamOffsets offsets;
  EXPECT_FALSE(is_rolled_back(table, offsets)) << "no rows yet";
  offsets.snapshot_id = 1;
  offsets.sequence = 1;
  EXPECT_TRUE(is_rolled_back(table, offsets)) << "no history at all";
  // Snapshot 2 is expired.
  table.snapshots = {snapshot(3, 2, 3), snapshot(4, 3, 4)};
  EXPECT_FALSE(rolled_back(4, 2, 2)) << "cut above it: it counts as there";
  StreamOffsets noted;
  noted.snapshot_id = 2;
  noted.sequence = 2;
  noted.was_rolled_back = true;
  EXPECT_TRUE(is_rolled_back(table, noted)) << "who cut it saw that it was not";
  noted.snapshot_id = noted.sequence = 3;
  EXPECT_FALSE(is_rolled_back(table, noted)) << "main has it again";
  EXPECT_TRUE(rolled_back(4, 9, 3)) << "the one of that number is another";
}

TEST(Offsets, AResetSaysWhatItSkippedAndForgetsWhatComesAgain) {
  using Ranges = std::vector<SkippedRows>;
  StreamOffsets offsets;
  offsets.opens = {{"a", 10}};
  offsets = moved(offsets, "a", 0, 20);
  EXPECT_EQ(offsets.opens.at("a"), 20);
  EXPECT_EQ(offsets.skipped, (Ranges{{10, 20, "a"}}));
  offsets = moved(offsets, "b", 30, 35);  // nothing of it was there
  EXPECT_EQ(offsets.skipped, (Ranges{{10, 20, "a"}, {30, 35, "b"}}));
  offsets = moved(offsets, "a", 0, 25);
  EXPECT_EQ(offsets.skipped, (Ranges{{10, 25, "a"}, {30, 35, "b"}})) << "ranges that touch are one";
  offsets = moved(offsets, "a", 0, 15);
  EXPECT_EQ(offsets.opens.at("a"), 15);
  EXPECT_EQ(offsets.skipped, (Ranges{{10, 15, "a"}, {30, 35, "b"}}));
  offsets = moved(offsets, "b", 30, 30);
  EXPECT_FALSE(offsets.opens.contains("b")) << "all of it comes again";
  offsets = moved(offsets, "a", 0, 5);
  EXPECT_TRUE(offsets.skipped.empty());
}

TEST(Offsets, WhatWasSkippedIsBounded) {
  StreamOffsets offsets;
  for (int64_t i = 0; i < 300; ++i) offsets = moved(offsets, fmt::format("o{}", i), i * 10, i * 10 + 5);
  EXPECT_EQ(offsets.opens.size(), 64u);
  ASSERT_EQ(offsets.skipped.size(), kSkippedKept);
  EXPECT_EQ(offsets.skipped.front().since, 44 * 10) << "the lowest go";
  EXPECT_EQ(offsets.skipped.back().since, 299 * 10);
}

iceberg::Snapshot of_unit(iceberg::Snapshot made, const std::string& open_id, int64_t since, int64_t until) {
  made.summary = {{"firn.stream", "s"},
                  {"firn.open", open_id},
                  {"firn.since", std::to_string(since)},
                  {"firn.until", std::to_string(until)}};
  return made;
}

// Opens a, b and c, of which b came in two units.
struct RolledBack {
  iceberg::TableMetadata table;
  StreamOffsets offsets;

  RolledBack() {
    table.snapshots = {of_unit(snapshot(1, std::nullopt, 1), "a", 0, 10), of_unit(snapshot(2, 1, 2), "b", 10, 20),
                       of_unit(snapshot(3, 2, 3), "b", 20, 30), of_unit(snapshot(4, 3, 4), "c", 30, 40)};
    offsets.opens = {{"a", 10}, {"b", 30}, {"c", 40}};
    offsets.snapshot_id = 4;
    offsets.sequence = 4;
    table.current_snapshot_id = 2;
  }
  std::optional<StreamOffsets> left() const { return offsets_in_history(table, "s", offsets); }
};

using Lasts = std::map<std::string, int64_t>;

TEST(Offsets, AfterARollbackEachOpenIsWhereItWasBeforeTheUnitsThatAreGone) {
  RolledBack world;
  auto left = world.left();
  ASSERT_TRUE(left);
  EXPECT_EQ(left->opens, (Lasts{{"a", 10}, {"b", 20}, {"c", 30}}));
  EXPECT_EQ(left->snapshot_id, 2);
  // Snapshot 1 is expired: what the rollback took is still known.
  world.table.snapshots = {world.table.snapshots[1], world.table.snapshots[2], world.table.snapshots[3]};
  left = world.left();
  ASSERT_TRUE(left);
  EXPECT_EQ(left->opens, (Lasts{{"a", 10}, {"b", 20}, {"c", 30}}));
}

TEST(Offsets, AfterARollbackAnOpenOfACopyIsNoEvidenceForOnesWithHigherNumbers) {
  RolledBack world;
  // Two copies went on from 10: d's unit came last, and it alone is gone.
  world.table.snapshots = {of_unit(snapshot(1, std::nullopt, 1), "a", 0, 10), of_unit(snapshot(2, 1, 2), "b", 10, 20),
                           of_unit(snapshot(3, 2, 3), "c", 30, 40), of_unit(snapshot(4, 3, 4), "d", 10, 15)};
  world.offsets.opens = {{"a", 10}, {"b", 20}, {"c", 40}, {"d", 15}};
  world.table.current_snapshot_id = 3;
  for (const bool is_cut : {false, true}) {
    if (is_cut) world.table.snapshots = {world.table.snapshots[2], world.table.snapshots[3]};
    const auto left = world.left();
    ASSERT_TRUE(left) << is_cut;
    EXPECT_EQ(left->opens, (Lasts{{"a", 10}, {"b", 20}, {"c", 40}, {"d", 10}})) << is_cut;
  }
}

TEST(Offsets, AfterARollbackWhoseSnapshotsAreGoneAWholeHistoryTellsAndACutOneDoesNot) {
  RolledBack world;
  world.table.snapshots = {world.table.snapshots[0], world.table.snapshots[1]};
  const auto left = world.left();
  ASSERT_TRUE(left);
  EXPECT_EQ(left->opens, (Lasts{{"a", 10}, {"b", 20}}));
  world.table.snapshots = {world.table.snapshots[1]};
  EXPECT_FALSE(world.left());
  world.table.snapshots = {of_unit(snapshot(1, std::nullopt, 1), "a", 0, 10), snapshot(3, 2, 3), snapshot(4, 3, 4)};
  world.table.current_snapshot_id = 1;
  ASSERT_TRUE(world.left()) << "between the two one is gone";
  EXPECT_EQ(world.left()->opens, (Lasts{{"a", 10}}));
}

TEST(Offsets, AfterARollbackWhatAResetSaidStandsButForWhatComesAgain) {
  RolledBack world;
  world.offsets.skipped = {{20, 25, "b"}};
  auto left = world.left();
  EXPECT_EQ(left->opens.at("b"), 25) << "what was skipped right above what is left stays so";
  EXPECT_EQ(left->skipped, world.offsets.skipped);
  world.offsets.skipped = {{30, 50, "b"}};  // behind a unit that is gone
  world.offsets.opens["b"] = 50;
  left = world.left();
  EXPECT_EQ(left->opens.at("b"), 20);
  EXPECT_TRUE(left->skipped.empty()) << "its rows come again with those before them";
  world.offsets.skipped.clear();
  world.offsets.opens["b"] = 12;  // made to come again
  EXPECT_EQ(world.left()->opens.at("b"), 12);
  world.offsets.opens.erase("b");
  EXPECT_FALSE(world.left()->opens.contains("b"));
}

// As if 64 later opens had come (P10.7).
TEST(Offsets, AfterARollbackOfAnOpenThatIsNoLongerListedTheWholeHistoryTells) {
  RolledBack world;
  world.offsets.opens = {{"c", 40}};
  world.offsets.forgot = 30;
  const auto left = world.left();
  ASSERT_TRUE(left);
  EXPECT_EQ(left->opens, (Lasts{{"a", 10}, {"b", 20}}));
  EXPECT_EQ(judge(*left, false, unit("b", 20, 30, false), "t"), UnitVerdict::take);
  EXPECT_EQ(judge(*left, false, unit("c", 30, 40, true), "t"), UnitVerdict::take);
  world.table.snapshots = {world.table.snapshots[1], world.table.snapshots[2], world.table.snapshots[3]};
  EXPECT_FALSE(world.left()) << "where b was cannot be told";
}

}  // namespace
}  // namespace firn::hyp
