// Several processes and threads at one cache.
#include <fstream>
#include <numeric>
#include <thread>

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace firn::hyp
