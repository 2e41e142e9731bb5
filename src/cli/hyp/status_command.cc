// status, daemon.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <ostream>
#include <thread>
#include <utility>

#include <unistd.h>
#include <ext/stdio_filebuf.h>

#include "base/civil_time.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/span.h"
#include "cli/hyp/command.h"
#include "hyp/capture/follow.h"
#include "hyp/capture/spool_sources.h"
#include "hyp/daemon/daemon.h"

namespace firn::hyp {
namespace {

constexpr int64_t kMissedShownMs = 7 * 86'400'000;

int64_t summary_number(const iceberg::Snapshot& snapshot, const char* key) {
  const auto found = snapshot.summary.find(key);
  int64_t number = 0;
  if (found != snapshot.summary.end())
    std::from_chars(found->second.data(), found->second.data() + found->second.size(), number);
  return number;
}

struct PartitionStatus {
  PartitionId partition;
  int64_t rows = 0, bytes = 0, files = 0;
  std::string last_flush, generation, problem;
};

PartitionStatus status_of(const Cache& cache, const PartitionId& partition) {
  PartitionStatus status;
  status.partition = partition;
  try {
    const auto held = cache.hold(partition);
    if (!held) return status;
    status.generation = held->operations->location().substr(held->operations->location().rfind('/') + 1);
    if (const iceberg::Snapshot* snapshot = held->table.metadata->current_snapshot()) {
      status.rows = summary_number(*snapshot, "total-records");
      status.bytes = summary_number(*snapshot, "total-files-size");
      status.files = summary_number(*snapshot, "total-data-files");
      status.last_flush = format_timestamp_ms_utc(snapshot->timestamp_ms);
    }
  } catch (const Error& e) {  // the others are shown all the same
    status.problem = e.what();
  }
  return status;
}

int64_t spooled_bytes(const Cache& cache) {
  int64_t bytes = 0;
  for (const std::string& folder : list_spools(cache.config().cache_root)) {
    for (const FileInfo& file : cache.io()->list(folder, false)) {
      if (file.path.ends_with(".seg")) bytes += file.size_bytes;
    }
  }
  return bytes;
}

// Lines that wait for the flush, by dataset. Those of a range of which some partitions have their part are counted
// still.
std::map<std::string, int64_t> spooled_lines(const Cache& cache) {
  std::map<std::string, int64_t> lines;
  for (const std::string& folder : list_spools(cache.config().cache_root)) {
    SpoolReader reader(folder, load_progress(folder));
    while (const auto at = reader.next()) {
      const std::string& text = at->frame.text;
      if (!text.empty()) lines[at->frame.dataset] += std::count(text.begin(), text.end(), '\n');
    }
  }
  return lines;
}

// What a person should look at: declarations that contradict the tables, lines of followed files that were missed.
std::vector<std::string> problems_of(const Cache& cache) {
  std::vector<std::string> problems;
  const Config& config = cache.config();
  for (const auto& [dataset, declared] : config.datasets) {
    try {
      check_declared_columns(cache, dataset);
    } catch (const Error& e) {
      problems.emplace_back(e.what());
    }
  }
  std::vector<CollectConfig> followed = config.collect;
  for (CollectConfig& registered : load_registrations(config.cache_root)) followed.push_back(std::move(registered));
  const std::string since = format_timestamp_ms_utc(now_ms() - kMissedShownMs);
  for (const CollectConfig& collect : followed) {
    for (const MissedLines& missed : load_missed(config.cache_root, collect.name)) {
      if (missed.at >= since) problems.push_back("missed lines, " + missed.at + ": " + missed.message);
    }
  }
  return problems;
}

// A stream on a descriptor that the caller owns.
class DescriptorStream {
 public:
  explicit DescriptorStream(int fd) : buffer_(::dup(fd), std::ios::out), stream_(&buffer_) {}
  std::ostream& get() { return stream_; }

