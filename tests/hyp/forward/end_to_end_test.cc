// A cache, a forward sink, a bad network, and the real receiver with its own cache: each row once, whatever happens
// (P10, P11).
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>
#include <random>

#include "base/fault_point.h"
#include "hyp/daemon/receiver_server.h"
#include "hyp/maintain/maintain.h"
#include "hyp/maintain/purge.h"
#include "hyp/receiver/gateways.h"
#include "hyp/sink/backpressure.h"
#include "hyp/sink/dead_letters.h"
#include "hyp/sink/destination.h"
#include "hyp/sink/sink_box.h"
#include "iceberg/expr/expression.h"
#include "support/crash.h"
#include "support/fault_proxy.h"
#include "support/test_seed.h"

namespace firn::hyp {
namespace {

const PartitionId kFrom = {"logs", "web"};

// `hyp serve` in a process of its own, which can be killed.
class ReceiverProcess {
 public:
  explicit ReceiverProcess(const Config& config) : config_(config) { start(); }
  ~ReceiverProcess() { kill(); }

  uint16_t port() const { return port_; }
  void start() {
    int ends[2];
    if (::pipe(ends) != 0) fail_errno(errno, "pipe");
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(ends[0]);
      serve(ends[1]);
    }
    ::close(ends[1]);
    uint16_t port = 0;
    const ssize_t got = ::read(ends[0], &port, sizeof port);
    ::close(ends[0]);
    if (got != sizeof port) fail(ErrorKind::internal, "the receiver did not start");
    port_ = port;
  }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = 0;
  }

 private:
  [[noreturn]] void serve(int port_to) const {
    try {
      const auto service = Service::try_own(config_);
      const ReceiverServer server(*service, [&](const std::string& line) {
        if (!line.starts_with("receiving on ")) return;
        const auto port = static_cast<uint16_t>(std::stoi(line.substr(line.rfind(':') + 1)));
        if (::write(port_to, &port, sizeof port) != sizeof port) ::_exit(2);
      });
      for (;;) {
        service->flush();
        ::usleep(20'000);
      }
    } catch (const std::exception& e) {
      std::fprintf(stderr, "receiver: %s\n", e.what());
    }
    ::_exit(1);
  }

  Config config_;
  pid_t pid_ = 0;
  uint16_t port_ = 0;
};

class EndToEnd : public testing::Test {
 protected:
  EndToEnd() {
    receiver_config_.cache_root = box_.folder / "there/cache";
    receiver_config_.state_dir = box_.folder / "there/state";
    receiver_config_.receiver.listen = "127.0.0.1:0";
    make_directories(receiver_config_.state_dir);
    make_directories(box_.live);
    sink_.name = "out";
    sink_.kind = SinkKind::forward;
    sink_.forward.token_file = box_.folder / "token";
    replace_file(sink_.forward.token_file, add_gateway(receiver_config_.state_dir, "gw") + "\n");
    receiver_ = std::make_unique<ReceiverProcess>(receiver_config_);
    proxy_ = std::make_unique<FaultProxy>(receiver_->port());
    sink_.forward.url = proxy_->url();
    set_wait_sources({.random = {}, .sleep_ms = [](int64_t) {}, .now_us = {}});
  }
  ~EndToEnd() override { set_wait_sources({}); }

  void restart_receiver() {
    receiver_->kill();
    receiver_->start();
    proxy_->set_server_port(receiver_->port());
  }

