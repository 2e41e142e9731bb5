#include "hyp/maintain/compaction.h"

#include <algorithm>
#include <set>

#include "base/civil_time.h"
#include "base/clock.h"
#include "base/fault_point.h"
#include "base/log.h"
#include "base/span.h"
#include "hyp/cache/generations.h"
#include "hyp/cache/layout.h"
#include "hyp/cache/legacy_rows.h"
#include "hyp/cache/sequence_bounds.h"
#include "hyp/maintain/carry_over.h"
#include "hyp/maintain/head_size.h"
#include "hyp/maintain/new_generation.h"
#include "hyp/maintain/retention_state.h"
#include "iceberg/commit/commit.h"
#include "iceberg/write/delete_writer.h"

namespace firn::hyp {
namespace {

// What sinks have announced of the partition (P10.1).
struct Announced {
  std::vector<SequenceRange> ranges;
  std::string problem;  // why it is not known
};

Announced announced_units(const Cache& cache, const PartitionId& partition) {
  Announced announced;
  for (const SinkPosition& position : sink_positions(cache.config(), partition)) {
    if (position.pending) announced.ranges.push_back(*position.pending);
    if (!position.problem.empty()) announced.problem = position.problem;
  }
  return announced;
}

// Of flushes of spools that are gone: nobody asks for their marker again (P6.2).
void remove_dead_markers(iceberg::TableMetadata& metadata, const std::string& cache_root) {
  std::set<std::string> spools;
  for (const std::string& folder : list_spools(cache_root)) spools.insert(folder.substr(folder.rfind('/') + 1));
  for (const std::string_view prefix : {kFlushedPrefix, kReceivedPrefix}) {
    std::erase_if(metadata.properties, [&](const auto& property) {
      const std::string_view key = property.first;
      return key.starts_with(prefix) && !spools.contains(std::string(key.substr(prefix.size())));
    });
  }
}

// What retention found in the live table holds for the new one too, if it looked at all of its files; else it looks
// again.
void carry_retention(const iceberg::TableMetadata& live, bool has_files, iceberg::TableMetadata& next) {
  std::optional<RetentionState> state = read_retention_state(live);
  if (!state || state->table_uuid != live.table_uuid || state->sequence < live.last_sequence_number) return;
  state->table_uuid = next.table_uuid;
  state->sequence = has_files ? 1 : 0;  // of the only snapshot
  next.properties[kRetentionProperty] = to_text(*state);
}

// One partition's compaction, phase by phase. Requires the compactor's lock.
class Compaction {
 public:
  Compaction(Cache& cache, const PartitionId& partition, const HeldTable& held, const std::atomic<bool>* cancelled)
      : cache_(cache),
        partition_(partition),
        config_(cache.config().compaction),
        held_(held),
        live_(load_live(held)),
        cancelled_(cancelled) {
    report_.partition = partition;
  }

  CompactionReport run() {
    for (const LiveData& data : live_.files) {
      report_.files_before += 1;
      report_.bytes_before += data.file.file_size_bytes;
      if (may_lack_numbers(data.file, live_.seq_id)) {
        report_.note = "another program adds rows without _hyp_ingest_seq to it";
        return report_;
      }
    }
    find_dropped_rows();
    make_plan();
    const HeadFiles head = look_at_head(held_.table, *live_.io);
    if (plan_.groups.empty() && dropped_.numbers.empty() && head.metadata_bytes <= config_.metadata_bytes_max) {
      report_.note = "there is nothing to gain";
      return report_;
    }
    NewGeneration generation(cache_, partition_, live_);
    write(generation);
    fault_point("compaction.written");
    try {
      finish(generation);
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::commit_conflict) throw;
      report_.note = e.what();
    }
    return report_;
  }

 private:
  void find_dropped_rows() {
    dropped_.rows_by_file.resize(live_.files.size());
    if (!cache_.dataset_config(partition_.dataset).dedupe_content) return;
    const Announced announced = announced_units(cache_, partition_);
    if (!announced.problem.empty()) {
      spdlog::warn("{}: its duplicates stay, since a sink may have announced them: {}", partition_.logical_path(),
                   announced.problem);
      return;
    }
    Duplicates duplicates = find_duplicates(live_, announced.ranges, config_.memory_bytes_max / 2, cancelled_);
    dropped_.numbers = std::move(duplicates.numbers);
    dropped_.rows_by_file = std::move(duplicates.rows_by_file);
  }

  void make_plan() {
    std::vector<FileShape> shapes;
    for (size_t i = 0; i < live_.files.size(); ++i) {
      shapes.push_back(live_.files[i].shape);
      shapes.back().rows_hidden = std::min(shapes.back().rows, shapes.back().rows_hidden + dropped_.rows_by_file[i]);
    }
    plan_ = plan_compaction(shapes, config_.target_file_bytes);
  }

  void write(NewGeneration& generation) {
    std::vector<const LiveData*> linked;
    for (const size_t i : plan_.linked) linked.push_back(&live_.files[i]);
    generation.link(live_, linked);
    for (size_t i = 0; i < plan_.linked.size(); ++i) {
      check_not_cancelled(cancelled_);
      hide_rows(generation.files()[i], live_, plan_.linked[i], dropped_, {});
    }
    fault_point("compaction.linked");
    for (size_t group = 0; group < plan_.groups.size(); ++group) {
      generation.rewrite(plan_, group, dropped_.numbers, cancelled_);
    }
    report_.files_rewritten = plan_.gathered_files;
  }

