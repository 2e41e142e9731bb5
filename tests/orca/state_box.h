// The state of runs in each of its two databases, with a clock that a test moves.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/test_world.h"
#include "orca/state/database.h"
#include "support/postgres_server.h"
#include "support/temp_folder.h"

namespace firn::orca {

enum class Backend : uint8_t { sqlite, postgres };

class StateBox {
 public:
  explicit StateBox(Backend backend) {
    if (backend == Backend::postgres) {
      location_.postgres_url = postgres_server().new_database();
    } else {
      location_.sqlite_path = folder_ / "state.db";
    }
  }
  // What `original` has now, in a database of its own. No one may be connected to it.
  StateBox(const StateBox& original) : is_copy_(true) {
    if (original.is_postgres()) {
      location_.postgres_url = postgres_server().copy_database(original.location_.postgres_url);
    } else {
      location_.sqlite_path = folder_ / "state.db";
      std::filesystem::copy_file(original.location_.sqlite_path, location_.sqlite_path);
    }
  }
  StateBox& operator=(const StateBox&) = delete;
  ~StateBox() {
    set_clock_ms(std::nullopt);
    if (is_copy_ && is_postgres()) postgres_server().drop_database(location_.postgres_url);  // there are many
  }

  const StateLocation& location() const { return location_; }
  bool is_postgres() const { return !location_.postgres_url.empty(); }
  std::unique_ptr<Database> open() const { return open_database(location_); }
  std::map<std::string, std::string> environment() const {
    if (is_postgres()) return {{"ORCA_DATABASE_URL", location_.postgres_url}};
    return {{"ORCA_STATE", location_.sqlite_path}, {"ORCA_DATABASE_URL", ""}};
  }
  const TempFolder& folder() const { return folder_; }

  // The database's clock goes on by so much, and from the first call on moves by this alone in SQLite.
  void pass_ms(int64_t ms) {
    if (!is_postgres()) {
      set_clock_ms(now_ms() + ms);
      return;
    }
    auto database = open();
    passed_ms_ += ms;
    database->run(
        "create or replace function orca_now() returns bigint language sql volatile as 'select cast(extract(epoch from "
        "clock_timestamp()) * 1000 as bigint) + " +
        std::to_string(passed_ms_) + "'");
  }

 private:
  TempFolder folder_;
  StateLocation location_;
  int64_t passed_ms_ = 0;
  bool is_copy_ = false;
};

// Tests of both: TEST_P(Suite, Name) with ORCA_ON_BOTH(Suite). Those on PostgreSQL are skipped where it is not
// installed.
class OnBothDatabases : public ::testing::TestWithParam<Backend> {
 protected:
  void SetUp() override {
    if (GetParam() == Backend::postgres && !PostgresServer::is_installed()) {
      GTEST_SKIP() << "PostgreSQL 15 is not installed (/usr/lib/postgresql/15/bin)";
    }
    box_ = std::make_unique<StateBox>(GetParam());
  }
  StateBox& box() { return *box_; }

 private:
  std::unique_ptr<StateBox> box_;
};

#define ORCA_ON_BOTH(SUITE)                                                    \
  INSTANTIATE_TEST_SUITE_P(Sqlite, SUITE, ::testing::Values(Backend::sqlite)); \
  INSTANTIATE_TEST_SUITE_P(Postgres, SUITE, ::testing::Values(Backend::postgres))

}  // namespace firn::orca
