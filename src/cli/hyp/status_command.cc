// status, daemon.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <ostream>
#include <thread>
#include <utility>

#include <unistd.h>
#include <ext/stdio_filebuf.h>

#include "base/arrow_status.h"
#include "base/civil_time.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/span.h"
#include "base/uri.h"
#include "cli/hyp/command.h"
#include "hyp/capture/follow.h"
#include "hyp/capture/spool_sources.h"
#include "hyp/daemon/daemon.h"
#include "hyp/maintain/partition_status.h"

namespace firn::hyp {
namespace {

constexpr int64_t kMissedShownMs = 7 * 86'400'000;

std::string time_text(const std::optional<int64_t>& time_ms) {
  return time_ms ? format_timestamp_ms_utc(*time_ms) : "";
}

Json time_json(const std::optional<int64_t>& time_ms) {
  return time_ms ? Json(format_timestamp_ms_utc(*time_ms)) : Json(nullptr);
}

// "1,200 for archive, 3 for lake"; "" if there are none.
std::string rows_by_sink(const std::map<std::string, int64_t>& rows) {
  std::string text;
  for (const auto& [sink, count] : rows)
    text += fmt::format("{}{} for {}", text.empty() ? "" : ", ", format_count(count), sink);
  return text;
}

Json to_json(const CompactionRecord& record) {
  return {{"at", record.at},
          {"filesBefore", record.files_before},
          {"filesAfter", record.files},
          {"bytesBefore", record.bytes_before},
          {"bytesAfter", record.bytes},
          {"filesRewritten", record.files_rewritten},
          {"duplicatesDropped", record.duplicates_dropped}};
}

// "2026-01-31 42 files became 3"
std::string compaction_text(const std::optional<CompactionRecord>& record) {
  if (!record) return "";
  return fmt::format("{}: {} files became {}", record->at, format_count(record->files_before),
                     format_count(record->files));
}

// What a dataset's partitions are together.
PartitionStatus sum_of(const std::vector<PartitionStatus>& partitions) {
  PartitionStatus sum;
  for (const PartitionStatus& one : partitions) {
    sum.partition.dataset = one.partition.dataset;
    sum.rows += one.rows;
    sum.bytes += one.bytes;
    sum.files += one.files;
    sum.generations += one.generations;
    if (one.oldest_ms) sum.oldest_ms = std::min(sum.oldest_ms.value_or(*one.oldest_ms), *one.oldest_ms);
    if (one.newest_ms) sum.newest_ms = std::max(sum.newest_ms.value_or(*one.newest_ms), *one.newest_ms);
    if (one.last_flush_ms) sum.last_flush_ms = std::max(sum.last_flush_ms.value_or(0), *one.last_flush_ms);
    const bool is_later =
        one.last_compaction && (!sum.last_compaction || sum.last_compaction->at < one.last_compaction->at);
    if (is_later) sum.last_compaction = one.last_compaction;
    sum.rows_overdue += one.rows_overdue;
    for (const auto& [sink, rows] : one.rows_waiting) sum.rows_waiting[sink] += rows;
    for (const auto& [sink, rows] : one.rows_forced_out) sum.rows_forced_out[sink] += rows;
  }
  return sum;
}

Json to_json(const PartitionStatus& one) {
  Json json = {{"rows", one.rows},
               {"bytes", one.bytes},
               {"files", one.files},
               {"generations", one.generations},
               {"oldest", time_json(one.oldest_ms)},
               {"newest", time_json(one.newest_ms)},
               {"lastFlush", time_json(one.last_flush_ms)},
               {"lastCompaction", one.last_compaction ? to_json(*one.last_compaction) : Json(nullptr)},
               {"rowsOverdue", one.rows_overdue},
               {"rowsWaiting", one.rows_waiting},
               {"rowsForcedOut", one.rows_forced_out}};
  if (!one.problem.empty()) json["problem"] = one.problem;
  return json;
}

std::vector<std::string> to_row(const PartitionStatus& one, const std::string& source) {
  return {one.partition.dataset,        source,
          format_count(one.rows),       format_bytes(one.bytes),
          format_count(one.files),      format_count(one.generations),
          time_text(one.oldest_ms),     time_text(one.newest_ms),
          time_text(one.last_flush_ms), compaction_text(one.last_compaction)};
}

// What is overdue, for whom it waits, and what went without; of one that has such rows, or a problem.
void print_remarks(const PartitionStatus& one, std::ostream& out) {
  const std::string name = title(one.partition);
  if (one.rows_overdue > 0)
    out << "overdue        " << name << ": " << format_counted(one.rows_overdue, "row goes", "rows go")
        << " with the next upkeep\n";
  if (!one.rows_waiting.empty())
    out << "overdue        " << name << ": rows kept past their age: " << rows_by_sink(one.rows_waiting) << "\n";
  if (!one.rows_forced_out.empty())
    out << "forced out     " << name << ": rows removed before they were shipped: " << rows_by_sink(one.rows_forced_out)
        << "\n";
  if (!one.problem.empty()) out << "problem        " << name << ": " << one.problem << "\n";
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

// A dataset's lines that no partition took.
struct Rejects {
  int64_t lines = 0;
  std::string file;
};

int64_t count_lines(const Cache& cache, const std::string& path, int64_t size_bytes) {
  constexpr int64_t kStepBytes = 1 << 20;
  const auto file = cache.io()->open(path);
  int64_t lines = 0;
  for (int64_t at = 0; at < size_bytes;) {
    const auto bytes = check(file->ReadAt(at, std::min(kStepBytes, size_bytes - at)), "read " + path);
    if (bytes->size() == 0) break;  // it was cut meanwhile
    lines += std::count(bytes->data(), bytes->data() + bytes->size(), '\n');
    at += bytes->size();
  }
  return lines;
}

// By dataset, of which nothing else need be there.
std::map<std::string, Rejects> all_rejects(const Cache& cache) {
  constexpr std::string_view kEnd = ".ndjson";
  std::map<std::string, Rejects> rejects;
  for (const FileInfo& file : cache.io()->list(join_path(cache.config().cache_root, "rejects"), false)) {
    if (!file.path.ends_with(kEnd) || file.size_bytes == 0) continue;
    const std::string name = file.path.substr(file.path.rfind('/') + 1);
    const std::string dataset = decode_segment(std::string_view(name).substr(0, name.size() - kEnd.size()));
    rejects[dataset] = {count_lines(cache, file.path, file.size_bytes), file.path};
  }
  return rejects;
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

// Sinks some of whose partitions failed in their last run, as `hyp sink status` tells.
struct FailingSink {
  std::string name;
  int64_t partitions = 0;
  int64_t since_ms = 0;
};

std::vector<FailingSink> failing_sinks(const Config& config) {
  std::vector<FailingSink> failing;
  for (const SinkConfig& sink : config.sinks) {
    const std::vector<OutboxEntry> entries = list_outbox(config.state_dir, sink.name);
    if (entries.empty()) continue;
    FailingSink& one = failing.emplace_back();
    one.name = sink.name;
    one.partitions = static_cast<int64_t>(entries.size());
    one.since_ms = entries.front().first_failure_ms;
    for (const OutboxEntry& entry : entries) one.since_ms = std::min(one.since_ms, entry.first_failure_ms);
  }
  return failing;
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
  Cache cache(config);
  const std::string owner = owner_lock_path(config.cache_root);
  const bool is_owned = std::filesystem::exists(owner) && !FileLock::try_acquire(owner, FileLock::Mode::shared);
  std::vector<std::vector<PartitionStatus>> datasets;
  for (const std::string& dataset : cache.datasets()) {
    datasets.emplace_back();
    for (const PartitionId& partition : cache.partitions(dataset)) {
      datasets.back().push_back(partition_status(cache, partition));
    }
  }
  const int64_t spooled = spooled_bytes(cache);
  const std::map<std::string, int64_t> waiting = spooled_lines(cache);
  const std::map<std::string, Rejects> rejects = all_rejects(cache);
  const std::vector<std::string> problems = problems_of(cache);
  const std::vector<FailingSink> failing = failing_sinks(config);
  if (json) {
    Json failing_json = Json::array();
    for (const FailingSink& one : failing)
      failing_json.push_back(
          {{"sink", one.name}, {"partitions", one.partitions}, {"since", format_timestamp_ms_utc(one.since_ms)}});
    Json partitions = Json::array(), sums = Json::array(), waiting_json = Json::object(), rejects_json = Json::object();
    for (const auto& [dataset, one] : rejects) rejects_json[dataset] = {{"lines", one.lines}, {"file", one.file}};
    for (const auto& [dataset, lines] : waiting) waiting_json[dataset] = lines;
    for (const std::vector<PartitionStatus>& dataset : datasets) {
      const PartitionStatus sum = sum_of(dataset);
      Json sum_json = {{"dataset", sum.partition.dataset}, {"partitions", dataset.size()}};
      sum_json.update(to_json(sum));
      sums.push_back(std::move(sum_json));
      for (const PartitionStatus& one : dataset) {
        Json entry = {
            {"dataset", one.partition.dataset}, {"source", one.partition.source}, {"generation", one.generation}};
        entry.update(to_json(one));
        partitions.push_back(std::move(entry));
      }
    }
    *invocation.out << Json{{"cacheRoot", config.cache_root}, {"configuration", config.path}, {"owned", is_owned},
                            {"spooledBytes", spooled},        {"spooledLines", waiting_json}, {"rejects", rejects_json},
                            {"problems", problems},           {"failingSinks", failing_json}, {"datasets", sums},
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
    out << (dataset == waiting.begin()->first ? "; to be flushed: " : ", ") << dataset << " "
        << format_counted(lines, "line");
  }
  out << "\n";
  for (const auto& [dataset, one] : rejects) {
    out << "rejects        " << dataset << ": " << format_counted(one.lines, "line") << " in " << one.file << "\n";
  }
  for (const std::string& problem : problems) out << "problem        " << problem << "\n";
  for (const FailingSink& one : failing) {
    out << "failing        sink " << one.name << ": " << format_counted(one.partitions, "partition") << ", since "
        << format_timestamp_ms_utc(one.since_ms) << "; `hyp sink status " << one.name << "` tells why\n";
  }
  std::vector<std::vector<std::string>> rows;
  for (const std::vector<PartitionStatus>& dataset : datasets) {
    for (const PartitionStatus& one : dataset) {
      print_remarks(one, out);
      rows.push_back(to_row(one, one.partition.source));
    }
    if (dataset.size() > 1) rows.push_back(to_row(sum_of(dataset), "(all)"));
  }
  out << "\n";
  if (rows.empty()) {
    out << (waiting.empty() ? "nothing was ingested yet\n" : "nothing was flushed yet\n");
  } else {
    print_table(out,
                {"dataset", "source", "rows", "bytes", "files", "generations", "oldest", "newest", "last flush",
                 "last compaction"},
                rows);
  }
  return 0;
}

int command_daemon(const Config& config, const Invocation& invocation) {
  return run_as_daemon(config, invocation, "hyp daemon", /*receives=*/false);
}

int run_as_daemon(const Config& config, const Invocation& invocation, const char* title, bool receives) {
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
  options.receives = receives;
  options.announce = [&](const std::string& line) { *invocation.out << title << ": " << line << std::endl; };
  run_daemon(*service, options, *invocation.cancelled);
  *invocation.out << title << ": stopped\n";
  return 0;
}

}  // namespace firn::hyp
