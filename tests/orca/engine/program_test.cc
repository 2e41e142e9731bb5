// A pipeline's program as users run it: killed, stopped, run twice at once, resumed (protocols P14).
#include <filesystem>
#include <fstream>
#include <set>

#include "orca/keys.h"
#include "orca/programs.h"

namespace firn::orca {
namespace {

class Programs : public ProgramTest {
 protected:
  Programs() : ProgramTest(ORCA_TEST_STEPS) {}
  void expect_done(const Json& run, int64_t days) {
    EXPECT_EQ(run["status"], "done") << run.dump(2);
    int64_t total = 0;
    for (int32_t day = 0; day < days; ++day) total += 100 + (Day::parse("2013-01-01").days + day) % 10;
    EXPECT_EQ(run["steps"][3]["result"], total) << run.dump(2);
    EXPECT_EQ(run["steps"][1]["done"], days);
    EXPECT_EQ(run["steps"][2]["done"], days);
  }
};
ORCA_ON_BOTH(Programs);

const Words kRunThreeDays = {"run", "--from", "2013-01-01", "--to", "2013-01-03", "--parallel", "2"};

TEST_P(Programs, ARunComesToItsEnd) {
  const ProgramResult result = run(kRunThreeDays);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("days run 1"), std::string::npos) << result.out;
  expect_done(status(), 3);
  EXPECT_EQ(effects().size(), 1U + 3 + 3 + 3 + 1);
}

TEST_P(Programs, AFailedStepFailsTheRunWhichTellsAndRetryMendsIt) {
  ProgramResult result = run(kRunThreeDays, {{"TEST_FAIL", "2013-01-02"}});
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.out.find("load 2013-01-02, attempt 2: "), std::string::npos) << "one retry: two attempts\n"
                                                                                << result.out;
  EXPECT_NE(result.out.find("told to fail"), std::string::npos) << result.out;
  EXPECT_NE(result.err.find("retry 1"), std::string::npos) << result.err;
  Json run_status = status();
  EXPECT_EQ(run_status["steps"][1]["failed"], 1);
  EXPECT_EQ(run_status["steps"][2]["skipped"], 1);
  EXPECT_EQ(run_status["steps"][2]["done"], 2);
  EXPECT_EQ(run_status["steps"][3]["status"], "skipped");
  EXPECT_EQ(run_status["failures"][0]["error"]["message"], "told to fail");
  EXPECT_EQ(run({"resume", "1"}).status, 1) << "a failed run is retried, not resumed";
  result = run({"retry"});
  EXPECT_EQ(result.status, 0) << result.err;
  expect_done(status(), 3);
  EXPECT_TRUE(has_begun("load", "2013-01-02", 3));
  EXPECT_FALSE(has_begun("load", "2013-01-01", 2)) << "what was done is not done again";
}

