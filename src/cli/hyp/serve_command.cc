// hyp serve: the daemon as a receiver.
#include <csignal>

#include "cli/hyp/command.h"

namespace firn::hyp {

int command_serve(const Config& config, const Invocation& invocation, bool takes_older_ledger) {
  if (invocation.service == nullptr) {
    // What rotates logs sends it; the access log notices by itself that it was renamed.
    std::signal(SIGHUP, SIG_IGN);
  }
  Config told = config;
  told.receiver.takes_older_ledger = takes_older_ledger;
  return run_as_daemon(told, invocation, "hyp serve", /*receives=*/true);
}

}  // namespace firn::hyp
