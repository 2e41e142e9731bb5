#include "base/fault_point.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <utility>

#include "base/error.h"

namespace firn {
namespace {

enum class Arming : uint8_t { unread, idle, armed };

// Constant-initialised, so that a pass before main is safe.
std::atomic<Arming> g_arming{Arming::unread};
std::atomic<uint64_t> g_passes{0};
std::atomic<bool> g_is_stopped{false};

struct Rules {
  std::mutex mutex;
  bool is_environment_read = false;
  uint64_t kill_at = 0;  // 0: never
  bool forget = false;
  int log_fd = -1;
  std::shared_ptr<const std::function<void(const char*)>> handler;  // shared: called without the mutex, never copied
  std::function<void()> forget_hook;
};

Rules& rules() {
  static Rules* rules = new Rules;  // never destroyed: threads may pass points while the process exits
  return *rules;
}

// Requires the mutex.
void read_environment(Rules& r) {
  if (std::exchange(r.is_environment_read, true)) return;
  if (const char* text = std::getenv("FIRN_FAULT_KILL_AT")) {
    char* end = nullptr;
    r.kill_at = std::strtoull(text, &end, 10);
    if (r.kill_at == 0 || *end != '\0') {
      fail(ErrorKind::invalid_argument, "FIRN_FAULT_KILL_AT is \"{}\": give the number of the pass, from 1", text);
    }
  }
  const char* forget = std::getenv("FIRN_FAULT_FORGET");
  r.forget = forget != nullptr && std::string_view(forget) == "1";
  if (const char* path = std::getenv("FIRN_FAULT_LOG")) {
    r.log_fd = ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (r.log_fd < 0) fail_errno(errno, fmt::format("open FIRN_FAULT_LOG {}", path));
  }
}

// Requires the mutex.
void update_arming(Rules& r) {
  read_environment(r);
  const bool armed = r.kill_at != 0 || r.log_fd >= 0 || r.handler || is_program_stopped();
  g_arming.store(armed ? Arming::armed : Arming::idle, std::memory_order_relaxed);
}

void pass(const char* name) {
  check_program_runs();
  Rules& r = rules();
  std::shared_ptr<const std::function<void(const char*)>> handler;
  {
    std::lock_guard lock(r.mutex);
    update_arming(r);
    handler = r.handler;
  }
  if (handler) (*handler)(name);
  check_program_runs();
  const uint64_t number = g_passes.fetch_add(1) + 1;
  if (r.log_fd >= 0) {
    const std::string line = std::string(name) + "\n";
    if (::write(r.log_fd, line.data(), line.size()) < 0) fail_errno(errno, "write FIRN_FAULT_LOG");
  }
  if (number != r.kill_at) return;
  std::function<void()> forget_hook;
  if (r.forget) {
    std::lock_guard lock(r.mutex);
    forget_hook = r.forget_hook;
  }
  if (forget_hook) forget_hook();
  ::_exit(137);
}

}  // namespace

void fault_point(const char* name) {
  if (g_arming.load(std::memory_order_relaxed) == Arming::idle) [[likely]]
    return;
  pass(name);
}

void set_fault_handler(std::function<void(const char* name)> handler) {
  Rules& r = rules();
  std::lock_guard lock(r.mutex);
  r.handler = handler ? std::make_shared<const std::function<void(const char*)>>(std::move(handler)) : nullptr;
  update_arming(r);
}

void set_forget_hook(std::function<void()> hook) {
  Rules& r = rules();
  std::lock_guard lock(r.mutex);
  r.forget_hook = std::move(hook);
}

void stop_program() {
  Rules& r = rules();
  std::lock_guard lock(r.mutex);
  g_is_stopped = true;
  update_arming(r);
}

void restart_program() {
  Rules& r = rules();
  std::lock_guard lock(r.mutex);
  g_is_stopped = false;
  update_arming(r);
}

bool is_program_stopped() { return g_is_stopped.load(std::memory_order_relaxed); }

void check_program_runs() {
  if (is_program_stopped()) [[unlikely]]
    throw Stopped();
}

bool survives_fault_point(const char* name) {
  try {
    fault_point(name);
  } catch (const Stopped&) {
    return false;
  }
  return true;
}

}  // namespace firn
