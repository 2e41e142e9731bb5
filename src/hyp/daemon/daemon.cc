#include "hyp/daemon/daemon.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/threads.h"
#include "hyp/daemon/receiver_server.h"
#include "hyp/daemon/sink_ticks.h"
#include "hyp/maintain/maintain.h"

namespace firn::hyp {
namespace {

constexpr int64_t kTickMs = 200;
constexpr int64_t kGiveWayMs = 100, kGiveWayStepMs = 5;
constexpr int64_t kFollowIntervalMs = 1'000;

int64_t steady_ms() { return steady_us() / 1000; }

HttpResponse wrong_method(const char* allowed) {
  HttpResponse answer = error_answer(405, fmt::format("use {}", allowed));
  answer.headers["Allow"] = allowed;
  return answer;
}

std::string header(const HttpRequest& request, const char* name) {
  const auto found = request.headers.find(name);
  return found == request.headers.end() ? std::string() : found->second;
}

// Compares in a time that does not tell where the first difference is.
bool same_secret(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  return difference == 0;
}

HttpResponse capture(Service& service, const std::string& dataset, const HttpRequest& request) {
  CaptureOptions options;
  options.dataset = dataset;
  const std::string encoding = fold_name(header(request, "content-encoding"));
  if (!encoding.empty() && encoding != "identity" && encoding != "gzip" && encoding != "x-gzip" && encoding != "zstd") {
    return error_answer(415, fmt::format("Content-Encoding {} is not understood: gzip, zstd or none", encoding));
  }
  if (const std::string source = header(request, "x-hyp-source"); !source.empty()) options.source = source;
  return answer_capture(service, std::move(options), request.body, header(request, "x-hyp-batch-id")).response;
}

// The flush's part of the tick: when it is due, and what it found.
class FlushTick {
 public:
  FlushTick(Service& service, const std::atomic<bool>& stop) : service_(service), stop_(stop) {}
  void run() {
    const int64_t held = service_.unflushed_bytes();
    if (held == 0 || (held < service_.config().flush_bytes && steady_ms() < next_ms_)) return;
    flush();
    next_ms_ = steady_ms() + service_.config().flush_interval_ms;
  }
  void flush() {
    try {
      const FlushReport report = service_.flush([this] { give_way(); });
      if (report.rows > 0 || report.rejected > 0) {
        spdlog::info("flushed {} rows into {} partitions, {} rejected", report.rows, report.partitions,
                     report.rejected);
      }
      for (const std::string& problem : report.problems) spdlog::error("{}", problem);
    } catch (const std::exception& e) {  // the rows stay in the spool for the next tick
      spdlog::error("flush: {}", e.what());
    }
  }

 private:
  // What is to be acknowledged comes before the tables of what was: while batches wait and the spool has room, a
  // flush's thread rests before each of its pieces, which take some milliseconds.
  void give_way() const {
    const int64_t until_ms = steady_ms() + kGiveWayMs;
    while (!stop_ && steady_ms() < until_ms && service_.waiting_batches() > 0 &&
           service_.unflushed_bytes() < service_.config().spool_bytes_max / 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(kGiveWayStepMs));
    }
  }

  Service& service_;
  const std::atomic<bool>& stop_;
  int64_t next_ms_ = 0;  // of the steady clock: the wall clock may be set back
};

// False: the stop cut it short.
bool ship(Service& service, const SinkConfig& sink, SinkPass pass, const std::atomic<bool>& stop) {
  try {
    SinkRunOptions options;
    options.due_retries_only = pass == SinkPass::due_retries;
    options.cancelled = &stop;
    const SinkRunReport report = run_sink(service.cache(), sink, options);
    if (report.rows() > 0)
      spdlog::info("sink {}: shipped {} rows in {} units", sink.name, report.rows(), report.units());
    for (const PartitionRun& run : report.partitions) {
      if (run.error.empty()) continue;
      spdlog::error("sink {}: {}/{}: {}", sink.name, run.partition.dataset, run.partition.source, run.error);
    }
  } catch (const std::exception& e) {  // the next tick tries again
    spdlog::error("sink {}: {}", sink.name, e.what());
  }
  return !stop;
}

void tell(const MaintainReport& report) {
  for (const RetentionReport& one : report.retention) {
    if (one.rows_removed > 0)
      spdlog::info("{}: {} rows removed, past their age", one.partition.logical_path(), one.rows_removed);
  }
  for (const CompactionReport& one : report.compaction) {
    if (one.swapped) {
      spdlog::info("{}: compacted, {} files became {}", one.partition.logical_path(), one.files_before,
                   one.files_after);
    } else {
      spdlog::info("{}: not compacted: {}", one.partition.logical_path(), one.note);
    }
  }
  if (report.compactions_left > 0) spdlog::info("{} partitions wait for their compaction", report.compactions_left);
  if (report.generations_removed > 0 || report.snapshots_expired > 0) {
    spdlog::info("removed {} old generations and {} old snapshots, {} bytes", report.generations_removed,
                 report.snapshots_expired, report.bytes_removed);
  }
}

// Looks after the cache, until `stop`; a compaction under way then ends unfinished and without effect.
void look_after(Service& service, const std::atomic<bool>& stop) {
  std::vector<std::string> reported;
  int64_t next_ms = 0;
  while (!stop) {
    if (steady_ms() >= next_ms) {
      try {
        MaintainOptions options;
        options.budget_ms = service.config().compaction.tick_budget_ms;
        options.cancelled = &stop;
        const MaintainReport report = maintain(service.cache(), options);
        tell(report);
        for (const std::string& problem : report.problems) {  // each once while it lasts
          if (std::find(reported.begin(), reported.end(), problem) == reported.end())
            spdlog::error("upkeep: {}", problem);
        }
        reported = report.problems;
      } catch (const std::exception& e) {  // the next tick tries again
        spdlog::error("upkeep: {}", e.what());
      }
      next_ms = steady_ms() + service.config().maintain_interval_ms;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(kTickMs));
  }
}

// Picks up what collected files got, until `stop`.
void follow(Service& service, const std::atomic<bool>& stop) {
  std::vector<std::string> reported;
  int64_t next_ms = 0;
  while (!stop) {
    if (steady_ms() >= next_ms) {
      try {
        const FollowReport report = service.follow(&stop);
        for (const std::string& problem : report.problems) {  // each once while it lasts
          if (std::find(reported.begin(), reported.end(), problem) == reported.end())
            spdlog::error("collect: {}", problem);
        }
        for (const std::string& missed : report.missed) spdlog::warn("collect: missed lines: {}", missed);
        reported = report.problems;
      } catch (const std::exception& e) {
        spdlog::error("collect: {}", e.what());
      }
      next_ms = steady_ms() + kFollowIntervalMs;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(kTickMs));
  }
}

}  // namespace

