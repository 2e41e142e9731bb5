// Runs as wholes: begun, found, stopped, retried.
#include <map>
#include <set>

#include "base/error.h"
#include "orca/state/run_rows.h"

namespace firn::orca {
namespace {

constexpr const char* kRunColumns =
    "select id, pipeline, number, kind, status, code, plan, parameters, scheduled_ms, created_ms, finished_ms from "
    "orca_runs ";

RunRow run_row(const SqlRow& row) {
  return {.id = row.text(0),
          .pipeline = row.text(1),
          .number = row.integer(2),
          .kind = row.text(3),
          .status = run_status(row.text(4)),
          .code = row.text(5),
          .plan = row.text(6),
          .parameters = row.text(7),
          .scheduled_ms = row.maybe_integer(8),
          .created_ms = row.integer(9),
          .finished_ms = row.maybe_integer(10)};
}

std::optional<RunRow> only_run(const SqlResult& result) {
  if (result.rows.empty()) return std::nullopt;
  return run_row(result.rows.front());
}

std::vector<RunRow> run_rows(const SqlResult& result) {
  std::vector<RunRow> runs;
  for (const SqlRow& row : result.rows) runs.push_back(run_row(row));
  return runs;
}

}  // namespace

std::string_view to_string(RunStatus status) {
  switch (status) {
    case RunStatus::running:
      return "running";
    case RunStatus::done:
      return "done";
    case RunStatus::failed:
      return "failed";
    case RunStatus::stopped:
      return "stopped";
    case RunStatus::cancelled:
      return "cancelled";
  }
  return "";
}

RunStatus run_status(std::string_view text) {
  for (const RunStatus status :
       {RunStatus::running, RunStatus::done, RunStatus::failed, RunStatus::stopped, RunStatus::cancelled}) {
    if (to_string(status) == text) return status;
  }
  fail(ErrorKind::corrupt, "the state of runs: \"{}\" is no status of a run", text);
}

Json plan_to_json(const RunPlan& plan) {
  Json steps = Json::array();
  for (const StepPlan& step : plan.steps) {
    Json after = Json::array();
    for (const StepEdge& edge : step.after) after.push_back({{"step", edge.step}, {"aligned", edge.aligned}});
    steps.push_back({{"name", step.name},
                     {"mapped", step.mapped},
                     {"after", after},
                     {"limits", step.limits},
                     {"types", step.types}});
  }
  Json limits = Json::object();
  for (const auto& [name, count] : plan.limits) limits[name] = count;
  return {{"steps", steps}, {"limits", limits}};
}

RunPlan plan_from_json(const Json& json) {
  constexpr const char* kWhere = "the plan of a run";
  RunPlan plan;
  for (const Json& step : get_array(json, "steps", kWhere)) {
    StepPlan& one = plan.steps.emplace_back();
    one.name = get_string(step, "name", kWhere);
    one.mapped = get_bool(step, "mapped", kWhere);
    one.types = get_string(step, "types", kWhere);
    for (const Json& edge : get_array(step, "after", kWhere)) {
      const int64_t at = get_int64(edge, "step", kWhere);
      if (at < 0 || at + 1 >= static_cast<int64_t>(plan.steps.size())) {
        fail(ErrorKind::corrupt, "{}: step {} comes after step {}, which stands behind it", kWhere, one.name, at);
      }
      one.after.push_back({.step = static_cast<size_t>(at), .aligned = get_bool(edge, "aligned", kWhere)});
    }
    for (const Json& name : get_array(step, "limits", kWhere)) one.limits.push_back(name.get<std::string>());
  }
  for (const auto& [name, count] : get_object(json, "limits", kWhere).items())
    plan.limits.emplace_back(name, count.get<int64_t>());
  return plan;
}

RunStatus lock_run(Database& database, const std::string& run_id) {
  const SqlResult result = database.run("select status from orca_runs where id = ?1 for update", {run_id});
  if (result.rows.empty()) fail(ErrorKind::not_found, "{}: there is no run {}", database.title(), run_id);
  return run_status(result.rows.front().text(0));
}

void add_limit_rows(Database& database, const RunPlan& plan) {
  // In order, so that two cannot wait for each other.
  for (const auto& [name, count] : std::map<std::string, int64_t>(plan.limits.begin(), plan.limits.end()))
    database.run("insert into orca_limits (name) values (?1) on conflict do nothing", {name});
}

std::optional<RunRow> create_run(Database& database, const NewRun& run) {
  database.run("insert into orca_pipelines (name, last_run) values (?1, 0) on conflict do nothing", {run.pipeline});
  // The row is held to the end, so numbers follow the order in which runs become visible.
  const int64_t last = database.run("select last_run from orca_pipelines where name = ?1 for update", {run.pipeline})
                           .rows.at(0)
                           .integer(0);
  if (auto made = find_run_by_id(database, run.id)) return made;
  const SqlResult inserted = database.run(
      "insert into orca_runs (id, pipeline, number, kind, status, code, plan, parameters, scheduled_ms, created_ms) "
      "values"
      " (?1, ?2, ?3, ?4, 'running', ?5, ?6, ?7, ?8, orca_now()) on conflict (pipeline, scheduled_ms) do nothing",
      {run.id, run.pipeline, last + 1, run.kind, run.code, plan_to_json(run.plan).dump(), run.parameters,
       run.scheduled_ms});
  if (inserted.changed == 0) return std::nullopt;
  database.run("update orca_pipelines set last_run = ?1 where name = ?2", {last + 1, run.pipeline});
  std::vector<SqlValues> steps;
  for (size_t i = 0; i < run.plan.steps.size(); ++i) {
    steps.push_back({run.id, static_cast<int64_t>(i), run.plan.steps[i].name});
  }
  database.run_each(
      "insert into orca_steps (run_id, step, name, status, total, remaining, failed) values (?1, ?2, ?3, 'waiting', 0, "
      "0, 0)",
      steps);
  add_limit_rows(database, run.plan);
  RunStatus status = RunStatus::running;
  advance(database, run.plan, run.id, status);
  return find_run_by_id(database, run.id);
}

std::optional<RunRow> find_run(Database& database, const std::string& pipeline, int64_t number) {
  if (number != 0) {
    return only_run(database.run(std::string(kRunColumns) + "where pipeline = ?1 and number = ?2", {pipeline, number}));
  }
  return only_run(
      database.run(std::string(kRunColumns) + "where pipeline = ?1 order by number desc limit 1", {pipeline}));
}

std::optional<RunRow> find_run_by_id(Database& database, const std::string& id) {
  return only_run(database.run(std::string(kRunColumns) + "where id = ?1", {id}));
}

std::vector<RunRow> list_runs(Database& database, const std::string& pipeline, int64_t count) {
  if (pipeline.empty()) {
    return run_rows(database.run(std::string(kRunColumns) + "order by created_ms desc, number desc limit ?1", {count}));
  }
  return run_rows(
      database.run(std::string(kRunColumns) + "where pipeline = ?1 order by number desc limit ?2", {pipeline, count}));
}

std::vector<RunRow> list_open_runs(Database& database, const std::string& pipeline) {
  return run_rows(database.run(std::string(kRunColumns) + "where pipeline = ?1 and status = 'running' order by number",
                               {pipeline}));
}

std::optional<RunRow> find_last_run(Database& database, const std::string& pipeline,
                                    const std::vector<RunStatus>& statuses) {
  SqlValues values = {pipeline};
  std::string among;
  for (const RunStatus status : statuses) {
    values.emplace_back(to_string(status));
    among += fmt::format("{}?{}", among.empty() ? "" : ", ", values.size());
  }
  return only_run(database.run(
      std::string(kRunColumns) + "where pipeline = ?1 and status in (" + among + ") order by number desc limit 1",
      values));
}

std::optional<int64_t> last_scheduled_ms(Database& database, const std::string& pipeline) {
  return database.run("select max(scheduled_ms) from orca_runs where pipeline = ?1", {pipeline})
      .rows.at(0)
      .maybe_integer(0);
}

bool reopen_run(Database& database, const std::string& run_id) {
  const RunStatus status = lock_run(database, run_id);
  if (status == RunStatus::stopped) {
    database.run("update orca_runs set status = 'running', finished_ms = null where id = ?1", {run_id});
  }
  return status == RunStatus::stopped || status == RunStatus::running;
}

void stop_run(Database& database, const std::string& run_id, const std::string& runner) {
  if (lock_run(database, run_id) != RunStatus::running) return;
  const SqlResult others =
      database.run("select count(*) from orca_runners where run_id = ?1 and id <> ?2 and lease_until_ms > orca_now()",
                   {run_id, runner});
  if (others.rows.at(0).integer(0) > 0) return;
  database.run("update orca_runs set status = 'stopped' where id = ?1", {run_id});
}

bool cancel_run(Database& database, const std::string& run_id) {
  const RunStatus status = lock_run(database, run_id);
  if (status == RunStatus::cancelled) return true;
  if (status != RunStatus::running && status != RunStatus::stopped) return false;
  database.run("update orca_runs set status = 'cancelled', finished_ms = orca_now() where id = ?1", {run_id});
  return true;
}

int64_t retry_run(Database& database, const RunPlan& plan, const std::string& run_id, std::optional<size_t> step,
                  const std::optional<std::string>& partition) {
  if (lock_run(database, run_id) == RunStatus::cancelled) return 0;
  int64_t ready = 0;
  std::vector<std::string> statuses;
  std::vector<int64_t> totals;
  for (const SqlRow& row :
       database.run("select status, total from orca_steps where run_id = ?1 order by step", {run_id}).rows) {
    statuses.push_back(row.text(0));
    totals.push_back(row.integer(1));
  }
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const int64_t index = static_cast<int64_t>(i);
    const bool wanted = !step || *step == i;
    if (wanted) {
      ready += database
                   .run(
                       "update orca_partitions set status = 'ready', tries = 0, losses = 0, not_before_ms = 0 where "
                       "run_id = ?1"
                       " and step = ?2 and status = 'failed' and (cast(?3 as text) is null or partition_key = ?3)",
                       {run_id, index, partition})
                   .changed;
    }
    bool needs_met = true;  // none of the steps before has failed as a whole
    std::string aligned;
    for (const StepEdge& edge : plan.steps[i].after) {
      const std::string& before = statuses[edge.step];
      const bool never_opened = before == "skipped" || (before == "failed" && totals[edge.step] == 0);
      if (never_opened || (!edge.aligned && before == "failed")) needs_met = false;
      if (edge.aligned) aligned += (aligned.empty() ? "" : ", ") + std::to_string(edge.step);
    }
    if (!aligned.empty()) {
      const std::string of_key = "from orca_partitions as u where u.run_id = p.run_id and u.step in (" + aligned +
                                 ") and u.partition_key = p.partition_key and u.status ";
      database.run(
          fmt::format("update orca_partitions as p set status = 'waiting', error = null, waits = (select count(*) "
                      "{0}<> 'done') where p.run_id = ?1 and p.step = ?2 and p.status = 'skipped' and not exists "
                      "(select 1 {0}in ('failed', 'skipped'))",
                      of_key),
          {run_id, index});
      database.run(
          "update orca_partitions set status = 'ready' where run_id = ?1 and step = ?2 and status = 'waiting' and "
          "waits = 0",
          {run_id, index});
    }
    const bool no_keys = statuses[i] == "failed" && totals[i] == 0 && wanted;
    if (no_keys) ++ready;
    if (needs_met && (statuses[i] == "skipped" || no_keys)) {
      statuses[i] = "waiting";
      database.run("update orca_steps set status = 'waiting' where run_id = ?1 and step = ?2", {run_id, index});
    } else if (totals[i] > 0) {
      const SqlResult counts = database.run(
          "select coalesce(sum(case when status in ('done', 'failed', 'skipped') then 0 else 1 end), 0),"
          " coalesce(sum(case when status in ('failed', 'skipped') then 1 else 0 end), 0)"
          " from orca_partitions where run_id = ?1 and step = ?2",
          {run_id, index});
      const int64_t remaining = counts.rows.at(0).integer(0), failed = counts.rows.at(0).integer(1);
      if (remaining > 0) statuses[i] = "open";
      database.run("update orca_steps set remaining = ?1, failed = ?2, status = ?3 where run_id = ?4 and step = ?5",
                   {remaining, failed, statuses[i], run_id, index});
    }
  }
  if (ready > 0) database.run("update orca_runs set status = 'running', finished_ms = null where id = ?1", {run_id});
  return ready;
}

