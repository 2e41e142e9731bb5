// Attempts that go on after another has taken over (protocols P3, P14.2).
#include "orca/tables/world.h"

namespace firn::orca {
namespace {

using ::testing::HasSubstr;

class Zombies : public ::testing::TestWithParam<bool> {
 protected:
  Zombies() { (GetParam() ? names_.datasets.replaces : names_.datasets.writes) = {"nyc.events"}; }
  int64_t load(Attempt& attempt, const Ids& ids) {
    Table table = load_dataset("nyc.events");
    return append(attempt, table, day_rows("d1", ids));
  }
  // Runs `other` just before `attempt` publishes: it was stopped there.
  template <class Other>
  void stop_before_publish(const Other& other) {
    world_.store->before_put([other, done = std::make_shared<bool>(false)](const std::string& path) {
      if (*done || !path.ends_with(".metadata.json")) return;
      *done = true;
      other();
    });
  }

  World world_;
  StepNames names_{.datasets = {}};
  Table events_ = world_.make_table();
};
INSTANTIATE_TEST_SUITE_P(Kinds, Zombies, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Replacing" : "Appending"; });

TEST_P(Zombies, OneWhoseLeaseWasTakenOverBeforeItsCommitIsRefused) {
  Attempt zombie = world_.attempt(names_);
  find_commit(zombie, events_);
  Attempt successor = world_.attempt(names_, 2);
  EXPECT_REFUSED(load(zombie, {1}), ErrorKind::lease_lost, HasSubstr("taken over"));
  load(successor, {1});
  EXPECT_EQ(ids(events_), Ids{1});
}

TEST_P(Zombies, OneStoppedBeforeItsPublishReportsTheSuccessorsSnapshot) {
  Attempt zombie = world_.attempt(names_);
  int64_t landed = 0;
  stop_before_publish([&] {
    Attempt successor = world_.attempt(names_, 2);
    landed = load(successor, {1});
  });
  EXPECT_EQ(load(zombie, {1}), landed);
  EXPECT_EQ(ids(events_), Ids{1});
  EXPECT_EQ(num_snapshots(events_), 1u);
}

TEST_P(Zombies, OneThatLandsAfterTheTakeoverIsTheSuccessorsCommit) {
  Attempt zombie = world_.attempt(names_);
  stop_before_publish([&] { world_.kept(names_).current_attempt = 2; });  // taken over, nothing committed yet
  const int64_t landed = load(zombie, {1});
  Attempt successor = world_.attempt(names_, 2);
  EXPECT_EQ(load(successor, {1}), landed);
  EXPECT_EQ(ids(events_), Ids{1});
}

TEST_P(Zombies, OneWhoseLeaseWasLostJustAfterItWasLookedAtIsRefusedByTheTable) {  // P14.2
  Attempt zombie = world_.attempt(names_);
  zombie.record->always_leased = true;
  load(zombie, {1});
  Attempt successor = world_.attempt(names_, 2);
  load(successor, {1});
  load(successor, {2});  // its second commit,
  zombie.ctx->count_commit(events_.location());
  EXPECT_REFUSED(load(zombie, {3}), ErrorKind::lease_lost, HasSubstr("attempt 2"));  // and the zombie is at its third
  EXPECT_EQ(ids(events_), (Ids{1, 2}));
}

TEST_P(Zombies, TheLeaseIsLookedAtOnEachTry) {  // P14.2
  Attempt attempt = world_.attempt(names_);
  stop_before_publish([&] {
    World::append_by_other(events_, day_rows("d2", {9}));
    world_.kept(names_).current_attempt = 2;
  });
  EXPECT_REFUSED(load(attempt, {1}), ErrorKind::lease_lost, HasSubstr("taken over"));
  EXPECT_EQ(ids(events_), Ids{9});
  EXPECT_EQ(num_unnamed_files(events_), 0u);
}

TEST_P(Zombies, OneOfAnEarlierRunIsRefused) {
  Attempt zombie = world_.attempt(names_);
  find_commit(zombie, events_);
  world_.kept(names_).current_attempt = 2;  // the run was given up
  StepNames later = names_;
  later.run = "run-b";
  later.number = 2;
  Attempt next_run = world_.attempt(later);
  load(next_run, {2});
  EXPECT_REFUSED(load(zombie, {1}), ErrorKind::lease_lost, HasSubstr("taken over"));
  EXPECT_EQ(ids(events_), Ids{2});
}

TEST_P(Zombies, OneThatWakesAfterExpiryIsRefused) {
  Attempt zombie = world_.attempt(names_);
  zombie.record->always_leased = true;
  find_commit(zombie, events_);
  Attempt successor = world_.attempt(names_, 2);
  const int64_t landed = load(successor, {1});
  World::append_by_other(events_, day_rows("d2", {9}));
  iceberg::ExpireOptions options;  // the run is over, nothing holds its snapshots
  options.snapshot_ids = {landed};
  iceberg::expire_snapshots(*events_.operations(), options);
  EXPECT_REFUSED(load(zombie, {1}), ErrorKind::commit_unknown, HasSubstr("expired"));
  EXPECT_EQ(ids(events_), (Ids{1, 9}));
}

TEST_P(Zombies, OneThatIsRefusedWhileItsEarlierTryMayStillLandLeavesWhatThatNames) {  // P1.6
  iceberg::commit_metadata(*events_.operations(), [](iceberg::TableMetadata& next) {
    return iceberg::update_properties(next, {{"commit.status-check.num-retries", "0"}}, {});
  });
  Attempt zombie = world_.attempt(names_);
  world_.store->lie_once("v3.metadata.json", Lie::late);  // no answer, and it arrives later
  stop_before_publish([&] { world_.kept(names_).current_attempt = 2; });
  EXPECT_REFUSED(load(zombie, {1}), ErrorKind::commit_unknown, HasSubstr("taken over"));
  world_.store->deliver_late();
  EXPECT_EQ(ids(load_dataset("nyc.events")), Ids{1});
  Attempt successor = world_.attempt(names_, 2);
  load(successor, {1});
  EXPECT_EQ(ids(load_dataset("nyc.events")), Ids{1});
}

TEST(EarlierRuns, AZombieWithALeaseNeverRemovesALaterRunsRows) {  // P14.1
  World world;
  Table events = world.make_table();
  StepNames names;
  names.datasets = {.reads = {}, .writes = {}, .replaces = {"nyc.events"}};
  StepNames later = names;
  later.run = "run-b";
  later.number = 2;
  Attempt zombie = world.attempt(names);
  bool done = false;
  world.store->before_put([&](const std::string& path) {
    if (done || !path.ends_with(".metadata.json")) return;
    done = true;
    Attempt next_run = world.attempt(later);
    Table table = load_dataset("nyc.events");
    append(next_run, table, day_rows("d1", {2}));
  });
  EXPECT_REFUSED(append(zombie, events, day_rows("d1", {1})), ErrorKind::commit_conflict, HasSubstr("run-b"));
  EXPECT_EQ(ids(events), Ids{2});
}

}  // namespace
}  // namespace firn::orca
