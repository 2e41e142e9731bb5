// Backfills that replace the same days at once, each by several processes (orca-tables.md, "Replacing partitions";
// protocols P14.1).
#include <algorithm>
#include <filesystem>
#include <set>

#include "orca/keys.h"
#include "orca/programs.h"
#include "orca/tables/world.h"

namespace firn::orca {
namespace {

const Words kOfDays = {"--pipeline", "days"};
constexpr int kProcesses = 4;  // a run
constexpr int32_t kDays = 10;  // a run

// Days since the year began. The second run begins two days later than the first.
std::string day(int32_t index) { return Day::parse("2013-01-01").plus(index).str(); }
struct Range {
  int32_t first = 0, last = 0;
  bool has(int32_t index) const { return index >= first && index <= last; }
};

class Backfills : public ProgramTest {
 protected:
  Backfills() : ProgramTest(ORCA_TEST_TABLES) {}

  Environment with_tables(const Environment& more = {}) {
    return Environment{{"ORCA_WAREHOUSE", warehouse_}, {"TEST_COMMITS", "2"}} + more;
  }
  Words backfill(const Range& range) {
    return kOfDays +
           Words{"backfill", "--rerun", "--from", day(range.first), "--to", day(range.last), "--parallel", "1"};
  }
  Ids rows_of_run(int64_t number, int32_t index) {
    Ids ids;
    for (int64_t i = 0; i < 4; ++i) ids.push_back(1'000 * number + 10 * index + i);
    return ids;
  }

  // What the run says of a day's load: empty where it is done, else the error.
  static std::string failure_of(const Json& run, int32_t index) {
    for (const Json& failure : run["failures"]) {
      if (failure["key"] == day(index)) return failure["error"]["message"];
    }
    return "";
  }

  // Sequence numbers of the run's commits to the table: of a day, or of any.
  static std::vector<int64_t> commits_of(const Table& table, const std::string& run, const std::string& day = "") {
    std::vector<int64_t> sequences;
    for (const iceberg::Snapshot& snapshot : table.metadata().snapshots) {
      const auto& summary = snapshot.summary;
      if (summary.at("orca.run") != run || (!day.empty() && summary.at("orca.partition") != day)) continue;
      sequences.push_back(snapshot.sequence_number);
    }
    std::sort(sequences.begin(), sequences.end());
    return sequences;
  }

  // Both runs by all of their processes, none of which goes on before each holds an attempt.
  void run_both(const Range& one, const Range& two, const std::string& first_number) {
    const Environment held = with_tables({{"TEST_HOLD", "all"}});
    std::vector<std::unique_ptr<Running>> processes;
    const auto wait_for_all = [&] {
      ASSERT_TRUE(eventually([&] {
        std::set<int64_t> pids;
        for (const Effect& effect : effects()) pids.insert(effect.pid);
        return std::all_of(processes.begin(), processes.end(),
                           [&](const auto& process) { return pids.contains(process->pid()); });
      }));
    };
    for (const Range& range : {one, two}) {  // the first of the two has the lower number
      processes.push_back(start(backfill(range), held));
      wait_for_all();
    }
    const std::string numbers[] = {first_number, std::to_string(std::stoi(first_number) + 1)};
    for (int i = 1; i < kProcesses; ++i) {
      for (const std::string& number : numbers) {
        processes.push_back(start(kOfDays + Words{"resume", number, "--parallel", "1"}, held));
      }
    }
    wait_for_all();
    open_gate();
    for (const auto& process : processes) {
      const int ended = process->wait();
      EXPECT_TRUE(ended == 0 || ended == 1) << ended;  // done, or failed
    }
    std::filesystem::remove(box().folder() / "gate");
  }

  const TempFolder folder_;
  const std::string warehouse_ = folder_ / "warehouse";
};
ORCA_ON_BOTH(Backfills);

TEST_P(Backfills, OfTheSameDaysByEightProcessesLeaveOneRunsRowsADay) {
  const World world(warehouse_);
  const Range one = {0, kDays - 1}, two = {2, kDays + 1};
  ASSERT_EQ(run(backfill({one.first, two.last}), with_tables()).status, 0);
  const int rounds = std::getenv("FIRN_LONG") != nullptr ? 10 : 1;
  for (int round = 0; round < rounds; ++round) {
    const std::string numbers[] = {std::to_string(2 + 2 * round), std::to_string(3 + 2 * round)};
    SCOPED_TRACE("runs " + numbers[0] + " and " + numbers[1]);
    run_both(one, two, numbers[0]);
    ASSERT_FALSE(HasFailure());
    const Table table = load_dataset("t.days");
    const Json runs[] = {status(numbers[0], kOfDays), status(numbers[1], kOfDays)};
    for (int32_t index = one.first; index <= two.last; ++index) {
      SCOPED_TRACE(day(index));
      const Ids left = ids(table, day(index));
      const bool is_ours[] = {left == rows_of_run(std::stoi(numbers[0]), index),
                              left == rows_of_run(std::stoi(numbers[1]), index)};
      ASSERT_NE(is_ours[0], is_ours[1]) << "one run's rows, all of them: " << ::testing::PrintToString(left);
      const Json &winner = runs[is_ours[1]], &loser = runs[is_ours[0]];
      const std::string winner_id = winner["id"], loser_id = loser["id"];
      EXPECT_EQ(failure_of(winner, index), "");
      if (!(one.has(index) && two.has(index))) continue;  // one of them alone was asked for it
      // Who lost the day failed, and says to whom; or all that it committed for it was there before the winner's first
      // commit, with which the winner began to replace.
      const std::string failure = failure_of(loser, index);
      if (failure.empty()) {
        EXPECT_LT(commits_of(table, loser_id, day(index)).back(), commits_of(table, winner_id).front());
      } else {
        EXPECT_NE(failure.find(winner_id), std::string::npos) << failure;
      }
    }
    for (const Json& run : runs) {
      EXPECT_EQ(run["status"], run["failures"].empty() ? "done" : "failed") << run.dump(2);
    }
  }
}

}  // namespace
}  // namespace firn::orca
