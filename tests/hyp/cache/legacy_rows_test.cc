// Caches of other systems: rows without numbers get some once, and keep them (P9.3).
#include "hyp/cache/legacy_rows.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "base/uuid.h"
#include "hyp/cache/layout.h"
#include "hyp/cache/legacy_table.h"
#include "hyp/cache/table_opens.h"
#include "support/crash.h"

namespace firn::hyp {
namespace {

namespace fs = std::filesystem;

const PartitionId kPartition{"logs", "s"};

std::string row(int64_t id) { return fmt::format(R"({{"id":{},"text":"row {}"}})", id, id); }

Lines rows_from_to(int64_t first, int64_t last) {
  Lines lines;
  for (int64_t id = first; id <= last; ++id) lines.push_back(row(id));
  return lines;
}

std::vector<int64_t> ids_in(const Lines& rows) {
  std::vector<int64_t> ids;
  for (const std::string& text : rows) ids.push_back(Json::parse(text)["id"].get<int64_t>());
  return ids;
}

std::vector<int64_t> range(int64_t first, int64_t last) {
  std::vector<int64_t> numbers;
  for (int64_t i = first; i <= last; ++i) numbers.push_back(i);
  return numbers;
}

// Nine rows in three snapshots.
void make_nine(const Cache& cache, const std::string& format_version = "2") {
  make_legacy_table(cache, kPartition, id_and_text(), format_version);
  for (int64_t first = 1; first < 9; first += 3) append_as_other(cache, kPartition, rows_from_to(first, first + 2));
}

int64_t version_of(const Cache& cache) { return legacy_table(cache, kPartition)->load().version; }
std::string property_of(const Cache& cache, const char* name) {
  return legacy_table(cache, kPartition)->load().metadata->property(name, "");
}

TEST(LegacyRows, TheFirstReadNumbersThemUpToZeroInFileOrderAndOnce) {
  for (const char* format_version : {"2", "3"}) {
    SCOPED_TRACE(format_version);
    CacheBox box;
    Cache cache(box.config);
    make_nine(cache, format_version);
    const auto read = read_sequenced(cache, kPartition);
    EXPECT_EQ(ids_in(read.rows), range(1, 9));
    EXPECT_EQ(read.after, range(-8, 0));
    EXPECT_EQ(property_of(cache, kLegacyRowsProperty), "9");
    EXPECT_EQ(property_of(cache, kSequencedProperty), "true");
    const int64_t version = version_of(cache);
    EXPECT_EQ(read_sequenced(cache, kPartition).after, range(-8, 0));
    EXPECT_EQ(number_legacy_rows(cache, kPartition), 0);
    EXPECT_EQ(version_of(cache), version);
  }
}

TEST(LegacyRows, ATableIsMadeOneOfOursByAnAdditiveCommit) {
  CacheBox box;
  Cache cache(box.config);
  make_nine(cache);
  const auto before = legacy_table(cache, kPartition)->load();
  EXPECT_EQ(number_legacy_rows(cache, kPartition), 9);
  const auto after = legacy_table(cache, kPartition)->load();
  const iceberg::Schema &old_schema = before.metadata->schema(), &schema = after.metadata->schema();
  ASSERT_EQ(schema.fields().size(), old_schema.fields().size() + 3);
  for (size_t i = 0; i < old_schema.fields().size(); ++i) {
    EXPECT_EQ(schema.fields()[i].id, old_schema.fields()[i].id);
    EXPECT_EQ(schema.fields()[i].name, old_schema.fields()[i].name);
  }
  EXPECT_EQ(after.metadata->table_uuid, before.metadata->table_uuid);
  EXPECT_EQ(after.metadata->format_version, 3);
  EXPECT_EQ(read_cursor(cache.folder(kPartition))->cache_id, cache.sequence().cache_id());
  EXPECT_EQ(read_cursor(cache.folder(kPartition))->table_dir, "table-3");
}

TEST(LegacyRows, RowAndBatchIdsAreFilledInAsAFlushWouldHaveMadeThem) {
  CacheBox box;
  Cache cache(box.config);
  make_nine(cache);
  int64_t time_ms = 0;
  const iceberg::LoadedTable head = legacy_table(cache, kPartition)->load();
  for (const auto& snapshot : head.metadata->snapshots) {
    time_ms = std::max(time_ms, snapshot.timestamp_ms);
  }
  number_legacy_rows(cache, kPartition);
  ingest(cache, {make_frame("logs", "s", {row(4)})});
  const auto rows = whole_rows(cache, kPartition);
  ASSERT_EQ(rows.size(), 10u);
  EXPECT_EQ(rows[3]["id"], 4);
  EXPECT_EQ(rows[3][kRowIdColumn], rows[9][kRowIdColumn]);
  for (size_t i = 0; i < 9; ++i) {
    const auto ingested_ms = uuid_v7_time_ms(rows[i][kBatchIdColumn].get<std::string>());
    ASSERT_TRUE(ingested_ms);
    EXPECT_LE(*ingested_ms, time_ms);
    EXPECT_EQ(rows[i][kBatchIdColumn] == rows[0][kBatchIdColumn], i < 3);  // one a file
  }
}

TEST(LegacyRows, RowsFlushedBeforeTheFirstReadComeAfterThem) {
  CacheBox box;
  Cache cache(box.config);
  make_nine(cache);
  const auto report = ingest(cache, {make_frame("logs", "s", {row(20), R"({"id":21,"new":true})"})});
  EXPECT_EQ(report.rows, 2) << fmt::format("{}", fmt::join(report.problems, "\n"));
  const auto read = read_sequenced(cache, kPartition);
  EXPECT_EQ(ids_in(read.rows), (std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 20, 21}));
  EXPECT_EQ(std::vector(read.after.begin(), read.after.begin() + 9), range(-8, 0));
  EXPECT_EQ(std::vector(read.after.begin() + 9, read.after.end()), range(1, 2));
}

TEST(LegacyRows, AWatermarkOfZeroIsAboveThemAll) {
  CacheBox box;
  Cache cache(box.config);
  make_nine(cache);
  ingest(cache, {make_frame("logs", "s", {row(20)})});
  EXPECT_EQ(ids_in(read_sequenced(cache, kPartition, {.since_exclusive = 0}).rows), (std::vector<int64_t>{20}));
  EXPECT_EQ(ids_in(read_sequenced(cache, kPartition, {.since_exclusive = -3}).rows),
            (std::vector<int64_t>{7, 8, 9, 20}));
  EXPECT_EQ(ids_in(read_sequenced(cache, kPartition, {.until = -6}).rows), range(1, 3));
}

TEST(LegacyRows, WhoLeavesThemOutNumbersNothing) {
  CacheBox box;
  Cache cache(box.config);
  make_nine(cache);
  const int64_t version = version_of(cache);
  EXPECT_TRUE(read_sequenced(cache, kPartition, {.include_legacy = false}).rows.empty());
  EXPECT_TRUE(rows_of(*read_rows(cache, kPartition, {.include_legacy = false}), id_and_text()).empty());
  EXPECT_EQ(version_of(cache), version);
  read_sequenced(cache, kPartition);
  EXPECT_TRUE(read_sequenced(cache, kPartition, {.include_legacy = false}).rows.empty());
}

TEST(LegacyRows, QueriesReadThemAsTheyAre) {
  CacheBox box;
  Cache cache(box.config);
  make_nine(cache);
  const int64_t version = version_of(cache);
  EXPECT_EQ(sorted_rows(rows_of(*read_rows(cache, kPartition, {}), id_and_text())), rows_from_to(1, 9));
  EXPECT_EQ(sorted_rows(rows_of(*read_rows(cache, kPartition, {.since_exclusive = 5}), id_and_text())),
            rows_from_to(1, 9));
  EXPECT_EQ(cache.dataset_schema("logs").fields().size(), 2u);
  EXPECT_EQ(version_of(cache), version);
}

TEST(LegacyRows, RowsFoundLaterGetNewNumbersAboveAllOthers) {
  CacheBox box;
  Cache cache(box.config);
  make_nine(cache);
  read_sequenced(cache, kPartition);
  ingest(cache, {make_frame("logs", "s", {row(20)})});
  for (int64_t id = 30; id < 33; ++id) {
    const int64_t since = SequencedReader(cache, kPartition, {}).max_seq();
    append_as_other(cache, kPartition, {row(id), row(id)});
    const auto read = read_sequenced(cache, kPartition, {.since_exclusive = since});
    EXPECT_EQ(ids_in(read.rows), (std::vector<int64_t>{id, id}));
    EXPECT_GT(read.after.front(), since);
    EXPECT_EQ(read.after.back(), SequencedReader(cache, kPartition, {}).max_seq());
  }
  EXPECT_EQ(property_of(cache, kLegacyRowsProperty), "9");
  const auto all = read_sequenced(cache, kPartition);
  EXPECT_EQ(ids_in(all.rows), (std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 20, 30, 30, 31, 31, 32, 32}));
  // Each number belongs to an open: the legacy rows' or this process's.
  for (const int64_t seq : all.after) {
    const auto opens = partition_opens(cache, kPartition);
    EXPECT_EQ(std::count_if(opens.begin(), opens.end(),
                            [&](const OpenRange& open) { return open.since_exclusive < seq && seq <= open.until; }),
              1)
        << seq;
  }
  ASSERT_GE(partition_opens(cache, kPartition).size(), 2u);
  EXPECT_EQ(partition_opens(cache, kPartition)[0].since_exclusive, -9);
  EXPECT_EQ(partition_opens(cache, kPartition)[0].until, 0);
}

