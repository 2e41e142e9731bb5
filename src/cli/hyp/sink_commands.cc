// sink run, sink status.
#include <algorithm>
#include <ostream>

#include "base/clock.h"
#include "cli/hyp/command.h"

namespace firn::hyp {
namespace {

// `hint` ends the message where a sink is not there.
std::vector<const SinkConfig*> chosen(const Config& config, const SinkArguments& arguments, const char* hint = "") {
  std::vector<const SinkConfig*> sinks;
  for (const std::string& name : arguments.names) {
    const auto found = std::find_if(config.sinks.begin(), config.sinks.end(),
                                    [&](const SinkConfig& sink) { return sink.name == name; });
    if (found == config.sinks.end())
      fail(ErrorKind::not_found, "there is no sink \"{}\" in the configuration {}{}", name, config.path, hint);
    sinks.push_back(&*found);
  }
  if (arguments.names.empty()) {
    for (const SinkConfig& sink : config.sinks) sinks.push_back(&sink);
    if (sinks.empty())
      fail(ErrorKind::not_found, "the configuration {} has no sinks", config.path.empty() ? "(defaults)" : config.path);
  }
  return sinks;
}

// A misspelt one ships nothing for ever.
void warn_of_unknown_datasets(const Cache& cache, const SinkConfig& sink, const Invocation& invocation) {
  std::vector<std::string> known = cache.datasets();
  for (const auto& [name, dataset] : cache.config().datasets) known.push_back(name);
  for (const std::string& name : sink.datasets) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string* nearest = nearest_name(name, known);
    *invocation.err << "hyp: warning: sink " << sink.name << ": dataset \"" << name
                    << "\" is not declared, and the cache has no rows of it"
                    << (nearest != nullptr ? "; did you mean \"" + *nearest + "\"?" : "") << "\n";
  }
}

Json to_json(const SinkRunReport& report) {
  Json partitions = Json::array();
  for (const PartitionRun& run : report.partitions) {
    Json one = {{"dataset", run.partition.dataset},
                {"source", run.partition.source},
                {"rows", run.rows},
                {"bytes", run.bytes},
                {"units", run.units},
                {"recognisedUnits", run.recognised_units}};
    one["watermark"] = run.watermark ? Json(*run.watermark) : Json(nullptr);
    if (!run.note.empty()) one["note"] = run.note;
    if (!run.error.empty()) one["error"] = {{"kind", run.error_kind}, {"message", run.error}};
    partitions.push_back(std::move(one));
  }
  return {{"sink", report.sink},
          {"rows", report.rows()},
          {"bytes", report.bytes()},
          {"units", report.units()},
          {"partitions", partitions}};
}

void print_report(const SinkRunReport& report, int64_t micros, const Invocation& invocation) {
  std::ostream& out = *invocation.out;
  int64_t recognised = 0;
  for (const PartitionRun& run : report.partitions) recognised += run.recognised_units;
  if (report.units() == 0 && recognised == 0 && !report.failed()) {
    out << report.sink << ": nothing new\n";
  } else {
    out << report.sink << ": shipped " << format_count(report.rows()) << " rows (" << format_bytes(report.bytes())
        << ") in " << report.units() << (report.units() == 1 ? " unit, " : " units, ") << format_duration_us(micros);
    if (recognised > 0) out << "; " << recognised << " units of an earlier run were there already";
    out << "\n";
  }
  for (const PartitionRun& run : report.partitions) {
    if (!run.note.empty()) out << report.sink << ": " << title(run.partition) << ": " << run.note << "\n";
    if (!run.error.empty())
      *invocation.err << "hyp: " << report.sink << ": " << title(run.partition) << ": " << run.error << "\n";
  }
}

}  // namespace

int command_sink_run(const Config& config, const Invocation& invocation, const SinkArguments& arguments) {
  chosen(config, arguments);
  return with_service(config, invocation, [&](Service& service) {
    // What is spooled is shipped too.
    const FlushReport flushed = service.flush();
    for (const std::string& problem : flushed.problems) *invocation.err << "hyp: " << problem << "\n";
    bool failed = !flushed.problems.empty();
    Json all = Json::array();
    const char* hint = invocation.service != nullptr ? " as the daemon read it at its start: restart it" : "";
    for (const SinkConfig* sink : chosen(service.config(), arguments, hint)) {
      warn_of_unknown_datasets(service.cache(), *sink, invocation);
      const int64_t started_us = steady_us();
      SinkRunReport report;
      {
        Progress progress(invocation);
        SinkRunOptions options;
        options.cancelled = invocation.cancelled;
        options.progress = [&](const PartitionId& partition, int64_t rows) {
          progress.say(fmt::format("{}: {}: {} rows shipped", sink->name, title(partition), format_count(rows)));
        };
        report = run_sink(service.cache(), *sink, options);
      }
      failed = failed || report.failed();
      if (arguments.json) {
        all.push_back(to_json(report));
      } else {
        print_report(report, steady_us() - started_us, invocation);
      }
    }
    if (arguments.json) *invocation.out << all.dump(2) << "\n";
    return unless_interrupted(invocation, failed ? kFailed : 0);
  });
}

int command_sink_status(const Config& config, const Invocation& invocation, const SinkArguments& arguments) {
  const Cache cache(config);
  Json all = Json::array();
  std::vector<std::vector<std::string>> rows;
  bool any_unreadable = false;
  for (const SinkConfig* sink : chosen(config, arguments)) {
    warn_of_unknown_datasets(cache, *sink, invocation);
    for (const SinkPartitionStatus& status : sink_status(cache, *sink)) {
      any_unreadable = any_unreadable || status.is_unreadable;
      all.push_back({{"sink", sink->name},
                     {"dataset", status.partition.dataset},
                     {"source", status.partition.source},
                     {"unreadable", status.is_unreadable},
                     {"watermark", status.watermark ? Json(*status.watermark) : Json(nullptr)},
                     {"highestSequence", status.highest_seq},
                     {"rowsBehind", status.rows_behind},
                     {"exportedRows", status.exported_rows},
                     {"updatedAt", status.updated_at},
                     {"pending", status.pending},
                     {"lastError", status.last_error.empty() ? Json(nullptr) : Json(status.last_error)}});
      rows.push_back({sink->name, title(status.partition), status.watermark ? std::to_string(*status.watermark) : "-",
                      status.is_unreadable ? "?" : format_count(status.rows_behind), format_count(status.exported_rows),
                      status.updated_at, status.pending ? "pending" : "", status.last_error});
    }
  }
  if (arguments.json) {
    *invocation.out << all.dump(2) << "\n";
  } else if (rows.empty()) {
    *invocation.out << "nothing was ingested yet\n";
  } else {
    print_table(*invocation.out, {"sink", "dataset", "watermark", "rows behind", "rows shipped", "updated", "", ""},
                rows);
  }
  return any_unreadable ? kFailed : 0;
}

}  // namespace firn::hyp
