// sink run, sink status, sink reset.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <ostream>

#include "base/civil_time.h"
#include "base/clock.h"
#include "cli/hyp/command.h"
#include "hyp/sink/reset.h"

namespace firn::hyp {
namespace {

std::string names_of(const std::vector<SinkConfig>& sinks) {
  std::string names;
  for (const SinkConfig& sink : sinks) names += (names.empty() ? "" : ", ") + sink.name;
  return names.empty() ? "none" : names;
}

// `hint` ends the message where a sink is not there.
std::vector<const SinkConfig*> chosen(const Config& config, const SinkArguments& arguments, const char* hint = "") {
  std::vector<const SinkConfig*> sinks;
  for (const std::string& name : arguments.names) {
    const auto found = std::find_if(config.sinks.begin(), config.sinks.end(),
                                    [&](const SinkConfig& sink) { return sink.name == name; });
    if (found == config.sinks.end())
      fail(ErrorKind::not_found, "there is no sink \"{}\" in the configuration {}{}; there are: {}", name, config.path,
           hint, names_of(config.sinks));
    sinks.push_back(&*found);
  }
  if (arguments.names.empty()) {
    for (const SinkConfig& sink : config.sinks) sinks.push_back(&sink);
    if (sinks.empty())
      fail(ErrorKind::not_found, "the configuration {} has no sinks", config.path.empty() ? "(defaults)" : config.path);
  }
  return sinks;
}

PartitionChoice choice_of(const SinkArguments& arguments) {
  PartitionChoice choice;
  if (arguments.partition.empty()) return choice;
  const size_t slash = arguments.partition.find('/');
  choice.dataset = arguments.partition.substr(0, slash);
  if (slash != std::string::npos) choice.source = arguments.partition.substr(slash + 1);
  return choice;
}

// Whether the sink is meant where no name says so.
bool ships_any_of(const SinkConfig& sink, const PartitionChoice& choice) {
  return !choice.dataset || sink.datasets.empty() ||
         std::find(sink.datasets.begin(), sink.datasets.end(), *choice.dataset) != sink.datasets.end();
}

Json or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }
Json time_or_null(const std::optional<int64_t>& time_ms) {
  return time_ms ? Json(format_timestamp_ms_utc(*time_ms)) : Json(nullptr);
}

std::string format_age_ms(int64_t ms) {
  const double seconds = static_cast<double>(std::max<int64_t>(ms, 0)) / 1000;
  if (seconds < 120) return fmt::format("{:.0f} s", seconds);
  if (seconds < 7200) return fmt::format("{:.0f} min", seconds / 60);
  if (seconds < 172'800) return fmt::format("{:.1f} h", seconds / 3600);
  return fmt::format("{:.1f} d", seconds / 86'400);
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
                {"recognisedUnits", run.recognised_units},
                {"rowsPutAside", run.rows_put_aside}};
    one["watermark"] = run.watermark ? Json(*run.watermark) : Json(nullptr);
    if (!run.note.empty()) one["note"] = run.note;
    if (!run.error.empty()) {
      one["error"] = {{"kind", run.error_kind}, {"message", run.error}};
      one["attempts"] = run.attempts;
      one["nextTryAt"] = time_or_null(run.next_try_ms);
    }
    partitions.push_back(std::move(one));
  }
  return {{"sink", report.sink},
          {"rows", report.rows()},
          {"bytes", report.bytes()},
          {"units", report.units()},
          {"partitions", partitions}};
}

// `is_interrupted`: what came out is not all that the run would have done.
void print_report(const SinkRunReport& report, int64_t micros, bool is_interrupted, const Invocation& invocation) {
  std::ostream& out = *invocation.out;
  int64_t recognised = 0;
  for (const PartitionRun& run : report.partitions) recognised += run.recognised_units;
  if (report.units() == 0 && recognised == 0) {
    out << report.sink << (report.failed() || is_interrupted ? ": nothing was shipped\n" : ": nothing new\n");
  } else {
    out << report.sink << ": shipped " << format_counted(report.rows(), "row") << " (" << format_bytes(report.bytes())
        << ") in " << format_counted(report.units(), "unit") << ", " << format_duration_us(micros);
    if (recognised > 0)
      out << "; " << format_counted(recognised, "unit of an earlier run was", "units of an earlier run were")
          << " there already";
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
    bool failed = !flushed.problems.empty(), any_put_aside = false;
    Json all = Json::array();
    const char* hint = invocation.service != nullptr ? " as the daemon read it at its start: restart it" : "";
    for (const SinkConfig* sink : chosen(service.config(), arguments, hint)) {
      if (arguments.names.empty() && !ships_any_of(*sink, choice_of(arguments))) continue;
      warn_of_unknown_datasets(service.cache(), *sink, invocation);
      const int64_t started_us = steady_us();
      SinkRunReport report;
      {
        Progress progress(invocation);
        SinkRunOptions options;
        options.partition = choice_of(arguments);
        options.cancelled = invocation.cancelled;
        options.progress = [&](const PartitionId& partition, int64_t rows) {
          progress.say(fmt::format("{}: {}: {} shipped", sink->name, title(partition), format_counted(rows, "row")));
        };
        options.waiting = [&](const std::string& text) { progress.note(fmt::format("hyp: {}: {}", sink->name, text)); };
        report = run_sink(service.cache(), *sink, options);
      }
      failed = failed || report.failed();
      any_put_aside = any_put_aside || report.rows_put_aside() > 0;
      if (arguments.json) {
        all.push_back(to_json(report));
      } else {
        print_report(report, steady_us() - started_us, *invocation.cancelled, invocation);
      }
    }
    if (arguments.json) *invocation.out << all.dump(2) << "\n";
    return unless_interrupted(invocation, failed ? kFailed : any_put_aside ? kSomeRejected : 0);
  });
}

