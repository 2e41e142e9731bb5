#include "hyp/maintain/purge.h"

#include <algorithm>
#include <memory>
#include <optional>

#include <fmt/ranges.h>

#include "base/arrow_status.h"
#include "base/fault_point.h"
#include "base/log.h"
#include "base/span.h"
#include "hyp/cache/generations.h"
#include "hyp/cache/layout.h"
#include "hyp/cache/legacy_rows.h"
#include "hyp/maintain/sink_positions.h"
#include "hyp/sink/driver.h"
#include "iceberg/commit/commit.h"
#include "iceberg/manifest/snapshot_manifests.h"
#include "iceberg/rows/rows.h"

namespace firn::hyp {
namespace {

using iceberg::Expression;
using iceberg::ExpressionPtr;
using iceberg::Op;
using iceberg::Schema;
using iceberg::Snapshot;
using iceberg::TableMetadata;

void check_columns(const Expression& e, const Schema& known, const std::string& dataset) {
  for (const ExpressionPtr& child : e.children) check_columns(*child, known, dataset);
  if (e.column.empty() || known.find_field(std::string_view(e.column)) != nullptr) return;
  std::vector<std::string> names;
  for (const iceberg::Field& field : known.fields()) names.push_back(field.name);
  const std::string* nearest = nearest_name(e.column, names);
  fail(ErrorKind::invalid_argument, "the dataset {} has no column \"{}\"{}; it has: {}", dataset, e.column,
       nearest != nullptr ? fmt::format(", did you mean \"{}\"", *nearest) : "", fmt::join(names, ", "));
}

// `e` for rows with the columns of `schema`, where any other column is null: a comparison with it is never true,
// negated or not.
ExpressionPtr for_columns(const ExpressionPtr& e, const Schema& schema, bool is_negated = false) {
  const auto constant = [](bool value) { return value ? iceberg::always_true() : iceberg::always_false(); };
  switch (e->op) {
    case Op::always_true:
    case Op::always_false:
      return constant((e->op == Op::always_true) != is_negated);
    case Op::not_:
      return for_columns(e->children[0], schema, !is_negated);
    case Op::and_:
    case Op::or_: {
      auto left = for_columns(e->children[0], schema, is_negated);
      auto right = for_columns(e->children[1], schema, is_negated);
      return (e->op == Op::and_) != is_negated ? iceberg::and_(std::move(left), std::move(right))
                                               : iceberg::or_(std::move(left), std::move(right));
    }
    default:
      if (schema.find_field(std::string_view(e->column)) != nullptr) return is_negated ? iceberg::not_(e) : e;
      return constant(e->op == (is_negated ? Op::not_null : Op::is_null));
  }
}

// Whether a data file that the snapshot names holds such a row, be it one that a delete hides.
bool holds_rows(const TableMetadata& metadata, const std::shared_ptr<FileIO>& io, const Snapshot& snapshot,
                const ExpressionPtr& where) {
  iceberg::ScanOptions options;
  options.snapshot_id = snapshot.snapshot_id;
  options.columns = {"_pos"};
  options.filter = for_columns(where, metadata.schema(snapshot.schema_id.value_or(metadata.current_schema_id)));
  if (options.filter->op == Op::always_false) return false;
  const auto plan = std::make_shared<iceberg::ScanPlan>(iceberg::plan_scan(metadata, io, options));
  for (iceberg::FileScanTask& task : plan->tasks) {
    if (!task.residual) return true;
    task.deletes.clear();
  }
  for (size_t i = 0; i < plan->tasks.size(); ++i) {
    const auto reader = iceberg::read_task(plan, i, io, options);
    std::shared_ptr<arrow::RecordBatch> batch;
    check(reader->ReadNext(&batch), "read " + plan->tasks[i].file.file_path);
    if (batch) return true;
  }
  return false;
}

// What keeps an older snapshot in the table's metadata.
std::string keeper_of(const TableMetadata& metadata, int64_t snapshot_id) {
  for (const auto& [name, ref] : metadata.refs) {
    if (ref.snapshot_id == snapshot_id)
      return fmt::format("the {} '{}' names it; drop that", ref.is_branch ? "branch" : "tag", name);
  }
  return "a reader holds it";
}

// The manifests that a delete wrote say which files it took, with the bounds of their values. Nobody reads that here,
// and it must not stay.
void drop_removed_entries(iceberg::TableOperations& table) {
  const iceberg::LoadedTable head = table.load();
  const Snapshot* snapshot = head.metadata->current_snapshot();
  if (snapshot == nullptr) return;
  const auto names_removed = [](const iceberg::ManifestFile& manifest) {
    return manifest.deleted_files_count.value_or(1) > 0;
  };
  const auto manifests = iceberg::snapshot_manifests(*head.metadata, *snapshot,
                                                     [&](const std::string& path) { return table.io()->read(path); });
  if (std::none_of(manifests.begin(), manifests.end(), names_removed)) return;
  iceberg::SnapshotChange change;
  change.operation = "replace";
  change.merge_manifests = false;
  change.rewrites_manifest = names_removed;
  fault_point("purge.rewrite-manifests");
  iceberg::commit_snapshot(table, change);
}

// A sink of the partition while rows go.
struct WatchedSink {
  SinkPosition position;
  std::optional<FileLock> idle;  // it does not begin to send meanwhile; nullopt: it may have rows to send in its memory
};

std::vector<WatchedSink> watch_sinks(const Config& config, const PartitionId& partition) {
  std::map<std::string, std::optional<FileLock>> idle;
  for (const SinkPosition& position : sink_positions(config, partition)) {
    idle[position.sink] =
        FileLock::try_acquire(sink_lock_path(config.state_dir, position.sink), FileLock::Mode::exclusive);
  }
  std::vector<WatchedSink> sinks;  // as they are now
  for (SinkPosition& position : sink_positions(config, partition)) {
    std::optional<FileLock>& lock = idle[position.sink];
    sinks.push_back({std::move(position), std::move(lock)});
  }
  return sinks;
}

// The live rows that match, and how many of them each sink has.
struct Matching {
  int64_t rows = 0;
  std::map<std::string, int64_t> sent, maybe_sent;
};

void add_counts(std::map<std::string, int64_t>& to, const std::map<std::string, int64_t>& from) {
  for (const auto& [name, count] : from) to[name] += count;
}

class PartitionPurge {
 public:
  PartitionPurge(Cache& cache, const PartitionId& partition, const ExpressionPtr& where, PurgeReport& report)
      : cache_(cache), partition_(partition), where_(where), report_(report) {}

