// From words to a command.
#include "orca/commands.h"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>

#include <unistd.h>
#include <CLI/CLI.hpp>

#include "base/log.h"
#include "io/local.h"
#include "orca/graph.h"
#include "orca/runner.h"

namespace firn::orca {
namespace {

constexpr const char* kEnvironment =
    "Environment:\n"
    "  ORCA_STATE          the SQLite file that holds the state of runs (default .orca/state.db)\n"
    "  ORCA_DATABASE_URL   a PostgreSQL database to hold it instead: postgresql://USER@HOST/DATABASE\n"
    "  ORCA_WAREHOUSE      the root of the tables that steps name\n"
    "  ORCA_LEASE_SECONDS  how long after its last sign of life a runner's work is taken over (30; at most 86400)\n"
    "  ORCA_TASKS          where tasks run: threads (default) or processes\n"
    "  ORCA_TASK_WORKERS   how many (default: one a processor; at most 1024)\n"
    "  ORCA_CODE           the code's version, as runs and snapshots tell it (default: the program's build id)\n";
constexpr const char* kStatuses = "Status: 0 done, 1 failed, 2 wrong usage, 3 stopped on request before the end.";

struct Parsed {
  std::string pipeline;
  RunArguments run;
  LookArguments look;
  ExpireArguments expire;
  ServeArguments serve;
  std::string graph_format = "text", graph_output;
};

void add_run_number(CLI::App* command, int64_t& run, const std::string& what) {
  command->add_option("RUN", run, what)->check([](const std::string& word) {
    const bool is_number = !word.empty() && word.size() <= 18 &&
                           std::all_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; });
    return is_number && word.find_first_not_of('0') != std::string::npos
               ? std::string()
               : "\"" + word + "\" is no run's number: status tells them";
  });
}

