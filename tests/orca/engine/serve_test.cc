// The server (`serve`): its clock, when tables are expired (ORCA_EXPIRE_HOURS), and what one error keeps from the rest.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <new>
#include <sstream>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "base/fault_point.h"
#include "base/uuid.h"
#include "orca/commands.h"
#include "orca/definition.h"
#include "orca/state_box.h"
#include "support/captured_log.h"

namespace firn::orca {
namespace {

constexpr int64_t kStart = 1'700'000'000'000, kMinute = 60'000, kHour = 60 * kMinute;

class Serving : public ::testing::Test {
 protected:
  Serving() {
    for (const auto& [name, value] : box_.environment()) ::setenv(name.c_str(), value.c_str(), 1);
    set_clock_ms(kStart);
    define({"p"}, [](Definition& d) { d.step("a", [](Ctx&) {}); });
  }
  ~Serving() override {
    stop();
    for (const auto& [name, value] : box_.environment()) ::unsetenv(name.c_str());
    ::unsetenv("ORCA_EXPIRE_HOURS");
  }

  void define(const std::vector<std::string>& names, const std::function<void(Definition&)>& body) {
    pipelines_.clear();
    for (const std::string& name : names) {
      pipelines_.emplace_back().name = name;
      Definition(pipelines_.back(), body).define();
    }
    for (Pipeline& pipeline : pipelines_) check_pipeline(pipeline);  // once they stay where they are
  }
  RunRow begin(const RunPlan& plan, std::optional<int64_t> scheduled_ms = {}) {
    const auto database = box_.open();
    return create_run(*database, {.id = uuid_v4(),
                                  .pipeline = "p",
                                  .kind = "run",
                                  .code = "c",
                                  .parameters = "{}",
                                  .plan = plan,
                                  .scheduled_ms = scheduled_ms})
        .value();
  }
  RunStatus status_of(const std::string& pipeline, int64_t number) {
    const auto database = box_.open();
    const std::optional<RunRow> run = find_run(*database, pipeline, number);
    return run ? run->status : RunStatus::running;
  }
  void wait_until_done(const std::string& pipeline, int64_t number) {
    for (int i = 0; i < 12'000 && status_of(pipeline, number) != RunStatus::done; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_EQ(status_of(pipeline, number), RunStatus::done);
  }

  void serve(const char* expire_hours) {
    ::setenv("ORCA_EXPIRE_HOURS", expire_hours, 1);
    set_fault_handler([this](const char* name) {
      looks_ += std::string_view(name) == "orca.find.committed";
      if (on_point_) on_point_(name);
    });
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

  // A whole round of the server, and the next begun, at that time.
  void pass_rounds_at(int64_t ms) {
    set_clock_ms(ms);
    wait_for_looks(looks_ + 2 * static_cast<int64_t>(pipelines_.size()));
  }
  // How many expiries there were by then.
  size_t expiries_at(int64_t ms) {
    pass_rounds_at(ms);  // each looks for open runs, then at its clock
    const std::lock_guard lock(mutex_);
    return expiries_.size();
  }
  void expect_refused_at_start(const std::string& why) {
    invocation_ = {.program = "p", .out = &out_, .err = &out_, .stop = &stop_};
    try {
      command_serve(invocation_, pipelines_, {});
      ADD_FAILURE() << "not refused: " << why;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::config);
      EXPECT_THAT(e.what(), ::testing::HasSubstr(why));
    }
  }

  template <class Holds>
  static void wait_until(const Holds& holds) {
    for (int i = 0; !holds(); ++i) {
      if (i == 120'000) fail(ErrorKind::internal, "waited for too long");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  void wait_for_looks(int64_t count) const {
    wait_until([&] { return looks_ >= count; });
  }

  StateBox box_{Backend::sqlite};
  std::vector<Pipeline> pipelines_;
  std::ostringstream out_;
  std::atomic<bool> stop_{false};
  std::atomic<int64_t> looks_{0};
  std::function<void(std::string_view)> on_point_;  // of any thread
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
  for (const char* hours : {"a day", "-1", "1.5", "87601", "9999999999999", "99999999999999999999"}) {
    ::setenv("ORCA_EXPIRE_HOURS", hours, 1);
    expect_refused_at_start(std::string("ORCA_EXPIRE_HOURS: \"") + hours +
                            "\" is no whole number of hours from 0 (never) to 87600");
  }
}

TEST_F(Serving, APipelineThatCanNeverBeScheduledIsRefusedAtItsStart) {
  define({"bad"}, [](Definition& d) {
    d.schedule("* * * * *");
    d.step("each", [](Ctx&, const int64_t&) {}).mapped<int64_t>();
  });
  expect_refused_at_start("pipeline bad: a scheduled run does not know the keys of step each");
}

TEST_F(Serving, APipelineWithAnErrorKeepsNothingFromTheOthers) {
  const CapturedLog log;
  define({"broken", "sound"}, [](Definition& d) {
    d.schedule("* * * * *");
    d.step("a", [](Ctx&) {});
  });
  int64_t schedules = 0;  // each round asks for the first pipeline's, then for the second's
  on_point_ = [&](std::string_view name) {
    if (name == "orca.schedule.commit" && schedules++ % 2 == 0) throw std::bad_alloc();
  };
  serve("1");
  pass_rounds_at(kStart);
  EXPECT_EQ(expiries_at(kStart + 2 * kMinute), 1u);
  wait_until_done("sound", 1);
  pass_rounds_at(kStart + 2 * kMinute);
  stop();
  EXPECT_EQ(status_of("broken", 1), RunStatus::running) << "there is none";
  const std::string text = log.text(), told = "broken: std::bad_alloc\n";
  const size_t first = text.find(told);
  ASSERT_NE(first, std::string::npos) << text;
  const size_t second = text.find(told, first + 1);
  EXPECT_NE(second, std::string::npos) << "at the next due time\n" << text;
  EXPECT_EQ(text.find(told, second + 1), std::string::npos) << "and not four times a second\n" << text;
}

TEST_F(Serving, ARunWhoseRunnerEndsWithAnErrorIsTakenUpAgainAfterAPauseThatGrows) {
  const CapturedLog log;
  begin(pipelines_[0].plan);
  std::atomic<int> runners{0};
  on_point_ = [&](std::string_view name) {
    if (name == "orca.runner.commit" && ++runners <= 2) throw std::system_error(EAGAIN, std::generic_category());
  };
  const auto wait_for_pause = [&](const std::string& pause) {
    wait_until([&] {
      return log.text().find("p run 1: Resource temporarily unavailable; tried again in " + pause) != std::string::npos;
    });
  };
  set_clock_ms(kStart);
  serve("0");
  wait_for_pause("5 s");
  pass_rounds_at(kStart + 4'999);
  EXPECT_EQ(runners, 1) << "the server lives, and leaves the run alone";
  set_clock_ms(kStart + 5'000);
  wait_for_pause("10 s");
  pass_rounds_at(kStart + 14'999);
  EXPECT_EQ(runners, 2);
  set_clock_ms(kStart + 15'000);
  wait_until_done("p", 1);
  stop();
  EXPECT_EQ(runners, 3);
}

TEST_F(Serving, AScheduleThatWaitsForARunOfOtherCodeSaysSoAtEachDueTime) {
  const CapturedLog log;
  define({"p"}, [](Definition& d) {
    d.schedule("0 * * * *");
    d.step("a", [](Ctx&) {});
  });
  const RunRow other = begin({.steps = {{.name = "b"}}, .limits = {}}, kStart - 1);
  serve("0");
  pass_rounds_at(kStart);
  for (const int hours : {1, 2}) pass_rounds_at(kStart + hours * kHour);
  EXPECT_FALSE(find_run(*box_.open(), "p", 2));
  EXPECT_TRUE(cancel_run(*box_.open(), other.id));
  wait_until_done("p", 2);
  stop();
  const std::string text = log.text();
  for (const char* due : {"2023-11-14T23:00:00", "2023-11-15T00:00:00"}) {
    const std::string told = std::string("p: the run due at ") + due;
    const size_t first = text.find(told);
    ASSERT_NE(first, std::string::npos) << text;
    EXPECT_EQ(text.find(told, first + 1), std::string::npos) << "once a due time\n" << text;
    EXPECT_THAT(
        text.substr(first, text.find('\n', first) - first),
        ::testing::AllOf(::testing::HasSubstr("cannot begin before run 1 has ended"),
                         ::testing::HasSubstr("was begun by other code (c)"), ::testing::HasSubstr("cancel it")));
  }
}

}  // namespace
}  // namespace firn::orca
