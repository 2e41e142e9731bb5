// What a run's state says is to be done, by whom, and what comes of it (protocols P14).
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/uuid.h"
#include "orca/state/run_state.h"
#include "orca/state_box.h"

namespace firn::orca {
namespace {

using Outcome = Completion::Outcome;

ErrorKind kind_thrown(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& e) {
    return e.kind();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorKind::internal;
}

// load (mapped) -> check (mapped, the same keys) -> report (once, after all)
RunPlan plan_of_three() {
  RunPlan plan;
  plan.steps = {{.name = "load", .mapped = true},
                {.name = "check", .after = {{.step = 0, .aligned = true}}, .mapped = true},
                {.name = "report", .after = {{.step = 1}}}};
  return plan;
}

class Turns : public OnBothDatabases {
 protected:
  void SetUp() override {
    OnBothDatabases::SetUp();
    if (!IsSkipped()) database_ = box().open();
  }
  template <class Work>
  auto in_transaction(Work work) {
    database_->begin();
    try {
      if constexpr (std::is_void_v<decltype(work())>) {
        work();
        database_->commit();
      } else {
        auto result = work();
        database_->commit();
        return result;
      }
    } catch (...) {
      database_->rollback();
      throw;
    }
  }
  RunRow begin_run(const RunPlan& plan) {
    return in_transaction([&] {
      return create_run(
                 *database_,
                 {.id = uuid_v4(), .pipeline = "p", .kind = "run", .code = "c", .parameters = "{}", .plan = plan})
          .value();
    });
  }
  void add_runner(const RunRow& run, const std::string& id, int64_t lease_ms = 30'000) {
    in_transaction([&] {
      register_runner(*database_, {.id = id, .run_id = run.id, .host = "h", .process = "elsewhere/1/1"}, lease_ms);
    });
  }
  void give_keys(const RunPlan& plan, const RunRow& run, size_t step, const std::vector<std::string>& keys) {
    in_transaction([&] { expand_step(*database_, plan, run.id, step, keys); });
  }
  TurnAnswer turn(const RunPlan& plan, const RunRow& run, const std::string& runner, int64_t claims_max,
                  std::vector<Completion> completions = {}, bool look = false) {
    return in_transaction([&] {
      return take_turn(*database_, plan,
                       {.run_id = run.id,
                        .runner = runner,
                        .code = "c",
                        .completions = std::move(completions),
                        .claims_max = claims_max,
                        .look_for_dead = look});
    });
  }
  static Completion done(const Claim& claim, const std::string& result = "1") {
    return {.step = claim.step, .partition = claim.partition, .attempt = claim.attempt, .result = result};
  }
  static Completion failed(const Claim& claim, Outcome outcome = Outcome::failed) {
    return {.step = claim.step,
            .partition = claim.partition,
            .attempt = claim.attempt,
            .outcome = outcome,
            .error = R"({"message":"no"})"};
  }
  static AttemptKey key_of(const RunRow& run, const Claim& claim, const std::string& runner) {
    return {
        .run_id = run.id, .step = claim.step, .partition = claim.partition, .attempt = claim.attempt, .runner = runner};
  }
  RunView view(const RunRow& run) { return view_run(*database_, find_run_by_id(*database_, run.id).value(), 100); }

