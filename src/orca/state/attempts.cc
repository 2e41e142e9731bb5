// What one attempt keeps.
#include "base/error.h"
#include "orca/state/run_rows.h"

namespace firn::orca {
namespace {

SqlValues partition_of(const AttemptKey& attempt) {
  return {attempt.run_id, static_cast<int64_t>(attempt.step), attempt.partition};
}

}  // namespace

void check_lease(Database& database, const AttemptKey& attempt) {
  const SqlResult result = database.run(
      "select p.status, p.attempt, p.runner, coalesce(r.lease_until_ms, 0) - orca_now(), u.status from orca_partitions "
      "as p"
      " join orca_runs as u on u.id = p.run_id left join orca_runners as r on r.id = p.runner"
      " where p.run_id = ?1 and p.step = ?2 and p.partition_key = ?3",
      partition_of(attempt));
  const std::string title =
      fmt::format("attempt {} of {}{}step {}", attempt.attempt, attempt.partition.empty() ? "" : attempt.partition,
                  attempt.partition.empty() ? "" : " in ", attempt.step);
  if (result.rows.empty()) fail(ErrorKind::lease_lost, "{}: the run is no longer known", title);
  const SqlRow& row = result.rows.front();
  if (row.integer(1) != attempt.attempt || row.text(0) != "running" || row.text(2) != attempt.runner) {
    fail(ErrorKind::lease_lost, "{}: attempt {} has taken over (it is {}); this one must stop", title, row.integer(1),
         row.text(0));
  }
  if (row.integer(3) <= 0) {
    fail(ErrorKind::lease_lost, "{}: its lease ended {} ms ago by the database's clock; this attempt must stop", title,
         -row.integer(3));
  }
  if (row.text(4) == "cancelled") fail(ErrorKind::lease_lost, "{}: the run was cancelled", title);
}

namespace {

// What the first attempt to propose something for the location proposed: the table's UUID, and `column`.
SqlRow first_proposal(Database& database, const AttemptKey& attempt, const char* table, const char* column,
                      const std::string& location, const std::string& table_uuid, std::optional<int64_t> value) {
  check_lease(database, attempt);
  SqlValues values = partition_of(attempt);
  values.insert(values.end(), {location, table_uuid, value});
  database.run(fmt::format("insert into {} (run_id, step, partition_key, location, table_uuid, {}) values"
                           " (?1, ?2, ?3, ?4, ?5, ?6) on conflict do nothing",
                           table, column),
               values);
  values.erase(values.end() - 2, values.end());
  const SqlResult kept = database.run(
      fmt::format("select table_uuid, {} from {} where run_id = ?1 and step = ?2 and partition_key = ?3 and "
                  "location = ?4",
                  column, table),
      values);
  return kept.rows.at(0);
}

}  // namespace

Pin keep_pin(Database& database, const AttemptKey& attempt, const Pin& proposed) {
  const SqlRow row = first_proposal(database, attempt, "orca_pins", "snapshot_id", proposed.location,
                                    proposed.table_uuid, proposed.snapshot_id);
  return {.location = proposed.location, .table_uuid = row.text(0), .snapshot_id = row.maybe_integer(1)};
}

Floor keep_floor(Database& database, const AttemptKey& attempt, const Floor& proposed) {
  const SqlRow row = first_proposal(database, attempt, "orca_floors", "sequence", proposed.location,
                                    proposed.table_uuid, proposed.sequence);
  return {.location = proposed.location, .table_uuid = row.text(0), .sequence = row.integer(1)};
}

std::vector<Pin> pins_of(Database& database, const AttemptKey& attempt) {
  std::vector<Pin> pins;
  const SqlResult rows = database.run(
      "select location, table_uuid, snapshot_id from orca_pins where run_id = ?1 and step = ?2 and partition_key = ?3 "
      "order by location",
      partition_of(attempt));
  for (const SqlRow& row : rows.rows) pins.push_back({row.text(0), row.text(1), row.maybe_integer(2)});
  return pins;
}

namespace {

constexpr const char* kOfOpenRuns =
    "where r.status in ('running', 'stopped') or (r.status = 'failed' and r.finished_ms > orca_now() - ?1)";

}  // namespace

std::vector<Pin> open_pins(Database& database, int64_t retry_ms) {
  std::vector<Pin> pins;
  const SqlResult rows = database.run(std::string("select distinct p.location, p.table_uuid, p.snapshot_id from "
                                                  "orca_pins as p join orca_runs as r on r.id = p.run_id ") +
                                          kOfOpenRuns,
                                      {retry_ms});
  for (const SqlRow& row : rows.rows) pins.push_back({row.text(0), row.text(1), row.maybe_integer(2)});
  return pins;
}

std::vector<Floor> open_floors(Database& database, int64_t retry_ms) {
  std::vector<Floor> floors;
  const SqlResult rows = database.run(std::string("select p.location, p.table_uuid, min(p.sequence) from orca_floors "
                                                  "as p join orca_runs as r on r.id = p.run_id ") +
                                          kOfOpenRuns + " group by p.location, p.table_uuid",
                                      {retry_ms});
  for (const SqlRow& row : rows.rows) floors.push_back({row.text(0), row.text(1), row.integer(2)});
  return floors;
}

std::optional<int64_t> oldest_open_start_ms(Database& database, int64_t retry_ms) {
  return database.run(std::string("select min(r.created_ms) from orca_runs as r ") + kOfOpenRuns, {retry_ms})
      .rows.at(0)
      .maybe_integer(0);
}

}  // namespace firn::orca