void add_work_options(CLI::App* command, RunArguments& run) {
  command->add_option("--parallel", run.parallel, "Attempts at once (default: twice the processors, and 4 at least)")
      ->check(CLI::Range(1, 10'000));
  command->add_option("--tasks", run.tasks, "Where tasks run (default: ORCA_TASKS)")
      ->check(CLI::IsMember({"threads", "processes"}));
  command->add_flag("--json", run.json, "Print the run's status as JSON at its end");
}

void add_look_commands(CLI::App& app, Parsed& p, bool has_pipelines) {
  auto* status = app.add_subcommand("status", "Runs, their steps, what runs and what failed");
  add_run_number(status, p.look.run, "A run's number (default: the last runs, and the last one's steps)");
  status->add_option("--limit", p.look.limit, "How many runs")->check(CLI::Range(1, 10'000))->capture_default_str();
  status->add_flag("--json", p.look.json, "As JSON");
  status->add_flag("--once", p.look.once,
                   "On a terminal, too, one look instead of a live one at a run that is running");
  auto* cancel = app.add_subcommand("cancel", "End a run for good; its runners tell its steps to end");
  add_run_number(cancel, p.look.run, "Its number");
  cancel->get_option("RUN")->required();
  auto* expire = app.add_subcommand("expire", "Expire old snapshots of tables, as their properties say");
  expire->add_option("DATASET", p.expire.datasets,
                     "Only these (default: every table of the warehouse that says how long its history is kept)");
  expire->add_flag("--dry-run", p.expire.dry_run, "Only say what would go");
  expire->add_flag("--json", p.expire.json, "As JSON");
  expire->footer(
      "A table keeps its snapshots for history.expire.max-snapshot-age-ms; one without that property keeps them all.\n"
      "What open runs pinned stays, and so does what runs that failed within the last 7 days pinned.");
  if (!has_pipelines) {
    for (CLI::App* command : {status, cancel}) command->add_option("--pipeline", p.look.pipeline, "Of this pipeline");
    cancel->get_option("--pipeline")->required();
  }
}

void add_pipeline_commands(CLI::App& app, Parsed& p) {
  auto* run = app.add_subcommand("run", "Begin a run, and work on it to its end");
  auto* backfill = app.add_subcommand("backfill", "Begin a run over a range of keys, without those that are done");
  for (CLI::App* command : {run, backfill}) {
    command->add_option("--key", p.run.keys, "A key; may be given several times");
    command->add_option("--from", p.run.from,
                        "The first key of a range of days (2013-01-31), hours (2013-01-31T05) or integers");
    command->add_option("--to", p.run.to, "The last key of the range, itself included");
    command->add_option("--step", p.run.step, "Whose keys these are, where steps have keys of different types");
    add_work_options(command, p.run);
  }
  backfill->add_flag("--rerun", p.run.rerun,
                     "Also the keys that are done; steps that replace leave this run's rows alone");
  backfill->footer("A key is done once every step that runs over these keys has done it, in whatever run.");
  auto* resume =
      app.add_subcommand("resume", "Go on with a run that was stopped or whose runner died, or join its runners");
  add_run_number(resume, p.run.run, "Its number (default: the last one that is open)");
  add_work_options(resume, p.run);
  auto* retry = app.add_subcommand("retry", "Try the failed steps of a run again, and what was skipped for them");
  add_run_number(retry, p.run.run, "Its number (default: the last one that failed)");
  retry->add_option("--step", p.run.step, "Only this step");
  retry->add_option("--key", p.run.key, "Only this key of it");
  add_work_options(retry, p.run);
  auto* graph = app.add_subcommand("graph", "The steps as a picture");
  graph->add_option("--format", p.graph_format)->check(CLI::IsMember({"text", "svg"}))->capture_default_str();
  graph->add_option("--output", p.graph_output, "Into this file");
  auto* serve = app.add_subcommand("serve", "Begin runs on schedule, work on open runs, expire tables; until SIGTERM");
  serve->add_option("--parallel", p.serve.parallel, "Attempts at once in each run")->check(CLI::Range(1, 10'000));
  serve->add_option("--runs", p.serve.runs, "Runs at once")->check(CLI::Range(1, 1'000))->capture_default_str();
  serve->footer(
      "Schedules are in UTC. A pipeline's scheduled runs come one after the other; of times that passed meanwhile the "
      "last\n"
      "one has its run. Several servers may share a state: each time has one run. Open runs of any kind are worked "
      "on.\n"
      "Tables are expired every ORCA_EXPIRE_HOURS (default 24; 0: never), for the first time a minute after the "
      "start.");
}

const Pipeline& choose_pipeline(const std::vector<Pipeline>& pipelines, const std::string& name) {
  if (pipelines.empty())
    fail(ErrorKind::config, "this program has no pipeline: write ORCA_PIPELINE(name) and its steps");
  if (name.empty() && pipelines.size() == 1) return pipelines.front();
  std::string names;
  for (const Pipeline& pipeline : pipelines) {
    if (pipeline.name == name) return pipeline;
    names += (names.empty() ? "" : ", ") + pipeline.name;
  }
  if (name.empty()) fail(ErrorKind::invalid_argument, "which pipeline? --pipeline names one of {}", names);
  fail(ErrorKind::invalid_argument, "there is no pipeline {}; there are {}", name, names);
}

int command_graph(const Invocation& invocation, const Pipeline& pipeline, const Parsed& p) {
  const std::string picture = p.graph_format == "svg" ? graph_svg(pipeline) : graph_text(pipeline);
  if (p.graph_output.empty()) {
    *invocation.out << picture;
  } else {
    replace_file(std::filesystem::absolute(p.graph_output).string(), picture);
  }
  return 0;
}

int dispatch(const Invocation& invocation, const CLI::App& app, std::vector<Pipeline>& pipelines, Parsed& p) {
  const std::string command = app.get_subcommands().front()->get_name();
  if (command == "expire") return command_expire(invocation, p.expire);
  if (command == "status") {
    // Of one pipeline where that is meant; a program with several shows them all.
    if (!p.pipeline.empty() || pipelines.size() == 1 || p.look.run != 0)
      p.look.pipeline = choose_pipeline(pipelines, p.pipeline).name;
    return command_status(invocation, p.look);
  }
  if (command == "serve") {
    if (p.pipeline.empty()) return command_serve(invocation, pipelines, p.serve);
    const std::vector<Pipeline> one = {choose_pipeline(pipelines, p.pipeline)};
    return command_serve(invocation, one, p.serve);
  }
  const Pipeline& pipeline = choose_pipeline(pipelines, p.pipeline);
  if (command == "run") return command_run(invocation, pipeline, p.run);
  if (command == "backfill") return command_backfill(invocation, pipeline, p.run);
  if (command == "resume") return command_resume(invocation, pipeline, p.run);
  if (command == "retry") return command_retry(invocation, pipeline, p.run);
  if (command == "graph") return command_graph(invocation, pipeline, p);
  p.look.pipeline = pipeline.name;
  return command_cancel(invocation, p.look);
}

std::string commands_of(const CLI::App& app) {
  std::string names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names += (names.empty() ? "" : ", ") + command->get_name();
  return names;
}

// A first word that is no command.
void check_first_word(const Invocation& invocation, const CLI::App& app) {
  for (size_t i = 0; i < invocation.words.size(); ++i) {
    const std::string& word = invocation.words[i];
    if (word == "--pipeline") {
      ++i;
    } else if (!word.starts_with('-')) {
      const auto is_meant = [&](const CLI::App* command) { return command->get_name() == word; };
      if (!app.get_subcommands(is_meant).empty()) return;
      fail(ErrorKind::invalid_argument, "there is no command {}; there are {}", word, commands_of(app));
    }
  }
}

// Parses, then `work`; every error is told here.
template <class Work>
int run_command(const Invocation& invocation, CLI::App& app, const Work& work) {
  try {
    check_first_word(invocation, app);
    std::vector<std::string> reversed(invocation.words.rbegin(), invocation.words.rend());
    app.parse(reversed);
    return work();
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e, *invocation.out, *invocation.err);
    const bool has_command = !app.get_subcommands().empty();
    const std::string command = has_command ? " " + app.get_subcommands().front()->get_name() : "";
    const std::string what = has_command ? e.what() : "which command? " + commands_of(app);
    *invocation.err << invocation.program << ": " << what << "\nTry: " << invocation.program << command << " --help\n";
    return kUsage;
  } catch (const Error& e) {
    *invocation.err << invocation.program << ": " << e.what() << "\n";
    return e.kind() == ErrorKind::invalid_argument ? kUsage : kFailed;
  } catch (const std::exception& e) {
    *invocation.err << invocation.program << ": " << e.what() << "\n";
    return kFailed;
  }
}

// Set by the first SIGINT or SIGTERM; the second ends the process at once.
std::atomic<bool> stop_asked{false};

extern "C" void ask_stop(int signal) {
  if (stop_asked.exchange(true)) {
    std::signal(signal, SIG_DFL);
    raise(signal);
  }
}

Invocation invocation_of(int argc, char** argv, ExpireTables expire) {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGINT, ask_stop);
  std::signal(SIGTERM, ask_stop);
  Invocation invocation;
  invocation.program = std::filesystem::path(argv[0]).filename().string();
  invocation.words.assign(argv + 1, argv + argc);
  invocation.out = &std::cout;
  invocation.err = &std::cerr;
  invocation.out_is_terminal = isatty(1) != 0;
  invocation.stop = &stop_asked;
  invocation.expire = std::move(expire);
  return invocation;
}

int end_with(int status) {
  std::cout.flush();
  std::cerr.flush();
  if (!std::cout.good() && status == 0) status = kFailed;
  // Attempts that were given up still run: their threads use what destructors would take away.
  if (abandoned_attempts() > 0) _exit(status);
  return status;
}

}  // namespace

int run_pipeline_command(const Invocation& invocation, std::vector<Pipeline>& pipelines) {
  Parsed p;
  CLI::App app(
      "Runs " + (pipelines.size() == 1 ? "the pipeline " + pipelines.front().name : std::string("pipelines")) +
          (pipelines.size() == 1 && !pipelines.front().description.empty() ? ": " + pipelines.front().description : ""),
      invocation.program);
  app.require_subcommand(1);
  app.fallthrough();
  app.set_help_all_flag("--help-all", "Help of every command");
  if (pipelines.size() > 1) app.add_option("--pipeline", p.pipeline, "Which pipeline");
  add_pipeline_commands(app, p);
  add_look_commands(app, p, true);
  app.footer(std::string(kEnvironment) + kStatuses);
  return run_command(invocation, app, [&] { return dispatch(invocation, app, pipelines, p); });
}

int run_orca_command(const Invocation& invocation, const std::string& version) {
  Parsed p;
  CLI::App app(
      "orca looks at runs of pipelines and keeps their tables' histories short. What needs a pipeline's code (run, "
      "resume, "
      "backfill, …) is a command of the pipeline's own program.",
      invocation.program);
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "Help of every command");
  app.set_version_flag("--version", "orca " + version);
  add_look_commands(app, p, false);
  app.footer(std::string("Environment: ORCA_STATE, ORCA_DATABASE_URL and ORCA_WAREHOUSE, as for the pipelines.\n") +
             kStatuses);
  return run_command(invocation, app, [&] {
    const std::string command = app.get_subcommands().front()->get_name();
    if (command == "status") return command_status(invocation, p.look);
    if (command == "cancel") return command_cancel(invocation, p.look);
    return command_expire(invocation, p.expire);
  });
}

int pipeline_main(int argc, char** argv, ExpireTables expire) {
  run_if_task_worker();
  const bool serves = argc > 1 && std::find(argv + 1, argv + argc, std::string_view("serve")) != argv + argc;
  init_log(serves ? spdlog::level::info : spdlog::level::warn);
  const Invocation invocation = invocation_of(argc, argv, std::move(expire));
  try {
    return end_with(run_pipeline_command(invocation, registered_pipelines()));
  } catch (const Error& e) {  // a definition is wrong
    std::cerr << invocation.program << ": " << e.what() << "\n";
    return kFailed;
  }
}

int orca_main(int argc, char** argv, ExpireTables expire, const std::string& version) {
  init_log(spdlog::level::warn);
  return end_with(run_orca_command(invocation_of(argc, argv, std::move(expire)), version));
}

}  // namespace firn::orca
