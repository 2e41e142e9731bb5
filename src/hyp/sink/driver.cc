#include "hyp/sink/driver.h"

#include <algorithm>

#include "base/log.h"
#include "base/span.h"
#include "base/uri.h"
#include "hyp/sink/destination.h"
#include "hyp/sink/last_error.h"
#include "hyp/sink/partition_sink.h"
#include "hyp/sink/unit.h"
#include "hyp/sink/watermark.h"

namespace firn::hyp {
namespace {

std::vector<PartitionId> partitions_of(const Cache& cache, const SinkConfig& sink) {
  std::vector<PartitionId> partitions;
  for (const std::string& dataset : sink.datasets.empty() ? cache.datasets() : sink.datasets) {
    const auto some = cache.partitions(dataset);
    partitions.insert(partitions.end(), some.begin(), some.end());
  }
  return partitions;
}

std::unique_ptr<Destination> make_destination(const Cache& cache, const SinkConfig& sink) {
  if (sink.path.empty()) fail(ErrorKind::config, "sink {}: it has no path", sink.name);
  if (sink.unit_rows_max < 1 || sink.unit_bytes_max < 1) {
    fail(ErrorKind::config, "sink {}: maxRows and maxBytes must be at least 1", sink.name);
  }
  return sink.kind == SinkKind::blob ? make_blob_destination(cache, sink) : make_iceberg_destination(cache, sink);
}

FileLock lock_sink(const std::string& state_dir, const std::string& sink) {
  make_directories(sink_folder(state_dir, sink));
  return FileLock::acquire(sink_lock_path(state_dir, sink), FileLock::Mode::exclusive);
}

// What stops one partition stops no other: it is told in the report and remembered for the status.
void run_and_record(Cache& cache, const SinkConfig& sink, const SinkRunOptions& options, Destination& destination,
                    PartitionRun& run) {
  Span span("sink.partition");
  span.set("sink", sink.name);
  span.set("partition", run.partition.logical_path());
  try {
    run_partition(cache, sink, options, destination, run);
  } catch (const Error& e) {
    run.error_kind = to_string(e.kind());
    run.error = e.what();
  } catch (const std::exception& e) {  // of a library, or no memory
    run.error_kind = to_string(ErrorKind::internal);
    run.error = e.what();
  }
  span.set("units", run.units);
  span.set("rows", run.rows);
  if (!run.error.empty()) {
    span.fail(run.error_kind, run.error);
    spdlog::error("sink {}: {}: {}", sink.name, run.partition.logical_path(), run.error);
  }
  try {
    save_last_error(last_error_path(cache.config().state_dir, sink.name, run.partition), {run.error_kind, run.error});
  } catch (const Error& e) {
    spdlog::warn("{}", e.what());  // it is in the report all the same
  }
}

}  // namespace

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

bool SinkRunReport::failed() const {
  return std::any_of(partitions.begin(), partitions.end(), [](const PartitionRun& run) { return !run.error.empty(); });
}

std::string sink_lock_path(const std::string& state_dir, const std::string& sink) {
  return join_path(sink_folder(state_dir, sink), "lock");
}

SinkRunReport run_sink(Cache& cache, const SinkConfig& sink, const SinkRunOptions& options) {
  const std::unique_ptr<Destination> destination = make_destination(cache, sink);
  const FileLock lock = lock_sink(cache.config().state_dir, sink.name);
  SinkRunReport report;
  report.sink = sink.name;
  for (const PartitionId& partition : partitions_of(cache, sink)) {
    if (options.partition && partition != *options.partition) continue;
    if (options.cancelled != nullptr && *options.cancelled) break;
    PartitionRun& run = report.partitions.emplace_back();
    run.partition = partition;
    run_and_record(cache, sink, options, *destination, run);
  }
  return report;
}

std::vector<SinkPartitionStatus> sink_status(const Cache& cache, const SinkConfig& sink) {
  std::vector<SinkPartitionStatus> statuses;
  const std::string& state_dir = cache.config().state_dir;
  for (const PartitionId& partition : partitions_of(cache, sink)) {
    SinkPartitionStatus& status = statuses.emplace_back();
    status.partition = partition;
    try {
      status.last_error = load_last_error(last_error_path(state_dir, sink.name, partition)).error;
      const std::string stream = stream_of(cache.sequence().cache_id(), partition);
      if (const auto watermark = load_watermark(watermark_path(state_dir, sink.name, partition));
          watermark && (watermark->stream.empty() || watermark->stream == stream)) {
        status.watermark = watermark->seq;
        status.exported_rows = watermark->exported_row_count;
        status.updated_at = watermark->updated_at;
        status.pending = watermark->pending.has_value();
      }
      const auto held = cache.hold(partition);
      if (!held) continue;
      status.highest_seq = held->table.metadata->int_property(kMaxSeqProperty, 0);
      if (status.highest_seq > status.watermark.value_or(0)) {
        status.rows_behind = count_rows(cache, partition, status.watermark, std::nullopt).rows;
      }
    } catch (const Error& e) {
      status.is_unreadable = true;
      status.last_error = e.what();
    }
  }
  return statuses;
}

}  // namespace firn::hyp
