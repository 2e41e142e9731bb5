// init, ingest, collect, flush.
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <ostream>

#include "base/clock.h"
#include "base/one_line.h"
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

// What was spooled and rejected when a capture began.
struct Before {
  // Nothing but this capture's lines can be in its flush. Else (a daemon takes rows from everywhere, an earlier command
  // left some) what a flush did is told as all of its doing.
  bool is_alone = false;
  int64_t rejected = 0;
};

// Flushes and says what became of rows; kSomeRejected where any was rejected since.
int flush_and_report(Service& service, const Invocation& invocation, const std::string& dataset, const Before& before) {
  constexpr int64_t kShownMax = 10;
  const FlushReport report = service.flush();
  std::ostream& out = *invocation.out;
  if (const auto rows = report.rows_by_dataset.find(dataset); rows != report.rows_by_dataset.end()) {
    if (before.is_alone) {
      out << dataset << ": " << format_counted(rows->second, "row") << (rows->second == 1 ? " was" : " were")
          << " added to the cache\n";
    } else {
      out << dataset << ": the flush added " << format_counted(rows->second, "row")
          << " to the cache, of all that was spooled\n";
    }
  }
  for (const std::string& problem : report.problems) *invocation.err << "hyp: " << problem << "\n";
  const int64_t rejected = service.rejected(dataset) - before.rejected;
  if (rejected > 0) {
    out << dataset << ": " << format_counted(rejected, "row") << (before.is_alone ? "" : ", of all that was spooled,")
        << (rejected == 1 ? " was" : " were") << " rejected and set aside, each with its text, in "
        << rejects_path(service.config().cache_root, dataset) << "\n";
    int64_t shown = 0;
    for (const Rejected& one : report.first_rejected) {
      if (one.dataset != dataset || shown == kShownMax) continue;
      ++shown;
      out << "  " << (before.is_alone ? "" : "source " + on_one_line(one.source) + ", ") << "line " << one.line
          << (one.column.empty() ? "" : ", column " + on_one_line(one.column)) << ": " << on_one_line(one.reason)
          << "\n";
    }
    if (shown > 0 && rejected > shown) out << "  … and " << format_count(rejected - shown) << " more\n";
  }
  if (!report.problems.empty()) return kFailed;
  return rejected > 0 ? kSomeRejected : 0;
}

// The descriptor of this process that `path` names; nullopt: it names none.
std::optional<int> own_descriptor(std::string_view path) {
  if (path == "/dev/stdin") return 0;
  for (const std::string_view folder : {"/dev/fd/", "/proc/self/fd/"}) {
    if (!path.starts_with(folder)) continue;
    const std::string_view number = path.substr(folder.size());
    int fd = 0;
    const auto [stop, error] = std::from_chars(number.data(), number.data() + number.size(), fd);
    if (error == std::errc() && stop == number.data() + number.size()) return fd;
  }
  return std::nullopt;
}

// Such paths mean other things in the daemon, which may take the command: a file gets its own path, a pipe becomes
// standard input and is spelled "-".
void settle_own_descriptors(IngestArguments& arguments, Invocation& invocation) {
  bool is_input_taken = arguments.files.empty();
  for (const std::string& file : arguments.files) is_input_taken = is_input_taken || file == "-";
  for (std::string& file : arguments.files) {
    const auto fd = own_descriptor(file);
    if (!fd) continue;
    std::string meant = "-";
    std::error_code error;
    const auto target = std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", *fd), error);
    if (error) fail(ErrorKind::not_found, "{}: there is no such descriptor", file);
    if (std::filesystem::is_regular_file(target, error)) {
      meant = target.string();
    } else if (std::exchange(is_input_taken, true)) {
      fail(ErrorKind::invalid_argument, "{}: one pipe is taken at a time; take the others by commands of their own",
           file);
    } else if (*fd != invocation.in && ::dup2(*fd, invocation.in) < 0) {
      fail_errno(errno, "take " + file + " as standard input");
    }
    std::replace(invocation.words.begin(), invocation.words.end(), file, meant);
    file = meant;
  }
}

void add(CaptureReport& total, const CaptureReport& one) {
  total.lines += one.lines;
  total.bytes += one.bytes;
  total.lines_skipped += one.lines_skipped;
}