namespace {

Json to_json(const std::string& sink, const SinkPartitionStatus& status) {
  Json json = {{"sink", sink},
               {"dataset", status.partition.dataset},
               {"source", status.partition.source},
               {"unreadable", status.is_unreadable},
               {"watermark", status.watermark ? Json(*status.watermark) : Json(nullptr)},
               {"highestSequence", status.highest_seq},
               {"rowsBehind", status.rows_behind},
               {"oldestBehindAt", time_or_null(status.oldest_behind_ms)},
               {"lagMs", status.oldest_behind_ms ? Json(std::max<int64_t>(0, now_ms() - *status.oldest_behind_ms))
                                                 : Json(nullptr)},
               {"exportedRows", status.exported_rows},
               {"exportedBytes", status.exported_bytes},
               {"exportedBytesSince", or_null(status.bytes_since)},
               {"deadLetters", status.dead_letters},
               {"deadLettersPath", or_null(status.dead_letters_path)},
               {"updatedAt", or_null(status.updated_at)},
               {"lastSuccessAt", or_null(status.shipped_at)},
               {"pending", nullptr},
               {"lastError", nullptr}};
  if (const auto& pending = status.pending) {
    json["pending"] = {{"open", pending->open_id},
                       {"since", pending->since},
                       {"until", pending->until},
                       {"rows", pending->rows},
                       {"announcedAt", or_null(pending->announced_at)}};
  }
  if (!status.last_error.empty()) json["lastError"] = {{"message", status.last_error}};
  if (const auto& failed = status.outbox; failed && !status.is_unreadable) {
    json["lastError"].update({{"kind", failed->error_kind},
                              {"attempts", failed->attempts},
                              {"firstFailureAt", time_or_null(failed->first_failure_ms)},
                              {"lastFailureAt", time_or_null(failed->last_failure_ms)},
                              {"nextTryAt", time_or_null(failed->next_try_ms)}});
  }
  return json;
}

// Whether a run of the sink, which may be waiting for its destination, has its lock.
bool is_under_way(const Config& config, const SinkConfig& sink) {
  const std::string lock = sink_lock_path(config.state_dir, sink.name);
  return std::filesystem::exists(lock) && !FileLock::try_acquire(lock, FileLock::Mode::shared);
}

std::string describe_pending(const SinkPartitionStatus& status) {
  if (!status.pending) return "";
  const PendingUnit& unit = *status.pending;
  return fmt::format("({}, {}], {}{}", unit.since, unit.until, format_counted(unit.rows, "row"),
                     unit.announced_at.empty() ? "" : ", since " + unit.announced_at);
}

std::string describe_bytes(const SinkPartitionStatus& status) {
  return format_bytes(status.exported_bytes) + (status.bytes_since.empty() ? "" : " since " + status.bytes_since);
}

std::string describe_error(const SinkPartitionStatus& status) {
  if (!status.outbox || status.is_unreadable) return status.last_error;
  const OutboxEntry& failed = *status.outbox;
  const std::string since = format_timestamp_ms_utc(failed.first_failure_ms);
  return fmt::format("{}, {}; {}: {}", failed.error_kind,
                     failed.attempts == 1 ? "at " + since : fmt::format("{} times since {}", failed.attempts, since),
                     failed.next_try_ms ? "next try at " + format_timestamp_ms_utc(*failed.next_try_ms)
                                        : std::string("it waits for you, or for the next scheduled run"),
                     failed.error);
}

}  // namespace

