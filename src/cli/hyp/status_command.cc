// status, daemon.
#include <charconv>
#include <ostream>

#include <unistd.h>
#include <ext/stdio_filebuf.h>

#include "base/civil_time.h"
#include "base/log.h"
#include "base/span.h"
#include "cli/hyp/command.h"
#include "hyp/daemon/daemon.h"

namespace firn::hyp {
namespace {

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

// A stream on a descriptor that the caller owns.
class DescriptorStream {
 public:
  explicit DescriptorStream(int fd) : buffer_(::dup(fd), std::ios::out), stream_(&buffer_) {}
  std::ostream& get() { return stream_; }

 private:
  __gnu_cxx::stdio_filebuf<char> buffer_;
  std::ostream stream_;
};

int run_remote(Service& service, RemoteCommand& command) {
  DescriptorStream out(command.out.get());
  DescriptorStream err(command.err.get());
  err.get() << std::unitbuf;
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
  if (json) {
    *invocation.out << Json{{"cacheRoot", config.cache_root},
                            {"configuration", config.path},
                            {"owned", is_owned},
                            {"spooledBytes", spooled},
                            {"partitions", partitions}}
                           .dump(2)
                    << "\n";
    return 0;
  }
  std::ostream& out = *invocation.out;
  out << "cache          " << config.cache_root << (is_owned ? " (in use by a daemon or a command)" : "") << "\n"
      << "configuration  " << (config.path.empty() ? "the defaults" : config.path) << "\n"
      << "spool          " << format_bytes(spooled) << "\n\n";
  if (rows.empty()) {
    out << "nothing was ingested yet\n";
  } else {
    print_table(out, {"dataset", "source", "rows", "bytes", "files", "last flush", "generation", ""}, rows);
  }
  return 0;
}

int command_daemon(const Config& config, const Invocation& invocation) {
  if (invocation.service != nullptr) fail(ErrorKind::already_exists, "the daemon of {} is running", config.cache_root);
  const auto service = Service::try_own(config);
  if (!service)
    fail(ErrorKind::busy, "another process owns the cache {}: a daemon, or a command that has not ended",
         config.cache_root);
  spdlog::set_level(std::min(spdlog::get_level(), spdlog::level::info));
  DaemonOptions options;
  options.run_command = [&](RemoteCommand& command) { return run_remote(*service, command); };
  options.announce = [&](const std::string& line) { *invocation.out << "hyp daemon: " << line << std::endl; };
  run_daemon(*service, options, *invocation.cancelled);
  *invocation.out << "hyp daemon: stopped\n";
  return 0;
}

}  // namespace firn::hyp