TEST(LegacyRows, RowsThatAnotherProgramAddsToATableOfOursGetNewNumbersToo) {
  CacheBox box;
  Cache cache(box.config);
  ingest(cache, {make_frame("logs", "s", {row(1)})});
  fs::rename(cache.folder(kPartition) + "/table-1", cache.folder(kPartition) + "/table-3");
  write_cursor(cache.folder(kPartition), {"table-3", cache.sequence().cache_id()});
  append_as_other(cache, kPartition, {row(2)});
  const auto read = read_sequenced(cache, kPartition);
  EXPECT_EQ(ids_in(read.rows), range(1, 2));
  EXPECT_GT(read.after[0], 0);
  EXPECT_GT(read.after[1], read.after[0]);
  EXPECT_EQ(property_of(cache, kLegacyRowsProperty), "");
}

TEST(LegacyRows, NumbersThatAnotherSystemGaveStay) {
  CacheBox box;
  Cache cache(box.config);
  std::vector<iceberg::Field> fields = id_and_text().fields();
  fields.push_back(optional_field(3, kIngestSeqColumn, iceberg::TypeId::long_));
  make_legacy_table(cache, kPartition, iceberg::Schema(fields));
  append_as_other(cache, kPartition, rows_from_to(1, 3));
  append_as_other(cache, kPartition, {row(50), row(8), row(7), row(9)}, {std::nullopt, 8, 7, 9});
  ingest(cache, {make_frame("logs", "s", {row(20)})});
  const auto read = read_sequenced(cache, kPartition);
  EXPECT_EQ(ids_in(read.rows), (std::vector<int64_t>{1, 2, 3, 50, 7, 8, 9, 20}));
  EXPECT_EQ(std::vector(read.after.begin(), read.after.begin() + 7), (std::vector<int64_t>{-3, -2, -1, 0, 7, 8, 9}));
  EXPECT_GT(read.after.back(), 9);
  const auto opens = partition_opens(cache, kPartition);
  ASSERT_EQ(opens.size(), 2u);
  EXPECT_EQ(opens[0].since_exclusive, -4);
  EXPECT_EQ(opens[0].until, 9);
  EXPECT_EQ(opens[1].since_exclusive, 9);
}

