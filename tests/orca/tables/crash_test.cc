// Steps killed at each durable step of each kind of commit, then retried: each row once (protocols P1, P3, P15).
#include <filesystem>

#include "base/fault_point.h"
#include "orca/tables/world.h"
#include "support/crash.h"

namespace firn::orca {
namespace {

using ::testing::Contains;

struct StepRun {
  Ctx& ctx;
  Table table;
};
using Work = std::function<void(StepRun&)>;

struct Box {
  explicit Box(const std::string& at) : path(at) {}
  std::string path;
  std::string record() const { return path + "/record.json"; }
};

class Crashes : public ::testing::TestWithParam<Crash> {
 protected:
  static StepNames names() {
    StepNames names;
    names.run = "run-b";
    names.number = 2;
    names.datasets = {.reads = {"nyc.events"}, .writes = {"nyc.events", "nyc.new"}, .replaces = {"nyc.days"}};
    return names;
  }

  // One attempt of the step, in whatever process.
  static void run_step(const Box& box, const std::string& dataset, int64_t number, const Work& work) {
    ::setenv("ORCA_WAREHOUSE", box.path.c_str(), 1);
    FileRecord record(box.record());
    const StepNames step = names();
    Ctx ctx(AttemptId{step.pipeline, step.run, step.number, step.step, "", number, "code", 1}, step.datasets, record);
    StepRun run{ctx, load_dataset(dataset)};
    work(run);
    ctx.check_result();
  }

