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
};

// As the daemon does, again and again while the clock stands, until so many runs were made in all.
size_t count_at(SinkTicks& ticks, int64_t now_ms, Shipper& shipper, size_t at_least) {
  for (int i = 0; i < 2000; ++i) {
    ticks.run(now_ms);
    {
      std::lock_guard guard(shipper.mutex);
      if (shipper.shipped.size() >= at_least) break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  for (int i = 0; i < 20; ++i) {
    ticks.run(now_ms);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::lock_guard guard(shipper.mutex);
  return shipper.shipped.size();
}

TEST(SinkTicks, ASinkRunsWhenItsTimeHasCome) {
  const std::vector<SinkConfig> sinks = {sink_of("each", "* * * * *"), sink_of("fifth", "*/5 * * * *"),
                                         sink_of("never", "")};
  const TempFolder state;
  Shipper shipper;
  SinkTicks ticks(sinks, state.path(), 0, std::ref(shipper));
  EXPECT_EQ(count_at(ticks, kMinute - 1, shipper, 0), 0U);
  for (size_t minute = 1; minute <= 4; ++minute) {
    EXPECT_EQ(count_at(ticks, static_cast<int64_t>(minute) * kMinute, shipper, minute), minute);
  }
  EXPECT_EQ(count_at(ticks, 5 * kMinute, shipper, 6), 6U);
  EXPECT_EQ(std::count(shipper.shipped.begin(), shipper.shipped.end(), "fifth"), 1);
}

TEST(SinkTicks, TimesThatPassDuringARunAreMadeUpForOnce) {
  const std::vector<SinkConfig> sinks = {sink_of("each", "* * * * *")};
  const TempFolder state;
  Shipper shipper;
  shipper.is_open = false;
  SinkTicks ticks(sinks, state.path(), 0, std::ref(shipper));
  for (int64_t minute = 1; minute <= 4; ++minute) ticks.run(minute * kMinute);
  shipper.is_open = true;
  EXPECT_EQ(count_at(ticks, 4 * kMinute + 200, shipper, 2), 2U);
}

TEST(SinkTicks, AClockThatIsSetBackDoesNotStopThem) {
  const std::vector<SinkConfig> sinks = {sink_of("a", "* * * * *")};
  const TempFolder state;
  Shipper shipper;
  {
    SinkTicks ticks(sinks, state.path(), 600 * kMinute, std::ref(shipper));
    EXPECT_EQ(count_at(ticks, 601 * kMinute, shipper, 1), 1U);
    EXPECT_EQ(count_at(ticks, 60 * kMinute + 1, shipper, 1), 1U);  // nine hours back
    EXPECT_EQ(count_at(ticks, 61 * kMinute + 1, shipper, 2), 2U);
  }
  SinkTicks again(sinks, state.path(), 10 * kMinute, std::ref(shipper));  // and back once more, while none ran
  EXPECT_EQ(count_at(again, 11 * kMinute, shipper, 3), 3U);
}

TEST(SinkTicks, TimesThatPassedWhileNoDaemonRanAreMadeUpForOnce) {
  const std::vector<SinkConfig> sinks = {sink_of("hourly", "0 * * * *"), sink_of("new", "0 * * * *")};
  const TempFolder state;
  {
    Shipper before;
    const std::vector<SinkConfig> one = {sinks[0]};
    SinkTicks ticks(one, state.path(), 59 * kMinute, std::ref(before));
    EXPECT_EQ(count_at(ticks, 60 * kMinute, before, 1), 1U);
  }
  Shipper shipper;
  SinkTicks ticks(sinks, state.path(), 200 * kMinute, std::ref(shipper));
  EXPECT_EQ(count_at(ticks, 200 * kMinute, shipper, 1), 1U);
  EXPECT_EQ(shipper.shipped.at(0), "hourly") << "the other one never ran here: it waits for its first time";
  EXPECT_EQ(count_at(ticks, 239 * kMinute, shipper, 1), 1U);
  EXPECT_EQ(count_at(ticks, 240 * kMinute, shipper, 3), 3U);
}

TEST(SinkTicks, ARunThatTheStopCutShortIsMadeUpFor) {
  const std::vector<SinkConfig> sinks = {sink_of("hourly", "0 * * * *")};
  const TempFolder state;
  for (const bool is_cut_short : {false, true}) {
    Shipper shipper;
    shipper.is_cut_short = is_cut_short;
    SinkTicks ticks(sinks, state.path(), is_cut_short ? 100 * kMinute : 0, std::ref(shipper));
    EXPECT_EQ(count_at(ticks, is_cut_short ? 120 * kMinute : 60 * kMinute, shipper, 1), 1U);
  }
  Shipper shipper;
  SinkTicks ticks(sinks, state.path(), 121 * kMinute, std::ref(shipper));
  EXPECT_EQ(count_at(ticks, 121 * kMinute, shipper, 1), 1U);
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
  EXPECT_EQ(count_at(ticks, kMinute + 29'000, shipper, 0), 0U);
  EXPECT_EQ(count_at(ticks, kMinute + 35'000, shipper, 1), 1U);
  EXPECT_EQ(shipper.shipped.at(0), "hourly, what failed");
  note_success(state.path(), "hourly", {"logs", "web"});
  EXPECT_EQ(count_at(ticks, 5 * kMinute, shipper, 1), 1U) << "what waits for a person is not tried";
}

}  // namespace
}  // namespace firn::hyp
