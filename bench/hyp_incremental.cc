// What an incremental read of a cache partition costs as the partition grows, before and after retention and
// compaction: 1,000 new rows, in a process that has been at work. Beside it the peer "filter", which reads all rows and
// keeps those above the watermark. One JSON line a measurement.
//
//   bench_hyp_incremental WORK [--rows N,…] [--flush N] [--new N] [--reps N]
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <functional>

#include <arrow/array.h>
#include <CLI/CLI.hpp>

#include "base/arrow_status.h"
#include "base/civil_time.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/uuid.h"
#include "hyp/cache/generations.h"
#include "hyp/maintain/compaction.h"
#include "hyp/maintain/retention.h"

namespace {

using namespace firn;
using namespace firn::hyp;

constexpr int64_t kDayMs = 86'400'000;
constexpr int64_t kDays = 90, kKeptDays = 60;
const PartitionId kPartition{"events", "bench"};

struct Options {
  std::string work;
  std::vector<int64_t> rows = {100'000, 1'000'000, 10'000'000};
  int64_t flush_rows = 10'000, new_rows = 1'000;
  int reps = 15;
};

struct Measured {
  double seconds = 0;
  double processor_seconds = 0;  // of all threads: what is left when other programs keep the machine busy
  int64_t rows = 0, rows_decoded = 0, files_opened = 0, manifests_read = 0;
};

class Partition {
 public:
  Partition(const Options& options, int64_t rows) : options_(options), config_(make_config(options.work)), rows_(rows) {
    std::filesystem::remove_all(options.work);
    cache_ = std::make_unique<Cache>(config_);
    spool_ = Spool::open(config_.cache_root);
    start_ms_ = now_ms() - kDays * kDayMs;
    while (next_id_ < rows_) {
      flush_rows(std::min(options_.flush_rows, rows_ - next_id_));
      if (next_id_ / options_.flush_rows % 50 == 0) sweep_partition(*cache_, kPartition, Sweep::when_due);
    }
  }

  void retain() {
    const RetentionReport report = apply_retention(*cache_, kPartition, now_ms());
    std::fprintf(stderr, "  retention: %ld rows gone\n", report.rows_removed);
  }

  void compact() {
    const CompactionReport report = compact_partition(*cache_, kPartition);
    std::fprintf(stderr, "  compaction: %ld files to %ld%s\n", report.files_before, report.files_after,
                 report.note.c_str());
    if (!report.swapped) fail(ErrorKind::internal, "nothing was compacted: {}", report.note);
  }

  // The median of several reads, each of rows that were flushed just before it.
  Measured read_new() {
    std::vector<Measured> measured;
    for (int i = 0; i <= options_.reps; ++i) {
      const int64_t since = newest();
      flush_rows(options_.new_rows);
      iceberg::ReadCounters counters;
      ReadOptions read;
      read.since_exclusive = since;
      read.counters = &counters;
      Measured one;
      const int64_t started = steady_us();
      const std::clock_t clock_started = std::clock();
      SequencedReader reader(*cache_, kPartition, read);
      while (const auto batch = reader.next()) one.rows += batch->rows->num_rows();
      one.seconds = static_cast<double>(steady_us() - started) / 1e6;
      one.processor_seconds = static_cast<double>(std::clock() - clock_started) / CLOCKS_PER_SEC;
      one.rows_decoded = counters.rows_decoded;
      one.files_opened = counters.files_opened;
      one.manifests_read = counters.manifests_read;
      if (one.rows != options_.new_rows) fail(ErrorKind::internal, "{} rows were read", one.rows);
      if (i > 0) measured.push_back(one);  // the first warms up
    }
    return median(measured);
  }

  Measured filter_all() {
    const int64_t since = newest();
    flush_rows(options_.new_rows);
    std::vector<Measured> measured;
    for (int i = 0; i < 3; ++i) {
      iceberg::ReadCounters counters;
      iceberg::ScanOptions scan;
      scan.counters = &counters;
      Measured one;
      const int64_t started = steady_us();
      const std::clock_t clock_started = std::clock();
      const auto held = cache_->hold(kPartition);
      const auto rows = iceberg::scan(*held->table.metadata, held->operations->io(), scan);
      for (std::shared_ptr<arrow::RecordBatch> batch;;) {
        check(rows->ReadNext(&batch), "scan");
        if (!batch) break;
        const auto numbers = std::static_pointer_cast<arrow::Int64Array>(batch->GetColumnByName(kIngestSeqColumn));
        for (int64_t row = 0; row < batch->num_rows(); ++row) one.rows += numbers->Value(row) > since;
      }
      one.seconds = static_cast<double>(steady_us() - started) / 1e6;
      one.processor_seconds = static_cast<double>(std::clock() - clock_started) / CLOCKS_PER_SEC;
      one.rows_decoded = counters.rows_decoded;
      one.files_opened = counters.files_opened;
      one.manifests_read = counters.manifests_read;
      measured.push_back(one);
    }
    return median(measured);
  }

