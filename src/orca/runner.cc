#include "orca/runner.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <limits>
#include <map>
#include <thread>

#include <link.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault_point.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/parallel.h"
#include "base/uuid.h"

namespace firn::orca {
namespace {

using PartitionKey = std::pair<size_t, std::string>;

std::atomic<int64_t> abandoned{0};

// What the runner and an attempt's thread tell each other.
struct AttemptControl {
  std::atomic<bool> cancelled{false};
  std::atomic<int64_t> began_us{0};              // 0: it waits for a thread
  bool has_ended = false, is_abandoned = false;  // under the pool's mutex
  std::shared_ptr<Tasks> tasks;                  // this attempt's own
};

struct Finished {
  PartitionKey partition;
  int64_t attempt = 0;
  std::string result;
  std::exception_ptr error;  // null: done
};

struct FoundKeys {
  size_t step = 0;
  std::vector<std::string> keys;
  std::exception_ptr error;
};

// What threads tell the runner. They may outlive it.
struct Inbox {
  std::mutex mutex;
  std::condition_variable arrived;
  std::vector<Finished> finished;
  std::vector<FoundKeys> found_keys;
};

class StateRecord final : public AttemptRecord {
 public:
  StateRecord(std::shared_ptr<GroupCommit> state, AttemptKey key) : state_(std::move(state)), key_(std::move(key)) {}
  Pin pin(const Pin& proposed) override {
    Pin kept;
    state_->run("orca.pin", [&](Database& database) { kept = keep_pin(database, key_, proposed); });
    return kept;
  }
  Floor floor(const Floor& proposed) override {
    Floor kept;
    state_->run("orca.floor", [&](Database& database) { kept = keep_floor(database, key_, proposed); });
    return kept;
  }
  std::vector<Pin> pins() const override {
    std::vector<Pin> pins;
    state_->run("orca.pins", [&](Database& database) { pins = pins_of(database, key_); });
    return pins;
  }
  void check_lease() override {
    state_->run("orca.lease", [&](Database& database) { orca::check_lease(database, key_); });
  }

 private:
  std::shared_ptr<GroupCommit> state_;
  AttemptKey key_;
};

// One attempt, with all that its thread uses.
struct AttemptJob {
  std::shared_ptr<GroupCommit> state;
  std::shared_ptr<Inbox> inbox;
  std::shared_ptr<AttemptControl> control;
  StepDefinition::Call call;
  StepDatasets datasets;
  size_t result_bytes_max = 0;
  AttemptKey key;
  AttemptId id;
  StepDefinition::Inputs inputs;
};

void run_attempt(const AttemptJob& job) {
  Finished finished{.partition = {job.key.step, job.key.partition}, .attempt = job.key.attempt};
  try {
    StateRecord record(job.state, job.key);
    Ctx ctx(job.id, job.datasets, record, job.control->tasks.get(), &job.control->cancelled);
    finished.result = job.call(ctx, job.key.partition, job.inputs);
    if (finished.result.size() > job.result_bytes_max) {
      fail(ErrorKind::unsupported,
           "step {}: it returned {} bytes of JSON, and the state of runs keeps at most {} of a step's; write them to a "
           "table, and return what says where",
           job.id.step, finished.result.size(), job.result_bytes_max);
    }
    ctx.check_result();
  } catch (...) {  // the attempt ends here; the run tells
    finished.error = std::current_exception();
  }
  const std::lock_guard lock(job.inbox->mutex);
  job.inbox->finished.push_back(std::move(finished));
  job.inbox->arrived.notify_one();
}

// Threads that run attempts, and attempts that wait for one: a thread that is through takes the next by itself, so that
// short steps need not wait for the commit of those before. Outlives the runner where an attempt does.
struct AttemptPool {
  explicit AttemptPool(int threads) : threads_max(threads) {}
  const int threads_max;
  std::mutex mutex;
  std::condition_variable idle;
  std::deque<AttemptJob> waiting;
  int running = 0;
};

void run_attempts(const std::shared_ptr<AttemptPool>& pool, AttemptJob job) {
  for (;;) {
    const std::shared_ptr<AttemptControl> control = job.control;
    control->began_us = steady_us();
    run_attempt(job);
    job = {};  // what it holds of the state is let go before the thread counts as idle
    const std::lock_guard lock(pool->mutex);
    control->has_ended = true;
    if (control->is_abandoned) {  // its place was given to another
      --abandoned;
      return;
    }
    if (pool->waiting.empty()) {
      --pool->running;
      pool->idle.notify_all();
      return;
    }
    job = std::move(pool->waiting.front());
    pool->waiting.pop_front();
  }
}

void start_job(const std::shared_ptr<AttemptPool>& pool, AttemptJob job) {
  const std::lock_guard lock(pool->mutex);
  if (pool->running >= pool->threads_max) {
    pool->waiting.push_back(std::move(job));
    return;
  }
  std::thread([pool, job = std::move(job)]() mutable { run_attempts(pool, std::move(job)); }).detach();
  ++pool->running;
}

// The attempt is told to end, and nobody waits for it nor for its tasks.
void abandon(AttemptPool& pool, AttemptControl& control) {
  control.cancelled = true;
  AttemptJob dropped;
  std::unique_lock lock(pool.mutex);
  if (control.has_ended) return;
  const auto waits = std::find_if(pool.waiting.begin(), pool.waiting.end(),
                                  [&](const AttemptJob& job) { return job.control.get() == &control; });
  if (waits != pool.waiting.end()) {
    dropped = std::move(*waits);
    pool.waiting.erase(waits);
    return;
  }
  control.is_abandoned = true;
  ++abandoned;
  --pool.running;
  pool.idle.notify_all();
  lock.unlock();
  control.tasks->cancel();
}

ErrorKind kind_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    return e.kind();
  } catch (...) {  // any other counts as a step's own
    return ErrorKind::internal;
  }
}

