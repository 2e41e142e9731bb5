// Works on a run until it ends, along with whoever else does.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "orca/pipeline.h"
#include "orca/state/group_commit.h"
#include "orca/tasks/tasks.h"

namespace firn::orca {

struct RunnerOptions {
  int parallel = 0;                     // attempts at once; 0: twice the processors, and four at least
  int64_t lease_ms = 30'000;            // how long after its last sign of life a runner's attempts are taken over
  int64_t look_ms = 1'000;              // how often it looks what other runners did
  int64_t stop_grace_ms = 10'000;       // how long attempts may take to end on a stop
  size_t result_bytes_max = 256 << 20;  // of what a step returns, as JSON; neither database takes a gigabyte
  const std::atomic<bool>* stop = nullptr;
  TaskOptions tasks;
};
// The environment's: ORCA_LEASE_SECONDS, ORCA_TASKS (threads, processes), ORCA_TASK_WORKERS. Throws config.
RunnerOptions runner_options();

// What of a run's steps the command line says.
struct RunParameters {
  // For the mapped steps with that type of key (StepDefinition::key_name), but those that have a step's before them.
  std::optional<std::vector<std::string>> keys;
  std::string key_name;
};
std::string parameters_to_json(const RunParameters& parameters);
RunParameters parameters_from_json(const std::string& text);

// A run's outcome, as its last turn saw it; running: others go on with it.
struct RunOutcome {
  RunStatus status = RunStatus::running;
  int64_t attempts = 0;  // ended here
};

// The code's version: ORCA_CODE, else the build id of this program.
std::string code_version();

// Throws config where the run was begun by code with other steps or types: it is not this program's to run.
void check_same_steps(const Pipeline& pipeline, const RunRow& run);

// Throws what check_same_steps throws. A run that ended is left as it is. On a
// stop, attempts are told to end, those that do not in time are given up, and the run is stopped, unless others work on
// it; the process should then end (abandoned_attempts()). Throws io where the state could not be had for a minute:
// attempts were then told to end, and their leases run out.
RunOutcome work_on_run(const std::shared_ptr<GroupCommit>& state, const Pipeline& pipeline, const RunRow& run,
                       const RunnerOptions& options);

// Threads of attempts that timed out or were given up, and still run. A process that has some ends by _exit.
int64_t abandoned_attempts();

// The error as it is stored: {"kind", "message", "causes": [message…]}.
std::string error_to_json(const std::exception_ptr& error);

}  // namespace firn::orca
