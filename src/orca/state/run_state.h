// The state of runs: what is to be done, who does it, what came of it. Every function runs in a transaction of its
// caller's (GroupCommit) unless it says otherwise, changes nothing more when it runs a second time with the same
// arguments, and takes the run's row first, so that what it reads of the run stays as it is.
//
// A step is cut into partitions: one a key of a mapped step, else one with the empty key. Each execution of a partition
// is an attempt, numbered within the run; whoever runs it is the partition's runner, and its lease is the runner's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "orca/ctx.h"
#include "orca/state/database.h"

namespace firn::orca {

// --- what a run does: fixed when it begins, and stored with it ---

// A step that another needs. aligned: only the partition of the same key; else all of it.
struct StepEdge {
  size_t step = 0;  // index in the plan
  bool aligned = false;
  bool operator==(const StepEdge&) const = default;
};

struct StepPlan {
  std::string name;
  std::vector<StepEdge> after;
  bool mapped = false;
  std::vector<std::string> limits;  // names of orca_limits that a running partition counts against
  std::string types;                // of its inputs and output, for the check on resume
};

// In an order in which every step stands behind those it needs.
struct RunPlan {
  std::vector<StepPlan> steps;
  std::vector<std::pair<std::string, int64_t>> limits;  // how many may run at once, over all runs
};
Json plan_to_json(const RunPlan& plan);
RunPlan plan_from_json(const Json& json);

enum class RunStatus : uint8_t { running, done, failed, stopped, cancelled };
std::string_view to_string(RunStatus status);
RunStatus run_status(std::string_view text);  // throws corrupt

struct RunRow {
  std::string id, pipeline;
  int64_t number = 0;
  std::string kind;  // run, backfill, scheduled
  RunStatus status = RunStatus::running;
  std::string code;
  std::string plan, parameters;  // JSON
  std::optional<int64_t> scheduled_ms;
  int64_t created_ms = 0;
  std::optional<int64_t> finished_ms;
};

struct NewRun {
  std::string id;  // a UUID of the caller's, so that a second try makes no second run
  std::string pipeline, kind, code, parameters;
  RunPlan plan;
  std::optional<int64_t> scheduled_ms;
};

// Numbers it after every run of the pipeline that began before (P14.1). nullopt: the scheduled time has its run
// already.
std::optional<RunRow> create_run(Database& database, const NewRun& run);

// nullopt: none. Number 0: the last one.
std::optional<RunRow> find_run(Database& database, const std::string& pipeline, int64_t number);
std::optional<RunRow> find_run_by_id(Database& database, const std::string& id);
// The last `count`, latest first; of every pipeline where `pipeline` is empty.
std::vector<RunRow> list_runs(Database& database, const std::string& pipeline, int64_t count);
std::vector<RunRow> list_open_runs(Database& database, const std::string& pipeline);  // status running, in order
// The last whose status is among `statuses`; nullopt: none.
std::optional<RunRow> find_last_run(Database& database, const std::string& pipeline,
                                    const std::vector<RunStatus>& statuses);
std::optional<int64_t> last_scheduled_ms(Database& database, const std::string& pipeline);

// --- runners ---

struct RunnerIdentity {
  std::string id;  // a UUID
  std::string run_id, code;
  std::string host, process;  // process: tells one process from any other that a machine ever had
};
std::string this_process();
// Whether `process` is known to have ended: it was of this machine (since its boot, in this PID namespace), and is
// gone.
bool is_dead_process(const std::string& process);

void register_runner(Database& database, const RunnerIdentity& runner, int64_t lease_ms);
// The rows by which runners keep to the plan's limits together. Every runner adds those of its own code, which may have
// limits that the run was begun without.
void add_limit_rows(Database& database, const RunPlan& plan);
// Ends the leases of the run's runners that are known to be dead, so that nobody waits for them.
void end_dead_leases(Database& database, const std::string& run_id);
// Ends the runner's own lease. Its partitions are taken over at once.
void unregister_runner(Database& database, const std::string& runner_id);
int64_t live_runners(Database& database, const std::string& run_id);

// --- the turn: what was done goes in, what to do comes out ---

struct Completion {
  // stopped: neither done nor failed, to be done again; it does not count as a try
  enum class Outcome : uint8_t { done, failed, retry, stopped };
  size_t step = 0;
  std::string partition;
  int64_t attempt = 0;
  Outcome outcome = Outcome::done;
  std::string result;       // JSON
  std::string error;        // JSON
  int64_t retry_in_ms = 0;  // retry
};

struct Claim {
  size_t step = 0;
  std::string partition;
  int64_t attempt = 0;
  int64_t tries = 0;                         // failed before, since the run began or was retried
  std::vector<std::string> aligned_results;  // JSON, one for each aligned edge in order
};

struct TurnRequest {
  std::string run_id, runner, code;
  std::vector<Completion> completions;
  int64_t claims_max = 0;
  std::optional<int64_t> renew_lease_ms;  // the runner's lease from now
  bool look_for_dead = false;             // take over what runners left whose lease ended
  std::optional<std::vector<std::pair<size_t, std::string>>>
      held;  // after an outage: what is claimed and not in here goes back
};

struct TurnAnswer {
  RunStatus status = RunStatus::running;
  std::vector<Claim> claims;
  std::vector<size_t> to_expand;    // mapped steps whose keys are wanted (expand_step)
  std::vector<Completion> refused;  // another attempt had taken over; nothing of them is kept
  int64_t taken_over = 0;
  std::optional<int64_t> next_due_ms;  // from now: when a partition that waits for its next try is due
};

TurnAnswer take_turn(Database& database, const RunPlan& plan, const TurnRequest& request);

// The keys of a mapped step, in order; the first call decides.
void expand_step(Database& database, const RunPlan& plan, const std::string& run_id, size_t step,
                 const std::vector<std::string>& keys);
// A mapped step whose keys cannot be known: it fails, and what needs it is skipped.
void fail_step(Database& database, const RunPlan& plan, const std::string& run_id, size_t step,
               const std::string& error);

// Results (JSON) of a step that is done, by partition, in the keys' order.
std::vector<std::pair<std::string, std::string>> step_results(Database& database, const std::string& run_id,
                                                              size_t step);

// --- a run as a whole ---

// A run that was stopped goes on. False: it has ended, or was cancelled.
bool reopen_run(Database& database, const std::string& run_id);
// Failed partitions are ready again, with all their tries, and what was skipped for them waits again. Only those of
// `step` and `partition` where given. Returns how many are ready again. A cancelled run stays as it is.
int64_t retry_run(Database& database, const RunPlan& plan, const std::string& run_id, std::optional<size_t> step,
                  const std::optional<std::string>& partition);
void stop_run(Database& database, const std::string& run_id, const std::string& runner);  // unless others work on it
// For good. Its runners notice at their next turn. False: it had ended.
bool cancel_run(Database& database, const std::string& run_id);

// Those of `keys` that some run has done in that mapped step; where they are very many, maybe others, too.
std::vector<std::string> keys_done(Database& database, const std::string& pipeline, const std::string& step_name,
                                   const std::vector<std::string>& keys);

// --- what an attempt keeps (AttemptRecord) ---

struct AttemptKey {
  std::string run_id;
  size_t step = 0;
  std::string partition;
  int64_t attempt = 0;
  std::string runner;
};
// All throw lease_lost where the attempt is not the partition's current one, or its lease is over.
void check_lease(Database& database, const AttemptKey& attempt);
Pin keep_pin(Database& database, const AttemptKey& attempt, const Pin& proposed);
Floor keep_floor(Database& database, const AttemptKey& attempt, const Floor& proposed);
std::vector<Pin> pins_of(Database& database, const AttemptKey& attempt);  // of the partition; no check

// Of runs that are open, and of failed ones that ended at most `retry_ms` ago: what expiry must leave.
std::vector<Pin> open_pins(Database& database, int64_t retry_ms);
std::vector<Floor> open_floors(Database& database, int64_t retry_ms);
std::optional<int64_t> oldest_open_start_ms(Database& database, int64_t retry_ms);  // of those runs; nullopt: none

// --- looking ---

struct StepView {
  std::string name, status;
  bool mapped = false;
  int64_t total = 0, done = 0, failed = 0, skipped = 0, running = 0, ready = 0, waiting = 0;
  std::optional<int64_t> started_ms, finished_ms;
  std::string result;  // JSON, of a step that is not mapped and is done
};
struct FailureView {
  std::string step, partition, error;  // error: JSON
  int64_t attempt = 0;
};
struct RunningView {
  std::string step, partition, runner, host;
  int64_t attempt = 0, started_ms = 0;
  bool lease_over = false;
};
struct RunView {
  RunRow run;
  std::vector<StepView> steps;
  std::vector<FailureView> failures;  // at most `failures_max`
  std::vector<RunningView> running;
  int64_t runners = 0;  // with a lease, and not known to be dead
  int64_t now_ms = 0;   // the database's
};
RunView view_run(Database& database, const RunRow& run, int64_t failures_max);

}  // namespace firn::orca
