#include "hyp/maintain/compaction_plan.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace firn::hyp {
namespace {

constexpr double kDeletedShare = 0.3;
constexpr int64_t kSingleFileMax = 18;  // tenths of the target

bool has_many_deletes(const FileShape& file) {
  return static_cast<double>(file.rows_hidden) >= kDeletedShare * static_cast<double>(file.rows) &&
         file.rows_hidden > 0;
}

class Planner {
 public:
  Planner(const std::vector<FileShape>& files, int64_t target_bytes) : files_(files), target_bytes_(target_bytes) {}

  CompactionPlan plan() && {
    std::vector<size_t> order(files_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      const auto key = [](const FileShape& f) { return std::tie(f.partition, f.lower, f.upper); };
      return std::pair(key(files_[a]), a) < std::pair(key(files_[b]), b);
    });
    std::vector<size_t> stretch;
    for (size_t i = 0; i < order.size(); ++i) {
      const bool is_new_partition = i > 0 && files_[order[i]].partition != files_[order[i - 1]].partition;
      const bool is_taken = is_candidate(files_[order[i]]);
      if (is_new_partition || !is_taken) settle(std::exchange(stretch, {}));
      if (is_taken) {
        stretch.push_back(order[i]);
      } else {
        plan_.linked.push_back(order[i]);
      }
    }
    settle(std::move(stretch));
    return std::move(plan_);
  }

 private:
  static bool is_forced(const FileShape& file) { return file.must_rewrite || has_many_deletes(file); }
  bool is_candidate(const FileShape& file) const {
    return is_forced(file) || file.live_bytes() < smallest_near(target_bytes_);
  }

  // A stretch of candidates: cut at each file that outweighs the others, until none does. Each cut more than halves, so
  // there are few.
  void settle(std::vector<size_t> stretch) {
    while (stretch.size() > 1) {
      int64_t total = 0;
      for (const size_t i : stretch) total += files_[i].live_bytes();
      const auto largest = std::max_element(stretch.begin(), stretch.end(), [&](size_t a, size_t b) {
        const auto weight = [](const FileShape& f) { return is_forced(f) ? -1 : f.live_bytes(); };
        return weight(files_[a]) < weight(files_[b]);
      });
      const FileShape& file = files_[*largest];
      const int64_t others = total - file.live_bytes();
      if (is_forced(file) || file.live_bytes() * 2 <= others * 3) return gather(stretch);
      plan_.linked.push_back(*largest);
      const std::vector<size_t> left(stretch.begin(), largest), right(largest + 1, stretch.end());
      settle(left);
      stretch = right;
    }
    if (stretch.empty()) return;
    if (is_forced(files_[stretch[0]])) return gather(stretch);
    plan_.linked.push_back(stretch[0]);
  }

  void gather(const std::vector<size_t>& stretch) {
    CompactionGroup group;
    for (const size_t i : stretch) {
      group.bytes += files_[i].live_bytes();
      plan_.bytes_reclaimed += files_[i].bytes - files_[i].live_bytes();
    }
    group.files = stretch;
    const int64_t share = file_share(group.bytes, target_bytes_);
    const int64_t files_after = (group.bytes + share - 1) / share;
    plan_.gathered_files += static_cast<int64_t>(stretch.size());
    plan_.gathered_bytes += group.bytes;
    plan_.files_spared += std::max<int64_t>(0, static_cast<int64_t>(stretch.size()) - files_after);
    plan_.groups.push_back(std::move(group));
  }

  const std::vector<FileShape>& files_;
  const int64_t target_bytes_;
  CompactionPlan plan_;
};

}  // namespace

CompactionPlan plan_compaction(const std::vector<FileShape>& files, int64_t target_bytes) {
  return Planner(files, target_bytes).plan();
}

int64_t file_share(int64_t group_bytes, int64_t target_bytes) {
  const int64_t count = (group_bytes + target_bytes / 2) / std::max<int64_t>(1, target_bytes);
  if (count <= 1) return std::max<int64_t>(1, target_bytes * kSingleFileMax / 10);
  return group_bytes / count + group_bytes / count / 50 + 1;  // no crumb at the end
}

}  // namespace firn::hyp
