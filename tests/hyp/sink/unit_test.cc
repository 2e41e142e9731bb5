// How units are cut (P10.1, P10.5).
#include "hyp/sink/unit.h"

#include "hyp/sink/sink_box.h"

namespace firn::hyp {
namespace {

Lines rows_of_unit(UnitRows& rows) {
  Lines lines;
  while (const auto batch = rows.next()) {
    for (int64_t i = 0; i < batch->num_rows(); ++i)
      iceberg::append_row_json(*batch, rows.schema(), i, lines.emplace_back());
  }
  return lines;
}

const Lines kRows = {R"({"n":1})", R"({"n":2})", R"({"n":3})", R"({"n":4})", R"({"n":5})"};

TEST(Unit, BeginsItsOpenAtTheNumberBeforeTheOpensFirst) {
  SinkBox box;
  box.ingest_lines("logs", "web", kRows);
  box.ingest_lines("logs", "web", kRows);
  Cache cache(box.config);
  const auto opens = open_ranges(cache.sequence().opens());
  ASSERT_EQ(opens.size(), 2u);

  Watermark watermark;
  const auto first = cut_unit(cache, {"logs", "web"}, watermark, {3, 1 << 20});
  EXPECT_EQ(first->unit.range.open_id, opens[0].open_id);
  EXPECT_TRUE(first->unit.range.start);
  EXPECT_EQ(first->unit.range.since, opens[0].since_exclusive);
  EXPECT_EQ(first->unit.range.until, opens[0].since_exclusive + 3);
  EXPECT_EQ(first->unit.range.rows, 3);

  watermark.seq = first->unit.range.until;
  const auto second = cut_unit(cache, {"logs", "web"}, watermark, {3, 1 << 20});
  EXPECT_EQ(second->unit.range.open_id, opens[0].open_id);
  EXPECT_FALSE(second->unit.range.start);
  EXPECT_EQ(second->unit.range.since, *watermark.seq);
  EXPECT_EQ(second->unit.range.rows, 2) << "the open ends before the limit";

  watermark.seq = second->unit.range.until;
  const auto third = cut_unit(cache, {"logs", "web"}, watermark, {3, 1 << 20});
  EXPECT_EQ(third->unit.range.open_id, opens[1].open_id);
  EXPECT_TRUE(third->unit.range.start);
  EXPECT_EQ(third->unit.range.since, opens[1].since_exclusive);
  EXPECT_GT(third->unit.range.since, *watermark.seq) << "numbers between the two were never used";

  watermark.seq = opens[1].since_exclusive + 5;
  EXPECT_FALSE(cut_unit(cache, {"logs", "web"}, watermark, {3, 1 << 20}).has_value());
}

TEST(Unit, HasTheSameRowsWhetherTheyAreHeldOrReadAgain) {
  SinkBox box;
  box.ingest_lines("logs", "web", kRows);
  Cache cache(box.config);
  for (const int64_t held_bytes_max : {1 << 20, 0}) {
    auto cut = cut_unit(cache, {"logs", "web"}, {}, {4, 1 << 20, held_bytes_max});
    EXPECT_EQ(rows_of_unit(cut->rows), Lines(kRows.begin(), kRows.begin() + 4)) << held_bytes_max;
    EXPECT_EQ(cut->rows.rows_read(), 4);
  }
}

TEST(Unit, OfAnIntentHasTheColumnsItWasCutWith) {
  SinkBox box;
  box.ingest_lines("logs", "web", {R"({"n":1,"m":"x"})", R"({"n":2})"});
  Cache cache(box.config);
  const auto cut = cut_unit(cache, {"logs", "web"}, {}, {10, 1 << 20});
  box.ingest_lines("logs", "web", {R"({"n":3,"later":true})"});
  UnitRows rows(cache, {"logs", "web"}, cut->unit.range);
  EXPECT_EQ(rows_of_unit(rows), (Lines{R"({"n":1,"m":"x"})", R"({"n":2,"m":null})"}));
}

// A table repeats the opens of its rows, so a sequence file that lost one costs nothing; of rows that neither lists,
// see LostSequenceFile.
TEST(Unit, ARowWhoseOpenTheSequenceFileLostIsOfTheOneThatItsTableRepeats) {
  SinkBox box;
  box.ingest_lines("logs", "web", {R"({"n":1})"});
  box.ingest_lines("logs", "web", {R"({"n":2})"});
  Cache cache(box.config);
  const std::string path = box.config.cache_root + "/_hyp_ingest_seq.json";
  Json file = Json::parse(make_local_file_io()->read(path));
  const std::string open_id = file["opens"][0]["openId"];
  file["opens"].erase(0);
  replace_file(path, file.dump());
  const auto cut = cut_unit(cache, {"logs", "web"}, {}, {10, 1 << 20});
  ASSERT_TRUE(cut);
  EXPECT_EQ(cut->unit.range.open_id, open_id);
  EXPECT_EQ(cut->unit.range.rows, 1);
}

TEST(Unit, CountsRowsOfARange) {
  SinkBox box;
  box.ingest_lines("logs", "web", kRows);
  const Cache cache(box.config);
  EXPECT_EQ(count_rows(cache, {"logs", "web"}, std::nullopt, std::nullopt).rows, 5);
  const RowCount some = count_rows(cache, {"logs", "web"}, 1, 3);
  EXPECT_EQ(some.rows, 2);
  EXPECT_EQ(some.highest, 3);
  EXPECT_EQ(count_rows(cache, {"logs", "web"}, 5, std::nullopt).highest, std::nullopt);
  EXPECT_EQ(count_rows(cache, {"logs", "none"}, std::nullopt, std::nullopt).rows, 0);
}

}  // namespace
}  // namespace firn::hyp
