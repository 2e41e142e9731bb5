#include "iceberg/maintain/compact.h"

#include <algorithm>
#include <charconv>
#include <exception>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "base/fault_point.h"
#include "base/log.h"
#include "base/parallel.h"
#include "base/span.h"
#include "iceberg/commit/commit.h"
#include "iceberg/commit/history.h"
#include "iceberg/maintain/dangling_deletes.h"
#include "iceberg/maintain/remove_files.h"
#include "iceberg/manifest/file_identity.h"
#include "iceberg/scan/scan.h"
#include "iceberg/write/append_writer.h"
#include "iceberg/write/file_pages.h"

namespace firn::iceberg {
namespace {

constexpr int64_t kTargetFileSizeBytes = 512LL << 20;
constexpr size_t kPathsMax = 100'000;
constexpr int64_t kDecodedRatio = 8;  // memory of rows against their bytes in a file, at most about
constexpr int kDanglingTries = 5;

// The sizes that files are to have.
struct Sizes {
  int64_t target, min, max;

  Sizes(const TableMetadata& metadata, const CompactOptions& options)
      : target(options.target_file_size_bytes.value_or(
            metadata.int_property("write.target-file-size-bytes", kTargetFileSizeBytes))),
        min(options.min_file_size_bytes.value_or(target / 4 * 3)),
        max(options.max_file_size_bytes.value_or(target / 5 * 9)) {
    if (target <= 0 || min < 0 || min >= target || max <= target) {
      fail(ErrorKind::invalid_argument,
           "table {}: files of {} bytes cannot be between {} and {}; the target must be above 0 and the minimum, and "
           "below the maximum",
           metadata.location, target, min, max);
    }
  }

  bool is_outside(const DataFile& file) const { return file.file_size_bytes < min || file.file_size_bytes > max; }

  // What to roll files at so that `total` bytes come out even, without a small file at the end.
  int64_t even_share(int64_t total) const {
    const int64_t count = std::max<int64_t>(1, (total + target / 2) / target);
    return std::clamp(total / count + total / count / 50 + 1, target, std::max(target, max - max / 20));
  }
};

struct Group {
  std::vector<FileScanTask> tasks;
  int64_t size_bytes = 0;
  std::vector<DataFile> added;
  int64_t runs_spilled = 0;
};

// The order that a run sorts by; nullopt: it does not.
std::optional<SortOrder> sort_order_of(const TableMetadata& metadata, const CompactOptions& options) {
  if (options.strategy != CompactStrategy::sort) return std::nullopt;
  SortOrder order = options.sort_order.value_or(metadata.sort_order());
  if (order.fields.empty()) {
    fail(ErrorKind::invalid_argument, "table {} has no sort order; say one to sort by, or use bin-pack",
         metadata.location);
  }
  return order;
}

// The id of the table's order that equals `order`.
std::optional<int32_t> known_order_id(const TableMetadata& metadata, const SortOrder& order) {
  for (const SortOrder& known : metadata.sort_orders) {
    if (known.fields.empty() || known.fields.size() != order.fields.size()) continue;
    const bool equal = std::equal(known.fields.begin(), known.fields.end(), order.fields.begin(),
                                  [](const SortField& a, const SortField& b) {
                                    return a.transform == b.transform && a.source_ids == b.source_ids &&
                                           a.ascending == b.ascending && a.nulls_first == b.nulls_first;
                                  });
    if (equal) return known.order_id;
  }
  return std::nullopt;
}

// Which files are rewritten, and which of those together.
class Planner {
 public:
  Planner(const TableMetadata& metadata, const CompactOptions& options) : options_(options), sizes_(metadata, options) {
    if (const auto order = sort_order_of(metadata, options)) order_id_ = known_order_id(metadata, *order);
  }

  std::vector<Group> plan(std::vector<FileScanTask> tasks) const {
    std::vector<std::vector<FileScanTask>> partitions;  // in the order in which they are met
    std::unordered_map<std::string, size_t> index;
    for (FileScanTask& task : tasks) {
      if (!options_.rewrite_all && !is_chosen(task)) continue;
      const std::string key = partition_key(task.file.partition_spec_id, task.file.partition);
      const auto [found, is_new] = index.try_emplace(key, partitions.size());
      if (is_new) partitions.emplace_back();
      partitions[found->second].push_back(std::move(task));
    }
    std::vector<Group> groups;
    for (std::vector<FileScanTask>& partition : partitions) {
      for (Group& group : pack(std::move(partition))) {
        if (options_.rewrite_all || is_worthwhile(group)) groups.push_back(std::move(group));
      }
    }
    return groups;
  }