  std::unique_ptr<Database> database_;
};
ORCA_ON_BOTH(Turns);

TEST_P(Turns, RunsAreNumberedInTheOrderOfTheirStarts) {  // P14.1
  const RunRow first = begin_run(plan_of_three()), second = begin_run(plan_of_three());
  EXPECT_EQ(first.number, 1);
  EXPECT_EQ(second.number, 2);
  EXPECT_GE(second.created_ms, first.created_ms);
  EXPECT_EQ(find_run(*database_, "p", 2)->id, second.id);
  EXPECT_EQ(find_run(*database_, "p", 0)->id, second.id) << "0 is the last one";
  EXPECT_FALSE(find_run(*database_, "other", 1));
}

TEST_P(Turns, ARunBegunASecondTimeUnderItsIdIsTheSameRun) {
  const NewRun run{
      .id = uuid_v4(), .pipeline = "p", .kind = "run", .code = "c", .parameters = "{}", .plan = plan_of_three()};
  const RunRow once = in_transaction([&] { return create_run(*database_, run).value(); });
  const RunRow again = in_transaction([&] { return create_run(*database_, run).value(); });
  EXPECT_EQ(once.number, again.number);
  EXPECT_EQ(list_runs(*database_, "p", 10).size(), 1U);
}

TEST_P(Turns, AScheduledTimeHasOneRun) {
  NewRun run{.id = uuid_v4(),
             .pipeline = "p",
             .kind = "scheduled",
             .code = "c",
             .parameters = "{}",
             .plan = plan_of_three(),
             .scheduled_ms = 60'000};
  EXPECT_TRUE(in_transaction([&] { return create_run(*database_, run); }));
  run.id = uuid_v4();
  EXPECT_FALSE(in_transaction([&] { return create_run(*database_, run); }));
  run.pipeline = "another";
  EXPECT_TRUE(in_transaction([&] { return create_run(*database_, run); }));
  EXPECT_EQ(last_scheduled_ms(*database_, "p"), 60'000);
  EXPECT_EQ(begin_run(plan_of_three()).number, 2) << "the refused one took no number";
}

TEST_P(Turns, AKeyGoesDownItsStepsAndWhatCollectsWaitsForAllKeys) {
  const RunPlan plan = plan_of_three();
  const RunRow run = begin_run(plan);
  add_runner(run, "r");
  EXPECT_EQ(turn(plan, run, "r", 10, {}, true).to_expand, std::vector<size_t>{0}) << "keys are wanted";
  give_keys(plan, run, 0, {"b", "a"});
  TurnAnswer answer = turn(plan, run, "r", 10);
  ASSERT_EQ(answer.claims.size(), 2U);
  EXPECT_EQ(answer.claims[0].partition, "b") << "in the keys' order";
  EXPECT_EQ(answer.claims[0].attempt, 1);

  answer = turn(plan, run, "r", 10, {done(answer.claims[0], "[7]")});
  ASSERT_EQ(answer.claims.size(), 1U) << "its next step is claimed in the same turn";
  EXPECT_EQ(answer.claims[0].step, 1U);
  EXPECT_EQ(answer.claims[0].partition, "b");
  EXPECT_EQ(answer.claims[0].aligned_results, std::vector<std::string>{"[7]"});
  const Claim check_b = answer.claims[0];
  answer = turn(plan, run, "r", 10, {done(check_b)});
  EXPECT_TRUE(answer.claims.empty()) << "report waits for a";
  answer = turn(plan, run, "r", 10, {done({.step = 0, .partition = "a", .attempt = 1}, "[8]")});
  ASSERT_EQ(answer.claims.size(), 1U);
  answer = turn(plan, run, "r", 10, {done(answer.claims[0], "\"A\"")});
  ASSERT_EQ(answer.claims.size(), 1U);
  EXPECT_EQ(answer.claims[0].step, 2U);
  using Results = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(step_results(*database_, run.id, 1), (Results{{"b", "1"}, {"a", "\"A\""}}))
      << "in the keys' order, not in that of their ends";
  EXPECT_EQ(turn(plan, run, "r", 10, {done(answer.claims[0])}).status, RunStatus::done);
  EXPECT_EQ(view(run).run.status, RunStatus::done);
  EXPECT_TRUE(view(run).run.finished_ms);
}

TEST_P(Turns, AMappedStepWithoutKeysIsDone) {
  const RunPlan plan = plan_of_three();
  const RunRow run = begin_run(plan);
  add_runner(run, "r");
  give_keys(plan, run, 0, {});
  const TurnAnswer answer = turn(plan, run, "r", 10, {}, true);
  ASSERT_EQ(answer.claims.size(), 1U);
  EXPECT_EQ(answer.claims[0].step, 2U) << "what collects no results runs";
}

TEST_P(Turns, AFailedKeySkipsWhatNeedsItAndNothingElse) {
  const RunPlan plan = plan_of_three();
  const RunRow run = begin_run(plan);
  add_runner(run, "r");
  give_keys(plan, run, 0, {"a", "b"});
  TurnAnswer answer = turn(plan, run, "r", 10);
  answer = turn(plan, run, "r", 10, {failed(answer.claims[0]), done(answer.claims[1])});
  ASSERT_EQ(answer.claims.size(), 1U);
  EXPECT_EQ(answer.claims[0].partition, "b");
  answer = turn(plan, run, "r", 10, {done(answer.claims[0])});
  EXPECT_EQ(answer.status, RunStatus::failed);
  const RunView seen = view(run);
  EXPECT_EQ(seen.steps[0].status, "failed");
  EXPECT_EQ(seen.steps[1].status, "failed");
  EXPECT_EQ(seen.steps[1].skipped, 1);
  EXPECT_EQ(seen.steps[1].done, 1);
  EXPECT_EQ(seen.steps[2].status, "skipped");
  ASSERT_EQ(seen.failures.size(), 1U);
  EXPECT_EQ(seen.failures[0].partition, "a");

  // A retry runs what failed and what was skipped for it, and no more.
  EXPECT_EQ(in_transaction([&] { return retry_run(*database_, plan, run.id, std::nullopt, std::nullopt); }), 1);
  answer = turn(plan, run, "r", 10, {}, true);
  ASSERT_EQ(answer.claims.size(), 1U);
  EXPECT_EQ(answer.claims[0].partition, "a");
  EXPECT_EQ(answer.claims[0].attempt, 2) << "attempts go on counting";
  EXPECT_EQ(answer.claims[0].tries, 0) << "tries do not";
  answer = turn(plan, run, "r", 10, {done(answer.claims[0])});
  ASSERT_EQ(answer.claims.size(), 1U);
  EXPECT_EQ(answer.claims[0].step, 1U);
  answer = turn(plan, run, "r", 10, {done(answer.claims[0])});
  ASSERT_EQ(answer.claims.size(), 1U);
  EXPECT_EQ(turn(plan, run, "r", 10, {done(answer.claims[0])}).status, RunStatus::done);
}

TEST_P(Turns, AStepWhoseKeysFailFailsAndMayBeRetried) {
  const RunPlan plan = plan_of_three();
  const RunRow run = begin_run(plan);
  add_runner(run, "r");
  in_transaction([&] { fail_step(*database_, plan, run.id, 0, R"({"message":"no keys"})"); });
  EXPECT_EQ(turn(plan, run, "r", 10).status, RunStatus::failed);
  ASSERT_EQ(view(run).failures.size(), 1U);
  EXPECT_EQ(view(run).failures[0].error, R"({"message":"no keys"})");
  EXPECT_EQ(view(run).steps[1].status, "skipped");
  EXPECT_EQ(in_transaction([&] { return retry_run(*database_, plan, run.id, std::nullopt, std::nullopt); }), 1);
  EXPECT_EQ(turn(plan, run, "r", 10, {}, true).to_expand, std::vector<size_t>{0});
  give_keys(plan, run, 0, {"a"});
  EXPECT_EQ(turn(plan, run, "r", 10).claims.size(), 1U);
}

TEST_P(Turns, ATryThatFailsWaitsForItsTime) {
  const RunPlan plan = plan_of_three();
  const RunRow run = begin_run(plan);
  add_runner(run, "r", 1'000'000);
  give_keys(plan, run, 0, {"a"});
  TurnAnswer answer = turn(plan, run, "r", 10);
  Completion later = failed(answer.claims[0], Outcome::retry);
  later.retry_in_ms = 60'000;
  answer = turn(plan, run, "r", 10, {later});
  EXPECT_TRUE(answer.claims.empty());
  ASSERT_TRUE(answer.next_due_ms);
  EXPECT_LE(*answer.next_due_ms, 60'000);
  EXPECT_GT(*answer.next_due_ms, 40'000);
  box().pass_ms(60'001);
  answer = turn(plan, run, "r", 10);
  ASSERT_EQ(answer.claims.size(), 1U);
  EXPECT_EQ(answer.claims[0].attempt, 2);
  EXPECT_EQ(answer.claims[0].tries, 1);
}

TEST_P(Turns, ADeadRunnersAttemptsAreTakenOverOnceItsLeaseEndsAndNotBefore) {
  const RunPlan plan = plan_of_three();
  const RunRow run = begin_run(plan);
  add_runner(run, "dies", 30'000);
  add_runner(run, "lives", 1'000'000);
  give_keys(plan, run, 0, {"a"});
  const Claim lost = turn(plan, run, "dies", 10).claims.at(0);
  EXPECT_TRUE(turn(plan, run, "lives", 10, {}, true).claims.empty());
  check_lease(*database_, key_of(run, lost, "dies"));
  box().pass_ms(30'001);
  // By the database's clock alone it is over, although nobody has taken over yet (P14.2).
  EXPECT_EQ(kind_thrown([&] { check_lease(*database_, key_of(run, lost, "dies")); }), ErrorKind::lease_lost);
  const TurnAnswer answer = turn(plan, run, "lives", 10, {}, true);
  EXPECT_EQ(answer.taken_over, 1);
  ASSERT_EQ(answer.claims.size(), 1U);
  EXPECT_EQ(answer.claims[0].attempt, 2);

  // The zombie wakes: what it says is refused, whatever its lease is by then.
  const TurnAnswer woken = in_transaction([&] {
    return take_turn(*database_, plan,
                     {.run_id = run.id,
                      .runner = "dies",
                      .code = "c",
                      .completions = {done(lost)},
                      .claims_max = 10,
                      .renew_lease_ms = 30'000});
  });
  ASSERT_EQ(woken.refused.size(), 1U);
  EXPECT_TRUE(woken.claims.empty());
  EXPECT_EQ(kind_thrown([&] { check_lease(*database_, key_of(run, lost, "dies")); }), ErrorKind::lease_lost);
  EXPECT_EQ(kind_thrown([&] { keep_pin(*database_, key_of(run, lost, "dies"), {.location = "t"}); }),
            ErrorKind::lease_lost);
  check_lease(*database_, key_of(run, answer.claims[0], "lives"));
  EXPECT_TRUE(turn(plan, run, "lives", 0, {done(answer.claims[0])}).refused.empty());
}

TEST_P(Turns, ARunnerThatWakesBeforeATakeoverGoesOn) {
  const RunPlan plan = plan_of_three();
  const RunRow run = begin_run(plan);
  add_runner(run, "sleeps", 30'000);
  give_keys(plan, run, 0, {"a"});
  const Claim claim = turn(plan, run, "sleeps", 10).claims.at(0);
  box().pass_ms(60'000);
  const TurnAnswer woken = in_transaction([&] {
    return take_turn(
        *database_, plan,
        {.run_id = run.id, .runner = "sleeps", .code = "c", .renew_lease_ms = 30'000, .look_for_dead = true});
  });
  EXPECT_EQ(woken.taken_over, 0);
  check_lease(*database_, key_of(run, claim, "sleeps"));
  EXPECT_TRUE(turn(plan, run, "sleeps", 0, {done(claim)}).refused.empty());
}

TEST_P(Turns, WhatKeepsKillingItsRunnersFails) {
  const RunPlan plan = plan_of_three();
  const RunRow run = begin_run(plan);
  give_keys(plan, run, 0, {"a"});
  RunStatus status = RunStatus::running;
  int times = 0;
  while (status == RunStatus::running && times < 50) {
    const std::string runner = "r" + std::to_string(times++);
    add_runner(run, runner);
    status = turn(plan, run, runner, 1, {}, true).status;
    in_transaction([&] { unregister_runner(*database_, runner); });
  }
  EXPECT_EQ(status, RunStatus::failed);
  EXPECT_GE(times, 5) << "a runner may die a few times for reasons of its own";
  EXPECT_NE(view(run).failures.at(0).error.find("its runner died"), std::string::npos);
}

TEST_P(Turns, OneCompletionToldTwiceCountsOnce) {
  const RunPlan plan = plan_of_three();
  const RunRow run = begin_run(plan);
  add_runner(run, "r");
  give_keys(plan, run, 0, {"a", "b"});
  const TurnAnswer answer = turn(plan, run, "r", 10);
  const Completion told = done(answer.claims[0]);
  EXPECT_EQ(turn(plan, run, "r", 0, {told}).refused.size(), 0U);
  EXPECT_EQ(turn(plan, run, "r", 0, {told}).refused.size(), 0U)
      << "the answer to the first was lost; it is no one else's";
  EXPECT_EQ(view(run).steps[0].status, "open") << "b is still to do";
  EXPECT_EQ(view(run).steps[0].done, 1);
}

TEST_P(Turns, AClaimWhoseAnswerWasLostGoesBack) {
  const RunPlan plan = plan_of_three();
  const RunRow run = begin_run(plan);
  add_runner(run, "r");
  give_keys(plan, run, 0, {"a", "b"});
  const Claim known = turn(plan, run, "r", 1).claims.at(0);
  turn(plan, run, "r", 1);  // b, and nobody hears of it
  const TurnAnswer answer = in_transaction([&] {
    return take_turn(
        *database_, plan,
        {.run_id = run.id, .runner = "r", .code = "c", .claims_max = 5, .held = {{{known.step, known.partition}}}});
  });
  ASSERT_EQ(answer.claims.size(), 1U);
  EXPECT_EQ(answer.claims[0].partition, "b");
}

TEST_P(Turns, LimitsHoldOverAllRuns) {
  RunPlan plan;
  plan.steps = {{.name = "load", .mapped = true, .limits = {"resource db"}}, {.name = "free"}};
  plan.limits = {{"resource db", 2}};
  const RunRow one = begin_run(plan), two = begin_run(plan);
  add_runner(one, "r1", 30'000);
  add_runner(two, "r2", 1'000'000);
  give_keys(plan, one, 0, {"a", "b", "c"});
  give_keys(plan, two, 0, {"a", "b", "c"});
  const auto loads = [](const TurnAnswer& answer) {
    return std::count_if(answer.claims.begin(), answer.claims.end(),
                         [](const Claim& claim) { return claim.step == 0; });
  };
  const TurnAnswer first = turn(plan, one, "r1", 2);
  EXPECT_EQ(first.claims.size(), 2U);
  EXPECT_EQ(loads(first), 1) << "of two claims one is the free step's, which is farther down";
  const TurnAnswer second = turn(plan, two, "r2", 10);
  EXPECT_EQ(loads(second), 1);
  EXPECT_EQ(loads(turn(plan, one, "r1", 10)), 0) << "two are running";
  EXPECT_EQ(loads(turn(plan, two, "r2", 10, {done(second.claims.back())})), 1) << "what ends makes room";
  EXPECT_EQ(loads(turn(plan, one, "r1", 10)), 0);
  box().pass_ms(30'001);
  EXPECT_EQ(loads(turn(plan, two, "r2", 10)), 1) << "a dead runner holds nothing";
}

TEST_P(Turns, LimitsThatRunsWereBegunWithoutHoldOverTurnsAtOnce) {
  RunPlan plan;
  plan.steps = {{.name = "load"}};
  const RunRow one = begin_run(plan), two = begin_run(plan);
  plan.steps[0].limits = {"step p/load"};
  plan.limits = {{"step p/load", 1}};
  for (const auto& [run, runner] : {std::pair(one, "r1"), std::pair(two, "r2")}) {
    add_runner(run, runner);
    in_transaction([&] { add_limit_rows(*database_, plan); });
  }
  const auto claim = [&](Database& database, const RunRow& run, const std::string& runner) {
    return take_turn(database, plan, {.run_id = run.id, .runner = runner, .code = "c", .claims_max = 1}).claims.size();
  };
  database_->begin();
  EXPECT_EQ(claim(*database_, one, "r1"), 1U);
  size_t claimed = 1;
  std::jthread other([&] {
    const auto database = box().open();
    database->begin();
    claimed = claim(*database, two, "r2");
    database->commit();
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));  // the other's turn has its chance
  database_->commit();
  other.join();
  EXPECT_EQ(claimed, 0U);
}

TEST_P(Turns, APinStandsAsItWasFirstProposed) {
  const RunPlan plan = plan_of_three();
  const RunRow run = begin_run(plan);
  add_runner(run, "r");
  give_keys(plan, run, 0, {"a", "b"});
  TurnAnswer answer = turn(plan, run, "r", 10);
  const AttemptKey first = key_of(run, answer.claims[0], "r"), other = key_of(run, answer.claims[1], "r");
  EXPECT_EQ(keep_pin(*database_, first, {.location = "s3://w/t", .table_uuid = "u", .snapshot_id = 5}).snapshot_id, 5);
  EXPECT_EQ(keep_pin(*database_, first, {.location = "s3://w/t", .table_uuid = "u", .snapshot_id = 6}).snapshot_id, 5);
  EXPECT_FALSE(keep_pin(*database_, first, {.location = "empty", .table_uuid = "e"}).snapshot_id);
  EXPECT_FALSE(keep_pin(*database_, first, {.location = "empty", .table_uuid = "e", .snapshot_id = 1}).snapshot_id)
      << "empty stays empty";
  EXPECT_EQ(keep_pin(*database_, other, {.location = "s3://w/t", .table_uuid = "u", .snapshot_id = 7}).snapshot_id, 7);
  EXPECT_EQ(keep_floor(*database_, first, {.location = "s3://w/t", .table_uuid = "u", .sequence = 3}).sequence, 3);
  EXPECT_EQ(keep_floor(*database_, first, {.location = "s3://w/t", .table_uuid = "u", .sequence = 9}).sequence, 3);

  answer = turn(plan, run, "r", 10, {failed(answer.claims[0], Outcome::retry)});
  ASSERT_EQ(answer.claims.size(), 1U);
  const AttemptKey retry = key_of(run, answer.claims[0], "r");
  EXPECT_EQ(keep_pin(*database_, retry, {.location = "s3://w/t", .table_uuid = "u", .snapshot_id = 8}).snapshot_id, 5);
  EXPECT_EQ(keep_floor(*database_, retry, {.location = "s3://w/t", .table_uuid = "u", .sequence = 9}).sequence, 3);
  EXPECT_EQ(pins_of(*database_, retry).size(), 2U);
}

TEST_P(Turns, PinsCountWhileTheirRunIsOpenOrMayBeRetried) {  // P14.3
  const RunPlan plan = plan_of_three();
  const RunRow run = begin_run(plan);
  add_runner(run, "r", 1'000'000'000);
  give_keys(plan, run, 0, {"a"});
  const Claim claim = turn(plan, run, "r", 10).claims.at(0);
  keep_pin(*database_, key_of(run, claim, "r"), {.location = "t", .table_uuid = "u", .snapshot_id = 5});
  keep_floor(*database_, key_of(run, claim, "r"), {.location = "t", .table_uuid = "u", .sequence = 2});
  EXPECT_EQ(open_pins(*database_, 1'000).size(), 1U);
  EXPECT_EQ(open_floors(*database_, 1'000).size(), 1U);
  EXPECT_EQ(oldest_open_start_ms(*database_, 1'000), run.created_ms);
  EXPECT_EQ(turn(plan, run, "r", 0, {failed(claim)}).status, RunStatus::failed);
  EXPECT_EQ(open_pins(*database_, 1'000).size(), 1U) << "it may be retried";
  box().pass_ms(1'001);
  EXPECT_EQ(open_pins(*database_, 1'000).size(), 0U);
  EXPECT_FALSE(oldest_open_start_ms(*database_, 1'000));
}

TEST_P(Turns, AStoppedRunGoesOnAndACancelledOneDoesNot) {
  const RunPlan plan = plan_of_three();
  const RunRow run = begin_run(plan);
  add_runner(run, "one");
  add_runner(run, "two");
  give_keys(plan, run, 0, {"a"});
  const Claim claim = turn(plan, run, "one", 10).claims.at(0);
  in_transaction([&] { stop_run(*database_, run.id, "one"); });
  EXPECT_EQ(view(run).run.status, RunStatus::running) << "the other runner works on it";
  turn(plan, run, "one", 0, {failed(claim, Outcome::stopped)});
  in_transaction([&] { unregister_runner(*database_, "two"); });
  in_transaction([&] { stop_run(*database_, run.id, "one"); });
  EXPECT_EQ(view(run).run.status, RunStatus::stopped);
  EXPECT_TRUE(turn(plan, run, "one", 10).claims.empty());
  EXPECT_TRUE(in_transaction([&] { return reopen_run(*database_, run.id); }));
  const TurnAnswer answer = turn(plan, run, "one", 10);
  ASSERT_EQ(answer.claims.size(), 1U);
  EXPECT_EQ(answer.claims[0].tries, 0) << "a stop is no failed try";
  EXPECT_TRUE(in_transaction([&] { return cancel_run(*database_, run.id); }));
  EXPECT_EQ(kind_thrown([&] { check_lease(*database_, key_of(run, answer.claims[0], "one")); }), ErrorKind::lease_lost);
  EXPECT_EQ(turn(plan, run, "one", 10).status, RunStatus::cancelled);
  EXPECT_FALSE(in_transaction([&] { return reopen_run(*database_, run.id); }));
}

TEST_P(Turns, ManyRunnersShareARunAndNoPartitionIsAnyTwos) {
  const RunPlan plan = plan_of_three();
  const RunRow run = begin_run(plan);
  std::vector<std::string> keys;
  for (int i = 0; i < 60; ++i) keys.push_back("k" + std::to_string(i));
  give_keys(plan, run, 0, keys);
  std::mutex mutex;
  std::vector<std::pair<size_t, std::string>> claimed;
  const auto work = [&](const std::string& runner) {
    const auto database = box().open();
    const auto turn_of = [&](std::vector<Completion> completions) {
      database->begin();
      TurnAnswer answer = take_turn(
          *database, plan,
          {.run_id = run.id, .runner = runner, .code = "c", .completions = std::move(completions), .claims_max = 3});
      database->commit();
      return answer;
    };
    std::vector<Completion> completions;
    for (;;) {
      const TurnAnswer answer = turn_of(std::move(completions));
      completions.clear();
      EXPECT_TRUE(answer.refused.empty());
      if (answer.status != RunStatus::running) return;
      const std::lock_guard lock(mutex);
      for (const Claim& claim : answer.claims) {
        claimed.emplace_back(claim.step, claim.partition);
        completions.push_back(done(claim));
      }
    }
  };
  for (const char* runner : {"r1", "r2", "r3", "r4"}) add_runner(run, runner);
  {
    std::vector<std::jthread> threads;
    for (const char* runner : {"r1", "r2", "r3", "r4"}) threads.emplace_back(work, runner);
  }
  EXPECT_EQ(claimed.size(), 121U);
  EXPECT_EQ(std::set(claimed.begin(), claimed.end()).size(), 121U);
  EXPECT_EQ(view(run).run.status, RunStatus::done);
}

TEST_P(Turns, KeysThatSomeRunHasDoneAreKnown) {
  const RunPlan plan = plan_of_three();
  const RunRow run = begin_run(plan);
  add_runner(run, "r");
  give_keys(plan, run, 0, {"a", "b", "c"});
  const TurnAnswer answer = turn(plan, run, "r", 2);
  turn(plan, run, "r", 0, {done(answer.claims[0]), done(answer.claims[1])});
  EXPECT_EQ(keys_done(*database_, "p", "load", {"a", "c", "d"}), std::vector<std::string>{"a"});
  EXPECT_TRUE(keys_done(*database_, "p", "load", {"d"}).empty());
  EXPECT_TRUE(keys_done(*database_, "p", "check", {"a"}).empty());
  EXPECT_TRUE(keys_done(*database_, "other", "load", {"a"}).empty());
  std::vector<std::string> many = {"a", "c"};
  while (many.size() < 1'500) many.push_back("k" + std::to_string(many.size()));
  std::vector<std::string> found = keys_done(*database_, "p", "load", many);
  std::erase_if(found, [&](const std::string& key) { return std::find(many.begin(), many.end(), key) == many.end(); });
  EXPECT_EQ(found, std::vector<std::string>{"a"});
}

TEST_P(Turns, TheLastRunOfAStatusIsFoundHoweverManyCameAfter) {
  const RunPlan plan = plan_of_three();
  const RunRow first = begin_run(plan), second = begin_run(plan);
  for (int i = 0; i < 3; ++i) {
    const RunRow later = begin_run(plan);
    in_transaction([&] { return cancel_run(*database_, later.id); });
  }
  in_transaction([&] { stop_run(*database_, first.id, "none"); });
  EXPECT_EQ(find_last_run(*database_, "p", {RunStatus::stopped, RunStatus::running})->number, second.number);
  EXPECT_EQ(find_last_run(*database_, "p", {RunStatus::stopped})->number, first.number);
  EXPECT_FALSE(find_last_run(*database_, "p", {RunStatus::failed}));
  EXPECT_FALSE(find_last_run(*database_, "other", {RunStatus::stopped}));
}

TEST_P(Turns, ACancelledRunIsNotRetried) {
  const RunPlan plan = plan_of_three();
  const RunRow run = begin_run(plan);
  add_runner(run, "r");
  give_keys(plan, run, 0, {"a", "b"});
  const TurnAnswer answer = turn(plan, run, "r", 1);
  turn(plan, run, "r", 0, {failed(answer.claims[0])});
  EXPECT_TRUE(in_transaction([&] { return cancel_run(*database_, run.id); }));
  EXPECT_EQ(in_transaction([&] { return retry_run(*database_, plan, run.id, std::nullopt, std::nullopt); }), 0);
  EXPECT_EQ(view(run).run.status, RunStatus::cancelled);
  EXPECT_EQ(view(run).steps[0].failed, 1) << "nothing of it changed";
}

}  // namespace
}  // namespace firn::orca
