// The scheduler: begins runs when they are due, works on open ones, and expires tables' histories.
#include <chrono>
#include <list>
#include <ostream>
#include <set>
#include <thread>

#include "base/civil_time.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/uuid.h"
#include "orca/commands.h"
#include "orca/runner.h"
#include "orca/schedule.h"
#include "orca/status.h"

namespace firn::orca {
namespace {

constexpr int64_t kTickMs = 1'000;

// A run that this process works on.
struct Work {
  std::string run_id;
  std::atomic<bool> ended{false};
  std::jthread thread;
};

int64_t expire_hours() {
  const char* text = std::getenv("ORCA_EXPIRE_HOURS");
  if (text == nullptr || *text == '\0') return 24;
  char* end = nullptr;
  const long long hours = std::strtoll(text, &end, 10);
  if (*end != '\0' || hours < 0)
    fail(ErrorKind::config, "ORCA_EXPIRE_HOURS: \"{}\" is no whole number of hours (0: never)", text);
  return hours;
}

class Server {
 public:
  Server(const Invocation& invocation, const std::vector<Pipeline>& pipelines, const ServeArguments& arguments)
      : invocation_(invocation),
        pipelines_(pipelines),
        arguments_(arguments),
        options_(runner_options()),
        expire_every_ms_(expire_hours() * 3'600'000) {
    options_.parallel = arguments.parallel;
    options_.stop = invocation.stop;
    const StateLocation location = state_location();
    state_ = std::make_shared<GroupCommit>([location] { return open_database(location); });
    started_ms_ = now_ms();
    next_expiry_ms_ = started_ms_ + std::min<int64_t>(expire_every_ms_, 60'000);
  }

  int serve() {
    for (const Pipeline& pipeline : pipelines_) {
      spdlog::info(
          "{}: {}", pipeline.name,
          pipeline.schedule ? "scheduled " + pipeline.schedule->text() : "no schedule; open runs are worked on");
    }
    while (invocation_.stop == nullptr || !*invocation_.stop) {
      try {
        for (const Pipeline& pipeline : pipelines_) {
          begin_due(pipeline);
          take_up(pipeline);
        }
        drop_ended();
        expire_if_due();
      } catch (const Error& e) {  // the next tick tries again
        spdlog::error("{}", e.what());
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(kTickMs / 4));
    }
    works_.clear();  // each stops its run, and is waited for
    return 0;
  }

 private:
  void begin_due(const Pipeline& pipeline) {
    if (!pipeline.schedule) return;
    std::optional<RunRow> made;
    state_->run("orca.schedule",
                [&](Database& database) { made = begin_scheduled(database, pipeline, started_ms_, now_ms()); });
    if (made)
      spdlog::info("{} run {} begins, due at {}", pipeline.name, made->number,
                   format_timestamp_ms_utc(*made->scheduled_ms));
  }

  void take_up(const Pipeline& pipeline) {
    std::vector<RunRow> runs;
    state_->run("orca.find", [&](Database& database) { runs = list_open_runs(database, pipeline.name); });
    for (const RunRow& run : runs) {
      if (works_.size() >= static_cast<size_t>(arguments_.runs)) return;
      if (refused_.contains(run.id)) continue;
      if (std::any_of(works_.begin(), works_.end(), [&](const Work& work) { return work.run_id == run.id; })) continue;
      Work& work = works_.emplace_back();
      work.run_id = run.id;
      work.thread = std::jthread([this, &work, &pipeline, run] { work_on(work, pipeline, run); });
    }
  }

  void work_on(Work& work, const Pipeline& pipeline, const RunRow& run) {
    try {
      const RunOutcome outcome = work_on_run(state_, pipeline, run, options_);
      spdlog::info("{} run {}: {}", pipeline.name, run.number, to_string(outcome.status));
    } catch (const Error& e) {  // a thread ends here; the run stays open
      spdlog::error("{} run {}: {}", pipeline.name, run.number, e.what());
      if (e.kind() == ErrorKind::config) {
        const std::lock_guard lock(mutex_);
        newly_refused_.insert(run.id);  // of other code: not ours to run
      }
    }
    work.ended = true;
  }

  void drop_ended() {
    works_.remove_if([](const Work& work) { return work.ended.load(); });
    const std::lock_guard lock(mutex_);
    refused_.insert(newly_refused_.begin(), newly_refused_.end());
  }

  void expire_if_due() {
    if (!invocation_.expire || expire_every_ms_ == 0 || now_ms() < next_expiry_ms_) return;
    next_expiry_ms_ = now_ms() + expire_every_ms_;
    for (const ExpiredTable& table : invocation_.expire(expire_request())) {
      if (!table.error.empty()) {
        spdlog::error("expiry of {}: {}", table.dataset, table.error);
      } else if (table.snapshots > 0) {
        spdlog::info("expiry of {}: {} snapshots, {} files, {} bytes", table.dataset, table.snapshots, table.files,
                     table.bytes);
      }
    }
  }

  const Invocation& invocation_;
  const std::vector<Pipeline>& pipelines_;
  ServeArguments arguments_;
  RunnerOptions options_;
  int64_t expire_every_ms_;
  std::shared_ptr<GroupCommit> state_;
  int64_t started_ms_ = 0, next_expiry_ms_ = 0;
  std::set<std::string> refused_;
  std::mutex mutex_;
  std::set<std::string> newly_refused_;
  std::list<Work> works_;
};

}  // namespace

std::optional<RunRow> begin_scheduled(Database& database, const Pipeline& pipeline, int64_t since_ms, int64_t at_ms) {
  const std::optional<int64_t> last = last_scheduled_ms(database, pipeline.name);
  int64_t due_ms = pipeline.schedule->next_after_ms(last ? *last : since_ms);
  if (due_ms > at_ms) return std::nullopt;
  for (const RunRow& run : list_open_runs(database, pipeline.name)) {
    if (run.scheduled_ms) return std::nullopt;  // one after the other
  }
  // Of times that were missed the last one alone has its run: the others' keys are a backfill's.
  for (int64_t next_ms = due_ms; next_ms <= at_ms; next_ms = pipeline.schedule->next_after_ms(next_ms))
    due_ms = next_ms;
  RunParameters parameters;
  for (size_t i = 0; i < pipeline.order.size() && !parameters.keys; ++i) {
    const StepDefinition& step = *pipeline.order[i];
    const auto& edges = pipeline.plan.steps[i].after;
    const bool has_others =
        std::any_of(edges.begin(), edges.end(), [](const StepEdge& edge) { return edge.aligned; }) ||
        std::any_of(step.needs.begin(), step.needs.end(), [](const auto& need) { return need.is_keys; });
    if (!step.mapped || step.keys || has_others) continue;
    parameters.key_name = step.key_name;
    if (step.key == typeid(Day)) {
      parameters.keys = {Day{static_cast<int32_t>(floor_div(due_ms, 86'400'000))}.plus(-1).str()};
    } else if (step.key == typeid(Hour)) {
      parameters.keys = {Hour{floor_div(due_ms, 3'600'000)}.plus(-1).str()};
    } else {
      fail(ErrorKind::config, "pipeline {}: a scheduled run does not know the keys of step {}: give it mapped<K>(keys)",
           pipeline.name, step.name);
    }
  }
  return create_run(database, {.id = uuid_v4(),
                               .pipeline = pipeline.name,
                               .kind = "scheduled",
                               .code = code_version(),
                               .parameters = parameters_to_json(parameters),
                               .plan = pipeline.plan,
                               .scheduled_ms = due_ms});
}

int command_serve(const Invocation& invocation, const std::vector<Pipeline>& pipelines,
                  const ServeArguments& arguments) {
  return Server(invocation, pipelines, arguments).serve();
}

}  // namespace firn::orca