 private:
  bool is_chosen(const FileScanTask& task) const {
    return sizes_.is_outside(task.file) || has_many_deletes(task) || is_unsorted(task.file);
  }

  bool is_unsorted(const DataFile& file) const { return order_id_ && file.sort_order_id != order_id_; }

  bool has_many_deletes(const FileScanTask& task) const {
    const auto count = static_cast<int64_t>(task.deletes.size());
    if (options_.delete_file_threshold && count > 0 && count >= *options_.delete_file_threshold) return true;
    int64_t num_deleted = 0;
    for (const auto& file : task.deletes) {
      if (file->content == FileContent::position_deletes && !single_data_file(*file).empty())
        num_deleted += file->record_count;
    }
    const double rows = static_cast<double>(std::max<int64_t>(1, task.file.record_count));
    return num_deleted > 0 && static_cast<double>(num_deleted) / rows >= options_.delete_ratio_threshold;
  }

  bool is_worthwhile(const Group& group) const {
    const auto count = static_cast<int64_t>(group.tasks.size());
    if (count > 1 && (count >= options_.min_input_files || group.size_bytes > sizes_.target)) return true;
    if (group.size_bytes > sizes_.max && (count > 1 || group.tasks.front().file.record_count > 1)) return true;
    return std::any_of(group.tasks.begin(), group.tasks.end(),
                       [&](const FileScanTask& task) { return has_many_deletes(task) || is_unsorted(task.file); });
  }

  std::vector<Group> pack(std::vector<FileScanTask> tasks) const {
    std::vector<Group> groups;
    for (FileScanTask& task : tasks) {
      const int64_t size_bytes = task.file.file_size_bytes;
      if (groups.empty() || groups.back().size_bytes + size_bytes > options_.max_group_bytes) groups.emplace_back();
      groups.back().tasks.push_back(std::move(task));
      groups.back().size_bytes += size_bytes;
    }
    return groups;
  }

  const CompactOptions& options_;
  const Sizes sizes_;
  std::optional<int32_t> order_id_;  // of the sort asked for, if files can have it
};

// As the snapshot's summary has it; deletes that go with their data files are in it.
int64_t delete_files_removed(const CommitResult& commit) {
  const Snapshot* snapshot = commit.table.metadata->find_snapshot(commit.snapshot_id);
  if (snapshot == nullptr) return 0;  // expired since
  const auto found = snapshot->summary.find("removed-delete-files");
  if (found == snapshot->summary.end()) return 0;
  int64_t count = 0;
  std::from_chars(found->second.data(), found->second.data() + found->second.size(), count);
  return count;
}

// One snapshot's groups: read, written and committed.
class Rewriter {
 public:
  Rewriter(TableOperations& table, const LoadedTable& base, ScanPlan plan, const CompactOptions& options,
           CompactResult& result)
      : table_(table),
        metadata_(base.metadata),
        plan_(std::move(plan)),
        options_(options),
        sizes_(*metadata_, options),
        result_(result) {}

  void run(std::vector<Group> groups) {
    groups_ = std::move(groups);
    const auto num_groups = static_cast<int32_t>(groups_.size());
    const int32_t commits_max = options_.commits_max > 0 ? options_.commits_max : std::max(1, num_groups);
    groups_a_commit_ = static_cast<size_t>(std::max(1, (num_groups + commits_max - 1) / commits_max));
    parallel_for(groups_.size(), std::max(1, options_.parallel_groups), [&](size_t i) {
      Group& group = groups_[i];
      try {
        rewrite(group);
      } catch (const Error& e) {
        const std::lock_guard lock(mutex_);
        note_failure(group, e);
        return;
      }
      const std::lock_guard lock(mutex_);  // commits go one after another
      ready_.push_back(&group);
      if (ready_.size() >= groups_a_commit_) commit(std::exchange(ready_, {}));
    });
    if (!ready_.empty()) commit(std::exchange(ready_, {}));
  }

  // Set once a commit's outcome is not known.
  const std::optional<Error>& unknown() const { return unknown_; }

