#include "base/span.h"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <mutex>

#include <spdlog/spdlog.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/json.h"

namespace firn {
namespace {

enum class Tracing : uint8_t { unread, off, on };

std::atomic<Tracing> g_tracing{Tracing::unread};
std::mutex g_mutex;  // guards g_fd
int g_fd = -1;

int open_trace(const std::string& path) {
  return ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
}

// Requires the mutex.
void use_fd(int fd) {
  if (g_fd >= 0) ::close(g_fd);
  g_fd = fd;
  g_tracing.store(fd >= 0 ? Tracing::on : Tracing::off, std::memory_order_relaxed);
}

bool read_environment() {
  std::lock_guard lock(g_mutex);
  if (g_tracing.load(std::memory_order_relaxed) == Tracing::unread) {
    const char* path = std::getenv("FIRN_TRACE_FILE");
    const int fd = path != nullptr && *path != '\0' ? open_trace(path) : -1;
    // Work goes on untraced: a span is no place to fail it.
    if (path != nullptr && *path != '\0' && fd < 0) spdlog::warn("FIRN_TRACE_FILE {} cannot be opened", path);
    use_fd(fd);
  }
  return g_tracing.load(std::memory_order_relaxed) == Tracing::on;
}

bool is_tracing() {
  const Tracing tracing = g_tracing.load(std::memory_order_relaxed);
  return tracing == Tracing::unread ? read_environment() : tracing == Tracing::on;
}

std::string random_hex(size_t size_bytes) {
  std::string bytes(size_bytes, '\0');
  if (::getrandom(bytes.data(), size_bytes, 0) != static_cast<ssize_t>(size_bytes)) fail_errno(errno, "getrandom");
  return to_hex(bytes);
}

int64_t unix_nanos() {
  // The shift of FIRN_CLOCK_OFFSET_MS stays out: a trace tells when things happened.
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since_epoch).count();
}

Json attribute(std::string_view key, Json value) { return Json{{"key", key}, {"value", std::move(value)}}; }

}  // namespace

struct Span::State {
  std::string name;
  std::string trace_id;  // hex
  std::string span_id;
  State* parent = nullptr;
  int64_t start_nanos = 0;
  int64_t start_steady_us = 0;
  int exceptions_at_start = 0;
  Json attributes = Json::array();
  bool failed = false;
  std::string failure;

  static State*& innermost() {
    thread_local State* state = nullptr;
    return state;
  }

  void set(std::string_view key, Json value) {
    for (Json& existing : attributes) {  // OTLP: keys are unique; the last wins
      if (existing["key"] == key) {
        existing["value"] = std::move(value);
        return;
      }
    }
    attributes.push_back(attribute(key, std::move(value)));
  }

  std::string to_line() const {
    // The end from the monotonic clock, so that a step of the wall clock gives no negative duration.
    const int64_t end_nanos = start_nanos + (steady_us() - start_steady_us) * 1000;
    Json span = {{"traceId", trace_id}, {"spanId", span_id}};
    if (parent != nullptr) span["parentSpanId"] = parent->span_id;
    span["name"] = name;
    span["kind"] = 1;  // SPAN_KIND_INTERNAL
    span["startTimeUnixNano"] = std::to_string(start_nanos);
    span["endTimeUnixNano"] = std::to_string(end_nanos);
    span["attributes"] = attributes;
    span["status"] = failed ? Json{{"code", 2}, {"message", failure}} : Json{{"code", 1}};  // ERROR, OK
    const Json service = attribute("service.name", Json{{"stringValue", "firn"}});
    Json scope_spans = {{"scope", {{"name", "firn"}}}, {"spans", Json::array({std::move(span)})}};
    Json resource_spans = {{"resource", {{"attributes", Json::array({service})}}},
                           {"scopeSpans", Json::array({std::move(scope_spans)})}};
    const Json line = {{"resourceSpans", Json::array({std::move(resource_spans)})}};
    return line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  }
};

void set_trace_file(const std::string& path) {
  const int fd = path.empty() ? -1 : open_trace(path);
  if (!path.empty() && fd < 0) {
    fail(ErrorKind::io, "open trace file {}: {}", path, std::generic_category().message(errno));
  }
  std::lock_guard lock(g_mutex);
  use_fd(fd);
}

Span::Span(std::string_view name) : state_(nullptr) {
  if (!is_tracing()) [[likely]]
    return;
  auto state = std::make_unique<State>();
  state->name = name;
  state->parent = State::innermost();
  state->trace_id = state->parent != nullptr ? state->parent->trace_id : random_hex(16);
  state->span_id = random_hex(8);
  state->start_nanos = unix_nanos();
  state->start_steady_us = steady_us();
  state->exceptions_at_start = std::uncaught_exceptions();
  state_ = state.release();
  State::innermost() = state_;
}

Span::~Span() {
  if (state_ == nullptr) return;
  const std::unique_ptr<State> state(state_);
  State::innermost() = state->parent;
  try {
    if (std::uncaught_exceptions() > state->exceptions_at_start && !state->failed) {
      state->failed = true;
      state->failure = "ended by an exception";
    }
    const std::string line = state->to_line();
    std::lock_guard lock(g_mutex);
    // Best effort: one write a line, whole among processes; a full disk loses spans and nothing else.
    if (g_fd >= 0 && ::write(g_fd, line.data(), line.size()) < 0) spdlog::debug("a span could not be written");
  } catch (const std::exception& e) {
    spdlog::debug("a span could not be written: {}", e.what());
  }
}

void Span::set(std::string_view key, std::string_view value) {
  if (state_ != nullptr) state_->set(key, Json{{"stringValue", value}});
}

void Span::set(std::string_view key, int64_t value) {
  // OTLP/JSON writes 64-bit integers as strings.
  if (state_ != nullptr) state_->set(key, Json{{"intValue", std::to_string(value)}});
}

void Span::fail(std::string_view error_kind, std::string_view message) {
  if (state_ == nullptr) return;
  set("error_kind", error_kind);
  state_->failed = true;
  state_->failure = message;
}

}  // namespace firn
