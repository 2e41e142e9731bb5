// run, backfill, resume, retry.
#include <algorithm>
#include <ostream>
#include <set>

#include "base/fault_point.h"
#include "base/uuid.h"
#include "orca/commands.h"
#include "orca/runner.h"
#include "orca/status.h"

namespace firn::orca {
namespace {

std::shared_ptr<GroupCommit> open_state() {
  const StateLocation location = state_location();
  return std::make_shared<GroupCommit>([location] { return open_database(location); });
}

RunnerOptions options_of(const Invocation& invocation, const RunArguments& arguments) {
  RunnerOptions options = runner_options();
  options.parallel = arguments.parallel;
  options.stop = invocation.stop;
  if (!arguments.tasks.empty())
    options.tasks.engine = arguments.tasks == "threads" ? TaskEngine::threads : TaskEngine::processes;
  return options;
}

// Whether its keys are neither another mapped step's nor what a step returns.
bool may_be_given_keys(const Pipeline& pipeline, size_t index) {
  const StepDefinition& step = *pipeline.order[index];
  const auto& edges = pipeline.plan.steps[index].after;
  return step.mapped && std::none_of(edges.begin(), edges.end(), [](const StepEdge& edge) { return edge.aligned; }) &&
         std::none_of(step.needs.begin(), step.needs.end(), [](const auto& need) { return need.is_keys; });
}

// A step whose keys the command line names: the one of --step; else those that have no keys of their own, or that have
// ranges where a range is given. Throws invalid_argument where there is none, or keys of more than one type are meant.
const StepDefinition& key_step(const Pipeline& pipeline, const RunArguments& arguments) {
  std::vector<const StepDefinition*> found;
  for (size_t i = 0; i < pipeline.order.size(); ++i) {
    const StepDefinition& step = *pipeline.order[i];
    const bool is_meant = arguments.step.empty() || step.name == arguments.step;
    if (is_meant && may_be_given_keys(pipeline, i)) found.push_back(&step);
  }
  const auto several_types = [&] {
    return std::any_of(found.begin(), found.end(), [&](const auto* step) { return step->key != found[0]->key; });
  };
  if (several_types() && !arguments.from.empty()) std::erase_if(found, [](const auto* step) { return !step->range; });
  const auto has_own_keys = [](const auto* step) { return step->keys != nullptr; };
  if (several_types() && !std::all_of(found.begin(), found.end(), has_own_keys)) std::erase_if(found, has_own_keys);
  if (several_types()) {
    fail(ErrorKind::invalid_argument, "steps {} and {} have keys of different types; --step says whose keys these are",
         found.front()->name, found.back()->name);
  }
  if (found.empty()) {
    fail(ErrorKind::invalid_argument, "pipeline {} has no {}step whose keys could be named{}", pipeline.name,
         arguments.step.empty() ? "" : "such ", arguments.step.empty() ? "" : ": --step " + arguments.step);
  }
  return *found.front();
}

RunParameters parameters_of(const Pipeline& pipeline, const RunArguments& arguments) {
  if (arguments.from.empty() != arguments.to.empty()) fail(ErrorKind::invalid_argument, "--from and --to go together");
  if (arguments.keys.empty() && arguments.from.empty()) return {};
  if (!arguments.keys.empty() && !arguments.from.empty())
    fail(ErrorKind::invalid_argument, "--key and --from exclude each other");
  const StepDefinition& step = key_step(pipeline, arguments);
  std::vector<std::string> keys;
  if (!arguments.from.empty()) {
    if (!step.range)
      fail(ErrorKind::invalid_argument, "step {} has keys of {}, which have no ranges; name them with --key", step.name,
           step.key_name);
    keys = step.range(arguments.from, arguments.to);
  }
  try {
    for (const std::string& word : arguments.keys) keys.push_back(step.key_from_words(word));
  } catch (const Error& e) {
    throw Error(e.kind(), "step " + step.name, e);
  }
  std::set<std::string> once;
  for (const std::string& key : keys) {
    if (!once.insert(key).second) fail(ErrorKind::invalid_argument, "--key {} is given twice", key);
  }
  return {.keys = std::move(keys), .key_name = step.key_name};
}

// Mapped steps that are `given` no keys must have their own.
void check_keys_known(const Pipeline& pipeline, const std::string& given) {
  for (size_t i = 0; i < pipeline.order.size(); ++i) {
    const StepDefinition& step = *pipeline.order[i];
    if (step.keys || !may_be_given_keys(pipeline, i) || given == step.key_name) continue;
    fail(ErrorKind::invalid_argument, "step {} runs once a {}: say which, with --key{}", step.name, step.key_name,
         step.range ? ", or --from and --to" : "");
  }
}

// Whether an error says itself that no retry of its run mends it, in the words of orca/tables: the run lost its rows to
// another, or what it read is gone.
bool is_beyond_retry(const FailureView& failure) {
  const std::string& error = failure.error;
  return error.find("new run") != std::string::npos || error.find("the later run's rows stand") != std::string::npos;
}

std::string advice_after(const RunView& failed) {
  const auto beyond = std::count_if(failed.failures.begin(), failed.failures.end(), is_beyond_retry);
  const int64_t number = failed.run.number;
  if (beyond > 0 && beyond == static_cast<int64_t>(failed.failures.size()))
    return "no retry mends it, as its errors say; begin a new run (run, or backfill --rerun) where they ask for one";
  return fmt::format("retry {} tries the failed steps again{}", number,
                     beyond > 0 ? ", but those whose errors ask for a new run need one" : "");
}

int status_of(RunStatus status) {
  switch (status) {
    case RunStatus::done:
      return 0;
    case RunStatus::failed:
    case RunStatus::cancelled:
      return kFailed;
    case RunStatus::running:
    case RunStatus::stopped:
      return kStopped;
  }
  return kFailed;
}

int work(const Invocation& invocation, const std::shared_ptr<GroupCommit>& state, const Pipeline& pipeline,
         const RunRow& run, const RunArguments& arguments) {
  const RunnerOptions options = options_of(invocation, arguments);
  RunOutcome outcome;
  {
    std::atomic<bool> ended{false};
    std::jthread live;
    if (invocation.out_is_terminal && !arguments.json) {
      live = std::jthread([&] { show_live(*invocation.out, state_location(), run.id, [&] { return ended.load(); }); });
    } else if (!arguments.json) {
      *invocation.out << fmt::format("{} run {}\n", pipeline.name, run.number) << std::flush;
    }
    try {
      outcome = work_on_run(state, pipeline, run, options);
    } catch (...) {
      ended = true;
      throw;
    }
    ended = true;
  }
  std::optional<RunView> view;
  state->run("orca.view",
             [&](Database& database) { view = view_run(database, *find_run_by_id(database, run.id), 20); });
  if (arguments.json) {
    *invocation.out << status_json(*view).dump(2) << "\n";
  } else if (!invocation.out_is_terminal) {
    *invocation.out << status_text(*view);
  }
  if (outcome.status == RunStatus::failed) {
    *invocation.err << fmt::format("{}: run {} failed; {}\n", invocation.program, run.number, advice_after(*view));
  } else if (outcome.status == RunStatus::stopped) {
    *invocation.err << fmt::format("{}: run {} is stopped; resume {} goes on with it\n", invocation.program, run.number,
                                   run.number);
  } else if (outcome.status == RunStatus::running) {
    *invocation.err << fmt::format("{}: stopped here; other runners go on with run {}\n", invocation.program,
                                   run.number);
  } else if (outcome.status == RunStatus::cancelled) {
    *invocation.err << fmt::format("{}: run {} was cancelled\n", invocation.program, run.number);
  }
  return status_of(outcome.status);
}

RunRow begin(GroupCommit& state, const Pipeline& pipeline, const char* kind, const RunParameters& parameters) {
  const NewRun run{.id = uuid_v4(),
                   .pipeline = pipeline.name,
                   .kind = kind,
                   .code = code_version(),
                   .parameters = parameters_to_json(parameters),
                   .plan = pipeline.plan};
  std::optional<RunRow> made;
  state.run("orca.run", [&](Database& database) { made = create_run(database, run); });
  return made.value();
}

// The run with that number, or the last one whose status is among `statuses`.
RunRow choose_run(GroupCommit& state, const Pipeline& pipeline, int64_t number, const std::vector<RunStatus>& statuses,
                  const char* none) {
  std::optional<RunRow> chosen;
  state.run("orca.find", [&](Database& database) {
    if (number != 0) {
      chosen = find_run(database, pipeline.name, number);
      return;
    }
    chosen = find_last_run(database, pipeline.name, statuses);
  });
  if (!chosen && number != 0)
    fail(ErrorKind::not_found, "pipeline {} has no run {} in {}", pipeline.name, number, state.title());
  if (!chosen) fail(ErrorKind::not_found, "pipeline {} has {} in {}", pipeline.name, none, state.title());
  return *chosen;
}

}  // namespace

int command_run(const Invocation& invocation, const Pipeline& pipeline, const RunArguments& arguments) {
  const RunParameters parameters = parameters_of(pipeline, arguments);
  check_keys_known(pipeline, parameters.key_name);
  const std::shared_ptr<GroupCommit> state = open_state();
  return work(invocation, state, pipeline, begin(*state, pipeline, "run", parameters), arguments);
}

int command_backfill(const Invocation& invocation, const Pipeline& pipeline, const RunArguments& arguments) {
  RunParameters parameters = parameters_of(pipeline, arguments);
  if (!parameters.keys) fail(ErrorKind::invalid_argument, "backfill needs --from and --to, or --key");
  check_keys_known(pipeline, parameters.key_name);
  const std::shared_ptr<GroupCommit> state = open_state();
  if (!arguments.rerun) {
    // A key is done once every step that runs over these keys has done it, in whatever runs.
    std::vector<std::string> wanted;
    std::vector<std::set<std::string>> done;
    state->run("orca.find", [&](Database& database) {
      done.clear();
      for (size_t i = 0; i < pipeline.order.size(); ++i) {
        const StepDefinition& step = *pipeline.order[i];
        const auto& edges = pipeline.plan.steps[i].after;
        const bool aligned = std::any_of(edges.begin(), edges.end(), [](const StepEdge& edge) { return edge.aligned; });
        if (!step.mapped || step.key_name != parameters.key_name) continue;
        if (!aligned && !may_be_given_keys(pipeline, i)) continue;
        const std::vector<std::string> keys = keys_done(database, pipeline.name, step.name, *parameters.keys);
        done.emplace_back(keys.begin(), keys.end());
      }
    });
    for (const std::string& key : *parameters.keys) {
      if (!std::all_of(done.begin(), done.end(), [&](const auto& keys) { return keys.contains(key); }))
        wanted.push_back(key);
    }
    if (wanted.empty()) {
      *invocation.out << fmt::format("all {} keys are done; --rerun computes them again\n", parameters.keys->size());
      return 0;
    }
    parameters.keys = std::move(wanted);
  }
  return work(invocation, state, pipeline, begin(*state, pipeline, "backfill", parameters), arguments);
}

int command_resume(const Invocation& invocation, const Pipeline& pipeline, const RunArguments& arguments) {
  const std::shared_ptr<GroupCommit> state = open_state();
  const RunRow run =
      choose_run(*state, pipeline, arguments.run, {RunStatus::stopped, RunStatus::running}, "no run that is open");
  check_same_steps(pipeline, run);  // before anything of it changes
  bool is_open = false;
  std::optional<RunRow> now;
  std::string advice;
  state->run("orca.resume", [&](Database& database) {
    is_open = reopen_run(database, run.id);
    now = find_run_by_id(database, run.id);
    advice = now->status == RunStatus::failed ? "; " + advice_after(view_run(database, *now, 20)) : "";
  });
  if (!is_open) {
    *invocation.err << fmt::format("{}: run {} is {}{}\n", invocation.program, run.number, to_string(now->status),
                                   advice);
    return now->status == RunStatus::done ? 0 : kFailed;
  }
  return work(invocation, state, pipeline, *now, arguments);
}

int command_retry(const Invocation& invocation, const Pipeline& pipeline, const RunArguments& arguments) {
  if (!arguments.key.empty() && arguments.step.empty()) fail(ErrorKind::invalid_argument, "--key goes with --step");
  const std::shared_ptr<GroupCommit> state = open_state();
  const RunRow run = choose_run(*state, pipeline, arguments.run, {RunStatus::failed}, "no run that failed");
  check_same_steps(pipeline, run);  // before anything of it changes
  const RunPlan plan = plan_from_json(parse_json(run.plan, "the plan of a run"));
  std::optional<size_t> step;
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    if (plan.steps[i].name == arguments.step) step = i;
  }
  if (!arguments.step.empty() && !step)
    fail(ErrorKind::invalid_argument, "run {} has no step {}", run.number, arguments.step);
  int64_t ready = 0;
  std::optional<RunRow> now;
  state->run("orca.retry", [&](Database& database) {
    ready =
        retry_run(database, plan, run.id, step, arguments.key.empty() ? std::nullopt : std::optional(arguments.key));
    now = find_run_by_id(database, run.id);
  });
  if (now->status == RunStatus::cancelled) {
    *invocation.err << fmt::format("{}: run {} was cancelled, for good; begin another (run, or backfill)\n",
                                   invocation.program, run.number);
    return kFailed;
  }
  if (now->status != RunStatus::running) {
    *invocation.err << fmt::format("{}: run {} is {}, and has nothing to retry\n", invocation.program, run.number,
                                   to_string(now->status));
    return now->status == RunStatus::done ? 0 : kFailed;
  }
  return work(invocation, state, pipeline, *now, arguments);
}

}  // namespace firn::orca