 private:
  void rewrite(Group& group) {
    const int64_t memory_bytes =
        std::max<int64_t>(1, options_.memory_bytes_max / std::max(1, options_.parallel_groups));
    auto plan = std::make_shared<ScanPlan>(plan_);
    plan->tasks = group.tasks;
    ScanOptions scan;
    scan.threads = std::max(1, options_.threads);
    scan.batch_rows_max = batch_rows(group, memory_bytes / 8 / scan.threads);
    const std::shared_ptr<arrow::RecordBatchReader> rows = read_tasks(plan, table_.io(), scan);

    WriteOptions write;
    write.memory_bytes_max = memory_bytes * 3 / 4;
    write.target_file_size_bytes = sizes_.even_share(group.size_bytes);
    write.spill_folder = options_.spill_folder;
    write.row_lineage = metadata_->format_version >= 3;
    write.sort_order = sort_order_of(*metadata_, options_).value_or(SortOrder{});
    write.sort_order->order_id = known_order_id(*metadata_, *write.sort_order).value_or(0);
    AppendWriter writer(table_.io(), with_pages_for(*metadata_, *write.target_file_size_bytes), write);
    std::shared_ptr<arrow::RecordBatch> batch;
    while (rows->ReadNext(&batch).ok() && batch) writer.write(batch);
    group.added = writer.finish();
    group.runs_spilled = writer.runs_spilled();
    fault_point("compact.written");
  }

  static int64_t batch_rows(const Group& group, int64_t memory_bytes) {
    int64_t row_bytes = 1;
    for (const FileScanTask& task : group.tasks) {
      const int64_t rows = std::max<int64_t>(1, task.file.record_count);
      row_bytes = std::max(row_bytes, task.file.file_size_bytes * kDecodedRatio / rows);
    }
    return std::clamp<int64_t>(memory_bytes / row_bytes, 256, 65536);
  }

  // The lock is held.
  void commit(const std::vector<Group*>& groups) {
    SnapshotChange change;
    change.operation = "replace";
    change.branch = options_.branch;
    change.summary = options_.summary;
    change.written_schema = metadata_->schema();
    change.data_sequence_number = metadata_->find_snapshot(*plan_.snapshot_id)->sequence_number;
    change.read_check = ReadCheck{};
    change.read_check->since_snapshot_id = plan_.snapshot_id;
    change.read_check->no_added_deletes = true;
    for (const Group* group : groups) {
      for (const FileScanTask& task : group->tasks) change.removed.push_back(task.file);
      change.added.insert(change.added.end(), group->added.begin(), group->added.end());
    }
    try {
      fault_point("compact.commit");
      const CommitResult committed = commit_snapshot(table_, change);
      result_.snapshots.push_back(committed.snapshot_id);
      result_.delete_files_removed += delete_files_removed(committed);
    } catch (const Error& e) {
      if (e.kind() == ErrorKind::commit_unknown) {  // the new files may be the table's now
        if (!unknown_) unknown_ = e;
        for (Group* group : groups) note_failure(*group, e);
      } else if (e.kind() == ErrorKind::commit_conflict && groups.size() > 1) {
        for (Group* group : groups) commit({group});  // so that one group's conflict is its own
      } else {
        for (Group* group : groups) {
          discard_written(group->added, *table_.io());
          note_failure(*group, e);
        }
      }
      return;
    }
    for (Group* group : groups) note_success(*group);
  }

  void note_success(Group& group) {
    ++result_.groups_rewritten;
    result_.runs_spilled += group.runs_spilled;
    result_.files_rewritten += static_cast<int64_t>(group.tasks.size());
    result_.bytes_rewritten += group.size_bytes;
    result_.files_added += static_cast<int64_t>(group.added.size());
    for (const DataFile& file : group.added) result_.bytes_added += file.file_size_bytes;
    for (const FileScanTask& task : group.tasks) {
      if (result_.paths.size() < kPathsMax) result_.paths.push_back(task.file.file_path);
    }
    group = {};
  }

  void note_failure(const Group& group, const Error& error) {
    spdlog::info("table {}: {} files not compacted: {}", table_.location(), group.tasks.size(), error.what());
    CompactFailure failure{{}, error.kind(), error.what()};
    for (const FileScanTask& task : group.tasks) failure.files.push_back(task.file.file_path);
    result_.failures.push_back(std::move(failure));
  }

  TableOperations& table_;
  const std::shared_ptr<const TableMetadata> metadata_;
  const ScanPlan plan_;  // without tasks
  const CompactOptions& options_;
  const Sizes sizes_;
  size_t groups_a_commit_ = 1;
  std::vector<Group> groups_;

