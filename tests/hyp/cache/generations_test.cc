// Readers see what they began with to the end, and what none sees any more goes (P7).
#include "hyp/cache/generations.h"

#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <numeric>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hyp/cache/cache_box.h"
#include "hyp/cache/files_with.h"
#include "hyp/cache/layout.h"
#include "hyp/cache/new_table.h"
#include "iceberg/rows/rows.h"
#include "support/crash.h"

namespace firn::hyp {
namespace {

namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const PartitionId kPartition = {"logs", "s"};
const std::string kGone = "gone-8c1f3a";

std::string row_of(int64_t id, const std::string& text) { return fmt::format(R"({{"id":{},"m":"{}"}})", id, text); }

void add(Cache& cache, const Lines& rows) {
  const FlushReport report = ingest(cache, {make_frame("logs", "s", rows)});
  if (report.rows != static_cast<int64_t>(rows.size())) fail(ErrorKind::internal, "{} rows", report.rows);
}

// Takes the rows with kGone away, as an upkeep does: what was before stays in older snapshots alone.
void take_away(Cache& cache) {
  const FileLock lock = cache.lock(kPartition);
  const auto held = cache.hold(kPartition, /*acting=*/true);
  iceberg::RowOptions options;
  options.mode = iceberg::RowMode::copy_on_write;
  iceberg::delete_rows(*held->operations, iceberg::predicate(iceberg::Op::eq, "m", {kGone}), options);
}

size_t num_snapshots(const Cache& cache) { return cache.hold(kPartition)->table.metadata->snapshots.size(); }

std::string generation_of(const Cache& cache) {
  const std::string location = cache.hold(kPartition)->operations->location();
  return location.substr(location.rfind('/') + 1);
}

// Data files that are there, and those that the head names.
size_t num_data_files(const Cache& cache) {
  size_t count = 0;
  const std::string folder = cache.hold(kPartition)->operations->location() + "/data";
  for (const FileInfo& file : cache.io()->list(folder, /*recursive=*/true)) count += file.path.ends_with(".parquet");
  return count;
}
size_t num_live_files(const Cache& cache) {
  const auto held = cache.hold(kPartition);
  return iceberg::live_files(*held->table.metadata, *held->table.metadata->current_snapshot(), *held->operations->io())
      .size();
}

// Another, empty generation is live from now on.
void swap_generation(Cache& cache) {
  const FileLock lock = cache.lock(kPartition);
  const auto held = cache.hold(kPartition, /*acting=*/true);
  const std::string name = next_table_dir(cache, kPartition);
  iceberg::TableMetadata metadata = *held->table.metadata;
  metadata.location = generation_folder(cache.folder(kPartition), name);
  metadata.table_uuid = uuid_v4();
  metadata.snapshots = {};
  metadata.current_snapshot_id.reset();
  metadata.refs.clear();
  metadata.snapshot_log.clear();
  metadata.metadata_log.clear();
  iceberg::create_filesystem_table(cache.io(), metadata);
  Cursor cursor = *read_cursor(cache.folder(kPartition));
  cursor.table_dir = name;
  write_cursor(cache.folder(kPartition), cursor);
}

const Lines kFirst = {row_of(1, kGone), row_of(2, "a"), row_of(3, kGone), row_of(4, "b")};
const Lines kKept = {row_of(2, "a"), row_of(4, "b")};

TEST(Generations, ALostOrDamagedCursorIsAnErrorThatSaysWhatToWrite) {
  CacheBox box;
  Cache cache(box.config);
  add(cache, kFirst);
  const std::string path = cache.folder(kPartition) + "/cursor.json";
  const std::string remedy = fmt::format(R"({{"v":1,"tableDir":"{}","cacheId":"…"}})", generation_of(cache));
  const auto expect_remedy = [&] {
    try {
      cache.hold(kPartition);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::corrupt);
      EXPECT_THAT(std::string(error.what()), AllOf(HasSubstr("cursor.json"), HasSubstr("write " + remedy)));
    }
  };
  for (const char* damaged : {"", "{", "{}", R"({"v":1,"tableDir":""})"}) {
    SCOPED_TRACE(damaged);
    replace_file(path, damaged);
    expect_remedy();
  }
  remove_file(path);
  expect_remedy();
  replace_file(path, remedy);
  EXPECT_EQ(cached_rows(cache, kPartition), sorted_rows(kFirst));
}

TEST(Generations, AReaderSeesWhatItBeganWithToItsEndAndThenItIsGone) {
  CacheBox box;
  Cache cache(box.config);
  add(cache, kFirst);
  {
    SequencedReader in_order(cache, kPartition, {});
    const auto any_order = read_rows(cache, kPartition, {});
    take_away(cache);
    const SweepReport report = sweep_partition(cache, kPartition, Sweep::all);
    EXPECT_EQ(report.snapshots_waiting, 1);
    EXPECT_EQ(cached_rows(cache, kPartition), sorted_rows(kKept));
    EXPECT_EQ(sorted_rows(rows_of(*any_order, in_order.schema())), sorted_rows(kFirst));
    const auto batch = in_order.next();
    ASSERT_TRUE(batch);
    EXPECT_EQ(batch->rows->num_rows(), 4);
    EXPECT_EQ(sweep_partition(cache, kPartition, Sweep::when_due).snapshots_waiting, 1);
    EXPECT_FALSE(files_with(box.config.cache_root, kGone).empty());
  }
  EXPECT_EQ(sweep_partition(cache, kPartition, Sweep::when_due).snapshots_expired, 1);
  EXPECT_EQ(num_snapshots(cache), 1u);
  EXPECT_EQ(cached_rows(cache, kPartition), sorted_rows(kKept));
  take_away(cache);  // nothing is left to take
  EXPECT_EQ(num_snapshots(cache), 1u);
}

TEST(Generations, AReaderOfAnotherProcessIsSparedToo) {
  CacheBox box;
  Cache cache(box.config);
  add(cache, kFirst);
  int began[2], go[2];
  ASSERT_EQ(::pipe(began), 0);
  ASSERT_EQ(::pipe(go), 0);
  const pid_t child = fork_child();
  if (child == 0) {
    char byte = 0;
    int status = 1;
    try {
      Cache own(box.config);
      SequencedReader reader(own, kPartition, {});
      if (::write(began[1], "b", 1) != 1 || ::read(go[0], &byte, 1) != 1) ::_exit(2);
      status = reader.next()->rows->num_rows() == 4 ? 0 : 3;
    } catch (const std::exception& e) {
      std::fprintf(stderr, "in the child: %s\n", e.what());
    }
    ::_exit(status);
  }
  char byte = 0;
  ASSERT_EQ(::read(began[0], &byte, 1), 1);
  take_away(cache);
  EXPECT_EQ(sweep_partition(cache, kPartition, Sweep::all).snapshots_waiting, 1);
  ASSERT_EQ(::write(go[1], "g", 1), 1);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(sweep_partition(cache, kPartition, Sweep::when_due).snapshots_expired, 1);
  EXPECT_EQ(cached_rows(cache, kPartition), sorted_rows(kKept));
  for (const int fd : {began[0], began[1], go[0], go[1]}) ::close(fd);
}

TEST(Generations, AnOlderGenerationGoesWithItsLastReader) {
  CacheBox box;
  Cache cache(box.config);
  add(cache, kFirst);
  const std::string folder = cache.folder(kPartition);
  {
    SequencedReader reader(cache, kPartition, {});
    swap_generation(cache);
    EXPECT_EQ(sweep_partition(cache, kPartition, Sweep::all).generations_waiting, 1);
    EXPECT_EQ(sweep_partition(cache, kPartition, Sweep::when_due).generations_waiting, 1);
    EXPECT_TRUE(cached_rows(cache, kPartition).empty());
    EXPECT_EQ(reader.next()->rows->num_rows(), 4);
  }
  EXPECT_EQ(sweep_partition(cache, kPartition, Sweep::when_due).generations_removed, 1);
  EXPECT_THAT(list_generations(folder), ElementsAre("table-2"));
  EXPECT_FALSE(fs::exists(folder + "/table-1.lock"));
  EXPECT_THAT(files_with(box.config.cache_root, kGone), IsEmpty());
}

TEST(Generations, ACompactorAtWorkKeepsItsNewGenerationAndADeadOneDoesNot) {
  CacheBox box;
  Cache cache(box.config);
  add(cache, kFirst);
  const std::string unfinished = cache.folder(kPartition) + "/table-7/data/x.parquet";
  make_local_file_io()->replace(unfinished, kGone);
  {
    const auto compactor = try_lock_compactor(cache, kPartition);
    ASSERT_TRUE(compactor);
    EXPECT_FALSE(try_lock_compactor(cache, kPartition));
    sweep_partition(cache, kPartition, Sweep::all);
    EXPECT_TRUE(fs::exists(unfinished));
  }
  EXPECT_EQ(sweep_partition(cache, kPartition, Sweep::when_due).generations_removed, 1);
  EXPECT_FALSE(fs::exists(unfinished));
  EXPECT_EQ(generation_of(cache), "table-1");
  EXPECT_EQ(cached_rows(cache, kPartition), sorted_rows(kFirst));
}

TEST(Generations, AGenerationThatWasNeverNamedGoes) {
  CacheBox box;
  Cache cache(box.config);
  // A first flush that died before its table.
  make_local_file_io()->replace(cache.folder(kPartition) + "/table-1/data/x.parquet", kGone);
  EXPECT_EQ(sweep_partition(cache, kPartition, Sweep::when_due).generations_removed, 1);
  EXPECT_THAT(files_with(box.config.cache_root, kGone), IsEmpty());
  add(cache, kFirst);
  EXPECT_EQ(cached_rows(cache, kPartition), sorted_rows(kFirst));
}

TEST(Generations, AGenerationOfAnotherSystemsCacheGoesOnceItIsReplaced) {
  CacheBox box;
  {
    Cache cache(box.config);
    add(cache, kFirst);
    const std::string folder = cache.folder(kPartition);
    fs::rename(folder + "/table-1", folder + "/epoch=12");
    Cursor cursor = *read_cursor(folder);
    cursor.table_dir = "epoch=12";
    write_cursor(folder, cursor);
  }
  Cache cache(box.config);
  sweep_partition(cache, kPartition, Sweep::all);
  EXPECT_EQ(cached_rows(cache, kPartition), sorted_rows(kFirst));
  swap_generation(cache);
  EXPECT_EQ(generation_of(cache), "table-1");
  EXPECT_EQ(sweep_partition(cache, kPartition, Sweep::all).generations_removed, 1);
  EXPECT_THAT(files_with(box.config.cache_root, kGone), IsEmpty());
}

TEST(Generations, WhatADeadFlushLeftGoesHoweverYoungItIs) {
  CacheBox box;
  Cache cache(box.config);
  add(cache, kFirst);
  const std::string location = cache.hold(kPartition)->operations->location();
  const auto io = make_local_file_io();
  for (const char* name : {"/data/dead.parquet", "/data/day=1/dead.parquet", "/metadata/dead-m0.avro",
                           "/data/.dead.parquet.tmp-1", "/metadata/.v9.metadata.json.tmp-2"}) {
    make_directories(fs::path(location + name).parent_path().string());
    std::ofstream(location + name) << kGone;
  }
  sweep_partition(cache, kPartition, Sweep::all);
  for (const auto& entry : fs::recursive_directory_iterator(location)) {
    EXPECT_EQ(entry.path().string().find("dead"), std::string::npos) << entry.path();
    EXPECT_NE(entry.path().filename(), "day=1");
  }
  EXPECT_EQ(cached_rows(cache, kPartition), sorted_rows(kFirst));
}

TEST(Generations, ManyFlushesDoNotPileUpSnapshotsAndAnIdlePartitionIsLeftAlone) {
  CacheBox box;
  Cache cache(box.config);
  for (int i = 0; i < 40; ++i) {
    add(cache, {row_of(i, "x")});
    sweep_partition(cache, kPartition, Sweep::when_due);
    EXPECT_LE(num_snapshots(cache), 33u);
  }
  EXPECT_EQ(cached_rows(cache, kPartition).size(), 40u);
  const int64_t version = cache.hold(kPartition)->table.version;
  for (int i = 0; i < 3; ++i) sweep_partition(cache, kPartition, Sweep::when_due);
  EXPECT_EQ(cache.hold(kPartition)->table.version, version);
}

TEST(Generations, ATaggedSnapshotStays) {
  CacheBox box;
  Cache cache(box.config);
  add(cache, kFirst);
  const auto operations = cache.hold(kPartition)->operations;
  const int64_t tagged = *operations->load().metadata->current_snapshot_id;
  iceberg::commit_metadata(*operations, [&](iceberg::TableMetadata& next) {
    next.refs["kept"] = {.snapshot_id = tagged, .is_branch = false};
    return true;
  });
  take_away(cache);
  sweep_partition(cache, kPartition, Sweep::all);
  const auto table = operations->load();
  ASSERT_NE(table.metadata->find_snapshot(tagged), nullptr);
  iceberg::ScanOptions options;
  options.snapshot_id = tagged;
  options.columns = {"id", "m"};
  EXPECT_EQ(rows_of(*iceberg::scan(*table.metadata, operations->io(), options), table.metadata->schema()).size(), 4u);
}

// What a crash leaves is simulated, so memory will do.
struct SweepCrash : testing::Test {
  SweepCrash() {
    if (fs::is_directory("/dev/shm")) ::setenv("TMPDIR", "/dev/shm", /*replace=*/0);
  }
  static void copy(const std::string& from, const std::string& to) {
    fs::remove_all(to);
    fs::copy(from, to, fs::copy_options::recursive);
  }
};

TEST_F(SweepCrash, WhereverASweepDiesNoRowIsLostAndTheNextOneEndsIt) {
  CacheBox box;
  ASSERT_EQ(run_in_child([&] {
              Cache cache(box.config);
              add(cache, kFirst);
              swap_generation(cache);  // an older generation
              add(cache, kFirst);
              add(cache, {row_of(5, "c")});
              take_away(cache);
            }),
            0);
  const std::string saved = box.folder / "saved";
  copy(box.config.cache_root, saved);
  Lines kept = kKept;
  kept.push_back(row_of(5, "c"));
  const auto sweep_all = [&] {
    Cache cache(box.config);
    sweep_partition(cache, kPartition, Sweep::all);
  };
  const auto expect_kept = [&] {
    Cache cache(box.config);
    EXPECT_EQ(cached_rows(cache, kPartition), sorted_rows(kept));
    EXPECT_EQ(read_sequenced(cache, kPartition).rows.size(), kept.size());
  };
  const std::vector<std::string> points = fault_points_of(sweep_all);
  ASSERT_THAT(points, ::testing::IsSupersetOf({"sweep.expire", "expire.committed", "sweep.expired",
                                               "sweep.remove-generation", "sweep.generation-removed"}));
  for (const Crash crash : {Crash::process, Crash::power, Crash::power_later}) {
    for (size_t point = 0; point < points.size(); ++point) {
      if (crash == Crash::power_later && !leaves_undurable(points[point])) continue;
      SCOPED_TRACE(fmt::format("{} at {} ({})", to_text(crash), point, points[point]));
      copy(saved, box.config.cache_root);
      run_killed_at(point, crash, sweep_all);
      expect_kept();
      {
        Cache cache(box.config);
        sweep_partition(cache, kPartition, Sweep::when_due);
        EXPECT_EQ(num_snapshots(cache), 1u);
        EXPECT_THAT(list_generations(cache.folder(kPartition)), ElementsAre("table-2"));
        EXPECT_EQ(num_data_files(cache), num_live_files(cache));
      }
      expect_kept();
      if (testing::Test::HasFailure()) return;
    }
  }
}

// The ids of a partition that rows were added to in order: 0, 1, … Throws if it is otherwise.
int64_t count_in_order(const Cache& cache) {
  SequencedReader reader(cache, kPartition, {.columns = {"id"}});
  int64_t count = 0;
  while (const auto batch = reader.next()) {
    const auto& ids = static_cast<const arrow::Int64Array&>(*batch->rows->column(0));
    for (int64_t row = 0; row < ids.length(); ++row, ++count) {
      if (ids.Value(row) != count) fail(ErrorKind::internal, "row {} in the place of {}", ids.Value(row), count);
    }
  }
  return count;
}

TEST(Generations, SixtyFourThreadsThatReadFlushAndSweepAtOnceLoseNothing) {
  CacheBox box;
  Cache cache(box.config);
  constexpr int kThreads = 64, kTurns = 4, kFlushes = 8, kRows = 5;
  add(cache, {row_of(0, "x")});
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        try {
          int64_t seen = 0;
          for (int turn = 0; turn < (thread == 0 ? kFlushes : kTurns); ++turn) {
            if (thread == 0) {
              Lines rows;
              for (int row = 0; row < kRows; ++row) rows.push_back(row_of(1 + turn * kRows + row, "x"));
              add(cache, rows);
            } else if (thread % 4 == 0) {
              sweep_partition(cache, kPartition, Sweep::all);
            } else {
              const int64_t count = count_in_order(cache);
              if (count < seen || count % kRows != 1) fail(ErrorKind::internal, "{} rows after {}", count, seen);
              seen = count;
            }
          }
        } catch (const std::exception& e) {
          ADD_FAILURE() << "thread " << thread << ": " << e.what();
        }
      });
    }
  }
  EXPECT_EQ(count_in_order(cache), 1 + kFlushes * kRows);
  sweep_partition(cache, kPartition, Sweep::all);
  EXPECT_EQ(num_snapshots(cache), 1u);
  EXPECT_EQ(num_data_files(cache), num_live_files(cache));
  EXPECT_EQ(count_in_order(cache), 1 + kFlushes * kRows);
}

}  // namespace
}  // namespace firn::hyp
