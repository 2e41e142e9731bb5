#include "hyp/maintain/maintain.h"

#include <fstream>

#include <gmock/gmock.h>

#include "base/civil_time.h"
#include "base/test_world.h"
#include "hyp/maintain/compaction_box.h"
#include "hyp/maintain/compaction_plan.h"
#include "hyp/maintain/partition_status.h"
#include "support/crash.h"
#include "support/local_disk.h"

namespace firn::hyp {
namespace {

// The local disk, and what of tables was opened on it.
class CountingIO : public LocalDisk {
 public:
  std::shared_ptr<arrow::io::RandomAccessFile> open(const std::string& path) override {
    count(path);
    return LocalDisk::open(path);
  }
  std::string read(const std::string& path) override {
    count(path);
    return LocalDisk::read(path);
  }
  std::optional<std::string> read_if_exists(const std::string& path) override {
    count(path);
    return LocalDisk::read_if_exists(path);
  }

  std::vector<std::string> opened() const {  // manifest lists, manifests, data files, vectors
    std::lock_guard guard(mutex_);
    return opened_;
  }

 private:
  void count(const std::string& path) {
    if (!path.ends_with(".avro") && !path.ends_with(".parquet") && !path.ends_with(".puffin")) return;
    std::lock_guard guard(mutex_);
    opened_.push_back(path);
  }

