// Runs within a program: inputs and outputs, keys, retries, timeouts, schedules.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <thread>

#include <unistd.h>

#include "base/civil_time.h"
#include "base/error.h"
#include "base/uuid.h"
#include "orca/definition.h"
#include "orca/runner.h"
#include "orca/schedule.h"
#include "orca/state_box.h"

namespace runner_test {

void never_return() {
  for (;;) pause();
}
int64_t twice(int64_t value) { return 2 * value; }

}  // namespace runner_test

using namespace runner_test;  // NOLINT
ORCA_TASK(never_return);
ORCA_TASK(twice);

namespace firn::orca {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// This program, started as a worker, becomes one here: behind its tasks, and before any test.
[[maybe_unused]] const bool is_worker = (run_if_task_worker(), false);

class Runs : public OnBothDatabases {
 protected:
  const Pipeline& define(const std::function<void(Definition&)>& body) {
    pipeline_ = {};
    pipeline_.name = "p";
    Definition(pipeline_, body).define();
    check_pipeline(pipeline_);
    return pipeline_;
  }
  RunRow begin(const RunParameters& parameters = {}) {
    if (!state_) state_ = std::make_shared<GroupCommit>([this] { return box().open(); });
    std::optional<RunRow> run;
    const std::string id = uuid_v4();
    state_->run("t", [&](Database& database) {
      run = create_run(database, {.id = id,
                                  .pipeline = "p",
                                  .kind = "run",
                                  .code = "c",
                                  .parameters = parameters_to_json(parameters),
                                  .plan = pipeline_.plan});
    });
    return *run;
  }
  RunStatus work(const RunRow& run, RunnerOptions options = {}) {
    options.look_ms = 50;
    return work_on_run(state_, pipeline_, run, options).status;
  }
  RunStatus run(const RunParameters& parameters = {}) { return work(begin(parameters)); }
  RunView view(int64_t number = 1) {
    const auto database = box().open();
    return view_run(*database, find_run(*database, "p", number).value(), 100);
  }

