// The daemon killed while rows come over HTTP; each batch is sent again until it is acknowledged (P4.1, P4.2).
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <iostream>
#include <random>
#include <thread>

#include "crash/scenario.h"
#include "support/child_program.h"
#include "support/test_seed.h"

namespace firn::hyp {
namespace {

std::string log_path(const Site& site) { return site.live() + "/daemon.log"; }

// The port that a daemon listens on; nullopt if it died before.
std::optional<uint16_t> wait_until_listening(ChildProgram& daemon) {
  const std::string said = "listening on http://127.0.0.1:";
  const auto text = daemon.read_until({said, "serving the cache"});  // then the control socket serves, too
  if (!text) return std::nullopt;
  return static_cast<uint16_t>(std::stoi(text->substr(text->find(said) + said.size())));
}

// The status of the answer, or 0 where there was none.
int post(uint16_t port, const std::string& batch_id, const std::string& body) {
  const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return 0;
  const std::string request = fmt::format(
      "POST /v1/ingest/events HTTP/1.1\r\nHost: localhost\r\nX-Hyp-Batch-Id: {}\r\nConnection: close\r\n"
      "Content-Length: {}\r\n\r\n{}",
      batch_id, body.size(), body);
  if (::send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size()))
    return 0;
  std::string answer;
  for (std::array<char, 512> part;;) {
    pollfd polled{socket.get(), POLLIN, 0};
    if (::poll(&polled, 1, 10'000) <= 0) return 0;
    const ssize_t got = ::recv(socket.get(), part.data(), part.size(), 0);
    if (got <= 0) break;
    answer.append(part.data(), static_cast<size_t>(got));
  }
  return answer.starts_with("HTTP/1.1 ") && answer.size() > 12 ? std::stoi(answer.substr(9, 3)) : 0;
}

class KilledDaemon {
 public:
  explicit KilledDaemon(uint64_t seed) : random_(seed) {}

  void run(int num_batches) {
    for (int batch = 0; batch < num_batches; ++batch) {
      std::string body;
      for (int i = 0; i < 8; ++i) {
        rows_.push_back(
            fmt::format(R"({{"at":"2024-03-0{}T00:00:00Z","batch":{},"n":{}}})", 1 + batch % 3, batch, i / 2));
        body += rows_.back() + "\n";
      }
      ASSERT_NO_FATAL_FAILURE(until_done([&] { return post(port_, fmt::format("batch-{}", batch), body) == 202; }));
      if (batch % 8 == 7) {
        ASSERT_NO_FATAL_FAILURE(until_done([&] { return site_.run_well(ship_).empty(); }));
      }
    }
    ASSERT_NO_FATAL_FAILURE(until_done([] { return true; }));
    const int status = daemon_->end(SIGTERM);
    EXPECT_TRUE(status == 0 || status == 128 + SIGKILL) << status;  // which is also that of a fault point
    EXPECT_EQ(site_.run_well(ship_), "");
    EXPECT_EQ(site_.check_rows(rows_, {}), "") << make_local_file_io()->read(log_path(site_));
    std::cout << starts_ << " starts of the daemon for " << num_batches << " batches\n";
  }

 private:
  size_t below(size_t bound) { return static_cast<size_t>(random_() % bound); }

  // Tries until `work` is done, with a daemon that runs.
  void until_done(const std::function<bool()>& work) {
    for (int tries = 0; tries < 500; ++tries) {
      if (!daemon_ || !daemon_->is_running()) start();
      if (port_ != 0 && work()) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));  // it may be dying
    }
    FAIL() << "the daemon takes nothing: " << make_local_file_io()->read(log_path(site_));
  }

  // It dies at any moment, or at a fault point as a process or with the power.
  void start() {
    ++starts_;
    std::map<std::string, std::string> env;
    const size_t how = below(3);
    if (how > 0) env["FIRN_FAULT_KILL_AT"] = std::to_string(1 + below(250));
    if (how == 2) env["FIRN_FAULT_FORGET"] = "1";
    daemon_ = std::make_unique<ChildProgram>(site_.command({"daemon"}), env, log_path(site_));
    port_ = wait_until_listening(*daemon_).value_or(0);
    if (how == 0) daemon_->kill_after(std::chrono::milliseconds(below(300)));
  }

  std::mt19937_64 random_;
  Site site_{"127.0.0.1:0"};
  const Step ship_ = {"sink run", {"sink", "run"}};
  Lines rows_;
  std::unique_ptr<ChildProgram> daemon_;
  uint16_t port_ = 0;
  int starts_ = 0;
};

TEST(DaemonKilledSampled, EachAcknowledgedBatchIsThereOnce) {
  SCOPED_TRACE(fmt::format("FIRN_TEST_SEED={}", test_seed()));
  KilledDaemon(test_seed()).run(24);
}

TEST(DaemonKilledEverywhere, EachAcknowledgedBatchIsThereOnce) {
  SCOPED_TRACE(fmt::format("FIRN_TEST_SEED={}", test_seed()));
  for (int i = 0; i < 4; ++i) KilledDaemon(test_seed() + static_cast<uint64_t>(i)).run(80);
}

}  // namespace
}  // namespace firn::hyp