CaptureAnswer answer_capture(Service& service, CaptureOptions options, std::string_view body,
                             const std::string& batch_id) {
  try {
    service.check_capture(options.dataset, options.source);
    options.row_bytes_max = service.config().dataset(options.dataset).row_bytes_max;
    const CaptureReport report = ingest_body(service.spool(), body, batch_id, options);
    return {{202, Json{{"lines", report.lines}, {"skipped", report.lines_skipped}}.dump() + "\n", {}}, report.lines};
  } catch (const Error& e) {
    switch (e.kind()) {
      case ErrorKind::invalid_argument:
      case ErrorKind::corrupt:
        return {error_answer(400, e.what())};
      case ErrorKind::already_exists:
        return {error_answer(409, e.what())};
      case ErrorKind::config:
        spdlog::error("{}", e.what());
        return {error_answer(500, e.what())};
      case ErrorKind::busy:
        return {busy_answer(429, e.what(), 10)};
      case ErrorKind::io:
        spdlog::error("{}", e.what());
        return {error_answer(503, e.what())};
      default:
        throw;
    }
  }
}

HttpResponse answer_http(Service& service, const HttpRequest& request) {
  if (request.path == "/healthz") {
    return request.method == "GET" ? HttpResponse{200, "{\"status\":\"ok\"}\n", {}} : wrong_method("GET");
  }
  constexpr std::string_view kIngest = "/v1/ingest/";
  if (!request.path.starts_with(kIngest)) return error_answer(404, "there is /healthz and /v1/ingest/{dataset}");
  if (request.method != "POST") return wrong_method("POST");
  if (const std::string& token = service.config().token; !token.empty()) {
    const std::string given = header(request, "authorization");
    if (fold_name(given.substr(0, 7)) != "bearer " || !same_secret(std::string_view(given).substr(7), token)) {
      HttpResponse answer = error_answer(401, "the bearer token is missing or wrong");
      answer.headers["WWW-Authenticate"] = "Bearer";
      return answer;
    }
  }
  if (!header(request, "x-hyp-stream").empty())
    return error_answer(501, "this daemon captures; X-Hyp-Stream is for a receiver");
  return capture(service, request.path.substr(kIngest.size()), request);
}

void run_daemon(Service& service, const DaemonOptions& options, const std::atomic<bool>& stop) {
  FlushTick flush_tick(service, stop);
  for (const auto& [dataset, config] : service.config().datasets) {
    try {
      service.check_declaration(dataset);
    } catch (const Error& e) {  // of this dataset nothing is captured, and each attempt says so
      spdlog::error("{}", e.what());
    }
  }
  {
    const ControlServer control(service.config().cache_root, options.run_command);
    std::unique_ptr<HttpServer> http;
    std::unique_ptr<ReceiverServer> receiver;
    if (options.receives) receiver = std::make_unique<ReceiverServer>(service, options.announce);
    if (!service.config().listen.empty()) {
      HttpServerOptions http_options;
      http_options.listen = service.config().listen;
      http = std::make_unique<HttpServer>(http_options,
                                          [&](const HttpRequest& request) { return answer_http(service, request); });
      options.announce(fmt::format("listening on http://{}:{}",
                                   service.config().listen.substr(0, service.config().listen.rfind(':')),
                                   http->port()));
    }
    options.announce("serving the cache " + service.config().cache_root);
    SinkTicks sinks(service.config().sinks, service.config().state_dir, now_ms(),
                    [&](const SinkConfig& sink, SinkPass pass) { return ship(service, sink, pass, stop); });
    // Apart: a big file must not hold up flushes and sinks.
    std::atomic<bool> ends{false};
    std::jthread follower, upkeep;
    const struct End {
      std::atomic<bool>& ends;
      ~End() { ends = true; }
    } before_they_are_joined{ends};
    follower = begin_thread([&] { follow(service, ends); });
    upkeep = begin_thread([&] { look_after(service, ends); });
    while (!stop) {
      flush_tick.run();
      sinks.run(now_ms());
      std::this_thread::sleep_for(std::chrono::milliseconds(kTickMs));
    }
    spdlog::info("stopping: what is under way ends first");
  }
  flush_tick.flush();  // nothing is captured any more
}

}  // namespace firn::hyp
