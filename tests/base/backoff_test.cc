#include "base/backoff.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/clock.h"

namespace firn {
namespace {

// Runs the loop of an operation that never succeeds, over a clock that only its sleeps move.
struct FailingLoop {
  std::vector<int64_t> waits_ms;
  int num_tries = 0;
  int64_t time_us = 0;

  void run(const BackoffOptions& options, double random) {
    Backoff backoff(options, {.random = [=] { return random; },
                              .sleep_ms =
                                  [this](int64_t ms) {
                                    waits_ms.push_back(ms);
                                    time_us += ms * 1000;
                                  },
                              .now_us = [this] { return time_us; }});
    for (;; backoff.wait()) {
      if (backoff.exhausted()) return;
      ++num_tries;
    }
  }
};

TEST(Backoff, DoublesItsWaitsUpToTheLongest) {
  FailingLoop loop;
  loop.run({.min_wait_ms = 100, .max_wait_ms = 1000, .num_retries = 6, .total_ms = 1'000'000}, 1.0);
  EXPECT_EQ(loop.waits_ms, (std::vector<int64_t>{100, 200, 400, 800, 1000, 1000}));
  EXPECT_EQ(loop.num_tries, 7);
}

TEST(Backoff, JittersDownToHalf) {
  FailingLoop loop;
  loop.run({.min_wait_ms = 100, .max_wait_ms = 1000, .num_retries = 3, .total_ms = 1'000'000}, 0.0);
  EXPECT_EQ(loop.waits_ms, (std::vector<int64_t>{50, 100, 200}));
}

TEST(Backoff, AlwaysAllowsOneTryAndDoesNotSleepAfterTheLast) {
  FailingLoop loop;
  loop.run({.num_retries = 0, .total_ms = 0}, 0.5);
  EXPECT_EQ(loop.num_tries, 1);
  EXPECT_TRUE(loop.waits_ms.empty());
}

TEST(Backoff, DoesNotWaitPastItsTotal) {
  FailingLoop loop;
  loop.run({.min_wait_ms = 100, .max_wait_ms = 60'000, .num_retries = 1000, .total_ms = 1000}, 1.0);
  EXPECT_EQ(loop.waits_ms, (std::vector<int64_t>{100, 200, 400}));
}

TEST(Backoff, DoublesWithoutOverflow) {
  FailingLoop loop;
  loop.run({.min_wait_ms = 1, .max_wait_ms = INT64_MAX, .num_retries = 1000, .total_ms = int64_t{1} << 50}, 1.0);
  EXPECT_EQ(loop.num_tries, 51);  // 2^50 - 1 ms waited; the next wait would pass the total
}

TEST(Backoff, SleepsInRealTimeByDefault) {
  const int64_t start_us = steady_us();
  Backoff backoff({.min_wait_ms = 20, .max_wait_ms = 20, .num_retries = 1});
  backoff.wait();
  EXPECT_FALSE(backoff.exhausted());
  EXPECT_GE(steady_us() - start_us, 10'000);
}

}  // namespace
}  // namespace firn