TEST_P(Programs, KilledAtEveryPointARunIsResumedToTheSameResult) {
  const std::string log = box().folder() / "points";
  ASSERT_EQ(run(kRunThreeDays, {{"FIRN_FAULT_LOG", log}}).status, 0);
  int points = 0;
  std::set<std::string> names;
  std::ifstream file(log);
  for (std::string line; std::getline(file, line); ++points) names.insert(line);
  for (const char* name : {"orca.run.commit", "orca.turn.commit", "orca.turn.committed", "orca.attempt.start",
                           "orca.pin.commit", "orca.keys.commit", "orca.leave.commit"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
  ASSERT_GT(points, 20);
  // All of them in a long run; a connection and a database of PostgreSQL's take a while.
  const int step = std::getenv("FIRN_LONG") != nullptr ? 1 : box().is_postgres() ? 7 : 3;
  for (int point = 1; point <= points + 2; point += step) {
    SCOPED_TRACE("killed at point " + std::to_string(point));
    StateBox fresh(GetParam());
    const Environment env =
        environment(fresh.environment()) + Environment{{"TEST_EFFECTS", fresh.folder() / "effects"}};
    const auto run_in = [&](const Words& words, const Environment& more = {}) {
      return run_program(argv_of(words), env + more);
    };
    const int ended = run_in(kRunThreeDays, {{"FIRN_FAULT_KILL_AT", std::to_string(point)}}).status;
    ASSERT_TRUE(ended == 137 || ended == 0) << ended;  // threads do not pass the same number of points each time
    ProgramResult result = run_in({"resume"});
    if (result.err.find("no run that is open") != std::string::npos && ended == 137) {
      // Before the run was begun, or after it ended.
      if (Json::parse(run_in({"status", "--json"}).out)["runs"].empty()) result = run_in(kRunThreeDays);
    }
    const ProgramResult seen = run_in({"status", "1", "--json"});
    ASSERT_EQ(seen.status, 0) << seen.err << result.err;
    expect_done(Json::parse(seen.out)["runs"][0], 3);
  }
}

TEST_P(Programs, AKilledRunnersWorkIsTakenOverAtOnceOnTheSameMachine) {
  auto runner = start(kRunThreeDays, {{"TEST_HOLD", "2013-01-02"}});
  ASSERT_TRUE(eventually([&] { return has_begun("load", "2013-01-02", 1); }));
  runner->signal(SIGKILL);
  EXPECT_EQ(runner->wait(), 128 + SIGKILL);
  open_gate();
  // The lease is of half a minute, and nobody waits for it.
  EXPECT_EQ(run({"resume"}).status, 0);
  expect_done(status(), 3);
  EXPECT_TRUE(has_begun("load", "2013-01-02", 2));
  expect_no_attempt_ran_twice();
}

TEST_P(Programs, AStepThatKillsItsRunnerIsTriedAgainByTheNext) {
  EXPECT_EQ(run(kRunThreeDays, {{"TEST_DIE", "2013-01-03"}}).status, 128 + SIGKILL);
  EXPECT_EQ(run({"resume"}).status, 0);
  expect_done(status(), 3);
}

TEST_P(Programs, AZombieIsFencedAndItsSuccessorsResultStands) {
  const Environment held = {{"TEST_HOLD", "2013-01-02"}};
  auto zombie = start(kRunThreeDays, held);
  ASSERT_TRUE(eventually([&] {
    return has_begun("check", "2013-01-01", 1) && has_begun("check", "2013-01-03", 1) &&
           has_begun("load", "2013-01-02", 1);
  }));
  stop_between_transactions(*zombie);
  pass_a_minute();
  auto successor = start({"resume"}, held);
  ASSERT_TRUE(eventually([&] { return has_begun("load", "2013-01-02", 2); })) << "taken over once the lease ended";
  open_gate();
  EXPECT_EQ(successor->wait(), 0);
  expect_done(status(), 3);
  zombie->signal(SIGCONT);
  EXPECT_EQ(zombie->wait(), 0) << "the run is done, though not by it";
  expect_done(status(), 3);
  expect_no_attempt_ran_twice();
  for (const Effect& effect : effects()) {
    const bool fenced =
        effect.what == "end" && effect.step == "load" && effect.key == "2013-01-02" && effect.attempt == 1;
    EXPECT_FALSE(fenced) << "check_lease let the zombie pass";
  }
}

TEST_P(Programs, TwoRunnersShareARunAndNothingRunsTwice) {
  auto one =
      start({"run", "--from", "2013-01-01", "--to", "2013-01-20", "--parallel", "1"}, {{"TEST_HOLD", "2013-01-01"}});
  ASSERT_TRUE(eventually([&] { return has_begun("load", "2013-01-01", 1); }));
  auto two = start({"resume", "--parallel", "2"});
  ASSERT_TRUE(eventually([&] {
    for (const Effect& effect : effects()) {
      if (effect.pid == two->pid()) return true;
    }
    return false;
  }));
  open_gate();
  EXPECT_EQ(one->wait(), 0);
  EXPECT_EQ(two->wait(), 0);
  expect_done(status(), 20);
  for (const Effect& effect : effects()) EXPECT_EQ(effect.attempt, 1);
  expect_no_attempt_ran_twice();
}

TEST_P(Programs, AStopLeavesARunThatResumeGoesOnWith) {
  auto runner = start(kRunThreeDays, {{"TEST_HOLD", "2013-01-02"}, {"TEST_OBEY", "1"}});
  ASSERT_TRUE(eventually([&] { return has_begun("load", "2013-01-02", 1); }));
  runner->signal(SIGTERM);
  EXPECT_EQ(runner->wait(), 3);
  EXPECT_EQ(status()["status"], "stopped");
  EXPECT_TRUE(status()["running"].empty());
  EXPECT_EQ(run({"resume"}).status, 0);
  expect_done(status(), 3);
  EXPECT_TRUE(has_begun("load", "2013-01-02", 2));
}

TEST_P(Programs, AServerWorksOnOpenRunsAndEndsOnSigterm) {
  auto runner = start(kRunThreeDays, {{"TEST_HOLD", "2013-01-02"}});
  ASSERT_TRUE(eventually([&] { return has_begun("load", "2013-01-02", 1); }));
  runner->signal(SIGKILL);
  runner->wait();
  open_gate();
  auto server = start({"serve"});
  EXPECT_TRUE(eventually([&] { return status()["status"] == "done"; }));
  server->signal(SIGTERM);
  EXPECT_EQ(server->wait(), 0);
  expect_done(status(), 3);
}

TEST_P(Programs, ACancelledRunEndsItsRunnersForGood) {
  auto runner = start(kRunThreeDays, {{"TEST_HOLD", "2013-01-02"}, {"TEST_OBEY", "1"}});
  ASSERT_TRUE(eventually([&] { return has_begun("load", "2013-01-02", 1); }));
  EXPECT_EQ(run({"cancel", "1"}).status, 0);
  EXPECT_EQ(runner->wait(), 1);
  EXPECT_EQ(status()["status"], "cancelled");
  EXPECT_EQ(run({"resume", "1"}).status, 1);
  const ProgramResult retried = run({"retry", "1"});
  EXPECT_EQ(retried.status, 1);
  EXPECT_NE(retried.err.find("run 1 was cancelled, for good"), std::string::npos) << retried.err;
  EXPECT_EQ(status()["status"], "cancelled");
}

TEST_P(Programs, ACancelledRunWithAFailedStepIsNotRetried) {
  auto runner = start(kRunThreeDays, {{"TEST_HOLD", "2013-01-02"}, {"TEST_FAIL", "2013-01-01"}, {"TEST_OBEY", "1"}});
  ASSERT_TRUE(eventually([&] { return has_begun("load", "2013-01-01", 2); }));
  ASSERT_TRUE(eventually([&] { return status()["steps"][1]["failed"] == 1; }));
  EXPECT_EQ(run({"cancel", "1"}).status, 0);
  EXPECT_EQ(runner->wait(), 1);
  EXPECT_EQ(run({"retry", "1"}).status, 1);
  EXPECT_EQ(status()["status"], "cancelled") << "it was ended for good";
  EXPECT_EQ(status()["steps"][1]["failed"], 1);
}

TEST_P(Programs, WithOtherStepsLeaveARunThatTheyAreRefusedAsItIs) {
  const Environment other = {{"TEST_OTHER_STEPS", "1"}};
  const auto expect_refused = [&](const Words& words) {
    const ProgramResult result = run(words, other);
    EXPECT_EQ(result.status, 1);
    EXPECT_NE(result.err.find("was begun by other code"), std::string::npos) << result.err;
  };
  ASSERT_EQ(run(kRunThreeDays, {{"TEST_FAIL", "2013-01-02"}}).status, 1);
  const Json failed = status();
  expect_refused({"retry"});
  EXPECT_EQ(status(), failed);
  auto runner = start({"run", "--key", "2013-01-05"}, {{"TEST_HOLD", "2013-01-05"}, {"TEST_OBEY", "1"}});
  ASSERT_TRUE(eventually([&] { return has_begun("load", "2013-01-05", 1); }));
  runner->signal(SIGTERM);
  EXPECT_EQ(runner->wait(), 3);
  expect_refused({"resume"});
  EXPECT_EQ(status("2")["status"], "stopped");
  EXPECT_EQ(run({"resume"}).status, 0) << "the program that fits goes on with it";
}

TEST_P(Programs, AFailureThatAsksForANewRunIsNotAdvisedToBeRetried) {
  const Words one_day = {"run", "--key", "2013-01-02"};
  const Environment fails = {{"TEST_FAIL", "2013-01-02"}};
  ProgramResult result =
      run(one_day, fails + Environment{{"TEST_FAIL_SAYS", "Nothing was committed; start a new run"}});
  EXPECT_NE(result.err.find("run 1 failed; no retry mends it"), std::string::npos) << result.err;
  EXPECT_EQ(result.err.find("retry 1"), std::string::npos) << result.err;
  result = run(one_day, fails);
  EXPECT_NE(result.err.find("run 2 failed; retry 2 tries the failed steps again\n"), std::string::npos) << result.err;
}

TEST_P(Programs, ABackfillTakesTheKeysThatAreNotDone) {
  ASSERT_EQ(run({"run", "--key", "2013-01-02", "--key", "2013-01-03"}).status, 0);
  ASSERT_EQ(run({"backfill", "--from", "2013-01-01", "--to", "2013-01-04", "--parallel", "3"}).status, 0);
  Json second = status("2");
  EXPECT_EQ(second["kind"], "backfill");
  EXPECT_EQ(second["steps"][1]["total"], 2) << "the 1st and the 4th";
  const ProgramResult nothing = run({"backfill", "--from", "2013-01-01", "--to", "2013-01-04"});
  EXPECT_EQ(nothing.status, 0);
  EXPECT_NE(nothing.out.find("all 4 keys are done"), std::string::npos) << nothing.out;
  ASSERT_EQ(run({"backfill", "--from", "2013-01-01", "--to", "2013-01-04", "--rerun"}).status, 0);
  EXPECT_EQ(status("3")["steps"][1]["total"], 4);
}

TEST_P(Programs, WrongUseIsToldBeforeARunBegins) {
  const auto expect_refused = [&](const Words& words, const std::string& why) {
    const ProgramResult result = run(words);
    EXPECT_EQ(result.status, 2) << result.err << result.out;
    EXPECT_NE((result.err + result.out).find(why), std::string::npos) << result.err << result.out;
  };
  expect_refused({"run"}, "step load runs once a day");
  expect_refused({"run", "--from", "2013-01-01"}, "--from and --to go together");
  expect_refused({"run", "--from", "2013-01-02", "--to", "2013-01-01"}, "comes after");
  expect_refused({"run", "--key", "2013-02-30"}, "step load: \"2013-02-30\" is no day");
  expect_refused({"run", "--key", "2013-01-01", "--key", "2013-01-01"}, "twice");
  expect_refused({"backfill"}, "--from");
  expect_refused({"walk"}, "walk");
  expect_refused({}, "which command?");
  EXPECT_FALSE(!box().is_postgres() && std::filesystem::exists(box().location().sqlite_path))
      << "no state was made for it";
}

TEST_P(Programs, HelpAndPicturesNeedNoState) {
  const ProgramResult help = run({"--help"});
  EXPECT_EQ(help.status, 0);
  for (const char* command : {"run", "resume", "retry", "backfill", "status", "graph", "expire", "serve", "cancel"}) {
    EXPECT_NE(help.out.find(command), std::string::npos) << command;
    EXPECT_EQ(run({command, "--help"}).status, 0) << command;
  }
  const ProgramResult text = run({"graph"});
  EXPECT_NE(text.out.find("check [day] <- load of the same key, begin"), std::string::npos) << text.out;
  const ProgramResult svg = run({"graph", "--format", "svg"});
  EXPECT_TRUE(svg.out.starts_with("<svg ")) << svg.out;
  EXPECT_NE(svg.out.find("reads ns.table"), std::string::npos);
}

}  // namespace
}  // namespace firn::orca
