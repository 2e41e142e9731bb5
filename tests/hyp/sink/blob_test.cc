// Objects and claims (P12).
#include "hyp/sink/sink_box.h"

namespace firn::hyp {
namespace {

const PartitionId kWeb = {"logs", "web"};
const Lines kRows = {R"({"flag":true,"list":[1,2],"n":1,"s":"ü \"x\""})", R"({"n":-9223372036854775808})",
                     R"({"s":""})"};

TEST(Blob, EveryFormatReadsBackEqual) {
  SinkBox box;
  box.ingest_lines("logs", "web", kRows);
  struct Case {
    BlobFormat format;
    const char* compression;
    const char* extension;
  };
  int number = 0;
  for (const Case& c : {Case{BlobFormat::parquet, "zstd", ".parquet"}, Case{BlobFormat::parquet, "gzip", ".parquet"},
                        Case{BlobFormat::parquet, "snappy", ".parquet"}, Case{BlobFormat::parquet, "lz4", ".parquet"},
                        Case{BlobFormat::parquet, "brotli", ".parquet"}, Case{BlobFormat::parquet, "none", ".parquet"},
                        Case{BlobFormat::jsonl, "none", ".jsonl"}, Case{BlobFormat::jsonl, "gzip", ".jsonl.gz"},
                        Case{BlobFormat::jsonl, "zstd", ".jsonl.zst"}}) {
    SCOPED_TRACE(fmt::format("{} {}", c.extension, c.compression));
    SinkConfig sink = make_sink(SinkKind::blob, fmt::format("{}/{}", box.out(), ++number), c.format, c.compression);
    sink.name = fmt::format("sink{}", number);
    box.ship_well(sink);
    EXPECT_EQ(blob_rows(sink.path), sorted_rows(kRows));
    const auto objects = files_below(sink.path + "/logs");
    ASSERT_EQ(objects.size(), 1u);
    EXPECT_TRUE(objects[0].ends_with(c.extension)) << objects[0];
  }
}

TEST(Blob, RefusesACompressionThatTheFormatLacks) {
  SinkBox box;
  for (const auto& [format, compression] : {std::pair{BlobFormat::parquet, "deflate"}, {BlobFormat::jsonl, "snappy"}}) {
    try {
      box.ship(make_sink(SinkKind::blob, box.out(), format, compression));
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::config);
    }
  }
}

TEST(Blob, IsNamedByOpenAndRangeAndClaimedByItsStream) {
  SinkBox box;
  SinkConfig sink = make_sink(SinkKind::blob, box.out());
  sink.unit_rows_max = 2;
  box.ingest_lines("logs", "web", kRows);
  box.ship_well(sink);
  Cache cache(box.config);
  const Open open = cache.sequence().opens().at(0);
  const int64_t since = open.from_seq - 1;
  const std::string claims =
      fmt::format("{}/_firn/{}/logs/source=web/{}", box.out(), cache.sequence().cache_id(), open.open_id);
  const std::string first = fmt::format("logs/source=web/{}_{}_{}.parquet", open.open_id, since, since + 2);
  const std::string second = fmt::format("logs/source=web/{}_{}_{}.parquet", open.open_id, since + 2, since + 3);
  EXPECT_EQ(claims_of(box.out()), (std::map<std::string, Json>{{fmt::format("{}/{}.json", claims, since),
                                                                {{"until", std::to_string(since + 2)},
                                                                 {"object", first},
                                                                 {"rows", 2},
                                                                 {"first", std::to_string(since + 1)}}},
                                                               {fmt::format("{}/{}.json", claims, since + 2),
                                                                {{"until", std::to_string(since + 3)},
                                                                 {"object", second},
                                                                 {"rows", 1},
                                                                 {"first", std::to_string(since + 3)}}}}));
  EXPECT_EQ(files_below(box.out() + "/logs"),
            (std::vector<std::string>{box.out() + "/" + first, box.out() + "/" + second}));
}