std::vector<std::string> keys_done(Database& database, const std::string& pipeline, const std::string& step_name,
                                   const std::vector<std::string>& keys) {
  constexpr size_t kNamedMax = 1'000;  // beyond, the pipeline's whole history is read in one go
  SqlValues values = {pipeline, step_name};
  std::string among;
  if (keys.size() <= kNamedMax) {
    for (const std::string& key : keys) {
      values.emplace_back(key);
      among += fmt::format("{}?{}", among.empty() ? " and p.partition_key in (" : ", ", values.size());
    }
    if (!among.empty()) among += ")";
  }
  std::vector<std::string> done;
  const SqlResult result = database.run(
      "select distinct p.partition_key from orca_partitions as p join orca_steps as s on s.run_id = p.run_id and "
      "s.step = p.step"
      " join orca_runs as r on r.id = p.run_id where r.pipeline = ?1 and s.name = ?2 and p.status = 'done'" +
          among,
      values);
  for (const SqlRow& row : result.rows) done.push_back(row.text(0));
  return done;
}

std::vector<std::pair<std::string, std::string>> step_results(Database& database, const std::string& run_id,
                                                              size_t step) {
  std::vector<std::pair<std::string, std::string>> results;
  const SqlResult rows = database.run(
      "select partition_key, result from orca_partitions where run_id = ?1 and step = ?2 and status = 'done' order by "
      "seq",
      {run_id, static_cast<int64_t>(step)});
  for (const SqlRow& row : rows.rows) results.emplace_back(row.text(0), row.text(1));
  return results;
}

}  // namespace firn::orca