// Errors that the next try meets again.
bool is_for_good(ErrorKind kind) {
  return kind == ErrorKind::step_not_deterministic || kind == ErrorKind::config || kind == ErrorKind::unsupported;
}

struct InFlight {
  int64_t attempt = 0;
  int64_t tries = 0;
  std::shared_ptr<AttemptControl> control;
};

// Where attempts are shorter than this, more are claimed than there are threads: a commit would take longer than they
// do.
constexpr int64_t kShortUs = 10'000;
constexpr int64_t kAheadPerThread = 3;

// Throws invalid_argument where a step cannot have these keys.
void check_keys(const std::string& step, std::vector<std::string> keys) {
  std::sort(keys.begin(), keys.end());
  const auto twice = std::adjacent_find(keys.begin(), keys.end());
  if (twice != keys.end()) fail(ErrorKind::invalid_argument, "step {}: the key {} comes twice", step, *twice);
  try {
    for (const std::string& key : keys) check_key(key);  // a run may have been begun with any
  } catch (const Error& e) {
    throw Error(e.kind(), "step " + step, e);
  }
}

class Runner {
 public:
  Runner(std::shared_ptr<GroupCommit> state, const Pipeline& pipeline, const RunRow& run, const RunnerOptions& options);
  ~Runner();
  RunOutcome work();

 private:
  bool stopping();
  void collect();
  void end_attempt(Finished finished);
  void end_overdue();
  void give_up(bool only_waiting);
  int64_t free_places() const;
  int64_t timeout_at_us(const PartitionKey& partition, const InFlight& attempt) const;
  bool turn(int64_t claims_max);
  void start(const Claim& claim);
  StepDefinition::Inputs inputs_of(const Claim& claim);
  void find_keys(size_t step);
  void keep_keys(const FoundKeys& found);
  void wait();
  void leave();

  std::shared_ptr<GroupCommit> state_;
  const Pipeline& pipeline_;
  RunRow run_;
  RunnerOptions options_;
  RunParameters parameters_;
  RunnerIdentity me_;
  std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
  std::shared_ptr<Tasks> tasks_;
  std::shared_ptr<AttemptPool> pool_;

  std::map<PartitionKey, InFlight> in_flight_;
  std::map<size_t, std::thread> key_finders_;
  std::map<size_t, std::shared_ptr<const std::string>> collected_;  // results of whole steps, as a JSON value, by step
  std::vector<Completion> completions_;
  RunOutcome outcome_;
  int64_t next_look_us_ = 0, next_renewal_us_ = 0;
  std::optional<int64_t> due_us_;
  int64_t attempt_us_ = kShortUs;  // how long attempts took lately
  int64_t attempts_at_look_ = 0;
  std::optional<int64_t> stop_by_us_;
};

