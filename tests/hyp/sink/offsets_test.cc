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

TEST(Offsets, AfterARollbackTheHistoryTellsWhatIsLeft) {
  const auto of_unit = [](iceberg::Snapshot made, const std::string& open_id, int64_t until) {
    made.summary = {{"firn.stream", "s"}, {"firn.open", open_id}, {"firn.until", std::to_string(until)}};
    return made;
  };
  iceberg::TableMetadata table;
  table.snapshots = {of_unit(snapshot(1, std::nullopt, 1), "a", 10), of_unit(snapshot(2, 1, 2), "b", 20),
                     of_unit(snapshot(3, 2, 3), "b", 30), of_unit(snapshot(4, 3, 4), "c", 40)};
  StreamOffsets offsets;
  offsets.opens = {{"a", 10}, {"b", 30}, {"c", 40}};
  offsets.snapshot_id = 4;
  offsets.sequence = 4;
  table.current_snapshot_id = 2;
  auto left = offsets_in_history(table, "s", offsets);
  ASSERT_TRUE(left);
  EXPECT_EQ(left->opens, (std::map<std::string, int64_t>{{"a", 10}, {"b", 20}}));
  EXPECT_EQ(left->snapshot_id, 2);
  EXPECT_TRUE(offsets_in_history(table, "other", offsets)->opens.empty());
  offsets.skipped = {{20, 25, "b"}};  // a reset's word outlives the rollback
  EXPECT_EQ(offsets_in_history(table, "s", offsets)->opens.at("b"), 25);
  offsets.skipped.clear();
  // Snapshot 1 is expired: what ends below what is left was there before it.
  table.snapshots = {table.snapshots[1], table.snapshots[2], table.snapshots[3]};
  left = offsets_in_history(table, "s", offsets);
  ASSERT_TRUE(left);
  EXPECT_EQ(left->opens, (std::map<std::string, int64_t>{{"a", 10}, {"b", 20}}));
  EXPECT_FALSE(offsets_in_history(table, "other", offsets)) << "it may have been below the cut";
}

}  // namespace
}  // namespace firn::hyp
