// Commits of several processes on a local disk, and commits whose process or machine died (protocols P1, P3, P15; case
// 18 of the public bug reports).
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include <gtest/gtest.h>

#include "iceberg/tiny_table.h"
#include "support/crash.h"
#include "support/temp_folder.h"

namespace firn::iceberg {
namespace {

using Strings = std::vector<std::string>;

// Writes the file that it appends, as a writer does before it commits.
CommitResult append_file(const std::string& location, const std::string& name, std::optional<CommitId> id = {}) {
  const auto table = open_filesystem_table(make_local_file_io(), location);
  const std::string path = location + "/data/" + name;
  table->io()->put_if_absent(path, "rows");
  SnapshotChange commit = tiny_append(*table->load().metadata, path);
  commit.commit_id = std::move(id);
  return commit_snapshot(*table, commit);
}

// Case 18.
TEST(Processes, FourOf25AppendsEachMake100Rows) {
  const TempFolder folder;
  const std::string location = folder / "t";
  create_filesystem_table(make_local_file_io(),
                          tiny_metadata(location, {{"commit.retry.num-retries", "1000"},
                                                   {"write.metadata.previous-versions-max", "10"},
                                                   {"write.metadata.delete-after-commit.enabled", "true"},
                                                   {"commit.manifest.min-count-to-merge", "10"}}));
  constexpr int kProcesses = 4, kAppends = 25;
  std::vector<pid_t> children;
  for (int process = 0; process < kProcesses; ++process) {
    const pid_t child = fork_child();
    if (child == 0) {
      try {
        for (int i = 0; i < kAppends; ++i) append_file(location, fmt::format("p{}-{}", process, i));
        ::_exit(0);
      } catch (const std::exception& e) {
        fmt::print(stderr, "process {}: {}\n", process, e.what());
        ::_exit(1);
      }
    }
    children.push_back(child);
  }
  // A reader beside them never sees the table go back, nor a version that is not whole.
  for (int64_t seen = 0, deadline_us = steady_us() + 60'000'000; seen < 60 && steady_us() < deadline_us;) {
    const int64_t version = open_filesystem_table(make_local_file_io(), location)->load().version;
    ASSERT_GE(version, seen);
    seen = version;
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }

  const auto io = make_local_file_io();
  const auto table = open_filesystem_table(io, location);
  const Strings paths = live_paths(*table);
  EXPECT_EQ(paths.size(), 100u);
  EXPECT_EQ(std::set<std::string>(paths.begin(), paths.end()).size(), 100u);
  const LoadedTable head = table->load();
  EXPECT_EQ(head.version, 101);
  EXPECT_EQ(head.metadata->last_sequence_number, 100);
  EXPECT_EQ(head.metadata->current_snapshot()->summary.at("total-records"), "100");
  EXPECT_EQ(io->read(location + "/metadata/version-hint.text"), "101");
  std::set<std::optional<int64_t>> parents;  // one line of history
  for (const Snapshot& snapshot : head.metadata->snapshots) parents.insert(snapshot.parent_snapshot_id);
  EXPECT_EQ(parents.size(), 100u);
}

// A table with a past, so that a commit also merges manifests and prunes old versions; brought back as often as wanted.
class TableWithPast {
 public:
  TableWithPast() : location_(folder_ / "t") {
    create_filesystem_table(make_local_file_io(),
                            tiny_metadata(location_, {{"format-version", "3"},
                                                      {"write.metadata.previous-versions-max", "2"},
                                                      {"write.metadata.delete-after-commit.enabled", "true"},
                                                      {"commit.manifest.min-count-to-merge", "3"}}));
    for (int i = 0; i < 3; ++i) append_file(location_, fmt::format("past-{}", i));
    std::filesystem::copy(location_, folder_ / "past", std::filesystem::copy_options::recursive);
  }
  void bring_back() {
    std::filesystem::remove_all(location_);
    std::filesystem::copy(folder_ / "past", location_, std::filesystem::copy_options::recursive);
  }
  const std::string& location() const { return location_; }

 private:
  TempFolder folder_;
  std::string location_;
};

class Crashes : public ::testing::TestWithParam<Crash> {};

TEST_P(Crashes, ACommitThatIsDoneAgainIsOneSnapshotWhereverTheFirstDied) {
  TableWithPast past;
  const std::string& location = past.location();
  const auto commit_once = [&] { append_file(location, "new", CommitId{"firn.commit-id", "the-one", 3}); };
  const Strings points = fault_points_of(commit_once);
  ASSERT_GE(points.size(), 12u);
  EXPECT_GT(std::count(points.begin(), points.end(), "commit.merged_manifest"), 0);
  EXPECT_GT(std::count(points.begin(), points.end(), "commit.prune"), 0);

  for (size_t point = 0; point < points.size(); ++point) {
    SCOPED_TRACE(fmt::format("died at {} ({})", points[point], point));
    past.bring_back();
    run_killed_at(point, GetParam(), commit_once);
    // The table is whole before anybody repairs it.
    ASSERT_GE(live_paths(*open_filesystem_table(make_local_file_io(), location)).size(), 3u);

    ASSERT_EQ(run_in_child(commit_once), 0);
    const auto table = open_filesystem_table(make_local_file_io(), location);
    const LoadedTable head = table->load();
    EXPECT_EQ(std::count_if(head.metadata->snapshots.begin(), head.metadata->snapshots.end(),
                            [](const Snapshot& snapshot) { return snapshot.summary.contains("firn.commit-id"); }),
              1);
    Strings wanted;
    for (const char* name : {"new", "past-0", "past-1", "past-2"}) wanted.push_back(location + "/data/" + name);
    EXPECT_EQ(live_paths(*table), wanted);
    EXPECT_EQ(head.metadata->next_row_id, 4);
    for (const std::string& path : wanted) EXPECT_TRUE(table->io()->stat(path)) << path;
  }
}

TEST_P(Crashes, ACreationThatIsDoneAgainLeavesOneTable) {
  const auto create_once = [](const std::string& location) {
    if (!filesystem_table_exists(*make_local_file_io(), location)) {
      create_filesystem_table(make_local_file_io(), tiny_metadata(location));
    }
  };
  const TempFolder counting;
  const Strings points = fault_points_of([&] { create_once(counting / "w/t"); });
  ASSERT_GE(points.size(), 3u);
  for (size_t point = 0; point < points.size(); ++point) {
    SCOPED_TRACE(fmt::format("died at {} ({})", points[point], point));
    const TempFolder folder;
    run_killed_at(point, GetParam(), [&] { create_once(folder / "w/t"); });
    ASSERT_EQ(run_in_child([&] { create_once(folder / "w/t"); }), 0);
    append_file(folder / "w/t", "first");
    EXPECT_EQ(live_paths(*open_filesystem_table(make_local_file_io(), folder / "w/t")).size(), 1u);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, Crashes, ::testing::Values(Crash::process, Crash::power),
                         [](const auto& info) { return info.param == Crash::process ? "Process" : "Power"; });

}  // namespace
}  // namespace firn::iceberg