  std::mutex mutex_;  // guards what follows, and what is noted
  std::vector<Group*> ready_;
  std::optional<Error> unknown_;
  CompactResult& result_;
};

struct PlannedGroups {
  ScanPlan plan;  // without tasks
  std::vector<Group> groups;
};

// `old_specs`: only files of specs that are not the default one; else only of that.
PlannedGroups plan_groups(const TableMetadata& metadata, const std::shared_ptr<FileIO>& io,
                          const CompactOptions& options, bool old_specs) {
  ScanOptions scan;
  scan.ref = options.branch;
  scan.filter = options.filter;
  scan.row_lineage = metadata.format_version >= 3;
  PlannedGroups planned;
  planned.plan = plan_scan(metadata, io, scan);
  std::vector<FileScanTask> tasks = std::exchange(planned.plan.tasks, {});
  planned.plan.filter = nullptr;
  std::erase_if(tasks, [&](const FileScanTask& task) {
    return (task.file.partition_spec_id != metadata.default_spec_id) != old_specs;
  });
  for (FileScanTask& task : tasks) task.residual = nullptr;  // the filter chooses files; their rows all stay
  planned.groups = Planner(metadata, options).plan(std::move(tasks));
  return planned;
}

void note_planned(const std::vector<Group>& groups, CompactResult& result) {
  for (const Group& group : groups) {
    result.files_rewritten += static_cast<int64_t>(group.tasks.size());
    result.bytes_rewritten += group.size_bytes;
    for (const FileScanTask& task : group.tasks) {
      if (result.paths.size() < kPathsMax) result.paths.push_back(task.file.file_path);
    }
  }
}

// `gone`: data files that a dry run takes for rewritten.
std::vector<std::string> remove_dangling(TableOperations& table, const std::string& branch,
                                         const std::map<std::string, std::string>& summary, bool dry_run,
                                         const std::unordered_set<std::string>& gone, std::vector<int64_t>* snapshots) {
  for (int num_tries = 1;; ++num_tries) {
    const LoadedTable base = table.load();
    const Snapshot* head = branch_head(*base.metadata, branch);
    if (head == nullptr) return {};
    SnapshotChange change;
    change.removed = find_dangling_deletes(*base.metadata, *head, *table.io(), gone);
    std::vector<std::string> paths;
    for (const DataFile& file : change.removed) paths.push_back(file.file_path);
    if (paths.empty() || dry_run) return paths;
    change.operation = "replace";
    change.branch = branch;
    change.summary = summary;
    try {
      // A delete that applies to nothing stays so: files that come later are newer, or replace files that are there.
      const CommitResult commit = commit_snapshot(table, change);
      if (snapshots != nullptr) snapshots->push_back(commit.snapshot_id);
      return paths;
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::commit_conflict || num_tries == kDanglingTries) throw;
      // Another commit took some of them.
    }
  }
}

}  // namespace

std::vector<std::string> remove_dangling_deletes(TableOperations& table, const std::string& branch, bool dry_run) {
  return remove_dangling(table, branch, {}, dry_run, {}, nullptr);
}

CompactResult compact(TableOperations& table, const CompactOptions& options) {
  Span span("iceberg.compact");
  span.set("table", table.location());
  CompactResult result;
  std::optional<Error> unknown;
  std::unordered_set<std::string> gone;  // in a dry run
  for (const bool old_specs : {true, false}) {
    const LoadedTable base = table.load();
    sort_order_of(*base.metadata, options);
    const Sizes sizes(*base.metadata, options);
    if (options.branch == "main" && base.metadata->current_snapshot() == nullptr) return result;
    if (old_specs && base.metadata->partition_specs.size() < 2) continue;
    PlannedGroups planned = plan_groups(*base.metadata, table.io(), options, old_specs);
    result.groups += static_cast<int32_t>(planned.groups.size());
    if (options.dry_run) {
      note_planned(planned.groups, result);
      for (const Group& group : planned.groups) {
        for (const FileScanTask& task : group.tasks) gone.insert(task.file.file_path);
      }
      continue;
    }
    Rewriter rewriter(table, base, std::move(planned.plan), options, result);
    rewriter.run(std::move(planned.groups));
    if (rewriter.unknown() && !unknown) unknown = rewriter.unknown();
  }
  if (unknown) throw Error(*unknown);
  if (options.remove_dangling_deletes) {
    const std::vector<std::string> removed =
        remove_dangling(table, options.branch, options.summary, options.dry_run, gone, &result.snapshots);
    result.delete_files_removed += static_cast<int64_t>(removed.size());
  }
  span.set("groups", result.groups_rewritten);
  return result;
}

}  // namespace firn::iceberg
