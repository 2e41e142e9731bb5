// Processes that are stopped within an attempt, and commit once others have gone on without them (protocols P3, P14.2).
#include "orca/keys.h"
#include "orca/programs.h"
#include "orca/state/run_state.h"
#include "orca/tables/world.h"

namespace firn::orca {
namespace {

const Words kOfDays = {"--pipeline", "days"};
constexpr const char* kReplaced = "t.days";
constexpr const char* kAppendedTo = "t.log";

// A run of one day, and the process that began it.
struct Story {
  std::string dataset, key;
  int32_t index = 0;  // of the day
  int64_t number = 0;
  std::string gate;
  std::unique_ptr<Running> zombie;
  pid_t pid = 0;  // the zombie's
};

class StoppedRunners : public ProgramTest {
 protected:
  StoppedRunners() : ProgramTest(ORCA_TEST_TABLES) {}

  void SetUp() override {
    ProgramTest::SetUp();
    if (IsSkipped()) return;
    world_.emplace(warehouse_);
    for (const char* dataset : {kReplaced, kAppendedTo}) {  // runs 1 and 2
      const ProgramResult loaded =
          run(kOfDays + Words{"run", "--from", "2013-01-01", "--to", "2013-01-12"}, of_table(dataset));
      ASSERT_EQ(loaded.status, 0) << loaded.err;
    }
  }

  Environment of_table(const std::string& dataset, const Environment& more = {}) {
    return Environment{{"ORCA_WAREHOUSE", warehouse_}, {"TEST_TABLE", dataset}} + more;
  }
  static Words backfill(const std::string& key) { return kOfDays + Words{"backfill", "--rerun", "--key", key}; }

  // A run of the next day, stopped at a fault point of its attempt; empty: before it does anything.
  Story stopped_at(const std::string& dataset, const std::string& point, const Environment& more = {}) {
    Story story{.dataset = dataset, .index = num_stories_++};
    story.key = Day::parse("2013-01-01").plus(story.index).str();
    story.gate = box().folder() / ("gate-" + story.key);
    story.zombie =
        start(backfill(story.key),
              of_table(dataset, {{"TEST_HOLD", story.key}, {"TEST_HOLD_AT", point}, {"TEST_GATE", story.gate}}) + more);
    story.pid = story.zombie->pid();
    EXPECT_TRUE(eventually([&] { return has_told(story, point.empty() ? "begin" : "held"); })) << point;
    stop_between_transactions(*story.zombie);
    story.number = find_run(*box().open(), "days", 0).value().number;
    return story;
  }
  bool has_told(const Story& zombie, const std::string& what) {
    for (const Effect& effect : effects()) {
      if (effect.pid == zombie.pid && effect.what == what) return true;
    }
    return false;
  }
  Words resume(const Story& story) { return kOfDays + Words{"resume", std::to_string(story.number)}; }
  void open_gate(const std::string& gate) { std::ofstream(gate) << "open"; }
  int wake(Story& story) {
    story.zombie->signal(SIGCONT);
    open_gate(story.gate);
    return story.zombie->wait();
  }

  // Once its lease has ended. One commit of the run's stands.
  void take_over_and_wake(Story& story) {
    pass_a_minute();
    ASSERT_EQ(run(resume(story), of_table(story.dataset)).status, 0);
    EXPECT_EQ(wake(story), 0) << "the run is done, though not by it";
    EXPECT_EQ(commits(story).size(), 1u);
    EXPECT_EQ(left(story), expected(story));
  }

  // What the last call of an attempt came to: "committed <snapshot>", or "refused <kind>".
  std::string outcome(const std::function<bool(const Effect&)>& is_meant) {
    std::string outcome;
    for (const Effect& effect : effects()) {
      if (!is_meant(effect)) continue;
      if (effect.what == "committed" || effect.what == "refused") outcome = effect.what + " " + effect.detail;
    }
    return outcome;
  }
  std::string zombies_outcome(const Story& story) {
    return outcome([&](const Effect& effect) { return effect.pid == story.pid; });
  }
  std::string successors_outcome(const Story& story) {
    return outcome([&](const Effect& effect) { return effect.key == story.key && effect.attempt == 2; });
  }