// The files' lines into the spool, one file after another, all of them looked at before any is taken. What stops it is
// in `failure`; then `done` of the files were taken whole.
struct Taken {
  CaptureReport total;
  std::vector<std::string> torn;  // what was left of files
  size_t done = 0;
  std::optional<Error> failure;
};
Taken take_files(Service& service, const Invocation& invocation, const IngestArguments& arguments) {
  Taken taken;
  Progress progress(invocation);
  CaptureOptions options;
  options.dataset = arguments.dataset;
  options.source = arguments.source;
  options.row_bytes_max = service.config().dataset(arguments.dataset).row_bytes_max;
  options.cancelled = invocation.cancelled;
  CaptureReport current;  // of the file at hand
  options.progress = [&](const CaptureReport& now) {
    current = now;
    progress.say(fmt::format("{}: {}, {} taken", arguments.dataset,
                             format_counted(taken.total.lines + now.lines, "line"),
                             format_bytes(taken.total.bytes + now.bytes)));
    service.check_disk();
  };
  const std::vector<std::string> files = arguments.files.empty() ? std::vector<std::string>{"-"} : arguments.files;
  for (const std::string& file : files) {
    if (file != "-") check_file(absolute_path(invocation, file));
  }
  for (const std::string& file : files) {
    if (*invocation.cancelled) break;
    try {
      current = {};
      service.check_capture(arguments.dataset, arguments.source);
      options.id = file == "-" ? arguments.id : "";
      options.atomic = file == "-" && arguments.atomic;
      const CaptureReport one = file == "-" ? ingest_pipe(service.spool(), invocation.in, options)
                                            : ingest_file(service.spool(), absolute_path(invocation, file), options);
      add(taken.total, one);
      if (one.torn_bytes > 0) taken.torn.push_back(fmt::format("{} ({} bytes)", file, one.torn_bytes));
      ++taken.done;
    } catch (const Error& e) {
      taken.failure = e;
      if (e.kind() == ErrorKind::busy && !options.atomic) add(taken.total, current);
      break;
    }
  }
  return taken;
}

}  // namespace

int command_init(const Invocation& invocation, const std::string& path) {
  const std::string file = absolute_path(invocation, path);
  if (!link_new_file(file, initial_config_text()))
    fail(ErrorKind::already_exists, "{} is there already; it was left as it is", file);
  *invocation.out << "wrote " << file << "\n";
  return 0;
}

int command_ingest(const Config& config, const Invocation& given, const IngestArguments& given_arguments) {
  config.dataset(given_arguments.dataset);  // a wrong name is told before anything waits
  Invocation invocation = given;
  IngestArguments arguments = given_arguments;
  if (invocation.service == nullptr) settle_own_descriptors(arguments, invocation);
  return with_service(config, invocation, [&](Service& service) {
    const int64_t started_us = steady_us();
    const Before before = {.is_alone = invocation.service == nullptr && service.unflushed_bytes() == 0,
                           .rejected = service.rejected(arguments.dataset)};
    const Taken taken = take_files(service, invocation, arguments);
    const bool is_nothing_taken = taken.done == 0 && taken.total.lines == 0;
    if (taken.failure && is_nothing_taken && arguments.files.size() <= 1) throw Error(*taken.failure);
    std::ostream& out = *invocation.out;
    out << arguments.dataset << ": took " << format_counted(taken.total.lines, "line") << " ("
        << format_bytes(taken.total.bytes) << ")";
    if (taken.total.lines_skipped > 0)
      out << "; " << format_counted(taken.total.lines_skipped, "line") << " had been taken before";
    if (taken.failure && arguments.files.size() > 1)
      out << ", from the first " << taken.done << " of " << arguments.files.size() << " files";
    out << "\n";
    int status = 0;
    if (!arguments.no_flush) status = flush_and_report(service, invocation, arguments.dataset, before);
    for (const std::string& torn : taken.torn) {
      out << arguments.dataset << ": left the last line of " << torn
          << ": it has no newline and is no whole JSON value; run again when it is whole\n";
      if (status == 0) status = kSomeRejected;
    }
    if (taken.failure) {
      *invocation.err << "hyp: " << taken.failure->what() << "\n";
      return kFailed;
    }
    out << arguments.dataset << ": done in " << format_duration_us(steady_us() - started_us) << "\n";
    return unless_interrupted(invocation, status);
  });
}

int command_flush(const Config& config, const Invocation& invocation) {
  return with_service(config, invocation, [&](Service& service) {
    const FlushReport report = service.flush();
    *invocation.out << "flushed " << format_counted(report.rows, "row") << " into "
                    << format_counted(report.partitions, "partition") << ", " << format_count(report.rejected)
                    << " rejected\n";
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
    *invocation.out << "picked up " << format_counted(report.total.lines, "line") << " ("
                    << format_bytes(report.total.bytes) << "), " << format_count(flushed.rejected) << " rejected\n";
    for (const std::string& message : report.missed) *invocation.err << "hyp: missed lines: " << message << "\n";
    for (const std::string& problem : report.problems) *invocation.err << "hyp: " << problem << "\n";
    for (const std::string& problem : flushed.problems) *invocation.err << "hyp: " << problem << "\n";
    if (!report.problems.empty() || !report.missed.empty() || !flushed.problems.empty()) return kFailed;
    return unless_interrupted(invocation, flushed.rejected > 0 ? kSomeRejected : 0);
  });
}

}  // namespace firn::hyp
