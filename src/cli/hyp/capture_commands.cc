// init, ingest, collect, flush.
#include <filesystem>
#include <ostream>

#include "base/clock.h"
#include "base/uri.h"
#include "cli/hyp/command.h"

namespace firn::hyp {
namespace {

std::string rejects_path(const std::string& cache_root, const std::string& dataset) {
  return join_path(cache_root, "rejects/" + encode_segment(dataset) + ".ndjson");
}

// `path` as a pattern that matches it alone (glob(7)).
std::string glob_escape(const std::string& path) {
  std::string pattern;
  for (const char c : path) {
    if (c == '*' || c == '?' || c == '[' || c == '\\') pattern += '\\';
    pattern += c;
  }
  return pattern;
}

// Flushes and says what became of rows; kSomeRejected where any was rejected since `rejected_before`.
int flush_and_report(Service& service, const Invocation& invocation, const std::string& dataset,
                     int64_t rejected_before) {
  const FlushReport report = service.flush();
  std::ostream& out = *invocation.out;
  if (const auto rows = report.rows_by_dataset.find(dataset); rows != report.rows_by_dataset.end()) {
    out << dataset << ": " << format_count(rows->second) << " rows are in the cache\n";
  }
  for (const std::string& problem : report.problems) *invocation.err << "hyp: " << problem << "\n";
  const int64_t rejected = service.rejected(dataset) - rejected_before;
  if (rejected > 0) {
    out << dataset << ": " << format_count(rejected) << " rows were rejected and set aside in "
        << rejects_path(service.config().cache_root, dataset) << "\n";
    int64_t shown = 0;
    for (const Rejected& one : report.first_rejected) {
      if (one.dataset != dataset || shown == 5) continue;
      ++shown;
      out << "  line " << one.line << (one.column.empty() ? "" : ", column " + one.column) << ": " << one.reason
          << "\n";
    }
    if (shown > 0 && rejected > shown) out << "  …\n";
  }
  if (!report.problems.empty()) return kFailed;
  return rejected > 0 ? kSomeRejected : 0;
}

void add(CaptureReport& total, const CaptureReport& one) {
  total.lines += one.lines;
  total.bytes += one.bytes;
  total.lines_skipped += one.lines_skipped;
}

}  // namespace

int command_init(const Invocation& invocation, const std::string& path) {
  const std::string file = absolute_path(invocation, path);
  if (!link_new_file(file, initial_config_text()))
    fail(ErrorKind::already_exists, "{} is there already; it was left as it is", file);
  *invocation.out << "wrote " << file << "\n";
  return 0;
}

int command_ingest(const Config& config, const Invocation& invocation, const IngestArguments& arguments) {
  config.dataset(arguments.dataset);  // a wrong name is told before anything waits
  return with_service(config, invocation, [&](Service& service) {
    const int64_t started_us = steady_us();
    const int64_t rejected_before = service.rejected(arguments.dataset);
    CaptureReport total;
    {
      Progress progress(invocation);
      CaptureOptions options;
      options.dataset = arguments.dataset;
      options.source = arguments.source;
      options.row_bytes_max = service.config().dataset(arguments.dataset).row_bytes_max;
      options.cancelled = invocation.cancelled;
      options.progress = [&](const CaptureReport& now) {
        progress.say(fmt::format("{}: {} rows, {} taken", arguments.dataset, format_count(total.lines + now.lines),
                                 format_bytes(total.bytes + now.bytes)));
      };
      const std::vector<std::string> standard_input = {"-"};
      for (const std::string& file : arguments.files.empty() ? standard_input : arguments.files) {
        if (*invocation.cancelled) break;
        service.check_capture(arguments.dataset, arguments.source);
        options.id = file == "-" ? arguments.id : "";
        options.atomic = file == "-" && arguments.atomic;
        add(total, file == "-" ? ingest_pipe(service.spool(), invocation.in, options)
                               : ingest_file(service.spool(), absolute_path(invocation, file), options));
      }
    }
    *invocation.out << arguments.dataset << ": took " << format_count(total.lines) << " rows ("
                    << format_bytes(total.bytes) << ")";
    if (total.lines_skipped > 0)
      *invocation.out << "; " << format_count(total.lines_skipped) << " had been taken before";
    *invocation.out << "\n";
    int status = 0;
    if (!arguments.no_flush) status = flush_and_report(service, invocation, arguments.dataset, rejected_before);
    *invocation.out << arguments.dataset << ": done in " << format_duration_us(steady_us() - started_us) << "\n";
    return unless_interrupted(invocation, status);
  });
}

int command_flush(const Config& config, const Invocation& invocation) {
  return with_service(config, invocation, [&](Service& service) {
    const FlushReport report = service.flush();
    *invocation.out << "flushed " << format_count(report.rows) << " rows into " << report.partitions << " partitions, "
                    << format_count(report.rejected) << " rejected\n";
    for (const std::string& problem : report.problems) *invocation.err << "hyp: " << problem << "\n";
    if (!report.problems.empty()) return kFailed;
    return report.rejected > 0 ? kSomeRejected : 0;
  });
}

int command_collect(const Config& config, const Invocation& invocation, const CollectArguments& arguments) {
  if (arguments.list) {
    std::vector<std::vector<std::string>> rows;
    for (const CollectConfig& one : config.collect) rows.push_back({one.name, one.dataset, one.glob, "configuration"});
    for (const CollectConfig& one : load_registrations(config.cache_root))
      rows.push_back({one.name, one.dataset, one.glob, "registered"});
    print_table(*invocation.out, {"name", "dataset", "files", "by"}, rows);
    return 0;
  }
  const bool registers = !arguments.file.empty() || !arguments.glob.empty();
  if (registers && arguments.name.empty())
    fail(ErrorKind::invalid_argument, "collect needs --name: it names the registration and the source partition");
  if (!arguments.file.empty() && !arguments.glob.empty())
    fail(ErrorKind::invalid_argument, "collect takes a file or --glob, not both");
  return with_service(config, invocation, [&](Service& service) {
    if (!arguments.remove.empty()) {
      if (!remove_registration(config.cache_root, arguments.remove)) {
        fail(ErrorKind::not_found, "there is no registration \"{}\"; `hyp collect --list` shows them",
             arguments.remove);
      }
      *invocation.out << "no longer following " << arguments.remove << "\n";
      return 0;
    }
    if (registers) {
      CollectConfig collect;
      collect.name = arguments.name;
      collect.dataset = arguments.dataset.empty() ? arguments.name : arguments.dataset;
      config.dataset(collect.dataset);  // throws for a wrong name
      collect.glob = absolute_path(invocation, arguments.file.empty() ? arguments.glob : glob_escape(arguments.file));
      add_registration(config.cache_root, collect);
      *invocation.out << "following " << collect.glob << " into " << collect.dataset << " as " << collect.name << "\n";
    }
    const FollowReport report = service.follow(invocation.cancelled);
    const FlushReport flushed = service.flush();
    *invocation.out << "picked up " << format_count(report.total.lines) << " rows (" << format_bytes(report.total.bytes)
                    << "), " << format_count(flushed.rejected) << " rejected\n";
    for (const std::string& problem : report.problems) *invocation.err << "hyp: " << problem << "\n";
    for (const std::string& problem : flushed.problems) *invocation.err << "hyp: " << problem << "\n";
    if (!report.problems.empty() || !flushed.problems.empty()) return kFailed;
    return unless_interrupted(invocation, flushed.rejected > 0 ? kSomeRejected : 0);
  });
}

}  // namespace firn::hyp