TEST(LegacyRows, DeletedRowsGetNoNumber) {
  CacheBox box;
  Cache cache(box.config);
  make_legacy_table(cache, kPartition, id_and_text());
  const auto first = append_as_other(cache, kPartition, rows_from_to(1, 4));
  const auto second = append_as_other(cache, kPartition, rows_from_to(5, 5));
  append_as_other(cache, kPartition, rows_from_to(6, 6));
  delete_as_other(cache, kPartition, first, 1);
  delete_as_other(cache, kPartition, second, 0);
  const auto read = read_sequenced(cache, kPartition);
  EXPECT_EQ(ids_in(read.rows), (std::vector<int64_t>{1, 3, 4, 6}));
  EXPECT_EQ(read.after, range(-3, 0));
  // A file of which no row is left is no reason to look again.
  const auto third = append_as_other(cache, kPartition, rows_from_to(7, 7));
  delete_as_other(cache, kPartition, third, 0);
  EXPECT_EQ(read_sequenced(cache, kPartition).after, range(-3, 0));
  const int64_t version = version_of(cache);
  EXPECT_EQ(read_sequenced(cache, kPartition).after, range(-3, 0));
  EXPECT_EQ(version_of(cache), version);
}

TEST(LegacyRows, APartitionedTableKeepsItsPartitionsAndOneOrder) {
  CacheBox box;
  Cache cache(box.config);
  make_legacy_table(cache, kPartition, id_and_text(), "2",
                    iceberg::make_partition_spec({{"text", "identity"}}, id_and_text()));
  append_as_other(cache, kPartition, {R"({"id":1,"text":"a"})", R"({"id":2,"text":"a"})"});
  append_as_other(cache, kPartition, {R"({"id":3,"text":"b"})"});
  append_as_other(cache, kPartition, {R"({"id":4,"text":"a"})"});
  const auto read = read_sequenced(cache, kPartition, {.columns = {"id"}});
  EXPECT_EQ(ids_in(read.rows), range(1, 4));
  EXPECT_EQ(read.after, range(-3, 0));
  ingest(cache, {make_frame("logs", "s", {R"({"id":5,"text":"b"})"})});
  EXPECT_EQ(ids_in(read_sequenced(cache, kPartition, {.columns = {"id"}}).rows), range(1, 5));
}

