// How a command reaches the process that owns the cache: a Unix socket in the cache root, over which it hands its
// words, its working directory and its three standard descriptors; the owner runs it and answers with its exit status.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hyp/config.h"
#include "io/local.h"

namespace firn::hyp {

struct RemoteCommand {
  std::vector<std::string> words;  // without the program's name
  std::string working_directory;
  std::string config_path, config_digest;  // of the configuration that the caller read
  Descriptor in, out, err;
  std::atomic<bool> cancelled{false};  // the caller hung up
};

// Runs `words` in the daemon that owns `config`'s cache, on this process's standard descriptors; its exit status.
// nullopt: no daemon listens there. Once `cancelled` is set the daemon is told so, and its answer still waited for.
// Throws io if it was lost on the way (then what it did is not known).
std::optional<int> run_in_daemon(const Config& config, const std::vector<std::string>& words,
                                 const std::atomic<bool>& cancelled);

bool daemon_listens(const std::string& cache_root);

// Listens until destroyed; each command runs on a thread of its own. The handler must not throw.
class ControlServer {
 public:
  using Handler = std::function<int(RemoteCommand&)>;
  // A socket that an earlier process left is replaced; the caller holds the owner's lock.
  ControlServer(const std::string& cache_root, Handler handler);
  ~ControlServer();  // stops accepting, cancels what runs, and waits for it

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace firn::hyp
