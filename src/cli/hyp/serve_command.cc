// hyp serve: the daemon as a receiver.
#include <sys/resource.h>

#include <csignal>

#include "cli/hyp/command.h"

namespace firn::hyp {
namespace {

// Connections, spool and tables take more descriptors than a shell gives by default.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);  // best effort: with fewer, connections wait
}

}  // namespace

int command_serve(const Config& config, const Invocation& invocation, bool takes_older_ledger) {
  if (invocation.service == nullptr) {
    raise_descriptor_limit();
    // What rotates logs sends it; the access log notices by itself that it was renamed.
    std::signal(SIGHUP, SIG_IGN);
  }
  Config told = config;
  told.receiver.takes_older_ledger = takes_older_ledger;
  return run_as_daemon(told, invocation, "hyp serve", /*receives=*/true);
}

}  // namespace firn::hyp
