// The scheduler: begins runs when they are due, works on open ones, and expires tables' histories.
#include <chrono>
#include <list>
#include <map>
#include <ostream>
#include <thread>
#include <utility>

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
constexpr int64_t kExpireHoursMax = 87'600;  // ten years
// A run whose runner ended with an error is left alone for this long, and for twice as long each further time.
constexpr int64_t kPauseMs = 5'000, kPauseMsMax = 300'000;

// A run that this process works on.
struct Work {
  std::string run_id;
  std::atomic<bool> ended{false};
  std::jthread thread;
};

// Why a run that is open is not worked on here.
struct Trouble {
  std::string message;
  bool is_for_good = false;  // of other code: not ours to run
  int64_t pause_ms = 0, until_ms = 0;
};

// An error that comes again and again.
struct Told {
  std::string message;
  int64_t until_ms = 0;
};

int64_t expire_hours() {
  const char* text = std::getenv("ORCA_EXPIRE_HOURS");
  if (text == nullptr || *text == '\0') return 24;
  char* end = nullptr;
  const long long hours = std::strtoll(text, &end, 10);  // the nearest there is, where it is too large
  if (*end != '\0' || hours < 0 || hours > kExpireHoursMax)
    fail(ErrorKind::config, "ORCA_EXPIRE_HOURS: \"{}\" is no whole number of hours from 0 (never) to {}", text,
         kExpireHoursMax);
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
      if (pipeline.schedule) check_schedule(pipeline, started_ms_);
    }
    for (const Pipeline& pipeline : pipelines_) {
      spdlog::info(
          "{}: {}", pipeline.name,
          pipeline.schedule ? "scheduled " + pipeline.schedule->text() : "no schedule; open runs are worked on");
    }
    while (invocation_.stop == nullptr || !*invocation_.stop) {
      for (const Pipeline& pipeline : pipelines_) {
        attend(pipeline.name, &pipeline, [&] { begin_due(pipeline); });
        attend(pipeline.name + "'s open runs", &pipeline, [&] { take_up(pipeline); });
      }
      works_.remove_if([](const Work& work) { return work.ended.load(); });
      attend("expiry", nullptr, [&] { expire_if_due(); });
      std::this_thread::sleep_for(std::chrono::milliseconds(kTickMs / 4));
    }
    works_.clear();  // each stops its run, and is waited for
    return 0;
  }

 private:
  // One part of a round. Where it fails the others go on, and the next round tries it again; the same error is told
  // once until the pipeline's next due time.
  template <class Part>
  void attend(const std::string& title, const Pipeline* pipeline, const Part& part) {
    std::string message;
    try {
      part();
      return;
    } catch (...) {  // the part ends here
      message = message_of(std::current_exception());
    }
    const int64_t at_ms = now_ms();
    Told& told = told_[title];
    if (told.message == message && at_ms < told.until_ms) return;
    const bool has_schedule = pipeline != nullptr && pipeline->schedule;
    told = {message, has_schedule ? pipeline->schedule->next_after_ms(at_ms) : at_ms + 60'000};
    spdlog::error("{}: {}", title, message);
  }

  static std::string message_of(const std::exception_ptr& error) {
    return Json::parse(error_to_json(error))["message"].get<std::string>();
  }

  void begin_due(const Pipeline& pipeline) {
    if (!pipeline.schedule) return;
    ScheduleLook look;
    int64_t runners = 0;
    state_->run("orca.schedule", [&](Database& database) {
      look = begin_scheduled(database, pipeline, started_ms_, now_ms());
      runners = look.waits_for ? live_runners(database, look.waits_for->id) : 0;
    });
    if (look.begun)
      spdlog::info("{} run {} begins, due at {}", pipeline.name, look.begun->number,
                   format_timestamp_ms_utc(look.due_ms));
    if (look.waits_for && runners == 0) tell_waiting(pipeline, look);
  }

  // Once for each time that was due, and only where nobody works on what it waits for.
  void tell_waiting(const Pipeline& pipeline, const ScheduleLook& look) {
    const std::lock_guard lock(mutex_);
    const auto trouble = troubles_.find(look.waits_for->id);
    if (trouble == troubles_.end() || std::exchange(told_waiting_[pipeline.name], look.due_ms) == look.due_ms) return;
    spdlog::error("{}: the run due at {} cannot begin before run {} has ended, on which nobody works{}: {}",
                  pipeline.name, format_timestamp_ms_utc(look.due_ms), look.waits_for->number,
                  trouble->second.is_for_good ? "" : "; it is tried again, and cancel ends it",
                  trouble->second.message);
  }

  void take_up(const Pipeline& pipeline) {
    std::vector<RunRow> runs;
    state_->run("orca.find", [&](Database& database) { runs = list_open_runs(database, pipeline.name); });
    for (const RunRow& run : runs) {
      if (works_.size() >= static_cast<size_t>(arguments_.runs)) return;
      if (is_in_trouble(run)) continue;
      if (std::any_of(works_.begin(), works_.end(), [&](const Work& work) { return work.run_id == run.id; })) continue;
      Work& work = works_.emplace_back();
      work.run_id = run.id;
      try {
        work.thread = std::jthread([this, &work, &pipeline, run] { work_on(work, pipeline, run); });
      } catch (...) {
        works_.pop_back();
        throw;
      }
    }
  }

  bool is_in_trouble(const RunRow& run) {
    const std::lock_guard lock(mutex_);
    const auto trouble = troubles_.find(run.id);
    return trouble != troubles_.end() && (trouble->second.is_for_good || now_ms() < trouble->second.until_ms);
  }

  void work_on(Work& work, const Pipeline& pipeline, const RunRow& run) {
    try {
      const RunOutcome outcome = work_on_run(state_, pipeline, run, options_);
      spdlog::info("{} run {}: {}", pipeline.name, run.number, to_string(outcome.status));
      const std::lock_guard lock(mutex_);
      troubles_.erase(run.id);
    } catch (const Error& e) {  // a thread ends here; the run stays open
      add_trouble(pipeline, run, e.what(), e.kind() == ErrorKind::config);
    } catch (...) {
      add_trouble(pipeline, run, message_of(std::current_exception()), false);
    }
    work.ended = true;
  }

  void add_trouble(const Pipeline& pipeline, const RunRow& run, const std::string& message, bool is_for_good) {
    const std::lock_guard lock(mutex_);
    Trouble& trouble = troubles_[run.id];
    trouble.message = message;
    trouble.is_for_good = is_for_good;
    trouble.pause_ms = std::min(kPauseMsMax, trouble.pause_ms == 0 ? kPauseMs : 2 * trouble.pause_ms);
    trouble.until_ms = now_ms() + trouble.pause_ms;
    spdlog::error("{} run {}: {}{}", pipeline.name, run.number, message,
                  is_for_good ? "" : fmt::format("; tried again in {} s", trouble.pause_ms / 1'000));
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
  std::map<std::string, Told> told_;
  std::map<std::string, int64_t> told_waiting_;  // by pipeline: the due time that was told last
  std::mutex mutex_;
  std::map<std::string, Trouble> troubles_;  // by run; under the mutex, as runners' threads add to them
  std::list<Work> works_;
};

// The keys of the run that is due, for the steps that would ask the command line.
RunParameters scheduled_parameters(const Pipeline& pipeline, int64_t due_ms) {
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
  return parameters;
}

// The last time from `first_ms` to `at_ms`: looked for backwards, since there may be very many.
int64_t last_due_ms(const CronSchedule& schedule, int64_t first_ms, int64_t at_ms) {
  int64_t due_ms = first_ms;
  for (int64_t span_ms = 3'600'000; at_ms - span_ms > first_ms; span_ms *= 2) {
    const int64_t found_ms = schedule.next_after_ms(at_ms - span_ms);
    if (found_ms > at_ms) continue;
    due_ms = found_ms;
    break;
  }
  for (int64_t next_ms = due_ms; next_ms <= at_ms; next_ms = schedule.next_after_ms(next_ms)) due_ms = next_ms;
  return due_ms;
}

}  // namespace

void check_schedule(const Pipeline& pipeline, int64_t at_ms) {
  scheduled_parameters(pipeline, pipeline.schedule->next_after_ms(at_ms));
}

ScheduleLook begin_scheduled(Database& database, const Pipeline& pipeline, int64_t since_ms, int64_t at_ms) {
  const std::optional<int64_t> last = last_scheduled_ms(database, pipeline.name);
  const int64_t first_ms = pipeline.schedule->next_after_ms(last ? *last : since_ms);
  if (first_ms > at_ms) return {};
  // Of times that were missed the last one alone has its run: the others' keys are a backfill's.
  ScheduleLook look{.due_ms = last_due_ms(*pipeline.schedule, first_ms, at_ms)};
  for (const RunRow& run : list_open_runs(database, pipeline.name)) {
    if (!run.scheduled_ms) continue;
    look.waits_for = run;  // one after the other
    return look;
  }
  look.begun = create_run(database, {.id = uuid_v4(),
                                     .pipeline = pipeline.name,
                                     .kind = "scheduled",
                                     .code = code_version(),
                                     .parameters = parameters_to_json(scheduled_parameters(pipeline, look.due_ms)),
                                     .plan = pipeline.plan,
                                     .scheduled_ms = look.due_ms});
  return look;
}

int command_serve(const Invocation& invocation, const std::vector<Pipeline>& pipelines,
                  const ServeArguments& arguments) {
  return Server(invocation, pipelines, arguments).serve();
}

}  // namespace firn::orca
