// Any history of changes and maintenance: what a snapshot has is what it had when it was made, as long as it is kept.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "iceberg/maintain/real_table.h"
#include "support/test_seed.h"

namespace firn::iceberg {
namespace {

using Ids = std::vector<int64_t>;

class History {
 public:
  History(int version, uint64_t seed)
      : random_(seed),
        table_({.version = version,
                .partition = {{"p"}},
                .properties = {{"commit.manifest.min-count-to-merge", "4"},
                               {"write.metadata.previous-versions-max", "5"},
                               {"write.delete.granularity", seed % 2 == 0 ? "file" : "partition"}}}) {}

  RealTable& table() { return table_; }

  void run(int steps) {
    append("main");
    for (int step = 0; step < steps; ++step) {
      const std::string what = do_something();
      SCOPED_TRACE(fmt::format("step {}: {}", step, what));
      note_new_snapshots();
      check_kept_snapshots();
      if (::testing::Test::HasFailure()) return;
    }
  }

  void remove_orphans_and_check() {
    OrphanOptions options;
    options.older_than_ms = now_ms() + 1;
    remove_orphan_files(table_.ops(), options);
    EXPECT_EQ(table_.files(), table_.named_paths());
    check_kept_snapshots();
  }

 private:
  size_t below(size_t bound) { return random_() % bound; }
  std::string any_branch() {
    std::vector<std::string> names;
    for (const auto& [name, ref] : table_.metadata()->refs) {
      if (ref.is_branch) names.push_back(name);
    }
    return names[below(names.size())];
  }
  int64_t any_snapshot() {
    const Ids ids = table_.snapshot_ids();
    return ids[below(ids.size())];
  }
  std::string any_partition() { return std::string(1, static_cast<char>('a' + below(3))); }

  std::string append(const std::string& branch) {
    Ids ids;
    for (size_t i = 0; i < 1 + below(4); ++i) ids.push_back(next_id_++);
    table_.append_ids(ids, any_partition(), branch);
    return "append to " + branch;
  }

  std::string overwrite(const std::string& branch) {
    const std::vector<DataFile> files = table_.data_files(branch);
    if (files.empty()) return append(branch);
    table_.commit("overwrite", table_.write(RealTable::rows_of({next_id_++}, any_partition())),
                  {files[below(files.size())]}, branch);
    return "overwrite in " + branch;
  }

  std::string add_removed_file_again(const std::string& branch) {
    if (removed_.empty()) return remove_file(branch);
    const DataFile file = removed_[below(removed_.size())];
    for (const DataFile& live : table_.data_files(branch)) {
      if (live.file_path == file.file_path) return "nothing";
    }
    if (!table_.exists(file.file_path)) return "nothing";
    table_.commit("append", {file}, {}, branch);
    return "add a file again";
  }

  std::string remove_file(const std::string& branch) {
    const std::vector<DataFile> files = table_.data_files(branch);
    if (files.size() < 2) return append(branch);
    removed_.push_back(files[below(files.size())]);
    table_.commit("delete", {}, {removed_.back()}, branch);
    return "remove a file from " + branch;
  }

  std::string delete_rows(const std::string& branch) {
    const std::vector<DataFile> files = table_.data_files(branch);
    if (files.empty()) return append(branch);
    if (below(2) == 0) {
      const DataFile& file = files[below(files.size())];
      table_.delete_positions({{file.file_path, {static_cast<int64_t>(below(file.record_count))}}}, branch);
      return "delete by position in " + branch;
    }
    table_.delete_ids({static_cast<int64_t>(below(next_id_))}, any_partition(), branch);
    return "delete by id in " + branch;
  }

  std::string change_refs() {
    const std::string name = "r" + std::to_string(below(3));
    const int64_t snapshot = any_snapshot();
    const auto& refs = table_.metadata()->refs;
    switch (below(4)) {
      case 0:
        if (refs.contains(name)) return "nothing";
        table_.change([&](TableMetadata& next) { return set_branch(next, name, {.snapshot_id = snapshot}, now_ms()); });
        return "branch " + name;
      case 1:
        if (refs.contains(name)) return "nothing";
        table_.change([&](TableMetadata& next) { return set_tag(next, name, {.snapshot_id = snapshot}, now_ms()); });
        return "tag " + name;
      case 2:
        table_.change([&](TableMetadata& next) { return remove_ref(next, name); });
        return "remove " + name;
      default:
        table_.change([&](TableMetadata& next) { return set_current_snapshot(next, snapshot, now_ms()); });
        return "roll main to another snapshot";
    }
  }