int command_sink_status(const Config& config, const Invocation& invocation, const SinkArguments& arguments) {
  const Cache cache(config);
  Json all = Json::array();
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> remarks;  // below the table
  bool any_unreadable = false;
  for (const SinkConfig* sink : chosen(config, arguments)) {
    if (arguments.names.empty() && !ships_any_of(*sink, choice_of(arguments))) continue;
    warn_of_unknown_datasets(cache, *sink, invocation);
    const bool is_running = is_under_way(config, *sink);
    if (is_running) remarks.push_back(sink->name + ": a run is under way");
    for (const SinkPartitionStatus& status : sink_status(cache, *sink, choice_of(arguments))) {
      any_unreadable = any_unreadable || status.is_unreadable;
      all.push_back(to_json(sink->name, status));
      all.back()["underWay"] = is_running;
      rows.push_back({sink->name, title(status.partition), status.watermark ? std::to_string(*status.watermark) : "-",
                      status.is_unreadable ? "?" : format_count(status.rows_behind),
                      status.oldest_behind_ms ? format_age_ms(now_ms() - *status.oldest_behind_ms) : "-",
                      format_count(status.exported_rows), describe_bytes(status),
                      status.shipped_at.empty() ? "-" : status.shipped_at, describe_pending(status),
                      status.last_error.empty() ? "" : "yes, see below"});
      if (status.dead_letters > 0) {
        remarks.push_back(fmt::format("{}: {}: {} in {}", sink->name, title(status.partition),
                                      format_counted(status.dead_letters, "row that the receiver can never take is",
                                                     "rows that the receiver can never take are"),
                                      status.dead_letters_path));
      }
      if (!status.last_error.empty()) {
        remarks.push_back(fmt::format("{}: {}: {}", sink->name, title(status.partition), describe_error(status)));
      }
    }
  }
  if (arguments.json) {
    *invocation.out << all.dump(2) << "\n";
  } else if (rows.empty()) {
    *invocation.out << "nothing was ingested yet\n";
  } else {
    std::vector<std::string> titles = {"sink",         "dataset",       "watermark",    "rows behind", "behind since",
                                       "rows shipped", "bytes shipped", "last shipped", "announced",   "failed"};
    for (size_t column : {9, 8}) {  // most often there is nothing to say
      if (std::any_of(rows.begin(), rows.end(), [&](const auto& row) { return !row[column].empty(); })) continue;
      titles.erase(titles.begin() + static_cast<std::ptrdiff_t>(column));
      for (auto& row : rows) row.erase(row.begin() + static_cast<std::ptrdiff_t>(column));
    }
    print_table(*invocation.out, titles, rows);
    for (const std::string& remark : remarks) *invocation.out << remark << "\n";
  }
  return any_unreadable ? kFailed : 0;
}

