// Both databases behave alike, and transactions of many threads become durable together.
#include <gtest/gtest.h>

#include <thread>

#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "orca/state/group_commit.h"
#include "orca/state/run_state.h"
#include "orca/state_box.h"

namespace firn::orca {
namespace {

class Databases : public OnBothDatabases {};
ORCA_ON_BOTH(Databases);

TEST_P(Databases, ValuesComeBackAsTheyWent) {
  const auto database = box().open();
  database->run("create table t (a bigint, b text)");
  const std::string odd = "line\n'quoted' ? $1 \xC3\xA9";
  EXPECT_EQ(database->run("insert into t (a, b) values (?1, ?2)", {int64_t{-9'000'000'000}, odd}).changed, 1);
  database->run("insert into t (a, b) values (?1, ?2)", {std::nullopt, ""});
  const SqlResult result = database->run("select a, b from t order by a is null, a");
  ASSERT_EQ(result.rows.size(), 2U);
  EXPECT_EQ(result.rows[0].integer(0), -9'000'000'000);
  EXPECT_EQ(result.rows[0].text(1), odd);
  EXPECT_FALSE(result.rows[1].maybe_integer(0));
  EXPECT_EQ(result.rows[1].cell(1), std::optional<std::string>("")) << "empty is not null";
}

TEST_P(Databases, OneStatementForManyValuesCountsEach) {
  const auto database = box().open();
  database->run("create table t (a bigint primary key)");
  std::vector<SqlValues> values;
  for (int i = 0; i < 200; ++i) values.push_back({i});
  for (const SqlResult& one : database->run_each("insert into t (a) values (?1)", values)) EXPECT_EQ(one.changed, 1);
  values = {{5}, {900}, {7}};
  const std::vector<SqlResult> found = database->run_each("select a from t where a = ?1", values);
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].rows.at(0).integer(0), 5);
  EXPECT_TRUE(found[1].rows.empty());
  EXPECT_THROW(database->run_each("insert into t (a) values (?1)", {{1'000}, {5}, {1'001}}), Error);
  EXPECT_EQ(database->run("select count(*) from t where a = 5").rows.at(0).integer(0), 1)
      << "the connection still serves";
}

TEST_P(Databases, ANewerStateIsRefused) {
  box().open()->run("update orca_schema set version = 999");
  try {
    box().open();
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::unsupported);
    EXPECT_NE(std::string(e.what()).find("newer"), std::string::npos);
  }
}

TEST_P(Databases, ManyFirstOpenersMakeOneState) {
  std::atomic<int> opened{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 6; ++i) {
      threads.emplace_back([&] {
        box().open();
        ++opened;
      });
    }
  }
  EXPECT_EQ(opened, 6);
  EXPECT_EQ(box().open()->run("select count(*) from orca_schema").rows.at(0).integer(0), 1);
}

TEST_P(Databases, AWorkThatThrowsSpoilsNoOther) {
  box().open()->run("create table t (a bigint)");
  GroupCommit state([this] { return box().open(); });
  std::atomic<int> refused{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 24; ++i) {
      threads.emplace_back([&, i] {
        try {
          state.run("t", [&](Database& database) {
            database.run("insert into t (a) values (?1)", {i});
            if (i % 4 == 0) fail(ErrorKind::lease_lost, "no");
          });
        } catch (const Error& e) {
          EXPECT_EQ(e.kind(), ErrorKind::lease_lost);
          ++refused;
        }
      });
    }
  }
  EXPECT_EQ(refused, 6);
  const auto database = box().open();
  EXPECT_EQ(database->run("select count(*), count(distinct a) from t").rows.at(0).integer(0), 18);
  EXPECT_EQ(database->run("select count(*) from t where a % 4 = 0").rows.at(0).integer(0), 0)
      << "nothing of a refused one is kept";
}

// A connection that breaks at its n-th commit: before it, or after, so that its answer is lost.
class Breaking final : public Database {
 public:
  Breaking(std::unique_ptr<Database> inner, int& commits_left, bool after)
      : inner_(std::move(inner)), left_(commits_left), after_(after) {}
  SqlResult run(const std::string& sql, const SqlValues& values) override { return inner_->run(sql, values); }
  std::vector<SqlResult> run_each(const std::string& sql, const std::vector<SqlValues>& values) override {
    return inner_->run_each(sql, values);
  }
  void begin() override { inner_->begin(); }
  void commit() override {
    const bool breaks = left_-- == 0;
    if (!breaks || after_) inner_->commit();
    if (breaks) fail(ErrorKind::io, "the connection broke");
  }
  void rollback() noexcept override { inner_->rollback(); }
  const std::string& title() const override { return inner_->title(); }
  void lock_schema() override { inner_->lock_schema(); }
  bool is_postgres() const override { return inner_->is_postgres(); }