 private:
  static Config make_config(const std::string& work) {
    Config config;
    config.cache_root = work + "/cache";
    config.state_dir = work + "/state";
    DatasetConfig& dataset = config.datasets[kPartition.dataset];
    dataset.name = kPartition.dataset;
    dataset.primary_timestamp_column = "ts";
    dataset.retention.days = kKeptDays;
    return config;
  }

  static Measured median(std::vector<Measured>& measured) {
    std::sort(measured.begin(), measured.end(),
              [](const Measured& a, const Measured& b) { return a.seconds < b.seconds; });
    return measured[measured.size() / 2];
  }

  int64_t newest() const { return SequencedReader(*cache_, kPartition, {.since_exclusive = INT64_MAX}).max_seq(); }

  void flush_rows(int64_t count) {
    Frame frame;
    frame.dataset = kPartition.dataset;
    frame.source = kPartition.source;
    frame.batch_id = uuid_v7(now_ms());
    frame.text.reserve(static_cast<size_t>(count) * 150);
    for (const int64_t end = next_id_ + count; next_id_ < end; ++next_id_) {
      const int64_t ms = start_ms_ + std::min(next_id_, rows_) * (kDays * kDayMs / rows_);
      fmt::format_to(std::back_inserter(frame.text),
                     R"({{"id":{},"ts":"{}","user":"user-{:04}","text":"event {} of {}","cost":{}.5}})"
                     "\n",
                     next_id_, format_timestamp_ms_utc(ms), next_id_ * 7919 % 4000, next_id_ * 104'729 % 1'000'003,
                     next_id_, next_id_ % 97);
    }
    spool_->append({frame});
    const FlushReport report = flush(*cache_, *spool_);
    if (report.rows != count) fail(ErrorKind::internal, "{} rows: {}", report.rows, fmt::join(report.problems, "; "));
  }

  const Options& options_;
  const Config config_;
  const int64_t rows_;
  int64_t start_ms_ = 0, next_id_ = 0;
  std::unique_ptr<Cache> cache_;
  std::unique_ptr<Spool> spool_;
};

void emit(const std::string& peer, int64_t rows, const std::string& state, const Measured& measured) {
  const Json params = {{"rows", rows}, {"state", state}};
  const auto line = [&](const char* metric, const Json& value, const char* unit) {
    const Json json = {{"peer", peer}, {"workload", "incremental"}, {"metric", metric}, {"value", value},
                       {"unit", unit}, {"params", params}};
    std::printf("%s\n", json.dump().c_str());
  };
  line("seconds", measured.seconds, "s");
  line("processor_seconds", measured.processor_seconds, "s");
  line("rows_decoded", measured.rows_decoded, "rows");
  line("files_opened", measured.files_opened, "files");
  line("manifests_read", measured.manifests_read, "files");
  std::fflush(stdout);
}

void run(const Options& options) {
  for (const int64_t rows : options.rows) {
    const int64_t started = steady_us();
    Partition partition(options, rows);
    std::fprintf(stderr, "%ld rows flushed in %.1f s\n", rows, static_cast<double>(steady_us() - started) / 1e6);
    const auto measure = [&](const std::string& state) {
      emit("firn", rows, state, partition.read_new());
      emit("filter", rows, state, partition.filter_all());
    };
    measure("flushed");
    partition.retain();
    measure("after retention");
    partition.compact();
    measure("after compaction");
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("An incremental read of a growing cache partition");
  app.add_option("work", options.work, "a folder that is made anew")->required();
  app.add_option("--rows", options.rows, "in the partition")->delimiter(',');
  app.add_option("--flush", options.flush_rows, "rows a flush");
  app.add_option("--new", options.new_rows, "rows read");
  app.add_option("--reps", options.reps, "reads, of which the median counts");
  CLI11_PARSE(app, argc, argv);
  spdlog::set_level(spdlog::level::err);
  try {
    run(options);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_hyp_incremental: %s\n", e.what());
    return 1;
  }
}