  // From the head under the partition lock to the swap.
  void finish(NewGeneration& generation) {
    const FileLock partition_lock = cache_.lock(partition_);
    const auto head = cache_.hold(partition_, /*acting=*/true);
    if (!head || head->operations->location() != held_.operations->location()) {
      fail(ErrorKind::commit_conflict, "{}: its cursor was changed while it was compacted", partition_.logical_path());
    }
    const Announced announced = announced_units(cache_, partition_);
    if (!announced.problem.empty() && !dropped_.numbers.empty()) {
      fail(ErrorKind::commit_conflict, "a sink may have announced rows that were left out as duplicates: {}",
           announced.problem);
    }
    LiveTable now;
    if (head->table.metadata->current_snapshot_id == live_.metadata->current_snapshot_id) {
      now.metadata = head->table.metadata;  // rows are the same
    } else {
      now = load_live(*head);
    }
    const int64_t restored = carry_over(generation, live_, now, dropped_, announced.ranges);
    report_.duplicates_dropped = dropped_.numbers.size() - restored;
    fault_point("compaction.carried");
    const iceberg::LoadedTable table = publish(generation, *head->table.metadata);
    swap(generation, table);
  }

  // The table that names the generation's files, durable.
  iceberg::LoadedTable publish(NewGeneration& generation, const iceberg::TableMetadata& live) {
    iceberg::TableMetadata metadata = generation_metadata(live, generation.location());
    remove_dead_markers(metadata, cache_.config().cache_root);
    carry_retention(live, !generation.files().empty(), metadata);
    iceberg::SnapshotChange change;
    change.written_schema = metadata.schema();
    change.summary = {{"firn.compacted", table_dir_of(held_)}};
    change.read_check = iceberg::ReadCheck();  // made from an empty table
    iceberg::PositionDeleteWriter vectors(cache_.io(), metadata);
    for (NewFile& file : generation.files()) {
      report_.files_after += 1;
      report_.bytes_after += file.file.file_size_bytes;
      report_.rows += file.file.record_count - file.hidden.size();
      report_.files_linked += file.linked_from.empty() ? 0 : 1;
      vectors.add(file.file, std::move(file.hidden));
      change.added.push_back(file.file);
    }
    const std::vector<iceberg::DataFile> written = vectors.finish();
    if (!written.empty()) change.operation = "overwrite";
    change.added.insert(change.added.end(), written.begin(), written.end());
    iceberg::LoadedTable table = iceberg::create_filesystem_table(cache_.io(), metadata);
    fault_point("compaction.table-created");
    if (change.added.empty()) return table;
    const auto operations = iceberg::open_filesystem_table(cache_.io(), generation.location());
    return iceberg::commit_snapshot(*operations, change).table;
  }

  void swap(NewGeneration& generation, const iceberg::LoadedTable& table) {
    const std::string folder = cache_.folder(partition_);
    const HeadFiles head = look_at_head(table, *cache_.io());
    Cursor cursor = read_cursor(folder).value_or(Cursor());
    cursor.table_dir = generation.table_dir();
    if (cursor.cache_id.empty()) cursor.cache_id = cache_.sequence().cache_id();
    CompactionRecord& record = cursor.compaction.emplace();
    record.at = format_timestamp_ms_utc(now_ms());
    record.snapshot_id = table.metadata->current_snapshot_id;
    record.rows = report_.rows;
    record.files = report_.files_after;
    record.bytes = report_.bytes_after;
    record.metadata_bytes = head.metadata_bytes;
    record.gatherable_files = plan_compaction(head.files, config_.target_file_bytes).gathered_files;
    record.files_before = report_.files_before;
    record.bytes_before = report_.bytes_before;
    record.files_rewritten = report_.files_rewritten;
    record.duplicates_dropped = report_.duplicates_dropped;
    fault_point("compaction.before-swap");
    generation.keep();
    write_cursor(folder, cursor);
    fault_point("compaction.swapped");
    report_.swapped = true;
  }

  Cache& cache_;
  const PartitionId& partition_;
  const CompactionConfig& config_;
  const HeldTable& held_;
  const LiveTable live_;
  const std::atomic<bool>* cancelled_;
  DroppedRows dropped_;
  CompactionPlan plan_;
  CompactionReport report_;
};

}  // namespace

CompactionReport compact_partition(Cache& cache, const PartitionId& partition, const std::atomic<bool>* cancelled) {
  Span span("hyp.compact");
  span.set("partition", partition.logical_path());
  CompactionReport report;
  report.partition = partition;
  const auto compactor = try_lock_compactor(cache, partition);
  if (!compactor) {
    report.note = "another process compacts it, or purges rows of it";
    return report;
  }
  number_legacy_rows(cache, partition);
  const auto held = cache.hold(partition, /*acting=*/true);
  if (!held || held->table.metadata->current_snapshot() == nullptr) {
    report.note = "it has no rows";
    return report;
  }
  report = Compaction(cache, partition, *held, cancelled).run();
  span.set("files_rewritten", report.swapped ? report.files_rewritten : 0);
  return report;
}

}  // namespace firn::hyp
