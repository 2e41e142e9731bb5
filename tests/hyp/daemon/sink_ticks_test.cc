#include "hyp/daemon/sink_ticks.h"

#include <chrono>
#include <mutex>

#include <gtest/gtest.h>

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
  std::atomic<bool> is_open{true};

  void operator()(const SinkConfig& sink) {
    while (!is_open) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::lock_guard guard(mutex);
    shipped.push_back(sink.name);
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
  SinkTicks ticks(sinks, 0, std::ref(shipper));
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
  SinkTicks ticks(sinks, 0, std::ref(shipper));
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
  Shipper shipper;
  SinkTicks ticks(sinks, 600 * kMinute, [&](const SinkConfig& sink) { shipper(sink); });
  ticks.run(600 * kMinute + 1);
  ticks.run(60 * kMinute + 1);  // nine hours back
  ticks.run(61 * kMinute + 1);
  while (true) {
    std::lock_guard guard(shipper.mutex);
    if (!shipper.shipped.empty()) break;
  }
}

}  // namespace
}  // namespace firn::hyp
