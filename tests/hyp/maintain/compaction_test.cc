#include "hyp/maintain/compaction.h"

#include <sys/stat.h>

#include <random>

#include <gmock/gmock.h>

#include "hyp/cache/legacy_rows.h"
#include "hyp/cache/legacy_table.h"
#include "hyp/maintain/compaction_box.h"
#include "hyp/maintain/compaction_plan.h"
#include "iceberg/metadata/changes.h"
#include "support/crash.h"

namespace firn::hyp {
namespace {

using iceberg::RowMode;
using NumberedRows = std::vector<std::pair<int64_t, std::string>>;

struct Compaction : testing::Test {
  PreferMemory prefer_memory;
  CacheBox box;
  CompactionReport compact(Cache& cache, const PartitionId& partition = kLogs) {
    CompactionReport report = compact_partition(cache, partition);
    EXPECT_TRUE(report.swapped) << report.note;
    return report;
  }
};

TEST_F(Compaction, ManySmallFilesBecomeOneAndEveryRowKeepsItsNumberAndPlace) {
  Cache cache(box.config);
  flush_many(cache, 20, 7);
  const NumberedRows before = numbered_rows(cache);
  const std::string generation = generation_of(cache);
  const CompactionReport report = compact(cache);
  EXPECT_EQ(report.files_before, 20);
  EXPECT_EQ(report.files_rewritten, 20);
  EXPECT_EQ(report.files_after, 1);
  EXPECT_EQ(report.rows, 140);
  EXPECT_EQ(data_files_of(cache).size(), 1u);
  EXPECT_NE(generation_of(cache), generation);
  EXPECT_EQ(numbered_rows(cache), before);
  EXPECT_EQ(cached_rows(cache, kLogs).size(), 140u);
  EXPECT_EQ(numbered_rows(Cache(box.config)), before) << "for another process";
  flush_rows(cache, some_rows(140, 3));
  EXPECT_EQ(numbered_rows(cache).size(), 143u);
  EXPECT_GT(numbered_rows(cache).at(140).first, before.back().first);
}

TEST_F(Compaction, APartitionedTableHasOneFileAPartitionAndTheSameRows) {
  box.declare("logs").cache_partitioning = {{"k", "identity"}};
  Cache cache(box.config);
  flush_many(cache, 6, 30, 5);
  const NumberedRows before = numbered_rows(cache);
  ASSERT_EQ(data_files_of(cache).size(), 30u);
  compact(cache);
  EXPECT_EQ(data_files_of(cache).size(), 5u);
  EXPECT_EQ(numbered_rows(cache), before);
  const auto only = iceberg::parse_expression("k = 'k3'");
  const auto held = cache.hold(kLogs);
  iceberg::ReadCounters counters;
  iceberg::ScanOptions scan;
  scan.filter = only;
  scan.counters = &counters;
  const auto rows = iceberg::scan(*held->table.metadata, held->operations->io(), scan);
  EXPECT_EQ(rows_of(*rows, held->table.metadata->schema()).size(), 36u);
  EXPECT_EQ(counters.files_opened, 1) << "files keep their partition";
}

TEST_F(Compaction, IncrementalReadsAreTheSameFromAnyNumberToAnyNumber) {
  box.declare("logs").cache_partitioning = {{"k", "identity"}};
  box.config.compaction.target_file_bytes = 4000;  // some files stay, some are rewritten
  Cache cache(box.config);
  flush_many(cache, 4, 5, 2);
  flush_rows(cache, some_rows(20, 200, 2));
  for (int64_t i = 0; i < 4; ++i) flush_rows(cache, some_rows(220 + i * 3, 3, 2));
  const NumberedRows all = numbered_rows(cache);
  compact(cache);
  for (size_t since = 0; since < all.size(); since += 13) {
    for (size_t until = since; until < all.size(); until += 29) {
      const NumberedRows expected(all.begin() + static_cast<ptrdiff_t>(since) + 1,
                                  all.begin() + static_cast<ptrdiff_t>(until) + 1);
      ASSERT_EQ(numbered_rows(cache, kLogs, {.since_exclusive = all[since].first, .until = all[until].first}),
                expected);
    }
  }
}

TEST_F(Compaction, AReadOfNewRowsStillDecodesOnlyThose) {
  Cache cache(box.config);
  flush_many(cache, 5, 2'000);
  const auto all = read_sequenced(cache, kLogs, {.columns = {"id"}});
  compact(cache);
  iceberg::ReadCounters counters;
  const int64_t since = all.after[all.after.size() - 101];
  EXPECT_EQ(read_sequenced(cache, kLogs, {.since_exclusive = since, .counters = &counters}).rows.size(), 100u);
  EXPECT_LE(counters.rows_decoded, 100 + 4096);
}

TEST_F(Compaction, SchemasFieldIdsAndPropertiesStay) {
  Cache cache(box.config);
  flush_many(cache, 3, 2);
  flush_rows(cache, {R"({"id":100,"later":true,"nested":{"a":1}})"});
  flush_rows(cache, {R"({"id":101,"nested":{"a":2,"b":"x"}})"});
  const auto before = *cache.hold(kLogs)->table.metadata;
  const NumberedRows rows = numbered_rows(cache);
  compact(cache);
  const auto after = *cache.hold(kLogs)->table.metadata;
  EXPECT_EQ(after.schema().to_json(), before.schema().to_json());
  EXPECT_EQ(after.schemas.size(), before.schemas.size());
  EXPECT_EQ(after.last_column_id, before.last_column_id);
  EXPECT_EQ(after.sort_order().to_json(), before.sort_order().to_json());
  EXPECT_EQ(after.properties, before.properties);
  EXPECT_NE(after.table_uuid, before.table_uuid);
  EXPECT_EQ(after.snapshots.size(), 1u);
  EXPECT_EQ(numbered_rows(cache), rows);
  // A column added now gets an id that no file has under another name.
  flush_rows(cache, {R"({"id":102,"latest":true})"});
  EXPECT_EQ(numbered_rows(cache).back().second, R"({"id":102,"latest":true})");
}

TEST_F(Compaction, TheMarkersOfSpoolsThatAreGoneGoAndTheOthersStay) {
  Cache cache(box.config);
  flush_many(cache, 2, 2);
  const std::string spool = list_spools(box.config.cache_root).at(0);
  const std::string live_marker = kFlushedPrefix + spool.substr(spool.rfind('/') + 1);
  const std::string dead_marker = std::string(kFlushedPrefix) + "0b9e6d1c-dead";
  iceberg::commit_metadata(*cache.hold(kLogs)->operations, [&](iceberg::TableMetadata& next) {
    return next.properties.emplace(dead_marker, "1,2").second;
  });
  compact(cache);
  EXPECT_TRUE(properties_of(cache).contains(live_marker));
  EXPECT_FALSE(properties_of(cache).contains(dead_marker));
}

TEST_F(Compaction, MembersOfTheCursorThatItDoesNotKnowStay) {
  Cache cache(box.config);
  flush_many(cache, 2, 2);
  const std::string path = cache.folder(kLogs) + "/cursor.json";
  Json cursor = Json::parse(make_local_file_io()->read(path));
  cursor["ofTomorrow"] = {{"a", 1}};
  replace_file(path, cursor.dump());
  const CompactionReport report = compact(cache);
  const Json after = Json::parse(make_local_file_io()->read(path));
  EXPECT_EQ(after["ofTomorrow"], cursor["ofTomorrow"]);
  EXPECT_EQ(after["cacheId"], cursor["cacheId"]);
  EXPECT_EQ(after["compaction"]["filesBefore"], 2);
  EXPECT_EQ(after["compaction"]["files"], 1);
  EXPECT_EQ(after["compaction"]["bytes"], report.bytes_after);
}

// --- which files are rewritten

TEST_F(Compaction, AFileNearTheTargetIsLinkedAndNotRewritten) {
  Cache cache(box.config);
  flush_rows(cache, some_rows(0, 3000));
  const std::set<ino_t> large = inodes_of(cache);
  const int64_t bytes = data_files_of(cache).at(0).file_size_bytes;
  for (int64_t i = 0; i < 5; ++i) flush_rows(cache, some_rows(3000 + i, 1));
  const NumberedRows before = numbered_rows(cache);

  Config config = box.config;
  config.compaction.target_file_bytes = bytes;
  Cache other(config);
  const CompactionReport report = compact(other);
  EXPECT_EQ(report.files_linked, 1);
  EXPECT_EQ(report.files_rewritten, 5);
  EXPECT_EQ(report.files_after, 2);
  EXPECT_THAT(inodes_of(other), testing::Contains(*large.begin()));
  EXPECT_EQ(numbered_rows(other), before);
  // It outlives the old generation.
  sweep_partition(other, kLogs, Sweep::all);
  EXPECT_EQ(list_generations(other.folder(kLogs)).size(), 1u);
  EXPECT_EQ(numbered_rows(other), before);
}

TEST_F(Compaction, AFileLargerThanTheOthersTogetherStaysThoughItIsSmall) {
  Cache cache(box.config);
  flush_rows(cache, some_rows(0, 2000));
  const std::set<ino_t> large = inodes_of(cache);
  for (int64_t i = 0; i < 3; ++i) flush_rows(cache, some_rows(2000 + i, 1));
  const CompactionReport report = compact(cache);
  EXPECT_EQ(report.files_rewritten, 3);
  EXPECT_THAT(inodes_of(cache), testing::Contains(*large.begin()));
  EXPECT_EQ(numbered_rows(cache).size(), 2003u);
}

TEST_F(Compaction, FilesComeOutNearTheTargetByTheBytesWritten) {
  box.config.compaction.target_file_bytes = 256 << 10;
  Cache cache(box.config);
  std::mt19937_64 random(7);
  for (int i = 0; i < 40; ++i) {  // about 36 KB each, which no codec makes smaller
    Lines lines;
    for (int row = 0; row < 60; ++row) {
      std::string text;
      for (int c = 0; c < 50; ++c) text += fmt::format("{:016x}", random());
      lines.push_back(fmt::format(R"({{"id":{},"text":"{}"}})", i * 60 + row, text));
    }
    flush_rows(cache, lines);
  }
  const NumberedRows before = numbered_rows(cache);
  compact(cache);
  EXPECT_EQ(numbered_rows(cache), before);
  std::vector<int64_t> sizes;
  for (const iceberg::DataFile& file : data_files_of(cache)) sizes.push_back(file.file_size_bytes);
  EXPECT_GT(sizes.size(), 2u);
  int64_t num_small = 0;
  for (const int64_t size : sizes) {
    EXPECT_LE(size, box.config.compaction.target_file_bytes * 9 / 5);
    num_small += size < box.config.compaction.target_file_bytes / 4 * 3 ? 1 : 0;
  }
  EXPECT_LE(num_small, 1) << fmt::format("{}", fmt::join(sizes, " "));
  EXPECT_FALSE(compact_partition(cache, kLogs).swapped) << "there is nothing to gain any more";
}

TEST_F(Compaction, DeletedRowsAreLeftOutOfWhatIsRewritten) {
  Cache cache(box.config);
  flush_many(cache, 5, 10);
  delete_live(cache, "id < 23", RowMode::merge_on_read);
  const NumberedRows before = numbered_rows(cache);
  ASSERT_EQ(before.size(), 27u);
  compact(cache);
  EXPECT_EQ(rows_hidden(cache), 0);
  EXPECT_EQ(numbered_rows(cache), before);
}

TEST_F(Compaction, ALinkedFileKeepsItsFewDeletedRowsDeletedAndOneWithManyIsRewritten) {
  Cache cache(box.config);
  flush_rows(cache, some_rows(0, 1000));
  flush_rows(cache, some_rows(1000, 1000));
  for (int64_t i = 0; i < 3; ++i) flush_rows(cache, some_rows(2000 + i, 1));
  delete_live(cache, "id < 100 or (id >= 1000 and id < 1500)", RowMode::merge_on_read);
  const NumberedRows before = numbered_rows(cache);
  Config config = box.config;
  config.compaction.target_file_bytes = data_files_of(cache).at(0).file_size_bytes;
  for (const iceberg::DataFile& file : data_files_of(cache))
    config.compaction.target_file_bytes = std::max(config.compaction.target_file_bytes, file.file_size_bytes);
  Cache other(config);
  const CompactionReport report = compact(other);
  EXPECT_EQ(report.files_linked, 1);
  EXPECT_EQ(rows_hidden(other), 100) << "of the linked file";
  EXPECT_EQ(report.rows, 1403);
  EXPECT_EQ(numbered_rows(other), before);
  sweep_partition(other, kLogs, Sweep::all);
  EXPECT_EQ(numbered_rows(other), before);
}

TEST_F(Compaction, WhereThereIsNothingToGainItSaysSo) {
  Cache cache(box.config);
  EXPECT_FALSE(compact_partition(cache, kLogs).swapped) << "no table";
  flush_rows(cache, some_rows(0, 3));
  const CompactionReport report = compact_partition(cache, kLogs);
  EXPECT_FALSE(report.swapped);
  EXPECT_EQ(report.note, "there is nothing to gain");
  EXPECT_EQ(list_generations(cache.folder(kLogs)).size(), 1u);
}

TEST_F(Compaction, APartitionWhoseRowsAreAllGoneGetsAnEmptyTableThatGoesOn) {
  Cache cache(box.config);
  flush_many(cache, 3, 3);
  const int64_t highest = numbered_rows(cache).back().first;
  {
    const At hook("compaction.written", [&] { delete_live(cache, "id >= 0", RowMode::merge_on_read); });
    EXPECT_EQ(compact(cache).files_after, 0);
  }
  EXPECT_TRUE(numbered_rows(cache).empty());
  flush_rows(cache, some_rows(50, 2));
  const NumberedRows after = numbered_rows(cache);
  ASSERT_EQ(after.size(), 2u);
  EXPECT_GT(after[0].first, highest);
}

// --- commits made meanwhile

// What happens to the live generation between the rewrite and the swap. `target` decides whether the two large files
// are linked or rewritten.
struct Meanwhile {
  const char* name;
  std::function<void(Cache&)> happens;
};

class CompactionMeanwhile : public testing::TestWithParam<std::tuple<Meanwhile, bool>> {};

TEST_P(CompactionMeanwhile, IsCarriedOver) {
  const auto& [meanwhile, links] = GetParam();
  const PreferMemory prefer_memory;
  CacheBox box;
  box.declare("logs").cache_partitioning = {{"k", "identity"}};
  {
    Cache cache(box.config);
    flush_rows(cache, some_rows(0, 400, 2));
    flush_many(cache, 4, 6, 2);
    flush_rows(cache, some_rows(1000, 400, 2));
    flush_rows(cache, some_rows(1400, 6, 2));
    delete_live(cache, "id in (3, 1003, 1401)", RowMode::merge_on_read);
    if (links) box.config.compaction.target_file_bytes = data_files_of(cache).at(0).file_size_bytes;
    for (const iceberg::DataFile& file : data_files_of(cache)) {
      if (links)
        box.config.compaction.target_file_bytes =
            std::max(box.config.compaction.target_file_bytes, file.file_size_bytes);
    }
  }
  Cache cache(box.config);
  NumberedRows expected;  // what the live generation holds at the end
  {
    const At hook("compaction.written", [&] {
      meanwhile.happens(cache);
      expected = numbered_rows(cache);
    });
    const CompactionReport report = compact_partition(cache, kLogs);
    ASSERT_TRUE(report.swapped) << report.note;
    ASSERT_TRUE(hook.happened());
    if (links) {
      EXPECT_GT(report.files_linked, 0);
    }
    if (!links && meanwhile.name == std::string("Nothing")) {
      EXPECT_EQ(report.files_linked, 0);
    }
  }
  EXPECT_EQ(numbered_rows(cache), expected);
  EXPECT_EQ(cached_rows(cache, kLogs).size(), expected.size());
  sweep_partition(cache, kLogs, Sweep::all);
  EXPECT_EQ(list_generations(cache.folder(kLogs)).size(), 1u);
  EXPECT_EQ(numbered_rows(Cache(box.config)), expected);
  // Nothing but what the head names is left.
  std::set<std::string> named;
  for (const iceberg::LiveFile& live : live_files_of(cache)) named.insert(live.file.file_path);
  for (const FileInfo& file : make_local_file_io()->list(cache.hold(kLogs)->operations->location() + "/data", true))
    EXPECT_TRUE(named.contains(file.path)) << file.path;
  flush_rows(cache, some_rows(5000, 1));
  EXPECT_EQ(numbered_rows(cache).size(), expected.size() + 1);
}

const std::vector<Meanwhile> kMeanwhile = {
    {"Nothing", [](Cache&) {}},
    {"Flushes",
     [](Cache& cache) {
       for (int64_t i = 0; i < 3; ++i) flush_rows(cache, some_rows(2000 + i * 4, 4, 2));
     }},
    {"FlushThatAddsColumnsAndAKey",
     [](Cache& cache) {
       flush_rows(cache, {R"({"id":2000,"k":"new","more":1})", R"({"id":2001,"k":"k0","some":{"x":[1,2]}})"});
     }},
    {"RetentionByDeletionVector",
     [](Cache& cache) { delete_live(cache, "id < 100 or id = 1402 or id in (1004, 1100)", RowMode::merge_on_read); }},
    {"RetentionTwice",
     [](Cache& cache) {
       delete_live(cache, "id < 50", RowMode::merge_on_read);
       delete_live(cache, "id < 350", RowMode::merge_on_read);
     }},
    {"RetentionByWholeFile", [](Cache& cache) { delete_live(cache, "id < 400", RowMode::merge_on_read); }},
    {"Purge", [](Cache& cache) { delete_live(cache, "id in (7, 20, 1007, 1404)", RowMode::copy_on_write); }},
    {"PurgeOfAKey", [](Cache& cache) { delete_live(cache, "k = 'k1'", RowMode::copy_on_write); }},
    {"FlushesRetentionAndPurge",
     [](Cache& cache) {
       flush_rows(cache, some_rows(2000, 10, 2));
       delete_live(cache, "id < 100 or id = 2001", RowMode::merge_on_read);
       delete_live(cache, "id in (120, 2003, 1010)", RowMode::copy_on_write);
       flush_rows(cache, some_rows(2100, 10, 2));
       delete_live(cache, "id = 2101 or id = 121", RowMode::merge_on_read);
     }},
    {"SchemaAndProperties",
     [](Cache& cache) {
       iceberg::commit_metadata(*cache.hold(kLogs)->operations, [](iceberg::TableMetadata& next) {
         const bool changed = iceberg::update_schema(next, [](iceberg::SchemaUpdate& update) {
           update.add_column({.name = "added", .type = iceberg::Type::primitive(iceberg::TypeId::long_)});
         });
         next.properties["firn.something"] = "kept";
         return changed;
       });
     }},
};

INSTANTIATE_TEST_SUITE_P(Commits, CompactionMeanwhile, testing::Combine(testing::ValuesIn(kMeanwhile), testing::Bool()),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param).name) +
                                  (std::get<1>(info.param) ? "WithLargeFilesLinked" : "WithAllRewritten");
                         });

