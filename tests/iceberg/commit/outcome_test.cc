// The commit loop over other writers and a store that lies (protocols P1.6, P1.7, P2, P3; case 12 of the public bug
// reports).
#include <sys/resource.h>

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/fault_point.h"
#include "iceberg/tiny_table.h"
#include "support/fake_store.h"
#include "support/temp_folder.h"

namespace firn::iceberg {
namespace {

using Strings = std::vector<std::string>;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kLocation = "mem://w/t";

template <class Work>
ErrorKind kind_of(const Work& work) {
  try {
    work();
  } catch (const Error& e) {
    return e.kind();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorKind::internal;
}

Schema with_column(const Schema& schema, const std::string& name, TypeId type) {
  std::vector<Field> fields = schema.fields();
  fields.push_back(Field{.id = 900, .name = name, .required = false, .type = Type::primitive(type)});
  return Schema(std::move(fields));
}

class Outcome : public ::testing::Test {
 protected:
  void SetUp() override { make({}); }
  void make(std::map<std::string, std::string> properties) {
    for (const std::string& path : store->paths()) store->remove(path);
    create_filesystem_table(store, tiny_metadata(kLocation, std::move(properties)));
    table = open_filesystem_table(store, kLocation);
  }
  SnapshotChange append_of(const std::string& path) { return tiny_append(*table->load().metadata, path); }
  // A commit by another process, which sees none of the lies meant for ours.
  void append_elsewhere(const std::string& path) {
    const auto other = open_filesystem_table(store, kLocation);
    commit_snapshot(*other, tiny_append(*other->load().metadata, path));
  }
  // Runs `work` just before the first try of the next commit is published.
  void before_publishing(std::function<void()> work) {
    store->before_put([this, work = std::move(work)](const std::string& path) {
      if (!path.ends_with(".metadata.json")) return;
      const auto run = work;  // the hook goes away with the next line
      store->before_put(nullptr);
      run();
    });
  }
  Strings files_like(const std::string& part) {
    Strings found;
    for (const std::string& path : store->paths()) {
      if (path.find(part) != std::string::npos) found.push_back(path);
    }
    return found;
  }
  size_t num_snapshots() { return open_filesystem_table(store, kLocation)->load().metadata->snapshots.size(); }

  std::shared_ptr<FakeStore> store = std::make_shared<FakeStore>();
  std::shared_ptr<TableOperations> table;
};

TEST_F(Outcome, ALostTryIsStagedAgainWithTheSameManifests) {
  int tries = 0;
  set_fault_handler([&](const char* name) {
    if (std::string(name) != "commit.publish" || ++tries % 2 == 0) return;  // every other is the other writer's
    if (tries <= 5) append_elsewhere("other" + std::to_string(tries));
  });
  const CommitResult result = commit_snapshot(*table, append_of("ours"));
  set_fault_handler(nullptr);
  EXPECT_FALSE(result.recognised);
  EXPECT_EQ(live_paths(*table), (Strings{"other1", "other3", "other5", "ours"}));
  EXPECT_EQ(num_snapshots(), 4u);
  EXPECT_EQ(files_like("-m0.avro").size(), 4u);  // one manifest a commit
  EXPECT_EQ(files_like("/snap-").size(), 4u);    // lists of lost tries are gone
}

TEST_F(Outcome, WhenRetriesRunOutNothingStaysBehind) {
  make({{"commit.retry.num-retries", "2"}});
  int other = 0, depth = 0;
  store->before_put([&](const std::string& path) {
    if (!path.ends_with(".metadata.json") || depth > 0) return;
    ++depth;
    append_elsewhere(std::to_string(other++));
    --depth;
  });
  EXPECT_EQ(kind_of([&] { commit_snapshot(*table, append_of("ours")); }), ErrorKind::commit_conflict);
  store->before_put(nullptr);
  EXPECT_EQ(other, 3);
  EXPECT_EQ(live_paths(*table), (Strings{"0", "1", "2"}));
  EXPECT_EQ(files_like(".avro").size(), 6u);
}

TEST_F(Outcome, ACommitWhoseAnswerWasLostIsOneSnapshotWithOneEntry) {
  for (const Lie lie : {Lie::applied, Lie::twice, Lie::lost, Lie::late}) {
    SCOPED_TRACE(static_cast<int>(lie));
    make({});
    store->lie_once("v2.metadata.json", lie);
    const CommitResult result = commit_snapshot(*table, append_of("ours"));
    store->deliver_late();
    EXPECT_EQ(num_snapshots(), 1u);
    EXPECT_EQ(live_paths(*table), Strings{"ours"});
    EXPECT_EQ(table->load().metadata->current_snapshot_id, result.snapshot_id);
  }
}

TEST_F(Outcome, WithoutAnAnswerNothingIsDeletedAndALatePutIsFoundByItsId) {
  make({{"commit.retry.num-retries", "1"}, {"commit.status-check.num-retries", "1"}});
  for (int i = 0; i < 4; ++i) store->lie_once("v2.metadata.json", Lie::late);
  SnapshotChange commit = append_of("ours");
  commit.commit_id = CommitId{"firn.commit-id", "one", 0};
  EXPECT_EQ(kind_of([&] { commit_snapshot(*table, commit); }), ErrorKind::commit_unknown);
  EXPECT_FALSE(files_like("-m0.avro").empty());
  EXPECT_FALSE(files_like("/snap-").empty());

  store->deliver_late();
  const CommitResult again = commit_snapshot(*table, commit);
  EXPECT_TRUE(again.recognised);
  EXPECT_EQ(num_snapshots(), 1u);
  EXPECT_EQ(live_paths(*table), Strings{"ours"});
  EXPECT_EQ(table->load().metadata->current_snapshot_id, again.snapshot_id);
}

// Files of this process end at `size_bytes`, as on a disk that has no more room.
class FullDisk {
 public:
  explicit FullDisk(rlim_t size_bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{size_bytes, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  void (*handler_)(int);
  rlimit before_{};
};

TEST(FullDisk, AVersionThatCannotBeWrittenIsAFailureAtOnceAndNothingIsLeft) {
  const TempFolder folder;
  const std::string location = folder / "t";
  const auto io = make_local_file_io();
  const TableMetadata metadata = tiny_metadata(location, {{"note", std::string(200'000, 'x')}});
  {
    const FullDisk disk(100'000);
    EXPECT_EQ(kind_of([&] { create_filesystem_table(io, metadata); }), ErrorKind::io);
  }
  create_filesystem_table(io, metadata);
  const auto table = open_filesystem_table(io, location);
  {
    const FullDisk disk(100'000);  // room for the manifests
    EXPECT_EQ(kind_of([&] { commit_snapshot(*table, tiny_append(*table->load().metadata, "ours")); }), ErrorKind::io);
  }
  for (const FileInfo& file : io->list(location, true)) EXPECT_THAT(file.path, Not(HasSubstr(".avro")));
  commit_snapshot(*table, tiny_append(*table->load().metadata, "ours"));
  EXPECT_EQ(live_paths(*table), Strings{"ours"});
}

TEST_F(Outcome, ATryAfterAnUnknownOneRecognisesItsOwnLateSnapshot) {
  make({{"commit.status-check.num-retries", "0"}});
  store->lie_once("v2.metadata.json", Lie::late);
  int puts = 0;
  store->before_put([&](const std::string& path) {
    if (path.ends_with("v2.metadata.json") && ++puts == 2) store->deliver_late();
  });
  const CommitResult result = commit_snapshot(*table, append_of("ours"));
  EXPECT_EQ(puts, 2);
  EXPECT_FALSE(result.recognised);
  EXPECT_EQ(num_snapshots(), 1u);
  EXPECT_EQ(live_paths(*table), Strings{"ours"});
  EXPECT_EQ(files_like("-m0.avro").size(), 1u);
}

// P1.6: after a try without an answer others commit before ours can look. Tried again on their head, its rows might be
// there twice, unless their history proves it lost.
class Overtaken : public Outcome {
 protected:
  void SetUp() override {
    make({{"commit.status-check.num-retries", "0"},
          {"write.metadata.previous-versions-max", "1"},
          {"write.metadata.delete-after-commit.enabled", "true"}});
    append_elsewhere("first");
  }
  // Before our put of v3, others commit v3 to v5 and do `change`; v3 is pruned. Neither our put nor the look after it
  // is answered.
  void let_others_overtake(std::function<void(TableMetadata&)> change) {
    before_publishing([this, change = std::move(change)] {
      for (const char* name : {"a", "b", "c"}) append_elsewhere(name);
      commit_metadata(*open_filesystem_table(store, kLocation), [&](TableMetadata& next) {
        change(next);
        return true;
      });
      store->break_path(".metadata.json", 2);
    });
  }
};

TEST_F(Overtaken, ATryIsMadeAgainWhereTheOthersHistoryProvesItLost) {
  let_others_overtake([](TableMetadata& next) { next.properties["owner"] = "other"; });
  EXPECT_FALSE(commit_snapshot(*table, append_of("ours")).recognised);
  EXPECT_EQ(live_paths(*table), (Strings{"a", "b", "c", "first", "ours"}));
}

TEST_F(Overtaken, ATryIsNotMadeAgainWhereTheHistoryIsCut) {
  let_others_overtake([](TableMetadata& next) { next.snapshots = {next.snapshots.back()}; });
  EXPECT_EQ(kind_of([&] { commit_snapshot(*table, append_of("ours")); }), ErrorKind::commit_unknown);
  EXPECT_EQ(live_paths(*table), (Strings{"a", "b", "c", "first"}));
  EXPECT_EQ(files_like("-m0.avro").size(), 5u);  // nothing that it may name was deleted
}

TEST_F(Overtaken, ATableThatCannotBeReadAfterAnUnansweredTryIsUnknownNotFailed) {
  before_publishing([this] { store->break_path(".metadata.json", 1000); });
  EXPECT_EQ(kind_of([&] { commit_snapshot(*table, append_of("ours")); }), ErrorKind::commit_unknown);
  store->break_path(".metadata.json", 0);
  EXPECT_EQ(live_paths(*table), Strings{"first"});
}

TEST_F(Outcome, ThreadsThatShareATableLoseNothing) {
  make({{"commit.retry.num-retries", "1000"}});
  constexpr int kThreads = 4, kAppends = 10;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([this, thread] {
      for (int i = 0; i < kAppends; ++i) commit_snapshot(*table, append_of(fmt::format("{}-{}", thread, i)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(live_paths(*table).size(), static_cast<size_t>(kThreads * kAppends));
  EXPECT_EQ(num_snapshots(), static_cast<size_t>(kThreads * kAppends));
}

TEST_F(Outcome, AZombieAndItsSuccessorDoNotBothLand) {
  SnapshotChange zombie = append_of("zombie's");
  zombie.commit_id = CommitId{"firn.commit-id", "run-1", 0};
  SnapshotChange successor = append_of("successor's");
  successor.commit_id = zombie.commit_id;
  CommitResult first;
  before_publishing([&] { first = commit_snapshot(*open_filesystem_table(store, kLocation), successor); });
  const CommitResult second = commit_snapshot(*table, zombie);
  EXPECT_FALSE(first.recognised);
  EXPECT_TRUE(second.recognised);
  EXPECT_EQ(second.snapshot_id, first.snapshot_id);
  EXPECT_EQ(live_paths(*table), Strings{"successor's"});
  EXPECT_EQ(files_like("-m0.avro").size(), 1u);
}

TEST_F(Outcome, ATryThatItsPlanRefusesLeavesNothing) {
  SnapshotChange commit = append_of("ours");
  commit.plan_try = [](const TableMetadata& base, int64_t, int64_t) -> TryPlan {
    if (base.current_snapshot_id) fail(ErrorKind::destination_behind, "refused");
    return {};
  };
  before_publishing([&] { append_elsewhere("other"); });
  EXPECT_EQ(kind_of([&] { commit_snapshot(*table, commit); }), ErrorKind::destination_behind);
  EXPECT_EQ(live_paths(*table), Strings{"other"});
  EXPECT_EQ(files_like(".avro").size(), 2u);
}

// P3.3: compare and set on a property, in the same commit as the rows.
TEST_F(Outcome, AnOffsetMovesWithItsRowsOrNotAtAll) {
  const auto unit = [&](const std::string& path, int64_t since, int64_t until) {
    SnapshotChange commit = append_of(path);
    commit.plan_try = [=](const TableMetadata& base, int64_t snapshot_id, int64_t sequence_number) -> TryPlan {
      const int64_t last = base.int_property("offset", 0);
      TryPlan plan;
      if (last >= until) plan.landed_snapshot = base.int_property("offset.snapshot", 0);
      if (last < since) fail(ErrorKind::destination_behind, "behind");
      plan.set_properties = {{"offset", std::to_string(until)},
                             {"offset.snapshot", std::to_string(snapshot_id)},
                             {"offset.sequence", std::to_string(sequence_number)}};
      return plan;
    };
    return commit;
  };
  const CommitResult first = commit_snapshot(*table, unit("a", 0, 10));
  EXPECT_EQ(first.table.metadata->property("offset", ""), "10");
  EXPECT_EQ(first.table.metadata->int_property("offset.snapshot", 0), first.snapshot_id);
  EXPECT_EQ(first.table.metadata->int_property("offset.sequence", 0), 1);
  // Two of the next unit at once: one lands, the other sees it on its second base.
  CommitResult other;
  before_publishing([&] { other = commit_snapshot(*open_filesystem_table(store, kLocation), unit("b", 10, 20)); });
  const CommitResult ours = commit_snapshot(*table, unit("b again", 10, 20));
  EXPECT_TRUE(ours.recognised);
  EXPECT_EQ(ours.snapshot_id, other.snapshot_id);
  EXPECT_EQ(live_paths(*table), (Strings{"a", "b"}));
  EXPECT_EQ(kind_of([&] { commit_snapshot(*table, unit("c", 30, 40)); }), ErrorKind::destination_behind);
}

// P2: both writers would give their column the next free id.
TEST_F(Outcome, TwoWritersThatAddAColumnEachNeverSwapThem) {
  const LoadedTable start = table->load();
  const LoadedTable with_a = evolve_schema(*table, with_column(start.metadata->schema(), "a", TypeId::long_));
  ASSERT_NE(with_a.metadata->schema().find_field("a"), nullptr);
  const LoadedTable with_b = evolve_schema(*table, with_column(start.metadata->schema(), "b", TypeId::long_));
  EXPECT_EQ(with_b.metadata->schema().find_field("a")->id, 3);
  EXPECT_EQ(with_b.metadata->schema().find_field("b")->id, 4);

  // One that wrote files with "b" as id 3, staged on the old base.
  SnapshotChange stale = append_of("stale");
  const EvolvedSchema guess =
      union_by_name(start.metadata->schema(), with_column(start.metadata->schema(), "b", TypeId::long_),
                    start.metadata->last_column_id, 2);
  ASSERT_EQ(guess.schema.find_field("b")->id, 3);
  stale.written_schema = guess.schema;
  EXPECT_EQ(kind_of([&] { commit_snapshot(*table, stale); }), ErrorKind::schema_mismatch);
  EXPECT_TRUE(files_like(".avro").empty());
  EXPECT_EQ(num_snapshots(), 0u);
}

TEST_F(Outcome, AColumnThatAnotherWriterAddsBetweenTriesRefusesFilesWithItsId) {
  const Schema guess = union_by_name(tiny_schema(), with_column(tiny_schema(), "b", TypeId::long_), 2, 2).schema;
  SnapshotChange commit = append_of("ours");
  commit.written_schema = guess;
  // The id was never given out: refused at once.
  EXPECT_EQ(kind_of([&] { commit_snapshot(*table, commit); }), ErrorKind::schema_mismatch);
  evolve_schema(*table, with_column(tiny_schema(), "b", TypeId::long_));
  EXPECT_EQ(kind_of([&] {
              before_publishing([&] {
                const auto other = open_filesystem_table(store, kLocation);
                commit_metadata(*other, [&](TableMetadata& next) {
                  std::vector<Field> fields = next.schema().fields();
                  fields.back().name = "renamed";
                  set_current_schema(next, Schema(fields), next.last_column_id);
                  return true;
                });
              });
              commit_snapshot(*table, commit);
            }),
            ErrorKind::schema_mismatch);
  EXPECT_EQ(num_snapshots(), 0u);
}

TEST_F(Outcome, PromotionAndColumnsDroppedOrAddedSinceAreNoMismatch) {
  const Schema narrow({Field{.id = 1, .name = "n", .type = Type::primitive(TypeId::int_)},
                       Field{.id = 2, .name = "gone", .type = Type::primitive(TypeId::string)}});
  for (const std::string& path : store->paths()) store->remove(path);
  create_filesystem_table(store, new_table_metadata(kLocation, narrow, {}, {}, tiny_properties(), now_ms()));
  table = open_filesystem_table(store, kLocation);
  const SnapshotChange commit = append_of("ours");
  commit_metadata(*table, [&](TableMetadata& next) {
    set_current_schema(next,
                       Schema({Field{.id = 1, .name = "n", .type = Type::primitive(TypeId::long_)},
                               Field{.id = 3, .name = "new", .type = Type::primitive(TypeId::string)}}),
                       3);
    return true;
  });
  commit_snapshot(*table, commit);
  EXPECT_EQ(live_paths(*table), Strings{"ours"});
}

TEST_F(Outcome, AnotherDefaultSpecIsDrift) {
  const SnapshotChange commit = append_of("ours");
  before_publishing([&] {
    const auto other = open_filesystem_table(store, kLocation);
    commit_metadata(*other, [&](TableMetadata& next) {
      PartitionSpec spec = make_partition_spec({{"name"}}, next.schema());
      spec.spec_id = 1;
      next.partition_specs.push_back(spec);
      next.last_partition_id = 1000;
      next.default_spec_id = 1;
      return true;
    });
  });
  EXPECT_EQ(kind_of([&] { commit_snapshot(*table, commit); }), ErrorKind::partition_spec_drift);
  EXPECT_TRUE(files_like(".avro").empty());
}

TEST_F(Outcome, MetadataCommitsAreAppliedAgainUntilTheyHold) {
  for (const Lie lie : {Lie::applied, Lie::twice, Lie::lost, Lie::late}) {
    SCOPED_TRACE(static_cast<int>(lie));
    make({});
    const auto set = [](const std::string& key) {
      return [key](TableMetadata& next) { return next.properties.emplace(key, "yes").second; };
    };
    before_publishing([&] {
      commit_metadata(*open_filesystem_table(store, kLocation), set("other"));
      store->lie_once("v3.metadata.json", lie);
    });
    commit_metadata(*table, set("ours"));
    store->deliver_late();
    const LoadedTable head = open_filesystem_table(store, kLocation)->load();
    EXPECT_EQ(head.metadata->property("ours", ""), "yes");
    EXPECT_EQ(head.metadata->property("other", ""), "yes");
    EXPECT_TRUE(commit_metadata(*table, set("ours")).recognised);
  }
}

TEST_F(Outcome, ATableMadeAnewBetweenTriesIsNotCommittedTo) {
  const SnapshotChange commit = append_of("ours");
  before_publishing([&] {
    for (const std::string& path : store->paths()) {
      if (path.find("/metadata/v") != std::string::npos) store->remove(path);
    }
    create_filesystem_table(store, tiny_metadata(kLocation));
    append_elsewhere("of the new table");
  });
  EXPECT_EQ(kind_of([&] { commit_snapshot(*table, commit); }), ErrorKind::not_found);
  EXPECT_EQ(live_paths(*open_filesystem_table(store, kLocation)), Strings{"of the new table"});
}

}  // namespace
}  // namespace firn::iceberg