TEST(LegacyRows, CopiesOfACacheNumberThemAlike) {
  CacheBox box;
  {
    Cache cache(box.config);
    make_nine(cache);
  }
  const std::string copy = box.folder / "copy";
  fs::copy(box.config.cache_root, copy, fs::copy_options::recursive);
  std::vector<std::string> opens, rows;
  for (int i = 0; i < 2; ++i) {
    Cache cache(box.config);
    if (i == 1) ingest(cache, {make_frame("logs", "s", {row(20)})});  // nor does what came since change it
    const auto read = read_sequenced(cache, kPartition, {.until = 0});
    EXPECT_EQ(read.after, range(-8, 0));
    opens.push_back(property_of(cache, kLegacyOpenProperty));
    std::string text;
    for (const Json& one : whole_rows(cache, kPartition)) {
      if (one[kIngestSeqColumn].get<int64_t>() <= 0) text += one.dump() + "\n";
    }
    rows.push_back(text);
    fs::remove_all(box.config.cache_root);
    fs::rename(copy, box.config.cache_root);
    fs::create_directories(copy);
  }
  EXPECT_EQ(opens[0].size(), 36u);
  EXPECT_EQ(opens[0], opens[1]);
  EXPECT_EQ(rows[0], rows[1]);
}

TEST(LegacyRows, CopiesThatLostDifferentRowsDoNotTakeThemForTheSame) {
  std::set<std::string> opens;
  CacheBox box;
  std::optional<iceberg::DataFile> file;
  {
    Cache cache(box.config);
    make_legacy_table(cache, kPartition, id_and_text());
    file = append_as_other(cache, kPartition, rows_from_to(1, 3));
  }
  const std::string saved = box.folder / "saved";
  fs::copy(box.config.cache_root, saved, fs::copy_options::recursive);
  for (const int64_t deleted : {0, 2}) {
    fs::remove_all(box.config.cache_root);
    fs::copy(saved, box.config.cache_root, fs::copy_options::recursive);
    Cache cache(box.config);
    delete_as_other(cache, kPartition, *file, deleted);
    EXPECT_EQ(read_sequenced(cache, kPartition).after, range(-1, 0));
    opens.insert(property_of(cache, kLegacyOpenProperty));
  }
  EXPECT_EQ(opens.size(), 2u);
}