 private:
  std::unique_ptr<Database> inner_;
  int& left_;
  bool after_;
};

TEST_P(Databases, AnOutageIsWaitedOutAndNothingIsDoneTwice) {
  for (const bool after : {false, true}) {
    SCOPED_TRACE(after ? "the answer was lost" : "the request was lost");
    int left = 1;
    GroupCommit state([&] { return std::make_unique<Breaking>(box().open(), left, after); });
    const NewRun run{.id = after ? "id-1" : "id-2",
                     .pipeline = after ? "p" : "q",
                     .kind = "run",
                     .code = "c",
                     .parameters = "{}",
                     .plan = {.steps = {{.name = "s"}}}};
    std::optional<RunRow> made;
    state.run("warm", [](Database&) {});
    state.run("t", [&](Database& database) { made = create_run(database, run); });
    ASSERT_TRUE(made);
    EXPECT_EQ(made->number, 1);
    EXPECT_EQ(list_runs(*box().open(), run.pipeline, 10).size(), 1U);
  }
}

TEST_P(Databases, AnOutageThatDoesNotEndIsToldAsAnError) {
  int left = 0;
  bool broken = false;
  GroupCommit state(
      [&]() -> std::unique_ptr<Database> {
        if (broken) fail(ErrorKind::io, "nobody answers");
        broken = true;
        return std::make_unique<Breaking>(box().open(), left, false);
      },
      100);
  try {
    state.run("t", [](Database&) {});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::io);
  }
}

TEST(StateFiles, AStateThatIsNotThereIsNotMadeByALook) {
  const TempFolder folder;
  try {
    open_existing_database({.sqlite_path = folder / "none.db"});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::not_found);
  }
}

// As a user who may read, and not write, what is in the folder.
class ReadOnlyFolder {
 public:
  explicit ReadOnlyFolder(std::string path) : path_(std::move(path)), is_root_(geteuid() == 0) {
    chmod(path_.c_str(), 0555);
    if (is_root_) EXPECT_EQ(seteuid(65'534), 0);
  }
  ~ReadOnlyFolder() {
    if (is_root_) EXPECT_EQ(seteuid(0), 0);
    chmod(path_.c_str(), 0755);
  }
  ReadOnlyFolder(const ReadOnlyFolder&) = delete;
  ReadOnlyFolder& operator=(const ReadOnlyFolder&) = delete;

 private:
  std::string path_;
  bool is_root_;
};

TEST(StateFiles, AStateThatMayOnlyBeReadIsLookedAtWhileARunnerHasItOpenAndElseSaysWhatIsMissing) {
  const TempFolder folder;
  const StateLocation location{.sqlite_path = folder / "state.db"};
  {
    const auto runner = open_database(location);
    ASSERT_EQ(runner->run("select count(*) from orca_runs").rows.at(0).integer(0), 0);
    for (const char* name : {"state.db", "state.db-wal", "state.db-shm"}) chmod((folder / name).c_str(), 0644);
    const ReadOnlyFolder read_only(folder.path());
    EXPECT_TRUE(list_runs(*open_existing_database(location), "", 10).empty());
  }
  const ReadOnlyFolder read_only(folder.path());
  try {
    open_existing_database(location);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::io);
    EXPECT_NE(std::string(e.what()).find("needs write permission on its folder"), std::string::npos) << e.what();
  }
}

TEST(Processes, AreKnownToBeDeadOrNot) {
  const std::string mine = this_process();
  EXPECT_FALSE(is_dead_process(mine));
  EXPECT_FALSE(is_dead_process("another-machine/pid:[1]/1/1")) << "nothing is known of it";
  EXPECT_FALSE(is_dead_process(""));
  // The same process id at another time is another process.
  const size_t start = mine.rfind('/');
  EXPECT_TRUE(is_dead_process(mine.substr(0, start) + "/1"));
}

}  // namespace
}  // namespace firn::orca
