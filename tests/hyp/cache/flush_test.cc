#include <atomic>
#include <filesystem>
#include <functional>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/fault_point.h"
#include "base/test_world.h"
#include "base/uri.h"
#include "hyp/cache/cache_box.h"
#include "hyp/cache/layout.h"
#include "hyp/capture/ingest.h"
#include "hyp/capture/spool_format.h"
#include "iceberg/commit/commit.h"
#include "support/captured_log.h"
#include "support/crash.h"

namespace firn::hyp {
namespace {

using iceberg::Type;
using iceberg::TypeId;

iceberg::TypePtr of(TypeId id) { return Type::primitive(id); }

std::map<std::string, std::string> types_of(const iceberg::Schema& schema) {
  std::map<std::string, std::string> types;
  for (const auto& field : schema.fields()) types[field.name] = field.type->to_string();
  return types;
}

std::map<std::string, std::string> column_types(const Cache& cache, const PartitionId& partition) {
  const iceberg::Schema schema = SequencedReader(cache, partition, {}).schema();
  return types_of(schema);
}

TEST(Flush, MovesSpooledRowsIntoTheirPartitionsInSpoolOrder) {
  CacheBox box;
  Cache cache(box.config);
  const auto report =
      ingest(cache, {make_frame("logs", "web", {R"({"n":1,"msg":"a"})", R"({"n":2,"msg":"b"})"}),
                     make_frame("logs", "db/1", {R"({"n":3})"}), make_frame("logs", "web", {R"({"n":4})"})});
  EXPECT_EQ(report.rows, 4);
  EXPECT_EQ(report.partitions, 2);
  EXPECT_EQ(report.commits, 2);
  EXPECT_EQ(report.rejected, 0);
  EXPECT_TRUE(report.problems.empty());
  EXPECT_EQ(cache.datasets(), Lines{"logs"});
  EXPECT_EQ(cache.partitions("logs"), (std::vector<PartitionId>{{"logs", "db/1"}, {"logs", "web"}}));
  const auto web = read_sequenced(cache, {"logs", "web"});
  EXPECT_EQ(web.rows, (Lines{R"({"n":1,"msg":"a"})", R"({"n":2,"msg":"b"})", R"({"n":4,"msg":null})"}));
  EXPECT_TRUE(std::is_sorted(web.after.begin(), web.after.end()));
  EXPECT_EQ(cached_rows(cache, {"logs", "db/1"}), Lines{R"({"n":3})"});
}

TEST(Flush, StampsTheHiddenColumns) {
  CacheBox box;
  Cache cache(box.config);
  const Frame first = make_frame("logs", "web", {R"({"n":1})", R"({"n":1})"});
  const Frame second = make_frame("logs", "web", {R"({"n":2})"});
  ingest(cache, {first, second});
  const auto held = cache.hold({"logs", "web"});
  const auto& metadata = *held->table.metadata;
  const Lines rows = rows_of(*iceberg::scan(metadata, cache.io(), {}), metadata.schema());
  ASSERT_EQ(rows.size(), 3u);
  const Json a = Json::parse(rows[0]), b = Json::parse(rows[1]), c = Json::parse(rows[2]);
  EXPECT_LT(a[kIngestSeqColumn], b[kIngestSeqColumn]);
  EXPECT_LT(b[kIngestSeqColumn], c[kIngestSeqColumn]);
  EXPECT_EQ(a[kRowIdColumn], b[kRowIdColumn]);
  EXPECT_NE(a[kRowIdColumn], c[kRowIdColumn]);
  EXPECT_EQ(a[kRowIdColumn].get<std::string>().size(), 64u);
  EXPECT_EQ(a[kBatchIdColumn], first.batch_id);
  EXPECT_EQ(c[kBatchIdColumn], second.batch_id);
  EXPECT_EQ(metadata.format_version, 3);
  EXPECT_EQ(metadata.property(kMaxSeqProperty, ""), c[kIngestSeqColumn].dump());
  EXPECT_EQ(held->operations->location(), cache.folder({"logs", "web"}) + "/table-1");
}

TEST(Flush, TheCursorNamesTheTableAndRepeatsTheCacheId) {
  CacheBox box;
  Cache cache(box.config);
  ingest(cache, {make_frame("logs", "web", {R"({"n":1})"})});
  const auto cursor = read_cursor(cache.folder({"logs", "web"}));
  ASSERT_TRUE(cursor);
  EXPECT_EQ(cursor->table_dir, "table-1");
  EXPECT_EQ(cursor->cache_id, cache.sequence().cache_id());
}

TEST(Flush, ALineIsEitherARowOrARejectWithItsLineAndReason) {
  CacheBox box;
  Cache cache(box.config);
  const Frame frame = make_frame(
      "logs", "web", {R"({"n":1})", "{oops", "", R"({"n":"x"})", R"({"n":2,"n":3})", "\xff{}", R"({"n":4})"}, 11);
  const auto report = ingest(cache, {frame});
  EXPECT_EQ(report.rows, 2);
  EXPECT_EQ(report.rejected, 4);
  EXPECT_EQ(report.rejected_by_dataset.at("logs"), 4);
  ASSERT_EQ(report.first_rejected.size(), 4u);
  EXPECT_EQ(report.first_rejected[1].column, "n");
  EXPECT_EQ(cached_rows(cache, {"logs", "web"}), (Lines{R"({"n":1})", R"({"n":4})"}));
  const auto rejects = rejects_of(box, "logs");
  ASSERT_EQ(rejects.size(), 4u);
  EXPECT_EQ(rejects[0]["text"], "{oops");
  EXPECT_EQ(rejects[0]["line"], 12);
  EXPECT_EQ(rejects[1]["line"], 14);
  EXPECT_EQ(rejects[1]["column"], "n");
  EXPECT_EQ(rejects[1]["source"], "web");
  EXPECT_EQ(rejects[2]["line"], 15);
  EXPECT_EQ(rejects[3]["line"], 16);
  EXPECT_EQ(rejects[3]["textBase64"], "/3t9");
  for (const Json& reject : rejects) EXPECT_FALSE(reject["reason"].get<std::string>().empty());
}

TEST(Flush, ARejectOfWhichOnlyTheBeginningWasKeptSaysSo) {
  CacheBox box;
  box.declare("logs").row_bytes_max = 100;
  Cache cache(box.config);
  const auto spool = Spool::open(box.config.cache_root);
  CaptureOptions options;
  options.dataset = "logs";
  options.row_bytes_max = 100;
  const std::string far_too_long = "{\"n\":\"" + std::string(3 << 20, 'x') + "\"}";
  const std::string too_long = "{\"n\":\"" + std::string(100, 'y') + "\"}";
  replace_file(box.folder / "in", "{\"n\":1}\n" + far_too_long + "\n" + too_long + "\n{\"n\":2}\n");
  ingest_file(*spool, box.folder / "in", options);
  EXPECT_EQ(flush(cache, *spool).rows, 2);
  const auto rejects = rejects_of(box, "logs");
  ASSERT_EQ(rejects.size(), 2U);
  EXPECT_EQ(rejects[0]["text"], far_too_long.substr(0, 101));
  EXPECT_EQ(rejects[0]["cut"], true);
  EXPECT_EQ(rejects[0]["lineBytes"], far_too_long.size());
  EXPECT_EQ(rejects[0]["line"], 2);
  EXPECT_EQ(rejects[1]["text"], too_long);
  EXPECT_FALSE(rejects[1].contains("cut"));
}

TEST(Flush, APrimaryTimestampThatIsNoTimeIsWarnedOfOnceADataset) {
  CacheBox box;
  for (const char* dataset : {"timed", "nanos", "numbers"}) box.declare(dataset).primary_timestamp_column = "at";
  Cache cache(box.config);
  const CapturedLog log;
  for (int i = 0; i < 2; ++i) {
    ingest(cache, {make_frame("timed", "a", {R"({"at":"2024-02-29T12:00:00Z"})", R"({"n":1})"}),
                   make_frame("nanos", "a", {R"({"at":"2024-02-29T12:00:00.123456789Z"})"}),
                   make_frame("nanos", "b", {R"({"at":"2024-02-29T12:00:00.123456789Z"})"}),
                   make_frame("numbers", "a", {R"({"at":1709208000})"})});
  }
  const std::string text = log.text();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2) << text;
  for (const char* words : {"dataset nanos: primaryTimestampColumn at is string", "timestamptz_ns",
                            "dataset numbers: primaryTimestampColumn at is long"}) {
    EXPECT_NE(text.find(words), std::string::npos) << text;
  }
}

TEST(Flush, OnlyRejectsMakeNoTable) {
  CacheBox box;
  Cache cache(box.config);
  const auto report = ingest(cache, {make_frame("logs", "web", {"1", "2"})});
  EXPECT_EQ(report.rejected, 2);
  EXPECT_TRUE(cache.partitions("logs").empty());
  EXPECT_EQ(ingest(cache, {}).rejected, 0);
  EXPECT_EQ(rejects_of(box, "logs").size(), 2u);
}

TEST(Flush, NewColumnsWidenTheTableAndKeepOldRows) {
  CacheBox box;
  Cache cache(box.config);
  ingest(cache, {make_frame("logs", "web", {R"({"n":1})"})});
  const auto report = ingest(cache, {make_frame("logs", "web", {R"({"n":2})", R"({"n":3,"tag":"x","deep":{"a":7}})"})});
  EXPECT_EQ(report.rows, 2);
  ingest(cache, {make_frame("logs", "web", {R"({"n":4,"deep":{"b":true}})"})});
  EXPECT_EQ(cached_rows(cache, {"logs", "web"}),
            (Lines{R"({"deep":{"a":7},"n":3,"tag":"x"})", R"({"deep":{"b":true},"n":4})", R"({"n":1})", R"({"n":2})"}));
  const auto types = column_types(cache, {"logs", "web"});
  EXPECT_EQ(types.at("n"), "long");
  EXPECT_EQ(types.at("tag"), "string");
  EXPECT_EQ(types.size(), 3u);
}

TEST(Flush, ALineWhoseColumnHasTheFullNameOfAnotherIsARejectInEveryPartition) {
  CacheBox box;
  Cache cache(box.config);
  EXPECT_EQ(ingest(cache, {make_frame("logs", "web", {R"({"a":{"b":1}})", R"({"a.b":2})", R"({"n":3})"})}).rejected, 1);
  EXPECT_EQ(ingest(cache, {make_frame("logs", "web", {R"({"a.b":4})", R"({"a.c":5})"})}).rejected, 1);
  EXPECT_EQ(ingest(cache, {make_frame("logs", "other", {R"({"a":{"c":6}})", R"({"a.b":null})"})}).rejected, 1);
  EXPECT_EQ(cached_rows(cache, {"logs", "web"}), (Lines{R"({"a":{"b":1}})", R"({"a.c":5})", R"({"n":3})"}));
  const auto rejects = rejects_of(box, "logs");
  ASSERT_EQ(rejects.size(), 3u);
  EXPECT_EQ(rejects[0]["text"], R"({"a.b":2})");
  EXPECT_EQ(rejects[0]["column"], "a.b");
  EXPECT_EQ(rejects[2]["text"], R"({"a":{"c":6}})");
}

TEST(Flush, TheFirstSchemaComesFromAllLinesHoweverLateTheyAre) {
  CacheBox box;
  Cache cache(box.config);
  const std::string padding(400'000, 'x');
  std::vector<Frame> frames;
  for (int i = 0; i < 8; ++i) {
    frames.push_back(make_frame("logs", "web", {fmt::format(R"({{"n":{},"pad":"{}"}})", i, padding)}));
  }
  frames.push_back(make_frame("logs", "web", {R"({"n":0.5,"late":true})"}));
  const auto report = ingest(cache, frames);
  EXPECT_EQ(report.rows, 9);
  EXPECT_EQ(report.rejected, 0);
  const auto types = column_types(cache, {"logs", "web"});
  EXPECT_EQ(types.at("n"), "double");
  EXPECT_EQ(types.at("late"), "boolean");
}

TEST(Flush, ADeclaredSchemaTakesNoOtherColumns) {
  CacheBox box;
  DatasetConfig& dataset = box.declare("typed");
  dataset.schema = iceberg::Schema({{1, "id", true, of(TypeId::int_)},
                                    {2, "at", false, of(TypeId::timestamptz)},
                                    {3, "nothing", false, of(TypeId::unknown)}});
  dataset.allow_new_columns = false;
  Cache cache(box.config);
  const auto report =
      ingest(cache, {make_frame("typed", "s",
                                {R"({"id":1,"at":"2024-01-02T03:04:05Z"})", R"({"id":2,"more":1})", R"({"at":null})",
                                 R"({"id":3,"nothing":null})", R"({"id":4,"nothing":5})", R"({"id":5,"more":null})"})});
  EXPECT_EQ(report.rows, 3);
  EXPECT_EQ(rejected_texts(box, "typed"), (Lines{R"({"at":null})", R"({"id":2,"more":1})", R"({"id":4,"nothing":5})"}));
  EXPECT_EQ(column_types(cache, {"typed", "s"}),
            (std::map<std::string, std::string>{{"at", "timestamptz"}, {"id", "int"}, {"nothing", "unknown"}}));
  EXPECT_EQ(cached_rows(cache, {"typed", "s"}).size(), 3u);
}

TEST(Flush, ADeclarationThatGrowsWidensTheTable) {
  CacheBox box;
  DatasetConfig& dataset = box.declare("typed");
  dataset.schema = iceberg::Schema({{1, "id", false, of(TypeId::int_)}});
  dataset.allow_new_columns = false;
  {
    Cache cache(box.config);
    ingest(cache, {make_frame("typed", "s", {R"({"id":1})", R"({"id":3000000000})"})});
  }
  dataset.schema = iceberg::Schema({{1, "id", false, of(TypeId::long_)}, {2, "more", false, of(TypeId::string)}});
  Cache cache(box.config);
  ingest(cache, {make_frame("typed", "s", {R"({"id":3000000001,"more":"x"})"})});
  EXPECT_EQ(cached_rows(cache, {"typed", "s"}), (Lines{R"({"id":1})", R"({"id":3000000001,"more":"x"})"}));
  EXPECT_EQ(rejected_texts(box, "typed"), Lines{R"({"id":3000000000})"});
}

TEST(Flush, AColumnHasOneTypeInAllPartitionsOfADataset) {
  CacheBox box;
  Cache cache(box.config);
  ingest(cache, {make_frame("logs", "a", {R"({"n":1})"}), make_frame("logs", "b", {R"({"m":1})"})});
  const auto report = ingest(cache, {make_frame("logs", "b", {R"({"n":"text"})", R"({"n":2})"}),
                                     make_frame("logs", "c", {R"({"n":"text"})", R"({"n":3})"})});
  EXPECT_EQ(report.rejected, 2);
  EXPECT_EQ(column_types(cache, {"logs", "b"}).at("n"), "long");
  EXPECT_EQ(column_types(cache, {"logs", "c"}).at("n"), "long");
  EXPECT_EQ(types_of(cache.dataset_schema("logs")), (std::map<std::string, std::string>{{"m", "long"}, {"n", "long"}}));
}

TEST(Flush, TheSourceColumnChoosesThePartition) {
  CacheBox box;
  box.declare("logs").source_column = "host";
  Cache cache(box.config);
  const auto report =
      ingest(cache, {make_frame("logs", "here",
                                {R"({"host":"a","n":1})", R"({"host":"b","n":2})", R"({"host":"a","n":3})",
                                 R"({"n":4})", R"({"host":7})", R"({"host":null,"n":5})", "bad"})});
  EXPECT_EQ(report.rows, 5);
  EXPECT_EQ(report.rejected, 2);
  EXPECT_EQ(read_sequenced(cache, {"logs", "a"}).rows.size(), 2u);
  EXPECT_EQ(cached_rows(cache, {"logs", "b"}), Lines{R"({"host":"b","n":2})"});
  EXPECT_EQ(cached_rows(cache, {"logs", "here"}), (Lines{R"({"n":4})", R"({"n":5})"}));
  const auto rejects = rejects_of(box, "logs");
  ASSERT_EQ(rejects.size(), 2u);
  EXPECT_EQ(rejects[0]["line"], 5);
  EXPECT_EQ(rejects[1]["line"], 7);
}

TEST(Flush, ALargeRangeIsCutAndEveryPartIsItsOwnCommit) {
  CacheBox box;
  Cache cache(box.config);
  const auto spool = Spool::open(box.config.cache_root);
  std::vector<Frame> frames;
  for (int i = 0; i < 10; ++i) frames.push_back(make_frame("logs", "web", {fmt::format(R"({{"n":{}}})", i)}));
  spool->append(frames);
  const auto report = flush(cache, *spool, {.range_bytes_max = 20});
  EXPECT_EQ(report.rows, 10);
  EXPECT_EQ(report.commits, 4);  // three frames of 8 bytes each, and the last one
  EXPECT_EQ(report.partitions, 1);
  EXPECT_EQ(spool->progress(), spool->end());
}

TEST(Flush, GivesWayBeforeEachPieceOfItsWork) {
  constexpr int kPieces = 3;
  CacheBox box;
  Cache cache(box.config);
  const auto spool = Spool::open(box.config.cache_root);
  const std::string line = fmt::format(R"({{"n":1,"text":"{}"}})", std::string(700 << 10, 'x'));
  for (int i = 0; i < kPieces; ++i) spool->append({make_frame("logs", "web", {line})});
  std::atomic<int> times{0};
  const auto report = flush(cache, *spool, {.give_way = [&] { ++times; }});
  EXPECT_EQ(report.rows, kPieces);
  EXPECT_EQ(times, 2 * kPieces);  // before it is parsed, and before it is written
}

TEST(Flush, APartitionThatFailsHoldsTheSpoolBackAndNoOther) {
  CacheBox box;
  Cache cache(box.config);
  ingest(cache, {make_frame("logs", "a", {R"({"n":1})"}), make_frame("logs", "b", {R"({"n":1})"})});
  const std::string cursor = cache.folder({"logs", "a"}) + "/cursor.json";
  const std::string text = cache.io()->read(cursor);
  replace_file(cursor, "{");
  const auto spool = Spool::open(box.config.cache_root);
  spool->append({make_frame("logs", "a", {R"({"n":2})", "bad"}), make_frame("logs", "b", {R"({"n":2})"})});
  const auto begin = spool->progress();
  for (int i = 0; i < 2; ++i) {
    const auto report = flush(cache, *spool);
    ASSERT_EQ(report.problems.size(), 1u);
    EXPECT_NE(report.problems[0].find("datasets/logs/source=a"), std::string::npos);
    EXPECT_EQ(spool->progress(), begin);
    EXPECT_EQ(read_sequenced(cache, {"logs", "b"}).rows.size(), 2u);
  }
  // A lost cursor is no new partition: its rows would be hidden.
  remove_file(cursor);
  EXPECT_EQ(flush(cache, *spool).problems.size(), 1u);
  replace_file(cursor, text);
  const auto report = flush(cache, *spool);
  EXPECT_TRUE(report.problems.empty());
  EXPECT_EQ(report.rows, 1);
  EXPECT_EQ(read_sequenced(cache, {"logs", "a"}).rows.size(), 2u);
  EXPECT_EQ(read_sequenced(cache, {"logs", "b"}).rows.size(), 2u);
  EXPECT_EQ(rejects_of(box, "logs").size(), 1u);
}

TEST(Flush, CachePartitioningSplitsTheFiles) {
  CacheBox box;
  DatasetConfig& dataset = box.declare("logs");
  dataset.primary_timestamp_column = "at";
  dataset.cache_partitioning = {{"at", "day"}, {"level", "identity"}};
  Cache cache(box.config);
  ingest(cache, {make_frame("logs", "s",
                            {R"({"at":"2024-01-01T00:00:00Z","n":1})", R"({"at":"2024-01-02T00:00:00Z","n":2})"})});
  ingest(cache, {make_frame("logs", "s", {R"({"at":"2024-01-02T10:00:00Z","n":3,"level":"info"})"})});
  const auto held = cache.hold({"logs", "s"});
  EXPECT_EQ(iceberg::live_files(*held->table.metadata, *held->table.metadata->current_snapshot(), *cache.io()).size(),
            3u);
  const auto read = read_sequenced(cache, {"logs", "s"}, {.columns = {"n"}});
  EXPECT_EQ(read.rows, (Lines{R"({"n":1})", R"({"n":2})", R"({"n":3})"}));
}

TEST(Flush, AnImpossibleCachePartitioningIsAProblemThatNamesTheColumn) {
  CacheBox box;
  box.declare("logs").cache_partitioning = {{"n", "day"}};
  Cache cache(box.config);
  const auto report = ingest(cache, {make_frame("logs", "s", {R"({"n":true})"})});
  ASSERT_EQ(report.problems.size(), 1u);
  EXPECT_NE(report.problems[0].find("n"), std::string::npos);
}

// The flush dies at its first pass of `point`.
void flush_killed_at(const CacheBox& box, const std::string& point) {
  const auto work = [&box] {
    Cache cache(box.config);
    flush(cache, *Spool::open(box.config.cache_root));
  };
  EXPECT_EQ(run_in_child([&] {
              set_fault_handler([&](const char* name) {
                if (name == point) ::_exit(137);
              });
              work();
            }),
            137);
}

TEST(Flush, ADecidedRejectStaysOneThoughTheSchemaChangesMeanwhile) {
  CacheBox box;
  DatasetConfig& dataset = box.declare("typed");
  dataset.schema = iceberg::Schema({{1, "id", false, of(TypeId::int_)}});
  dataset.allow_new_columns = false;
  {
    Cache cache(box.config);
    ingest(cache, {make_frame("typed", "s", {R"({"id":1})"})});
    Spool::open(box.config.cache_root)->append({make_frame("typed", "s", {R"({"id":3000000000})", R"({"id":2})"})});
  }
  flush_killed_at(box, "rejects.decided");
  Cache cache(box.config);
  {
    const auto held = cache.hold({"typed", "s"});
    iceberg::evolve_schema(*held->operations, iceberg::Schema({{1, "id", false, of(TypeId::long_)}}));
  }
  const auto report = ingest(cache, {make_frame("typed", "s", {R"({"id":3000000001})"})});
  EXPECT_EQ(report.rows, 2);
  EXPECT_EQ(cached_rows(cache, {"typed", "s"}), (Lines{R"({"id":1})", R"({"id":2})", R"({"id":3000000001})"}));
  EXPECT_EQ(rejected_texts(box, "typed"), Lines{R"({"id":3000000000})"});
}

TEST(Flush, RowsKeepTheirPartitionWhenTheSourceColumnChangesHalfWay) {
  CacheBox box;
  DatasetConfig& dataset = box.declare("logs");
  dataset.source_column = "host";
  {
    Cache cache(box.config);
    Spool::open(box.config.cache_root)->append({make_frame("logs", "here", {R"({"host":"a"})", R"({"host":"b"})"})});
  }
  flush_killed_at(box, "flush.committed");  // a has its row, b has not
  dataset.source_column = "";
  Cache cache(box.config);
  ingest(cache, {});
  ingest(cache, {make_frame("logs", "here", {R"({"host":"c"})"})});
  EXPECT_EQ(cached_rows(cache, {"logs", "a"}).size(), 1u);
  EXPECT_EQ(cached_rows(cache, {"logs", "b"}).size(), 1u);
  EXPECT_EQ(cached_rows(cache, {"logs", "here"}), Lines{R"({"host":"c"})"});
}

TEST(Flush, ATornTailOfTheRejectsFileIsCut) {
  CacheBox box;
  Cache cache(box.config);
  ingest(cache, {make_frame("logs", "s", {"bad 1"})});
  {
    AppendFile file = AppendFile::open(box.rejects_path("logs"));
    file.append("{\"spool\":");
    file.sync();
  }
  ingest(cache, {make_frame("logs", "s", {"bad 2"})});
  EXPECT_EQ(rejected_texts(box, "logs"), (Lines{"bad 1", "bad 2"}));
}

// P6.3: an earlier flush worked on more frames at once, and decided a line before it failed.
TEST(Flush, ARejectDecidedAheadOfTheProgressIsThereOnce) {
  CacheBox box;
  Cache cache(box.config);
  const auto spool = Spool::open(cache.config().cache_root);
  spool->append({make_frame("logs", "a", {R"({"n":1})"})});
  spool->append({make_frame("logs", "b", {R"({"n":2})", "bad"})});
  set_fault_handler([](const char* name) {
    if (std::string_view(name) == "flush.commit") fail(ErrorKind::io, "the disk is full");
  });
  EXPECT_EQ(flush(cache, *spool).problems.size(), 2u);
  set_fault_handler(nullptr);
  const FlushReport report = flush(cache, *spool, {.range_bytes_max = 1});
  EXPECT_EQ(report.rows, 2);
  EXPECT_EQ(report.rejected, 0) << "it was told by the first flush";
  EXPECT_EQ(rejected_texts(box, "logs"), Lines{"bad"});
}

TEST(Flush, ALostSequenceFileIsRebuiltFromTheTables) {
  CacheBox box;
  std::vector<Open> opens;
  std::string cache_id;
  for (int i = 0; i < 3; ++i) {
    Cache cache(box.config);
    ingest(cache, {make_frame("logs", "s", {R"({"n":1})"})});
    opens = cache.sequence().opens();
    cache_id = cache.sequence().cache_id();
  }
  ASSERT_EQ(opens.size(), 3u);
  remove_file(box.config.cache_root + "/_hyp_ingest_seq.json");
  Cache cache(box.config);
  EXPECT_EQ(cache.sequence().cache_id(), cache_id);
  EXPECT_EQ(cache.sequence().opens(), opens);
  const int64_t highest = SequencedReader(cache, {"logs", "s"}, {}).max_seq();
  EXPECT_EQ(highest, 2049);
  EXPECT_EQ(cache.sequence().reserve(1, 0), 2050);
}

TEST(Flush, WhateverBecomesOfTheSequenceFileAFollowerMissesNoRow) {
  const auto path_of = [](const CacheBox& box) { return box.config.cache_root + "/_hyp_ingest_seq.json"; };
  const std::vector<std::pair<std::string, std::function<void(const std::string& path, const std::string& older)>>>
      damages = {{"missing", [](const std::string& path, const std::string&) { remove_file(path); }},
                 {"truncated", [](const std::string& path,
                                  const std::string& older) { replace_file(path, older.substr(0, older.size() / 2)); }},
                 {"empty", [](const std::string& path, const std::string&) { replace_file(path, ""); }},
                 {"older", [](const std::string& path, const std::string& older) { replace_file(path, older); }}};
  for (const auto& [name, damage] : damages) {
    for (const bool is_running : {false, true}) {
      SCOPED_TRACE(name + (is_running ? ", under a running process" : ""));
      CacheBox box;
      std::optional<Cache> cache(box.config);
      cache->sequence().cache_id();
      const std::string older = make_local_file_io()->read(path_of(box));
      ingest(*cache, {make_frame("logs", "s", {R"({"n":1})", R"({"n":2})"})});
      const auto before = read_sequenced(*cache, {"logs", "s"});
      const std::string cache_id = cache->sequence().cache_id();
      damage(path_of(box), older);
      if (!is_running) cache.emplace(box.config);
      ingest(*cache, {make_frame("logs", "s", {R"({"n":3})"}), make_frame("logs", "new", {R"({"n":4})"})});
      EXPECT_EQ(read_sequenced(*cache, {"logs", "s"}, {.since_exclusive = before.after.back()}).rows,
                Lines{R"({"n":3})"});
      EXPECT_EQ(cache->sequence().cache_id(), cache_id);
      const auto file = read_sequence_file(box.config.cache_root);
      ASSERT_TRUE(file);
      EXPECT_EQ(file->cache_id, cache_id);
      EXPECT_GT(file->next_seq, SequencedReader(*cache, {"logs", "new"}, {}).max_seq());
      EXPECT_GT(SequencedReader(*cache, {"logs", "new"}, {}).max_seq(), before.after.back());
    }
  }
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST(Flush, ACacheThatWasMovedTakesRowsWhereItLies) {
  CacheBox box;
  {
    Cache cache(box.config);
    ingest(cache, {make_frame("logs", "s", {R"({"n":1})"})});
  }
  rename_file(box.config.cache_root, box.folder / "moved");
  box.config.cache_root = box.folder / "moved";
  Cache cache(box.config);
  ingest(cache, {make_frame("logs", "s", {R"({"n":2})"})});
  EXPECT_EQ(cached_rows(cache, {"logs", "s"}), (Lines{R"({"n":1})", R"({"n":2})"}));
  EXPECT_FALSE(std::filesystem::exists(box.folder / "cache"));
}

// A backup that copied the spool before the tables, or a progress.json that was lost.
TEST(Flush, ASpoolOlderThanTheTablesLosesNoRow) {
  for (const bool is_restored : {true, false}) {
    CacheBox box;
    Cache cache(box.config);
    const std::string spool = box.config.cache_root + "/spool";
    ingest(cache, {make_frame("logs", "s", {R"({"n":1})"})});
    std::filesystem::copy(spool, box.folder / "backup", std::filesystem::copy_options::recursive);
    for (int n = 2; n <= 4; ++n) ingest(cache, {make_frame("logs", "s", {fmt::format(R"({{"n":{}}})", n)})});
    if (is_restored) {
      std::filesystem::remove_all(spool);
      std::filesystem::rename(box.folder / "backup", spool);
    } else {
      std::filesystem::remove(list_spools(box.config.cache_root).at(0) + "/progress.json");
    }
    for (int n = 5; n <= 7; ++n) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // no restart is quicker
      EXPECT_EQ(ingest(cache, {make_frame("logs", "s", {fmt::format(R"({{"n":{}}})", n)})}).rows, 1);
    }
    EXPECT_EQ(cached_rows(cache, {"logs", "s"}).size(), 7u);
  }
}

// The same under a clock that is behind: the new row's segment has a number below the table's marker, as the old ones.
TEST(Flush, ARowThatWasRefusedForItsOldSpoolIsNotDroppedOnceTheClockIsRight) {
  CacheBox box;
  Cache cache(box.config);
  const PartitionId partition{"logs", "s"};
  const std::string spools = box.config.cache_root + "/spool";
  ingest(cache, {make_frame("logs", "s", {R"({"n":1})"})});
  std::filesystem::copy(spools, box.folder / "backup", std::filesystem::copy_options::recursive);
  const int64_t now = now_ms();
  set_clock_ms(now + 60'000);
  ingest(cache, {make_frame("logs", "s", {R"({"n":2})"})});
  std::filesystem::remove_all(spools);
  std::filesystem::rename(box.folder / "backup", spools);

  set_clock_ms(now + 30'000);
  EXPECT_EQ(ingest(cache, {make_frame("logs", "s", {R"({"n":3})"})}).problems.size(), 1u);
  const std::vector<int64_t> refused = list_segments(list_spools(box.config.cache_root).at(0));
  set_clock_ms(now + 90'000);
  for (const int n : {4, 5}) {
    const FlushReport report = ingest(cache, {make_frame("logs", "s", {fmt::format(R"({{"n":{}}})", n)})});
    ASSERT_EQ(report.problems.size(), 1u);
    EXPECT_NE(report.problems[0].find("the spool is older than the table"), std::string::npos) << report.problems[0];
  }
  EXPECT_EQ(cached_rows(cache, partition), (Lines{R"({"n":1})", R"({"n":2})"}));

  // As the error says.
  for (const int64_t segment : refused) {
    std::filesystem::resize_file(segment_path(list_spools(box.config.cache_root).at(0), segment), 0);
  }
  ingest(cache, {});
  EXPECT_EQ(cached_rows(cache, partition), (Lines{R"({"n":1})", R"({"n":2})", R"({"n":4})", R"({"n":5})"}));
  set_clock_ms(std::nullopt);
}

TEST(Flush, LostNewestMetadataIsAnErrorAndRowsStaySpooled) {
  CacheBox box;
  const PartitionId partition{"logs", "s"};
  Cache cache(box.config);
  for (int n = 1; n <= 3; ++n) ingest(cache, {make_frame("logs", "s", {fmt::format(R"({{"n":{}}})", n)})});
  const std::string newest = cache.hold(partition)->table.metadata_path;
  rename_file(newest, box.folder / "kept");
  for (const bool is_open : {true, false}) {
    Cache other(box.config);
    EXPECT_THROW((is_open ? cache : other).hold(partition), Error);
  }
  const FlushReport report = ingest(cache, {make_frame("logs", "s", {R"({"n":4})"})});
  ASSERT_EQ(report.problems.size(), 1u);
  EXPECT_NE(report.problems[0].find(newest), std::string::npos) << report.problems[0];
  rename_file(box.folder / "kept", newest);
  ingest(cache, {});
  EXPECT_EQ(cached_rows(cache, partition).size(), 4u);
}

TEST(Flush, ALostCursorIsAnErrorAndRowsStaySpooled) {
  CacheBox box;
  const PartitionId partition{"logs", "s"};
  Cache cache(box.config);
  ingest(cache, {make_frame("logs", "s", {R"({"n":1})"})});
  const std::string cursor = cache.folder(partition) + "/cursor.json";
  rename_file(cursor, box.folder / "kept");
  EXPECT_EQ(cache.partitions("logs"), std::vector{partition});
  EXPECT_THROW(cached_rows(cache, partition), Error);
  EXPECT_EQ(ingest(cache, {make_frame("logs", "s", {R"({"n":2})"})}).problems.size(), 1u);
  rename_file(box.folder / "kept", cursor);
  ingest(cache, {});
  EXPECT_EQ(cached_rows(cache, partition), (Lines{R"({"n":1})", R"({"n":2})"}));
}

TEST(Flush, AFailedOneLeavesNoDataFile) {
  for (const bool is_new : {true, false}) {
    CacheBox box;
    Cache cache(box.config);
    if (!is_new) ingest(cache, {make_frame("logs", "s", {R"({"n":1})"})});
    const auto data_files = [&] {
      const auto names = names_in(cache.folder({"logs", "s"}));
      return std::count_if(names.begin(), names.end(),
                           [](const std::string& name) { return name.ends_with(".parquet"); });
    };
    for (int i = 0; i < 2; ++i) {
      set_fault_handler([](const char* name) {
        if (std::string_view(name) == "flush.commit") throw Error(ErrorKind::io, "the disk is full");
      });
      EXPECT_EQ(ingest(cache, {make_frame("logs", "s", {R"({"n":2})"})}).problems.size(), 1u);
      set_fault_handler(nullptr);
      EXPECT_EQ(data_files(), is_new ? 0 : 1);
    }
    EXPECT_EQ(ingest(cache, {}).rows, 2);
  }
}

TEST(Flush, TheNextOneRemovesWhatAKilledOneLeftUnfinished) {
  CacheBox box;
  const PartitionId partition{"logs", "s"};
  {
    Cache cache(box.config);
    ingest(cache, {make_frame("logs", "s", {R"({"n":1})"})});
    const std::string table = cache.hold(partition)->operations->location();
    for (const std::string& path :
         {cache.folder(partition) + "/.cursor.json.tmp-1", table + "/data/.a.parquet.tmp-2",
          table + "/data/p=1/.b.parquet.tmp-3", table + "/metadata/.v3.metadata.json.tmp-4"}) {
      replace_file(path, "cut sho");
    }
  }
  Cache cache(box.config);
  ingest(cache, {make_frame("logs", "s", {R"({"n":2})"})});
  for (const std::string& name : names_in(cache.folder(partition)))
    EXPECT_EQ(name.find(".tmp-"), std::string::npos) << name;
  EXPECT_EQ(cached_rows(cache, partition).size(), 2u);
}

}  // namespace
}  // namespace firn::hyp
