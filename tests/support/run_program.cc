#include "support/run_program.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "base/error.h"
#include "io/local.h"

extern char** environ;

namespace firn {
namespace {

struct Pipe {
  Descriptor read_end;
  Descriptor write_end;

  Pipe() {
    std::array<int, 2> fds;
    if (::pipe2(fds.data(), O_CLOEXEC) != 0) fail_errno(errno, "pipe");
    read_end = Descriptor(fds[0]);
    write_end = Descriptor(fds[1]);
  }
};

std::vector<std::string> merged_environment(const std::map<std::string, std::string>& env) {
  std::vector<std::string> merged;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (!env.contains(std::string(text.substr(0, text.find('='))))) merged.emplace_back(text);
  }
  for (const auto& [key, value] : env) merged.push_back(fmt::format("{}={}", key, value));
  return merged;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> list;
  list.reserve(texts.size() + 1);
  for (std::string& text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

// Reads what is there; closes `fd` at its end.
void drain(Descriptor& fd, std::string& into) {
  std::array<char, 65'536> buffer;
  const ssize_t got = ::read(fd.get(), buffer.data(), buffer.size());
  if (got > 0) into.append(buffer.data(), static_cast<size_t>(got));
  if (got == 0 || (got < 0 && errno != EINTR)) fd = Descriptor();
}

}  // namespace

ProgramResult run_program(const std::vector<std::string>& argv, const std::map<std::string, std::string>& env,
                          std::string_view input) {
  std::signal(SIGPIPE, SIG_IGN);  // a program may end before it has read its input
  Pipe in;
  Pipe out;
  Pipe err;
  ::fcntl(in.write_end.get(), F_SETFL, O_NONBLOCK);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.read_end.get(), 0);
  posix_spawn_file_actions_adddup2(&actions, out.write_end.get(), 1);
  posix_spawn_file_actions_adddup2(&actions, err.write_end.get(), 2);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t defaults;
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGPIPE);  // ignored signals are inherited
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  std::vector<std::string> arguments = argv;
  std::vector<std::string> environment = merged_environment(env);
  pid_t pid = 0;
  const int error = ::posix_spawnp(&pid, argv.at(0).c_str(), &actions, &attributes, pointers(arguments).data(),
                                   pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) fail(ErrorKind::io, "start {}: errno {}", argv[0], error);

  in.read_end = Descriptor();
  out.write_end = Descriptor();
  err.write_end = Descriptor();
  if (input.empty()) in.write_end = Descriptor();
  ProgramResult result;
  while (out.read_end || err.read_end) {
    std::array<pollfd, 3> polled = {pollfd{in.write_end.get(), POLLOUT, 0}, pollfd{out.read_end.get(), POLLIN, 0},
                                    pollfd{err.read_end.get(), POLLIN, 0}};
    if (::poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) fail_errno(errno, "poll");
    if (in.write_end && polled[0].revents != 0) {
      const ssize_t written = ::write(in.write_end.get(), input.data(), input.size());
      if (written > 0) input.remove_prefix(static_cast<size_t>(written));
      if (input.empty() || (written < 0 && errno != EAGAIN && errno != EINTR)) in.write_end = Descriptor();
    }
    if (out.read_end && polled[1].revents != 0) drain(out.read_end, result.out);
    if (err.read_end && polled[2].revents != 0) drain(err.read_end, result.err);
  }
  in.write_end = Descriptor();
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) fail_errno(errno, "waitpid");
  }
  result.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return result;
}

}  // namespace firn