  // `work` killed at each point, then retried as the next attempt; the head's ids must be `expected`.
  void check(const std::string& dataset, const Work& work, const Ids& expected,
             const std::vector<std::string>& points_wanted) {
    const TempFolder folder;
    const std::string original = folder / "original";
    {
      World world(original);
      Table table = world.make_table(dataset);
      StepNames earlier;
      earlier.datasets.writes = {dataset};
      Attempt step = world.attempt(earlier);
      append(step, table, day_rows("d1", {1}));
      append(step, table, day_rows("d2", {2}));
    }
    // Paths are absolute in metadata, so each try has the original's place.
    const std::string kept = folder / "kept";
    std::filesystem::rename(original, kept);
    const auto restore = [&] {
      std::filesystem::remove_all(original);
      std::filesystem::copy(kept, original, std::filesystem::copy_options::recursive);
    };
    const Box box(original);
    restore();
    const std::vector<std::string> points = fault_points_of([&] { run_step(box, dataset, 1, work); });
    for (const std::string& point : points_wanted) EXPECT_THAT(points, Contains(point));
    for (size_t i = 0; i < points.size(); ++i) {
      SCOPED_TRACE(fmt::format("killed at {}, {}", i, points[i]));
      restore();
      run_killed_at(i, GetParam(), [&] { run_step(box, dataset, 1, work); });
      run_step(box, dataset, 2, work);
      const Table table = load_dataset(dataset);
      EXPECT_EQ(ids(table), expected);
      const size_t num_first = num_snapshots(table);
      run_step(box, dataset, 3, work);  // a retry of what is done does nothing
      EXPECT_EQ(num_snapshots(table), num_first);
      if (HasFailure()) return;
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Kinds, Crashes, ::testing::Values(Crash::process, Crash::power),
                         [](const auto& info) { return info.param == Crash::process ? "Process" : "Power"; });

TEST_P(Crashes, OfAppends) {
  check("nyc.events",
        [](StepRun& run) {
          append(run.ctx, run.table, day_rows("d1", {3}));
          append(run.ctx, run.table, day_rows("d2", {4}));
        },
        {1, 2, 3, 4},
        {"orca.floor", "orca.files_written", "orca.commit", "commit.publish", "commit.hint", "orca.committed"});
}

TEST_P(Crashes, OfAppendsOfFilesWrittenBefore) {
  check("nyc.events",
        [](StepRun& run) {
          if (find_commit(run.ctx, run.table)) {
            append_files(run.ctx, run.table, {});
            return;
          }
          append_files(run.ctx, run.table, write_files(run.table, day_rows("d1", {3})));
        },
        {1, 2, 3}, {"orca.floor", "orca.commit", "orca.committed"});
}

TEST_P(Crashes, OfReplacements) {
  check("nyc.days",
        [](StepRun& run) {
          append(run.ctx, run.table, day_rows("d1", {3}));  // replaces day d1
          append(run.ctx, run.table, day_rows("d1", {4}));  // beside its own
        },
        {2, 3, 4}, {"orca.replacement_planned", "commit.filtered_manifest", "orca.committed"});
}

TEST_P(Crashes, OfReplacementsOfFilesWrittenBefore) {
  check("nyc.days", [](StepRun& run) { append_files(run.ctx, run.table, write_files(run.table, day_rows("d2", {3}))); },
        {1, 3}, {"orca.replacement_planned", "commit.filtered_manifest", "orca.committed"});
}

TEST_P(Crashes, OfACompaction) {
  check("nyc.events",
        [](StepRun& run) {
          if (find_commit(run.ctx, run.table)) {
            commit(run.ctx, run.table, "replace", {});
            return;
          }
          const TableScan rows = scan(run.ctx, run.table);
          FileChanges changes;
          for (const auto& task : rows.plan().tasks) changes.removed.push_back(task.file);
          changes.added = write_files(run.table, rows.to_batches()).files;
          commit(run.ctx, run.table, "replace", changes);
        },
        {1, 2}, {"orca.pin", "orca.floor", "orca.commit", "commit.filtered_manifest", "orca.committed"});
}

// Made, extended and given properties in one step, then written to.
TEST_P(Crashes, OfEnsureTable) {
  const Work work = [](StepRun& run) {
    Table made = ensure_table(run.ctx, "nyc.new", event_schema(), by_day());
    const Schema wider({column(1, "id", primitive(TypeId::long_)), column(2, "day", primitive(TypeId::string)),
                        column(3, "note", primitive(TypeId::string))});
    made = ensure_table(run.ctx, "nyc.new", wider, {}, {{"a", "1"}});
    append(run.ctx, made, batches_of(R"([{"id": 1, "day": "d1", "note": "n"}])", wider));
    EXPECT_EQ(rows(load_dataset("nyc.new")), Lines{R"({"id":1,"day":"d1","note":"n"})"});
  };
  check("nyc.events", work, {1, 2}, {"orca.create_table", "commit.created", "orca.evolve_table", "orca.committed"});
}

// Two runs replace the same day; the second comes in at each point that the first passes.
TEST(TwoRuns, OverTheSameDayLeaveOneRunsRowsWhereverTheyMeet) {
  const auto names_of = [](const std::string& run, int64_t number) {
    StepNames names;
    names.run = run;
    names.number = number;
    names.datasets = {.reads = {}, .writes = {}, .replaces = {"nyc.events"}};
    return names;
  };
  for (const bool earlier_first : {true, false}) {
    const StepNames first = earlier_first ? names_of("run-a", 1) : names_of("run-b", 2);
    const StepNames second = earlier_first ? names_of("run-b", 2) : names_of("run-a", 1);
    for (int at = 0, num_points = 1; at < num_points; ++at) {
      SCOPED_TRACE(fmt::format("{} in at {}", second.run, at));
      World world;
      Table events = world.make_table();
      World::append_by_other(events, day_rows("d1", {1}));
      std::optional<Error> error_first, error_second;
      const auto load = [&](const StepNames& names, int64_t id, std::optional<Error>& error) {
        Attempt step = world.attempt(names);
        Table table = load_dataset("nyc.events");
        try {
          append(step, table, day_rows("d1", {id}));
        } catch (const Error& e) {
          error = e;
        }
      };
      int passes = 0;
      set_fault_handler([&](const char*) {
        if (passes++ != at) return;
        const int before = passes;
        load(second, 20, error_second);
        passes = before;
      });
      load(first, 10, error_first);
      set_fault_handler(nullptr);
      num_points = std::max(num_points, passes);
      // Each either failed naming the other, or its rows are there, or it had ended before the other began to replace.
      const Ids left = ids(events);
      ASSERT_EQ(left.size(), 1u);
      EXPECT_FALSE(error_first && error_second);
      if (error_first) {
        EXPECT_THAT(error_first->what(), ::testing::HasSubstr(second.run));
        EXPECT_EQ(left, Ids{20});
      }
      if (error_second) {
        EXPECT_THAT(error_second->what(), ::testing::HasSubstr(first.run));
        EXPECT_EQ(left, Ids{10});
      }
      if (!earlier_first && !error_second && left == Ids{20})
        ADD_FAILURE() << "the earlier run removed a later run's rows";
    }
  }
}

}  // namespace
}  // namespace firn::orca