namespace {

Json to_json(const SinkReset& reset) {
  const auto place = [](const std::optional<int64_t>& seq) { return seq ? Json(*seq) : Json(nullptr); };
  Json partitions = Json::array();
  for (const PartitionReset& one : reset.partitions) {
    Json json = {{"dataset", one.partition.dataset},
                 {"source", one.partition.source},
                 {"watermark", place(one.watermark_before)},
                 {"to", place(one.watermark_after)},
                 {"rowsSkipped", one.rows_skipped},
                 {"rowsRepeated", one.rows_repeated},
                 {"rowsMissed", one.rows_missed},
                 {"rowsToSend", one.rows_to_send},
                 {"dropsPending", one.drops_pending}};
    if (!one.note.empty()) json["note"] = one.note;
    if (!one.error.empty()) json["error"] = {{"kind", one.error_kind}, {"message", one.error}};
    partitions.push_back(std::move(json));
  }
  return {{"sink", reset.sink}, {"done", reset.is_done}, {"partitions", partitions}};
}

void print_reset(const SinkReset& reset, std::ostream& out) {
  const auto place = [](const std::optional<int64_t>& seq) { return seq ? std::to_string(*seq) : "the start"; };
  for (const PartitionReset& one : reset.partitions) {
    out << reset.sink << ": " << title(one.partition) << ": ";
    if (!one.error.empty()) {
      out << "cannot be reset: " << one.error << "\n";
      continue;
    }
    if (one.watermark_before == one.watermark_after) {
      out << "stays at " << place(one.watermark_after);
    } else {
      out << "from " << place(one.watermark_before) << " to "
          << (one.is_start ? "the start" : place(one.watermark_after));
    }
    if (one.rows_skipped > 0)
      out << "; " << format_counted(one.rows_skipped, "row is", "rows are") << " skipped, never to be sent";
    if (one.rows_repeated > 0)
      out << "; " << format_counted(one.rows_repeated, "row that counts as sent is", "rows that count as sent are")
          << " sent again";
    if (one.rows_missed > 0)
      out << "; "
          << format_counted(one.rows_missed, "row that the destination lost is", "rows that the destination lost are")
          << " sent again";
    out << "; the cache has " << format_counted(one.rows_to_send, "row") << " to send after it";
    if (one.drops_pending) out << "; the announced unit is forgotten";
    out << "\n";
    if (!one.note.empty()) out << "  " << one.note << "\n";
    if (reset.is_done && one.watermark_before && one.watermark_before != one.watermark_after) {
      out << "  it was at " << *one.watermark_before << ": --to " << *one.watermark_before << " goes back\n";
    }
  }
}

// A person's "y" or "yes"; anything else, the end of input and an interruption are no.
bool ask(const Invocation& invocation, const std::string& question) {
  *invocation.err << question << " [y/N] " << std::flush;
  std::string answer;
  for (;;) {
    if (invocation.cancelled != nullptr && *invocation.cancelled) return false;
    pollfd readable{invocation.in, POLLIN, 0};
    const int ready = ::poll(&readable, 1, 200);
    if (ready < 0 && errno != EINTR) return false;
    if (ready <= 0) continue;
    char c = 0;
    const ssize_t got = ::read(invocation.in, &c, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0 || c == '\n') break;
    answer += c;
  }
  return answer == "y" || answer == "Y" || answer == "yes";
}

}  // namespace

int command_sink_reset(const Config& config, const Invocation& invocation, const SinkArguments& arguments) {
  const ResetTarget target = parse_reset_target(arguments.to);
  chosen(config, arguments);
  if (!arguments.yes && !arguments.dry_run && ::isatty(invocation.in) == 0) {
    *invocation.err << "hyp: standard input is no terminal, so nobody can be asked: give --yes, or --dry-run\n";
    return kUsage;
  }
  return with_service(config, invocation, [&](Service& service) {
    const SinkConfig& sink = service.sink(arguments.names.at(0));
    // What is spooled has no number yet; it is meant, too.
    const FlushReport flushed = service.flush();
    for (const std::string& problem : flushed.problems) *invocation.err << "hyp: " << problem << "\n";
    ResetOptions options;
    options.partition = choice_of(arguments);
    options.dry_run = arguments.dry_run;
    options.cancelled = invocation.cancelled;
    options.waiting = [&](const std::string& text) {
      *invocation.err << "hyp: " << sink.name << ": " << text << std::endl;
    };
    bool is_declined = false;
    if (!arguments.yes) {
      options.confirm = [&](const SinkReset& plan) {
        print_reset(plan, *invocation.err);
        is_declined = !ask(invocation, "Do it?");
        return !is_declined;
      };
    }
    const SinkReset reset = reset_sink(service.cache(), sink, target, options);
    if (arguments.json) {
      *invocation.out << to_json(reset).dump(2) << "\n";
    } else if (is_declined) {
      *invocation.err << "hyp: nothing was changed\n";
    } else {
      print_reset(reset, *invocation.out);
      if (arguments.dry_run) *invocation.out << "nothing was changed (--dry-run)\n";
    }
    const bool failed = !flushed.problems.empty() || reset.failed() || is_declined;
    return unless_interrupted(invocation, failed ? kFailed : 0);
  });
}

}  // namespace firn::hyp
