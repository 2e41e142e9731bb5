// A command that runs beside the test, such as a daemon.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "io/local.h"

namespace firn {

// Killed with this object. Thread-safe but for read_until and end, which one thread calls.
class ChildProgram {
 public:
  // argv[0] is a path; `env` is set over this process's environment; standard error is appended to `log_path`.
  ChildProgram(std::vector<std::string> argv, const std::map<std::string, std::string>& env,
               const std::string& log_path);
  ~ChildProgram();
  ChildProgram(const ChildProgram&) = delete;
  ChildProgram& operator=(const ChildProgram&) = delete;

  // Its standard output up to where each of `texts` was in it; nullopt if it ended before.
  std::optional<std::string> read_until(const std::vector<std::string>& texts);
  bool is_running();
  void signal(int number);
  void kill_after(std::chrono::milliseconds life);
  // Sends `number` (0: nothing) and waits for its end. Exit status, or 128 + the signal that ended it. Requires that it
  // was not seen to have ended.
  int end(int number);

 private:
  std::mutex mutex_;
  pid_t pid_ = 0;  // 0: it has ended and was seen to
  Descriptor out_;
  std::string said_;
  std::thread killer_;
};

}  // namespace firn