  std::string maintain() {
    switch (below(5)) {
      case 0: {
        CompactOptions options;
        options.min_input_files = 2;
        options.branch = any_branch();
        options.commits_max = static_cast<int32_t>(below(3));
        options.rewrite_all = below(4) == 0;
        if (below(2) == 0) {
          options.strategy = CompactStrategy::sort;
          options.sort_order =
              SortOrder{.fields = {{.transform = Transform::parse("identity"), .source_ids = {1}, .ascending = false}}};
        }
        const Lines before = rows_of_branch(options.branch);
        for (const CompactFailure& failure : compact(table_.ops(), options).failures) ADD_FAILURE() << failure.message;
        EXPECT_EQ(rows_of_branch(options.branch), before);
        return "compact " + options.branch;
      }
      case 1: {
        RewriteManifestsOptions options;
        options.branch = any_branch();
        options.rewrite_all = below(2) == 0;
        const Lines before = rows_of_branch(options.branch);
        rewrite_manifests(table_.ops(), options);
        EXPECT_EQ(rows_of_branch(options.branch), before);
        return "rewrite manifests of " + options.branch;
      }
      case 2: {
        RewritePositionDeletesOptions options;
        options.branch = any_branch();
        options.rewrite_all = below(2) == 0;
        const Lines before = rows_of_branch(options.branch);
        rewrite_position_deletes(table_.ops(), options);
        EXPECT_EQ(rows_of_branch(options.branch), before);
        return "rewrite position deletes of " + options.branch;
      }
      default:
        return expire();
    }
  }

  std::string expire() {
    ExpireOptions options;
    const Ids ids = table_.snapshot_ids();
    if (below(3) == 0) {
      std::set<int64_t> heads;
      for (const auto& [name, ref] : table_.metadata()->refs) heads.insert(ref.snapshot_id);
      const int64_t id = any_snapshot();
      if (heads.contains(id)) return "nothing";
      options.snapshot_ids = {id};
    } else {
      options.older_than_ms = now_ms() + 1;
      options.retain_last = static_cast<int32_t>(1 + below(4));
      if (below(2) == 0) options.keep = {any_snapshot()};
    }
    options.clean_expired_metadata = below(2) == 0;
    expire_snapshots(table_.ops(), options);
    return fmt::format("expire, {} snapshots to {}", ids.size(), table_.snapshot_ids().size());
  }

  std::string do_something() {
    const std::string branch = any_branch();
    switch (below(12)) {
      case 0:
      case 1:
      case 2:
        return append(branch);
      case 3:
        return overwrite(branch);
      case 4:
        return remove_file(branch);
      case 5:
        return add_removed_file_again(branch);
      case 6:
      case 7:
        return delete_rows(branch);
      case 8:
        return change_refs();
      default:
        return maintain();
    }
  }

  Lines rows_of_branch(const std::string& branch) {
    ScanOptions options;
    options.ref = branch;
    options.row_lineage = true;
    return table_.rows(options);
  }

  void note_new_snapshots() {
    for (const int64_t id : table_.snapshot_ids()) {
      if (!rows_.contains(id)) rows_[id] = table_.rows_at(id, true);
    }
  }

  void check_kept_snapshots() {
    for (const int64_t id : table_.snapshot_ids()) EXPECT_EQ(table_.rows_at(id, true), rows_.at(id)) << id;
  }

  std::mt19937_64 random_;
  RealTable table_;
  int64_t next_id_ = 1;
  std::vector<DataFile> removed_;
  std::map<int64_t, Lines> rows_;  // by snapshot
};

class Histories : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Versions, Histories, ::testing::Values(2, 3), ::testing::PrintToStringParamName());

TEST_P(Histories, EveryKeptSnapshotReadsAsItDidAndOrphanRemovalLeavesWhatIsNamed) {
  for (int round = 0; round < 3; ++round) {
    const uint64_t seed = test_seed() + static_cast<uint64_t>(round);
    SCOPED_TRACE(fmt::format("FIRN_TEST_SEED={}, round {}", test_seed(), round));
    History history(GetParam(), seed);
    history.run(30);
    if (HasFailure()) return;
    history.remove_orphans_and_check();
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace firn::iceberg
