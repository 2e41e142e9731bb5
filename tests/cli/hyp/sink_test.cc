// `hyp sink` as a user runs it.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "io/file_io.h"
#include "io/local.h"
#include "support/child_program.h"
#include "support/run_program.h"
#include "support/temp_folder.h"

namespace firn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class HypSink : public testing::Test {
 protected:
  HypSink() {
    replace_file(folder_ / "hyp.json", R"({"sinks": [
        {"name": "objects", "type": "blob", "path": "objects"},
        {"name": "archive", "type": "iceberg", "path": "archive", "datasets": ["events"]}]})");
    output_of({"ingest", "events"}, "{\"n\":1}\n{\"n\":2}\n");
    output_of({"ingest", "events", "--source", "web"}, "{\"n\":3}\n");
    output_of({"ingest", "hosts"}, "{\"n\":4}\n");
  }

  ProgramResult hyp(std::vector<std::string> words, std::string_view input = {}) const {
    words.insert(words.begin(), {FIRN_HYP_PROGRAM, "--config", folder_ / "hyp.json"});
    return run_program(words, {}, input);
  }
  std::string output_of(const std::vector<std::string>& words, std::string_view input = {}) const {
    const ProgramResult result = hyp(words, input);
    EXPECT_EQ(result.status, 0) << result.err;
    return result.out;
  }

  TempFolder folder_;
};

TEST_F(HypSink, RunTakesSinksByNameAndPartitionsByDatasetAndSource) {
  EXPECT_THAT(output_of({"sink", "run", "objects", "--partition", "events/web"}),
              AllOf(HasSubstr("objects: shipped 1 row ("), HasSubstr(" in 1 unit, ")));
  EXPECT_THAT(output_of({"sink", "run", "--sink", "objects", "--partition", "events"}), HasSubstr("shipped 2 rows"));
  const Json report = Json::parse(output_of({"sink", "run", "--sink", "objects", "--sink", "archive", "--json"}));
  ASSERT_EQ(report.size(), 2U);
  EXPECT_EQ(report[0]["rows"], 1);
  EXPECT_EQ(report[1]["rows"], 3);
  ASSERT_EQ(report[1]["partitions"].size(), 2U);
  EXPECT_EQ(report[1]["partitions"][1]["source"], "web");
  EXPECT_EQ(report[1]["partitions"][1]["rows"], 1);
  const std::string hosts = output_of({"sink", "run", "--partition", "hosts"});
  EXPECT_THAT(hosts, AllOf(HasSubstr("objects"), Not(HasSubstr("archive")))) << "the archive takes only events";
  const ProgramResult none = hyp({"sink", "run", "--sink", "archive", "--partition", "hosts"});
  EXPECT_EQ(none.status, 1);
  EXPECT_THAT(none.err, HasSubstr("sink archive ships nothing of hosts"));
}

TEST_F(HypSink, StatusTellsHowFarEachIsAndWhatFailed) {
  output_of({"sink", "run"});
  output_of({"ingest", "events"}, "{\"n\":5}\n");
  const Json status =
      Json::parse(output_of({"sink", "status", "archive", "--partition", "events/default", "--json"}))[0];
  EXPECT_EQ(status["exportedRows"], 2);
  EXPECT_GT(status["exportedBytes"], 0);
  EXPECT_EQ(status["rowsBehind"], 1);
  EXPECT_GE(status["lagMs"], 0);
  EXPECT_TRUE(status["lastSuccessAt"].is_string());
  EXPECT_TRUE(status["pending"].is_null());
  EXPECT_TRUE(status["lastError"].is_null());

  std::filesystem::remove_all(folder_ / "archive");
  EXPECT_EQ(hyp({"sink", "run", "archive"}).status, 1);
  const Json failed = Json::parse(output_of({"sink", "status", "archive", "--json"}))[0]["lastError"];
  EXPECT_EQ(failed["kind"], "destination_behind");
  EXPECT_EQ(failed["attempts"], 1);
  EXPECT_TRUE(failed["nextTryAt"].is_null());
  EXPECT_THAT(output_of({"sink", "status"}),
              AllOf(HasSubstr("archive: events: destination_behind, at "), HasSubstr("it waits for you"),
                    HasSubstr("hyp sink reset --sink archive --partition events/default --to destination")));
}

