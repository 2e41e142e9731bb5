#include "hyp/daemon/sink_ticks.h"

#include <algorithm>
#include <chrono>
#include <mutex>

#include <gtest/gtest.h>

#include "base/test_world.h"
#include "hyp/sink/outbox.h"
#include "support/temp_folder.h"

namespace firn::hyp {
namespace {

constexpr int64_t kMinute = 60'000;

SinkConfig sink_of(const std::string& name, const std::string& schedule) {
  SinkConfig sink;
  sink.name = name;
  if (!schedule.empty()) sink.schedule = CronSchedule::parse(schedule);
  return sink;
}

// What was shipped, and a door before which runs wait.
struct Shipper {
  std::mutex mutex;
  std::vector<std::string> shipped;
  std::atomic<bool> is_open{true}, is_cut_short{false};

  bool operator()(const SinkConfig& sink, SinkPass pass) {
    while (!is_open) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::lock_guard guard(mutex);
    shipped.push_back(pass == SinkPass::scheduled ? sink.name : sink.name + ", what failed");
    return !is_cut_short;
  }
  size_t count_after(size_t at_least) {
    for (int i = 0; i < 2000; ++i) {
      {
        std::lock_guard guard(mutex);
        if (shipped.size() >= at_least) break;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::lock_guard guard(mutex);
    return shipped.size();
  }
};

TEST(SinkTicks, ASinkRunsWhenItsTimeHasCome) {
  const std::vector<SinkConfig> sinks = {sink_of("each", "* * * * *"), sink_of("fifth", "*/5 * * * *"),
                                         sink_of("never", "")};
  Shipper shipper;
  const TempFolder state;
  SinkTicks ticks(sinks, state.path(), 0, std::ref(shipper));
  ticks.run(kMinute - 1);
  EXPECT_EQ(shipper.count_after(0), 0U);
  for (int64_t minute = 1; minute <= 5; ++minute) {
    ticks.run(minute * kMinute);
    shipper.count_after(static_cast<size_t>(minute));
    ticks.run(minute * kMinute + 200);
  }
  EXPECT_EQ(shipper.count_after(6), 6U);
  EXPECT_EQ(std::count(shipper.shipped.begin(), shipper.shipped.end(), "fifth"), 1);
}

TEST(SinkTicks, TimesThatPassDuringARunAreMadeUpForOnce) {
  const std::vector<SinkConfig> sinks = {sink_of("each", "* * * * *")};
  Shipper shipper;
  shipper.is_open = false;
  const TempFolder state;
  SinkTicks ticks(sinks, state.path(), 0, std::ref(shipper));
  for (int64_t minute = 1; minute <= 4; ++minute) ticks.run(minute * kMinute);
  shipper.is_open = true;
  EXPECT_EQ(shipper.count_after(1), 1U);
  ticks.run(4 * kMinute + 200);
  EXPECT_EQ(shipper.count_after(2), 2U);
  ticks.run(4 * kMinute + 400);
  EXPECT_EQ(shipper.count_after(2), 2U);
}

TEST(SinkTicks, AClockThatIsSetBackDoesNotStopThem) {
  const std::vector<SinkConfig> sinks = {sink_of("a", "* * * * *")};
  const TempFolder state;
  Shipper shipper;
  {
    SinkTicks ticks(sinks, state.path(), 600 * kMinute, std::ref(shipper));
    ticks.run(601 * kMinute);
    EXPECT_EQ(shipper.count_after(1), 1U);
    ticks.run(60 * kMinute + 1);  // nine hours back
    ticks.run(61 * kMinute + 1);
    EXPECT_EQ(shipper.count_after(2), 2U);
  }
  SinkTicks again(sinks, state.path(), 10 * kMinute, std::ref(shipper));  // and back once more, while none ran
  again.run(11 * kMinute);
  EXPECT_EQ(shipper.count_after(3), 3U);
}

TEST(SinkTicks, TimesThatPassedWhileNoDaemonRanAreMadeUpForOnce) {
  const std::vector<SinkConfig> sinks = {sink_of("hourly", "0 * * * *"), sink_of("new", "0 * * * *")};
  const TempFolder state;
  {
    Shipper before;
    const std::vector<SinkConfig> one = {sinks[0]};
    SinkTicks ticks(one, state.path(), 59 * kMinute, std::ref(before));
    ticks.run(60 * kMinute);
    EXPECT_EQ(before.count_after(1), 1U);
  }
  Shipper shipper;
  SinkTicks ticks(sinks, state.path(), 200 * kMinute, std::ref(shipper));
  ticks.run(200 * kMinute);
  EXPECT_EQ(shipper.count_after(1), 1U);
  EXPECT_EQ(shipper.shipped.at(0), "hourly") << "the other one never ran here: it waits for its first time";
  ticks.run(200 * kMinute + 200);
  ticks.run(239 * kMinute);
  EXPECT_EQ(shipper.count_after(1), 1U);
  ticks.run(240 * kMinute);
  EXPECT_EQ(shipper.count_after(3), 3U);
}

TEST(SinkTicks, ARunThatTheStopCutShortIsMadeUpFor) {
  const std::vector<SinkConfig> sinks = {sink_of("hourly", "0 * * * *")};
  const TempFolder state;
  for (const bool is_cut_short : {false, true}) {
    Shipper shipper;
    shipper.is_cut_short = is_cut_short;
    SinkTicks ticks(sinks, state.path(), is_cut_short ? 100 * kMinute : 0, std::ref(shipper));
    ticks.run(is_cut_short ? 120 * kMinute : 60 * kMinute);
    EXPECT_EQ(shipper.count_after(1), 1U);
  }
  Shipper shipper;
  SinkTicks ticks(sinks, state.path(), 121 * kMinute, std::ref(shipper));
  ticks.run(121 * kMinute);
  EXPECT_EQ(shipper.count_after(1), 1U);
}

TEST(SinkTicks, WhatFailedIsTriedAgainBetweenTheTimesOnceItIsDue) {
  const std::vector<SinkConfig> sinks = {sink_of("hourly", "0 * * * *")};
  const TempFolder state;
  Shipper shipper;
  SinkTicks ticks(sinks, state.path(), 0, std::ref(shipper));
  set_clock_ms(kMinute);
  note_failure(state.path(), "hourly", {"logs", "web"}, ErrorKind::io, "unreachable");
  note_failure(state.path(), "hourly", {"logs", "db"}, ErrorKind::destination_behind, "waits");
  set_clock_ms(std::nullopt);
  for (int64_t second = 0; second < 30; ++second) ticks.run(kMinute + second * 1000);
  EXPECT_EQ(shipper.count_after(0), 0U);
  for (int64_t second = 30; second < 36; ++second) {
    ticks.run(kMinute + second * 1000);
  }
  ASSERT_GE(shipper.count_after(1), 1U);
  EXPECT_EQ(shipper.shipped.at(0), "hourly, what failed");
  note_success(state.path(), "hourly", {"logs", "web"});
  const size_t tries = shipper.count_after(1);
  ticks.run(5 * kMinute);
  EXPECT_EQ(shipper.count_after(tries), tries) << "what waits for a person is not tried";
}

}  // namespace
}  // namespace firn::hyp
