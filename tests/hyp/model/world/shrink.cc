#include "hyp/model/world/shrink.h"

#include <algorithm>
#include <set>

#include "base/clock.h"

namespace firn::hyp::model {
namespace {

class Shrinker {
 public:
  Shrinker(std::vector<Step> steps, const Run& run, int64_t seconds)
      : steps_(std::move(steps)), run_(run), end_us_(steady_us() + seconds * 1'000'000) {}

  std::vector<Step> shrink() {
    leave_out_kinds();
    bool is_smaller = true;
    while (is_smaller && !is_late()) {
      is_smaller = leave_out_ranges();
      is_smaller = simplify_steps() || is_smaller;
    }
    return std::move(steps_);
  }

 private:
  bool is_late() const { return steady_us() > end_us_; }

  bool take_if_failing(std::vector<Step> fewer) {
    if (!run_(fewer)) return false;
    steps_ = std::move(fewer);
    return true;
  }

  template <class Needless>
  void leave_out(const Needless& needless) {
    std::vector<Step> fewer = steps_;
    std::erase_if(fewer, needless);
    if (fewer.size() < steps_.size() && !is_late()) take_if_failing(std::move(fewer));
  }

  // Most of a long run goes at once: all steps of an action, of a dataset, of a partition; all crashes.
  void leave_out_kinds() {
    std::set<std::string> actions;
    for (const Step& step : steps_) actions.insert(step.action);
    for (const std::string& action : actions) {
      leave_out([&](const Step& step) { return step.action == action; });
    }
    for (const char* name : {"dataset", "partition", "sink"}) {
      for (int64_t value = 1; value <= 8; ++value) {
        leave_out([&](const Step& step) { return step.arg(name) == value; });
      }
    }
    std::vector<Step> alive = steps_, alone = steps_;
    for (size_t i = 0; i + 1 < alive.size(); ++i) alive[i].crashes.clear();
    if (!is_late()) take_if_failing(std::move(alive));
    for (size_t i = 0; i + 1 < alone.size(); ++i) alone[i].meanwhile.clear();
    if (!is_late()) take_if_failing(std::move(alone));
  }

  bool leave_out_ranges() {
    bool is_smaller = false;
    for (size_t length = std::max<size_t>(1, steps_.size() / 2); length > 0; length /= 2) {
      // From the end: what comes last is seldom what matters, but for the very last.
      for (size_t end = steps_.size(); end > 0 && !is_late();) {
        const size_t begin = end > length ? end - length : 0;
        std::vector<Step> fewer(steps_.begin(), steps_.begin() + static_cast<ptrdiff_t>(begin));
        fewer.insert(fewer.end(), steps_.begin() + static_cast<ptrdiff_t>(end), steps_.end());
        if (take_if_failing(std::move(fewer))) is_smaller = true;
        end = begin;
      }
    }
    return is_smaller;
  }

  bool simplify_steps() {
    bool is_smaller = false;
    for (size_t i = 0; i < steps_.size() && !is_late(); ++i) {
      if (!steps_[i].crashes.empty()) {
        std::vector<Step> simpler = steps_;
        simpler[i].crashes.pop_back();
        is_smaller = take_if_failing(std::move(simpler)) || is_smaller;
      }
      if (!steps_[i].meanwhile.empty()) {
        std::vector<Step> simpler = steps_;
        simpler[i].meanwhile.pop_back();
        is_smaller = take_if_failing(std::move(simpler)) || is_smaller;
      }
      for (const char* count : {"rows", "minutes"}) {
        while (steps_[i].arg(count) > 1 && !is_late()) {
          std::vector<Step> simpler = steps_;
          simpler[i].with[count] /= 2;
          if (!take_if_failing(std::move(simpler))) break;
          is_smaller = true;
        }
      }
    }
    return is_smaller;
  }

  std::vector<Step> steps_;
  const Run& run_;
  const int64_t end_us_;
};

}  // namespace

std::vector<Step> shrink(std::vector<Step> steps, const Run& run, int64_t seconds) {
  return Shrinker(std::move(steps), run, seconds).shrink();
}

}  // namespace firn::hyp::model