Runner::Runner(std::shared_ptr<GroupCommit> state, const Pipeline& pipeline, const RunRow& run,
               const RunnerOptions& options)
    : state_(std::move(state)),
      pipeline_(pipeline),
      run_(run),
      options_(options),
      parameters_(parameters_from_json(run.parameters)) {
  if (options_.parallel <= 0) options_.parallel = std::max(4, 2 * thread_count(0));
  char host[256] = {};
  gethostname(host, sizeof(host) - 1);
  me_ = {.id = uuid_v4(), .run_id = run.id, .code = code_version(), .host = host, .process = this_process()};
  tasks_ = std::make_shared<Tasks>(options_.tasks);
  pool_ = std::make_shared<AttemptPool>(options_.parallel);
}

Runner::~Runner() {
  for (auto& [partition, attempt] : in_flight_) abandon(*pool_, *attempt.control);
  for (auto& [step, thread] : key_finders_) {
    thread.detach();
    ++abandoned;  // it may be in the pipeline's code for as long as the process lives
  }
}

bool Runner::stopping() {
  const bool asked = options_.stop != nullptr && *options_.stop;
  if (!asked && outcome_.status != RunStatus::cancelled) return false;
  if (!stop_by_us_) {
    stop_by_us_ = steady_us() + options_.stop_grace_ms * 1'000;
    for (auto& [partition, attempt] : in_flight_) attempt.control->cancelled = true;
  }
  return true;
}

RunOutcome Runner::work() {
  state_->run("orca.runner", [&](Database& database) {
    register_runner(database, me_, options_.lease_ms);
    add_limit_rows(database, pipeline_.plan);  // the code that began the run may have had others
  });
  next_renewal_us_ = steady_us() + options_.lease_ms * 1'000 / 3;
  for (;;) {
    collect();
    end_overdue();
    const bool stop = stopping();
    if (stop) give_up(steady_us() < *stop_by_us_);
    const int64_t free = stop ? 0 : free_places();
    const int64_t now_us = steady_us();
    const bool is_due = due_us_ && now_us >= *due_us_ && free > 0;
    if (!completions_.empty() || now_us >= next_look_us_ || now_us >= next_renewal_us_ || is_due) {
      if (!turn(free)) break;
    }
    if (stop && in_flight_.empty()) break;
    wait();
  }
  // The run has ended by others' hands: what still runs here was taken over.
  for (auto& [partition, attempt] : in_flight_) abandon(*pool_, *attempt.control);
  in_flight_.clear();
  leave();
  return outcome_;
}

// What threads have told since the last look.
void Runner::collect() {
  std::vector<Finished> finished;
  std::vector<FoundKeys> found;
  {
    const std::lock_guard lock(inbox_->mutex);
    finished.swap(inbox_->finished);
    found.swap(inbox_->found_keys);
  }
  for (Finished& one : finished) end_attempt(std::move(one));
  for (const FoundKeys& one : found) {
    key_finders_.at(one.step).join();
    key_finders_.erase(one.step);
    keep_keys(one);
  }
}

