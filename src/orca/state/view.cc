// Runs as people look at them.
#include <map>

#include "orca/state/run_rows.h"

namespace firn::orca {

RunView view_run(Database& database, const RunRow& run, int64_t failures_max) {
  RunView view;
  view.run = run;
  const RunPlan plan = plan_from_json(parse_json(run.plan, "the plan of run " + run.id));
  for (const SqlRow& row :
       database.run("select name, status, total from orca_steps where run_id = ?1 order by step", {run.id}).rows) {
    StepView& step = view.steps.emplace_back();
    step.name = row.text(0);
    step.status = row.text(1);
    step.total = row.integer(2);
    step.mapped = view.steps.size() <= plan.steps.size() && plan.steps[view.steps.size() - 1].mapped;
  }
  const SqlResult counts = database.run(
      "select step, status, count(*), min(started_ms), max(finished_ms) from orca_partitions where run_id = ?1 group "
      "by step, status",
      {run.id});
  for (const SqlRow& row : counts.rows) {
    StepView& step = view.steps.at(static_cast<size_t>(row.integer(0)));
    const std::string status = row.text(1);
    int64_t& count = status == "done"      ? step.done
                     : status == "failed"  ? step.failed
                     : status == "skipped" ? step.skipped
                     : status == "running" ? step.running
                     : status == "ready"   ? step.ready
                                           : step.waiting;
    count = row.integer(2);
    if (const auto started = row.maybe_integer(3))
      step.started_ms = std::min(step.started_ms.value_or(*started), *started);
    if (const auto finished = row.maybe_integer(4))
      step.finished_ms = std::max(step.finished_ms.value_or(*finished), *finished);
  }
  const SqlResult results = database.run(
      "select step, result from orca_partitions where run_id = ?1 and partition_key = '' and status = 'done'",
      {run.id});
  for (const SqlRow& row : results.rows) view.steps.at(static_cast<size_t>(row.integer(0))).result = row.text(1);
  const SqlResult failures = database.run(
      "select step, partition_key, error, attempt from orca_partitions where run_id = ?1 and status = 'failed' order "
      "by step, seq limit ?2",
      {run.id, failures_max});
  for (const SqlRow& row : failures.rows) {
    view.failures.push_back({.step = view.steps.at(static_cast<size_t>(row.integer(0))).name,
                             .partition = row.text(1),
                             .error = row.text(2),
                             .attempt = row.integer(3)});
  }
  const SqlResult no_keys = database.run(
      "select s.name, a.error, a.attempt from orca_steps as s join orca_attempts as a on a.run_id = s.run_id and "
      "a.step = s.step"
      " where s.run_id = ?1 and s.status = 'failed' and s.total = 0 and a.attempt = (select max(b.attempt) from "
      "orca_attempts as b"
      " where b.run_id = s.run_id and b.step = s.step)",
      {run.id});
  for (const SqlRow& row : no_keys.rows) {
    view.failures.push_back({.step = row.text(0), .partition = "", .error = row.text(1), .attempt = row.integer(2)});
  }
  const SqlResult running = database.run(
      "select p.step, p.partition_key, p.runner, coalesce(r.host, ''), p.attempt, p.started_ms,"
      " case when coalesce(r.lease_until_ms, 0) > orca_now() then 0 else 1 end, coalesce(r.process, '') from "
      "orca_partitions as p left join orca_runners as r on r.id = p.runner where p.run_id = ?1 and p.status = "
      "'running' order by p.started_ms",
      {run.id});
  for (const SqlRow& row : running.rows) {
    view.running.push_back({.step = view.steps.at(static_cast<size_t>(row.integer(0))).name,
                            .partition = row.text(1),
                            .runner = row.text(2),
                            .host = row.text(3),
                            .attempt = row.integer(4),
                            .started_ms = row.integer(5),
                            .lease_over = row.integer(6) != 0 || is_dead_process(row.text(7))});
  }
  const SqlResult runners =
      database.run("select process from orca_runners where run_id = ?1 and lease_until_ms > orca_now()", {run.id});
  for (const SqlRow& row : runners.rows) {
    if (!is_dead_process(row.text(0))) ++view.runners;
  }
  view.now_ms = database.run("select orca_now()").rows.at(0).integer(0);
  return view;
}

}  // namespace firn::orca
