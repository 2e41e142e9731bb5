#include "hyp/daemon/daemon.h"

#include <algorithm>
#include <chrono>
#include <list>
#include <thread>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"

namespace firn::hyp {
namespace {

constexpr int64_t kTickMs = 200;
constexpr int64_t kFollowIntervalMs = 1'000;

HttpResponse problem(int status, std::string_view message) { return {status, Json{{"error", message}}.dump() + "\n", {}}; }

std::string header(const HttpRequest& request, const char* name) {
  const auto found = request.headers.find(name);
  return found == request.headers.end() ? std::string() : found->second;
}

// Compares in a time that does not tell where the first difference is.
bool same_secret(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  return difference == 0;
}

HttpResponse capture(Service& service, const std::string& dataset, const HttpRequest& request) {
  CaptureOptions options;
  options.dataset = dataset;
  if (const std::string source = header(request, "x-hyp-source"); !source.empty()) options.source = source;
  try {
    service.check_capture(dataset);
    const CaptureReport report = ingest_body(service.spool(), request.body, header(request, "x-hyp-batch-id"), options);
    return {202, Json{{"lines", report.lines}, {"skipped", report.lines_skipped}}.dump() + "\n", {}};
  } catch (const Error& e) {
    switch (e.kind()) {
      case ErrorKind::invalid_argument:
      case ErrorKind::corrupt: return problem(400, e.what());
      case ErrorKind::busy: {
        HttpResponse answer = problem(429, e.what());
        answer.headers["Retry-After"] = "10";
        return answer;
      }
      case ErrorKind::io: spdlog::error("{}", e.what()); return problem(503, e.what());
      default: throw;
    }
  }
}

// The flush's part of the tick: when it is due, and what it found.
class FlushTick {
 public:
  explicit FlushTick(Service& service) : service_(service) {}
  void run(int64_t now) {
    const int64_t held = service_.spool().unflushed_bytes();
    if (held == 0 || (held < service_.config().flush_bytes && now < next_ms_)) return;
    flush();
    next_ms_ = now_ms() + service_.config().flush_interval_ms;
  }
  void flush() {
    try {
      const FlushReport report = service_.flush();
      if (report.rows > 0 || report.rejected > 0) {
        spdlog::info("flushed {} rows into {} partitions, {} rejected", report.rows, report.partitions, report.rejected);
      }
      for (const std::string& problem : report.problems) spdlog::error("{}", problem);
    } catch (const Error& e) {  // the rows stay in the spool for the next tick
      spdlog::error("flush: {}", e.what());
    }
  }

 private:
  Service& service_;
  int64_t next_ms_ = 0;
};

// Sinks on their schedules, each on a thread of its own while it runs; a tick that a run overlaps is run once, after it.
class SinkTicks {
 public:
  SinkTicks(Service& service, const std::atomic<bool>& stop) : service_(service) {
    for (const SinkConfig& sink : service.config().sinks) {
      if (sink.schedule) slots_.emplace_back(sink, sink.schedule->next_after_ms(now_ms()));
    }
    stop_ = &stop;
  }
  ~SinkTicks() {
    for (Slot& slot : slots_) {
      if (slot.thread.joinable()) slot.thread.join();
    }
  }
  void run(int64_t now) {
    for (Slot& slot : slots_) {
      if (now < slot.next_ms || slot.running) continue;
      if (slot.thread.joinable()) slot.thread.join();
      slot.next_ms = slot.sink.schedule->next_after_ms(now);
      slot.running = true;
      slot.thread = std::thread([this, &slot] {
        ship(slot.sink);
        slot.running = false;
      });
    }
  }

 private:
  struct Slot {
    Slot(const SinkConfig& config, int64_t next) : sink(config), next_ms(next) {}
    const SinkConfig& sink;
    int64_t next_ms;
    std::atomic<bool> running{false};
    std::thread thread;
  };

  void ship(const SinkConfig& sink) {
    try {
      SinkRunOptions options;
      options.cancelled = stop_;
      const SinkRunReport report = run_sink(service_.cache(), sink, options);
      if (report.rows() > 0) spdlog::info("sink {}: shipped {} rows in {} units", sink.name, report.rows(), report.units());
      for (const PartitionRun& run : report.partitions) {
        if (!run.error.empty()) spdlog::error("sink {}: {}: {}", sink.name, run.partition.logical_path(), run.error);
      }
    } catch (const Error& e) {  // the next tick tries again
      spdlog::error("sink {}: {}", sink.name, e.what());
    }
  }

  Service& service_;
  const std::atomic<bool>* stop_ = nullptr;
  std::list<Slot> slots_;
};

void follow(Service& service, const std::atomic<bool>& stop, std::vector<std::string>& reported) {
  try {
    const FollowReport report = service.follow(&stop);
    for (const std::string& problem : report.problems) {  // each once while it lasts
      if (std::find(reported.begin(), reported.end(), problem) == reported.end()) spdlog::error("collect: {}", problem);
    }
    reported = report.problems;
  } catch (const Error& e) {
    spdlog::error("collect: {}", e.what());
  }
}

}  // namespace

HttpResponse answer_http(Service& service, const HttpRequest& request) {
  if (request.path == "/healthz") {
    return request.method == "GET" ? HttpResponse{200, "{\"status\":\"ok\"}\n", {}} : problem(405, "use GET");
  }
  constexpr std::string_view kIngest = "/v1/ingest/";
  if (!request.path.starts_with(kIngest)) return problem(404, "there is /healthz and /v1/ingest/{dataset}");
  if (request.method != "POST") return problem(405, "use POST");
  if (const std::string& token = service.config().token; !token.empty()) {
    const std::string given = header(request, "authorization");
    if (!given.starts_with("Bearer ") || !same_secret(std::string_view(given).substr(7), token)) {
      return problem(401, "the bearer token is missing or wrong");
    }
  }
  if (!header(request, "x-hyp-stream").empty()) return problem(501, "this daemon captures; X-Hyp-Stream is for a receiver");
  return capture(service, request.path.substr(kIngest.size()), request);
}

void run_daemon(Service& service, const DaemonOptions& options, const std::atomic<bool>& stop) {
  FlushTick flush_tick(service);
  {
    const ControlServer control(service.config().cache_root, options.run_command);
    std::unique_ptr<HttpServer> http;
    if (!service.config().listen.empty()) {
      HttpServerOptions http_options;
      http_options.listen = service.config().listen;
      http = std::make_unique<HttpServer>(http_options, [&](const HttpRequest& request) { return answer_http(service, request); });
      options.announce(fmt::format("listening on http://{}:{}", service.config().listen.substr(0, service.config().listen.rfind(':')),
                                   http->port()));
    }
    options.announce("serving the cache " + service.config().cache_root);
    SinkTicks sinks(service, stop);
    std::vector<std::string> reported;
    int64_t next_follow_ms = 0;
    while (!stop) {
      const int64_t now = now_ms();
      if (now >= next_follow_ms) {
        follow(service, stop, reported);
        next_follow_ms = now_ms() + kFollowIntervalMs;
      }
      flush_tick.run(now);
      sinks.run(now_ms());
      std::this_thread::sleep_for(std::chrono::milliseconds(kTickMs));
    }
    spdlog::info("stopping: what is under way ends first");
  }
  flush_tick.flush();  // nothing is captured any more
}

}  // namespace firn::hyp
