#include "orca/status.h"

#include <algorithm>
#include <chrono>
#include <ostream>
#include <thread>

#include "base/civil_time.h"
#include "base/clock.h"

namespace firn::orca {
namespace {

constexpr size_t kRunningShown = 8;

std::string time_text(int64_t ms) { return format_timestamp_ms_utc(ms).substr(0, 19) + "Z"; }

std::string count_text(int64_t count) { return count == 0 ? "" : std::to_string(count); }

// Cells in columns; the first is left-aligned, the others right.
std::string table_text(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line = " ";
    for (size_t i = 0; i < row.size(); ++i) {
      line += i == 0 ? fmt::format(" {:<{}}", row[i], widths[i]) : fmt::format("  {:>{}}", row[i], widths[i]);
    }
    while (line.ends_with(' ')) line.pop_back();
    text += line + "\n";
  }
  return text;
}

std::string error_text(const std::string& error) {
  const Json json = Json::parse(error, nullptr, false);
  if (!json.is_object()) return error;
  std::string text = json.value("kind", "") + ": " + json.value("message", "");
  if (json.contains("causes")) {
    for (const Json& cause : json["causes"]) text += "\n      caused by: " + cause.get<std::string>();
  }
  return text;
}

const char* status_word(const RunView& view) {
  if (view.run.status == RunStatus::running && view.runners == 0)
    return "running, but no runner is alive (resume goes on)";
  return to_string(view.run.status).data();
}

}  // namespace

