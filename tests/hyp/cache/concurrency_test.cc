// Several processes and threads at one cache.
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include <gtest/gtest.h>

#include "base/fault_point.h"
#include "hyp/cache/cache_box.h"
#include "support/crash.h"

namespace firn::hyp {
namespace {

constexpr int kFlushes = 8;
constexpr int kRows = 20;

void flush_some(Cache& cache, int writer, const std::string& own_column) {
  const auto spool = Spool::open(cache.config().cache_root);
  for (int i = 0; i < kFlushes; ++i) {
    Lines lines;
    for (int row = 0; row < kRows; ++row) {
      lines.push_back(fmt::format(R"({{"id":{},"{}":true}})", (writer * kFlushes + i) * kRows + row, own_column));
    }
    spool->append({make_frame("logs", "s", lines)});
    const auto report = flush(cache, *spool);
    if (report.rows != kRows) fail(ErrorKind::internal, "{} rows: {}", report.rows, fmt::join(report.problems, "; "));
  }
}

// Follows the partition by watermark alone, as a sink does. Throws if a row comes twice.
int64_t follow(const Cache& cache, int64_t expected) {
  std::set<int64_t> ids;
  ReadOptions options;
  options.columns = {"id"};
  options.since_exclusive = 0;
  for (const int64_t give_up = now_ms() + 60'000; static_cast<int64_t>(ids.size()) < expected && now_ms() < give_up;) {
    if (cache.partitions("logs").empty()) continue;
    SequencedReader reader(cache, {"logs", "s"}, options);
    while (const auto batch = reader.next()) {
      const auto& column = static_cast<const arrow::Int64Array&>(*batch->rows->column(0));
      for (int64_t i = 0; i < column.length(); ++i) {
        if (!ids.insert(column.Value(i)).second) fail(ErrorKind::internal, "row {} came twice", column.Value(i));
      }
      options.since_exclusive = batch->after.back();
    }
  }
  return static_cast<int64_t>(ids.size());
}

TEST(CacheConcurrency, AReaderBehindAWatermarkMissesNoRowOfSeveralProcesses) {
  CacheBox box;
  constexpr int kWriters = 3;
  const int failed = run_in_children(kWriters + 1, [&](int index) {
    Cache cache(box.config);
    if (index < kWriters) return flush_some(cache, index, "c" + std::to_string(index));
    const int64_t seen = follow(cache, kWriters * kFlushes * kRows);
    if (seen != kWriters * kFlushes * kRows) fail(ErrorKind::internal, "the reader saw {} rows", seen);
  });
  EXPECT_EQ(failed, 0);
  Cache cache(box.config);
  // Each brought a column; none took another's place.
  for (int writer = 0; writer < kWriters; ++writer) {
    const std::string column = "c" + std::to_string(writer);
    const auto read = read_sequenced(cache, {"logs", "s"}, {.columns = {"id", column}});
    int rows = 0;
    for (const std::string& row : read.rows) {
      const Json json = Json::parse(row);
      const bool is_own = json["id"].get<int64_t>() / (kFlushes * kRows) == writer;
      EXPECT_EQ(json[column].is_boolean(), is_own) << row;
      rows += is_own;
    }
    EXPECT_EQ(rows, kFlushes * kRows);
  }
}

TEST(CacheConcurrency, ThreadsOfOneProcessFlushSeveralSpoolsAtOnce) {
  CacheBox box;
  Cache cache(box.config);
  std::atomic<int> failures = 0;
  int64_t seen = 0;
  {
    std::vector<std::jthread> threads;
    for (int writer = 0; writer < 2; ++writer) {
      threads.emplace_back([&, writer] {
        try {
          flush_some(cache, writer, "c");
        } catch (const Error& e) {
          ADD_FAILURE() << e.what();
          ++failures;
        }
      });
    }
    seen = follow(cache, 2 * kFlushes * kRows);
  }
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(seen, 2 * kFlushes * kRows);
  EXPECT_EQ(cached_rows(cache, {"logs", "s"}).size(), static_cast<size_t>(2 * kFlushes * kRows));
}

// Live capture in few rows, a backfill in many, each in a spool and a thread of its own, in two processes.
TEST(CacheConcurrency, LiveCaptureAndBackfillAppearInTheOrderOfTheirNumbers) {
  CacheBox box;
  constexpr int kProcesses = 2, kLiveFlushes = 20, kBackfills = 4, kBackfillRows = 700;
  constexpr int64_t kAll = kProcesses * (kLiveFlushes + kBackfills * kBackfillRows);
  const int failed = run_in_children(kProcesses + 1, [&](int process) {
    Cache cache(box.config);
    if (process == kProcesses) {
      const int64_t seen = follow(cache, kAll);
      if (seen != kAll) fail(ErrorKind::internal, "the reader saw {} rows of {}", seen, kAll);
      return;
    }
    std::atomic<int64_t> next_id = 1'000'000 * process;
    std::atomic<int> failures = 0;
    const auto capture = [&](int flushes, int rows) {
      const auto spool = Spool::open(cache.config().cache_root);
      for (int i = 0; i < flushes; ++i) {
        Lines lines;
        for (int row = 0; row < rows; ++row) lines.push_back(fmt::format(R"({{"id":{}}})", next_id++));
        spool->append({make_frame("logs", "s", lines)});
        failures += flush(cache, *spool).rows != rows;
      }
    };
    {
      std::jthread backfill([&] { capture(kBackfills, kBackfillRows); });
      capture(kLiveFlushes, 1);
    }
    if (failures > 0) fail(ErrorKind::internal, "{} flushes failed", failures.load());
  });
  EXPECT_EQ(failed, 0);
  Cache cache(box.config);
  const auto read = read_sequenced(cache, {"logs", "s"});
  EXPECT_EQ(static_cast<int64_t>(read.rows.size()), kAll);
  EXPECT_TRUE(std::is_sorted(read.after.begin(), read.after.end(), std::less_equal<>()));
}

// A number that processes share.
class SharedNumber {
 public:
  SharedNumber()
      : at_(static_cast<std::atomic<int>*>(
            ::mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
    new (at_) std::atomic<int>(0);
  }
  ~SharedNumber() { ::munmap(at_, sizeof(std::atomic<int>)); }
  SharedNumber(const SharedNumber&) = delete;
  void wait_for(int value) const {
    while (*at_ != value) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  void set(int value) const { *at_ = value; }
  void add_one() const { ++*at_; }
  int get() const { return *at_; }

 private:
  std::atomic<int>* at_;
};

// Of the sequence file, by this process.
void count_writes(const SharedNumber& writes) {
  set_fault_handler([&](const char* name) {
    if (std::string_view(name) == "sequence.reserved") writes.add_one();
  });
}

// Hundreds of commits, each with several syncs: in memory where nobody chose a place.
struct ManyPartitions : testing::Test {
  ManyPartitions() {
    if (std::filesystem::is_directory("/dev/shm")) ::setenv("TMPDIR", "/dev/shm", /*replace=*/0);
  }
};

constexpr int kPartitions = 200;

std::string dataset_of(int partition) { return fmt::format("d{}", partition); }

Frame two_rows(int partition, int visit) {
  return make_frame(dataset_of(partition), "s", Lines(2, fmt::format(R"({{"visit":{}}})", visit)));
}

void flush_all(Cache& cache, Spool& spool, const std::vector<Frame>& frames) {
  spool.append(frames);
  const FlushReport report = flush(cache, spool);
  if (report.commits != static_cast<int64_t>(frames.size())) {
    fail(ErrorKind::internal, "{}", fmt::join(report.problems, "; "));
  }
}

void expect_visits_in_order(const CacheBox& box, size_t visits) {
  Cache cache(box.config);
  for (int i = 0; i < kPartitions; ++i) {
    const auto read = read_sequenced(cache, {dataset_of(i), "s"});
    EXPECT_EQ(read.rows.size(), 2 * visits);
    EXPECT_TRUE(std::is_sorted(read.after.begin(), read.after.end(), std::less_equal<>()));
    EXPECT_TRUE(std::is_sorted(read.rows.begin(), read.rows.end()));
  }
}

TEST_F(ManyPartitions, ProcessesThatFlushThemAllByTurnsWriteTheSequenceFileOnceMoreATurn) {
  CacheBox box;
  constexpr int kTurns = 3;
  const SharedNumber turn, writes;
  const int failed = run_in_children(2, [&](int process) {
    count_writes(writes);
    Cache cache(box.config);
    const auto spool = Spool::open(box.config.cache_root);
    for (int mine = process; mine < kTurns; mine += 2) {
      turn.wait_for(mine);
      std::vector<Frame> frames;
      for (int i = 0; i < kPartitions; ++i) frames.push_back(two_rows(i, mine));
      flush_all(cache, *spool, frames);
      turn.set(mine + 1);
    }
  });
  EXPECT_EQ(failed, 0);
  // One writer alone would have written two blocks for the 1,200 rows.
  EXPECT_LE(writes.get(), 2 + kTurns);
  expect_visits_in_order(box, kTurns);
}

// The worst order: each finds the other's numbers in every partition.
TEST_F(ManyPartitions, ProcessesThatTakeTurnsAtEachWriteTheSequenceFileOnceMoreAPartition) {
  CacheBox box;
  const SharedNumber turn, writes;
  const int failed = run_in_children(2, [&](int process) {
    count_writes(writes);
    Cache cache(box.config);
    const auto spool = Spool::open(box.config.cache_root);
    for (int i = 0; i < kPartitions; ++i) {
      const int visit = (process + i) % 2;
      turn.wait_for(2 * i + visit);
      flush_all(cache, *spool, {two_rows(i, visit)});
      turn.set(2 * i + visit + 1);
    }
  });
  EXPECT_EQ(failed, 0);
  EXPECT_LE(writes.get(), 1 + kPartitions);  // one writer alone would have written one block for the 800 rows
  EXPECT_GT(writes.get(), kPartitions / 2) << "it is no bad order";
  expect_visits_in_order(box, 2);
}

}  // namespace
}  // namespace firn::hyp