  // The snapshots that the story's run committed.
  static std::vector<int64_t> commits(const Story& story) {
    std::vector<int64_t> found;
    const Table table = load_dataset(story.dataset);
    for (const iceberg::Snapshot& snapshot : table.metadata().snapshots) {
      if (snapshot.summary.at("orca.run-number") == std::to_string(story.number)) found.push_back(snapshot.snapshot_id);
    }
    return found;
  }
  static Ids left(const Story& story) { return ids(load_dataset(story.dataset), story.key); }
  static Ids rows_of_run(int64_t number, const Story& story) {
    return {1'000 * number + 10 * story.index, 1'000 * number + 10 * story.index + 1};
  }
  static Ids rows_of_runs(int64_t one, int64_t two, const Story& story) {
    Ids ids = rows_of_run(one, story);
    for (const int64_t id : rows_of_run(two, story)) ids.push_back(id);
    return ids;
  }
  static Ids expected(const Story& story) {
    return story.dataset == kReplaced ? rows_of_run(story.number, story) : rows_of_runs(2, story.number, story);
  }

 private:
  const TempFolder folder_;
  const std::string warehouse_ = folder_ / "warehouse";
  std::optional<World> world_;
  int32_t num_stories_ = 0;
};
ORCA_ON_BOTH(StoppedRunners);

TEST_P(StoppedRunners, BeforeTheirCommitReportTheSuccessorsSnapshotOrAreRefused) {
  struct Stop {
    const char* point;
    bool finds_the_commit;  // else the lease is looked at first
  };
  std::vector<std::pair<Stop, Story>> stories;
  for (const char* dataset : {kReplaced, kAppendedTo}) {
    for (const Stop& stop : {Stop{"", false}, Stop{"orca.floor", false}, Stop{"orca.files_written", true},
                             Stop{"orca.commit", true}, Stop{"commit.publish", true}}) {
      stories.emplace_back(stop, stopped_at(dataset, stop.point));
    }
  }
  pass_a_minute();
  for (const auto& [stop, story] : stories) {
    EXPECT_EQ(run(resume(story), of_table(story.dataset)).status, 0) << "taken over once the lease ended";
  }
  for (auto& [stop, story] : stories) {
    SCOPED_TRACE(fmt::format("{} at '{}'", story.dataset, stop.point));
    ASSERT_EQ(commits(story).size(), 1u);
    EXPECT_EQ(wake(story), 0) << "the run is done, though not by it";
    const std::string landed = fmt::format("committed {}", commits(story).front());
    EXPECT_EQ(successors_outcome(story), landed);
    EXPECT_EQ(zombies_outcome(story), stop.finds_the_commit ? landed : "refused lease_lost");
    EXPECT_EQ(commits(story).size(), 1u);
    EXPECT_EQ(left(story), expected(story));
  }
  for (const char* dataset : {kReplaced, kAppendedTo}) EXPECT_EQ(num_unnamed_files(load_dataset(dataset)), 0u);
}

TEST_P(StoppedRunners, WhoseCommitLandsAfterTheTakeoverHaveMadeTheSuccessorsCommit) {
  Story story = stopped_at(kReplaced, "commit.publish");
  pass_a_minute();
  const std::string gate = box().folder() / "successor";
  const auto successor = start(resume(story), of_table(kReplaced, {{"TEST_HOLD", story.key}, {"TEST_GATE", gate}}));
  ASSERT_TRUE(eventually([&] { return has_begun("load", story.key, 2); }));
  story.zombie->signal(SIGCONT);
  open_gate(story.gate);
  ASSERT_TRUE(eventually([&] { return !zombies_outcome(story).empty(); }));
  open_gate(gate);
  EXPECT_EQ(successor->wait(), 0);
  EXPECT_EQ(story.zombie->wait(), 0);
  ASSERT_EQ(commits(story).size(), 1u);
  EXPECT_EQ(snapshot(load_dataset(kReplaced), commits(story).front()).summary.at("orca.attempt"), "1");
  EXPECT_EQ(zombies_outcome(story), fmt::format("committed {}", commits(story).front()));
  EXPECT_EQ(successors_outcome(story), zombies_outcome(story));
  EXPECT_EQ(left(story), expected(story));
}

TEST_P(StoppedRunners, OfAnEarlierRunRemoveNothingOfALaterRuns) {
  Story story = stopped_at(kReplaced, "commit.publish");
  pass_a_minute();
  ASSERT_EQ(run(backfill(story.key), of_table(kReplaced)).status, 0);
  EXPECT_EQ(wake(story), 1);
  // Nobody took over, so it may try again: the later run's rows stand in its way.
  EXPECT_EQ(zombies_outcome(story), "refused commit_conflict");
  const Json failure = status(std::to_string(story.number), kOfDays)["failures"][0];
  EXPECT_THAT(failure["error"]["message"].get<std::string>(),
              ::testing::HasSubstr(find_run(*box().open(), "days", story.number + 1).value().id));
  EXPECT_THAT(run(resume(story), of_table(kReplaced)).err, ::testing::HasSubstr("no retry mends it"));
  EXPECT_EQ(commits(story).size(), 0u);
  EXPECT_EQ(left(story), rows_of_run(story.number + 1, story));
}

TEST_P(StoppedRunners, OfACancelledRunAppendNothing) {
  Story story = stopped_at(kAppendedTo, "orca.commit");
  pass_a_minute();
  ASSERT_EQ(run(kOfDays + Words{"cancel", std::to_string(story.number)}).status, 0);
  ASSERT_EQ(run(backfill(story.key), of_table(kAppendedTo)).status, 0);
  EXPECT_EQ(wake(story), 1);
  EXPECT_EQ(zombies_outcome(story), "refused lease_lost");
  EXPECT_EQ(commits(story).size(), 0u);
  EXPECT_EQ(left(story), rows_of_runs(2, story.number + 1, story));
}

TEST_P(StoppedRunners, ThatWakeAfterExpiryAreRefused) {
  Story story = stopped_at(kAppendedTo, "commit.publish");
  pass_a_minute();
  ASSERT_EQ(run(resume(story), of_table(kAppendedTo)).status, 0);
  ASSERT_EQ(commits(story).size(), 1u);
  ASSERT_EQ(run(backfill("2013-01-12"), of_table(kAppendedTo)).status, 0);  // the head is another's
  // Forty days on, all but the head of each table goes.
  const Environment later = {{"FIRN_CLOCK_OFFSET_MS", std::to_string(40 * DAY_MS)}};
  const ProgramResult expired = run({"expire"}, of_table(kAppendedTo) + later);
  ASSERT_EQ(expired.status, 0) << expired.err;
  ASSERT_EQ(num_snapshots(load_dataset(kAppendedTo)), 1u);
  EXPECT_EQ(wake(story), 0) << "the run is done, though not by it";
  EXPECT_EQ(zombies_outcome(story), "refused commit_unknown");
  EXPECT_EQ(left(story), expected(story));
}

TEST_P(StoppedRunners, WhoseCommitsDifferInKindAreToldSo) {
  Story story = stopped_at(kAppendedTo, "commit.publish", {{"TEST_CALL", "commit"}});
  take_over_and_wake(story);
  EXPECT_EQ(zombies_outcome(story), "refused step_not_deterministic");
}

TEST_P(StoppedRunners, WithMoreCommitsThanTheirSuccessorMakeNoMore) {
  Story story = stopped_at(kAppendedTo, "commit.publish", {{"TEST_COMMITS", "2"}});
  take_over_and_wake(story);
  EXPECT_EQ(zombies_outcome(story), "refused lease_lost") << "the first was the successor's; the second is nobody's";
}

TEST_P(StoppedRunners, WithMoreCommitsThanTheirSuccessorFailItWhereTheyLanded) {
  const std::string key = "2013-01-01";
  EXPECT_EQ(run(backfill(key), of_table(kAppendedTo, {{"TEST_COMMITS", "2"}, {"TEST_DIE", "1"}})).status,
            128 + SIGKILL);
  EXPECT_EQ(run(kOfDays + Words{"resume"}, of_table(kAppendedTo)).status, 1);
  const Json failed = status("3", kOfDays);
  EXPECT_EQ(failed["failures"][0]["error"]["kind"], "step_not_deterministic") << failed.dump(2);
  EXPECT_THAT(failed["failures"][0]["error"]["message"].get<std::string>(), ::testing::HasSubstr("2 times"));
}

}  // namespace
}  // namespace firn::orca
