#include "hyp/maintain/partition_status.h"

#include <algorithm>
#include <charconv>

#include "base/arrow_status.h"
#include "base/civil_time.h"
#include "base/clock.h"
#include "hyp/cache/partition_flush.h"
#include "hyp/maintain/head_size.h"
#include "hyp/maintain/retention.h"
#include "hyp/maintain/retention_state.h"
#include "hyp/maintain/row_age.h"
#include "iceberg/scan/scan.h"
#include "iceberg/write/array_values.h"

namespace firn::hyp {
namespace {

using iceberg::TypeId;
using iceberg::Value;

constexpr int64_t kDayMs = 86'400'000;

// The time that the first 48 bits of a UUIDv7 are; bounds may be cut after 16 characters.
std::optional<int64_t> batch_time_ms(const std::string& batch_id) {
  if (batch_id.size() < 13 || batch_id[8] != '-') return std::nullopt;
  const std::string digits = batch_id.substr(0, 8) + batch_id.substr(9, 4);
  int64_t time_ms = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), time_ms, 16);
  return error == std::errc() && end == digits.data() + digits.size() ? std::optional(time_ms) : std::nullopt;
}

// `value` of a column of times, or of batch ids.
std::optional<int64_t> time_ms_of(const Value& value, const iceberg::Type& type) {
  if (iceberg::is_null(value)) return std::nullopt;
  if (type.id() == TypeId::string) return batch_time_ms(std::get<std::string>(value));
  if (type.id() == TypeId::date) return std::get<int32_t>(value) * kDayMs;
  return floor_div(std::get<int64_t>(value), iceberg::is_nanos(type) ? 1'000'000 : 1'000);
}

std::optional<int64_t> bound_ms(const std::map<int32_t, std::string>& bounds, const iceberg::Field& column) {
  const auto found = bounds.find(column.id);
  if (found == bounds.end()) return std::nullopt;
  const auto value = iceberg::from_bytes(found->second, *column.type);
  return value ? time_ms_of(*value, *column.type) : std::nullopt;
}

struct Times {
  std::optional<int64_t> oldest_ms, newest_ms;
  void add(std::optional<int64_t> time_ms) {
    if (!time_ms) return;
    oldest_ms = std::min(oldest_ms.value_or(*time_ms), *time_ms);
    newest_ms = std::max(newest_ms.value_or(*time_ms), *time_ms);
  }
};

// The oldest and the newest live time of a column. A file's bounds tell those of its rows that are not deleted only
// where none is; such a file is read if its bounds are beyond what is known.
class TimeRange {
 public:
  TimeRange(const HeldTable& held, const iceberg::Field& column, const std::string& name)
      : io_(held.operations->io()), column_(column) {
    iceberg::ScanOptions scan;
    scan.columns = {name.substr(0, name.find('.'))};
    scan.filter = iceberg::predicate(iceberg::Op::not_null, name);  // so that the plan keeps the column's bounds
    plan_ = std::make_shared<const iceberg::ScanPlan>(iceberg::plan_scan(*held.table.metadata, io_, scan));
  }

  Times find() {
    std::vector<size_t> unsure;
    for (size_t i = 0; i < plan_->tasks.size(); ++i) {
      const iceberg::FileScanTask& task = plan_->tasks[i];
      const auto lower = bound_ms(task.file.lower_bounds, column_), upper = bound_ms(task.file.upper_bounds, column_);
      if (!lower || !upper || !task.deletes.empty()) {
        unsure.push_back(i);
      } else {
        times_.add(lower);
        times_.add(upper);
      }
    }
    // Those that reach furthest back first, which is where rows are deleted: what is found in them spares others.
    const auto lower_of = [&](size_t i) { return bound_ms(plan_->tasks[i].file.lower_bounds, column_).value_or(0); };
    std::sort(unsure.begin(), unsure.end(), [&](size_t a, size_t b) { return lower_of(a) < lower_of(b); });
    for (const size_t i : unsure) {
      if (may_widen(plan_->tasks[i].file)) read(i);
    }
    return times_;
  }

 private:
  bool may_widen(const iceberg::DataFile& file) const {
    const auto lower = bound_ms(file.lower_bounds, column_), upper = bound_ms(file.upper_bounds, column_);
    if (!times_.oldest_ms || !lower || !upper) return true;
    return *lower < *times_.oldest_ms || *upper > *times_.newest_ms;
  }

  void read(size_t task) {
    const auto rows = iceberg::read_task(plan_, task, io_, {});
    for (std::shared_ptr<arrow::RecordBatch> batch;;) {
      check(rows->ReadNext(&batch), "read the times of rows");
      if (!batch) return;
      const auto column = iceberg::array_of(*batch, plan_->projection, column_.id);
      for (int64_t row = 0; row < column->length(); ++row) {
        times_.add(time_ms_of(iceberg::value_at(*column, *column_.type, row), *column_.type));
      }
    }
  }

  const std::shared_ptr<FileIO>& io_;
  const iceberg::Field& column_;
  std::shared_ptr<const iceberg::ScanPlan> plan_;
  Times times_;
};

Times row_times(const HeldTable& held, const DatasetConfig& config) {
  const iceberg::Schema& schema = held.table.metadata->schema();
  const RowAge age = row_age(schema, config);
  if (age.timestamp) {
    const Times times = TimeRange(held, *schema.find_field(age.timestamp->id), age.timestamp->name).find();
    if (times.oldest_ms) return times;
  }
  const iceberg::Field* batch_id = schema.find_field(std::string_view(kBatchIdColumn));
  return batch_id != nullptr ? TimeRange(held, *batch_id, batch_id->name).find() : Times();
}

std::optional<int64_t> last_flush_ms(const iceberg::TableMetadata& metadata) {
  if (const std::string text = metadata.property(kLastFlushProperty, ""); !text.empty()) {
    if (const auto time = parse_timestamp_us(text)) return floor_div(time->value, 1000);
  }
  std::optional<int64_t> newest;  // of a table from before that property
  for (const iceberg::Snapshot& snapshot : metadata.snapshots) {
    if (snapshot.summary.contains("firn.flushed")) newest = std::max(newest.value_or(0), snapshot.timestamp_ms);
  }
  return newest;
}

void fill(PartitionStatus& status, Cache& cache) {
  const std::string folder = cache.folder(status.partition);
  status.generations = static_cast<int64_t>(list_generations(folder).size());
  const auto cursor = read_cursor(folder);
  const auto held = cache.hold(status.partition);
  if (!held) return;
  if (cursor) status.last_compaction = cursor->compaction;
  status.generation = table_dir_of(*held);
  const iceberg::TableMetadata& metadata = *held->table.metadata;
  const HeadTotals totals = head_totals(metadata);
  status.rows = std::max<int64_t>(0, totals.rows_written.value_or(0) - totals.rows_deleted.value_or(0));
  status.bytes = totals.bytes.value_or(0);
  status.files = totals.files.value_or(0);
  status.last_flush_ms = last_flush_ms(metadata);
  status.rows_forced_out = rows_forced_out(metadata);
  if (metadata.current_snapshot() == nullptr) return;
  const Times times = row_times(*held, cache.dataset_config(status.partition.dataset));
  status.oldest_ms = times.oldest_ms;
  status.newest_ms = times.newest_ms;
}

}  // namespace

PartitionStatus partition_status(Cache& cache, const PartitionId& partition) {
  PartitionStatus status;
  status.partition = partition;
  try {
    fill(status, cache);
    const RetentionReport retention = apply_retention(cache, partition, now_ms(), /*dry_run=*/true);
    status.rows_overdue = retention.rows_removed;
    status.rows_waiting = retention.rows_waiting;
  } catch (const Error& e) {  // the others are shown all the same
    status.problem = e.what();
  }
  return status;
}

}  // namespace firn::hyp
