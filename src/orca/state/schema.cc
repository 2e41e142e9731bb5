// The tables of the run's state, and the steps from older ones.
#include "base/error.h"
#include "base/fault_point.h"
#include "orca/state/database.h"

namespace firn::orca {
namespace {

constexpr int64_t kVersion = 1;

// Statuses are words, so that a look with sqlite3 or psql needs no key.
constexpr const char* kTables[] = {
    "create table orca_pipelines (name text primary key, last_run bigint not null)",

    // status: running, done, failed, stopped (on request; resume goes on), cancelled (for good)
    "create table orca_runs (id text primary key, pipeline text not null, number bigint not null, kind text not null,"
    " status text not null, code text not null, plan text not null, parameters text not null, scheduled_ms bigint,"
    " created_ms bigint not null, finished_ms bigint, unique (pipeline, number), unique (pipeline, scheduled_ms))",
    "create index orca_runs_open on orca_runs (pipeline, status)",

    // status: waiting (for steps before), open (its partitions are known), done, failed, skipped (what it needs failed)
    "create table orca_steps (run_id text not null, step bigint not null, name text not null, status text not null,"
    " total bigint not null, remaining bigint not null, failed bigint not null, primary key (run_id, step))",

    // status: waiting (for `waits` partitions of the same key), ready, running, done, failed, skipped
    "create table orca_partitions (run_id text not null, step bigint not null, partition_key text not null,"
    " seq bigint not null, status text not null, waits bigint not null, attempt bigint not null, tries bigint not null,"
    " losses bigint not null, not_before_ms bigint not null, runner text, started_ms bigint, finished_ms bigint,"
    " result text, error text, primary key (run_id, step, partition_key))",
    "create index orca_partitions_ready on orca_partitions (run_id, step desc, seq) where status = 'ready'",
    "create index orca_partitions_running on orca_partitions (run_id) where status = 'running'",

    // Attempts that ended. status: done, failed, lost (its runner died), stopped
    "create table orca_attempts (run_id text not null, step bigint not null, partition_key text not null,"
    " attempt bigint not null, status text not null, runner text not null, code text not null,"
    " started_ms bigint not null, finished_ms bigint not null, error text,"
    " primary key (run_id, step, partition_key, attempt))",

    // A process's work on one run. An attempt's lease is its runner's. process: what the same machine can look at.
    "create table orca_runners (id text primary key, run_id text not null, host text not null, process text not null,"
    " code text not null, started_ms bigint not null, heartbeat_ms bigint not null, lease_until_ms bigint not null)",
    "create index orca_runners_run on orca_runners (run_id)",

    "create table orca_pins (run_id text not null, step bigint not null, partition_key text not null,"
    " location text not null, table_uuid text not null, snapshot_id bigint,"
    " primary key (run_id, step, partition_key, location))",
    "create table orca_floors (run_id text not null, step bigint not null, partition_key text not null,"
    " location text not null, table_uuid text not null, sequence bigint not null,"
    " primary key (run_id, step, partition_key, location))",

    // Limits of concurrency: a row to lock, and who counts against it.
    "create table orca_limits (name text primary key)",
    "create table orca_holds (name text not null, run_id text not null, step bigint not null,"
    " partition_key text not null, runner text not null, primary key (name, run_id, step, partition_key))",
};

std::optional<int64_t> version_of(Database& database) {
  const char* table = database.is_postgres()
                          ? "select count(*) from pg_class where oid = to_regclass('orca_schema')"
                          : "select count(*) from sqlite_master where type = 'table' and name = 'orca_schema'";
  if (database.run(table).rows.front().integer(0) == 0) return std::nullopt;
  const SqlResult version = database.run("select version from orca_schema");
  if (version.rows.size() != 1) fail(ErrorKind::corrupt, "{}: orca_schema does not say one version", database.title());
  return version.rows.front().integer(0);
}

void check_version(const Database& database, int64_t version) {
  if (version > kVersion) {
    fail(ErrorKind::unsupported,
         "{}: the state of runs was written by a newer orca (its version is {}, ours {}); use that one",
         database.title(), version, kVersion);
  }
}

void create(Database& database) {
  for (const char* sql : kTables) database.run(sql);
  if (database.is_postgres()) {
    database.run(
        "create or replace function orca_now() returns bigint language sql volatile as"
        " 'select cast(extract(epoch from clock_timestamp()) * 1000 as bigint)'");
    // Rows change status a few times in their lives: room on the page keeps those changes off the indexes.
    database.run("alter table orca_partitions set (fillfactor = 60)");
  }
  database.run("create table orca_schema (version bigint not null)");
  database.run("insert into orca_schema (version) values (?1)", {kVersion});
}

}  // namespace

void migrate(Database& database) {
  if (const std::optional<int64_t> version = version_of(database)) {
    check_version(database, *version);
    if (*version == kVersion) return;
  }
  database.begin();
  try {
    database.lock_schema();
    const std::optional<int64_t> version = version_of(database);  // another may have been first
    if (version) {
      check_version(database, *version);
    } else {
      create(database);
    }
    fault_point("orca.state.migrate");
    database.commit();
  } catch (...) {
    database.rollback();
    throw;
  }
}

}  // namespace firn::orca
