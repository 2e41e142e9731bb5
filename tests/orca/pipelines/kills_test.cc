// A run over tables killed at each fault point that it passes, of the engine, its state and its commits, then resumed
// or retried: each row once, and no file of one attempt in another's commit (protocols P1, P3, P14, P15).
#include <algorithm>
#include <filesystem>
#include <random>
#include <set>

#include "orca/programs.h"
#include "orca/state/run_state.h"
#include "orca/tables/world.h"
#include "support/test_seed.h"

namespace firn::orca {
namespace {

const Words kOfTables = {"--pipeline", "tables"};
const Words kFirstRun = {"run", "--from", "2013-01-01", "--to", "2013-01-03"};
// One attempt at a time, so that each time about the same points are passed in the same order.
const Words kSecondRun = {"backfill", "--rerun", "--from", "2013-01-01", "--to", "2013-01-02", "--parallel", "1"};
const std::vector<std::string> kDatasets = {"t.days", "t.files", "t.log", "t.new", "t.sums"};

// What a kill may be, and what follows it.
enum class Way : uint8_t {
  resumed,  // the process dies; so does the first to resume the run, somewhere
  retried   // the machine loses power; when the run goes on, all that commits fails once, and is retried
};

class KilledRuns : public ProgramTest {
 protected:
  KilledRuns() : ProgramTest(ORCA_TEST_TABLES) {}

  void SetUp() override {
    ProgramTest::SetUp();
    if (IsSkipped()) return;
    world_.emplace(warehouse_);
    const ProgramResult first = run(kOfTables + kFirstRun, {{"ORCA_WAREHOUSE", warehouse_}});
    ASSERT_EQ(first.status, 0) << first.err;
    std::filesystem::rename(warehouse_, kept_);
  }

  // The second run as it is without a kill, and the points that it passes.
  std::vector<std::string> points() {
    const Again again(*this);
    const std::string log = box().folder() / "points";
    EXPECT_EQ(again.run(kSecondRun, {{"FIRN_FAULT_LOG", log}}).status, 0);
    again.expect_second_run_stands();
    return lines_of_file(log);
  }

  // Returns the point at which the run was killed; empty: it came to its end.
  std::string kill_and_go_on(size_t point, Way way, std::mt19937_64& random) {
    const Again again(*this);
    const std::string log = again.state().folder() / "points";
    const auto killed_at = [](size_t pass) { return Environment{{"FIRN_FAULT_KILL_AT", std::to_string(pass)}}; };
    Environment kill = killed_at(point) + Environment{{"FIRN_FAULT_LOG", log}};
    if (way == Way::retried) kill["FIRN_FAULT_FORGET"] = "1";
    const int ended = again.run(kSecondRun, kill).status;
    EXPECT_TRUE(ended == 137 || ended == 0) << ended;
    const std::vector<std::string> passed = lines_of_file(log);
    if (way == Way::resumed) {
      again.go_on(killed_at(1 + random() % 200));
    } else {
      again.go_on({{"TEST_FAIL", "1"}});
      if (again.status() == RunStatus::failed) {
        EXPECT_EQ(again.run({"retry"}).status, 0);
      }
    }
    again.go_on({});
    again.expect_second_run_stands();
    return ended == 137 && !passed.empty() ? passed.back() : "";
  }

 private:
  static std::vector<std::string> lines_of_file(const std::string& path) {
    std::vector<std::string> lines;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }

  // State and tables as the first run left them; metadata has absolute paths, so tables are always in the same place.
  class Again {
   public:
    explicit Again(KilledRuns& test) : test_(test), state_(test.box()) {
      std::filesystem::remove_all(test_.warehouse_);
      std::filesystem::copy(test_.kept_, test_.warehouse_, std::filesystem::copy_options::recursive);
    }
    const StateBox& state() const { return state_; }

    ProgramResult run(const Words& words, const Environment& more = {}) const {
      return run_program(test_.argv_of(kOfTables + words),
                         test_.environment(state_.environment()) +
                             Environment{{"TEST_EFFECTS", state_.folder() / "effects"},
                                         {"ORCA_WAREHOUSE", test_.warehouse_},
                                         {"TEST_WIDE", "1"}} +
                             more);
    }
    std::optional<RunStatus> status() const {  // of the second run; nullopt: it has not begun
      const auto database = state_.open();
      const std::optional<RunRow> run = find_run(*database, "tables", 2);
      return run ? std::optional(run->status) : std::nullopt;
    }
    // With the second run, from wherever it is, as far as it comes.
    void go_on(const Environment& more) const {
      const std::optional<RunStatus> now = status();
      if (now == RunStatus::done) return;
      const ProgramResult result = run(now ? Words{"resume"} : kSecondRun, more);
      if (more.empty()) {
        EXPECT_EQ(result.status, 0) << result.err;
      }
    }