TEST_F(HypSink, ResetSaysWhatItWillDoAndWantsAWord) {
  output_of({"sink", "run", "objects"});
  const ProgramResult nobody = hyp({"sink", "reset", "--sink", "objects", "--to", "start"});
  EXPECT_EQ(nobody.status, 2);
  EXPECT_THAT(nobody.err, HasSubstr("--yes"));
  EXPECT_THAT(output_of({"sink", "reset", "--sink", "objects", "--to", "start", "--dry-run"}),
              AllOf(HasSubstr("objects: events: from 2 to the start; 2 rows that count as sent are sent again"),
                    HasSubstr("nothing was changed")));
  EXPECT_EQ(output_of({"sink", "run", "objects"}), "objects: nothing new\n");
  const Json done = Json::parse(
      output_of({"sink", "reset", "--sink", "objects", "--partition", "events", "--to", "start", "--yes", "--json"}));
  EXPECT_EQ(done["done"], true);
  EXPECT_EQ(done["partitions"][0]["rowsRepeated"], 2);
  EXPECT_TRUE(done["partitions"][0]["to"].is_null());
  EXPECT_THAT(output_of({"sink", "run", "objects"}), HasSubstr("shipped 3 rows"));
  output_of({"ingest", "hosts", "--no-flush"}, "{\"n\":6}\n");
  EXPECT_THAT(output_of({"sink", "reset", "--sink", "archive", "--to", "now", "--yes"}),
              HasSubstr("2 rows are skipped, never to be sent"));
  EXPECT_EQ(output_of({"sink", "run", "archive"}), "archive: nothing new\n");
  EXPECT_THAT(hyp({"sink", "reset", "--sink", "objects", "--to", "then", "--yes"}).err, HasSubstr("destination"));
  EXPECT_EQ(hyp({"sink", "reset", "--to", "now", "--yes"}).status, 2) << "one sink at a time, by name";
}

TEST_F(HypSink, ResetToTheDestinationGoesOnWhereARestoredOneIs) {
  output_of({"sink", "run", "archive"});
  std::filesystem::remove_all(folder_ / "archive");
  EXPECT_EQ(hyp({"sink", "run", "archive"}).status, 1);
  EXPECT_THAT(output_of({"sink", "reset", "--sink", "archive", "--to", "destination", "--yes"}),
              HasSubstr("2 rows that the destination lost are sent again"));
  EXPECT_THAT(output_of({"sink", "run", "archive"}), HasSubstr("shipped 3 rows"));
}

TEST_F(HypSink, ResetToADestinationThatLostRowsSaysWhatTheCacheCanNoLongerSend) {
  const std::vector<std::string> reset = {"sink",           "reset", "--sink",      "archive",  "--partition",
                                          "events/default", "--to",  "destination", "--dry-run"};
  const std::string lost = "no longer has (retention, purge) cannot be sent";
  output_of({"sink", "run", "archive"});
  EXPECT_THAT(output_of(reset), Not(HasSubstr(lost)));
  output_of({"purge", "events", "--where", "n < 3"});
  std::filesystem::remove_all(folder_ / "archive");
  EXPECT_THAT(output_of(reset), AllOf(HasSubstr("the cache still has 0; "), HasSubstr(lost)));
  std::vector<std::string> as_json = reset;
  as_json.push_back("--json");
  EXPECT_THAT(Json::parse(output_of(as_json))["partitions"][0]["note"].get<std::string>(), HasSubstr(lost));
}

TEST_F(HypSink, ASinkThatIsNotThereIsAnsweredWithThoseThatAre) {
  EXPECT_THAT(hyp({"sink", "run", "archives"}).err, HasSubstr("there are: objects, archive"));
}

TEST_F(HypSink, WhatIsMissingIsAskedForWithTheHelpOfTheCommand) {
  const ProgramResult no_command = hyp({"sink"});
  EXPECT_EQ(no_command.status, 2);
  EXPECT_EQ(no_command.err, "hyp: which command? run, status, reset\nTry: hyp sink --help\n");
  const ProgramResult no_place = hyp({"sink", "reset", "objects", "--yes"});
  EXPECT_EQ(no_place.status, 2);
  EXPECT_EQ(no_place.err, "hyp: --to is required\nTry: hyp sink reset --help\n");
}

