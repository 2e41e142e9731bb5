#include "hyp/maintain/retention.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "base/civil_time.h"
#include "base/fault_point.h"
#include "base/log.h"
#include "base/span.h"
#include "hyp/cache/legacy_rows.h"
#include "hyp/cache/new_table.h"
#include "hyp/maintain/overdue_rows.h"
#include "hyp/maintain/retention_state.h"
#include "hyp/maintain/row_age.h"
#include "hyp/maintain/sink_positions.h"
#include "iceberg/commit/commit.h"

namespace firn::hyp {
namespace {

using iceberg::TableMetadata;

constexpr int64_t kHourMs = 3'600'000;

bool has_numbers(const TableMetadata& metadata) {
  return is_adopted(metadata) && metadata.bool_property(kSequencedProperty, false);
}

bool has_numbered_rows(const Cache& cache, const PartitionId& partition) {
  const auto held = cache.hold(partition);
  return !held || has_numbers(*held->table.metadata);
}

// Looks of this process that found nothing to do without reading a data file: the table does not say so, since that
// would be a commit, and the next look would open the same manifests. One a partition.
class IdleLooks {
 public:
  std::optional<RetentionState> find(const std::string& partition) {
    const std::lock_guard guard(mutex_);
    const auto found = looks_.find(partition);
    return found == looks_.end() ? std::nullopt : std::optional(found->second);
  }
  void note(const std::string& partition, const RetentionState& look) {
    const std::lock_guard guard(mutex_);
    looks_[partition] = look;
  }
  void forget(const std::string& partition) {
    const std::lock_guard guard(mutex_);
    looks_.erase(partition);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, RetentionState> looks_;
};

IdleLooks& idle_looks() {
  static IdleLooks looks;
  return looks;
}

// One partition at one time. Requires the partition lock.
class Retention {
 public:
  Retention(Cache& cache, const PartitionId& partition, const RetentionConfig& config, int64_t now_ms,
            const HeldTable& held)
      : config_(cache.config()),
        partition_(partition),
        key_(config_.cache_root + "/" + partition.logical_path()),
        held_(held),
        metadata_(*held.table.metadata) {
    const DatasetConfig dataset = cache.dataset_config(partition.dataset);
    age_ = row_age(metadata_.schema(), dataset);
    look_.table_uuid = metadata_.table_uuid;
    look_.sequence = metadata_.last_sequence_number;
    look_.age = age_.text();
    look_.waits_for_sinks = config.wait_for_sink_ack;
    look_.cutoff_ms = floor_div(now_ms - *config.days * 24 * kHourMs, kHourMs) * kHourMs;
    look_.grace_cutoff_ms = look_.cutoff_ms - config.grace_days * 24 * kHourMs;
    look_.arrival_cutoff_ms = floor_div(now_ms - config.grace_days * 24 * kHourMs, kHourMs) * kHourMs;
    report_.partition = partition;
    report_.cutoff_ms = look_.cutoff_ms;
    report_.note = age_.note;
  }

  RetentionReport run(bool dry_run) {
    known_ = read_retention_state(metadata_);
    const std::vector<SinkPosition> sinks = sink_positions(config_, partition_);
    look_.positions = positions_text(sinks);
    const std::optional<RetentionState> idle = idle_looks().find(key_);
    for (const auto& state : {known_, idle}) {
      if (!is_unchanged_since(state)) continue;
      report_.rows_waiting = state->rows_waiting;
      return report_;
    }
    idle_looks().forget(key_);
    found_ = find_overdue_rows(metadata_, held_.operations->io(), age_, look_, sinks, known_);
    look_.rows_waiting = found_.rows_waiting;
    look_.waiting = found_.waiting;
    report_.rows_removed = found_.rows_gone;
    report_.files_read = found_.files_read;
    report_.rows_waiting = found_.rows_waiting;
    report_.rows_forced_out = found_.rows_forced_out;
    for (const iceberg::ChosenRows& rows : found_.gone) (rows.all ? report_.files_dropped : report_.files_marked) += 1;
    if (dry_run) return report_;
    if (!found_.gone.empty()) {
      remove_rows();
    } else if (found_.files_read > 0 || found_.rows_waiting != (known_ ? known_->rows_waiting : RowsBySink())) {
      remember();
    } else {
      idle_looks().note(key_, look_);
    }
    return report_;
  }