  // The rows in the receiver's cache without the gateway's column, normal and sorted. Ends the receiver.
  Lines received() {
    receiver_->kill();
    const std::string file = box_.folder / "received";
    EXPECT_EQ(run_in_child([&] {
                const auto service = Service::try_own(receiver_config_);
                service->open_receiver();
                service->flush();
                std::string text;
                for (const PartitionId& partition : service->cache().partitions("logs")) {
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

  SinkBox box_;
  Config receiver_config_;
  SinkConfig sink_;
  std::unique_ptr<ReceiverProcess> receiver_;
  std::unique_ptr<FaultProxy> proxy_;
};

Lines rows(int from, int until) {
  Lines lines;
  for (int n = from; n <= until; ++n) lines.push_back(fmt::format(R"({{"n":{}}})", n));
  return lines;
}

TEST_F(EndToEnd, RowsOfACacheArriveInTheReceiversCache) {
  sink_.unit_rows_max = 3;
  box_.ingest_lines("logs", "web", rows(1, 7));
  box_.ingest_lines("logs", "a/b c%d", rows(8, 9));
  EXPECT_EQ(box_.ship_well(sink_).rows(), 9);
  EXPECT_EQ(box_.ship_well(sink_).units(), 0);
  EXPECT_EQ(received(), sorted_rows(rows(1, 9)));
}

// What one sink brought is no copy's (P10.7).
TEST_F(EndToEnd, TwoSinksThatKnowTheReceiverUnderTwoAddressesMakeOneStream) {
  SinkConfig other = sink_;
  other.name = "other";
  other.forward.url = fmt::format("http://localhost:{}", receiver_->port());
  Cache cache(box_.config);
  const auto ship = [&](const SinkConfig& sink) {
    const SinkRunReport report = run_sink(cache, sink);
    EXPECT_FALSE(report.failed()) << sink.name << ": " << report.partitions.at(0).error;
  };
  ingest(cache, {make_frame("logs", "web", rows(1, 4))});
  ship(sink_);
  ship(other);
  ingest(cache, {make_frame("logs", "web", rows(5, 8))});
  ship(other);
  ship(sink_);
  EXPECT_EQ(received(), sorted_rows(rows(1, 8)));
}

TEST_F(EndToEnd, Case20AKilledSinkSendsItsRangeAgainAndThenTheNewRows) {
  box_.ingest_lines("logs", "web", rows(1, 3));
  const auto points = fault_points_of([&] { box_.ship_well(sink_); });
  const auto answered = std::find(points.rbegin(), points.rend(), "forward.answered");
  ASSERT_NE(answered, points.rend());
  receiver_->kill();
  fs::remove_all(receiver_config_.cache_root);
  restart_receiver();
  fs::remove_all(box_.config.state_dir);
  // Committed there, and the bookmark is not written.
  run_killed_at(static_cast<size_t>(points.rend() - answered) - 1, Crash::process, [&] { box_.ship_well(sink_); });
  box_.ingest_lines("logs", "web", rows(4, 8));
  box_.ship_well(sink_);
  EXPECT_EQ(received(), sorted_rows(rows(1, 8)));
}

TEST_F(EndToEnd, RowsThatTheReceiverCannotTakeArePutAside) {
  const Lines bad = {R"({"n":3,"hyp_gateway":"forged"})", R"({"n":6,"hyp_gateway":"forged"})"};
  box_.ingest_lines("logs", "web", rows(1, 2) + Lines{bad[0]} + rows(4, 5) + Lines{bad[1]} + rows(7, 8));
  box_.ship_well(sink_);
  const std::string file = dead_letters_path(box_.config.state_dir, sink_.name, kFrom);
  Lines dead;
  for (const std::string& line : lines_of_jsonl(file)) dead.push_back(Json::parse(line)["row"].dump());
  EXPECT_EQ(sorted_rows(dead), sorted_rows(bad));
  // A column is one of all rows, null in the others; they are none the worse for it, nor are those that come later.
  box_.ingest_lines("logs", "web", rows(9, 10));
  box_.ship_well(sink_);
  EXPECT_EQ(lines_of_jsonl(file).size(), 2u);
  EXPECT_EQ(received(), sorted_rows(rows(1, 2) + rows(4, 5) + rows(7, 10)));
}

TEST_F(EndToEnd, AUnitThatWasPurgedBetweenCrashAndRetryMovesTheStreamOn) {
  for (const bool all : {false, true}) {
    const int from = all ? 11 : 1;
    sink_.unit_rows_max = 2;
    box_.ingest_lines("logs", "web", rows(from, from + 3));
    proxy_->set_script([](const ProxiedRequest& request) {
      return request.method == "POST" ? Fault{.kind = Fault::Kind::cut_answer} : Fault();
    });
    EXPECT_TRUE(box_.ship(sink_).failed());  // the first two landed, and nobody heard
    proxy_->set_script(
        [](const ProxiedRequest& request) { return request.method == "POST" ? answer_with(503) : Fault(); });
    EXPECT_TRUE(box_.ship(sink_).failed());
    {
      Cache cache(box_.config);
      const std::string where = all ? "n >= 11" : "n = 2";
      EXPECT_EQ(purge(cache, "logs", iceberg::parse_expression(where)).rows, all ? 4 : 1);
    }
    proxy_->set_script({});
    box_.ingest_lines("logs", "web", rows(from + 4, from + 5));
    box_.ship_well(sink_);
    Cache cache(box_.config);
    EXPECT_EQ(sink_status(cache, sink_).at(0).rows_behind, 0);
  }
  EXPECT_EQ(received(), sorted_rows(rows(1, 6) + rows(11, 12) + rows(15, 16)));
}

TEST_F(EndToEnd, AfterAResetToALowerNumberTheSameBodiesAreTakenAgain) {
  box_.ingest_lines("logs", "web", rows(1, 4));
  box_.ship_well(sink_);
  {
    Cache cache(box_.config);
    const auto destination = make_forward_destination(cache, sink_, nullptr);
    Unit unit{kFrom, stream_of(cache.sequence().cache_id(), kFrom), {}, 0, std::nullopt};
    unit.range.open_id = open_ranges(cache.sequence().opens()).at(0).open_id;
    int64_t last = 0;
    EXPECT_TRUE(destination->reset(unit, 4, last));
    EXPECT_EQ(destination->position(unit)->last, 0);
    last = 1;
    EXPECT_TRUE(destination->reset(unit, 0, last)) << "skips one";
    last = 0;
    EXPECT_TRUE(destination->reset(unit, 1, last));
    last = 1;
    EXPECT_TRUE(destination->reset(unit, 0, last)) << "the same as before is done again";
    EXPECT_EQ(destination->position(unit)->last, 1);
  }
  fs::remove_all(box_.config.state_dir);
  EXPECT_EQ(box_.ship_well(sink_).rows(), 3);
  EXPECT_EQ(received(), sorted_rows(rows(1, 4) + rows(2, 4)));
}

// --- at random ---

struct Random {
  std::mt19937_64 engine;
  int below(int count) { return static_cast<int>(engine() % static_cast<uint64_t>(count)); }
};

Fault random_fault(Random& random) {
  switch (random.below(14)) {
    case 0:
      return {.kind = Fault::Kind::cut_request};
    case 1:
      return {.kind = Fault::Kind::cut_answer};
    case 2:
      return {.kind = Fault::Kind::lose};
    case 3:
      return {.kind = Fault::Kind::late};
    case 4:
      return {.kind = Fault::Kind::duplicate};
    case 5:
      return answer_with(429, {{"Retry-After", random.below(2) == 0 ? "0" : "3"}});
    case 6:
      return answer_with(503, {{"Retry-After", "soon"}});
    case 7:
      return answer_with(401);
    case 8:
      return answer_with(502);
    case 9:
      return {.delay_ms = 3};
    default:
      return {};
  }
}

class EndToEndAtRandom : public EndToEnd, public testing::WithParamInterface<uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Rounds, EndToEndAtRandom, testing::Range(uint64_t{0}, uint64_t{4}));

TEST_P(EndToEndAtRandom, WhateverHappensEachRowArrivesOnce) {
  Random random{std::mt19937_64(test_seed() + GetParam())};
  Lines alive, lost;  // rows that the cache has, or had; lost: with an older backup restored, they may have been sent
  std::optional<Lines> backup_alive;
  const std::string backup = box_.folder / "backup";
  int next = 1, opens = 0;
  const auto ship = [&](bool is_killed) {
    sink_.unit_rows_max = 1 + random.below(4);
    sink_.unit_bytes_max = 10 + random.below(60);
    sink_.compression = random.below(2) == 0 ? "none" : "zstd";
    const int kill_at = is_killed ? random.below(60) : INT_MAX;
    run_in_child([&] {
      std::atomic<int> passes = 0;
      set_fault_handler([&](const char*) {
        if (passes++ == kill_at) ::_exit(137);
      });
      box_.ship(sink_);
    });
  };
  proxy_->set_script([&](const ProxiedRequest&) {
    if (random.below(40) == 0) restart_receiver();
    return random_fault(random);
  });
  for (int step = 0; step < 60; ++step) {
    SCOPED_TRACE(fmt::format("step {}", step));
    switch (random.below(12)) {
      case 0:
      case 1:
      case 2: {
        if (++opens > 40) break;  // a receiver keeps 64 of a stream
        const Lines some = rows(next, next + random.below(7));
        next += static_cast<int>(some.size());
        alive = alive + some;
        ASSERT_EQ(run_in_child([&] { box_.ingest_lines("logs", "web", some); }), 0);
        break;
      }
      case 3:
      case 4:
      case 5:
        ship(false);
        break;
      case 6:
      case 7:
        ship(true);
        break;
      case 8:
        restart_receiver();
        break;
      case 9:
        proxy_->deliver_late();
        if (random.below(3) == 0) fs::remove_all(box_.config.state_dir);  // a lost watermark
        break;
      case 10:
        ASSERT_EQ(run_in_child([&] {
                    Cache cache(box_.config);
                    maintain(cache);
                  }),
                  0);
        break;
      case 11:
        if (!backup_alive || random.below(2) == 0) {
          copy_folder(box_.live, backup);
          backup_alive = alive;
        } else {
          const Lines now = alive;
          alive = *backup_alive;
          for (const std::string& row : now) {
            if (std::find(alive.begin(), alive.end(), row) == alive.end()) lost.push_back(row);
          }
          copy_folder(backup, box_.live);
          if (random.below(2) == 0) fs::remove_all(box_.config.state_dir);
        }
        break;
    }
  }
  proxy_->set_script({});
  proxy_->deliver_late();
  ASSERT_EQ(run_in_child([&] { box_.ship_well(sink_); }), 0);
  const Lines there = received();
  for (const std::string& row : alive) EXPECT_EQ(std::count(there.begin(), there.end(), row), 1) << row;
  for (const std::string& row : lost) EXPECT_LE(std::count(there.begin(), there.end(), row), 1) << row;
  for (const std::string& row : there) {
    EXPECT_TRUE(std::count(alive.begin(), alive.end(), row) + std::count(lost.begin(), lost.end(), row) > 0) << row;
  }
}

}  // namespace
}  // namespace firn::hyp