TEST_F(Compaction, PropertiesSetMeanwhileAndFlushMarkersAreCarriedOver) {
  Cache cache(box.config);
  flush_many(cache, 3, 3);
  std::map<std::string, std::string> expected;
  {
    const At hook("compaction.written", [&] {
      flush_rows(cache, some_rows(100, 2));
      iceberg::commit_metadata(*cache.hold(kLogs)->operations, [](iceberg::TableMetadata& next) {
        return next.properties.emplace("firn.something", "kept").second;
      });
      expected = properties_of(cache);
    });
    compact(cache);
  }
  EXPECT_EQ(properties_of(cache), expected);
  EXPECT_EQ(expected.at("firn.something"), "kept");
}

TEST_F(Compaction, AnotherProgramsDeletesByValueMeanwhileMakeItGiveUpAndTheNextOneAppliesThem) {
  Cache cache(box.config);
  flush_many(cache, 3, 10);
  {
    const At hook("compaction.written", [&] {
      const auto held = cache.hold(kLogs);
      const auto& metadata = *held->table.metadata;
      iceberg::WriteOptions options;
      options.equality_ids = {metadata.schema().find_field(std::string_view("id"))->id};
      iceberg::AppendWriter writer(held->operations->io(), metadata, options);
      const iceberg::Schema columns({*metadata.schema().find_field(std::string_view("id"))});
      arrow::Int64Builder ids;
      check(ids.Append(4), "test");
      writer.write(arrow::RecordBatch::Make(iceberg::to_arrow_schema(columns), 1, {check(ids.Finish(), "test")}));
      iceberg::SnapshotChange change;
      change.operation = "delete";
      change.added = writer.finish();
      change.written_schema = metadata.schema();
      change.read_check = iceberg::ReadCheck{.since_snapshot_id = metadata.current_snapshot_id};
      iceberg::commit_snapshot(*held->operations, change);
    });
    const CompactionReport report = compact_partition(cache, kLogs);
    EXPECT_FALSE(report.swapped);
    EXPECT_THAT(report.note, testing::HasSubstr("another program deleted rows by their values"));
  }
  EXPECT_EQ(list_generations(cache.folder(kLogs)).size(), 1u) << "what was written for nothing is removed";
  const NumberedRows before = numbered_rows(cache);
  EXPECT_EQ(before.size(), 29u);
  compact(cache);
  EXPECT_EQ(numbered_rows(cache), before);
}