 private:
  // Nothing could have become old, and nothing that is old could have become free to go.
  bool is_unchanged_since(const std::optional<RetentionState>& state) const {
    return state && state->is_same_look(look_) && state->sequence >= look_.sequence &&
           (!state->waiting || state->positions == look_.positions);
  }

  void remove_rows() {
    iceberg::RowOptions options;
    options.mode = iceberg::RowMode::merge_on_read;
    options.summary = {{"firn.retention-cutoff", format_timestamp_ms_utc(look_.cutoff_ms)}};
    iceberg::PreparedRows prepared =
        iceberg::prepare_delete_chosen(metadata_, held_.operations->io(), found_.plan, found_.gone, options);
    prepared.change->plan_try = [&](const TableMetadata& base, int64_t, int64_t sequence_number) {
      RetentionState state = look_;
      // What another writer added in between was not looked at.
      if (base.last_sequence_number == metadata_.last_sequence_number) state.sequence = sequence_number;
      RowsBySink forced_out = rows_forced_out(base);
      for (const auto& [sink, rows] : found_.rows_forced_out) forced_out[sink] += rows;
      iceberg::TryPlan plan;
      plan.set_properties[kRetentionProperty] = to_text(state);
      if (!forced_out.empty()) plan.set_properties[kForcedOutProperty] = forced_out_text(forced_out);
      return plan;
    };
    fault_point("retention.commit");
    try {
      iceberg::commit_snapshot(*held_.operations, *prepared.change);
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::commit_unknown) discard_unless_landed(prepared);
      throw;
    }
    fault_point("retention.committed");
    for (const auto& [sink, rows] : found_.rows_forced_out) {
      spdlog::warn("{}: {} rows older than {} left the cache before sink {} had them", partition_.logical_path(), rows,
                   format_timestamp_ms_utc(look_.cutoff_ms), sink);
    }
  }

  void discard_unless_landed(const iceberg::PreparedRows& prepared) const {
    try {
      const auto head = held_.operations->load();
      if (head.metadata->current_snapshot_id != metadata_.current_snapshot_id) return;
      iceberg::discard(prepared, *held_.operations->io());
    } catch (const Error& e) {  // no snapshot names what stays
      spdlog::warn("{}", e.what());
    }
  }

  // That it was looked at, where nothing goes: the next look would read the same files.
  void remember() {
    fault_point("retention.remember");
    iceberg::commit_metadata(*held_.operations, [&](TableMetadata& next) {
      std::string& text = next.properties[kRetentionProperty];
      return std::exchange(text, to_text(look_)) != text;
    });
    fault_point("retention.remembered");
  }

  const Config& config_;
  const PartitionId& partition_;
  const std::string key_;  // of the idle looks
  const HeldTable& held_;
  const TableMetadata& metadata_;
  RowAge age_;
  RetentionState look_;  // of now
  std::optional<RetentionState> known_;
  OverdueRows found_;
  RetentionReport report_;
};

}  // namespace

RetentionReport apply_retention(Cache& cache, const PartitionId& partition, int64_t now_ms, bool dry_run) {
  RetentionReport nothing;
  nothing.partition = partition;
  const RetentionConfig config = cache.dataset_config(partition.dataset).retention;
  if (!config.days) return nothing;
  Span span("hyp.retention");
  span.set("partition", partition.logical_path());
  if (!dry_run && !has_numbered_rows(cache, partition)) number_legacy_rows(cache, partition);
  const FileLock partition_lock = cache.lock(partition);
  const auto held = cache.hold(partition, /*acting=*/true);
  if (!held || held->table.metadata->current_snapshot() == nullptr) return nothing;
  if (!has_numbers(*held->table.metadata)) {  // dry run, or another writer just now
    nothing.note = "its rows have no numbers yet; they get them with the first upkeep or sink run";
    return nothing;
  }
  RetentionReport report = Retention(cache, partition, config, now_ms, *held).run(dry_run);
  span.set("rows", report.rows_removed);
  return report;
}

}  // namespace firn::hyp
