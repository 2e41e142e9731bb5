// The server's clock: when tables are expired (`serve`, ORCA_EXPIRE_HOURS).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "base/fault_point.h"
#include "base/uuid.h"
#include "orca/commands.h"
#include "orca/definition.h"
#include "orca/state_box.h"

namespace firn::orca {
namespace {

constexpr int64_t kStart = 1'700'000'000'000, kMinute = 60'000, kHour = 60 * kMinute;

class Serving : public ::testing::Test {
 protected:
  Serving() {
    for (const auto& [name, value] : box_.environment()) ::setenv(name.c_str(), value.c_str(), 1);
    set_clock_ms(kStart);
    Pipeline& pipeline = pipelines_.emplace_back();
    pipeline.name = "p";
    Definition(pipeline, [](Definition& d) { d.step("a", [](Ctx&) {}); }).define();
    check_pipeline(pipeline);
  }
  ~Serving() override {
    stop();
    for (const auto& [name, value] : box_.environment()) ::unsetenv(name.c_str());
    ::unsetenv("ORCA_EXPIRE_HOURS");
  }

  void serve(const char* expire_hours) {
    ::setenv("ORCA_EXPIRE_HOURS", expire_hours, 1);
    set_fault_handler([this](const char* name) { looks_ += std::string_view(name) == "orca.find.committed"; });
    invocation_ = {.program = "p", .out = &out_, .err = &out_, .stop = &stop_};
    invocation_.expire = [this](const ExpireRequest& request) {
      const std::lock_guard lock(mutex_);
      expiries_.push_back(request);
      if (is_broken_) fail(ErrorKind::io, "the warehouse cannot be reached");
      return std::vector<ExpiredTable>{{.dataset = "n.t", .error = "one table's"}};
    };
    thread_ = std::thread([this] { EXPECT_EQ(command_serve(invocation_, pipelines_, {}), 0); });
    wait_for_looks(1);  // it has begun, at kStart
  }
  void stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    set_fault_handler(nullptr);
  }

  // How many expiries there were by then.
  size_t expiries_at(int64_t ms) {
    set_clock_ms(ms);
    wait_for_looks(looks_ + 2);  // each round of the server looks for open runs, then at its clock
    const std::lock_guard lock(mutex_);
    return expiries_.size();
  }

  void wait_for_looks(int64_t count) const {
    while (looks_ < count) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  StateBox box_{Backend::sqlite};
  std::vector<Pipeline> pipelines_;
  std::ostringstream out_;
  std::atomic<bool> stop_{false};
  std::atomic<int64_t> looks_{0};
  std::mutex mutex_;
  std::vector<ExpireRequest> expiries_;
  std::atomic<bool> is_broken_{false};
  Invocation invocation_;
  std::thread thread_;
};

TEST_F(Serving, ExpiresAMinuteAfterItsStartAndThenEveryOrcaExpireHours) {
  serve("2");
  EXPECT_EQ(expiries_at(kStart + kMinute - 1), 0u);
  EXPECT_EQ(expiries_at(kStart + kMinute), 1u);
  EXPECT_EQ(expiries_at(kStart + kMinute + 2 * kHour - 1), 1u);
  EXPECT_EQ(expiries_at(kStart + kMinute + 2 * kHour), 2u);
  EXPECT_EQ(expiries_at(kStart + kMinute + 9 * kHour), 3u) << "what was missed is not made up for";
  for (const ExpireRequest& request : expiries_) {
    EXPECT_TRUE(request.datasets.empty()) << "every table that says how long its history is kept";
    EXPECT_FALSE(request.dry_run);
  }
}

TEST_F(Serving, NeverExpiresWhereTheHoursAreNone) {
  serve("0");
  EXPECT_EQ(expiries_at(kStart + 1'000 * kHour), 0u);
}

TEST_F(Serving, GoesOnWhereAnExpiryFails) {
  is_broken_ = true;
  serve("1");
  EXPECT_EQ(expiries_at(kStart + kMinute), 1u);
  EXPECT_EQ(expiries_at(kStart + kMinute + kHour), 2u);
}

TEST_F(Serving, ExpiresAroundWhatOpenRunsRestOn) {  // P14.3, P3.2
  const RunPlan plan{.steps = {{.name = "read"}}, .limits = {}};
  const auto database = box_.open();
  database->begin();
  const RunRow run =
      create_run(*database,
                 {.id = uuid_v4(), .pipeline = "another", .kind = "run", .code = "c", .parameters = "{}", .plan = plan})
          .value();
  register_runner(*database, {.id = "r", .run_id = run.id, .host = "h", .process = "elsewhere/1/1"}, kHour);
  const TurnAnswer answer = take_turn(*database, plan, {.run_id = run.id, .runner = "r", .code = "c", .claims_max = 1});
  ASSERT_EQ(answer.claims.size(), 1u);
  const AttemptKey attempt{.run_id = run.id, .step = 0, .partition = "", .attempt = 1, .runner = "r"};
  keep_pin(*database, attempt, {.location = "w/n/t", .table_uuid = "u", .snapshot_id = 7});
  keep_floor(*database, attempt, {.location = "w/n/s", .table_uuid = "v", .sequence = 8});
  database->commit();
  serve("1");
  ASSERT_EQ(expiries_at(kStart + kMinute), 1u);
  const ExpireRequest& request = expiries_.front();
  ASSERT_EQ(request.pins.size(), 1u);
  EXPECT_EQ(request.pins[0].table_uuid, "u");
  EXPECT_EQ(request.pins[0].snapshot_id, 7);
  ASSERT_EQ(request.floors.size(), 1u);
  EXPECT_EQ(request.floors[0].table_uuid, "v");
  EXPECT_EQ(request.floors[0].sequence, 8);
  EXPECT_EQ(request.oldest_start_ms, kStart);
}

TEST_F(Serving, HoursThatAreNoNumberAreRefused) {
  for (const char* hours : {"a day", "-1", "1.5"}) {
    ::setenv("ORCA_EXPIRE_HOURS", hours, 1);
    invocation_ = {.program = "p", .out = &out_, .err = &out_, .stop = &stop_};
    try {
      command_serve(invocation_, pipelines_, {});
      ADD_FAILURE() << hours << " is taken";
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::config);
      EXPECT_THAT(e.what(), ::testing::HasSubstr("ORCA_EXPIRE_HOURS"));
    }
  }
}

}  // namespace
}  // namespace firn::orca
