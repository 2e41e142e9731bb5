// Queryable sinks: a query sees each row once, wherever it is (P13.1).
#include <atomic>
#include <thread>

#include "hyp/query/exports_box.h"

#include "hyp/cache/legacy_table.h"
#include "hyp/maintain/compaction.h"
#include "hyp/maintain/purge.h"
#include "hyp/query/cut.h"
#include "hyp/sink/offsets.h"
#include "hyp/sink/reset.h"
#include "iceberg/maintain/expire_snapshots.h"
#include "iceberg/metadata/changes.h"

namespace firn::hyp {
namespace {

using Numbers = std::vector<int64_t>;

class QueryableSinks : public testing::TestWithParam<SinkKind> {
 protected:
  bool is_blob() const { return GetParam() == SinkKind::blob; }
  ExportsBox box_{GetParam()};
};

TEST_P(QueryableSinks, RowsPastRetentionComeFromTheDestinationAndOthersFromTheCache) {
  box_.sink().unit_rows_max = 2;
  box_.add("a", 0, 5);
  box_.add("b", 5, 8);
  box_.ship();
  EXPECT_EQ(box_.seen(), from_to(0, 8));  // at both places
  ASSERT_EQ(box_.evict(), 8);
  EXPECT_EQ(box_.seen(), from_to(0, 8));
  box_.add("a", 8, 10);
  box_.add("c", 10, 11);
  box_.spool("a", 11, 13);
  box_.spool("new", 13, 14);
  EXPECT_EQ(box_.seen(), from_to(0, 14));
  {
    Cache cache(box_.config);
    compact_partition(cache, {"logs", "a"});
  }
  EXPECT_EQ(box_.seen(), from_to(0, 14));
  EXPECT_EQ(box_.seen("where n > 3 and n < 12"), from_to(4, 12));
  const Cache cache(box_.config);
  EXPECT_EQ(single_value(cache, "select count(*) from logs a join logs b using (n)"), "14");
  box_.sink().queryable = false;
  EXPECT_EQ(box_.seen(), from_to(8, 14));
}

TEST_P(QueryableSinks, WhatMovesWhileTheStatementBeginsIsSeenOnce) {
  for (const bool evicts : {false, true}) {
    for (const std::string point : {"query.exports-seen", "query.tables-held"}) {
      SCOPED_TRACE(point + (evicts ? ", evicted" : ""));
      ExportsBox box(GetParam());
      box.sink().unit_rows_max = 3;
      box.add("a", 0, 4);
      box.ship();
      box.add("a", 4, 6);
      box.add("z", 12, 14);  // shipped last, and the tables have it
      box.spool("a", 6, 10);
      box.spool("b", 10, 12);
      const auto move = [&] {
        box.flush_spools();
        box.ship();
        if (evicts) box.evict();
      };
      const AtPoints at({{point, move}});
      EXPECT_EQ(box.seen(), from_to(0, 14));
      EXPECT_EQ(box.seen(), from_to(0, 14));
    }
  }
}

TEST_P(QueryableSinks, WhatMovesBeforeAndAfterTheTablesAreHeldIsSeenOnce) {
  // Between the cuts one partition's rows go for good, then another's spooled ones arrive at the destination.
  box_.add("a", 0, 3);
  box_.add("b", 3, 5);
  box_.spool("a", 5, 7);
  const AtPoints at({{"query.exports-seen",
                      [&] {
                        box_.ship();
                        box_.evict();
                      }},
                     {"query.tables-held", [&] {
                        box_.flush_spools();
                        box_.ship();
                        box_.evict();
                      }}});
  EXPECT_EQ(box_.seen(), from_to(0, 7));
}

TEST_P(QueryableSinks, RowsThatAreCapturedMeanwhileAreSeenOnceOrNotAtAll) {
  box_.add("a", 0, 3);
  const auto go_on = [&](int64_t begin) {
    box_.add("a", begin, begin + 2);
    box_.ship();
    box_.evict();
  };
  const AtPoints at({{"query.exports-seen", [&] { go_on(3); }}, {"query.tables-held", [&] { go_on(5); }}});
  const Numbers seen = box_.seen();
  EXPECT_GE(seen.size(), 3U);
  EXPECT_EQ(seen, from_to(0, static_cast<int64_t>(seen.size())));
}

TEST_P(QueryableSinks, EveryRowIsCountedOnceWhileRowsMove) {
  std::atomic<int64_t> captured{0};
  std::atomic<bool> stop{false};
  const auto capture = [&](const std::string& source) {
    box_.spool(source, captured, captured + 5);
    captured += 5;
  };
  capture("a");
  std::jthread mover([&] {
    for (int i = 0; !stop && i < 60; ++i) {
      capture(i % 2 == 0 ? "a" : "b");
      if (i % 2 == 1) box_.flush_spools();
      if (i % 3 == 1) box_.ship();
      if (i % 6 == 1) box_.evict();  // all was shipped
      if (i % 4 == 3) {
        Cache cache(box_.config);
        compact_partition(cache, {"logs", "a"});
      }
    }
  });
  const Cache cache(box_.config);
  for (int i = 0; i < 25 && !HasFailure(); ++i) {
    const int64_t before = captured;
    const Json row = Json::parse(json_rows(cache, fmt::format("select count(*) as c, count(distinct n) as d, "
                                                              "count(*) filter (n < {}) as old from logs",
                                                              before))
                                     .at(0));
    EXPECT_EQ(row["old"], before);
    EXPECT_EQ(row["c"], row["d"]);
  }
  stop = true;
  mover.join();
  EXPECT_EQ(box_.seen(), from_to(0, captured));
}

TEST_P(QueryableSinks, WhatAResetSkippedComesFromTheCache) {
  box_.add("a", 0, 2);
  box_.ship();
  box_.add("a", 2, 5);
  {
    Cache cache(box_.config);
    const SinkReset reset = reset_sink(cache, box_.sink(), parse_reset_target("now"));
    ASSERT_TRUE(reset.is_done && !reset.failed());
  }
  box_.add("a", 5, 7);
  ASSERT_EQ(box_.ship().rows(), 2);
  EXPECT_EQ(box_.seen(), from_to(0, 7));
  ASSERT_EQ(box_.evict(), 7);
  EXPECT_EQ(box_.seen(), (Numbers{0, 1, 5, 6}));  // what was skipped was nowhere else
}

TEST_P(QueryableSinks, AResetAsTheFirstWord) {
  box_.add("a", 0, 3);
  {
    Cache cache(box_.config);
    ASSERT_TRUE(reset_sink(cache, box_.sink(), parse_reset_target("now")).is_done);
  }
  EXPECT_EQ(box_.seen(), from_to(0, 3));
  box_.add("a", 3, 4);
  box_.ship();
  fs::remove_all(box_.config.state_dir);
  EXPECT_EQ(box_.seen(), from_to(0, 4));
}

TEST_P(QueryableSinks, ALostCacheIsReadWithTheOneThatFollowedIt) {
  box_.add("a", 0, 3);
  box_.ship();
  fs::remove_all(box_.config.cache_root);
  fs::remove_all(box_.config.state_dir);
  EXPECT_EQ(box_.seen(), from_to(0, 3));  // no cache at all
  box_.spool("a", 3, 5);
  EXPECT_EQ(box_.seen(), from_to(0, 5));
  box_.flush_spools();  // their numbers are those that the first rows had
  EXPECT_EQ(box_.seen(), from_to(0, 5));
  box_.ship();
  EXPECT_EQ(box_.seen(), from_to(0, 5));
  box_.evict();
  EXPECT_EQ(box_.seen(), from_to(0, 5));
}

TEST_P(QueryableSinks, ALostWatermarkChangesNothing) {
  box_.add("a", 0, 3);
  box_.ship();
  box_.evict();
  fs::remove_all(box_.config.state_dir);
  box_.add("a", 3, 5);
  EXPECT_EQ(box_.seen(), from_to(0, 5));
}

TEST_P(QueryableSinks, ACacheRestoredFromABackupSeesWhatItLostAtTheDestination) {
  box_.add("a", 0, 3);
  copy_folder(box_.config.cache_root, box_.folder / "backup");
  box_.add("a", 3, 6);
  box_.ship();
  copy_folder(box_.folder / "backup", box_.config.cache_root);
  EXPECT_EQ(box_.seen(), from_to(0, 6));
  box_.add("a", 6, 8);  // under numbers that the lost rows had
  EXPECT_EQ(box_.seen(), from_to(0, 8));
  box_.ship();
  EXPECT_EQ(box_.seen(), from_to(0, 8));
}

TEST_P(QueryableSinks, TwoCopiesOfACacheEachSeeWhatTheOtherSent) {
  box_.add("a", 0, 3);
  copy_folder(box_.config.cache_root, box_.folder / "other");
  box_.add("a", 3, 6);
  box_.ship();
  const auto turn = [&] {
    fs::rename(box_.config.cache_root, box_.folder / "between");
    fs::rename(box_.folder / "other", box_.config.cache_root);
    fs::rename(box_.folder / "between", box_.folder / "other");
  };
  turn();
  fs::remove_all(box_.config.state_dir);
  box_.add("a", 6, 9);
  EXPECT_EQ(box_.seen(), from_to(0, 9));
  box_.ship();
  box_.add("a", 9, 10);
  EXPECT_EQ(box_.seen(), from_to(0, 10));
  turn();
  EXPECT_EQ(box_.seen(), from_to(0, 9));
}

TEST_P(QueryableSinks, PurgedRowsThatWereShippedAreStillSeen) {
  box_.add("a", 0, 4);
  box_.ship();
  box_.add("a", 4, 6);
  Cache cache(box_.config);
  const PurgeReport report = purge(cache, "logs", iceberg::parse_expression("n = 1 or n = 4"));
  EXPECT_EQ(report.sent_rows.at("out"), 1);
  EXPECT_EQ(box_.seen(), (Numbers{0, 1, 2, 3, 5}));
}

TEST_P(QueryableSinks, RowsOfAnotherSystemsCacheComeOnce) {
  const PartitionId partition{"old", "s"};
  {
    Cache cache(box_.config);
    make_legacy_table(cache, partition, id_and_text());
    append_as_other(cache, partition, {R"({"id":1,"text":"a"})", R"({"id":2,"text":"b"})"});
  }
  const auto ids = [&] {
    return single_value(Cache(box_.config), "select string_agg(id::varchar, ' ' order by id) from old");
  };
  EXPECT_EQ(ids(), "\"1 2\"");
  box_.ship();
  EXPECT_EQ(ids(), "\"1 2\"");
  {
    Cache cache(box_.config);
    append_as_other(cache, partition, {R"({"id":3,"text":"c"})"});  // without a number
    ingest(cache, {make_frame("old", "s", {R"({"id":4,"text":"d"})"})});
  }
  EXPECT_EQ(ids(), "\"1 2 3 4\"");
  box_.ship();
  {
    Cache cache(box_.config);
    purge(cache, "old", iceberg::parse_expression("id < 4"));
  }
  EXPECT_EQ(ids(), "\"1 2 3 4\"");
}

TEST_P(QueryableSinks, AnotherSystemsCacheRestoredFromBeforeItsRowsWereNumbered) {
  const PartitionId partition{"old", "s"};
  {
    Cache cache(box_.config);
    make_legacy_table(cache, partition, id_and_text());
    append_as_other(cache, partition, {R"({"id":1,"text":"a"})", R"({"id":2,"text":"b"})"});
    cache.sequence().cache_id();
  }
  copy_folder(box_.config.cache_root, box_.folder / "backup");
  box_.ship();
  copy_folder(box_.folder / "backup", box_.config.cache_root);
  EXPECT_EQ(single_value(Cache(box_.config), "select count(*) from old"), "2");
}

// --- columns ---

TEST_P(QueryableSinks, OlderColumnsAreNullAndNarrowerOnesWiden) {
  const auto type = [](const char* name) { return iceberg::parse_primitive_type(name); };
  DatasetConfig& logs = box_.config.datasets.at("logs");
  logs.schema = iceberg::Schema({{1, "n", false, type("int")},
                                 {2, "at", false, type("timestamptz")},
                                 {3, "f", false, type("float")},
                                 {4, "d", false, type("decimal(5,2)")},
                                 {5, "u", false, type("uuid")}});
  box_.ingest_lines(
      "logs", "a",
      {R"({"n":1,"at":"2020-01-05T00:00:00Z","f":0.5,"d":1.25,"u":"f79c3e09-677c-4bbd-a479-3f349cb785e7"})"});
  box_.ship();
  box_.evict();
  logs.schema = iceberg::Schema({{1, "n", false, type("long")},
                                 {2, "at", false, type("timestamptz")},
                                 {3, "f", false, type("double")},
                                 {4, "d", false, type("decimal(9,2)")},
                                 {5, "u", false, type("uuid")}});
  box_.ingest_lines("logs", "a", {R"({"n":5000000000,"f":0.1,"d":1234567.25,"late":{"x":[1,2]}})"});
  const Cache cache(box_.config);
  EXPECT_EQ(json_rows(cache, "select n, f, d, u, late from logs order by n"),
            (Lines{R"({"n":1,"f":0.5,"d":1.25,"u":"f79c3e09-677c-4bbd-a479-3f349cb785e7","late":null})",
                   R"({"n":5000000000,"f":0.1,"d":1234567.25,"u":null,"late":{"x":[1,2]}})"}));
  box_.ship();
  EXPECT_EQ(single_value(cache, "select sum(n) from logs where f < 1"), "5000000001");
  EXPECT_EQ(single_value(cache, "select typeof(d) from logs limit 1"), "\"DECIMAL(9,2)\"");
  EXPECT_EQ(single_value(cache, "select n from logs where late is null"), "1");
}

TEST_P(QueryableSinks, ColumnsThatOnlyExportsHaveComeAtTheEnd) {
  box_.ingest_lines("other", "a", {R"({"n":1,"gone":"x","s":{"a":1}})"});
  box_.ingest_lines("other", "a", {R"({"n":2,"gone":"y","more":true})"});
  box_.ship();
  fs::remove_all(box_.config.cache_root);
  box_.ingest_lines("other", "a", {R"({"fresh":1.5,"n":3})"});
  const Cache cache(box_.config);
  EXPECT_EQ(json_rows(cache, "from other order by n"),
            (Lines{R"({"fresh":null,"n":1,"gone":"x","s":{"a":1},"more":null})",
                   R"({"fresh":null,"n":2,"gone":"y","s":null,"more":true})",
                   R"({"fresh":1.5,"n":3,"gone":null,"s":null,"more":null})"}));
  EXPECT_EQ(schema_with_exports(cache, "other").fields().size(), 5U);
  EXPECT_EQ(json_rows(cache, "select \"GONE\" from other where n < 2 and gone = 'x'"), Lines{R"({"gone":"x"})"});
}

TEST_P(QueryableSinks, AColumnThatIsSpelledInAnotherCaseIsTheSame) {
  box_.ingest_lines("other", "a", {R"({"Host":"x","N":1})"});
  box_.ship();
  fs::remove_all(box_.config.cache_root);
  box_.ingest_lines("other", "a", {R"({"host":"y","n":2})"});
  const Cache cache(box_.config);
  EXPECT_EQ(json_rows(cache, "from other order by n"), (Lines{R"({"host":"x","n":1})", R"({"host":"y","n":2})"}));
  EXPECT_EQ(single_value(cache, "select host from other where n = 1"), "\"x\"");
  EXPECT_EQ(single_value(cache, "select count(*) from other where HOST >= 'x'"), "2");
}

TEST_P(QueryableSinks, AColumnOfAnotherTypeIsSaidByTheStatementsThatUseIt) {
  box_.ingest_lines("other", "a", {R"({"v":"text","n":1})"});
  box_.ship();
  fs::remove_all(box_.config.cache_root);
  box_.ingest_lines("other", "a", {R"({"v":5,"n":2})"});
  const Cache cache(box_.config);
  EXPECT_EQ(single_value(cache, "select sum(n) from other"), "3");
  const Failure failure = failure_of(cache, "select v from other");
  EXPECT_NE(failure.message.find(box_.out()), std::string::npos) << failure.message;
  EXPECT_NE(failure.message.find("column v"), std::string::npos) << failure.message;
}

TEST_P(QueryableSinks, UndeclaredColumnsOfExportsMakeNoRowsOfRejectedLines) {
  DatasetConfig& strict = box_.declare("strict");
  strict.schema = iceberg::Schema({{1, "n", false, iceberg::parse_primitive_type("long")},
                                   {2, "old", false, iceberg::parse_primitive_type("long")}});
  strict.allow_new_columns = false;
  box_.ingest_lines("strict", "a", {R"({"n":1,"old":2})"});
  box_.ship();
  fs::remove_all(box_.config.cache_root);
  strict.schema = iceberg::Schema({{1, "n", false, iceberg::parse_primitive_type("long")}});
  Spool::open(box_.config.cache_root)->append({make_frame("strict", "a", {R"({"n":3})", R"({"n":4,"old":5})"})});
  const Cache cache(box_.config);
  EXPECT_EQ(json_rows(cache, "from strict order by n"), (Lines{R"({"n":1,"old":2})", R"({"n":3,"old":null})"}));
}

// --- names, and which sink ---

TEST_P(QueryableSinks, ADatasetMayBeAtTheDestinationAlone) {
  box_.ingest_lines("Gone", "a", {R"({"n":1})"});
  box_.ship();
  fs::remove_all(box_.config.cache_root);
  const Cache cache(box_.config);
  EXPECT_EQ(json_rows(cache, "from \"Gone\""), Lines{R"({"n":1})"});
  EXPECT_EQ(failure_of(cache, "from missing").kind, ErrorKind::invalid_argument);
  box_.sink().datasets = {"Gone"};
  const Cache named(box_.config);
  EXPECT_EQ(json_rows(named, "from gone"), Lines{R"({"n":1})"});
  EXPECT_EQ(json_rows(named, "show tables"), (Lines{R"({"name":"Gone"})", R"({"name":"logs"})"}));
}

TEST_P(QueryableSinks, OfSeveralSinksTheFirstThatShipsTheDatasetIsRead) {
  SinkConfig second = make_sink(is_blob() ? SinkKind::iceberg : SinkKind::blob, box_.folder / "second");
  second.name = "second";
  second.queryable = true;
  box_.config.sinks.push_back(second);
  box_.add("a", 0, 3);
  box_.ship();
  box_.ship_well(second);
  EXPECT_EQ(box_.seen(), from_to(0, 3));
  box_.evict();
  box_.add("a", 3, 5);
  box_.ship_well(second);  // further ahead than the first, and not asked
  EXPECT_EQ(box_.seen(), from_to(0, 5));
  box_.sink().datasets = {"another"};
  EXPECT_EQ(box_.seen(), from_to(0, 5));
}

TEST_P(QueryableSinks, WhatIsReadAndPrunedIsToldByOrigin) {
  box_.sink().unit_rows_max = 1000;
  box_.add("a", 0, 3000);
  box_.ship();
  box_.evict();
  box_.add("a", 3000, 3100);
  iceberg::ReadCounters cache, blobs, archive;
  const QueryOptions options{.counters = &cache, .blob_counters = &blobs, .archive_counters = &archive};
  EXPECT_EQ(box_.seen("where n >= 1500 and n < 1502", options), from_to(1500, 1502));
  const iceberg::ReadCounters& used = is_blob() ? blobs : archive;
  const iceberg::ReadCounters& unused = is_blob() ? archive : blobs;
  EXPECT_GT(used.files_pruned + used.row_groups_pruned, 0);
  EXPECT_EQ(used.row_groups_read, 1);
  EXPECT_EQ(unused.files_planned, 0);
  EXPECT_EQ(cache.row_groups_read, 0);
  EXPECT_EQ(box_.seen("", {.prune = false}), from_to(0, 3100));
}

INSTANTIATE_TEST_SUITE_P(Each, QueryableSinks, testing::Values(SinkKind::blob, SinkKind::iceberg),
                         [](const auto& info) { return info.param == SinkKind::blob ? "Blobs" : "Archive"; });

// --- what is missing at the destination ---

TEST(ExportedBlobs, AnObjectThatIsGoneIsNamed) {
  ExportsBox box(SinkKind::blob);
  box.sink().unit_rows_max = 2;
  box.add("a", 0, 4);
  box.ship();
  box.evict();
  box.ingest_lines("other", "a", {R"({"n":1})"});
  Lines objects;
  for (const auto& [path, claim] : claims_of(box.out())) objects.push_back(claim["object"]);
  ASSERT_EQ(objects.size(), 2U);
  for (const std::string& object : objects) {
    fs::rename(box.out() + "/" + object, box.folder / "kept");
    const Cache cache(box.config);
    const Failure failure = failure_of(cache, "select n from logs");
    EXPECT_NE(failure.message.find(object + " is gone"), std::string::npos) << failure.message;
    EXPECT_EQ(single_value(cache, "select n from other"), "1");
    fs::rename(box.folder / "kept", box.out() + "/" + object);
  }
  EXPECT_EQ(box.seen(), from_to(0, 4));
}

TEST(ExportedBlobs, AClaimThatIsGoneIsNamedWhereOthersFollowIt) {
  ExportsBox box(SinkKind::blob);
  box.sink().unit_rows_max = 2;
  box.add("a", 0, 6);
  box.ship();
  const std::string path = std::next(claims_of(box.out()).begin())->first;
  fs::remove(path);
  const Failure failure = failure_of(Cache(box.config), "select n from logs");
  EXPECT_NE(failure.message.find("none that leads to it from 2"), std::string::npos) << failure.message;
}

TEST(ExportedBlobs, ObjectsThatNoClaimNamesAreNoRows) {
  ExportsBox box(SinkKind::blob);
  box.add("a", 0, 3);
  box.ship();
  const std::string object = claims_of(box.out()).begin()->second["object"];
  fs::copy(box.out() + "/" + object, box.out() + "/logs/source=a/another_0_9.parquet");
  EXPECT_EQ(box.seen(), from_to(0, 3));
}

TEST(ExportedBlobs, ObjectsFromBeforeTheSinkWroteParquetAreNamed) {
  ExportsBox box(SinkKind::blob);
  box.sink().format = BlobFormat::jsonl;
  box.add("a", 0, 3);
  box.ship();
  box.sink().format = BlobFormat::parquet;
  const Failure failure = failure_of(Cache(box.config), "select n from logs");
  EXPECT_NE(failure.message.find(".jsonl.zst is no Parquet"), std::string::npos) << failure.message;
}

TEST(ExportedBlobs, RowsThatAResetSendsAgainComeOnce) {
  ExportsBox box(SinkKind::blob);
  box.sink().unit_rows_max = 2;
  box.add("a", 0, 6);
  box.ship();
  {
    Cache cache(box.config);
    ASSERT_TRUE(reset_sink(cache, box.sink(), parse_reset_target("start")).is_done);
  }
  EXPECT_EQ(box.seen(), from_to(0, 6));
  box.sink().unit_rows_max = 4;
  box.ship();
  EXPECT_EQ(box.seen(), from_to(0, 6));
}

TEST(ExportedBlobs, RowsThatOnlyTheBlobsHaveStayVisibleWhereAResetSendsTheOthersAgain) {
  ExportsBox box(SinkKind::blob);
  const Lines newer = {R"({"n":8,"at":"2024-06-15T00:00:00Z"})", R"({"n":9,"at":"2024-06-15T00:00:00Z"})"};
  box.ingest_lines("logs", "a", ExportsBox::numbered(0, 8) + newer);  // one unit
  box.ship();
  ASSERT_EQ(box.evict(), 8);
  for (int i = 0; i < 2; ++i) {
    {
      Cache cache(box.config);
      ASSERT_FALSE(reset_sink(cache, box.sink(), parse_reset_target("start")).failed());
    }
    EXPECT_EQ(box.seen(), from_to(0, 10));
    EXPECT_EQ(box.ship().rows(), 2);
    EXPECT_EQ(box.seen(), from_to(0, 10));
  }
}

TEST(ExportedBlobs, RowsThatLeaveBetweenAResetAndTheRunStayVisible) {
  ExportsBox box(SinkKind::blob);
  box.sink().unit_rows_max = 2;
  box.add("a", 0, 6);
  box.ship();
  {
    Cache cache(box.config);
    ASSERT_FALSE(reset_sink(cache, box.sink(), parse_reset_target("start")).failed());
  }
  ASSERT_EQ(box.evict(), 6);
  EXPECT_EQ(box.seen(), from_to(0, 6));
  box.add("a", 6, 8);
  box.ship();
  EXPECT_EQ(box.seen(), from_to(0, 8));
}

TEST(ExportedBlobs, AnObjectWithOtherRowsThanItsClaimSaysIsNamed) {
  ExportsBox box(SinkKind::blob);
  box.add("a", 0, 3);
  box.add("b", 3, 4);
  box.ship();
  Lines objects;
  for (const auto& [path, claim] : claims_of(box.out())) objects.push_back(claim["object"]);
  ASSERT_EQ(objects.size(), 2U);
  fs::copy_file(box.out() + "/" + objects[1], box.out() + "/" + objects[0], fs::copy_options::overwrite_existing);
  const Failure failure = failure_of(Cache(box.config), "select n from logs");
  EXPECT_NE(failure.message.find(objects[0] + " has 1 rows, and its claim"), std::string::npos) << failure.message;
}

iceberg::LoadedTable change_archive(const ExportsBox& box, const std::function<void(iceberg::TableMetadata&)>& change) {
  const auto table = iceberg::open_filesystem_table(make_local_file_io(), box.out() + "/hyp/logs");
  return iceberg::commit_metadata(*table,
                                  [&](iceberg::TableMetadata& next) {
                                    change(next);
                                    return true;
                                  })
      .table;
}

TEST(ExportedArchive, AfterARollbackTheCacheGivesWhatIsNotThere) {
  ExportsBox box(SinkKind::iceberg);
  box.add("a", 0, 3);
  box.ship();
  const int64_t first = *archive_table(box.out(), "logs").metadata->current_snapshot_id;
  box.add("a", 3, 6);
  box.add("b", 6, 8);
  box.ship();
  change_archive(box, [&](iceberg::TableMetadata& next) { rollback_to_snapshot(next, first, now_ms()); });
  EXPECT_EQ(box.seen(), from_to(0, 8));
}

TEST(ExportedArchive, ARollbackWhoseSnapshotsHaveExpiredIsSaid) {
  ExportsBox box(SinkKind::iceberg);
  box.add("a", 0, 3);
  box.ship();
  const int64_t first = *archive_table(box.out(), "logs").metadata->current_snapshot_id;
  box.add("a", 3, 6);
  box.ship();
  change_archive(box, [&](iceberg::TableMetadata& next) { rollback_to_snapshot(next, first, now_ms()); });
  box.add("b", 6, 8);
  static_cast<SinkBox&>(box).ship(box.sink());  // b's rows; a's do not go on
  EXPECT_EQ(box.seen(), from_to(0, 8));
  iceberg::ExpireOptions expire;
  expire.older_than_ms = now_ms() + 1;
  expire_snapshots(*iceberg::open_filesystem_table(make_local_file_io(), box.out() + "/hyp/logs"), expire);
  const Failure failure = failure_of(Cache(box.config), "select n from logs");
  EXPECT_NE(failure.message.find("rolled back"), std::string::npos) << failure.message;
}

// More opens than a table repeats, and the sequence file that had the others is gone.
TEST_P(QueryableSinks, RowsOfOpensThatNobodyListsAnyMoreAreCountedOnceOrNotAtAll) {
  constexpr int64_t kOpens = 67;
  for (int64_t n = 0; n < kOpens; ++n) {
    box_.add("a", n, n + 1);
    if (n == 2 || n == kOpens - 1) box_.ship();
  }
  box_.add("a", kOpens, kOpens + 1);
  const std::string file = box_.config.cache_root + "/_hyp_ingest_seq.json";
  const std::string kept = make_local_file_io()->read(file);
  EXPECT_EQ(box_.seen(), from_to(0, kOpens + 1));
  fs::remove(file);
  int64_t end = kOpens + 1;
  for (const bool goes_on : {false, true}) {
    if (goes_on) box_.add("a", end, end + 1), ++end;
    if (is_blob()) {
      EXPECT_EQ(box_.seen(), from_to(0, end));
    } else {
      const Failure failure = failure_of(Cache(box_.config), "select n from logs");
      EXPECT_NE(failure.message.find("_hyp_ingest_seq.json"), std::string::npos) << failure.message;
    }
  }
  replace_file(file, kept);
  EXPECT_EQ(box_.seen(), from_to(0, end));
}

// Claims of opens that nobody lists, and none of a later one: they may be a copy's, which issued the same numbers.
TEST(ExportedBlobs, ClaimsThatMayBeACopysAreNotTakenForOurs) {
  ExportsBox box(SinkKind::blob);
  for (int64_t n = 0; n < 67; ++n) {
    box.add("a", n, n + 1);
    if (n == 2) box.ship();
  }
  fs::remove(box.config.cache_root + "/_hyp_ingest_seq.json");
  const Failure failure = failure_of(Cache(box.config), "select n from logs");
  EXPECT_NE(failure.message.find("_hyp_ingest_seq.json"), std::string::npos) << failure.message;
}

// As if 64 later opens had come (P10.7).
TEST(ExportedArchive, OpensThatTheArchiveNoLongerListsAreThereIfALaterOneIs) {
  ExportsBox box(SinkKind::iceberg);
  for (int64_t n = 0; n < 4; ++n) box.add("a", n, n + 1);  // each is a process of its own, with an open of its own
  box.ship();
  box.add("a", 4, 5);
  const std::string property = archive_table(box.out(), "logs").metadata->properties.lower_bound("firn.offset.")->first;
  const auto forget = [&](size_t count) {
    change_archive(box, [&](iceberg::TableMetadata& next) {
      StreamOffsets offsets = read_offsets(next, property.substr(offset_property("").size()));
      for (size_t i = 0; i < count; ++i) {
        const auto lowest = std::min_element(offsets.opens.begin(), offsets.opens.end(),
                                             [](const auto& a, const auto& b) { return a.second < b.second; });
        offsets.forgot = lowest->second;
        offsets.opens.erase(lowest);
      }
      next.properties[property] = to_text(offsets);
    });
  };
  forget(2);
  EXPECT_EQ(box.seen(), from_to(0, 5));
  forget(2);  // none of ours is left, so that they may be another copy's: whose rows are there is not known
  const Failure failure = failure_of(Cache(box.config), "select n from logs");
  EXPECT_NE(failure.message.find("it no longer knows"), std::string::npos) << failure.message;
}

TEST(ExportedArchive, WhatOthersDoToTheTableIsSeen) {
  ExportsBox box(SinkKind::iceberg);
  box.add("a", 0, 3);
  box.ship();
  box.evict();
  // Another writer's row.
  const auto table = iceberg::open_filesystem_table(make_local_file_io(), box.out() + "/hyp/logs");
  iceberg::AppendWriter writer(table->io(), *table->load().metadata, {});
  writer.write(parse_rows("{\"n\":100}\n", table->load().metadata->schema(), {}).batch);
  iceberg::commit_snapshot(*table, {.added = writer.finish(),
                                    .written_schema = table->load().metadata->schema(),
                                    .required_spec = table->load().metadata->spec()});
  EXPECT_EQ(box.seen(), (Numbers{0, 1, 2, 100}));
}

}  // namespace
}  // namespace firn::hyp