  void count() {
    const auto held = cache_.hold(partition_);
    if (held) note_purged(matching_rows(*held, watch_sinks(cache_.config(), partition_)));
  }

  void run() {
    // Against a compaction that read the rows before they went; it would carry them over.
    const FileLock compactor = lock_compactor(cache_, partition_);
    // Rewritten files would come in another order, and be another open than that of a copy of this cache, which would
    // send the same rows again (P9.3).
    number_legacy_rows(cache_, partition_);
    const FileLock partition_lock = cache_.lock(partition_);
    if (const auto held = cache_.hold(partition_, /*acting=*/true)) remove_from(*held);
    fault_point("purge.sweep");
    const SweepReport swept = sweep_locked_partition(cache_, partition_);
    if (swept.files_failed > 0) {
      report_.problems.push_back(fmt::format("{}: {} files could not be removed (see the log); run the purge again",
                                             partition_.logical_path(), swept.files_failed));
    }
    fault_point("purge.swept");
    note_waiting();
  }

 private:
  // Its hold ends with the caller's, before what it read is to be removed.
  void remove_from(const HeldTable& held) {
    const ExpressionPtr filter = for_columns(where_, held.table.metadata->schema());
    if (held.table.metadata->current_snapshot() == nullptr || filter->op == Op::always_false) return;
    const std::vector<WatchedSink> sinks = watch_sinks(cache_.config(), partition_);
    Matching matching;
    if (!sinks.empty()) matching = matching_rows(held, sinks);
    iceberg::RowOptions options;
    options.mode = iceberg::RowMode::copy_on_write;
    options.removes_hidden = true;
    options.memory_bytes_max = cache_.config().compaction.memory_bytes_max;
    options.write.target_file_size_bytes = cache_.config().compaction.target_file_bytes;
    fault_point("purge.delete");
    matching.rows = iceberg::delete_rows(*held.operations, filter, options).counts.rows_deleted;
    note_purged(matching);
    fault_point("purge.deleted");
    drop_removed_entries(*held.operations);
  }

  void note_purged(const Matching& purged) {
    report_.rows += purged.rows;
    report_.partitions += purged.rows > 0;
    add_counts(report_.sent_rows, purged.sent);
    add_counts(report_.maybe_sent_rows, purged.maybe_sent);
  }

