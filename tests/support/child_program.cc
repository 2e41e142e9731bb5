#include "support/child_program.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "base/error.h"

extern char** environ;

namespace firn {
namespace {

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (std::string& text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

}  // namespace

ChildProgram::ChildProgram(std::vector<std::string> argv, const std::map<std::string, std::string>& env,
                           const std::string& log_path) {
  std::array<int, 2> ends;
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail_errno(errno, "pipe");
  out_ = Descriptor(ends[0]);
  const Descriptor write_end(ends[1]);
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
  for (const auto& [key, value] : env) environment.push_back(key + "=" + value);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, write_end.get(), 1);
  posix_spawn_file_actions_addopen(&actions, 2, log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  const int error = ::posix_spawn(&pid_, argv[0].c_str(), &actions, nullptr, pointers_to(argv).data(),
                                  pointers_to(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) fail(ErrorKind::io, "start {}: errno {}", argv[0], error);
}

ChildProgram::~ChildProgram() {
  if (is_running()) end(SIGKILL);
  if (killer_.joinable()) killer_.join();
}

std::optional<std::string> ChildProgram::read_until(const std::vector<std::string>& texts) {
  const auto is_said = [&] {
    for (const std::string& text : texts) {
      if (said_.find(text) == std::string::npos) return false;
    }
    return true;
  };
  for (std::array<char, 512> part; !is_said();) {
    const ssize_t got = ::read(out_.get(), part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::nullopt;
    said_.append(part.data(), static_cast<size_t>(got));
  }
  return said_;
}

bool ChildProgram::is_running() {
  const std::lock_guard guard(mutex_);
  if (pid_ > 0 && ::waitpid(pid_, nullptr, WNOHANG) == pid_) pid_ = 0;
  return pid_ > 0;
}

void ChildProgram::signal(int number) {
  const std::lock_guard guard(mutex_);
  if (pid_ > 0) ::kill(pid_, number);
}

void ChildProgram::kill_after(std::chrono::milliseconds life) {
  killer_ = std::thread([this, life] {
    std::this_thread::sleep_for(life);
    signal(SIGKILL);
  });
}

int ChildProgram::end(int number) {
  if (number != 0) signal(number);
  siginfo_t ended;
  while (::waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
  }
  const std::lock_guard guard(mutex_);  // its number is free for others from here on
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = 0;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace firn
