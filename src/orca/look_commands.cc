// status, cancel, expire.
#include <algorithm>
#include <ostream>

#include "orca/commands.h"
#include "orca/status.h"

namespace firn::orca {
namespace {

// How long a failed run may still be retried on the data that it read.
constexpr int64_t kRetryMs = 7 * 86'400'000LL;

}  // namespace

int command_status(const Invocation& invocation, const LookArguments& arguments) {
  const StateLocation location = state_location();
  const std::unique_ptr<Database> database = open_existing_database(location);
  std::vector<RunRow> runs;
  if (arguments.run != 0) {
    if (arguments.pipeline.empty())
      fail(ErrorKind::invalid_argument, "a run's number goes with its pipeline: --pipeline NAME");
    const std::optional<RunRow> run = find_run(*database, arguments.pipeline, arguments.run);
    if (!run)
      fail(ErrorKind::not_found, "pipeline {} has no run {} in {}", arguments.pipeline, arguments.run,
           database->title());
    runs.push_back(*run);
  } else {
    runs = list_runs(*database, arguments.pipeline, arguments.limit);
  }
  if (arguments.json) {
    Json all = Json::array();
    for (const RunRow& run : runs) all.push_back(status_json(view_run(*database, run, 100)));
    *invocation.out << Json{{"runs", all}}.dump(2) << "\n";
    return 0;
  }
  if (runs.empty()) {
    *invocation.out << "no runs yet in " << database->title() << "\n";
    return 0;
  }
  const RunView last = view_run(*database, runs.front(), 20);
  if (runs.size() > 1) *invocation.out << runs_text(runs, last.now_ms) << "\n";
  if (last.run.status == RunStatus::running && invocation.out_is_terminal && !arguments.once) {
    show_live(*invocation.out, location, last.run.id, [&] { return invocation.stop != nullptr && *invocation.stop; });
  } else {
    *invocation.out << status_text(last);
  }
  return 0;
}

int command_cancel(const Invocation& invocation, const LookArguments& arguments) {
  const std::unique_ptr<Database> database = open_existing_database(state_location());
  const std::optional<RunRow> run = find_run(*database, arguments.pipeline, arguments.run);
  if (!run)
    fail(ErrorKind::not_found, "pipeline {} has no run {} in {}", arguments.pipeline, arguments.run, database->title());
  database->begin();
  const bool cancelled = cancel_run(*database, run->id);
  database->commit();
  if (!cancelled) {
    *invocation.err << fmt::format("{}: run {} has ended: it is {}\n", invocation.program, run->number,
                                   to_string(run->status));
    return kFailed;
  }
  *invocation.out << fmt::format("{} run {} is cancelled; its runners end within a moment\n", run->pipeline,
                                 run->number);
  return 0;
}

ExpireRequest expire_request() {
  ExpireRequest request;
  std::unique_ptr<Database> database;
  try {
    database = open_existing_database(state_location());
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::not_found) return request;  // no runs, nothing to spare
    throw;
  }
  database->begin();  // one moment's view of the three
  request.pins = open_pins(*database, kRetryMs);
  request.floors = open_floors(*database, kRetryMs);
  request.oldest_start_ms = oldest_open_start_ms(*database, kRetryMs);
  database->commit();
  return request;
}

int command_expire(const Invocation& invocation, const ExpireArguments& arguments) {
  if (!invocation.expire) fail(ErrorKind::unsupported, "this program is built without tables");
  ExpireRequest request = expire_request();
  request.datasets = arguments.datasets;
  request.dry_run = arguments.dry_run;
  const std::vector<ExpiredTable> tables = invocation.expire(request);
  bool any_failed = false;
  Json all = Json::array();
  for (const ExpiredTable& table : tables) {
    any_failed = any_failed || !table.error.empty();
    if (arguments.json) {
      all.push_back({{"dataset", table.dataset},
                     {"snapshots", table.snapshots},
                     {"files", table.files},
                     {"bytes", table.bytes},
                     {"pinned", table.pinned},
                     {"error", table.error.empty() ? Json(nullptr) : Json(table.error)}});
    } else if (!table.error.empty()) {
      *invocation.err << fmt::format("{}: {}: {}\n", invocation.program, table.dataset, table.error);
    } else {
      *invocation.out << fmt::format("{}: {} {} {}, {} {}, {} bytes{}\n", table.dataset,
                                     arguments.dry_run ? "would expire" : "expired", table.snapshots,
                                     table.snapshots == 1 ? "snapshot" : "snapshots", table.files,
                                     table.files == 1 ? "file" : "files", table.bytes,
                                     table.pinned > 0 ? fmt::format("; {} more are held by runs", table.pinned) : "");
    }
  }
  if (arguments.json) {
    *invocation.out << Json{{"tables", all}}.dump(2) << "\n";
  } else if (tables.empty()) {
    *invocation.out << "no table here says how long its history is kept (history.expire.max-snapshot-age-ms)\n";
  }
  return any_failed ? kFailed : 0;
}

}  // namespace firn::orca