void Runner::end_attempt(Finished finished) {
  const auto found = in_flight_.find(finished.partition);
  if (found == in_flight_.end() || found->second.attempt != finished.attempt) return;  // it was given up
  attempt_us_ = (3 * attempt_us_ + steady_us() - found->second.control->began_us) / 4;
  const StepDefinition& step = *pipeline_.order[finished.partition.first];
  Completion completion{
      .step = finished.partition.first, .partition = finished.partition.second, .attempt = finished.attempt};
  if (!finished.error) {
    completion.result = std::move(finished.result);
  } else {
    const ErrorKind kind = kind_of(finished.error);
    completion.error = error_to_json(finished.error);
    const int64_t tries = found->second.tries + 1;
    if (kind == ErrorKind::lease_lost || (kind == ErrorKind::cancelled && found->second.control->cancelled)) {
      completion.outcome = Completion::Outcome::stopped;
    } else if (is_for_good(kind) || tries > step.retry.retries) {
      completion.outcome = Completion::Outcome::failed;
    } else {
      completion.outcome = Completion::Outcome::retry;
      completion.retry_in_ms = retry_wait_ms(step.retry, tries, static_cast<double>(random_id() % 1'000) / 1'000);
    }
    spdlog::warn("{} run {} step {} {} attempt {}: {}{}", pipeline_.name, run_.number, step.name, completion.partition,
                 completion.attempt, Json::parse(completion.error)["message"].get<std::string>(),
                 completion.outcome == Completion::Outcome::retry
                     ? fmt::format("; next try in {:.1f} s", static_cast<double>(completion.retry_in_ms) / 1'000)
                     : "");
  }
  in_flight_.erase(found);
  completions_.push_back(std::move(completion));
  ++outcome_.attempts;
}

// Attempts whose time is over: their threads go on, but nobody listens (P14.2).
void Runner::end_overdue() {
  const int64_t now_us = steady_us();
  for (auto at = in_flight_.begin(); at != in_flight_.end();) {
    InFlight& attempt = at->second;
    if (now_us < timeout_at_us(at->first, attempt)) {
      ++at;
      continue;
    }
    abandon(*pool_, *attempt.control);
    const StepDefinition& step = *pipeline_.order[at->first.first];
    Completion completion{.step = at->first.first, .partition = at->first.second, .attempt = attempt.attempt};
    completion.error = error_to_json(std::make_exception_ptr(
        Error(ErrorKind::cancelled,
              fmt::format("step {}: it took longer than its timeout of {} ms", step.name, step.timeout_ms))));
    const int64_t tries = attempt.tries + 1;
    completion.outcome = tries > step.retry.retries ? Completion::Outcome::failed : Completion::Outcome::retry;
    completion.retry_in_ms = retry_wait_ms(step.retry, tries, static_cast<double>(random_id() % 1'000) / 1'000);
    completions_.push_back(std::move(completion));
    ++outcome_.attempts;
    at = in_flight_.erase(at);
  }
}

int64_t Runner::timeout_at_us(const PartitionKey& partition, const InFlight& attempt) const {
  const int64_t timeout_ms = pipeline_.order[partition.first]->timeout_ms, began_us = attempt.control->began_us;
  if (timeout_ms == 0 || began_us == 0) return std::numeric_limits<int64_t>::max();
  return began_us + timeout_ms * 1'000;
}

int64_t Runner::free_places() const {
  const int64_t ahead = attempt_us_ < kShortUs ? kAheadPerThread * options_.parallel : 0;
  return std::max<int64_t>(0,
                           options_.parallel + ahead - static_cast<int64_t>(in_flight_.size() + key_finders_.size()));
}

// Leaves attempts to whoever claims them next: those that wait for a thread, or all.
void Runner::give_up(bool only_waiting) {
  for (auto at = in_flight_.begin(); at != in_flight_.end();) {
    InFlight& attempt = at->second;
    if (only_waiting && attempt.control->began_us != 0) {
      ++at;
      continue;
    }
    abandon(*pool_, *attempt.control);
    completions_.push_back({.step = at->first.first,
                            .partition = at->first.second,
                            .attempt = attempt.attempt,
                            .outcome = Completion::Outcome::stopped,
                            .error = error_to_json(std::make_exception_ptr(
                                Error(ErrorKind::cancelled, "its runner did not come to it, or was stopped")))});
    at = in_flight_.erase(at);
  }
}

// False: there is nothing more to do here.
bool Runner::turn(int64_t claims_max) {
  const int64_t now_us = steady_us();
  TurnRequest request{.run_id = run_.id, .runner = me_.id, .code = me_.code, .claims_max = claims_max};
  if (now_us >= next_renewal_us_) {
    request.renew_lease_ms = options_.lease_ms;
    next_renewal_us_ = now_us + options_.lease_ms * 1'000 / 3;
  }
  if (now_us >= next_look_us_) {
    // What was claimed ahead, and now waits behind long attempts, others may do.
    if (outcome_.attempts == attempts_at_look_) give_up(true);
    attempts_at_look_ = outcome_.attempts;
    request.look_for_dead = true;
    next_look_us_ = now_us + options_.look_ms * 1'000;
  }
  request.completions.swap(completions_);
  TurnAnswer answer;
  int calls = 0;
  state_->run("orca.turn", [&](Database& database) {
    if (calls++ > 0) {  // what an earlier call claimed may be durable, and its answer is lost
      request.renew_lease_ms = options_.lease_ms;
      request.held.emplace();
      for (const auto& [partition, attempt] : in_flight_) request.held->push_back(partition);
      for (const Completion& one : request.completions) request.held->emplace_back(one.step, one.partition);
    }
    answer = take_turn(database, pipeline_.plan, request);
  });
  for (const Completion& one : answer.refused) {
    spdlog::warn("{} run {} step {} {}: attempt {} was taken over by another runner; what it returned is ignored",
                 pipeline_.name, run_.number, pipeline_.order[one.step]->name, one.partition, one.attempt);
  }
  if (answer.taken_over > 0) {
    spdlog::warn("{} run {}: took over {} attempts of runners that died", pipeline_.name, run_.number,
                 answer.taken_over);
  }
  outcome_.status = answer.status;
  for (const Claim& claim : answer.claims) start(claim);
  for (const size_t step : answer.to_expand) {
    if (!key_finders_.contains(step)) find_keys(step);
  }
  due_us_.reset();
  if (answer.next_due_ms) due_us_ = steady_us() + *answer.next_due_ms * 1'000;
  return answer.status == RunStatus::running || (answer.status == RunStatus::cancelled && !in_flight_.empty());
}

// What each parameter is given, as JSON.
StepDefinition::Inputs Runner::inputs_of(const Claim& claim) {
  const StepPlan& plan = pipeline_.plan.steps[claim.step];
  StepDefinition::Inputs by_edge;
  size_t aligned = 0;
  for (const StepEdge& edge : plan.after) {
    if (edge.aligned) {
      by_edge.push_back(std::make_shared<const std::string>(claim.aligned_results.at(aligned++)));
      continue;
    }
    const auto known = collected_.find(edge.step);
    if (known != collected_.end()) {
      by_edge.push_back(known->second);
      continue;
    }
    std::vector<std::pair<std::string, std::string>> results;
    state_->run("orca.inputs", [&](Database& database) { results = step_results(database, run_.id, edge.step); });
    std::string json;
    if (!pipeline_.order[edge.step]->mapped) {
      json = results.at(0).second;
    } else {
      json = "[";
      for (const auto& [partition, result] : results) json += (json.size() > 1 ? "," : "") + result;
      json += "]";
    }
    const auto shared = std::make_shared<const std::string>(std::move(json));
    by_edge.push_back(collected_.emplace(edge.step, shared).first->second);
  }
  StepDefinition::Inputs inputs;
  for (const size_t edge : pipeline_.inputs[claim.step]) inputs.push_back(by_edge.at(edge));
  return inputs;
}

void Runner::start(const Claim& claim) {
  const StepDefinition& step = *pipeline_.order[claim.step];
  AttemptJob job{.state = state_,
                 .inbox = inbox_,
                 .control = std::make_shared<AttemptControl>(),
                 .call = step.call,
                 .datasets = step.datasets,
                 .result_bytes_max = options_.result_bytes_max};
  job.control->tasks = tasks_->share();
  job.key = {
      .run_id = run_.id, .step = claim.step, .partition = claim.partition, .attempt = claim.attempt, .runner = me_.id};
  job.id = {.pipeline = pipeline_.name,
            .run = run_.id,
            .run_number = run_.number,
            .step = step.name,
            .partition = claim.partition,
            .attempt = claim.attempt,
            .code = me_.code,
            .run_started_ms = run_.created_ms};
  job.inputs = inputs_of(claim);
  fault_point("orca.attempt.start");
  in_flight_.insert_or_assign({claim.step, claim.partition},
                              InFlight{.attempt = claim.attempt, .tries = claim.tries, .control = job.control});
  start_job(pool_, std::move(job));
}

// The keys of a step whose turn has come: on a thread of its own, since a function of the pipeline may take its time.
void Runner::find_keys(size_t at) {
  const StepDefinition& step = *pipeline_.order[at];
  const auto same_step = [&](const auto& need) { return need.is_keys; };
  const auto source = std::find_if(step.needs.begin(), step.needs.end(), same_step);
  std::function<std::vector<std::string>()> find;
  if (source != step.needs.end()) {
    find = [keys = step.keys_of_json, state = state_, run = run_.id, name = source->step, &plan = pipeline_.plan] {
      size_t index = 0;
      while (plan.steps[index].name != name) ++index;
      std::vector<std::pair<std::string, std::string>> results;
      state->run("orca.inputs", [&](Database& database) { results = step_results(database, run, index); });
      return keys(results.at(0).second);
    };
  } else if (step.keys && !(parameters_.keys && parameters_.key_name == step.key_name)) {
    const KeysRequest request{.run_number = run_.number,
                              .started_ms = run_.created_ms,
                              .scheduled_ms = run_.scheduled_ms,
                              .keys = parameters_.keys.value_or(std::vector<std::string>())};
    find = [keys = step.keys, request] { return keys(request); };
  } else {
    find = [keys = parameters_.keys, name = step.name] {
      if (!keys) fail(ErrorKind::config, "step {} needs keys: run it with --key, or --from and --to", name);
      return *keys;
    };
  }
  key_finders_.emplace(at, std::thread([find = std::move(find), inbox = inbox_, at] {
                         FoundKeys found{.step = at};
                         try {
                           found.keys = find();
                         } catch (...) {  // the step fails with it
                           found.error = std::current_exception();
                         }
                         const std::lock_guard lock(inbox->mutex);
                         inbox->found_keys.push_back(std::move(found));
                         inbox->arrived.notify_one();
                       }));
}

void Runner::keep_keys(const FoundKeys& found) {
  std::exception_ptr error = found.error;
  try {
    if (!error) {
      check_keys(pipeline_.order[found.step]->name, found.keys);
      state_->run("orca.keys",
                  [&](Database& database) { expand_step(database, pipeline_.plan, run_.id, found.step, found.keys); });
    }
  } catch (const Error& e) {
    // What the database does not take, it takes from no runner: the step fails, and the run can end.
    if (e.kind() != ErrorKind::invalid_argument && e.kind() != ErrorKind::internal) throw;
    error = std::current_exception();
  }
  if (error) {
    state_->run("orca.keys", [&](Database& database) {
      fail_step(database, pipeline_.plan, run_.id, found.step, error_to_json(error));
    });
  }
  next_look_us_ = 0;
}

void Runner::wait() {
  int64_t until_us = std::min(next_look_us_, next_renewal_us_);
  if (due_us_) until_us = std::min(until_us, *due_us_);
  for (const auto& [partition, attempt] : in_flight_) {
    until_us = std::min(until_us, timeout_at_us(partition, attempt));
  }
  if (options_.stop != nullptr) until_us = std::min(until_us, steady_us() + 100'000);  // a signal wakes nobody
  std::unique_lock lock(inbox_->mutex);
  inbox_->arrived.wait_for(lock, std::chrono::microseconds(std::max<int64_t>(0, until_us - steady_us())),
                           [&] { return !inbox_->finished.empty() || !inbox_->found_keys.empty(); });
  // Others that end in this moment go into the same turn, and so into the same commit.
  if (inbox_->finished.empty()) return;
  inbox_->arrived.wait_for(lock, std::chrono::microseconds(500),
                           [&] { return inbox_->finished.size() >= in_flight_.size(); });
}

void Runner::leave() {
  {  // threads that told their last result a moment ago
    std::unique_lock lock(pool_->mutex);
    pool_->idle.wait(lock, [&] { return pool_->running == 0; });
  }
  state_->run("orca.leave", [&](Database& database) {
    if (stop_by_us_) stop_run(database, run_.id, me_.id);
    unregister_runner(database, me_.id);
    if (const std::optional<RunRow> now = find_run_by_id(database, run_.id)) outcome_.status = now->status;
  });
}

int build_id_of(dl_phdr_info* info, size_t, void* result) {
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    if (header.p_type != PT_NOTE) continue;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the loader gives addresses as integers
    const char* at = reinterpret_cast<const char*>(info->dlpi_addr + header.p_vaddr);
    const char* end = at + header.p_memsz;
    while (at + sizeof(ElfW(Nhdr)) <= end) {
      const auto* note = reinterpret_cast<const ElfW(Nhdr)*>(at);
      const char* name = at + sizeof(*note);
      const char* bytes = name + ((note->n_namesz + 3) & ~3U);
      if (note->n_type == NT_GNU_BUILD_ID && std::string_view(name, note->n_namesz) == std::string_view("GNU\0", 4)) {
        *static_cast<std::string*>(result) = to_hex(std::string_view(bytes, note->n_descsz));
        return 1;
      }
      at = bytes + ((note->n_descsz + 3) & ~3U);
    }
  }
  return 1;  // the program itself comes first; its libraries do not matter
}

}  // namespace

std::string code_version() {
  const char* given = std::getenv("ORCA_CODE");
  if (given != nullptr && *given != '\0') return given;
  static const std::string built = [] {
    std::string id;
    dl_iterate_phdr(build_id_of, &id);
    return id.substr(0, 16);
  }();
  return built;
}

RunnerOptions runner_options() {
  RunnerOptions options;
  const auto number = [](const char* name, int64_t most, int64_t fallback) {
    const char* text = std::getenv(name);
    if (text == nullptr || *text == '\0') return fallback;
    char* end = nullptr;
    const long long value = std::strtoll(text, &end, 10);
    if (*end != '\0' || value < 1 || value > most)
      fail(ErrorKind::config, "{}: \"{}\" is no whole number from 1 to {}", name, text, most);
    return static_cast<int64_t>(value);
  };
  options.lease_ms = number("ORCA_LEASE_SECONDS", 86'400, options.lease_ms / 1'000) * 1'000;
  options.tasks.workers = static_cast<int>(number("ORCA_TASK_WORKERS", 1'024, 0));
  const char* tasks = std::getenv("ORCA_TASKS");
  if (tasks != nullptr && *tasks != '\0') {
    const std::string_view text = tasks;
    if (text != "threads" && text != "processes")
      fail(ErrorKind::config, "ORCA_TASKS: \"{}\" is neither threads nor processes", text);
    options.tasks.engine = text == "threads" ? TaskEngine::threads : TaskEngine::processes;
  }
  return options;
}

std::string parameters_to_json(const RunParameters& parameters) {
  Json json = Json::object();
  if (parameters.keys) {
    json["key"] = parameters.key_name;
    json["keys"] = *parameters.keys;
  }
  return json.dump();
}

RunParameters parameters_from_json(const std::string& text) {
  const Json json = parse_json(text, "a run's parameters");
  RunParameters parameters;
  if (json.contains("keys")) {
    parameters.keys = value_from_json<std::vector<std::string>>(json["keys"], "a run's keys");
    parameters.key_name = get_string(json, "key", "a run's parameters");
  }
  return parameters;
}

void check_same_steps(const Pipeline& pipeline, const RunRow& run) {
  const RunPlan begun = plan_from_json(parse_json(run.plan, "the plan of a run"));
  const RunPlan& ours = pipeline.plan;
  const bool same =
      begun.steps.size() == ours.steps.size() &&
      std::equal(begun.steps.begin(), begun.steps.end(), ours.steps.begin(), [](const StepPlan& a, const StepPlan& b) {
        return a.name == b.name && a.mapped == b.mapped && a.after == b.after && a.types == b.types;
      });
  if (!same) {
    fail(ErrorKind::config,
         "{} run {} was begun by other code ({}): its steps, their order or their types are not those of this program "
         "({}); "
         "end it with that code, or cancel it and begin another",
         pipeline.name, run.number, run.code, code_version());
  }
}

RunOutcome work_on_run(const std::shared_ptr<GroupCommit>& state, const Pipeline& pipeline, const RunRow& run,
                       const RunnerOptions& options) {
  check_same_steps(pipeline, run);
  if (run.status != RunStatus::running) return {.status = run.status};
  return Runner(state, pipeline, run, options).work();
}

int64_t abandoned_attempts() { return abandoned; }

namespace {

void add_causes(const std::exception& error, Json& causes) {
  try {
    std::rethrow_if_nested(error);
  } catch (const std::exception& cause) {
    causes.push_back(cause.what());
    add_causes(cause, causes);
  } catch (...) {  // it has no words
    causes.push_back("an exception of unknown type");
  }
}

}  // namespace

std::string error_to_json(const std::exception_ptr& error) {
  Json json = Json::object();
  Json causes = Json::array();
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    json = {{"kind", to_string(e.kind())}, {"message", e.what()}};
    add_causes(e, causes);
  } catch (const std::exception& e) {
    json = {{"kind", type_title(typeid(e))}, {"message", e.what()}};
    add_causes(e, causes);
  } catch (...) {  // stored as well as can be
    json = {{"kind", "unknown"}, {"message", "an exception of unknown type"}};
  }
  if (!causes.empty()) json["causes"] = causes;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace firn::orca
