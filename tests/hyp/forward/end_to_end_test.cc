// A cache, a forward sink, a bad network, and the real receiver with its own cache: each row once, whatever happens
// (P10, P11).
#include "hyp/forward/end_to_end_box.h"

#include <random>

#include "base/fault_point.h"
#include "hyp/maintain/maintain.h"
#include "hyp/maintain/purge.h"
#include "hyp/sink/dead_letters.h"
#include "hyp/sink/destination.h"
#include "iceberg/expr/expression.h"
#include "support/test_seed.h"

namespace firn::hyp {
namespace {

const PartitionId kFrom = {"logs", "web"};

TEST_F(EndToEnd, RowsOfACacheArriveInTheReceiversCache) {
  sink_.unit_rows_max = 3;
  box_.ingest_lines("logs", "web", rows(1, 7));
  box_.ingest_lines("logs", "a/b c%d", rows(8, 9));
  EXPECT_EQ(box_.ship_well(sink_).rows(), 9);
  EXPECT_EQ(box_.ship_well(sink_).units(), 0);
  EXPECT_EQ(received(), sorted_rows(rows(1, 9)));
}

TEST_F(EndToEnd, WhatAReceiverTookIsShippedOnByItsOwnSinksWithTheGatewayAsAColumn) {
  box_.ingest_lines("logs", "web", rows(1, 3));
  box_.ship_well(sink_);
  receiver_->end();
  Config second_config = make_receiver_config(box_.folder / "second", box_.folder / "second-token");
  second_config.receiver.gateway_column = "via";  // the rows bring the other one
  ReceiverProcess second(second_config);
  SinkConfig archive = make_sink(SinkKind::iceberg, there_ + "/archive"), onward = sink_;
  onward.name = "onward";
  onward.forward.url = fmt::format("http://127.0.0.1:{}", second.port());
  onward.forward.token_file = box_.folder / "second-token";
  Lines with_gateway, with_both;
  for (int n = 1; n <= 3; ++n) {
    with_gateway.push_back(fmt::format(R"({{"hyp_gateway":"gw","n":{}}})", n));
    with_both.push_back(fmt::format(R"({{"n":{},"via":"gw"}})", n));  // rows_received takes the other one away
  }
  for (const int64_t new_rows : {3, 0}) {
    Cache cache(receiver_config_);
    for (const SinkConfig& sink : {archive, onward}) {
      const SinkRunReport report = run_sink(cache, sink);
      EXPECT_FALSE(report.failed()) << report.partitions.at(0).error;
      EXPECT_EQ(report.rows(), new_rows) << sink.name;
    }
  }
  EXPECT_EQ(delivered_rows(archive), sorted_rows(with_gateway));
  second.end();
  EXPECT_EQ(rows_received(second_config), sorted_rows(with_both));
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

TEST_F(EndToEnd, AStreamMoreThanTheGatewayMayHaveFailsAtOnceAndTheOthersGoOn) {
  receiver_->kill();
  receiver_config_.receiver.gateway_streams_max = 1;
  receiver_ = std::make_unique<ReceiverProcess>(receiver_config_);
  proxy_->set_server_port(receiver_->port());
  int waits = 0;
  set_wait_sources({.random = {}, .sleep_ms = [&](int64_t) { ++waits; }, .now_us = {}});
  sink_.parallel_max = 1;
  box_.ingest_lines("logs", "a", rows(1, 3));
  box_.ingest_lines("logs", "b", rows(4, 6));
  const SinkRunReport report = box_.ship(sink_);
  EXPECT_EQ(report.partitions.at(0).error, "");
  EXPECT_EQ(report.partitions.at(1).error_kind, "config");
  EXPECT_NE(report.partitions.at(1).error.find("maxStreamsPerGateway"), std::string::npos)
      << report.partitions.at(1).error;
  EXPECT_FALSE(report.partitions.at(1).next_try_ms) << "an operator has to act first";
  EXPECT_EQ(waits, 0);
  box_.ingest_lines("logs", "a", rows(7, 8));
  EXPECT_EQ(box_.ship(sink_).rows(), 2);
  receiver_->kill();
  receiver_config_.receiver.gateway_streams_max = 2;
  receiver_ = std::make_unique<ReceiverProcess>(receiver_config_);
  proxy_->set_server_port(receiver_->port());
  EXPECT_EQ(box_.ship_well(sink_).rows(), 3);
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
