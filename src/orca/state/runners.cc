// Who works on a run, and whether it still lives.
#include <cerrno>
#include <csignal>
#include <fstream>
#include <sstream>

#include <unistd.h>

#include "base/error.h"
#include "orca/state/run_rows.h"

namespace firn::orca {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Process ids mean something within one boot of one machine and one PID namespace.
std::string where_pids_hold() {
  char target[64] = {};
  const ssize_t length = readlink("/proc/self/ns/pid", target, sizeof(target) - 1);
  return first_line("/proc/sys/kernel/random/boot_id") + "/" + std::string(target, length < 0 ? 0 : length);
}

// When the process began, in ticks since the boot; empty: there is no such process. A zombie has ended.
std::string start_of(const std::string& pid) {
  const std::string line = first_line("/proc/" + pid + "/stat");
  const size_t name_end = line.rfind(')');  // the name may hold anything
  if (name_end == std::string::npos) return "";
  std::istringstream rest(line.substr(name_end + 1));
  std::string field;
  for (int number = 3; number <= 22 && rest >> field; ++number) {
    if (number == 3 && (field == "Z" || field == "X")) return "";
  }
  return field;
}

}  // namespace

std::string this_process() {
  const std::string pid = std::to_string(getpid());
  return where_pids_hold() + "/" + pid + "/" + start_of(pid);
}

bool is_dead_process(const std::string& process) {
  const size_t start_at = process.rfind('/');
  const size_t pid_at = start_at == std::string::npos ? start_at : process.rfind('/', start_at - 1);
  if (pid_at == std::string::npos) return false;
  if (process.substr(0, pid_at) != where_pids_hold()) return false;  // of elsewhere: its lease alone tells
  const std::string start = process.substr(start_at + 1);
  return !start.empty() && start_of(process.substr(pid_at + 1, start_at - pid_at - 1)) != start;
}

void register_runner(Database& database, const RunnerIdentity& runner, int64_t lease_ms) {
  database.run(
      "insert into orca_runners (id, run_id, host, process, code, started_ms, heartbeat_ms, lease_until_ms) values"
      " (?1, ?2, ?3, ?4, ?5, orca_now(), orca_now(), orca_now() + ?6) on conflict do nothing",
      {runner.id, runner.run_id, runner.host, runner.process, runner.code, lease_ms});
}

void end_dead_leases(Database& database, const std::string& run_id) {
  const SqlResult runners =
      database.run("select id, process from orca_runners where run_id = ?1 and lease_until_ms > orca_now()", {run_id});
  for (const SqlRow& row : runners.rows) {
    if (is_dead_process(row.text(1))) unregister_runner(database, row.text(0));
  }
}

void unregister_runner(Database& database, const std::string& runner_id) {
  database.run("update orca_runners set lease_until_ms = 0 where id = ?1", {runner_id});
}

int64_t live_runners(Database& database, const std::string& run_id) {
  return database.run("select count(*) from orca_runners where run_id = ?1 and lease_until_ms > orca_now()", {run_id})
      .rows.at(0)
      .integer(0);
}

}  // namespace firn::orca
