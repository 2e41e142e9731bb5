// One statement reads one cut (P13.1).
#include <atomic>
#include <fstream>
#include <thread>

#include "hyp/query/query_box.h"

namespace firn::hyp {
namespace {

Lines numbered(int64_t begin, int64_t end) {
  Lines lines;
  for (int64_t i = begin; i < end; ++i) lines.push_back(fmt::format(R"({{"n":{}}})", i));
  return lines;
}

TEST(Cut, SpooledRowsAreReadWithThoseOfTheTables) {
  CacheBox box;
  Cache cache(box.config);
  ingest(cache, {make_frame("logs", "a", numbered(0, 3)), make_frame("logs", "b", numbered(3, 5))});
  const auto spool = Spool::open(cache.config().cache_root);
  spool->append({make_frame("logs", "a", numbered(5, 7)), make_frame("logs", "new", numbered(7, 8))});
  EXPECT_EQ(json_rows(cache, "select n from logs order by n"), numbered(0, 8));
  flush(cache, *spool);
  EXPECT_EQ(json_rows(cache, "select n from logs order by n"), numbered(0, 8));
}

TEST(Cut, ADatasetMayBeSpooledOnlyOrDeclaredOnly) {
  CacheBox box;
  box.declare("empty").schema = iceberg::Schema({{1, "x", true, iceberg::Type::primitive(iceberg::TypeId::double_)}});
  Cache cache(box.config);
  const auto spool = Spool::open(cache.config().cache_root);
  spool->append({make_frame("fresh", "a", {R"({"n":1,"s":{"t":"x"}})", R"({"u":[2.5]})"})});
  EXPECT_EQ(json_rows(cache, "from fresh"),
            (Lines{R"({"n":1,"s":{"t":"x"},"u":null})", R"({"n":null,"s":null,"u":[2.5]})"}));
  EXPECT_EQ(json_rows(cache, "from empty"), Lines{});
  EXPECT_EQ(text_result(cache, "from empty", OutputFormat::csv), "x\n");
}

TEST(Cut, ColumnsOfSpooledRowsAloneAreNullElsewhere) {
  CacheBox box;
  Cache cache(box.config);
  ingest(cache, {make_frame("logs", "a", {R"({"n":1})"}), make_frame("logs", "b", {R"({"m":2})"})});
  const auto spool = Spool::open(cache.config().cache_root);
  spool->append({make_frame("logs", "a", {R"({"n":3,"late":true})"})});
  EXPECT_EQ(
      sorted(json_rows(cache, "select n, m, late from logs")),
      (Lines{R"({"n":1,"m":null,"late":null})", R"({"n":3,"m":null,"late":true})", R"({"n":null,"m":2,"late":null})"}));
  EXPECT_EQ(single_value(cache, "select count(*) from logs where late is null"), "2");
}

TEST(Cut, RejectsAreNoRowsBeforeTheFlushEither) {
  CacheBox box;
  DatasetConfig& strict = box.declare("strict");
  strict.schema = iceberg::Schema({{1, "n", true, iceberg::Type::primitive(iceberg::TypeId::long_)},
                                   {2, "s", false, iceberg::Type::primitive(iceberg::TypeId::string)}});
  strict.allow_new_columns = false;
  Cache cache(box.config);
  const auto spool = Spool::open(cache.config().cache_root);
  spool->append({make_frame(
      "strict", "a", {R"({"n":1})", R"({"s":"no n"})", R"({"n":"x"})", R"({"n":2,"other":1})", "{", R"({"n":3})"})});
  const Lines expected = {R"({"n":1})", R"({"n":3})"};
  EXPECT_EQ(json_rows(cache, "select n from strict order by n"), expected);
  EXPECT_EQ(single_value(cache, "select count(*) from strict"), "2");
  flush(cache, *spool);
  EXPECT_EQ(json_rows(cache, "select n from strict order by n"), expected);
}

TEST(Cut, AStatementKeepsItsRowsWhateverHappensMeanwhile) {
  CacheBox box;
  Cache cache(box.config);
  const auto spool = Spool::open(cache.config().cache_root);
  spool->append({make_frame("logs", "a", numbered(0, 30'000))});
  const auto rows = run_query(cache, "select n from logs", {.threads = 1});
  spool->append({make_frame("logs", "a", numbered(30'000, 30'010))});
  flush(cache, *spool);
  int64_t count = 0;
  for (std::shared_ptr<arrow::RecordBatch> batch;; count += batch->num_rows()) {
    check(rows->ReadNext(&batch), "read");
    if (!batch) break;
  }
  EXPECT_EQ(count, 30'000);
}

TEST(Cut, EveryRowIsCountedOnceWhileItIsFlushed) {
  CacheBox box;
  Cache cache(box.config);
  const auto spool = Spool::open(cache.config().cache_root);
  spool->append({make_frame("logs", "a", numbered(0, 10))});
  std::atomic<int64_t> appended{10};
  std::atomic<bool> stop{false};
  std::jthread writer([&] {
    for (int64_t i = 1; i < 60 && !stop; ++i) {
      spool->append({make_frame("logs", i % 2 == 0 ? "a" : "b", numbered(i * 10, i * 10 + 10))});
      appended = (i + 1) * 10;
      if (i % 3 == 0) flush(cache, *spool);
    }
  });
  // Rows are numbered as they come: what was there before the statement is all seen, each row once in every use.
  for (int i = 0; i < 15; ++i) {
    const int64_t before = appended;
    const std::string sql = fmt::format(
        "select count(*) as c, count(distinct a.n) as d, count(*) filter (a.n < {}) as old, "
        "(select count(*) from logs) as again from logs a join logs b using (n)",
        before);
    const Json row = Json::parse(json_rows(cache, sql).at(0));
    EXPECT_EQ(row["old"], before);
    EXPECT_EQ(row["c"], row["d"]);
    EXPECT_EQ(row["c"], row["again"]);
    if (testing::Test::HasFailure()) break;
  }
  stop = true;
}

TEST(Cut, FramesGoOnBeingRoutedAsTheirFlushBeganTo) {
  CacheBox box;
  box.declare("logs");
  {
    // The partition of one frame fails (its folder is a file), so the range stays half-way in.
    Cache cache(box.config);
    make_directories(box.config.cache_root + "/datasets/logs");
    std::ofstream(box.config.cache_root + "/datasets/logs/source=b") << "in the way";
    const auto spool = Spool::open(cache.config().cache_root);
    spool->append(
        {make_frame("logs", "a", {R"({"n":1,"host":"x"})"}), make_frame("logs", "b", {R"({"n":2,"host":"y"})"})});
    ASSERT_EQ(flush(cache, *spool).problems.size(), 1U);
  }
  remove_file(box.config.cache_root + "/datasets/logs/source=b");
  box.config.datasets["logs"].source_column = "host";
  const Cache cache(box.config);
  EXPECT_EQ(json_rows(cache, "select n from logs order by n"), (Lines{R"({"n":1})", R"({"n":2})"}));
}

TEST(Cut, ASourceColumnRoutesSpooledRows) {
  CacheBox box;
  box.declare("logs").source_column = "host";
  Cache cache(box.config);
  ingest(cache, {make_frame("logs", "a", {R"({"n":1,"host":"x"})", R"({"n":2})"})});
  const auto spool = Spool::open(cache.config().cache_root);
  spool->append({make_frame("logs", "a", {R"({"n":3,"host":"y"})", R"({"n":4,"host":"x"})"})});
  EXPECT_EQ(json_rows(cache, "select n from logs order by n"), numbered(1, 5));
}

TEST(Cut, NamesAreFoundWhateverTheirCase) {
  CacheBox box;
  Cache cache(box.config);
  ingest(cache, {make_frame("Logs", "a", {R"({"Dep":1,"x.y":2,"a":{"b":3},"ü":4})"})});
  EXPECT_EQ(json_rows(cache, "select DEP, \"x.y\", a.b as nested, \"ü\" from lOGS"),
            Lines{R"({"Dep":1,"x.y":2,"nested":3,"ü":4})"});
  ingest(cache, {make_frame("logs", "a", {R"({"n":9})"})});
  EXPECT_EQ(json_rows(cache, "from logs"), Lines{R"({"n":9})"});
  EXPECT_EQ(json_rows(cache, "select dep from \"Logs\""), Lines{R"({"Dep":1})"});
  EXPECT_NE(failure_of(cache, "from LOGS").message.find("Datasets: Logs, logs"), std::string::npos);  // which one?
}

TEST(Cut, NamesWithDotsAreQuoted) {
  CacheBox box;
  Cache cache(box.config);
  ingest(cache, {make_frame("nyc.taxi", "a", {R"({"n":1})"}), make_frame("taxi", "a", {R"({"n":2})"})});
  EXPECT_EQ(single_value(cache, "select n from \"nyc.taxi\""), "1");
  EXPECT_EQ(single_value(cache, "select n from main.taxi"), "2");
  EXPECT_NE(failure_of(cache, "select n from nyc.taxi").message.find("\"nyc.taxi\" in double quotes"),
            std::string::npos);
  EXPECT_EQ(json_rows(cache, "show tables;"), (Lines{R"({"name":"nyc.taxi"})", R"({"name":"taxi"})"}));
}

}  // namespace
}  // namespace firn::hyp
