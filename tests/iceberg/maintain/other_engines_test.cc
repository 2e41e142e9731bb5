// Maintenance of tables that Spark and Java Iceberg wrote: their rows stay as they are.
#include <unistd.h>

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "iceberg/conformance_tables.h"
#include "iceberg/maintain/real_table.h"
#include "support/temp_folder.h"

namespace firn::iceberg {
namespace {

// Sorted JSON lines of a snapshot, or of the head; with lineage where the table has it.
Lines rows_of(TableOperations& table, std::optional<int64_t> snapshot_id = {}) {
  const auto base = table.load().metadata;
  ScanOptions options;
  options.snapshot_id = snapshot_id;
  options.row_lineage = base->format_version >= 3;
  const auto plan = std::make_shared<const ScanPlan>(plan_scan(*base, table.io(), options));
  const auto reader = read_tasks(plan, table.io(), options);
  Lines lines;
  std::shared_ptr<arrow::RecordBatch> read;
  while (reader->ReadNext(&read).ok() && read) {
    for (int64_t row = 0; row < read->num_rows(); ++row)
      append_row_json(*read, plan->projection, row, lines.emplace_back());
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

std::map<int64_t, Lines> rows_of_snapshots(TableOperations& table) {
  std::map<int64_t, Lines> rows;
  for (const Snapshot& snapshot : table.load().metadata->snapshots)
    rows[snapshot.snapshot_id] = rows_of(table, snapshot.snapshot_id);
  return rows;
}

// Does `work` and looks at what every snapshot has, if it is kept.
void check(TableOperations& table, const char* what, const std::function<void()>& work) {
  SCOPED_TRACE(what);
  const Lines head = rows_of(table);
  const std::map<int64_t, Lines> snapshots = rows_of_snapshots(table);
  work();
  EXPECT_EQ(rows_of(table), head);
  for (const auto& [id, rows] : rows_of_snapshots(table)) {
    if (const auto before = snapshots.find(id); before != snapshots.end()) {
      EXPECT_EQ(rows, before->second) << "snapshot " << id;
    }
  }
}

void maintain(TableOperations& table) {
  const bool had_ids = rows_of(table).empty() || rows_of(table)[0].find("\"_row_id\":null") == std::string::npos;
  check(table, "rewrite position deletes", [&] { rewrite_position_deletes(table, {.rewrite_all = true}); });
  CompactOptions compaction;
  compaction.rewrite_all = true;
  const auto compact_all = [&] {
    for (const CompactFailure& failure : compact(table, compaction).failures)
      throw Error(failure.kind, failure.message);
  };
  if (had_ids) {
    check(table, "compact", compact_all);
  } else {
    compact_all();  // rows get the ids that they lacked
  }
  check(table, "rewrite manifests", [&] { rewrite_manifests(table, {.rewrite_all = true}); });
  check(table, "expire", [&] {
    ExpireOptions options;
    options.older_than_ms = now_ms() + 1;
    options.clean_expired_metadata = true;
    expire_snapshots(table, options);
  });
  check(table, "remove orphans", [&] {
    ::usleep(10'000);  // the files' clock is coarse
    OrphanOptions options;
    options.older_than_ms = now_ms() + 1;
    remove_orphan_files(table, options);
  });
}

TEST(OtherEngines, TablesHaveTheirRowsAfterAllKindsOfMaintenance) {
  int num_maintained = 0;
  for (const std::filesystem::path& original : table_folders()) {
    SCOPED_TRACE(original.filename().string());
    const TempFolder folder;
    const std::string to = folder / "t";
    std::filesystem::copy(original, to, std::filesystem::copy_options::recursive);
    try {
      const auto table = open_filesystem_table(make_local_file_io(), to);
      if (table->load().metadata->format_version < 2) continue;
      maintain(*table);
      ++num_maintained;
    } catch (const Error& e) {
      // Tables of other catalogs are only read, and some files are of formats that are not.
      EXPECT_EQ(e.kind(), ErrorKind::unsupported) << e.what();
    }
  }
  EXPECT_GT(num_maintained, 10);
}

}  // namespace
}  // namespace firn::iceberg