TEST(LegacyRows, AHiddenColumnOfAnotherTypeIsRefusedByName) {
  CacheBox box;
  Cache cache(box.config);
  std::vector<iceberg::Field> fields = id_and_text().fields();
  fields.push_back(optional_field(3, kIngestSeqColumn, iceberg::TypeId::string));
  make_legacy_table(cache, kPartition, iceberg::Schema(fields));
  append_as_other(cache, kPartition, rows_from_to(1, 3));
  const int64_t version = version_of(cache);
  try {
    number_legacy_rows(cache, kPartition);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::schema_mismatch);
    EXPECT_NE(std::string(e.what()).find(kIngestSeqColumn), std::string::npos) << e.what();
  }
  EXPECT_EQ(version_of(cache), version);
}

TEST(LegacyRows, AnEmptyTableOfAnotherSystemTakesRows) {
  CacheBox box;
  Cache cache(box.config);
  make_legacy_table(cache, kPartition, id_and_text());
  EXPECT_TRUE(read_sequenced(cache, kPartition).rows.empty());
  ingest(cache, {make_frame("logs", "s", {row(1)})});
  EXPECT_EQ(read_sequenced(cache, kPartition).after, range(1, 1));
  append_as_other(cache, kPartition, {row(2)});
  EXPECT_GT(read_sequenced(cache, kPartition).after.back(), 1);
}

TEST(LegacyRows, EveryRowIsNumberedOnceWhereverTheProcessDies) {
  CacheBox box;
  const std::string saved = box.folder / "saved";
  std::optional<iceberg::DataFile> file;
  ASSERT_EQ(run_in_child([&] {
              Cache cache(box.config);
              make_nine(cache);
            }),
            0);
  fs::copy(box.config.cache_root, saved, fs::copy_options::recursive);
  const auto work = [&] {
    Cache cache(box.config);
    number_legacy_rows(cache, kPartition);
    append_as_other(cache, kPartition, {row(10)});
    number_legacy_rows(cache, kPartition);
  };
  const auto restore = [&] {
    fs::remove_all(box.config.cache_root);
    fs::copy(saved, box.config.cache_root, fs::copy_options::recursive);
  };
  const auto points = fault_points_of(work);
  ASSERT_GE(points.size(), 15u);
  EXPECT_EQ(std::count(points.begin(), points.end(), "legacy.rows-written"), 2);
  for (const Crash crash : {Crash::process, Crash::power}) {
    for (size_t point = 0; point < points.size(); ++point) {
      SCOPED_TRACE(fmt::format("{} at {} ({})", to_text(crash), point, points[point]));
      restore();
      run_killed_at(point, crash, work);
      ASSERT_EQ(run_in_child([&] {
                  Cache cache(box.config);
                  const auto read = read_sequenced(cache, kPartition);
                  auto ids = ids_in(read.rows);
                  if (ids.size() == 9) ids.push_back(10);
                  if (ids != range(1, 10)) fail(ErrorKind::internal, "rows {}", fmt::join(ids, ","));
                  const std::vector<int64_t> legacy(read.after.begin(), read.after.begin() + 9);
                  if (legacy != range(-8, 0)) fail(ErrorKind::internal, "numbers {}", fmt::join(read.after, ","));
                  if (read.after.size() > 9 && read.after[9] < 1) fail(ErrorKind::internal, "{}", read.after[9]);
                }),
                0);
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(LegacyRows, ProcessesThatMeetATableAtOnceMakeItOursOnceAndFlushIntoIt) {
  for (int round = 0; round < 5; ++round) {
    CacheBox box;
    {
      Cache cache(box.config);
      make_nine(cache);
    }
    EXPECT_EQ(run_in_children(4,
                              [&](int index) {
                                Cache cache(box.config);
                                if (index < 2) {
                                  read_sequenced(cache, kPartition);
                                } else {
                                  ingest(cache, {make_frame("logs", "s", {row(20)})});
                                }
                              }),
              0);
    Cache cache(box.config);
    const auto read = read_sequenced(cache, kPartition);
    EXPECT_EQ(ids_in(read.rows), (std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 20, 20}));
    EXPECT_EQ(std::vector(read.after.begin(), read.after.begin() + 9), range(-8, 0));
    EXPECT_EQ(legacy_table(cache, kPartition)->load().metadata->schema().fields().size(), 5u);
  }
}

}  // namespace
}  // namespace firn::hyp
