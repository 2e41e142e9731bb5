// The command hyp.
#include <csignal>
#include <filesystem>
#include <iostream>

#include <sys/resource.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/hyp/command.h"

namespace {

// Set by the first SIGINT or SIGTERM; the second ends the process at once.
std::atomic<bool> interrupted{false};

extern "C" void interrupt(int signal) {
  if (interrupted.exchange(true)) {
    std::signal(signal, SIG_DFL);
    raise(signal);
  }
}

// A query holds every partition of its datasets, a receiver every connection: more descriptors than a shell gives by
// default.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);  // best effort: where there are too few, the error says so
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  struct sigaction action {};
  action.sa_handler = interrupt;  // without SA_RESTART, so that a waiting read returns
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  raise_descriptor_limit();
  firn::init_log(spdlog::level::warn);

  firn::hyp::Invocation invocation;
  invocation.words.assign(argv + 1, argv + argc);
  invocation.working_directory = std::filesystem::current_path().string();
  invocation.out = &std::cout;
  invocation.err = &std::cerr;
  invocation.err_is_terminal = isatty(2) != 0;
  invocation.cancelled = &interrupted;
  const int status = firn::hyp::run_hyp(invocation);
  std::cout.flush();
  return std::cout.good() ? status : firn::hyp::kFailed;
}