  Matching matching_rows(const HeldTable& held, const std::vector<WatchedSink>& sinks) const {
    const TableMetadata& metadata = *held.table.metadata;
    iceberg::ScanOptions options;
    options.filter = for_columns(where_, metadata.schema());
    const bool has_numbers = metadata.schema().find_field(std::string_view(kIngestSeqColumn)) != nullptr;
    options.columns = {has_numbers ? kIngestSeqColumn : "_pos"};
    const auto reader = iceberg::scan(metadata, held.operations->io(), options);
    Matching matching;
    for (std::shared_ptr<arrow::RecordBatch> batch;;) {
      check(reader->ReadNext(&batch), "count the rows to purge");
      if (!batch) return matching;
      matching.rows += batch->num_rows();
      const auto& numbers = static_cast<const arrow::Int64Array&>(*batch->column(0));
      for (const WatchedSink& sink : sinks) note_sent(sink, numbers, has_numbers, matching);
    }
  }

  // Rows without a number come before all others (P9.3).
  static void note_sent(const WatchedSink& sink, const arrow::Int64Array& numbers, bool has_numbers,
                        Matching& matching) {
    const SinkPosition& position = sink.position;
    int64_t sent = 0, maybe_sent = 0;
    for (int64_t i = 0; i < numbers.length(); ++i) {
      const bool has_number = has_numbers && numbers.IsValid(i);
      const bool is_pending = position.pending && has_number && numbers.Value(i) > position.pending->since_exclusive &&
                              numbers.Value(i) <= position.pending->until;
      if (position.passed && (!has_number || numbers.Value(i) <= *position.passed)) {
        ++sent;
      } else if (is_pending || !sink.idle || !position.problem.empty()) {
        ++maybe_sent;
      }
    }
    if (sent > 0) matching.sent[position.sink] += sent;
    if (maybe_sent > 0) matching.maybe_sent[position.sink] += maybe_sent;
  }

  // What the sweep had to leave, as far as it holds such rows. The locks keep others from removing it meanwhile.
  void note_waiting() {
    const std::string folder = cache_.folder(partition_);
    const auto held = cache_.hold(partition_);
    for (const std::string& name : list_generations(folder)) {
      const std::string location = generation_folder(folder, name);
      if (held && location == held->operations->location()) continue;
      const auto table = iceberg::open_filesystem_table(cache_.io(), location);
      const TableMetadata& metadata = *table->load().metadata;
      const bool holds = std::any_of(metadata.snapshots.begin(), metadata.snapshots.end(), [&](const Snapshot& one) {
        return holds_rows(metadata, table->io(), one, where_);
      });
      if (holds) report_.waiting.push_back(location + ": a reader holds this older generation");
    }
    if (!held) return;
    const TableMetadata& metadata = *held->table.metadata;
    for (const Snapshot& snapshot : metadata.snapshots) {
      if (snapshot.snapshot_id == metadata.current_snapshot_id ||
          !holds_rows(metadata, held->operations->io(), snapshot, where_))
        continue;
      report_.waiting.push_back(fmt::format("{}, snapshot {}: {}", held->operations->location(), snapshot.snapshot_id,
                                            keeper_of(metadata, snapshot.snapshot_id)));
    }
  }

  Cache& cache_;
  const PartitionId& partition_;
  const ExpressionPtr& where_;
  PurgeReport& report_;
};

}  // namespace

PurgeReport purge(Cache& cache, const std::string& dataset, const ExpressionPtr& where, bool dry_run) {
  Span span("hyp.purge");
  span.set("dataset", dataset);
  const std::vector<PartitionId> partitions = cache.partitions(dataset);
  PurgeReport report;
  if (partitions.empty()) return report;
  const Schema known = cache.dataset_schema(dataset);
  const auto has_table = [&](const PartitionId& partition) { return cache.hold(partition).has_value(); };
  if (known.fields().empty() && std::none_of(partitions.begin(), partitions.end(), has_table)) return report;
  check_columns(*where, known, dataset);
  iceberg::bind(*where, known);
  for (const PartitionId& partition : partitions) {
    try {
      PartitionPurge one(cache, partition, where, report);
      dry_run ? one.count() : one.run();
    } catch (const Error& e) {
      report.problems.push_back(fmt::format("{}: {}", partition.logical_path(), e.what()));
      spdlog::error("purge of {}: {}", partition.logical_path(), e.what());
    }
  }
  span.set("rows", report.rows);
  return report;
}

}  // namespace firn::hyp