std::string duration_text(int64_t ms) {
  if (ms < 60'000) return fmt::format("{:.1f} s", static_cast<double>(ms) / 1'000);
  if (ms < 3'600'000) return fmt::format("{} min {} s", ms / 60'000, ms / 1'000 % 60);
  return fmt::format("{} h {} min", ms / 3'600'000, ms / 60'000 % 60);
}

Json status_json(const RunView& view) {
  const auto maybe = [](const std::optional<int64_t>& value) { return value ? Json(*value) : Json(nullptr); };
  Json steps = Json::array();
  for (const StepView& step : view.steps) {
    steps.push_back({{"name", step.name},
                     {"status", step.status},
                     {"mapped", step.mapped},
                     {"total", step.total},
                     {"done", step.done},
                     {"failed", step.failed},
                     {"skipped", step.skipped},
                     {"running", step.running},
                     {"ready", step.ready},
                     {"waiting", step.waiting},
                     {"startedMs", maybe(step.started_ms)},
                     {"finishedMs", maybe(step.finished_ms)}});
    if (!step.result.empty()) steps.back()["result"] = Json::parse(step.result, nullptr, false);
  }
  Json failures = Json::array();
  for (const FailureView& failure : view.failures) {
    const Json error = Json::parse(failure.error, nullptr, false);
    failures.push_back({{"step", failure.step},
                        {"key", failure.partition},
                        {"attempt", failure.attempt},
                        {"error", error.is_discarded() ? Json(failure.error) : error}});
  }
  Json running = Json::array();
  for (const RunningView& one : view.running) {
    running.push_back({{"step", one.step},
                       {"key", one.partition},
                       {"attempt", one.attempt},
                       {"startedMs", one.started_ms},
                       {"runner", one.runner},
                       {"host", one.host},
                       {"leaseOver", one.lease_over}});
  }
  return {{"pipeline", view.run.pipeline},
          {"run", view.run.number},
          {"id", view.run.id},
          {"kind", view.run.kind},
          {"status", to_string(view.run.status)},
          {"code", view.run.code},
          {"scheduledMs", maybe(view.run.scheduled_ms)},
          {"createdMs", view.run.created_ms},
          {"finishedMs", maybe(view.run.finished_ms)},
          {"runners", view.runners},
          {"steps", steps},
          {"running", running},
          {"failures", failures}};
}

std::string status_text(const RunView& view) {
  const RunRow& run = view.run;
  const bool is_open = run.status == RunStatus::running;
  std::string text = fmt::format("{} run {} ({}): {}\n", run.pipeline, run.number, run.kind, status_word(view));
  text += fmt::format("  started {}, {} {}{}\n", time_text(run.created_ms), is_open ? "for" : "took",
                      duration_text(std::max<int64_t>(0, run.finished_ms.value_or(view.now_ms) - run.created_ms)),
                      is_open && view.runners > 1 ? fmt::format(", {} runners", view.runners) : "");
  std::vector<std::vector<std::string>> rows = {
      {"step", "status", "keys", "done", "running", "ready", "waiting", "failed", "skipped", "time"}};
  for (const StepView& step : view.steps) {
    std::string time;
    if (step.started_ms)
      time = duration_text(std::max<int64_t>(
          0,
          (step.running + step.ready > 0 || !step.finished_ms ? view.now_ms : *step.finished_ms) - *step.started_ms));
    if (!is_open && !step.finished_ms) time.clear();
    rows.push_back({step.name, step.status, step.mapped ? std::to_string(step.total) : "", count_text(step.done),
                    count_text(step.running), count_text(step.ready), count_text(step.waiting), count_text(step.failed),
                    count_text(step.skipped), time});
  }
  text += table_text(rows);
  if (!view.running.empty()) {
    text += is_open ? "  running\n" : "  was running\n";
    for (size_t i = 0; i < std::min(kRunningShown, view.running.size()); ++i) {
      const RunningView& one = view.running[i];
      text += fmt::format("    {}{}{}, attempt {}, {} on {}{}\n", one.step, one.partition.empty() ? "" : " ",
                          one.partition, one.attempt, duration_text(std::max<int64_t>(0, view.now_ms - one.started_ms)),
                          one.host, one.lease_over ? ", which has died" : "");
    }
    if (view.running.size() > kRunningShown)
      text += fmt::format("    and {} more\n", view.running.size() - kRunningShown);
  }
  if (!view.failures.empty()) {
    int64_t failed = 0;
    for (const StepView& step : view.steps) failed += step.failed;
    text += "  failed\n";
    for (const FailureView& failure : view.failures) {
      text += fmt::format("    {}{}{}, attempt {}: {}\n", failure.step, failure.partition.empty() ? "" : " ",
                          failure.partition, failure.attempt, error_text(failure.error));
    }
    if (failed > static_cast<int64_t>(view.failures.size())) {
      text += fmt::format("    and {} more\n", failed - static_cast<int64_t>(view.failures.size()));
    }
  }
  return text;
}

std::string runs_text(const std::vector<RunRow>& runs, int64_t now_ms) {
  std::vector<std::vector<std::string>> rows = {{"pipeline", "run", "kind", "status", "started", "time"}};
  for (const RunRow& run : runs) {
    rows.push_back({run.pipeline, std::to_string(run.number), run.kind, std::string(to_string(run.status)),
                    time_text(run.created_ms),
                    run.finished_ms || run.status == RunStatus::running
                        ? duration_text(std::max<int64_t>(0, run.finished_ms.value_or(now_ms) - run.created_ms))
                        : ""});
  }
  return table_text(rows);
}

void show_live(std::ostream& out, const StateLocation& location, const std::string& run_id,
               const std::function<bool()>& ended) {
  std::unique_ptr<Database> database;
  size_t drawn = 0;
  for (;;) {
    const bool last = ended();
    std::optional<RunView> view;
    try {
      if (!database) database = open_existing_database(location);
      const std::optional<RunRow> run = find_run_by_id(*database, run_id);
      if (!run) return;
      view = view_run(*database, *run, 5);
    } catch (const Error&) {  // looked at again in a moment: only a picture is late
      database.reset();
    }
    if (view) {
      const std::string text = status_text(*view);
      if (drawn > 0) out << "\x1b[" << drawn << "A\x1b[J";
      out << text << std::flush;
      drawn = static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
      if (view->run.status != RunStatus::running) return;
    }
    if (last) return;
    for (int i = 0; i < 10 && !ended(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

}  // namespace firn::orca