TEST_F(HypSink, StatusOfTheCacheNamesTheSinksThatFail) {
  EXPECT_THAT(output_of({"status"}), Not(HasSubstr("failing")));
  output_of({"sink", "run"});
  std::filesystem::remove_all(folder_ / "archive");
  EXPECT_EQ(hyp({"sink", "run"}).status, 1);
  EXPECT_THAT(output_of({"status"}), AllOf(HasSubstr("failing        sink archive: 2 partitions, since "),
                                           HasSubstr("`hyp sink status archive`"), Not(HasSubstr("sink objects"))));
  const Json failing = Json::parse(output_of({"status", "--json"}))["failingSinks"];
  ASSERT_EQ(failing.size(), 1U);
  EXPECT_EQ(failing[0]["sink"], "archive");
  EXPECT_EQ(failing[0]["partitions"], 2);
}

TEST_F(HypSink, AnAnswerWithoutRowsThatTheDestinationLostComesWithAWarning) {
  replace_file(folder_ / "hyp.json",
               R"({"sinks": [{"name": "objects", "type": "blob", "path": "objects", "queryable": true}]})");
  output_of({"sink", "run"});
  output_of({"purge", "events", "--where", "n < 3"});
  const std::vector<std::string> count = {"query", "select count(*) as rows from events", "--format", "csv"};
  EXPECT_EQ(output_of(count), "rows\n3\n");
  EXPECT_EQ(hyp(count).err, "");
  std::filesystem::remove_all(folder_ / "objects");
  EXPECT_EQ(hyp({"sink", "run"}).status, 1);
  const ProgramResult lacking = hyp(count);
  EXPECT_EQ(lacking.out, "rows\n1\n");
  EXPECT_THAT(lacking.err, AllOf(HasSubstr("sink objects"), HasSubstr("lacks rows of events")));
  EXPECT_EQ(hyp({"query", "select 1"}).err, "") << "which has nothing to do with it";
}

// A run that waits for its destination may have the sink for minutes.
TEST_F(HypSink, CommandsThatWaitForARunSaySoAndCanBeInterrupted) {
  output_of({"sink", "run", "objects"});
  output_of({"ingest", "hosts"}, "{\"n\":5}\n");
  std::optional<FileLock> run = FileLock::acquire(folder_ / ".hyp/state/objects/lock", FileLock::Mode::exclusive);
  EXPECT_THAT(output_of({"sink", "status", "objects"}), HasSubstr("objects: a run is under way"));
  EXPECT_EQ(Json::parse(output_of({"sink", "status", "objects", "--json"}))[0]["underWay"], true);
  const auto begin_waiting = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {FIRN_HYP_PROGRAM, "--config", folder_ / "hyp.json"});
    const std::string log = folder_ / words.at(4);
    auto waiting = std::make_unique<ChildProgram>(words, std::map<std::string, std::string>(), log);
    const auto said = [&] { return make_local_file_io()->read_if_exists(log).value_or(""); };
    while (said().find("objects: another run of the sink is under way; waiting for its end") == std::string::npos &&
           waiting->is_running()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    waiting->signal(SIGINT);
    return waiting;
  };
  const auto ship = begin_waiting({"sink", "run", "objects"});
  EXPECT_TRUE(ship->read_until({"objects: nothing was shipped\n"})) << "that nothing is new would not be true";
  EXPECT_EQ(ship->end(0), 1);
  EXPECT_EQ(begin_waiting({"sink", "reset", "objects", "--to", "start", "--yes"})->end(0), 1);
  EXPECT_THAT(make_local_file_io()->read(folder_ / "reset"), HasSubstr("interrupted; nothing was changed"));
  run.reset();
  EXPECT_THAT(output_of({"sink", "status", "objects"}), Not(HasSubstr("under way")));
  EXPECT_THAT(output_of({"sink", "run", "objects"}), HasSubstr("shipped 1 row ("))
      << "the reset that was interrupted did nothing";
}

// --- before a receiver ---

