// Attempts of one step, and of many, in several processes at once (protocols P3, P14).
#include <random>

#include "orca/tables/world.h"
#include "support/crash.h"
#include "support/test_seed.h"

namespace firn::orca {
namespace {

const Properties kPatient = {{"commit.retry.num-retries", "1000"}};

void run_as(const std::string& root, const StepNames& names, int64_t attempt,
            const std::function<void(Ctx&, Table&)>& work) {
  ::setenv("ORCA_WAREHOUSE", root.c_str(), 1);
  FileRecord record(fmt::format("{}/{}-{}-{}.json", root, names.run, names.step, names.partition));
  Ctx ctx(AttemptId{names.pipeline, names.run, names.number, names.step, names.partition, attempt, "code", 1},
          names.datasets, record);
  Table table = load_dataset("nyc.events");
  work(ctx, table);
}

TEST(OrcaProcesses, FourAttemptsOfOneStepAtOnceLandEachCommitOnce) {
  const TempFolder folder;
  World world(folder.path());
  Table events = world.make_table("nyc.events", by_day(), kPatient);
  // None of them is told that another has taken over: the table alone keeps them apart.
  const int failed = run_in_children(4, [&](int) {
    run_as(folder.path(), {}, 1, [](Ctx& ctx, Table& table) {
      for (int64_t i = 1; i <= 6; ++i) append(ctx, table, day_rows("d1", {i}));
    });
  });
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(ids(events), (Ids{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(num_snapshots(events), 6u);
}

TEST(OrcaProcesses, FourProcessesWithStepsOfTheirOwnLoseNothing) {
  const TempFolder folder;
  World world(folder.path());
  Table events = world.make_table("nyc.events", by_day(), kPatient);
  const int failed = run_in_children(4, [&](int process) {
    StepNames names;
    names.partition = std::to_string(process);
    for (int attempt = 1; attempt <= 2; ++attempt) {  // the second recognises all of the first
      run_as(folder.path(), names, attempt, [&](Ctx& ctx, Table& table) {
        for (int64_t i = 0; i < 5; ++i) append(ctx, table, day_rows("d1", {process * 10 + i}));
      });
    }
  });
  EXPECT_EQ(failed, 0);
  Ids expected;
  for (int64_t process = 0; process < 4; ++process) {
    for (int64_t i = 0; i < 5; ++i) expected.push_back(process * 10 + i);
  }
  EXPECT_EQ(ids(events), expected);
}

TEST(OrcaProcesses, TwoRunsOfFourProcessesOverTheSameDaysLeaveOneRunsRowsADay) {
  const TempFolder folder;
  World world(folder.path());
  Table events = world.make_table("nyc.events", by_day(), kPatient);
  constexpr int kDays = 6;
  for (int day = 0; day < kDays; ++day) World::append_by_other(events, day_rows(fmt::format("d{}", day), {day}));
  const uint64_t seed = test_seed();
  const int failed = run_in_children(4, [&](int process) {
    std::mt19937_64 random(seed + static_cast<uint64_t>(process));
    StepNames names;
    names.run = process % 2 == 0 ? "run-a" : "run-b";
    names.number = process % 2 + 1;
    names.datasets = {.reads = {}, .writes = {}, .replaces = {"nyc.events"}};
    std::vector<int> days;
    for (int day = process / 2; day < kDays; day += 2) days.push_back(day);
    std::shuffle(days.begin(), days.end(), random);
    for (const int day : days) {
      names.partition = fmt::format("d{}", day);
      try {
        run_as(folder.path(), names, 1, [&](Ctx& ctx, Table& table) {
          append(ctx, table, day_rows(names.partition, {names.number * 100 + day, names.number * 100 + 50 + day}));
        });
      } catch (const Error& e) {
        if (e.kind() != ErrorKind::commit_conflict) throw;
        const std::string other = process % 2 == 0 ? "run-b" : "run-a";
        if (std::string(e.what()).find(other) == std::string::npos) throw;  // it names the winner
      }
    }
  });
  EXPECT_EQ(failed, 0);
  for (int64_t day = 0; day < kDays; ++day) {
    const Ids left = ids(events, fmt::format("d{}", day));
    const Ids of_a = {100 + day, 150 + day}, of_b = {200 + day, 250 + day};
    EXPECT_TRUE(left == of_a || left == of_b) << "day " << day << ": " << ::testing::PrintToString(left);
  }
}

}  // namespace
}  // namespace firn::orca