    void expect_second_run_stands() const {
      ASSERT_EQ(status(), RunStatus::done);
      // The second run's days, and the one that the first alone loaded.
      EXPECT_EQ(ids_of("t.days"), (Ids{1020, 1021, 1022, 1023, 2000, 2001, 2002, 2003, 2010, 2011, 2012, 2013}));
      EXPECT_EQ(ids_of("t.files"), (Ids{1024, 1025, 2004, 2005, 2014, 2015}));
      EXPECT_EQ(ids_of("t.sums"), Ids{4 * 1020 + 6 + 8 * 2000 + 40 + 12});
      // Both runs' rows, appended.
      EXPECT_EQ(ids_of("t.log"), (Ids{1000, 1001, 1010, 1011, 1020, 1021, 2000, 2001, 2010, 2011}));
      EXPECT_EQ(ids_of("t.new"), Ids{2});
      for (const std::string& dataset : kDatasets) expect_own_commits(load_dataset(dataset));
    }

   private:
    static Ids ids_of(const std::string& dataset) { return orca::ids(load_dataset(dataset)); }

    // Each commit of the second run is there once, and what it added was written by the attempt that made it.
    static void expect_own_commits(const Table& table) {
      std::set<std::string> commits;
      const auto metadata = table.operations()->load().metadata;
      for (const iceberg::Snapshot& snapshot : metadata->snapshots) {
        const auto said = [&](const char* key) { return snapshot.summary.at(std::string("orca.") + key); };
        if (said("run-number") == "1") continue;
        const std::string commit =
            fmt::format("{}/{}/{}/{}", said("run-number"), said("step"), said("partition"), said("commit"));
        EXPECT_TRUE(commits.insert(commit).second) << table.title() << " has commit " << commit << " twice";
        std::set<std::string> added;
        for (const auto& file : iceberg::live_files(*metadata, snapshot, *table.io())) {
          if (file.snapshot_id == snapshot.snapshot_id) added.insert(file.file.file_path);
        }
        const TableScan rows(metadata, table.io(),
                             {.snapshot_id = snapshot.snapshot_id, .columns = {"writer", "_file"}},
                             snapshot.snapshot_id);
        const std::string committer =
            fmt::format("{}/{}/{}/{}", said("run-number"), said("step"), said("partition"), said("attempt"));
        for (const std::string& line : orca::lines_of(rows)) {
          const Json row = parse_json(line, "row");
          if (!added.contains(row["_file"])) continue;
          EXPECT_EQ(row["writer"], committer) << table.title() << ", snapshot " << snapshot.snapshot_id;
        }
      }
    }

    KilledRuns& test_;
    StateBox state_;
  };

  const TempFolder folder_;
  const std::string warehouse_ = folder_ / "warehouse", kept_ = folder_ / "kept";
  std::optional<World> world_;
};
ORCA_ON_BOTH(KilledRuns);

TEST_P(KilledRuns, HaveEachRowOnceWhereverTheyWereKilled) {
  const std::vector<std::string> points = this->points();
  const std::set<std::string> names(points.begin(), points.end());
  // Of the engine and its state; of each kind of commit; of what is durable below them.
  for (const char* name : {"orca.run.commit",
                           "orca.turn.commit",
                           "orca.turn.committed",
                           "orca.keys.commit",
                           "orca.pin.commit",
                           "orca.floor.commit",
                           "orca.lease.commit",
                           "orca.inputs.commit",
                           "orca.leave.commit",
                           "orca.attempt.start",
                           "orca.floor",
                           "orca.pin",
                           "orca.create_table",
                           "orca.evolve_table",
                           "orca.files_written",
                           "orca.replacement_planned",
                           "orca.commit",
                           "orca.committed",
                           "commit.create",
                           "commit.publish",
                           "commit.published",
                           "commit.hint",
                           "commit.filtered_manifest",
                           "commit.done"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
  ASSERT_FALSE(HasFailure());
  // All of them in a long run; else some, each of another name.
  const bool is_long = std::getenv("FIRN_LONG") != nullptr;
  std::mt19937_64 random(test_seed());
  std::vector<size_t> chosen(points.size() + 8);  // threads do not pass the same number of points each time
  for (size_t i = 0; i < chosen.size(); ++i) chosen[i] = i + 1;
  if (!is_long) {
    std::shuffle(chosen.begin(), chosen.end(), random);
    std::set<std::string> seen;
    std::erase_if(chosen,
                  [&](size_t point) { return point > points.size() || !seen.insert(points[point - 1]).second; });
    chosen.resize(box().is_postgres() ? 6 : 12);
  }
  std::set<std::string> killed_at;
  for (const size_t point : chosen) {
    for (const Way way : {Way::resumed, Way::retried}) {
      // What a power cut does to tables is the same whatever database holds the state.
      if ((!is_long || box().is_postgres()) && way != static_cast<Way>(point % 2)) continue;
      SCOPED_TRACE(fmt::format("{} at pass {}, about {}", way == Way::resumed ? "killed" : "power cut", point,
                               point <= points.size() ? points[point - 1] : "the end"));
      killed_at.insert(kill_and_go_on(point, way, random));
      if (HasFailure()) return;
    }
  }
  if (is_long) {
    killed_at.erase("");
    EXPECT_EQ(killed_at, names);
  }
}

}  // namespace
}  // namespace firn::orca