class HypForward : public testing::Test {
 protected:
  // `settings`: of the receiver, besides its address.
  void start(const std::string& settings = "") {
    std::filesystem::create_directory(folder_ / "there");
    std::filesystem::create_directory(folder_ / "here");
    replace_file(there(), fmt::format(R"({{"listen": "", "receiver": {{"listen": "127.0.0.1:0"{}}}}})", settings));
    EXPECT_EQ(hyp(there(), {"gateway", "add", "edge", "--token-file", folder_ / "token"}).status, 0);
    receiver_ = std::make_unique<ChildProgram>(std::vector<std::string>{FIRN_HYP_PROGRAM, "--config", there(), "serve"},
                                               std::map<std::string, std::string>(), folder_ / "log");
    const auto said = receiver_->read_until({"receiving on http://127.0.0.1:", "serving the cache"});
    ASSERT_TRUE(said);
    const size_t port = said->find("127.0.0.1:") + 10;
    replace_file(here(), fmt::format(R"({{"sinks": [{{"name": "up", "type": "forward", "url": "http://127.0.0.1:{}",
                                         "tokenFile": "../token", "maxRows": 1}}]}})",
                                     std::stoi(said->substr(port))));
  }
  void TearDown() override {
    if (receiver_) receiver_->end(SIGTERM);
  }
  std::string here() const { return folder_ / "here/hyp.json"; }
  std::string there() const { return folder_ / "there/hyp.json"; }
  ProgramResult hyp(const std::string& config, std::vector<std::string> words, std::string_view input = {}) const {
    words.insert(words.begin(), {FIRN_HYP_PROGRAM, "--config", config});
    return run_program(words, {}, input);
  }
  ProgramResult here(const std::vector<std::string>& words, std::string_view input = {}) const {
    return hyp(here(), words, input);
  }

  TempFolder folder_;
  std::unique_ptr<ChildProgram> receiver_;
};

TEST_F(HypForward, ARunWithRowsThatTheReceiverCanNeverTakeEndsWithStatusThreeAndTheStatusCountsThem) {
  start();
  here({"ingest", "events"}, "{\"n\":1}\n{\"n\":2,\"hyp_gateway\":\"forged\"}\n{\"n\":3}\n");
  const ProgramResult run = here({"sink", "run"});
  EXPECT_EQ(run.status, 3) << run.err;
  const std::string letters = folder_ / "here/.hyp/state/up/dead-letters/events/source=default.ndjson";
  EXPECT_THAT(run.out, AllOf(HasSubstr("up: shipped 2 rows ("),
                             HasSubstr("up: events: 1 row that the receiver can never take is in " + letters)));
  const std::string text = make_local_file_io()->read(letters);
  EXPECT_EQ(Json::parse(text)["row"], Json::parse(R"({"n": 2, "hyp_gateway": "forged"})"));

  here({"ingest", "events"}, "{\"n\":4,\"hyp_gateway\":\"forged\"}\n");
  const Json report = Json::parse(here({"sink", "run", "--json"}).out)[0];
  EXPECT_EQ(report["rows"], 0);
  EXPECT_EQ(report["partitions"][0]["rowsPutAside"], 1);
  const ProgramResult nothing_new = here({"sink", "run"});
  EXPECT_EQ(nothing_new.status, 0) << "it is told once";
  EXPECT_EQ(nothing_new.out, "up: nothing new\n");

  const ProgramResult status = here({"sink", "status"});
  EXPECT_EQ(status.status, 0);
  EXPECT_THAT(status.out, HasSubstr("up: events: 2 rows that the receiver can never take are in " + letters));
  const Json json = Json::parse(here({"sink", "status", "--json"}).out)[0];
  EXPECT_EQ(json["deadLetters"], 2);
  EXPECT_EQ(json["deadLettersPath"], letters);
  EXPECT_EQ(json["rowsBehind"], 0) << "they are not waited for";
  EXPECT_TRUE(json["lastError"].is_null());
  std::filesystem::rename(letters, folder_ / "looked-at");
  EXPECT_EQ(Json::parse(here({"sink", "status", "--json"}).out)[0]["deadLetters"], 0);
}

TEST_F(HypForward, AWaitForTheReceiverIsToldWhileItLasts) {
  start(R"(, "maxRequestsPerSecond": 1)");
  here({"ingest", "events"}, "{\"n\":1}\n{\"n\":2}\n");
  const ProgramResult run = here({"sink", "run"});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("up: shipped 2 rows ("));
  EXPECT_THAT(run.err, AllOf(HasSubstr("hyp: up: http://127.0.0.1:"), HasSubstr(" answers 429: the gateway edge "),
                             HasSubstr("; trying again in 1 s\n")));
}

}  // namespace
}  // namespace firn
