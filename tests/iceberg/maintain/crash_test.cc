// Maintenance killed at each of its durable steps: no row is lost, and what is left behind falls to orphan removal.
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "iceberg/maintain/real_table.h"
#include "support/crash.h"
#include "support/temp_folder.h"

namespace firn::iceberg {
namespace {

using ::testing::Contains;

class MaintenanceCrash : public ::testing::TestWithParam<Crash> {
 protected:
  // Runs `work` on a copy of a table that `prepare` made, killed at each step; then the table must have the rows it had
  // (at every snapshot that is kept), `work` must run to its end, and orphan removal must leave what is named.
  static void check(const std::function<void(RealTable&)>& prepare, const std::function<void(TableOperations&)>& work,
                    const std::vector<std::string>& points_wanted) {
    const TempFolder folder;
    const std::string original = folder / "original";
    Lines rows;
    {
      RealTable table({.version = 3, .io = make_local_file_io(), .location = original});
      prepare(table);
      rows = table.lineage();
    }
    const auto open = [](const std::string& at) { return open_filesystem_table(make_local_file_io(), at); };
    const auto copy = [&](const std::string& name) {
      const std::string to = folder / name;
      std::filesystem::copy(original, to, std::filesystem::copy_options::recursive);
      return to;
    };
    const std::string counted = copy("counted");
    const std::vector<std::string> points = fault_points_of([&] { work(*open(counted)); });
    for (const std::string& point : points_wanted) EXPECT_THAT(points, Contains(point));
    for (size_t i = 0; i < points.size(); ++i) {
      SCOPED_TRACE(fmt::format("killed at {}, {}", i, points[i]));
      const std::string at = copy("t" + std::to_string(i));
      run_killed_at(i, GetParam(), [&] { work(*open(at)); });
      EXPECT_EQ(read_all(*open(at), original), rows);
      work(*open(at));  // the restart
      EXPECT_EQ(read_all(*open(at), original), rows);
      OrphanOptions orphans;
      ::usleep(10'000);  // the files' clock is coarse
      orphans.older_than_ms = now_ms() + 1;
      const auto table = open(at);
      remove_orphan_files(*table, orphans);
      EXPECT_EQ(read_all(*open(at), original), rows);
      orphans.dry_run = true;
      EXPECT_EQ(remove_orphan_files(*open(at), orphans).files.total(), 0);
      std::filesystem::remove_all(at);
      if (HasFailure()) return;
    }
  }

  // The head's rows; every other snapshot must be readable.
  static Lines read_all(TableOperations& table, const std::string&) {
    const auto base = table.load().metadata;
    Lines head;
    for (const Snapshot& snapshot : base->snapshots) {
      ScanOptions options;
      options.snapshot_id = snapshot.snapshot_id;
      options.row_lineage = true;
      options.threads = 1;
      const auto plan = std::make_shared<const ScanPlan>(plan_scan(*base, table.io(), options));
      const auto reader = read_tasks(plan, table.io(), options);
      Lines lines;
      std::shared_ptr<arrow::RecordBatch> read;
      while (reader->ReadNext(&read).ok() && read) {
        for (int64_t row = 0; row < read->num_rows(); ++row)
          append_row_json(*read, plan->projection, row, lines.emplace_back());
      }
      std::sort(lines.begin(), lines.end());
      if (snapshot.snapshot_id == base->current_snapshot_id) head = std::move(lines);
    }
    return head;
  }
};
INSTANTIATE_TEST_SUITE_P(Kinds, MaintenanceCrash, ::testing::Values(Crash::process, Crash::power),
                         [](const auto& info) { return info.param == Crash::process ? "Process" : "Power"; });

TEST_P(MaintenanceCrash, OfAnExpiryLeavesOrphansOnly) {
  check(
      [](RealTable& table) {
        table.append_ids({1, 2});
        table.delete_ids({1});
        table.commit("overwrite", table.write(RealTable::rows_of({3})), table.data_files());
        table.append_ids({4});
      },
      [](TableOperations& table) {
        ExpireOptions options;
        options.older_than_ms = now_ms() + 1;
        options.threads = 1;
        expire_snapshots(table, options);
      },
      {"expire.committed", "maintain.remove_file"});
}

TEST_P(MaintenanceCrash, OfACompactionLosesNothing) {
  check(
      [](RealTable& table) {
        table.append_ids({1, 2});
        table.append_ids({3, 4});
        table.delete_ids({1});
      },
      [](TableOperations& table) {
        CompactOptions options;
        options.min_input_files = 2;
        compact(table, options);
      },
      {"compact.written", "compact.commit", "commit.publish"});
}

TEST_P(MaintenanceCrash, OfOrphanRemovalIsDoneAgain) {
  check(
      [](RealTable& table) {
        table.append_ids({1});
        table.append_ids({2});
        table.io->put_if_absent(table.location + "/data/a.parquet", "x");
        table.io->put_if_absent(table.location + "/data/b.parquet", "x");
        ::usleep(10'000);
      },
      [](TableOperations& table) {
        OrphanOptions options;
        options.older_than_ms = now_ms() + 1;
        options.threads = 1;
        remove_orphan_files(table, options);
      },
      {"orphans.found", "maintain.remove_file"});
}

TEST_P(MaintenanceCrash, OfRewritesLosesNothing) {
  check(
      [](RealTable& table) {
        table.append_ids({1, 2});
        table.append_ids({3, 4});
        table.delete_ids({1});
      },
      [](TableOperations& table) { rewrite_manifests(table, {}); }, {"commit.rewritten_manifest"});
}

}  // namespace
}  // namespace firn::iceberg