 private:
  __gnu_cxx::stdio_filebuf<char> buffer_;
  std::ostream stream_;
};

std::string canonical(const std::string& folder, const std::string& path) {
  return path.empty() ? "" : std::filesystem::weakly_canonical(std::filesystem::path(folder) / path).string();
}

// The command is run with the configuration that the daemon read at its start, so it must be the caller's too.
bool check_configuration(const Config& ours, const RemoteCommand& command, std::ostream& err) {
  const auto title = [](const std::string& path) { return path.empty() ? "the defaults" : path; };
  if (canonical(".", ours.path) != canonical(command.working_directory, command.config_path)) {
    err << "hyp: the daemon that owns " << ours.cache_root << " runs with " << title(ours.path)
        << "; this command was given " << title(command.config_path)
        << ". Nothing was done: use that configuration, or stop the daemon first\n";
    return false;
  }
  if (ours.digest != command.config_digest) {
    err << "hyp: warning: " << title(ours.path)
        << " was changed since the daemon read it at its start; it counts once the daemon is restarted\n";
  }
  return true;
}

int run_remote(Service& service, RemoteCommand& command) {
  DescriptorStream out(command.out.get());
  DescriptorStream err(command.err.get());
  err.get() << std::unitbuf;
  if (!check_configuration(service.config(), command, err.get())) return kFailed;
  Invocation invocation;
  invocation.words = command.words;
  invocation.working_directory = command.working_directory;
  invocation.in = command.in.get();
  invocation.out = &out.get();
  invocation.err = &err.get();
  invocation.err_is_terminal = isatty(command.err.get()) != 0;
  invocation.cancelled = &command.cancelled;
  invocation.service = &service;
  const int status = run_hyp(invocation);
  out.get().flush();
  return out.get().good() ? status : kFailed;
}

}  // namespace

int command_status(const Config& config, const Invocation& invocation, bool json) {
  const Cache cache(config);
  const bool is_owned = [&] {
    make_directories(config.cache_root);
    return !FileLock::try_acquire(owner_lock_path(config.cache_root), FileLock::Mode::exclusive).has_value();
  }();
  Json partitions = Json::array();
  std::vector<std::vector<std::string>> rows;
  for (const std::string& dataset : cache.datasets()) {
    for (const PartitionId& partition : cache.partitions(dataset)) {
      const PartitionStatus one = status_of(cache, partition);
      Json entry = {{"dataset", partition.dataset}, {"source", partition.source}, {"rows", one.rows},
                    {"bytes", one.bytes},           {"files", one.files},         {"generation", one.generation},
                    {"lastFlush", one.last_flush}};
      if (!one.problem.empty()) entry["problem"] = one.problem;
      partitions.push_back(std::move(entry));
      rows.push_back({partition.dataset, partition.source, format_count(one.rows), format_bytes(one.bytes),
                      format_count(one.files), one.last_flush, one.generation, one.problem});
    }
  }
  const int64_t spooled = spooled_bytes(cache);
  const std::map<std::string, int64_t> waiting = spooled_lines(cache);
  const std::vector<std::string> problems = problems_of(cache);
  if (json) {
    Json waiting_json = Json::object();
    for (const auto& [dataset, lines] : waiting) waiting_json[dataset] = lines;
    *invocation.out << Json{{"cacheRoot", config.cache_root}, {"configuration", config.path}, {"owned", is_owned},
                            {"spooledBytes", spooled},        {"spooledLines", waiting_json}, {"problems", problems},
                            {"partitions", partitions}}
                           .dump(2)
                    << "\n";
    return 0;
  }
  std::ostream& out = *invocation.out;
  out << "cache          " << config.cache_root << (is_owned ? " (in use by a daemon or a command)" : "") << "\n"
      << "configuration  " << (config.path.empty() ? "the defaults" : config.path) << "\n"
      << "spool          " << format_bytes(spooled);
  for (const auto& [dataset, lines] : waiting) {
    out << (dataset == waiting.begin()->first ? "; to be flushed: " : ", ") << dataset << " " << format_count(lines)
        << (lines == 1 ? " line" : " lines");
  }
  out << "\n";
  for (const std::string& problem : problems) out << "problem        " << problem << "\n";
  out << "\n";
  if (rows.empty()) {
    out << (waiting.empty() ? "nothing was ingested yet\n" : "nothing was flushed yet\n");
  } else {
    print_table(out, {"dataset", "source", "rows", "bytes", "files", "last flush", "generation", ""}, rows);
  }
  return 0;
}

int command_daemon(const Config& config, const Invocation& invocation) {
  if (invocation.service != nullptr) fail(ErrorKind::already_exists, "the daemon of {} is running", config.cache_root);
  std::unique_ptr<Service> service;
  for (bool said = false; !(service = Service::try_own(config));) {
    if (daemon_listens(config.cache_root)) fail(ErrorKind::busy, "a daemon of {} is running", config.cache_root);
    if (*invocation.cancelled) return kFailed;
    if (!std::exchange(said, true))
      *invocation.err << "hyp: a command uses " << config.cache_root << "; waiting for it\n";
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  spdlog::set_level(std::min(spdlog::get_level(), spdlog::level::info));
  DaemonOptions options;
  options.run_command = [&](RemoteCommand& command) { return run_remote(*service, command); };
  options.announce = [&](const std::string& line) { *invocation.out << "hyp daemon: " << line << std::endl; };
  run_daemon(*service, options, *invocation.cancelled);
  *invocation.out << "hyp daemon: stopped\n";
  return 0;
}

}  // namespace firn::hyp