Lines operator+(Lines a, const Lines& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// --- duplicates

struct Dedupe : Compaction {
  Lines repeated(int times) {
    Lines lines;
    for (int i = 0; i < times; ++i) lines.push_back(R"({"id":1,"text":"same"})");
    return lines;
  }
};

TEST_F(Dedupe, EqualRowsStayUnlessTheDatasetSaysOtherwise) {
  Cache cache(box.config);
  for (int i = 0; i < 3; ++i) flush_rows(cache, repeated(2));
  compact(cache);
  EXPECT_EQ(numbered_rows(cache).size(), 6u);
}

TEST_F(Dedupe, OfRowsWithEqualContentTheLowestNumberStays) {
  box.declare("logs").dedupe_content = true;
  Cache cache(box.config);
  flush_rows(cache, {R"({"id":1})", R"({"id":2})", R"({"id":1})"});
  flush_rows(cache, {R"({"id":3})", R"({"id":2})"});
  flush_rows(cache, {R"({"id":2})", R"({"id":4})", R"({"id":1})", R"({"id":3})"});
  const NumberedRows before = numbered_rows(cache);
  const CompactionReport report = compact(cache);
  EXPECT_EQ(report.duplicates_dropped, 5);
  EXPECT_EQ(numbered_rows(cache), (NumberedRows{before[0], before[1], before[3], before[6]}));
}

TEST_F(Dedupe, DuplicatesInAFileThatIsLinkedAreHidden) {
  box.declare("logs").dedupe_content = true;
  Cache cache(box.config);
  Lines lines = some_rows(0, 2000);
  lines.push_back(lines[3]);
  lines.push_back(lines[4]);
  flush_rows(cache, lines);
  const std::set<ino_t> large = inodes_of(cache);
  flush_rows(cache, {lines[5], R"({"id":9000})"});
  const NumberedRows before = numbered_rows(cache);
  box.config.compaction.target_file_bytes = data_files_of(cache).at(1).file_size_bytes;
  Cache other(box.config);
  const CompactionReport report = compact(other);
  EXPECT_EQ(report.duplicates_dropped, 3);
  EXPECT_THAT(inodes_of(other), testing::Contains(*large.begin()));
  NumberedRows expected(before.begin(), before.begin() + 2000);
  expected.push_back(before.back());
  EXPECT_EQ(numbered_rows(other), expected);
}

TEST_F(Dedupe, ARowThatASinkHasAnnouncedStaysUntilItIsThere) {
  box.declare("logs").dedupe_content = true;
  SinkConfig sink;
  sink.name = "out";
  sink.path = box.folder / "out";
  box.config.sinks.push_back(sink);
  Cache cache(box.config);
  for (int i = 0; i < 3; ++i) flush_rows(cache, repeated(2));
  const NumberedRows before = numbered_rows(cache);
  announce(cache, "out", before[1].first, before[3].first);
  EXPECT_EQ(compact(cache).duplicates_dropped, 3);
  EXPECT_EQ(numbered_rows(cache), (NumberedRows{before[0], before[2], before[3]}));
  save_watermark(watermark_path(box.config.state_dir, "out", kLogs), {.seq = before[3].first});
  flush_rows(cache, repeated(1));
  EXPECT_EQ(compact(cache).duplicates_dropped, 3);
  EXPECT_EQ(numbered_rows(cache), (NumberedRows{before[0]}));
}

TEST_F(Dedupe, ARowAnnouncedWhileItWasLeftOutComesBack) {
  box.declare("logs").dedupe_content = true;
  SinkConfig sink;
  sink.name = "out";
  sink.path = box.folder / "out";
  box.config.sinks.push_back(sink);
  for (const bool links : {false, true}) {
    SCOPED_TRACE(links ? "linked" : "rewritten");
    const PartitionId partition{"logs", links ? "linked" : "rewritten"};
    Config config = box.config;
    {
      Cache cache(config);
      Lines lines = some_rows(0, 1000);
      lines.insert(lines.begin() + 500, lines.begin(), lines.begin() + 3);
      flush_rows(cache, lines, partition);
      flush_rows(cache, some_rows(1000, 1000) + Lines{lines[7]}, partition);
      flush_rows(cache, Lines{lines[8]} + some_rows(2000, 1000), partition);
      for (const iceberg::DataFile& file : data_files_of(cache, partition)) {
        if (links)
          config.compaction.target_file_bytes = std::min(config.compaction.target_file_bytes, file.file_size_bytes);
      }
    }
    Cache cache(config);
    const NumberedRows before = numbered_rows(cache, partition);
    const At hook("compaction.written", [&] {
      announce(cache, "out", before.front().first, before.back().first, partition);
      delete_live(cache, "id = 999", RowMode::merge_on_read, partition);
    });
    const CompactionReport report = compact(cache, partition);
    EXPECT_EQ(report.files_linked, links ? 3 : 0);
    NumberedRows all = before;
    std::erase_if(all, [](const auto& row) { return row.second.find("\"id\":999,") != std::string::npos; });
    EXPECT_EQ(report.duplicates_dropped, 0);
    EXPECT_EQ(numbered_rows(cache, partition), all);
  }
}

TEST_F(Dedupe, ManyRowsAreComparedInLittleMemory) {
  box.declare("logs").dedupe_content = true;
  box.config.compaction.memory_bytes_max = 1 << 20;
  Cache cache(box.config);
  Lines lines = some_rows(0, 12'000);
  flush_rows(cache, lines);
  std::mt19937 random(3);
  std::shuffle(lines.begin(), lines.end(), random);
  lines.push_back(R"({"id":-1})");
  flush_rows(cache, lines);
  const NumberedRows before = numbered_rows(cache);
  const CompactionReport report = compact(cache);
  EXPECT_EQ(report.duplicates_dropped, 12'000);
  NumberedRows expected(before.begin(), before.begin() + 12'000);
  expected.push_back(before.back());
  EXPECT_EQ(numbered_rows(cache), expected);
}

// --- rows of other systems

TEST_F(Compaction, RowsWithoutANumberGetTheirsFirst) {
  Cache cache(box.config);
  make_legacy_table(cache, kLogs, id_and_text());
  for (int i = 0; i < 4; ++i)
    append_as_other(cache, kLogs, {fmt::format(R"({{"id":{},"text":"a"}})", i), fmt::format(R"({{"id":{}}})", 10 + i)});
  for (int i = 0; i < 4; ++i) flush_rows(cache, {fmt::format(R"({{"id":{}}})", 20 + i)});
  const Lines before = cached_rows(cache, kLogs);
  ASSERT_EQ(before.size(), 12u);
  compact(cache);
  EXPECT_EQ(data_files_of(cache).size(), 1u);
  EXPECT_EQ(cached_rows(cache, kLogs), before);
  const SequencedRows read = read_sequenced(cache, kLogs);
  EXPECT_EQ(read.rows.size(), 12u);
  EXPECT_TRUE(std::is_sorted(read.after.begin(), read.after.end(), std::less_equal<>()));
}

TEST_F(Compaction, ACacheThatWasMovedIsCompactedWhereItIs) {
  {
    Cache cache(box.config);
    flush_rows(cache, some_rows(0, 2000));
    flush_many(cache, 3, 3);
    delete_live(cache, "id = 1000", RowMode::merge_on_read);
  }
  const std::string moved = box.folder / "moved";
  fs::rename(box.config.cache_root, moved);
  box.config.cache_root = moved;
  Cache cache(box.config);
  const NumberedRows before = numbered_rows(cache);
  EXPECT_EQ(compact(cache).files_linked, 1);
  EXPECT_EQ(numbered_rows(cache), before);
  for (const iceberg::DataFile& file : data_files_of(cache)) EXPECT_TRUE(file.file_path.starts_with(moved + "/"));
}

// --- readers and other compactors

TEST_F(Compaction, AReaderKeepsReadingTheGenerationThatItBeganWith) {
  Cache cache(box.config);
  flush_many(cache, 5, 10);
  const NumberedRows before = numbered_rows(cache);
  auto reader = std::make_unique<SequencedReader>(cache, kLogs, ReadOptions{.batch_rows_max = 4});
  int64_t rows = reader->next()->rows->num_rows();
  std::optional<SequencedReader> during;
  {
    const At hook("compaction.before-swap", [&] { during.emplace(cache, kLogs, ReadOptions{.batch_rows_max = 4}); });
    compact(cache);
  }
  rows += reader->next()->rows->num_rows();
  EXPECT_EQ(sweep_partition(cache, kLogs, Sweep::all).generations_waiting, 1);
  while (const auto batch = reader->next()) rows += batch->rows->num_rows();
  EXPECT_EQ(rows, 50);
  rows = 0;
  while (const auto batch = during->next()) rows += batch->rows->num_rows();
  EXPECT_EQ(rows, 50);
  reader = nullptr;
  EXPECT_EQ(sweep_partition(cache, kLogs, Sweep::all).generations_removed, 0) << "one of the two reads yet";
  during.reset();
  EXPECT_EQ(sweep_partition(cache, kLogs, Sweep::all).generations_removed, 1);
  EXPECT_EQ(numbered_rows(cache), before);
}

TEST_F(Compaction, OneCompactorWorksOnAPartitionAtATime) {
  Cache cache(box.config), other(box.config);
  flush_many(cache, 5, 10);
  const NumberedRows before = numbered_rows(cache);
  CompactionReport second;
  {
    const At hook("compaction.linked", [&] { second = compact_partition(other, kLogs); });
    compact(cache);
  }
  EXPECT_FALSE(second.swapped);
  EXPECT_THAT(second.note, testing::HasSubstr("another process compacts it"));
  EXPECT_EQ(numbered_rows(cache), before);
}

TEST_F(Compaction, FlushesAndCompactionsOfSeveralProcessesLoseAndDoubleNothing) {
  constexpr int kFlushes = 12, kRows = 10;
  {
    Cache cache(box.config);
    flush_rows(cache, some_rows(1'000'000, 5));
  }
  const int failed = run_in_children(4, [&](int index) {
    Cache cache(box.config);
    if (index >= 2) {
      for (int i = 0; i < 15; ++i) {
        compact_partition(cache, kLogs);
        sweep_partition(cache, kLogs, Sweep::all);
      }
      return;
    }
    for (int i = 0; i < kFlushes; ++i) flush_rows(cache, some_rows((index * kFlushes + i) * kRows, kRows));
  });
  EXPECT_EQ(failed, 0);
  Cache cache(box.config);
  const NumberedRows rows = numbered_rows(cache);
  EXPECT_EQ(rows.size(), static_cast<size_t>(2 * kFlushes * kRows + 5));
  std::set<std::string> distinct;
  for (const auto& row : rows) distinct.insert(row.second);
  EXPECT_EQ(distinct.size(), rows.size());
  EXPECT_TRUE(std::is_sorted(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.first < b.first; }));
}

TEST_F(Compaction, OneThatIsStoppedChangesNothing) {
  Cache cache(box.config);
  flush_many(cache, 5, 10);
  const NumberedRows before = numbered_rows(cache);
  const std::atomic<bool> cancelled{true};
  try {
    compact_partition(cache, kLogs, &cancelled);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::cancelled);
  }
  EXPECT_EQ(numbered_rows(cache), before);
  EXPECT_EQ(list_generations(cache.folder(kLogs)).size(), 1u);
}

// --- memory

TEST_F(Compaction, MemoryFollowsTheBudgetNotThePartition) {
  constexpr int64_t kBudget = 8 << 20;
  box.config.compaction.memory_bytes_max = kBudget;
  ASSERT_EQ(run_in_child([&] {
              Cache cache(box.config);
              std::mt19937_64 random(7);
              for (int i = 0; i < 12; ++i) {  // 4 MB of text each
                Lines lines;
                for (int row = 0; row < 4'000; ++row) {
                  std::string text;
                  for (int c = 0; c < 60; ++c) text += fmt::format("{:016x}", random() & 0xffff0000ffffULL);
                  lines.push_back(fmt::format(R"({{"id":{},"text":"{}"}})", i * 4'000 + row, text));
                }
                flush_rows(cache, lines);
              }
            }),
            0);
  EXPECT_EQ(run_in_child([&] {
              Cache cache(box.config);
              const CompactionReport report = compact_partition(cache, kLogs);
              const int64_t peak = arrow::default_memory_pool()->max_memory();
              if (!report.swapped || report.rows != 48'000) fail(ErrorKind::internal, "{}", report.note);
              if (peak > 3 * kBudget) fail(ErrorKind::internal, "Arrow held {} bytes", peak);
            }),
            0);
}

// --- crashes

struct CompactionCrash : testing::Test {
  PreferMemory prefer_memory;
  CacheBox box;
  std::string saved = box.folder / "saved";
  static void copy(const std::string& from, const std::string& to) {
    fs::remove_all(to);
    fs::copy(from, to, fs::copy_options::recursive);
  }
};

TEST_F(CompactionCrash, RowsAreIntactAndNothingIsLeftWhereverTheProcessDies) {
  box.declare("logs").cache_partitioning = {{"k", "identity"}};
  box.declare("logs").dedupe_content = true;
  box.config.compaction.target_file_bytes = 6'000;
  NumberedRows expected;
  ASSERT_EQ(run_in_child([&] {
              Cache cache(box.config);
              flush_rows(cache, some_rows(0, 300, 2));
              flush_many(cache, 3, 4, 2);
              delete_live(cache, "id in (10, 13)", RowMode::merge_on_read);
            }),
            0);
  const auto compact_and_sweep = [&] {
    Cache cache(box.config);
    compact_partition(cache, kLogs);
    sweep_partition(cache, kLogs, Sweep::all);
  };
  copy(box.config.cache_root, saved);
  const auto points = fault_points_of(compact_and_sweep);
  {
    Cache cache(box.config);
    expected = numbered_rows(cache);
    ASSERT_EQ(expected.size(), 298u);
    ASSERT_EQ(generation_of(cache), "table-2");
  }
  ASSERT_GE(points.size(), 60u);
  for (size_t point = 0; point < points.size(); ++point) {
    // Of many alike in a row (files of the old generation that are removed) the first and the last.
    const bool is_within = point > 0 && point + 1 < points.size() && points[point] == points[point - 1] &&
                           points[point] == points[point + 1];
    if (is_within) continue;
    for (const Crash crash : {Crash::process, Crash::power, Crash::power_later}) {
      // Those of the swap both ways, the others by turns.
      const bool is_ours = points[point].starts_with("compaction.") || points[point].starts_with("io.replace.");
      if (crash == Crash::power_later && !leaves_undurable(points[point])) continue;
      if (!is_ours && crash != Crash::power_later && (point % 2 == 0) != (crash == Crash::process)) continue;
      SCOPED_TRACE(fmt::format("{} at {} ({})", to_text(crash), point, points[point]));
      copy(saved, box.config.cache_root);
      run_killed_at(point, crash, compact_and_sweep);
      std::set<std::string> visible;
      {
        Cache cache(box.config);
        for (const auto& row : numbered_rows(cache)) visible.insert(row.second);
        ASSERT_EQ(visible.size(), 298u) << "what a reader sees before the restart";
        flush_rows(cache, {R"({"id":7777,"k":"k0"})"});
      }
      ASSERT_EQ(run_in_child(compact_and_sweep), 0);
      Cache cache(box.config);
      NumberedRows rows = numbered_rows(cache);
      ASSERT_EQ(rows.back().second, R"({"id":7777,"k":"k0"})");
      rows.pop_back();
      if (generation_of(cache) != "table-1") {
        ASSERT_EQ(rows, expected);
      }
      ASSERT_EQ(list_generations(cache.folder(kLogs)), Lines{generation_of(cache)});
    }
  }
}

}  // namespace
}  // namespace firn::hyp
