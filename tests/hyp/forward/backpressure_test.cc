// How long a forward sink waits for a receiver that is busy or away (spec/incremental-sink-reads.md §4).
#include "hyp/forward/forward_box.h"

namespace firn::hyp {
namespace {

constexpr int64_t kNow = 784'111'777'000;  // Sun, 06 Nov 1994 08:49:37 GMT

TEST(RetryAfter, IsSecondsOrADate) {
  EXPECT_EQ(parse_retry_after("1", kNow), 1000);
  EXPECT_EQ(parse_retry_after("120", kNow), 120'000);
  EXPECT_EQ(parse_retry_after("Sun, 06 Nov 1994 08:50:07 GMT", kNow), 30'000);
  EXPECT_EQ(parse_retry_after("Sunday, 06-Nov-94 08:50:07 GMT", kNow), 30'000);
  EXPECT_EQ(parse_retry_after("Sun Nov  6 08:50:07 1994", kNow), 30'000);
}

TEST(RetryAfter, IsNoMoreThanFiveMinutes) {
  for (const char* value : {"300", "301", "86400", "99999999999999999999", "Mon, 07 Nov 1994 08:49:37 GMT"})
    EXPECT_EQ(parse_retry_after(value, kNow), 300'000) << value;
}

TEST(RetryAfter, ThatSaysNothingLeavesTheWaitToTheLadder) {
  for (const char* value : {"", "0", "00", "-5", "1.5", "soon", "12 s", "Sun, 06 Nov 1994 08:49:37 GMT",
                            "Sun, 06 Nov 1994 08:49:00 GMT", "99:99", "1994-11-06", "Sun, 99 Nov 1994 08:50:07 GMT"})
    EXPECT_EQ(parse_retry_after(value, kNow), std::nullopt) << value;
}

struct Waits {
  std::vector<int64_t> waits_ms;
  double random = 0.5;
  Backpressure pressure{
      nullptr,
      {.random = [this] { return random; }, .sleep_ms = [this](int64_t ms) { waits_ms.push_back(ms); }, .now_us = {}}};
};

TEST(Backpressure, ClimbsTheLadderForFiveMinutes) {
  Waits waits;
  while (waits.pressure.wait(std::nullopt)) {
  }
  EXPECT_EQ(waits.waits_ms, (std::vector<int64_t>{30'000, 60'000, 120'000, 90'000}))
      << "the step of 300 s is cut to what is left of the five minutes";
  EXPECT_EQ(waits.pressure.waited_ms(), 300'000);
}

TEST(Backpressure, SpreadsTheStepsOfTheLadderByATenth) {
  for (const double random : {0.0, 0.999}) {
    Waits waits;
    waits.random = random;
    ASSERT_TRUE(waits.pressure.wait(std::nullopt));
    EXPECT_NEAR(static_cast<double>(waits.waits_ms.at(0)), random < 0.5 ? 27'000 : 33'000, 10);
  }
}

TEST(Backpressure, WaitsAsAskedWithinItsFiveMinutes) {
  Waits waits;
  EXPECT_TRUE(waits.pressure.wait(7'000));
  EXPECT_TRUE(waits.pressure.wait(std::nullopt));
  EXPECT_TRUE(waits.pressure.wait(200'000));
  EXPECT_FALSE(waits.pressure.wait(64'000)) << "63 s are left; to come earlier than asked is no use";
  EXPECT_EQ(waits.waits_ms, (std::vector<int64_t>{7'000, 30'000, 200'000}));
}

TEST(Backpressure, TellsHowLongItWaitsBeforeItDoes) {
  Waits waits;
  std::vector<int64_t> told_ms;
  const auto tell = [&](int64_t ms) {
    EXPECT_EQ(waits.waits_ms.size(), told_ms.size());
    told_ms.push_back(ms);
  };
  waits.pressure.wait(7'000, tell);
  waits.pressure.wait(std::nullopt, tell);
  EXPECT_FALSE(waits.pressure.wait(300'000, tell));
  EXPECT_EQ(told_ms, waits.waits_ms) << "nothing of a wait that is none";
}

TEST(Backpressure, EndsSoonAfterItIsToldTo) {
  std::atomic<bool> cancelled{false};
  Backpressure pressure(&cancelled);
  std::thread teller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    cancelled = true;
  });
  try {
    pressure.wait(std::nullopt);
    ADD_FAILURE() << "it waited to its end";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::cancelled);
  }
  teller.join();
}

// --- by a sink ---

TEST(ForwardPressure, WaitsAsTheReceiverSaysAndSendsTheSameBodyAgain) {
  for (const int status : {429, 503}) {
    ForwardBox box;
    box.ingest_rows(numbered(1, 3));
    box.fail_posts({answer_with(status, {{"Retry-After", "17"}}),
                    answer_with(status, {{"Retry-After", "Tue, 14 Nov 2023 22:14:02 GMT"}}),  // 1700000042
                    answer_with(status, {{"Retry-After", "0"}}),
                    answer_with(status, {{"Retry-After", "Tue, 14 Nov 2023 22:00:00 GMT"}})});
    box.ship_all();
    EXPECT_EQ(box.waits_ms, (std::vector<int64_t>{17'000, 25'000, 30'000, 60'000})) << status;
    const auto posts = box.posts();
    ASSERT_EQ(posts.size(), 5u);
    for (const ProxiedRequest& post : posts) {
      EXPECT_EQ(post.body, posts[0].body);
      EXPECT_EQ(post.headers.at("x-hyp-batch-id"), posts[0].headers.at("x-hyp-batch-id"));
    }
    EXPECT_EQ(box.received(), sorted_rows(numbered(1, 3)));
  }
}

TEST(ForwardPressure, GarbageInRetryAfterIsAsNone) {
  ForwardBox box;
  box.ingest_rows(numbered(1, 1));
  box.fail_posts({answer_with(429, {{"Retry-After", "\"later\""}}), answer_with(503), answer_with(502),
                  answer_with(504, {{"Retry-After", "-1"}})});
  box.ship_all();
  EXPECT_EQ(box.waits_ms, (std::vector<int64_t>{30'000, 60'000, 120'000, 90'000}));
}

TEST(ForwardPressure, AfterFiveMinutesThePartitionFailsAndALaterRunGoesOn) {
  ForwardBox box;
  box.ingest_rows(numbered(1, 3));
  box.ingest_rows(numbered(4, 4), "db");
  box.proxy.set_script([](const ProxiedRequest& request) {
    return has(request.target + header_of(request, "x-hyp-stream"), "web") && request.method == "POST"
               ? answer_with(429, {}, R"({"error":"too much"})")
               : Fault();
  });
  const SinkRunReport report = box.ship_now();
  ASSERT_EQ(report.partitions.size(), 2u);
  EXPECT_EQ(report.partitions[0].error, "") << "the other partition";
  EXPECT_EQ(report.partitions[1].error_kind, "busy");
  EXPECT_TRUE(has(report.partitions[1].error, "too much")) << report.partitions[1].error;
  EXPECT_EQ(box.waits_ms, (std::vector<int64_t>{30'000, 60'000, 120'000, 90'000}));
  box.proxy.set_script({});
  box.ingest_rows(numbered(5, 6));
  box.ship_all();
  EXPECT_EQ(box.received(), sorted_rows(numbered(1, 6)));
}

TEST(ForwardPressure, AReceiverThatIsAwayIsWaitedFor) {
  ForwardBox box;
  box.ingest_rows(numbered(1, 3));
  box.receiver.stop();
  const PartitionRun run = box.failed_run();
  EXPECT_EQ(run.error_kind, "io");
  EXPECT_EQ(box.waits_ms, (std::vector<int64_t>{30'000, 60'000, 120'000, 90'000}));
  box.receiver.start();
  box.proxy.set_server_port(box.receiver.port());
  box.ship_all();
  EXPECT_EQ(box.received(), sorted_rows(numbered(1, 3)));
}

TEST(ForwardPressure, AWaitBeginsAnewWithEachBodyThatLanded) {
  ForwardBox box;
  box.sink.unit_rows_max = 1;
  box.ingest_rows(numbered(1, 3));
  box.proxy.set_script([is_odd = false](const ProxiedRequest& request) mutable {
    if (request.method != "POST") return Fault();
    is_odd = !is_odd;
    return is_odd ? answer_with(429, {{"Retry-After", "200"}}) : Fault();
  });
  box.ship_all();
  EXPECT_EQ(box.waits_ms, (std::vector<int64_t>(3, 200'000)));
}

TEST(ForwardPressure, IsAbortable) {
  ForwardBox box;
  box.ingest_rows(numbered(1, 3));
  std::atomic<bool> cancelled{false};
  box.proxy.set_script([&](const ProxiedRequest& request) {
    if (request.method != "POST") return Fault();
    cancelled = true;  // while the answer is on its way
    return answer_with(503);
  });
  Cache cache(box.config);
  SinkRunOptions options;
  options.cancelled = &cancelled;
  run_sink(cache, box.sink, options);
  EXPECT_TRUE(box.waits_ms.empty());
  EXPECT_LE(box.posts().size(), 1u);
  box.proxy.set_script({});
  EXPECT_EQ(run_sink(cache, box.sink).rows(), 3);
}

}  // namespace
}  // namespace firn::hyp