TEST(Blob, RetryKeepsItsNameAndColumnsWhateverTheConfigurationSaysNow) {
  SinkBox box;
  SinkConfig sink = make_sink(SinkKind::blob, box.out());
  box.ingest_lines("logs", "web", kRows);
  box.ship_well(sink);
  // As a crash between the intent and the object leaves it.
  const std::string path = box.watermark_file(sink, kWeb);
  const Json claim = claims_of(box.out()).begin()->second;
  Cache cache(box.config);
  Watermark crashed = *load_watermark(path);
  PendingUnit pending;
  pending.open_id = crashed.last_unit->open_id;
  pending.since = crashed.last_unit->since.value();
  pending.until = *crashed.seq;
  pending.start = true;
  pending.rows = 3;
  pending.key = claim["object"];
  pending.rows_max = pending.bytes_max = 1000;
  const SequencedReader columns(cache, kWeb, {});
  for (const iceberg::Field& field : columns.schema().fields()) {
    pending.columns.push_back({field.name, field.type});
  }
  crashed.seq.reset();
  crashed.last_unit.reset();
  crashed.exported_row_count = 0;
  crashed.pending = pending;
  save_watermark(path, crashed);
  fs::remove_all(box.out() + "/_firn");
  const std::string object = box.out() + "/" + pending.key;
  const std::string bytes = make_local_file_io()->read(object);
  replace_file(object, "an attempt of another firn");

  box.ingest_lines("logs", "web", {R"({"later":1})"});
  sink.format = BlobFormat::jsonl;
  EXPECT_EQ(box.ship_well(sink).rows(), 4);
  EXPECT_EQ(make_local_file_io()->read(object), bytes) << "the same rows, in the same bytes";
  EXPECT_EQ(blob_rows(box.out()), sorted_rows(kRows + Lines{R"({"later":1})"}));
  EXPECT_EQ(load_watermark(path)->exported_row_count, 4);
}

TEST(Blob, ObjectOfALostRaceIsRemoved) {
  SinkBox box;
  SinkConfig sink = make_sink(SinkKind::blob, box.out());
  box.ingest_lines("logs", "web", kRows);
  box.ship_well(sink);
  const std::string path = box.watermark_file(sink, kWeb);
  const auto before = files_below(box.out());
  fs::remove(path);
  box.ingest_lines("logs", "web", {R"({"n":7})"});
  sink.unit_rows_max = 2;
  box.ship_well(sink);
  EXPECT_EQ(files_below(box.out()).size(), before.size() + 2) << "one object and its claim";
}

TEST(Blob, UnitWhoseRowsAreGoneLeavesAClaimAlone) {
  SinkBox box;
  const SinkConfig sink = make_sink(SinkKind::blob, box.out());
  box.ingest_lines("logs", "web", kRows);
  box.ship_well(sink);
  const auto before = files_below(box.out() + "/logs");
  // An intent whose rows were purged since: numbers of the open that no row has.
  Watermark watermark = *load_watermark(box.watermark_file(sink, kWeb));
  PendingUnit pending;
  pending.open_id = watermark.last_unit->open_id;
  pending.since = *watermark.seq;
  pending.until = *watermark.seq + 3;
  pending.key = "logs/source=web/x.parquet";
  watermark.pending = pending;
  save_watermark(box.watermark_file(sink, kWeb), watermark);
  EXPECT_EQ(box.ship_well(sink).rows(), 0);
  ASSERT_EQ(claims_of(box.out()).size(), 2u);
  Json claim;
  for (const auto& [path, one] : claims_of(box.out())) {
    if (path.ends_with(fmt::format("/{}.json", pending.since))) claim = one;
  }
  EXPECT_EQ(claim, (Json{{"until", std::to_string(pending.until)}, {"object", nullptr}, {"rows", 0}}));
  EXPECT_EQ(files_below(box.out() + "/logs"), before);
  EXPECT_EQ(load_watermark(box.watermark_file(sink, kWeb))->seq, pending.until);
}

}  // namespace
}  // namespace firn::hyp
