// A runner's turn: what it did is written down, what follows from it becomes ready, and new work is claimed, all in one
// transaction.
#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "base/error.h"
#include "orca/state/run_rows.h"

namespace firn::orca {
namespace {

// A partition whose runner dies this often in a row is rather what kills it.
constexpr int64_t kLossesMax = 8;

int64_t as_int(size_t step) { return static_cast<int64_t>(step); }

const char* partition_status(Completion::Outcome outcome) {
  switch (outcome) {
    case Completion::Outcome::done:
      return "done";
    case Completion::Outcome::failed:
      return "failed";
    case Completion::Outcome::retry:
    case Completion::Outcome::stopped:
      return "ready";
  }
  return "";
}

const char* attempt_status(Completion::Outcome outcome) {
  switch (outcome) {
    case Completion::Outcome::done:
      return "done";
    case Completion::Outcome::failed:
    case Completion::Outcome::retry:
      return "failed";
    case Completion::Outcome::stopped:
      return "stopped";
  }
  return "";
}

void release_holds(Database& database, const RunPlan& plan, const std::string& run_id,
                   const std::vector<std::pair<size_t, std::string>>& partitions) {
  std::vector<SqlValues> values;
  for (const auto& [step, partition] : partitions) {
    if (!plan.steps[step].limits.empty()) values.push_back({run_id, as_int(step), partition});
  }
  database.run_each("delete from orca_holds where run_id = ?1 and step = ?2 and partition_key = ?3", values);
}

// Writes down how attempts ended, counting and waking what follows. Returns whether a step may be through.
bool complete(Database& database, const RunPlan& plan, const TurnRequest& request, TurnAnswer& answer) {
  if (request.completions.empty()) return false;
  std::vector<SqlValues> values;
  for (const Completion& one : request.completions) {
    const bool is_try = one.outcome == Completion::Outcome::failed || one.outcome == Completion::Outcome::retry;
    const bool is_done = one.outcome == Completion::Outcome::done;
    values.push_back({partition_status(one.outcome), is_done ? SqlValue(one.result) : SqlValue(std::nullopt),
                      one.error.empty() ? SqlValue(std::nullopt) : SqlValue(one.error), one.retry_in_ms, is_try ? 1 : 0,
                      request.run_id, as_int(one.step), one.partition, one.attempt, request.runner});
  }
  const std::vector<SqlResult> updated = database.run_each(
      "update orca_partitions set status = ?1, result = ?2, error = ?3, not_before_ms = orca_now() + ?4, tries = tries "
      "+ ?5,"
      " losses = 0, finished_ms = orca_now() where run_id = ?6 and step = ?7 and partition_key = ?8 and attempt = ?9 "
      "and"
      " runner = ?10 and status = 'running'",
      values);

  std::vector<SqlValues> attempts;
  std::vector<std::pair<size_t, std::string>> ended;
  std::map<size_t, std::vector<std::string>> done, failed;
  for (size_t i = 0; i < request.completions.size(); ++i) {
    const Completion& one = request.completions[i];
    if (updated[i].changed == 0) {
      // Refused, unless this turn became durable before and its answer was lost.
      const SqlResult before = database.run(
          "select status from orca_attempts where run_id = ?1 and step = ?2 and partition_key = ?3 and attempt = ?4 "
          "and runner = ?5",
          {request.run_id, as_int(one.step), one.partition, one.attempt, request.runner});
      if (before.rows.empty() || before.rows.front().text(0) == "lost") answer.refused.push_back(one);
      continue;
    }
    attempts.push_back({attempt_status(one.outcome), request.runner, request.code,
                        one.error.empty() ? SqlValue(std::nullopt) : SqlValue(one.error), request.run_id,
                        as_int(one.step), one.partition});
    ended.emplace_back(one.step, one.partition);
    if (one.outcome == Completion::Outcome::done) done[one.step].push_back(one.partition);
    if (one.outcome == Completion::Outcome::failed) failed[one.step].push_back(one.partition);
  }
  database.run_each(
      "insert into orca_attempts (run_id, step, partition_key, attempt, status, runner, code, started_ms, finished_ms, "
      "error)"
      " select run_id, step, partition_key, attempt, cast(?1 as text), cast(?2 as text), cast(?3 as text), started_ms,"
      " orca_now(), cast(?4 as text) from orca_partitions where run_id = ?5 and step = ?6 and partition_key = ?7",
      attempts);
  release_holds(database, plan, request.run_id, ended);
  bool is_through = false;
  for (const auto& [step, partitions] : done) {
    is_through |= count_ended(database, plan, request.run_id, step, partitions, false);
  }
  for (const auto& [step, partitions] : failed) {
    is_through |= count_ended(database, plan, request.run_id, step, partitions, true);
  }
  return is_through;
}

Json lost_error() {
  return {
      {"kind", "lease_lost"},
      {"message", fmt::format("its runner died, {} times in a row: it seems to be what ends the process", kLossesMax)}};
}

void take_over(Database& database, const RunPlan& plan, const TurnRequest& request, TurnAnswer& answer) {
  const SqlResult lost = database.run(
      "update orca_partitions set status = 'ready', losses = losses + 1, not_before_ms = 0 where run_id = ?1 and"
      " status = 'running' and runner in (select id from orca_runners where run_id = ?1 and lease_until_ms <= "
      "orca_now())"
      " returning step, partition_key, runner, losses",
      {request.run_id});
  std::vector<SqlValues> attempts;
  std::vector<std::pair<size_t, std::string>> ended;
  std::map<size_t, std::vector<std::string>> failed;
  for (const SqlRow& row : lost.rows) {
    const size_t step = static_cast<size_t>(row.integer(0));
    ended.emplace_back(step, row.text(1));
    attempts.push_back({row.text(2), request.code, request.run_id, row.integer(0), row.text(1)});
    if (row.integer(3) >= kLossesMax) failed[step].push_back(row.text(1));
  }
  answer.taken_over = static_cast<int64_t>(lost.rows.size());
  if (lost.rows.empty()) return;
  database.run_each(
      "insert into orca_attempts (run_id, step, partition_key, attempt, status, runner, code, started_ms, finished_ms)"
      " select run_id, step, partition_key, attempt, 'lost', cast(?1 as text), cast(?2 as text), started_ms, orca_now()"
      " from orca_partitions where run_id = ?3 and step = ?4 and partition_key = ?5",
      attempts);
  release_holds(database, plan, request.run_id, ended);
  for (const auto& [step, partitions] : failed) {
    std::vector<SqlValues> values;
    for (const std::string& partition : partitions) {
      values.push_back({lost_error().dump(), request.run_id, as_int(step), partition});
    }
    database.run_each(
        "update orca_partitions set status = 'failed', error = ?1, finished_ms = orca_now() where run_id = ?2 and step "
        "= ?3"
        " and partition_key = ?4",
        values);
    count_ended(database, plan, request.run_id, step, partitions, true);
  }
}

// After an outage: a claim whose answer was lost is nobody's.
void release_unknown(Database& database, const RunPlan& plan, const TurnRequest& request) {
  const std::set<std::pair<size_t, std::string>> held(request.held->begin(), request.held->end());
  std::vector<std::pair<size_t, std::string>> unknown;
  std::vector<SqlValues> values;
  const SqlResult mine = database.run(
      "select step, partition_key from orca_partitions where run_id = ?1 and status = 'running' and runner = ?2",
      {request.run_id, request.runner});
  for (const SqlRow& row : mine.rows) {
    const size_t step = static_cast<size_t>(row.integer(0));
    if (held.contains({step, row.text(1)})) continue;
    unknown.emplace_back(step, row.text(1));
    values.push_back({request.run_id, as_int(step), row.text(1)});
  }
  database.run_each(
      "update orca_partitions set status = 'ready' where run_id = ?1 and step = ?2 and partition_key = ?3", values);
  release_holds(database, plan, request.run_id, unknown);
}

const std::string kClaim =
    "update orca_partitions set status = 'running', attempt = attempt + 1, runner = ?1, started_ms = orca_now(), "
    "finished_ms ="
    " null where (run_id, step, partition_key) in (select run_id, step, partition_key from orca_partitions where "
    "run_id = ?2"
    " and status = 'ready' and not_before_ms <= orca_now() and step >= ?3 and step <= ?4 order by step desc, seq limit "
    "?5"
    " for update skip locked) returning step, partition_key, attempt, tries, seq";

// Of the steps `from` to `to`, those farthest down first: a key is finished before the next is begun.
void claim_some(Database& database, const TurnRequest& request, int64_t from, int64_t to, int64_t count,
                std::vector<std::pair<int64_t, Claim>>& claims) {
  const SqlResult claimed = database.run(kClaim, {request.runner, request.run_id, from, to, count});
  for (const SqlRow& row : claimed.rows) {
    claims.emplace_back(row.integer(4), Claim{.step = static_cast<size_t>(row.integer(0)),
                                              .partition = row.text(1),
                                              .attempt = row.integer(2),
                                              .tries = row.integer(3)});
  }
}

void claim_within_limits(Database& database, const RunPlan& plan, const TurnRequest& request,
                         std::vector<std::pair<int64_t, Claim>>& claims) {
  std::map<std::string, int64_t> free(plan.limits.begin(), plan.limits.end());
  std::vector<SqlValues> names;
  for (const auto& [name, count] : free)
    names.push_back({name});  // in order, so that two runs cannot wait for each other
  database.run_each("select name from orca_limits where name = ?1 for update", names);
  const SqlResult held = database.run(
      "select h.name, count(*) from orca_holds as h join orca_runners as r on r.id = h.runner where r.lease_until_ms >"
      " orca_now() group by h.name");
  for (const SqlRow& row : held.rows) {
    if (const auto limit = free.find(row.text(0)); limit != free.end()) limit->second -= row.integer(1);
  }
  const SqlResult ready = database.run(
      "select step, count(*) from orca_partitions where run_id = ?1 and status = 'ready' and not_before_ms <= "
      "orca_now()"
      " group by step order by step desc",
      {request.run_id});
  for (const SqlRow& row : ready.rows) {
    const StepPlan& step = plan.steps.at(static_cast<size_t>(row.integer(0)));
    int64_t count = std::min(row.integer(1), request.claims_max - static_cast<int64_t>(claims.size()));
    for (const std::string& name : step.limits) count = std::min(count, free[name]);
    if (count <= 0) continue;
    const size_t before = claims.size();
    claim_some(database, request, row.integer(0), row.integer(0), count, claims);
    std::vector<SqlValues> holds;
    for (const std::string& name : step.limits) {
      free[name] -= static_cast<int64_t>(claims.size() - before);
      for (size_t i = before; i < claims.size(); ++i) {
        holds.push_back({name, request.run_id, row.integer(0), claims[i].second.partition, request.runner});
      }
    }
    database.run_each(
        "insert into orca_holds (name, run_id, step, partition_key, runner) values (?1, ?2, ?3, ?4, ?5)"
        " on conflict (name, run_id, step, partition_key) do update set runner = excluded.runner",
        holds);
  }
}

void add_aligned_results(Database& database, const RunPlan& plan, const std::string& run_id,
                         std::vector<Claim>& claims) {
  std::vector<SqlValues> values;
  std::vector<Claim*> whose;
  for (Claim& claim : claims) {
    for (const StepEdge& edge : plan.steps[claim.step].after) {
      if (!edge.aligned) continue;
      values.push_back({run_id, as_int(edge.step), claim.partition});
      whose.push_back(&claim);
    }
  }
  const std::vector<SqlResult> results = database.run_each(
      "select result from orca_partitions where run_id = ?1 and step = ?2 and partition_key = ?3", values);
  for (size_t i = 0; i < results.size(); ++i) whose[i]->aligned_results.push_back(results[i].rows.at(0).text(0));
}

void claim(Database& database, const RunPlan& plan, const TurnRequest& request, TurnAnswer& answer) {
  std::vector<std::pair<int64_t, Claim>> claims;
  if (plan.limits.empty()) {
    claim_some(database, request, 0, as_int(plan.steps.size()), request.claims_max, claims);
  } else {
    claim_within_limits(database, plan, request, claims);
  }
  std::stable_sort(claims.begin(), claims.end(), [](const auto& a, const auto& b) {
    return std::pair(b.second.step, a.first) < std::pair(a.second.step, b.first);
  });
  for (auto& [seq, one] : claims) answer.claims.push_back(std::move(one));
  add_aligned_results(database, plan, request.run_id, answer.claims);
  if (static_cast<int64_t>(answer.claims.size()) < request.claims_max) {
    const SqlResult due = database.run(
        "select min(not_before_ms) - orca_now() from orca_partitions where run_id = ?1 and status = 'ready'",
        {request.run_id});
    const std::optional<int64_t> in_ms = due.rows.at(0).maybe_integer(0);
    if (in_ms && *in_ms > 0) answer.next_due_ms = in_ms;
  }
}

// --- the steps ---

struct StepRow {
  std::string status;
  int64_t total = 0, remaining = 0, failed = 0;
  bool has_ended() const { return status == "done" || status == "failed" || status == "skipped"; }
  bool was_opened() const { return status == "open" || status == "done" || (status == "failed" && total > 0); }
};

void set_step(Database& database, const std::string& run_id, size_t step, const StepRow& row) {
  database.run(
      "update orca_steps set status = ?1, total = ?2, remaining = ?3, failed = ?4 where run_id = ?5 and step = ?6",
      {row.status, row.total, row.remaining, row.failed, run_id, as_int(step)});
}

constexpr const char* kInsertPartition =
    "insert into orca_partitions (run_id, step, partition_key, seq, status, waits, attempt, tries, losses, "
    "not_before_ms)"
    " values (?1, ?2, ?3, ?4, 'ready', 0, 0, 0, 0, 0)";

void open_step(Database& database, const std::string& run_id, size_t step, StepRow& row) {
  const SqlResult counts = database.run(
      "select count(*), coalesce(sum(case when status in ('failed', 'skipped') then 1 else 0 end), 0) from "
      "orca_partitions"
      " where run_id = ?1 and step = ?2",
      {run_id, as_int(step)});
  row.total = counts.rows.at(0).integer(0);
  row.failed = counts.rows.at(0).integer(1);
  row.remaining = row.total - row.failed;
  row.status = row.remaining > 0 ? "open" : row.failed > 0 ? "failed" : "done";
  set_step(database, run_id, step, row);
}

// The partitions of a step that has the keys of those before it.
void open_aligned(Database& database, const StepPlan& plan, const std::string& run_id, size_t step, StepRow& row) {
  std::string before;
  for (const StepEdge& edge : plan.after) {
    if (edge.aligned) before += (before.empty() ? "" : ", ") + std::to_string(edge.step);
  }
  database.run(
      "insert into orca_partitions (run_id, step, partition_key, seq, status, waits, attempt, tries, losses, "
      "not_before_ms)"
      " select cast(?1 as text), cast(?2 as bigint), k.partition_key, k.seq, case when k.lost > 0 then 'skipped' when "
      "k.waits"
      " > 0 then 'waiting' else 'ready' end, k.waits, 0, 0, 0, 0 from (select partition_key, min(seq) as seq, sum(case "
      "when"
      " status = 'done' then 0 else 1 end) as waits, sum(case when status in ('failed', 'skipped') then 1 else 0 end) "
      "as lost"
      " from orca_partitions where run_id = ?1 and step in (" +
          before + ") group by partition_key) as k",
      {run_id, as_int(step)});
  open_step(database, run_id, step, row);
}

}  // namespace

bool count_ended(Database& database, const RunPlan& plan, const std::string& run_id, size_t step,
                 const std::vector<std::string>& partitions, bool failed) {
  const int64_t count = static_cast<int64_t>(partitions.size());
  const SqlResult counted = database.run(
      "update orca_steps set remaining = remaining - ?1, failed = failed + ?2 where run_id = ?3 and step = ?4"
      " returning remaining",
      {count, failed ? count : 0, run_id, as_int(step)});
  bool is_through = counted.rows.at(0).integer(0) == 0;
  for (size_t next = step + 1; next < plan.steps.size(); ++next) {
    const std::vector<StepEdge>& edges = plan.steps[next].after;
    if (std::find(edges.begin(), edges.end(), StepEdge{.step = step, .aligned = true}) == edges.end()) continue;
    std::vector<SqlValues> values;
    for (const std::string& partition : partitions) values.push_back({run_id, as_int(next), partition});
    if (!failed) {
      database.run_each(
          "update orca_partitions set waits = waits - 1, status = case when waits <= 1 then 'ready' else status end"
          " where run_id = ?1 and step = ?2 and partition_key = ?3 and status = 'waiting'",
          values);
      continue;
    }
    const std::vector<SqlResult> skipped = database.run_each(
        "update orca_partitions set status = 'skipped' where run_id = ?1 and step = ?2 and partition_key = ?3 and"
        " status = 'waiting'",
        values);
    std::vector<std::string> also;
    for (size_t i = 0; i < skipped.size(); ++i) {
      if (skipped[i].changed > 0) also.push_back(partitions[i]);
    }
    if (!also.empty()) is_through |= count_ended(database, plan, run_id, next, also, true);
  }
  return is_through;
}

std::vector<size_t> advance(Database& database, const RunPlan& plan, const std::string& run_id, RunStatus& status) {
  std::vector<StepRow> rows;
  const SqlResult result =
      database.run("select status, total, remaining, failed from orca_steps where run_id = ?1 order by step", {run_id});
  for (const SqlRow& row : result.rows) rows.push_back({row.text(0), row.integer(1), row.integer(2), row.integer(3)});
  if (rows.size() != plan.steps.size()) {
    fail(ErrorKind::corrupt, "{}: run {} has {} steps, its plan {}", database.title(), run_id, rows.size(),
         plan.steps.size());
  }
  std::vector<size_t> to_expand;
  bool all_ended = true, any_failed = false;
  for (size_t i = 0; i < rows.size(); ++i) {
    StepRow& row = rows[i];
    const StepPlan& step = plan.steps[i];
    if (row.status == "open" && row.remaining == 0) {
      row.status = row.failed > 0 ? "failed" : "done";
      set_step(database, run_id, i, row);
    } else if (row.status == "waiting") {
      bool met = true, never = false, has_keys = false;
      for (const StepEdge& edge : step.after) {
        const StepRow& before = rows[edge.step];
        has_keys = has_keys || edge.aligned;
        if (edge.aligned ? before.has_ended() && !before.was_opened()
                         : before.status == "failed" || before.status == "skipped")
          never = true;
        if (!(edge.aligned ? before.was_opened() : before.status == "done")) met = false;
      }
      if (never) {
        row.status = "skipped";
        set_step(database, run_id, i, row);
      } else if (met && has_keys) {
        open_aligned(database, step, run_id, i, row);
      } else if (met && step.mapped) {
        to_expand.push_back(i);
      } else if (met) {
        database.run(kInsertPartition, {run_id, as_int(i), "", 0});
        open_step(database, run_id, i, row);
      }
    }
    all_ended = all_ended && row.has_ended();
    any_failed = any_failed || row.status == "failed" || row.status == "skipped";
  }
  if (all_ended) {
    status = any_failed ? RunStatus::failed : RunStatus::done;
    database.run("update orca_runs set status = ?1, finished_ms = orca_now() where id = ?2",
                 {to_string(status), run_id});
  }
  return to_expand;
}

TurnAnswer take_turn(Database& database, const RunPlan& plan, const TurnRequest& request) {
  TurnAnswer answer;
  answer.status = lock_run(database, request.run_id);
  if (request.renew_lease_ms) {
    // Also where it ended meanwhile: what others took over is theirs by the partition's row.
    database.run("update orca_runners set heartbeat_ms = orca_now(), lease_until_ms = orca_now() + ?1 where id = ?2",
                 {*request.renew_lease_ms, request.runner});
  }
  if (request.held) release_unknown(database, plan, request);
  bool may_advance = complete(database, plan, request, answer);
  if (answer.status != RunStatus::running) return answer;
  if (request.look_for_dead) {
    may_advance = true;
    end_dead_leases(database, request.run_id);
    take_over(database, plan, request, answer);
  }
  if (may_advance) answer.to_expand = advance(database, plan, request.run_id, answer.status);
  if (answer.status == RunStatus::running && request.claims_max > 0) claim(database, plan, request, answer);
  return answer;
}

void expand_step(Database& database, const RunPlan& plan, const std::string& run_id, size_t step,
                 const std::vector<std::string>& keys) {
  RunStatus status = lock_run(database, run_id);
  const SqlResult now =
      database.run("select status from orca_steps where run_id = ?1 and step = ?2", {run_id, as_int(step)});
  if (now.rows.at(0).text(0) != "waiting") return;
  std::vector<SqlValues> values;
  for (size_t i = 0; i < keys.size(); ++i) values.push_back({run_id, as_int(step), keys[i], static_cast<int64_t>(i)});
  database.run_each(kInsertPartition, values);
  StepRow row;
  open_step(database, run_id, step, row);
  if (status == RunStatus::running) advance(database, plan, run_id, status);
}

void fail_step(Database& database, const RunPlan& plan, const std::string& run_id, size_t step,
               const std::string& error) {
  RunStatus status = lock_run(database, run_id);
  const SqlResult now =
      database.run("select status from orca_steps where run_id = ?1 and step = ?2", {run_id, as_int(step)});
  if (now.rows.at(0).text(0) != "waiting") return;
  // The failure has a place of its own among the attempts: the step has no partition that could hold it.
  database.run(
      "insert into orca_attempts (run_id, step, partition_key, attempt, status, runner, code, started_ms, finished_ms, "
      "error)"
      " select ?1, ?2, '', coalesce(max(attempt), 0) + 1, 'failed', '', '', orca_now(), orca_now(), ?3 from "
      "orca_attempts"
      " where run_id = ?1 and step = ?2 and partition_key = ''",
      {run_id, as_int(step), error});
  set_step(database, run_id, step, {.status = "failed"});
  if (status == RunStatus::running) advance(database, plan, run_id, status);
}

}  // namespace firn::orca