  mutable std::mutex mutex_;
  std::vector<std::string> opened_;
};

struct Maintain : testing::Test {
  PreferMemory prefer_memory;
  CacheBox box;
  Maintain() { box.config.compaction.files_min = 4; }
  static PartitionId source(const std::string& name) { return {"logs", name}; }
  MaintainReport maintain_well(Cache& cache, const MaintainOptions& options = {}) {
    MaintainReport report = maintain(cache, options);
    EXPECT_TRUE(report.problems.empty()) << report.problems.at(0);
    return report;
  }
};

TEST_F(Maintain, APartitionIsCompactedOnceItHasEnoughSmallFiles) {
  Cache cache(box.config);
  flush_many(cache, 3, 5);
  EXPECT_TRUE(maintain_well(cache).compaction.empty());
  flush_rows(cache, some_rows(15, 5));
  const auto before = numbered_rows(cache);
  const MaintainReport report = maintain_well(cache);
  ASSERT_EQ(report.compaction.size(), 1u);
  EXPECT_EQ(report.compaction[0].files_after, 1);
  EXPECT_EQ(report.generations_removed, 1);
  EXPECT_EQ(list_generations(cache.folder(kLogs)), Lines{"table-2"});
  EXPECT_EQ(numbered_rows(cache), before);
}

// Of a dataset whose rows grow old, wait for a sink that is behind, and are compared.
TEST_F(Maintain, AClosedPartitionIsCompactedOnceAndThenATickOpensNothingOfIt) {
  constexpr int64_t kMinuteMs = 60'000, kHourMs = 60 * kMinuteMs;
  DatasetConfig& logs = box.declare("logs");
  logs.dedupe_content = true;
  logs.retention.days = 30;
  logs.retention.wait_for_sink_ack = true;
  SinkConfig sink;
  sink.name = "out";
  sink.path = box.folder / "out";
  box.config.sinks.push_back(sink);
  const auto io = std::make_shared<CountingIO>();
  Cache cache(box.config, io);
  int64_t now = (now_ms() / kHourMs + 1) * kHourMs;
  set_clock_ms(now);
  flush_many(cache, 10, 5);
  EXPECT_EQ(maintain_well(cache).compaction.size(), 1u);
  const auto opened_by_tick = [&] {
    const size_t before = io->opened().size();
    const MaintainReport report = maintain_well(cache);
    EXPECT_TRUE(report.compaction.empty());
    EXPECT_TRUE(report.retention.empty());
    EXPECT_EQ(report.generations_removed, 0);
    const auto all = io->opened();
    return std::vector(all.begin() + static_cast<ptrdiff_t>(before), all.end());
  };
  // Whether rows became old is looked at once in the new table, then once an hour; the manifests tell, so that no data
  // file is opened.
  for (int hour = 0; hour < 3; ++hour) {
    const Lines opened = opened_by_tick();
    EXPECT_THAT(opened, testing::Each(testing::EndsWith(".avro")));
    EXPECT_LE(opened.size(), 2u);
    for (int tick = 0; tick < 3; ++tick) {
      set_clock_ms(now += kMinuteMs);
      EXPECT_EQ(opened_by_tick(), Lines());
    }
    set_clock_ms(now += kHourMs);
  }
  // Nor does another process need to open anything to see that it needs no compaction.
  const auto other_io = std::make_shared<CountingIO>();
  const Cache other(box.config, other_io);
  EXPECT_EQ(compaction_need(other, kLogs).score, 0);
  EXPECT_EQ(compaction_need(other, kLogs).reason, "nothing came since it was compacted");
  EXPECT_EQ(other_io->opened(), Lines());
  set_clock_ms(std::nullopt);
}

TEST_F(Maintain, APartitionThatGrewIsCompactedAgainOnceAsManyFilesCame) {
  Cache cache(box.config);
  flush_many(cache, 10, 50);
  maintain_well(cache);
  for (int i = 0; i < 3; ++i) {
    flush_rows(cache, some_rows(1000 + i, 1));
    EXPECT_TRUE(maintain_well(cache).compaction.empty());
  }
  flush_rows(cache, some_rows(2000, 1));
  EXPECT_EQ(maintain_well(cache).compaction.size(), 1u);
  EXPECT_EQ(data_files_of(cache).size(), 2u) << "the large one stays, since the new ones are next to nothing";
}

TEST_F(Maintain, FilesThatCannotBeGatheredAreNoReasonToRewriteThem) {
  box.declare("logs").cache_partitioning = {{"k", "identity"}};
  Cache cache(box.config);
  flush_rows(cache, some_rows(0, 100, 50));
  ASSERT_EQ(data_files_of(cache).size(), 50u);
  EXPECT_TRUE(maintain_well(cache).compaction.empty());
  EXPECT_EQ(generation_of(cache), "table-1");
}

TEST_F(Maintain, ARewriteThatLeftSmallFilesIsNotRepeatedUntilAsManyCameAgain) {
  Cache cache(box.config);
  flush_many(cache, 6, 5);
  maintain_well(cache);
  Cursor cursor = read_cursor(cache.folder(kLogs)).value();
  cursor.compaction->gatherable_files = 10;  // say that it did not help
  write_cursor(cache.folder(kLogs), cursor);
  for (int i = 0; i < 12; ++i) flush_rows(cache, some_rows(100 + i * 5, 5));
  EXPECT_TRUE(maintain_well(cache).compaction.empty());
  flush_rows(cache, some_rows(200, 5));
  flush_rows(cache, some_rows(205, 5));
  EXPECT_EQ(maintain_well(cache).compaction.size(), 1u);
}

TEST_F(Maintain, DeletedRowsAreAReasonOnceTheyAreAFairShare) {
  box.config.compaction.target_file_bytes = 16 << 10;
  box.config.compaction.files_min = 100;
  Cache cache(box.config);
  flush_rows(cache, some_rows(0, 1000));
  flush_rows(cache, some_rows(1000, 1000));
  delete_live(cache, "id < 50", iceberg::RowMode::merge_on_read);
  EXPECT_TRUE(maintain_well(cache).compaction.empty());
  delete_live(cache, "id < 900", iceberg::RowMode::merge_on_read);
  EXPECT_EQ(maintain_well(cache).compaction.size(), 1u);
  EXPECT_EQ(rows_hidden(cache), 0);
  EXPECT_EQ(numbered_rows(cache).size(), 1100u);
  EXPECT_TRUE(maintain_well(cache).compaction.empty());
}

TEST_F(Maintain, MetadataThatGrewAreAReasonOnce) {
  box.config.compaction.files_min = 100;
  box.config.compaction.metadata_bytes_max = 20'000;
  box.declare("logs").cache_partitioning = {{"k", "identity"}};
  Cache cache(box.config);
  for (int i = 0; i < 4; ++i) {
    Lines lines;
    for (int k = 0; k < 40; ++k) lines.push_back(fmt::format(R"({{"id":{},"k":"key {} of {}"}})", k, k, i));
    flush_rows(cache, lines);
  }
  ASSERT_GT(compaction_need(cache, kLogs).metadata_bytes, 20'000);
  EXPECT_EQ(maintain_well(cache).compaction.size(), 1u);
  EXPECT_TRUE(maintain_well(cache).compaction.empty()) << "it is not smaller now, and does not get so by trying";
  flush_rows(cache, some_rows(0, 1));
  EXPECT_TRUE(maintain_well(cache).compaction.empty());
}

TEST_F(Maintain, TheNeediestGoesFirstAndTheBudgetLeavesTheRestForTheNextTick) {
  Cache cache(box.config);
  for (const auto& [name, flushes] :
       std::vector<std::pair<std::string, int>>{{"a", 5}, {"b", 12}, {"c", 7}, {"d", 2}}) {
    for (int i = 0; i < flushes; ++i) flush_rows(cache, some_rows(i * 3, 3), source(name));
  }
  std::vector<std::string> order;
  for (int64_t left : {2, 1, 0}) {
    const MaintainReport report = maintain_well(cache, {.budget_ms = 1});
    ASSERT_EQ(report.compaction.size(), 1u);
    EXPECT_EQ(report.compactions_left, left);
    order.push_back(report.compaction[0].partition.source);
  }
  EXPECT_EQ(order, (Lines{"b", "c", "a"}));
  EXPECT_TRUE(maintain_well(cache, {.budget_ms = 1}).compaction.empty());
}

TEST_F(Maintain, WithoutABudgetAllThatNeedItAreCompactedNeediestFirst) {
  Cache cache(box.config);
  for (const auto& [name, flushes] : std::vector<std::pair<std::string, int>>{{"a", 5}, {"b", 12}, {"c", 7}}) {
    for (int i = 0; i < flushes; ++i) flush_rows(cache, some_rows(i * 3, 3), source(name));
  }
  std::vector<std::string> order;
  for (const CompactionReport& report : maintain_well(cache).compaction) order.push_back(report.partition.source);
  EXPECT_EQ(order, (Lines{"b", "c", "a"}));
}

TEST_F(Maintain, OneBadPartitionIsNamedAndTheOthersAreLookedAfter) {
  {
    Cache cache(box.config);
    for (const char* name : {"a", "b", "c"}) {
      for (int i = 0; i < 6; ++i) flush_rows(cache, some_rows(i * 3, 3), source(name));
    }
    const auto held = cache.hold(source("b"));
    for (const FileInfo& file : make_local_file_io()->list(held->operations->location() + "/metadata", false)) {
      if (!file.path.ends_with(".avro") || file.path.find("/snap-") != std::string::npos) continue;
      fs::remove(file.path);
      std::ofstream(file.path) << "no manifest";
    }
  }
  // As another process sees it: this one has them in memory.
  EXPECT_EQ(run_in_child([&] {
              Config config = box.config;
              const std::string moved = box.folder / "moved";
              fs::rename(config.cache_root, moved);
              config.cache_root = moved;
              Cache cache(config);
              const MaintainReport report = maintain(cache);
              if (report.problems.size() != 1 || report.problems[0].find("source=b") == std::string::npos)
                fail(ErrorKind::internal, "problems: {}", fmt::join(report.problems, "; "));
              if (report.compaction.size() != 2) fail(ErrorKind::internal, "{} compacted", report.compaction.size());
              for (const CompactionReport& one : report.compaction) {
                if (!one.swapped) fail(ErrorKind::internal, "{}", one.note);
              }
            }),
            0);
}

TEST_F(Maintain, ADryRunSaysWhatItWouldDoAndDoesNothing) {
  box.declare("logs").retention.days = 1;
  Cache cache(box.config);
  flush_many(cache, 6, 5);
  const auto before = numbered_rows(cache);
  const auto held = cache.hold(kLogs)->table.version;
  const MaintainReport report = maintain_well(cache, {.dry_run = true});
  ASSERT_EQ(report.compaction.size(), 1u);
  EXPECT_FALSE(report.compaction[0].swapped);
  EXPECT_EQ(report.compaction[0].files_before, 6);
  EXPECT_THAT(report.compaction[0].note, testing::HasSubstr("6 of 6 files are small"));
  EXPECT_EQ(generation_of(cache), "table-1");
  EXPECT_EQ(cache.hold(kLogs)->table.version, held);
  EXPECT_EQ(numbered_rows(cache), before);
}

TEST_F(Maintain, WhatADeadCompactorLeftIsRemoved) {
  Cache cache(box.config);
  flush_many(cache, 2, 5);
  ASSERT_EQ(run_in_child([&] {
              Cache inner(box.config);
              const At hook("compaction.carried", [] { ::_exit(0); });
              compact_partition(inner, kLogs);
            }),
            0);
  ASSERT_EQ(list_generations(cache.folder(kLogs)).size(), 2u);
  EXPECT_EQ(maintain_well(cache).generations_removed, 1);
  EXPECT_EQ(list_generations(cache.folder(kLogs)), Lines{"table-1"});
  EXPECT_EQ(numbered_rows(cache).size(), 10u);
}

TEST_F(Maintain, AStopIsHeededAndLeavesTheRest) {
  Cache cache(box.config);
  flush_many(cache, 6, 5);
  const std::atomic<bool> cancelled{true};
  const MaintainReport report = maintain_well(cache, {.cancelled = &cancelled});
  EXPECT_TRUE(report.compaction.empty());
  EXPECT_EQ(generation_of(cache), "table-1");
}

TEST_F(Maintain, OneStoppedWithinACompactionChangesNothingAndReportsNoProblem) {
  Cache cache(box.config);
  flush_many(cache, 6, 5);
  std::atomic<bool> cancelled{false};
  const At hook("compaction.linked", [&] { cancelled = true; });
  EXPECT_TRUE(maintain_well(cache, {.cancelled = &cancelled}).compaction.empty());
  EXPECT_EQ(list_generations(cache.folder(kLogs)), Lines{"table-1"});
}

TEST_F(Maintain, WhereNothingIsOldATickOpensNothingUntilTheNextHour) {
  DatasetConfig& logs = box.declare("logs");
  logs.retention.days = 30;
  const auto io = std::make_shared<CountingIO>();
  Cache cache(box.config, io);
  flush_many(cache, 2, 5);
  const int64_t now = now_ms() / 3'600'000 * 3'600'000;
  apply_retention(cache, kLogs, now);
  const size_t opened = io->opened().size();
  for (int tick = 1; tick < 4; ++tick) EXPECT_EQ(apply_retention(cache, kLogs, now + tick * 60'000).rows_removed, 0);
  EXPECT_EQ(io->opened().size(), opened);
  apply_retention(cache, kLogs, now + 3'600'000);
  EXPECT_GT(io->opened().size(), opened) << "rows may have become old by then";
  flush_many(cache, 1, 5);
  const size_t after_flush = io->opened().size();
  apply_retention(cache, kLogs, now + 3'600'000);
  EXPECT_GT(io->opened().size(), after_flush) << "rows came that nobody looked at";
}

TEST_F(Maintain, WhatRetentionFoundIsKnownAfterACompactionToo) {
  DatasetConfig& logs = box.declare("logs");
  logs.primary_timestamp_column = "at";
  logs.retention.days = 30;
  logs.retention.wait_for_sink_ack = true;
  logs.retention.grace_days = 365'000;
  SinkConfig sink;
  sink.name = "out";
  sink.path = box.folder / "out";
  box.config.sinks.push_back(sink);
  const auto io = std::make_shared<CountingIO>();
  Cache cache(box.config, io);
  const Lines old_and_new = {R"({"at":"2001-01-01T00:00:00Z"})", R"({"at":"2999-01-01T00:00:00Z"})"};
  for (int i = 0; i < 6; ++i) flush_rows(cache, old_and_new);
  ASSERT_EQ(maintain_well(cache).compaction.size(), 1u);
  const size_t opened = io->opened().size();
  const RetentionReport report = apply_retention(cache, kLogs, now_ms());
  EXPECT_EQ(report.rows_waiting, (std::map<std::string, int64_t>{{"out", 6}}));
  EXPECT_EQ(io->opened().size(), opened) << "it was told by the table";
  // Rows that came since are looked at.
  flush_rows(cache, old_and_new);
  EXPECT_EQ(apply_retention(cache, kLogs, now_ms()).rows_waiting, (std::map<std::string, int64_t>{{"out", 7}}));
  box.config.sinks.clear();
  Cache without_sinks(box.config);
  EXPECT_EQ(apply_retention(without_sinks, kLogs, now_ms()).rows_removed, 7);
  EXPECT_EQ(numbered_rows(without_sinks).size(), 7u);
}

TEST_F(Maintain, OpensThatNoRowNeedsLeaveTheSequenceFile) {
  box.declare("logs").primary_timestamp_column = "at";
  box.declare("logs").retention.days = 30;
  const auto row = [&](const std::string& at) { return Lines{fmt::format(R"({{"at":"{}"}})", at)}; };
  for (int process = 0; process < 67; ++process) {
    Cache cache(box.config);
    flush_rows(cache, row(process < 60 ? "2001-01-01T00:00:00Z" : "2999-01-01T00:00:00Z"));
  }
  Cache cache(box.config);
  const auto before = cache.sequence().opens();
  ASSERT_EQ(before.size(), 67u);
  maintain_well(cache);
  const auto rows = numbered_rows(cache);
  ASSERT_EQ(rows.size(), 7u);
  const auto after = cache.sequence().opens();
  EXPECT_EQ(after, std::vector(before.end() - 64, before.end()));
}

// --- the plan

FileShape shape(int64_t bytes, int64_t number, int64_t hidden = 0) {
  FileShape file;
  file.bytes = bytes;
  file.rows = 100;
  file.rows_hidden = hidden;
  file.lower = number;
  file.upper = number + 9;
  return file;
}

TEST(CompactionPlan, RowsAreRewrittenAsOftenAsTheLogarithmOfTheTargetSays) {
  constexpr int64_t kTarget = 1'000'000, kFlush = 100;
  std::vector<FileShape> files;
  int64_t written = 0, flushed = 0;
  for (int64_t i = 0; i < 20'000; ++i) {
    files.push_back(shape(kFlush, i * 10));
    flushed += kFlush;
    if (i % 16 != 15) continue;
    const CompactionPlan plan = plan_compaction(files, kTarget);
    std::vector<FileShape> next;
    for (const size_t index : plan.linked) next.push_back(files[index]);
    for (const CompactionGroup& group : plan.groups) {
      written += group.bytes;
      const int64_t share = file_share(group.bytes, kTarget);
      const int64_t lower = files[group.files.front()].lower;
      for (int64_t rest = group.bytes, part = 0; rest > 0; rest -= share, ++part)
        next.push_back(shape(std::min(rest, share), lower + part));
    }
    files = std::move(next);
  }
  EXPECT_LE(files.size(), 30u);
  EXPECT_LE(written, 12 * flushed) << "log2(1,000,000 / 1,600) is below 10";
}

TEST(CompactionPlan, FilesRewrittenTogetherHaveNoOtherBetweenThem) {
  const std::vector<FileShape> files = {shape(10, 0), shape(12, 10), shape(900, 20), shape(11, 30), shape(10, 40)};
  const CompactionPlan plan = plan_compaction(files, 1000);
  ASSERT_EQ(plan.groups.size(), 2u);
  EXPECT_EQ(plan.groups[0].files, (std::vector<size_t>{0, 1}));
  EXPECT_EQ(plan.groups[1].files, (std::vector<size_t>{3, 4}));
  EXPECT_EQ(plan.linked, std::vector<size_t>{2});
  EXPECT_EQ(plan.files_spared, 2);
}

TEST(CompactionPlan, APartitionsFilesStayApartFromAnothers) {
  std::vector<FileShape> files = {shape(10, 0), shape(10, 10)};
  files[1].partition = "other";
  EXPECT_TRUE(plan_compaction(files, 1000).groups.empty());
}

TEST(CompactionPlan, AFileWithManyDeletedRowsIsRewrittenAlone) {
  const CompactionPlan plan = plan_compaction({shape(1000, 0, 20), shape(1000, 10, 40)}, 1000);
  ASSERT_EQ(plan.groups.size(), 1u);
  EXPECT_EQ(plan.groups[0].files, std::vector<size_t>{1});
  EXPECT_EQ(plan.bytes_reclaimed, 400);
}

// --- status

TEST_F(Maintain, StatusTellsWhatAPartitionHoldsAndWhatBecameOfIt) {
  DatasetConfig& logs = box.declare("logs");
  logs.primary_timestamp_column = "at";
  Cache cache(box.config);
  const int64_t started_ms = now_ms();
  for (const char* at :
       {"2024-01-01T00:00:00Z", "2024-01-03T00:00:00Z", "2024-01-02T00:00:00Z", "2024-01-04T00:00:00Z"})
    flush_rows(cache, {fmt::format(R"({{"at":"{}"}})", at)});
  PartitionStatus status = partition_status(cache, kLogs);
  EXPECT_EQ(status.problem, "");
  EXPECT_EQ(status.rows, 4);
  EXPECT_EQ(status.files, 4);
  EXPECT_GT(status.bytes, 0);
  EXPECT_EQ(status.generation, "table-1");
  EXPECT_EQ(status.generations, 1);
  EXPECT_EQ(format_timestamp_ms_utc(status.oldest_ms.value()), "2024-01-01T00:00:00.000Z");
  EXPECT_EQ(format_timestamp_ms_utc(status.newest_ms.value()), "2024-01-04T00:00:00.000Z");
  EXPECT_GE(status.last_flush_ms.value(), started_ms);
  EXPECT_FALSE(status.last_compaction);

  const int64_t flushed_ms = *status.last_flush_ms;
  const auto reader = cache.hold(kLogs);
  ASSERT_TRUE(compact_partition(cache, kLogs).swapped);
  delete_live(cache, "at < '2024-01-02T00:00:00+00:00' or at > '2024-01-03T12:00:00+00:00'",
              iceberg::RowMode::merge_on_read);
  status = partition_status(cache, kLogs);
  EXPECT_EQ(status.rows, 2);
  EXPECT_EQ(status.files, 1);
  EXPECT_EQ(status.generation, "table-2");
  EXPECT_EQ(status.generations, 2) << "the older one has a reader";
  EXPECT_EQ(format_timestamp_ms_utc(status.oldest_ms.value()), "2024-01-02T00:00:00.000Z");
  EXPECT_EQ(format_timestamp_ms_utc(status.newest_ms.value()), "2024-01-03T00:00:00.000Z");
  EXPECT_EQ(status.last_flush_ms, flushed_ms);
  EXPECT_EQ(status.last_compaction.value().files_before, 4);
  EXPECT_EQ(status.last_compaction.value().files, 1);
}

TEST_F(Maintain, StatusTellsWhichSinkOverdueRowsWaitForAndHowManyWentWithout) {
  DatasetConfig& logs = box.declare("logs");
  logs.primary_timestamp_column = "at";
  SinkConfig sink;
  sink.name = "out";
  sink.path = box.folder / "out";
  box.config.sinks.push_back(sink);
  {
    Cache cache(box.config);
    flush_rows(cache, {R"({"at":"2001-01-01T00:00:00Z"})", R"({"at":"2999-01-01T00:00:00Z"})"});
  }
  logs.retention.days = 30;
  logs.retention.wait_for_sink_ack = true;
  logs.retention.grace_days = 365'000;
  {
    Cache cache(box.config);
    const PartitionStatus status = partition_status(cache, kLogs);
    EXPECT_EQ(status.rows_waiting, (std::map<std::string, int64_t>{{"out", 1}}));
    EXPECT_EQ(status.rows_overdue, 0);
  }
  logs.retention.grace_days = 0;
  set_clock_ms(now_ms() + 3'600'000);  // so long it has been here
  Cache cache(box.config);
  EXPECT_EQ(partition_status(cache, kLogs).rows_overdue, 1);
  maintain_well(cache);
  const PartitionStatus status = partition_status(cache, kLogs);
  EXPECT_EQ(status.rows, 1);
  EXPECT_EQ(status.rows_overdue, 0);
  EXPECT_EQ(status.rows_forced_out, (std::map<std::string, int64_t>{{"out", 1}}));
  set_clock_ms(std::nullopt);
}

TEST_F(Maintain, StatusOfADatasetWithoutTimesTellsWhenItsRowsCame) {
  Cache cache(box.config);
  const int64_t started_ms = now_ms();
  flush_many(cache, 2, 2);
  const PartitionStatus status = partition_status(cache, kLogs);
  EXPECT_GE(status.oldest_ms.value(), started_ms);
  EXPECT_LE(status.newest_ms.value(), now_ms());
}

}  // namespace
}  // namespace firn::hyp
