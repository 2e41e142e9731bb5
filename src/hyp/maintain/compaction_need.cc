#include <algorithm>

#include "hyp/cache/layout.h"
#include "hyp/maintain/compaction.h"
#include "hyp/maintain/head_size.h"

namespace firn::hyp {
namespace {

std::string megabytes(int64_t bytes) { return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6); }

void add_reason(CompactionNeed& need, double score, const std::string& reason) {
  need.score += score;
  need.reason += (need.reason.empty() ? "" : "; ") + reason;
}

// Of a partition whose files were looked at. `last`: what its last compaction left; nullptr: it had none.
void judge(CompactionNeed& need, const HeadFiles& head, const CompactionPlan& plan, const CompactionRecord* last,
           const CompactionConfig& config) {
  const int64_t left_small = last != nullptr ? last->gatherable_files : 0;
  const bool is_worth_it =
      plan.gathered_bytes >= std::min(config.target_file_bytes, need.bytes / 10) || plan.files_spared * 4 >= need.files;
  if (plan.files_spared > 0 && need.small_files >= config.files_min + left_small && is_worth_it) {
    add_reason(need,
               static_cast<double>(plan.files_spared) / static_cast<double>(std::max<int64_t>(1, config.files_min)),
               fmt::format("{} of {} files are small ({}), about {} fewer would do", need.small_files, need.files,
                           megabytes(need.small_bytes), plan.files_spared));
  }
  if (plan.bytes_reclaimed * 5 >= need.bytes && plan.bytes_reclaimed * 16 >= config.target_file_bytes &&
      plan.bytes_reclaimed > 0) {
    add_reason(need, static_cast<double>(plan.bytes_reclaimed) / static_cast<double>(config.target_file_bytes),
               fmt::format("{} of {} are deleted rows", megabytes(plan.bytes_reclaimed), megabytes(need.bytes)));
  }
  const int64_t left_metadata = last != nullptr ? last->metadata_bytes : 0;
  if (head.metadata_bytes > std::max(config.metadata_bytes_max, 2 * left_metadata)) {
    add_reason(
        need,
        static_cast<double>(head.metadata_bytes) / static_cast<double>(std::max<int64_t>(1, config.metadata_bytes_max)),
        fmt::format("{} of metadata", megabytes(head.metadata_bytes)));
  }
  if (need.score == 0) need.reason = "its files are few, or large enough";
}

}  // namespace

CompactionNeed compaction_need(const Cache& cache, const PartitionId& partition) {
  CompactionNeed need;
  const CompactionConfig& config = cache.config().compaction;
  const auto cursor = read_cursor(cache.folder(partition));
  const auto held = cache.hold(partition);
  if (!cursor || !held || held->table.metadata->current_snapshot() == nullptr) {
    need.reason = "it has no rows";
    return need;
  }
  const HeadTotals totals = head_totals(*held->table.metadata);
  need.files = totals.files.value_or(0);
  need.bytes = totals.bytes.value_or(0);
  need.metadata_bytes = metadata_file_bytes(held->table, *held->operations->io());
  // The cursor was read before the generation was held: a swap in between makes this look one at the wrong measure,
  // once.
  const CompactionRecord* last = cursor->compaction ? &*cursor->compaction : nullptr;
  if (last != nullptr && last->snapshot_id == held->table.metadata->current_snapshot_id) {
    need.reason = "nothing came since it was compacted";
    return need;
  }
  const bool has_few_files = totals.files && *totals.files < config.files_min && totals.delete_files == 0;
  if (has_few_files && need.metadata_bytes <= config.metadata_bytes_max) {
    need.reason = "it has few files";
    return need;
  }
  const HeadFiles head = look_at_head(held->table, *held->operations->io());
  const CompactionPlan plan = plan_compaction(head.files, config.target_file_bytes);
  need.files = static_cast<int64_t>(head.files.size());
  need.bytes = 0;
  for (const FileShape& file : head.files) need.bytes += file.bytes;
  need.small_files = plan.gathered_files;
  need.small_bytes = plan.gathered_bytes;
  need.metadata_bytes = head.metadata_bytes;
  judge(need, head, plan, last, config);
  return need;
}

}  // namespace firn::hyp