  Pipeline pipeline_;
  std::shared_ptr<GroupCommit> state_;
};
ORCA_ON_BOTH(Runs);

TEST_P(Runs, ResultsGoFromStepToStepInTheKeysOrder) {
  define([](Definition& d) {
    d.step("keys", [](Ctx&) { return std::vector<std::string>{"b", "a", "c"}; });
    d.step("twice", [](Ctx&, const std::string& key) { return key + key; }).mapped_over<std::string>("keys");
    d.step("mark",
           [](Ctx&, const std::string& key, const std::string& twice, const std::vector<std::string>& keys) {
             return key + "=" + twice + "/" + std::to_string(keys.size());
           })
        .mapped<std::string>()
        .from("twice", "keys");
    d.step("join", [](Ctx&, const std::vector<std::string>& all) {
       std::string text;
       for (const std::string& one : all) text += one + " ";
       return text;
     }).from("mark");
  });
  EXPECT_EQ(run(), RunStatus::done);
  EXPECT_EQ(view().steps[3].result, "\"b=bb/3 a=aa/3 c=cc/3 \"");
}

TEST_P(Runs, KeysOfAFunctionAreAskedOnceAfterTheStepsBefore) {
  static std::atomic<int> asked, loaded;
  asked = loaded = 0;
  define([](Definition& d) {
    d.step("load", [](Ctx&) { ++loaded; });
    d.step("each", [](Ctx&, const int64_t& key) { return key * 2; })
        .mapped<int64_t>([](const KeysRequest& request) {
          ++asked;
          EXPECT_EQ(loaded, 1);
          EXPECT_EQ(request.run_number, 1);
          return std::vector<int64_t>{1, 2, 3};
        })
        .after("load");
    d.step("sum", [](Ctx&, const std::vector<int64_t>& all) { return all.at(0) + all.at(1) + all.at(2); }).from("each");
  });
  EXPECT_EQ(run(), RunStatus::done);
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(view().steps[2].result, "12");
}

TEST_P(Runs, AFunctionOfKeysIsToldThoseThatTheRunWasBegunWith) {
  define([](Definition& d) {
    d.step("month", [](Ctx&, const std::string&) {}).mapped<std::string>([](const KeysRequest& request) {
      std::vector<std::string> months;
      for (const std::string& day : request.keys) months.push_back(day.substr(0, 7));
      return months;
    });
    d.step("day", [](Ctx&, const Day& day) { return day; }).mapped<Day>().after("month");
  });
  EXPECT_EQ(run({.keys = {{"2013-01-31"}}, .key_name = "day"}), RunStatus::done);
  EXPECT_EQ(view().steps[0].total, 1);
}

TEST_P(Runs, KeysThatCannotBeHadFailTheirStep) {
  define([](Definition& d) {
    d.step("each", [](Ctx&, const int64_t&) {}).mapped<int64_t>([]() -> std::vector<int64_t> {
      throw std::runtime_error("no warehouse");
    });
    d.step("twice", [](Ctx&, const int64_t&) {}).mapped<int64_t>(std::vector<int64_t>{4, 4});
  });
  EXPECT_EQ(run(), RunStatus::failed);
  std::set<std::string> errors;
  for (const FailureView& failure : view().failures)
    errors.insert(failure.step + Json::parse(failure.error)["message"].get<std::string>());
  EXPECT_EQ(errors, (std::set<std::string>{"eachno warehouse", "twicestep twice: the key 4 comes twice"}));
}

TEST_P(Runs, KeysThatADatabaseCannotHoldFailTheirStepInBoth) {
  define([](Definition& d) {
    const auto of_text = [](Ctx&, const std::string&) {};
    d.step("nul", of_text).mapped<std::string>([] {
      return std::vector<std::string>{std::string("a\0b", 3), std::string("a\0c", 3)};
    });
    d.step("bytes", of_text).mapped<std::string>([] { return std::vector<std::string>{"ok", "a\xff"}; });
    d.step("returned", [](Ctx&) { return std::vector<std::string>{std::string(5'000, 'k')}; });
    d.step("long", of_text).mapped_over<std::string>("returned");
  });
  EXPECT_EQ(run(), RunStatus::failed);
  std::map<std::string, std::string> errors;
  for (const FailureView& failure : view().failures) errors[failure.step] = Json::parse(failure.error)["message"];
  EXPECT_THAT(errors["nul"], ::testing::StartsWith("step nul: the key \"a\\u0000b\" has a NUL"));
  EXPECT_THAT(errors["bytes"],
              ::testing::StartsWith("step bytes: the key \"a\xEF\xBF\xBD\" is not UTF-8 (bytes 61ff)"));
  EXPECT_THAT(errors["long"], ::testing::HasSubstr("has 5000 bytes, and 1024 is the most"));
  EXPECT_EQ(errors.size(), 3u);
}

TEST_P(Runs, KeysThatARunWasBegunWithAreCheckedToo) {
  define([](Definition& d) { d.step("each", [](Ctx&, const std::string&) {}).mapped<std::string>(); });
  EXPECT_EQ(run({.keys = {{std::string(5'000, 'k')}}, .key_name = "string"}), RunStatus::failed);
  EXPECT_THAT(view().failures.at(0).error, ::testing::HasSubstr("step each: the key "));
}

TEST_P(Runs, KeysThatTheDatabaseDoesNotTakeFailTheirStep) {
  if (!box().is_postgres()) GTEST_SKIP() << "an error of a constraint is one of SQLite's disk there";
  box().open()->run("alter table orca_partitions add check (partition_key <> 'b')");
  define([](Definition& d) {
    d.step("each", [](Ctx&, const std::string&) {}).mapped<std::string>(std::vector<std::string>{"a", "b"});
  });
  EXPECT_EQ(run(), RunStatus::failed) << "and no runner dies of it, one after the other";
  EXPECT_THAT(view().failures.at(0).error, ::testing::HasSubstr("check constraint"));
}

TEST_P(Runs, AResultThatIsNotUtf8FailsItsStep) {
  define([](Definition& d) { d.step("bytes", [](Ctx&) { return std::string("\xff"); }); });
  EXPECT_EQ(run(), RunStatus::failed);
  EXPECT_THAT(view().failures.at(0).error, ::testing::HasSubstr("what the step returned: a string is not UTF-8"));
}

TEST_P(Runs, AFailedTryIsMadeAgainAsOftenAsTheStepSays) {
  static std::atomic<int> tries;
  tries = 0;
  define([](Definition& d) {
    d.step("third", [](Ctx& ctx) {
       if (++tries < 3) throw std::runtime_error("not yet");
       return ctx.id().attempt;
     }).retries(2, 1, 1);
  });
  EXPECT_EQ(run(), RunStatus::done);
  EXPECT_EQ(view().steps[0].result, "3");
  tries = -100;
  EXPECT_EQ(work(begin()), RunStatus::failed);
  EXPECT_EQ(tries, -97);
}

TEST_P(Runs, AnErrorThatNoTryMendsIsNotTriedAgain) {
  static std::atomic<int> tries;
  tries = 0;
  define([](Definition& d) {
    d.step("broken", [](Ctx&) {
       ++tries;
       fail(ErrorKind::step_not_deterministic, "another operation");
     }).retries(5, 1, 1);
  });
  EXPECT_EQ(run(), RunStatus::failed);
  EXPECT_EQ(tries, 1);
}

TEST_P(Runs, ErrorsAreKeptWithTheirCauses) {
  define([](Definition& d) {
    d.step("deep", [](Ctx&) {
      try {
        throw std::runtime_error("the disk is full");
      } catch (...) {
        std::throw_with_nested(std::runtime_error("cannot write"));
      }
    });
  });
  EXPECT_EQ(run(), RunStatus::failed);
  const Json error = Json::parse(view().failures.at(0).error);
  EXPECT_EQ(error["message"], "cannot write");
  EXPECT_EQ(error["causes"], Json::array({"the disk is full"}));
}

TEST_P(Runs, ATryThatTakesTooLongHasFailedAndIsFenced) {
  struct Seen {
    std::atomic<bool> release{false}, cancelled{false}, fenced{false}, ended{false};
  };
  static std::shared_ptr<Seen> seen;
  seen = std::make_shared<Seen>();
  define([](Definition& d) {
    d.step("slow",
           [](Ctx& ctx) -> int64_t {
             if (ctx.id().attempt == 2) return 2;
             const std::shared_ptr<Seen> mine = seen;
             while (!mine->release) std::this_thread::sleep_for(std::chrono::milliseconds(1));
             mine->cancelled = ctx.cancelled();
             try {
               ctx.record().check_lease();
             } catch (const Error& e) {
               mine->fenced = e.kind() == ErrorKind::lease_lost;
             }
             mine->ended = true;
             return 1;
           })
        .timeout_ms(30)
        .retries(1, 1, 1);
  });
  EXPECT_EQ(run(), RunStatus::done);
  EXPECT_EQ(view().steps[0].result, "2");
  EXPECT_EQ(abandoned_attempts(), 1);
  seen->release = true;
  while (!seen->ended || abandoned_attempts() > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(seen->cancelled);
  EXPECT_TRUE(seen->fenced);
}

TEST_P(Runs, AtMostSoManyOfAStepRunAtOnce) {
  static std::atomic<int> now, most;
  now = most = 0;
  define([](Definition& d) {
    d.resource("db", 3);
    d.step("each",
           [](Ctx&, const int64_t&) {
             const int running = ++now;
             for (int seen = most; seen < running && !most.compare_exchange_weak(seen, running);) {
             }
             // The second is waited for, and a third has its chance.
             for (int i = 0; most < 2 && i < 2'000; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
             std::this_thread::sleep_for(std::chrono::milliseconds(2));
             --now;
           })
        .mapped<int64_t>(std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10})
        .at_most(2)
        .uses("db");
  });
  RunnerOptions options;
  options.parallel = 8;
  EXPECT_EQ(work(begin(), options), RunStatus::done);
  EXPECT_EQ(most, 2);
}

TEST_P(Runs, ALimitThatTheRunWasBegunWithoutIsKeptTogetherWithOthers) {
  const auto each = [](Ctx&, const int64_t&) {};
  const std::vector<int64_t> keys = {1, 2};
  define([&](Definition& d) { d.step("each", each).mapped<int64_t>(keys); });
  const RunRow run = begin();
  define([&](Definition& d) { d.step("each", each).mapped<int64_t>(keys).at_most(1); });
  EXPECT_EQ(work(run), RunStatus::done);
  const SqlResult limits = box().open()->run("select name from orca_limits");  // what runners lock before they claim
  ASSERT_EQ(limits.rows.size(), 1U);
  EXPECT_EQ(limits.rows[0].text(0), "step p/each");
}

TEST_P(Runs, AResultThatIsTooLargeFailsItsStepAloneAndAtOnce) {
  static std::atomic<int> tries;
  tries = 0;
  define([](Definition& d) {
    d.step("large", [](Ctx&) {
       ++tries;
       return std::string(99, 'x');  // and its quotes
     }).retries(5, 1, 1);
    d.step("fits", [](Ctx&) { return std::string(98, 'x'); });
  });
  RunnerOptions options;
  options.result_bytes_max = 100;
  EXPECT_EQ(work(begin(), options), RunStatus::failed);
  EXPECT_EQ(tries, 1);
  EXPECT_EQ(view().steps[1].status, "done");
  EXPECT_THAT(Json::parse(view().failures.at(0).error)["message"].get<std::string>(),
              AllOf(HasSubstr("step large"), HasSubstr("101 bytes"), HasSubstr("at most 100"), HasSubstr("table")));
}

TEST_P(Runs, TasksOfATryThatTookTooLongHoldUpNoOthers) {
  static std::atomic<int> tries;
  tries = 0;
  define([](Definition& d) {
    d.step("hangs",
           [](Ctx& ctx) {
             ++tries;
             ctx.tasks().get(ctx.tasks().remote(never_return));
           })
        .timeout_ms(30)
        .retries(3, 1, 1);
    d.step("goes_on", [](Ctx& ctx) {
      while (tries < 4) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return ctx.tasks().get(ctx.tasks().remote(twice, int64_t{21}));
    });
  });
  RunnerOptions options;
  options.tasks = {.engine = TaskEngine::processes, .workers = 2};
  EXPECT_EQ(work(begin(), options), RunStatus::failed);
  EXPECT_EQ(view().steps[0].failed, 1);
  EXPECT_EQ(view().steps[1].result, "42");
  while (abandoned_attempts() > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST_P(Runs, WhatARunnerClaimedAheadAndCannotComeToOthersDo) {
  static std::atomic<int> done;
  done = 0;
  define([](Definition& d) {
    std::vector<int64_t> keys;
    for (int64_t key = 0; key < 40; ++key) keys.push_back(key);
    d.step("each", [](Ctx&, const int64_t& key) {
       // One that is long where the others were short: it waits for all of them.
       for (int i = 0; key == 20 && done < 39 && i < 5'000; ++i) {
         std::this_thread::sleep_for(std::chrono::milliseconds(2));
       }
       if (key == 20) return done == 39;
       ++done;
       return true;
     }).mapped<int64_t>(keys);
    d.step("all", [](Ctx&, const std::vector<bool>& all) {
       return std::count(all.begin(), all.end(), true);
     }).from("each");
  });
  const RunRow run = begin();
  RunnerOptions options;
  options.parallel = 1;
  options.look_ms = 50;
  {
    std::jthread other([&] {
      while (done < 20) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      const auto state = std::make_shared<GroupCommit>([this] { return box().open(); });
      work_on_run(state, pipeline_, run, options);
    });
    EXPECT_EQ(work(run, options), RunStatus::done);
  }
  EXPECT_EQ(view().steps[1].result, "40");
}

TEST_P(Runs, ARunOfOtherCodeIsRefused) {
  define([](Definition& d) { d.step("a", [](Ctx&) { return int64_t{1}; }); });
  const RunRow begun = begin();
  define([](Definition& d) { d.step("a", [](Ctx&) { return std::string("1"); }); });
  try {
    work(begun);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::config);
    EXPECT_THAT(e.what(), ::testing::HasSubstr("was begun by other code"));
  }
}

TEST_P(Runs, AttemptsKnowWhatTheyAre) {
  static AttemptId id;
  static StepDatasets datasets;
  define([](Definition& d) {
    d.step("each",
           [](Ctx& ctx, const int64_t&) {
             id = ctx.id();
             datasets = ctx.datasets();
           })
        .mapped<int64_t>()
        .reads("n.a")
        .writes("n.b", "n.c")
        .replaces("n.d");
  });
  const RunRow begun = begin({.keys = {{"5"}}, .key_name = "integer"});
  EXPECT_EQ(work(begun), RunStatus::done);
  EXPECT_EQ(id.pipeline, "p");
  EXPECT_EQ(id.run, begun.id);
  EXPECT_EQ(id.run_number, 1);
  EXPECT_EQ(id.step, "each");
  EXPECT_EQ(id.partition, "5");
  EXPECT_EQ(id.attempt, 1);
  EXPECT_EQ(id.code, code_version());
  EXPECT_FALSE(id.code.empty());
  EXPECT_EQ(id.run_started_ms, begun.created_ms);
  EXPECT_EQ(datasets.reads, std::vector<std::string>{"n.a"});
  EXPECT_EQ(datasets.writes, (std::vector<std::string>{"n.b", "n.c"}));
  EXPECT_EQ(datasets.replaces, std::vector<std::string>{"n.d"});
}

TEST_P(Runs, AScheduledTimeHasOneRunWithTheDayBefore) {
  define([](Definition& d) {
    d.schedule("0 6 * * *");
    d.step("each", [](Ctx&, const Day&) {}).mapped<Day>();
  });
  const auto ms = [](const char* text) { return parse_timestamp_us(text)->value / 1'000; };
  const auto database = box().open();
  const auto begin_at = [&](const char* text) {
    database->begin();
    auto run = begin_scheduled(*database, pipeline_, ms("2013-01-10T12:00Z"), ms(text)).begun;
    database->commit();
    return run;
  };
  EXPECT_FALSE(begin_at("2013-01-11T05:59Z"));
  const auto first = begin_at("2013-01-11T06:00Z");
  ASSERT_TRUE(first);
  EXPECT_EQ(parameters_from_json(first->parameters).keys, (std::vector<std::string>{"2013-01-10"}));
  EXPECT_EQ(first->scheduled_ms, ms("2013-01-11T06:00Z"));
  EXPECT_FALSE(begin_at("2013-01-11T06:00Z")) << "it has its run";
  EXPECT_FALSE(begin_at("2013-01-12T06:00Z")) << "the one before is still open";
  const ScheduleLook look = begin_scheduled(*database, pipeline_, ms("2013-01-10T12:00Z"), ms("2014-01-12T07:00Z"));
  EXPECT_EQ(look.waits_for->number, first->number);
  EXPECT_EQ(look.due_ms, ms("2014-01-12T06:00Z")) << "the last, of a year of days";
  state_ = std::make_shared<GroupCommit>([this] { return box().open(); });
  EXPECT_EQ(work(*first), RunStatus::done);
  const auto second = begin_at("2013-01-15T07:00Z");
  ASSERT_TRUE(second);
  EXPECT_EQ(parameters_from_json(second->parameters).keys, (std::vector<std::string>{"2013-01-14"}))
      << "of those missed the last";
}

TEST(RunnerOptionsOfTheEnvironment, ThatAreOutOfRangeAreRefused) {
  for (const char* name : {"ORCA_LEASE_SECONDS", "ORCA_TASK_WORKERS"}) {
    for (const char* value : {"0", "-1", "ten", "100000", "9999999999999", "99999999999999999999"}) {
      ::setenv(name, value, 1);
      try {
        runner_options();
        ADD_FAILURE() << name << "=" << value;
      } catch (const Error& e) {
        EXPECT_THAT(e.what(),
                    ::testing::HasSubstr(std::string(name) + ": \"" + value + "\" is no whole number from 1 to "));
      }
    }
    ::unsetenv(name);
  }
}

}  // namespace
}  // namespace firn::orca
