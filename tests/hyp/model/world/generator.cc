#include "hyp/model/world/generator.h"

#include <algorithm>

namespace firn::hyp::model {
namespace {

struct Choice {
  const char* action;
  int64_t weight;
  bool is_durable;  // it passes fault points
};

constexpr Choice kChoices[] = {
    {"ingest", 260, true},      {"backfill", 60, true},       {"flush", 150, true},     {"sink", 100, true},
    {"clock", 70, false},       {"retain", 30, true},         {"compact", 25, true},    {"sweep", 30, true},
    {"maintain", 8, true},      {"purge", 10, true},          {"new_column", 4, false}, {"restart", 10, true},
    {"open_reader", 40, false}, {"finish_reader", 45, false}, {"check", 60, false},     {"check_since", 60, false},
    {"query", 2, false},        {"expire_archive", 6, true},
};
constexpr int64_t kDeclaredMax = 5;
// Where processes take turns at flushes each turn is an open of its own, and a unit has rows of one open.
constexpr int64_t kStepsOfOneProcess = 40;

const std::vector<Gap>& gaps() {
  static const std::vector<Gap> gaps = {
      {"compact",
       {"compaction.linked", "compaction.written"},
       {"ingest", "flush", "flush", "flush", "retain", "sink", "sweep", "clock"}},
      {"sink",
       {"sink.before-intent", "sink.object-written", "sink.claimed", "sink.files-written", "sink.committed",
        "sink.before-watermark", "sink.watermark-moved"},
       {"ingest", "flush", "flush", "retain", "compact", "sweep", "purge", "maintain", "sink", "clock"}},
  };
  return gaps;
}

}  // namespace

void Generator::add_crash(Step& step, const std::string& action) {
  const auto found = use_.passes.find(action);
  if (found == use_.passes.end() || found->second.empty()) return;
  const auto crashes_at = [&](const std::string& point) {
    const auto count = use_.crashes.find(point);
    return count == use_.crashes.end() ? 0 : count->second;
  };
  const auto pick = [&] { return std::next(found->second.begin(), below(static_cast<int64_t>(found->second.size()))); };
  auto point = pick();
  for (int i = 0; i < 2; ++i) {
    if (const auto other = pick(); crashes_at(other->first) < crashes_at(point->first)) point = other;
  }
  const int64_t pass = one_in(2) ? 1 : 1 + below(point->second);  // another run may not pass it so often
  step.crashes.push_back({point->first, pass, power_ && one_in(2)});
}

// What others do while the step is at a point that earlier ones passed.
void Generator::add_meanwhile(Step& step, const Gap& gap) {
  const auto passes = use_.passes.find(gap.action);
  if (passes == use_.passes.end()) return;
  const std::string& point = gap.points[static_cast<size_t>(below(static_cast<int64_t>(gap.points.size())))];
  const auto found = passes->second.find(point);
  if (found == passes->second.end()) return;
  Meanwhile other;
  other.point = point;
  other.pass = one_in(2) ? 1 : 1 + below(found->second);
  other.step.action = gap.others[static_cast<size_t>(below(static_cast<int64_t>(gap.others.size())))];
  add_arguments(other.step);
  const bool is_same = other.step.with.contains("partition") && step.with.contains("partition") && !one_in(3);
  if (is_same) other.step.with["partition"] = step.with["partition"];
  step.meanwhile.push_back(std::move(other));
}

Step Generator::next() {
  int64_t sum = 0;
  for (const Choice& choice : kChoices) sum += choice.weight;
  int64_t at = below(sum);
  const Choice* choice = kChoices;
  while (at >= choice->weight) at -= (choice++)->weight;

  Step step;
  step.action = choice->action;
  add_arguments(step);
  for (const Gap& gap : gaps()) {
    if (step.action != gap.action || !one_in(3)) continue;
    do {
      add_meanwhile(step, gap);
    } while (step.meanwhile.size() < 3 && one_in(2));
  }
  if (choice->is_durable && one_in(5)) {
    add_crash(step, step.action);
    while (!step.crashes.empty() && step.crashes.size() < 4 && one_in(6)) add_crash(step, "start");
  }
  return step;
}

void Generator::add_arguments(Step& step) {
  const auto set = [&](const char* name, int64_t value) {
    if (value != 0) step.with[name] = value;
  };
  const std::string& action = step.action;
  if (action == "clock") {
    set("minutes", one_in(10) ? below(3 * 24 * 60) : below(8 * 60));
    return;
  }
  if (action == "new_column") return;
  if (one_in(kStepsOfOneProcess)) process_ = below(kProcesses);
  set("process", one_in(20) ? below(kProcesses) : process_);
  if (action == "ingest" || action == "backfill") {
    set("dataset", below(kDatasets));
    set("source", below(2));
    set("rows", 1 + below(one_in(8) ? 40 : 8));
    set("seed", below(1'000'000'000));
  }
  if (action == "backfill") {
    set("grow", below(2));
    set("atomic", one_in(3) ? 1 : 0);
  }
  if (action == "flush") set("by_frame", one_in(4) ? 1 : 0);
  if (action == "sink") set("sink", below(3));
  if (action == "sink") set("partition", one_in(5) ? 0 : 1 + below(8));
  if (action == "retain" || action == "compact" || action == "sweep" || action == "check" || action == "check_since" ||
      action == "open_reader") {
    set("partition", 1 + below(8));
  }
  if (action == "sweep") set("all", below(2));
  if (action == "check") set("unordered", below(2));
  if (action == "check_since") {
    set("from", below(100'000));
    set("to", below(100'000));
  }
  if (action == "open_reader") {
    set("whole", below(2));
    set("from", below(100'000));
    set("begun", below(2));
  }
  if (action == "finish_reader") {
    set("reader", below(4));
    set("dropped", one_in(4) ? 1 : 0);
  }
  if (action == "purge") {
    set("dataset", below(kDatasets));
    set("k", below(20));
    set("look", below(2));
  }
  if (action == "query") set("dataset", below(kDatasets));
  if (action == "restart" && declared_ < kDeclaredMax && one_in(6)) {
    ++declared_;
    set("declare", 1);
  }
}

}  // namespace firn::hyp::model
