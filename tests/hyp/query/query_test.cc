// What a statement may reach, how it fails, and how it ends.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "hyp/query/query_box.h"
#include "iceberg/commit/commit.h"

namespace firn::hyp {
namespace {

Lines numbered(int64_t count) {
  Lines lines;
  for (int64_t i = 0; i < count; ++i)
    lines.push_back(fmt::format(R"({{"n":{},"s":"some text that is not short {}"}})", i, i * 7919 % count));
  return lines;
}

TEST(Query, NothingOutsideTheCacheIsReached) {
  CacheBox box;
  const Cache cache(box.config);
  const std::string secret = box.folder / "secret.csv";
  const std::string target = box.folder / "target";
  std::ofstream(secret) << "a\n1\n";
  for (const std::string& sql : Lines{fmt::format("select * from read_csv('{}')", secret),
                                      fmt::format("from '{}'", secret),
                                      fmt::format("select * from read_text('{}')", secret),
                                      fmt::format("select * from read_blob('{}')", secret),
                                      fmt::format("select * from glob('{}')", secret),
                                      fmt::format("select * from sniff_csv('{}')", secret),
                                      fmt::format("select * from parquet_scan('{}')", secret),
                                      fmt::format("copy (select 1) to '{}'", target),
                                      fmt::format("explain analyze copy (select 1) to '{}'", target),
                                      fmt::format("attach '{}' as x", target),
                                      fmt::format("export database '{}'", target),
                                      "select getenv('HOME')",
                                      "install httpfs",
                                      "load httpfs",
                                      "from 'https://example.com/x.parquet'",
                                      "set enable_external_access = true",
                                      "set memory_limit = '1GB'",
                                      "reset threads",
                                      "pragma enable_profiling",
                                      "create table x as select 1",
                                      "create macro f() as 1",
                                      "call force_checkpoint()",
                                      "begin",
                                      "use main",
                                      "prepare p as select 1",
                                      "select 1; select 2"}) {
    failure_of(cache, sql);
  }
  EXPECT_FALSE(std::filesystem::exists(target));
}

TEST(Query, ErrorsAreDuckDbsWithThePlaceShown) {
  CacheBox box;
  Cache cache(box.config);
  EXPECT_NE(failure_of(cache, "from nothing").message.find("There is no dataset yet"), std::string::npos);
  ingest(cache, {make_frame("logs", "a", numbered(3))});
  const Failure syntax = failure_of(cache, "select n form logs where");
  EXPECT_EQ(syntax.kind, ErrorKind::invalid_argument);
  EXPECT_NE(syntax.message.find("syntax error"), std::string::npos);
  EXPECT_NE(syntax.message.find("LINE 1: select n form logs where"), std::string::npos) << syntax.message;
  EXPECT_NE(syntax.message.find("^"), std::string::npos);
  EXPECT_NE(failure_of(cache, "select m from logs").message.find("\"m\""), std::string::npos);
  EXPECT_NE(failure_of(cache, "from lgos").message.find("Datasets: logs"), std::string::npos);
  EXPECT_NE(failure_of(cache, "select error('at row ' || n) from logs").message.find("at row"), std::string::npos);
  failure_of(cache, "");
  failure_of(cache, "-- nothing");
}

TEST(Query, NumbersBeyondADoubleAndDeepStatementsRun) {
  CacheBox box;
  Cache cache(box.config);
  ingest(cache, {make_frame("logs", "a", {R"({"d":1.5})", R"({"d":-2.5})"})});
  EXPECT_EQ(json_rows(cache, "select d from logs where d < 1e400 and d > -1e400 order by d"),
            (Lines{R"({"d":-2.5})", R"({"d":1.5})"}));
  EXPECT_EQ(single_value(cache, "select count(*) from logs where d > 1e400 or d = -1e400"), "0");
  EXPECT_EQ(single_value(cache, "select 'Infinity, \"NaN\" -Infinity' from logs where d < 0 and d < 1e999"),
            R"("Infinity, \"NaN\" -Infinity")");
  EXPECT_NE(failure_of(cache, "select 1e400 from x.logs").message.find("datasets have no schemas"), std::string::npos);
  std::string sum = "1";
  for (int i = 0; i < 270; ++i) sum += "+1";
  EXPECT_EQ(single_value(cache, "select count(*) from logs where d < " + sum), "2");
}

TEST(Query, StopsSoonOnceCancelled) {
  CacheBox box;
  Cache cache(box.config);
  ingest(cache, {make_frame("logs", "a", numbered(5000))});
  std::atomic<bool> cancelled{false};
  std::thread canceller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    cancelled = true;
  });
  const auto started = std::chrono::steady_clock::now();
  const Failure failure = failure_of(cache, "select count(*) from logs a, logs b, logs c where a.n + b.n + c.n = 7",
                                     {.cancelled = &cancelled});
  EXPECT_EQ(failure.kind, ErrorKind::cancelled) << failure.message;
  EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::milliseconds(1200));
  canceller.join();
}

