#include <gtest/gtest.h>

#include "hyp/cache/cache_box.h"
#include "hyp/cache/layout.h"
#include "hyp/cache/sequence_plan.h"
#include "hyp/cache/visible_schema.h"
#include "iceberg/commit/commit.h"
#include "iceberg/parquet/arrow_schema.h"
#include "iceberg/write/append_writer.h"

namespace firn::hyp {
namespace {

const PartitionId kPartition{"logs", "s"};

Lines numbered(int64_t first, int64_t count) {
  Lines lines;
  for (int64_t i = 0; i < count; ++i)
    lines.push_back(fmt::format(R"({{"id":{},"text":"row {}"}})", first + i, first + i));
  return lines;
}

std::vector<int64_t> ids_of(const SequencedRows& read) {
  std::vector<int64_t> ids;
  for (const std::string& row : read.rows) ids.push_back(Json::parse(row)["id"].get<int64_t>());
  return ids;
}

std::vector<int64_t> from_to(int64_t first, int64_t last) {
  std::vector<int64_t> numbers;
  for (int64_t i = first; i <= last; ++i) numbers.push_back(i);
  return numbers;
}

TEST(Reads, RowsAboveTheWatermarkUpToTheBoundComeInOrder) {
  CacheBox box;
  Cache cache(box.config);
  for (int i = 0; i < 4; ++i) ingest(cache, {make_frame("logs", "s", numbered(i * 10, 10))});
  const auto all = read_sequenced(cache, kPartition);
  EXPECT_EQ(ids_of(all), from_to(0, 39));
  for (const size_t since : {0u, 5u, 9u, 10u, 38u, 39u}) {
    for (const size_t until : {5u, 20u, 39u}) {
      const auto read =
          read_sequenced(cache, kPartition, {.since_exclusive = all.after[since], .until = all.after[until]});
      EXPECT_EQ(ids_of(read), from_to(static_cast<int64_t>(since) + 1, static_cast<int64_t>(until)));
    }
  }
  EXPECT_EQ(SequencedReader(cache, kPartition, {}).max_seq(), all.after.back());
}

TEST(Reads, APartitionWithoutATableHasNoRows) {
  CacheBox box;
  Cache cache(box.config);
  SequencedReader reader(cache, kPartition, {});
  EXPECT_FALSE(reader.next());
  EXPECT_EQ(reader.max_seq(), 0);
  EXPECT_TRUE(reader.schema().fields().empty());
  EXPECT_TRUE(rows_of(*read_rows(cache, kPartition, {}), {}).empty());
  EXPECT_FALSE(cache.hold(kPartition));
}

TEST(Reads, HiddenColumnsNeverLeave) {
  CacheBox box;
  Cache cache(box.config);
  ingest(cache, {make_frame("logs", "s", {R"({"a":1,"b":2})", "{}"})});
  EXPECT_EQ(read_rows(cache, kPartition, {})->schema()->field_names(), (Lines{"a", "b"}));
  EXPECT_EQ(read_rows(cache, kPartition, {.columns = {"b"}})->schema()->field_names(), Lines{"b"});
  EXPECT_EQ(SequencedReader(cache, kPartition, {.columns = {"b"}}).next()->rows->schema()->field_names(), Lines{"b"});
  EXPECT_THROW(SequencedReader(cache, kPartition, {.columns = {kIngestSeqColumn}}), Error);
  EXPECT_THROW(read_rows(cache, kPartition, {.columns = {kRowIdColumn}}), Error);
}

TEST(Reads, RowsWithoutAnyColumnAreRows) {
  CacheBox box;
  Cache cache(box.config);
  ingest(cache, {make_frame("logs", "s", {"{}", "{}"})});
  EXPECT_EQ(read_sequenced(cache, kPartition).rows, (Lines{"{}", "{}"}));
  EXPECT_EQ(cached_rows(cache, kPartition).size(), 2u);
}

TEST(Reads, NewRowsCostTheSameHoweverLargeThePartitionIs) {
  CacheBox box;
  Cache cache(box.config);
  constexpr int64_t kPage = 4096;
  int64_t next_id = 0;
  for (const int64_t grown_by : {100, 30'000}) {
    for (int flushes = 0; flushes < 3; ++flushes, next_id += grown_by) {
      ingest(cache, {make_frame("logs", "s", numbered(next_id, grown_by))});
    }
    const int64_t since = SequencedReader(cache, kPartition, {}).max_seq();
    ingest(cache, {make_frame("logs", "s", numbered(next_id, 1000))});
    iceberg::ReadCounters counters;
    const auto read = read_sequenced(cache, kPartition, {.since_exclusive = since, .counters = &counters});
    EXPECT_EQ(ids_of(read), from_to(next_id, next_id + 999));
    EXPECT_EQ(counters.files_opened, 1);
    EXPECT_LE(counters.rows_decoded, 1000);
    // From the middle of a file, at most a page more of it.
    const auto all = read_sequenced(cache, kPartition, {.columns = {"id"}});
    const size_t wanted = static_cast<size_t>(1000 + grown_by / 2);
    iceberg::ReadCounters middle;
    const auto rest = read_sequenced(
        cache, kPartition, {.since_exclusive = all.after[all.after.size() - wanted - 1], .counters = &middle});
    EXPECT_EQ(rest.rows.size(), wanted);
    EXPECT_LE(middle.rows_decoded, static_cast<int64_t>(wanted) + kPage);
    EXPECT_EQ(middle.files_opened, 2);
    next_id += 1000;
  }
}

TEST(Reads, NewRowsOpenTheManifestThatCameWithThemAlone) {
  CacheBox box;
  Cache cache(box.config);
  for (int64_t i = 0; i < 30; ++i) ingest(cache, {make_frame("logs", "s", numbered(i, 1))});
  const int64_t since = SequencedReader(cache, kPartition, {}).max_seq();
  ingest(cache, {make_frame("logs", "s", numbered(30, 1))});
  iceberg::ReadCounters counters;
  EXPECT_EQ(read_sequenced(cache, kPartition, {.since_exclusive = since, .counters = &counters}).rows.size(), 1u);
  EXPECT_EQ(counters.manifests_read, 1);
  EXPECT_EQ(counters.manifests_skipped, 30);
}

TEST(Reads, KnownManifestsChangeNoPlan) {
  CacheBox box;
  Cache cache(box.config);
  std::set<int64_t> edges = {-1, 0};
  for (int64_t i = 0; i < 5; ++i) {
    ingest(cache, {make_frame("logs", "s", numbered(10 * i, 1 + i % 3))});
    edges.insert(SequencedReader(cache, kPartition, {}).max_seq());
  }
  const auto held = cache.hold(kPartition);
  const auto paths = [](const iceberg::ScanPlan& plan) {
    std::set<std::string> paths;
    for (const auto& task : plan.tasks) paths.insert(task.file.file_path);
    return paths;
  };
  for (const int64_t since : edges) {
    for (const int64_t until : edges) {
      for (const bool unnumbered : {false, true}) {
        const SequenceWindow range{since, until, unnumbered};
        iceberg::ScanOptions scan;
        const auto planned = paths(plan_sequence(*held->table.metadata, cache.io(), scan, range));
        scan.filter = sequence_filter(range);
        EXPECT_EQ(planned, paths(iceberg::plan_scan(*held->table.metadata, cache.io(), scan))) << since << " " << until;
      }
    }
  }
}

TEST(Reads, ManyOverlappingFilesComeInOrder) {
  CacheBox box;
  box.declare("logs").cache_partitioning = {{"k", "identity"}};
  Cache cache(box.config);
  constexpr int kKeys = 80;
  int64_t id = 0;
  for (int flushes = 0; flushes < 2; ++flushes) {
    Lines lines;
    for (int i = 0; i < 4 * kKeys; ++i, ++id)
      lines.push_back(fmt::format(R"({{"k":"k{}","id":{}}})", (id * 7) % kKeys, id));
    ingest(cache, {make_frame("logs", "s", lines)});
  }
  iceberg::ReadCounters counters;
  const auto read = read_sequenced(cache, kPartition, {.batch_rows_max = 100, .counters = &counters});
  EXPECT_EQ(counters.files_opened, 2 * kKeys);
  EXPECT_EQ(ids_of(read), from_to(0, id - 1));
  EXPECT_TRUE(std::is_sorted(read.after.begin(), read.after.end()));
  const auto half = read_sequenced(cache, kPartition, {.since_exclusive = read.after[99], .until = read.after[399]});
  EXPECT_EQ(ids_of(half), from_to(100, 399));
}

TEST(Reads, AReaderKeepsItsSnapshotWhileRowsArrive) {
  CacheBox box;
  Cache cache(box.config);
  ingest(cache, {make_frame("logs", "s", numbered(0, 5))});
  SequencedReader reader(cache, kPartition, {});
  const auto rows = read_rows(cache, kPartition, {});
  ingest(cache, {make_frame("logs", "s", numbered(5, 5))});
  EXPECT_EQ(reader.next()->rows->num_rows(), 5);
  EXPECT_FALSE(reader.next());
  EXPECT_EQ(rows_of(*rows, SequencedReader(cache, kPartition, {}).schema()).size(), 5u);
}

// A table as another program may have left it: no sort order, some rows never numbered.
TEST(Reads, LegacyRowsComeFirstAndUnsortedFilesAreSorted) {
  CacheBox box;
  Cache cache(box.config);
  const std::string folder = cache.folder(kPartition);
  make_directories(folder);
  const iceberg::Schema visible({{1, "id", false, iceberg::Type::primitive(iceberg::TypeId::long_)}});
  const auto metadata = iceberg::new_table_metadata(folder + "/table-3", with_hidden(visible), {}, {},
                                                    {{"format-version", "3"}}, now_ms());
  iceberg::create_filesystem_table(cache.io(), metadata);
  write_cursor(folder, {"table-3", cache.sequence().cache_id()});
  {
    auto held = cache.hold(kPartition);
    arrow::Int64Builder ids, seqs;
    arrow::StringBuilder nulls;
    for (const int64_t id : {100, 101}) {
      check(ids.Append(id), "test");
      check(seqs.AppendNull(), "test");
    }
    for (int64_t id = 9; id >= 1; --id) {
      check(ids.Append(id), "test");
      check(seqs.Append(id), "test");
    }
    check(nulls.AppendNulls(11), "test");
    const auto no_text = check(nulls.Finish(), "test");
    const auto batch =
        arrow::RecordBatch::Make(iceberg::to_arrow_schema(metadata.schema()), 11,
                                 {check(ids.Finish(), "test"), check(seqs.Finish(), "test"), no_text, no_text});
    iceberg::AppendWriter writer(cache.io(), *held->table.metadata);
    writer.write(batch);
    iceberg::commit_snapshot(
        *held->operations,
        {.added = writer.finish(), .written_schema = metadata.schema(), .required_spec = metadata.spec()});
  }
  const auto all = read_sequenced(cache, kPartition);
  EXPECT_EQ(ids_of(all), (std::vector<int64_t>{100, 101, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(all.after, (std::vector<int64_t>{-1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(ids_of(read_sequenced(cache, kPartition, {.since_exclusive = 4, .until = 7, .include_legacy = false})),
            (std::vector<int64_t>{5, 6, 7}));
  EXPECT_EQ(cached_rows(cache, kPartition).size(), 11u);
  EXPECT_EQ(rows_of(*read_rows(cache, kPartition, {.since_exclusive = 4, .include_legacy = false}), visible).size(),
            5u);
}

}  // namespace
}  // namespace firn::hyp
