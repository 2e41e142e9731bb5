#include "hyp/maintain/maintain.h"

#include <algorithm>
#include <limits>
#include <set>

#include "base/clock.h"
#include "base/log.h"
#include "base/span.h"
#include "hyp/cache/generations.h"
#include "hyp/cache/table_opens.h"
#include "hyp/maintain/head_size.h"
#include "hyp/maintain/sink_positions.h"

namespace firn::hyp {
namespace {

struct Candidate {
  PartitionId partition;
  CompactionNeed need;
};

bool is_worth_telling(const RetentionReport& report) {
  return report.rows_removed > 0 || !report.rows_waiting.empty() || !report.rows_forced_out.empty() ||
         !report.note.empty();
}

class Upkeep {
 public:
  Upkeep(Cache& cache, const MaintainOptions& options)
      : cache_(cache), options_(options), end_us_(steady_us() + options.budget_ms * 1000) {}

  MaintainReport run() {
    for (const std::string& dataset : cache_.datasets()) {
      for (const PartitionId& partition : cache_.partitions(dataset)) {
        if (is_cancelled()) break;
        partitions_.push_back(partition);
        attempt(partition, [&] { look_at(partition); });
      }
    }
    report_.partitions = static_cast<int64_t>(partitions_.size());
    compact_neediest();
    if (!options_.dry_run) {
      for (const PartitionId& partition : partitions_) {
        if (is_cancelled()) break;
        if (!failed_.contains(partition)) attempt(partition, [&] { sweep(partition); });
      }
      if (rows_went_ && failed_.empty() && !is_cancelled()) prune_opens();
    }
    return std::move(report_);
  }

 private:
  bool is_cancelled() const { return options_.cancelled != nullptr && *options_.cancelled; }

  template <class Work>
  void attempt(const PartitionId& partition, const Work& work) {
    try {
      work();
    } catch (const Error& e) {  // the others' turn comes all the same
      if (e.kind() == ErrorKind::cancelled && is_cancelled()) return;
      failed_.insert(partition);
      report_.problems.push_back(fmt::format("{}: {}", partition.logical_path(), e.what()));
    }
  }

  void look_at(const PartitionId& partition) {
    RetentionReport retention = apply_retention(cache_, partition, now_ms(), options_.dry_run);
    rows_went_ = rows_went_ || retention.rows_removed > 0;
    if (is_worth_telling(retention)) report_.retention.push_back(std::move(retention));
    CompactionNeed need = compaction_need(cache_, partition);
    if (need.score > 0) candidates_.push_back({partition, std::move(need)});
  }

  void compact_neediest() {
    std::stable_sort(candidates_.begin(), candidates_.end(),
                     [](const Candidate& a, const Candidate& b) { return a.need.score > b.need.score; });
    int64_t begun = 0;
    for (const Candidate& candidate : candidates_) {
      // The neediest has its turn however long the looks took, else none would ever have it.
      const bool is_late = options_.budget_ms > 0 && !options_.dry_run && begun > 0 && steady_us() >= end_us_;
      if (is_late || is_cancelled()) {
        ++report_.compactions_left;
        continue;
      }
      ++begun;
      attempt(candidate.partition, [&] { compact(candidate); });
    }
  }

  void compact(const Candidate& candidate) {
    if (options_.dry_run) {
      CompactionReport& planned = report_.compaction.emplace_back();
      planned.partition = candidate.partition;
      planned.note = candidate.need.reason;
      planned.files_before = candidate.need.files;
      planned.bytes_before = candidate.need.bytes;
      planned.files_rewritten = candidate.need.small_files;
      return;
    }
    spdlog::debug("{}: compacting, since {}", candidate.partition.logical_path(), candidate.need.reason);
    report_.compaction.push_back(compact_partition(cache_, candidate.partition, options_.cancelled));
  }

  void sweep(const PartitionId& partition) {
    const SweepReport swept = sweep_partition(cache_, partition, Sweep::when_due);
    report_.generations_removed += swept.generations_removed;
    report_.generations_waiting += swept.generations_waiting;
    report_.snapshots_expired += swept.snapshots_expired;
    report_.snapshots_waiting += swept.snapshots_waiting;
    report_.bytes_removed += swept.bytes_removed;
  }

  // The lowest number that a row of the partition or an announced unit has; nullopt: it cannot be told, so nothing is
  // pruned.
  std::optional<int64_t> oldest_number(const PartitionId& partition) const {
    int64_t oldest = std::numeric_limits<int64_t>::max();
    if (const auto held = cache_.hold(partition)) {
      for (const FileShape& file : look_at_head(held->table, *held->operations->io()).files) {
        oldest = std::min(oldest, file.lower);
      }
    }
    for (const SinkPosition& position : sink_positions(cache_.config(), partition)) {
      if (!position.problem.empty()) return std::nullopt;
      if (position.pending) oldest = std::min(oldest, position.pending->since_exclusive + 1);
    }
    return oldest > 0 ? std::optional(oldest) : std::nullopt;  // legacy rows' numbers belong to no open of the file
  }

  void prune_opens() {
    const std::vector<Open> opens = cache_.sequence().opens();
    if (opens.size() <= kOpensKept) return;  // the latest stay whatever the rows
    int64_t oldest = opens[opens.size() - kOpensKept].from_seq;
    for (const PartitionId& partition : partitions_) {
      std::optional<int64_t> number;
      attempt(partition, [&] { number = oldest_number(partition); });
      if (!number) return;
      oldest = std::min(oldest, *number);
    }
    cache_.sequence().prune_opens(oldest);
  }

  Cache& cache_;
  const MaintainOptions& options_;
  const int64_t end_us_;
  std::vector<PartitionId> partitions_;
  std::set<PartitionId> failed_;
  std::vector<Candidate> candidates_;
  bool rows_went_ = false;
  MaintainReport report_;
};

}  // namespace

MaintainReport maintain(Cache& cache, const MaintainOptions& options) {
  Span span("hyp.maintain");
  MaintainReport report = Upkeep(cache, options).run();
  span.set("partitions", report.partitions);
  span.set("compactions", static_cast<int64_t>(report.compaction.size()));
  span.set("problems", static_cast<int64_t>(report.problems.size()));
  return report;
}

}  // namespace firn::hyp
