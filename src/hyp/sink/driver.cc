#include "hyp/sink/driver.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <thread>

#include <arrow/array.h>

#include "base/arrow_status.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/span.h"
#include "base/uri.h"
#include "base/uuid.h"
#include "hyp/cache/parallel.h"
#include "hyp/sink/dead_letters.h"
#include "hyp/sink/destination.h"
#include "hyp/sink/partition_sink.h"
#include "hyp/sink/unit.h"

namespace firn::hyp {
namespace {

// Partitions whose next try is due (outbox.h).
std::vector<PartitionId> due_of(const Cache& cache, const SinkConfig& sink, const PartitionChoice& choice,
                                std::vector<PartitionId> partitions) {
  std::set<PartitionId> due;
  for (const OutboxEntry& entry : list_outbox(cache.config().state_dir, sink.name)) {
    if (!choice.takes(entry.partition) || !is_due(entry, now_ms())) continue;
    if (std::find(partitions.begin(), partitions.end(), entry.partition) == partitions.end()) {
      note_success(cache.config().state_dir, sink.name, entry.partition);  // it is gone, and what failed with it
    }
    due.insert(entry.partition);
  }
  std::erase_if(partitions, [&](const PartitionId& partition) { return !due.contains(partition); });
  return partitions;
}

// In the outbox, where the status and the next try find it.
void record(const Config& config, const SinkConfig& sink, ErrorKind kind, PartitionRun& run) {
  try {
    if (run.error.empty()) {
      note_success(config.state_dir, sink.name, run.partition);
      return;
    }
    const OutboxEntry entry = note_failure(config.state_dir, sink.name, run.partition, kind, run.error);
    run.attempts = entry.attempts;
    run.next_try_ms = entry.next_try_ms;
  } catch (const Error& e) {
    spdlog::warn("{}", e.what());  // it is in the report all the same
  }
}

// What stops one partition stops no other: it is told in the report and remembered.
void run_and_record(Cache& cache, const SinkConfig& sink, const SinkRunOptions& options, Destination& destination,
                    PartitionRun& run) {
  Span span("sink.partition");
  span.set("sink", sink.name);
  span.set("partition", run.partition.logical_path());
  ErrorKind kind = ErrorKind::internal;
  try {
    run_partition(cache, sink, options, destination, run);
  } catch (const Error& e) {
    kind = e.kind();
    run.error = e.what();
  } catch (const std::exception& e) {  // of a library, or no memory
    run.error = e.what();
  }
  span.set("units", run.units);
  span.set("rows", run.rows);
  if (run.rows_put_aside > 0) {
    const std::string path = dead_letters_path(cache.config().state_dir, sink.name, run.partition);
    const bool is_one = run.rows_put_aside == 1;
    const std::string aside = fmt::format("{} {} that the receiver can never take {} in {}", run.rows_put_aside,
                                          is_one ? "row" : "rows", is_one ? "is" : "are", path);
    run.note = run.note.empty() ? aside : aside + "; " + run.note;
  }
  if (!run.error.empty() && kind == ErrorKind::cancelled && options.cancelled != nullptr && *options.cancelled) {
    run.note += (run.note.empty() ? "" : "; ") +
                run.error;  // it was asked for: no failure of the partition, whose intent is settled by the next run
    run.error.clear();
    return;
  }
  if (!run.error.empty()) {
    run.error_kind = to_string(kind);
    span.fail(run.error_kind, run.error);
  }
  record(cache.config(), sink, kind, run);
}

// When the lowest row above the watermark was ingested, by the time in its batch id.
std::optional<int64_t> ingested_ms(const HeldTable& held, int64_t seq) {
  iceberg::ScanOptions scan;
  scan.columns = {kBatchIdColumn};
  scan.filter = iceberg::predicate(iceberg::Op::eq, kIngestSeqColumn, {seq});
  const auto rows = iceberg::scan(*held.table.metadata, held.operations->io(), scan);
  for (std::shared_ptr<arrow::RecordBatch> batch;;) {
    check(rows->ReadNext(&batch), "read a batch id");
    if (!batch) return std::nullopt;
    const auto& ids = static_cast<const arrow::StringArray&>(*batch->column(0));
    for (int64_t i = 0; i < ids.length(); ++i) {
      if (ids.IsValid(i)) return uuid_v7_time_ms(ids.GetView(i));
    }
  }
}

// Whole ones. 0: no such file.
int64_t count_lines(const std::string& path) {
  constexpr int64_t kStepBytes = 1 << 20;
  const auto info = make_local_file_io()->stat(path);
  if (!info) return 0;
  const auto file = make_local_file_io()->open(path);
  int64_t lines = 0;
  for (int64_t at = 0; at < info->size_bytes;) {
    const auto bytes = check(file->ReadAt(at, std::min(kStepBytes, info->size_bytes - at)), "read " + path);
    if (bytes->size() == 0) break;
    lines += std::count(bytes->data(), bytes->data() + bytes->size(), '\n');
    at += bytes->size();
  }
  return lines;
}

void read_status(const Cache& cache, const SinkConfig& sink, SinkPartitionStatus& status) {
  const std::string& state_dir = cache.config().state_dir;
  status.outbox = load_outbox_entry(outbox_path(state_dir, sink.name, status.partition));
  if (status.outbox) status.last_error = status.outbox->error;
  if (sink.kind == SinkKind::forward) {
    status.dead_letters_path = dead_letters_path(state_dir, sink.name, status.partition);
    status.dead_letters = count_lines(status.dead_letters_path);
  }
  const std::string stream = stream_of(cache.sequence().cache_id(), status.partition);
  if (const auto watermark = load_watermark(watermark_path(state_dir, sink.name, status.partition));
      watermark && (watermark->stream.empty() || watermark->stream == stream)) {
    status.watermark = watermark->seq;
    status.exported_rows = watermark->exported_row_count;
    status.exported_bytes = watermark->exported_bytes;
    status.bytes_since = watermark->bytes_since;
    status.updated_at = watermark->updated_at;
    status.shipped_at = watermark->shipped_at;
    status.pending = watermark->pending;
  }
  const auto held = cache.hold(status.partition);
  if (!held) return;
  status.highest_seq = held->table.metadata->int_property(kMaxSeqProperty, 0);
  if (status.highest_seq <= status.watermark.value_or(0)) return;
  const RowCount behind = count_rows(cache, status.partition, status.watermark, std::nullopt);
  status.rows_behind = behind.rows;
  if (behind.lowest) status.oldest_behind_ms = ingested_ms(*held, *behind.lowest);
}

}  // namespace

std::unique_ptr<Destination> make_destination(const Cache& cache, const SinkConfig& sink,
                                              const std::atomic<bool>* cancelled) {
  if (sink.path.empty() && sink.kind != SinkKind::forward) {
    fail(ErrorKind::config, "sink {}: it has no path", sink.name);
  }
  if (sink.unit_rows_max < 1 || sink.unit_bytes_max < 1) {
    fail(ErrorKind::config, "sink {}: maxRows and maxBytes must be at least 1", sink.name);
  }
  switch (sink.kind) {
    case SinkKind::blob:
      return make_blob_destination(cache, sink);
    case SinkKind::iceberg:
      return make_iceberg_destination(cache, sink);
    case SinkKind::forward:
      break;
  }
  return make_forward_destination(cache, sink, cancelled);
}

int64_t SinkRunReport::rows() const {
  int64_t sum = 0;
  for (const PartitionRun& run : partitions) sum += run.rows;
  return sum;
}

int64_t SinkRunReport::bytes() const {
  int64_t sum = 0;
  for (const PartitionRun& run : partitions) sum += run.bytes;
  return sum;
}

int64_t SinkRunReport::units() const {
  int64_t sum = 0;
  for (const PartitionRun& run : partitions) sum += run.units;
  return sum;
}

int64_t SinkRunReport::rows_put_aside() const {
  int64_t sum = 0;
  for (const PartitionRun& run : partitions) sum += run.rows_put_aside;
  return sum;
}

bool SinkRunReport::failed() const {
  return std::any_of(partitions.begin(), partitions.end(), [](const PartitionRun& run) { return !run.error.empty(); });
}

std::vector<PartitionId> sink_partitions(const Cache& cache, const SinkConfig& sink, const PartitionChoice& choice) {
  std::vector<PartitionId> partitions;
  for (const std::string& dataset : sink.datasets.empty() ? cache.datasets() : sink.datasets) {
    for (PartitionId& partition : cache.partitions(dataset)) {
      if (choice.takes(partition)) partitions.push_back(std::move(partition));
    }
  }
  std::sort(partitions.begin(), partitions.end());
  if (partitions.empty() && choice.dataset) {
    fail(ErrorKind::not_found,
         "sink {} ships nothing of {}{}: the cache has no rows of it, or it is none of the sink's datasets", sink.name,
         *choice.dataset, choice.source ? "/" + *choice.source : "");
  }
  return partitions;
}

std::string sink_lock_path(const std::string& state_dir, const std::string& sink) {
  return join_path(sink_folder(state_dir, sink), "lock");
}

std::optional<FileLock> lock_sink(const std::string& state_dir, const std::string& sink,
                                  const std::atomic<bool>* cancelled,
                                  const std::function<void(const std::string& text)>& waiting) {
  constexpr auto kLook = std::chrono::milliseconds(20);  // less than the daemon's tick: it does not always come first
  constexpr int kLooksUntilTold = 50;
  make_directories(sink_folder(state_dir, sink));
  const std::string path = sink_lock_path(state_dir, sink);
  for (int looks = 1;; ++looks) {
    if (cancelled != nullptr && *cancelled) return std::nullopt;
    if (auto lock = FileLock::try_acquire(path, FileLock::Mode::exclusive)) return lock;
    if (looks == kLooksUntilTold && waiting) waiting("another run of the sink is under way; waiting for its end");
    std::this_thread::sleep_for(kLook);
  }
}

SinkRunReport run_sink(Cache& cache, const SinkConfig& sink, const SinkRunOptions& options) {
  const std::unique_ptr<Destination> destination = make_destination(cache, sink, options.cancelled);
  SinkRunReport report;
  report.sink = sink.name;
  const auto lock = lock_sink(cache.config().state_dir, sink.name, options.cancelled, options.waiting);
  if (!lock) return report;
  std::vector<PartitionId> partitions = sink_partitions(cache, sink, options.partition);
  if (options.due_retries_only) partitions = due_of(cache, sink, options.partition, std::move(partitions));
  report.partitions.resize(partitions.size());
  std::mutex telling;
  SinkRunOptions shared = options;
  if (options.progress) {
    shared.progress = [&](const PartitionId& partition, int64_t rows) {
      std::lock_guard guard(telling);
      options.progress(partition, rows);
    };
  }
  if (options.waiting) {
    destination->tell_waits([&](const std::string& text) {
      std::lock_guard guard(telling);
      options.waiting(text);
    });
  }
  const auto num_threads = static_cast<size_t>(std::clamp<int64_t>(sink.parallel_max, 1, kParallelMax));
  run_parallel(partitions.size(), num_threads, [&](size_t i) {
    if (options.cancelled != nullptr && *options.cancelled) return;
    report.partitions[i].partition = partitions[i];
    run_and_record(cache, sink, shared, *destination, report.partitions[i]);
  });
  std::erase_if(report.partitions, [](const PartitionRun& run) { return run.partition.dataset.empty(); });  // not begun
  return report;
}

std::vector<SinkPartitionStatus> sink_status(const Cache& cache, const SinkConfig& sink,
                                             const PartitionChoice& choice) {
  std::vector<SinkPartitionStatus> statuses;
  for (const PartitionId& partition : sink_partitions(cache, sink, choice)) {
    SinkPartitionStatus& status = statuses.emplace_back();
    status.partition = partition;
    try {
      read_status(cache, sink, status);
    } catch (const Error& e) {
      status.is_unreadable = true;
      status.last_error = e.what();
    }
  }
  return statuses;
}

}  // namespace firn::hyp
