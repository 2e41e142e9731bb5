// The watermark file (spec/incremental-sink-reads.md §3).
#include "hyp/sink/sink_box.h"

namespace firn::hyp {
namespace {

ErrorKind kind_of_load(const std::string& path) {
  try {
    load_watermark(path);
    return ErrorKind::internal;
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find(path), std::string::npos) << "it names the file: " << e.what();
    return e.kind();
  }
}

TEST(Watermark, IsFoundBySinkDatasetAndPartition) {
  EXPECT_EQ(watermark_path("/s", "out", {"logs", "web"}), "/s/out/watermarks/logs/source=web.json");
  EXPECT_EQ(watermark_path("/s", "../x", {"a.b", "a/b"}), "/s/%2E.%2Fx/watermarks/a.b/source=a%2Fb.json");
}

TEST(Watermark, ComesBackAsItWasSaved) {
  const TempFolder folder;
  const std::string path = folder / "w/x.json";
  EXPECT_FALSE(load_watermark(path).has_value());
  Watermark saved;
  saved.seq = 9007199254740993;  // beyond what a JSON number keeps elsewhere
  saved.exported_row_count = 12;
  saved.exported_bytes = 34;
  saved.shipped_at = "2026-01-02T03:04:05.000Z";
  saved.stream = "c/logs/source=web";
  saved.last_unit = {"o1", 5};
  PendingUnit pending;
  pending.open_id = "o2";
  pending.since = 9007199254740993;
  pending.until = 9007199254740995;
  pending.start = true;
  pending.rows = 2;
  pending.key = "logs/source=web/o2_1_2.parquet";
  pending.rows_max = 10;
  pending.bytes_max = 20;
  pending.announced_at = "2026-01-02T03:04:06.000Z";
  pending.columns = {{"n", iceberg::Type::primitive(iceberg::TypeId::long_)},
                     {"tags", iceberg::Type::list_of(3, false, iceberg::Type::primitive(iceberg::TypeId::string))}};
  saved.pending = pending;
  save_watermark(path, saved);
  const auto loaded = load_watermark(path);
  EXPECT_EQ(loaded->seq, saved.seq);
  EXPECT_EQ(loaded->exported_row_count, 12);
  EXPECT_EQ(loaded->exported_bytes, 34);
  EXPECT_EQ(loaded->shipped_at, saved.shipped_at);
  EXPECT_EQ(loaded->pending->announced_at, pending.announced_at);
  EXPECT_EQ(loaded->stream, saved.stream);
  EXPECT_EQ(loaded->last_unit->open_id, "o1");
  EXPECT_EQ(loaded->last_unit->since, 5);
  EXPECT_EQ(loaded->pending->open_id, "o2");
  EXPECT_EQ(loaded->pending->since, pending.since);
  EXPECT_EQ(loaded->pending->until, pending.until);
  EXPECT_TRUE(loaded->pending->start);
  EXPECT_EQ(loaded->pending->key, pending.key);
  EXPECT_EQ(loaded->pending->bytes_max, 20);
  ASSERT_EQ(loaded->pending->columns.size(), 2u);
  EXPECT_EQ(loaded->pending->columns[1].name, "tags");
  EXPECT_EQ(loaded->pending->columns[1].type->id(), iceberg::TypeId::list);

  // The members of the specification, as it spells them.
  const Json json = Json::parse(make_local_file_io()->read(path));
  EXPECT_EQ(json["v"], 1);
  EXPECT_EQ(json["continuation"], (Json{{"v", 1}, {"seq", "9007199254740993"}}));
  EXPECT_EQ(json["exportedRowCount"], 12);
  EXPECT_TRUE(json["updatedAt"].is_string());
}

TEST(Watermark, OfTheSpecificationAloneIsRead) {
  const TempFolder folder;
  const std::string path = folder / "x.json";
  replace_file(path,
               R"({"v":1,"continuation":{"v":1,"seq":"7"},"exportedRowCount":3,"updatedAt":"2026-01-01T00:00:00Z"})");
  const auto loaded = load_watermark(path);
  EXPECT_EQ(loaded->seq, 7);
  EXPECT_EQ(loaded->exported_row_count, 3);
  EXPECT_EQ(loaded->exported_bytes, 0);
  EXPECT_FALSE(loaded->pending);
}

TEST(Watermark, MembersOfALaterFirnArePassedOver) {
  const TempFolder folder;
  const std::string path = folder / "x.json";
  replace_file(path,
               R"({"v":1,"x":{},"continuation":{"v":1,"seq":"7","x":1},"stream":"s","lastUnit":{"open":"o","x":1},
          "pending":{"open":"o","since":"7","until":"9","start":false,"rows":2,"x":[1],
                     "limits":{"rows":1,"bytes":1,"x":2},"columns":[{"name":"n","type":"long","x":1}]}})");
  EXPECT_EQ(load_watermark(path)->pending->until, 9);
}

TEST(Watermark, ThatIsDamagedIsNoMissingOne) {
  const TempFolder folder;
  const std::string path = folder / "x.json";
  for (
      const char* text :
      {"", "{", "[]", "{}", R"({"v":1,"continuation":{"v":1}})", R"({"v":1,"continuation":{"v":1,"seq":"1x"}})",
       R"({"v":1,"pending":{"open":"o","since":"5","until":"5","start":true,"rows":0,"limits":{"rows":1,"bytes":1},"columns":[]}})"}) {
    replace_file(path, text);
    EXPECT_EQ(kind_of_load(path), ErrorKind::corrupt) << text;
  }
  replace_file(path, R"({"v":2})");
  EXPECT_EQ(kind_of_load(path), ErrorKind::unsupported);
}

}  // namespace
}  // namespace firn::hyp