TEST(Query, ResultsStreamAndMayBeDropped) {
  CacheBox box;
  Cache cache(box.config);
  ingest(cache, {make_frame("logs", "a", numbered(2000)), make_frame("logs", "b", numbered(2000))});
  // A product that would not fit: its first rows come at once.
  const auto rows =
      run_query(cache, "select * from logs a, logs b, logs c", {.threads = 2, .memory_bytes_max = 200 << 20});
  std::shared_ptr<arrow::RecordBatch> batch;
  for (int i = 0; i < 20; ++i) {
    check(rows->ReadNext(&batch), "read");
    ASSERT_NE(batch, nullptr);
  }
}

TEST(Query, WhatDoesNotFitInMemoryIsSpilledAwayFromTheWorkingDirectory) {
  CacheBox box;
  Cache cache(box.config);
  ingest(cache, {make_frame("logs", "a", numbered(3000))});
  const auto before = std::filesystem::current_path();
  const std::string working = box.folder / "working";
  std::filesystem::create_directory(working);
  std::filesystem::current_path(working);
  // 3 million distinct texts, sorted.
  EXPECT_EQ(
      single_value(cache,
                   "select count(*) from (select a.s || r.range as t, row_number() over (order by a.s || r.range) as k "
                   "from logs a, range(300) r) where t is not null",
                   {.threads = 2, .memory_bytes_max = 60 << 20}),
      "900000");
  EXPECT_TRUE(std::filesystem::is_empty(working));
  std::filesystem::current_path(before);
}

TEST(Query, RowsOfADatasetWithoutColumnsAreCounted) {
  CacheBox box;
  Cache cache(box.config);
  ingest(cache, {make_frame("logs", "s", {"{}", R"({"error":null})"})});
  EXPECT_EQ(single_value(cache, "select count(*) from logs"), "2");
  Spool::open(box.config.cache_root)
      ->append({make_frame("logs", "s", {R"({"tags":[]})"}), make_frame("new", "s", {"{}"})});
  EXPECT_EQ(single_value(cache, "select count(*) from logs"), "3");
  EXPECT_EQ(single_value(cache, "select count(*) from new"), "1");
  EXPECT_EQ(json_rows(cache, "select * from logs").size(), 3u);
  EXPECT_EQ(single_value(cache, "select count(_hyp_no_column) from logs"), "0");
  ingest(cache, {make_frame("logs", "s", {R"({"error":"x"})"})});
  EXPECT_EQ(single_value(cache, "select count(*) from logs"), "4");
  EXPECT_EQ(single_value(cache, "select count(error) from logs"), "1");
}

TEST(Query, AKeyWithANulIsNoColumn) {
  CacheBox box;
  Cache cache(box.config);
  ingest(cache, {make_frame("logs", "s", {R"({"a":1,"n":{"b":1}})"})});
  const Lines bad = {R"({"a\u0000b":2})", R"({"n":{"b\u0000":2}})", R"({"\u0000":1})"};
  EXPECT_EQ(ingest(cache, {make_frame("logs", "s", bad), make_frame("other", "s", {bad[0], bad[2]})}).rejected, 5);
  EXPECT_EQ(json_rows(cache, "select a, n.b from logs"), Lines{R"({"a":1,"b":1})"});
}

// An older version could make such columns, and another engine can.
TEST(Query, ColumnsWhoseNamesDifferOnlyInCaseAreAllThereUnderNamesApart) {
  CacheBox box;
  Cache cache(box.config);
  const PartitionId partition{"logs", "s"};
  ingest(cache, {make_frame("logs", "s", {R"({"id":1,"ID_2":5,"o":{"a":1}})"})});
  {
    auto held = cache.hold(partition);
    std::vector<iceberg::Field> fields = held->table.metadata->schema().fields();
    const auto number = iceberg::parse_primitive_type("long");
    for (iceberg::Field& field : fields) {
      if (field.name != "o") continue;
      std::vector<iceberg::Field> members = field.type->fields();
      members.push_back({101, "A", false, number});
      field.type = iceberg::Type::struct_of(std::move(members));
    }
    fields.push_back({100, "ID", false, number});
    iceberg::evolve_schema(*held->operations, iceberg::Schema(std::move(fields)));
  }
  ingest(cache, {make_frame("logs", "s", {R"({"id":2,"ID":20,"o":{"A":20}})"})});
  Spool::open(box.config.cache_root)->append({make_frame("logs", "s", {R"({"id":3,"ID":30})"})});
  EXPECT_EQ(single_value(cache, "select count(*) from logs"), "3");
  EXPECT_EQ(
      json_rows(cache, "select id, \"ID_2\", \"ID_3\", o.a, o.A_2 from logs order by id"),
      (Lines{R"({"id":1,"ID_2":5,"ID_3":null,"a":1,"A_2":null})", R"({"id":2,"ID_2":null,"ID_3":20,"a":null,"A_2":20})",
             R"({"id":3,"ID_2":null,"ID_3":30,"a":null,"A_2":null})"}));
  EXPECT_EQ(single_value(cache, "select id from logs where \"ID_3\" = 20"), "2");
  EXPECT_EQ(single_value(cache, "select \"ID_3\" from logs where id = 2"), "20");
}

}  // namespace
}  // namespace firn::hyp
