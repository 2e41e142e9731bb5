// The command orca: what it says without a pipeline's code.
#include <gtest/gtest.h>

#include "base/json.h"
#include "base/uuid.h"
#include "orca/state/run_state.h"
#include "support/run_program.h"
#include "support/temp_folder.h"

namespace firn::orca {
namespace {

class Orca : public ::testing::Test {
 protected:
  ProgramResult run(const std::vector<std::string>& words) {
    std::vector<std::string> argv = {FIRN_ORCA_PROGRAM};
    argv.insert(argv.end(), words.begin(), words.end());
    return run_program(argv,
                       {{"ORCA_STATE", path()}, {"ORCA_DATABASE_URL", ""}, {"ORCA_WAREHOUSE", folder_ / "warehouse"}});
  }
  std::string path() { return folder_ / "state.db"; }
  void begin(const std::string& pipeline) {
    const auto database = open_database({.sqlite_path = path()});
    database->begin();
    create_run(*database, {.id = uuid_v4(),
                           .pipeline = pipeline,
                           .kind = "run",
                           .code = "c",
                           .parameters = "{}",
                           .plan = {.steps = {{.name = "load"}}}});
    database->commit();
  }

 private:
  TempFolder folder_;
};

TEST_F(Orca, StatusShowsTheRunsOfEveryPipeline) {
  begin("one");
  begin("two");
  const Json runs = Json::parse(run({"status", "--json"}).out)["runs"];
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs[0]["pipeline"], "two");
  EXPECT_EQ(runs[0]["steps"][0]["ready"], 1);
  EXPECT_EQ(Json::parse(run({"status", "--json", "--pipeline", "one"}).out)["runs"].size(), 1U);
  const ProgramResult text = run({"status", "1", "--pipeline", "one"});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_NE(text.out.find("one run 1 (run): running, but no runner is alive"), std::string::npos) << text.out;
}

TEST_F(Orca, ARunIsCancelledWithoutItsCode) {
  begin("one");
  EXPECT_EQ(run({"cancel", "--pipeline", "one", "1"}).status, 0);
  EXPECT_EQ(Json::parse(run({"status", "--json"}).out)["runs"][0]["status"], "cancelled");
  EXPECT_EQ(run({"cancel", "--pipeline", "one", "2"}).status, 1);
  EXPECT_EQ(run({"cancel", "1"}).status, 2) << "of which pipeline?";
}

TEST_F(Orca, WhatIsNotThereIsSaid) {
  const ProgramResult none = run({"status"});
  EXPECT_EQ(none.status, 1);
  EXPECT_NE(none.err.find("there is no state of runs here"), std::string::npos) << none.err;
  EXPECT_EQ(run({"backfill"}).status, 2);
  EXPECT_EQ(run({}).err, "orca: which command? status, cancel, expire\nTry: orca --help\n");
  EXPECT_EQ(run({"cancel", "--pipeline", "one"}).err, "orca: RUN is required\nTry: orca cancel --help\n");
  const ProgramResult no_number = run({"status", "one"});
  EXPECT_EQ(no_number.status, 2);
  EXPECT_EQ(no_number.err, "orca: RUN: \"one\" is no run's number: status tells them\nTry: orca status --help\n");
  const ProgramResult help = run({"--help"});
  EXPECT_EQ(help.status, 0);
  EXPECT_NE(help.out.find("expire"), std::string::npos);
}

}  // namespace
}  // namespace firn::orca
