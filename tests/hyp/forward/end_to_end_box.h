// A cache with a forward sink, the real receiver with its own cache in a process of its own, and a proxy between them.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <memory>
#include <string>

#include "hyp/daemon/receiver_server.h"
#include "hyp/receiver/gateways.h"
#include "hyp/sink/backpressure.h"
#include "hyp/sink/sink_box.h"
#include "support/crash.h"
#include "support/fault_proxy.h"

namespace firn::hyp {

// `hyp serve` in a process of its own, which can be killed. One thread uses it.
class ReceiverProcess {
 public:
  struct Options {
    int flush_every_ms = 20;                // -1: when it is told to, and at its end
    std::function<void()> begin = nullptr;  // runs in the process before anything else
  };
  explicit ReceiverProcess(const Config& config) : ReceiverProcess(config, Options()) {}
  ReceiverProcess(const Config& config, Options options) : config_(config), options_(std::move(options)) { start(); }
  ~ReceiverProcess() { kill(); }
  ReceiverProcess(const ReceiverProcess&) = delete;
  ReceiverProcess& operator=(const ReceiverProcess&) = delete;

  uint16_t port() const { return port_; }  // 0: it died before it served
  void start() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) fail_errno(errno, "socketpair");
    pid_ = fork_child();
    if (pid_ == 0) {
      ::close(ends[0]);
      serve(ends[1]);
    }
    ::close(ends[1]);
    control_ = Descriptor(ends[0]);
    uint16_t port = 0;
    port_ = ::recv(control_.get(), &port, sizeof port, MSG_WAITALL) == sizeof port ? port : 0;
  }
  // Returns when it has, or is dead.
  void flush() const {
    char done = 'f';
    if (::send(control_.get(), &done, 1, MSG_NOSIGNAL) == 1) ::recv(control_.get(), &done, 1, 0);
  }
  void kill() {
    if (pid_ > 0) ::kill(pid_, SIGKILL);
    wait();
  }
  // As SIGTERM ends it: what was received is flushed. 128 + the signal that ended it, or its exit status.
  int end() {
    control_ = Descriptor();
    return wait();
  }

 private:
  int wait() {
    if (pid_ <= 0) return 0;
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = 0;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }

  [[noreturn]] void serve(int control) const {
    try {
      if (options_.begin) options_.begin();
      const auto service = Service::try_own(config_);
      auto server = std::make_unique<ReceiverServer>(*service, [&](const std::string& line) {
        if (!line.starts_with("receiving on ")) return;
        const auto port = static_cast<uint16_t>(std::stoi(line.substr(line.rfind(':') + 1)));
        if (::send(control, &port, sizeof port, MSG_NOSIGNAL) != sizeof port) ::_exit(2);
      });
      for (;;) {
        pollfd told{control, POLLIN, 0};
        char what = 'f';
        const bool is_told = ::poll(&told, 1, options_.flush_every_ms) > 0;
        if (is_told && ::recv(control, &what, 1, 0) <= 0) break;
        service->flush();
        if (is_told && ::send(control, &what, 1, MSG_NOSIGNAL) != 1) break;
      }
      server.reset();
      service->flush();
      ::_exit(0);
    } catch (const std::exception& e) {
      std::fprintf(stderr, "receiver: %s\n", e.what());
    }
    ::_exit(1);
  }

  const Config config_;
  const Options options_;
  pid_t pid_ = 0;
  uint16_t port_ = 0;
  Descriptor control_;
};

// A receiver's configuration with one gateway, whose token is in `token_file`; all of it below `folder`.
inline Config make_receiver_config(const std::string& folder, const std::string& token_file) {
  Config config;
  config.cache_root = folder + "/cache";
  config.state_dir = folder + "/state";
  config.receiver.listen = "127.0.0.1:0";
  make_directories(config.state_dir);
  replace_file(token_file, add_gateway(config.state_dir, "gw") + "\n");
  return config;
}

// The rows in the receiver's cache without the gateway's column, normal and sorted. Nothing else has it open; what it
// received and did not flush is flushed.
inline Lines rows_received(const Config& config, const std::string& dataset = "logs") {
  const TempFolder folder;
  const std::string file = folder / "received";
  EXPECT_EQ(run_in_child([&] {  // in this process an older state of these tables may be known
              const auto service = Service::try_own(config);
              service->open_receiver();
              service->flush();
              std::string text;
              for (const PartitionId& partition : service->cache().partitions(dataset)) {
                for (const std::string& row : cached_rows(service->cache(), partition)) {
                  Json json = Json::parse(row);
                  EXPECT_EQ(json["hyp_gateway"], "gw");
                  json.erase("hyp_gateway");
                  text += json.dump() + "\n";
                }
              }
              replace_file(file, text);
            }),
            0);
  return sorted_rows(lines_of_jsonl(file));
}

class EndToEnd : public testing::Test {
 protected:
  EndToEnd() {
    make_directories(box_.live);
    sink_.name = "out";
    sink_.kind = SinkKind::forward;
    sink_.forward.token_file = box_.folder / "token";
    receiver_config_ = make_receiver_config(there_, sink_.forward.token_file);
    receiver_ = std::make_unique<ReceiverProcess>(receiver_config_);
    proxy_ = std::make_unique<FaultProxy>(receiver_->port());
    sink_.forward.url = proxy_->url();
    set_wait_sources({.random = {}, .sleep_ms = [](int64_t) {}, .now_us = {}});
  }
  ~EndToEnd() override { set_wait_sources({}); }

  void restart_receiver() {
    receiver_->kill();
    start_receiver();
  }
  void start_receiver() {
    receiver_->start();
    if (receiver_->port() == 0) fail(ErrorKind::internal, "the receiver did not start");
    proxy_->set_server_port(receiver_->port());
  }
  // Ends the receiver.
  Lines received() {
    receiver_->kill();
    return rows_received(receiver_config_);
  }

  SinkBox box_;
  const std::string there_ = box_.folder / "there";  // all that the receiver has
  Config receiver_config_;
  SinkConfig sink_;
  std::unique_ptr<ReceiverProcess> receiver_;
  std::unique_ptr<FaultProxy> proxy_;
};

// {"n":from} … {"n":until}
inline Lines rows(int from, int until) {
  Lines lines;
  for (int n = from; n <= until; ++n) lines.push_back(fmt::format(R"({{"n":{}}})", n));
  return lines;
}

}  // namespace firn::hyp
