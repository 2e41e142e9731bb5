// The command `hyp` as a user runs it.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "hyp/cache/files_with.h"
#include "io/file_io.h"
#include "io/local.h"
#include "support/run_program.h"
#include "support/temp_folder.h"

namespace firn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Strings = std::vector<std::string>;

class Hyp : public testing::Test {
 protected:
  ProgramResult hyp(Strings words, std::string_view input = {}) const {
    words.insert(words.begin(), {FIRN_HYP_PROGRAM, "--config", folder_ / "hyp.json"});
    return run_program(words, {}, input);
  }
  std::string output_of(const Strings& words, std::string_view input = {}) const {
    const ProgramResult result = hyp(words, input);
    EXPECT_EQ(result.status, 0) << result.err;
    return result.out;
  }
  void write(const std::string& name, const std::string& text) const { replace_file(folder_ / name, text); }
  std::string read(const std::string& path) const { return make_local_file_io()->read(path); }

  static Strings lines_of(const std::string& text) {
    Strings lines;
    for (size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
      lines.push_back(text.substr(begin, end - begin));
    }
    return lines;
  }

  TempFolder folder_;
};

TEST_F(Hyp, InitWritesAConfigurationThatIsOneAndIsNeverWrittenOver) {
  EXPECT_THAT(output_of({"init", folder_ / "hyp.json"}), HasSubstr(folder_ / "hyp.json"));
  EXPECT_THAT(output_of({"status"}), HasSubstr("nothing was ingested yet"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / ".hyp/cache"));
  write("hyp.json", "{}");
  const ProgramResult again = hyp({"init", folder_ / "hyp.json"});
  EXPECT_EQ(again.status, 1);
  EXPECT_EQ(read(folder_ / "hyp.json"), "{}");
}

TEST_F(Hyp, AConfigurationErrorNamesTheKeyAndTheLine) {
  write("hyp.json",
        "{\n  // a comment\n  \"sinks\": [\n    {\"name\": \"a\", \"type\": \"blob\", \"path\": \"a\", \"fromat\": "
        "\"jsonl\"}\n  ]\n}\n");
  const ProgramResult result = hyp({"status"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("fromat"));
  EXPECT_THAT(result.err, HasSubstr("hyp.json, line 4"));
}

TEST_F(Hyp, AWrongCommandLineEndsWithStatusTwo) {
  write("hyp.json", "{}");
  EXPECT_EQ(hyp({"ingest"}).status, 2);
  EXPECT_EQ(hyp({"harvest"}).status, 2);
  EXPECT_EQ(hyp({"query", "select 1", "--format", "xml"}).status, 2);
}

TEST_F(Hyp, BadRowsAreSetAsideEachWithItsLineAndReasonAndTheGoodOnesKept) {
  write("hyp.json", R"({"datasets": {"events": {"maxRowBytes": 1000000}}})");
  const Strings bad = {
      R"({"n": 1, "s": )",                                // 2: malformed
      R"({"n": "one"})",                                  // 3: another type
      "{\"s\": \"\xff\xfe\"}",                            // 4: invalid UTF-8
      R"({"s": ")" + std::string(10 << 20, 'x') + "\"}",  // 5: 10 MB
      R"({"n": 5, "n": 6})",                              // 6: a duplicate key
      R"({"n": 9223372036854775808})",                    // 7: beyond int64
  };
  std::string text = "{\"n\": 1, \"s\": \"a\"}\n";
  for (const std::string& line : bad) text += line + "\n";
  text += "{\"n\": 2}\n";
  write("bad.ndjson", text);
  const ProgramResult result = hyp({"ingest", "events", folder_ / "bad.ndjson"});
  EXPECT_EQ(result.status, 3) << result.err;
  EXPECT_THAT(result.out, HasSubstr("6 rows were rejected"));
  EXPECT_THAT(result.out, HasSubstr("line 2"));
  EXPECT_EQ(output_of({"query", "select n, s from events order by n", "--format", "json"}),
            "{\"n\":1,\"s\":\"a\"}\n{\"n\":2,\"s\":null}\n");

  std::vector<int64_t> numbers;
  for (const std::string& line : lines_of(read(folder_ / ".hyp/cache/rejects/events.ndjson"))) {
    const Json reject = Json::parse(line);
    numbers.push_back(reject["line"].get<int64_t>());
    EXPECT_NE(reject["reason"], "") << line.substr(0, 200);
  }
  EXPECT_THAT(numbers, ElementsAre(2, 3, 4, 5, 6, 7));

  // Taken again, nothing is rejected a second time.
  EXPECT_EQ(hyp({"ingest", "events", folder_ / "bad.ndjson"}).status, 0);
  EXPECT_EQ(lines_of(read(folder_ / ".hyp/cache/rejects/events.ndjson")).size(), 6u);
}

TEST_F(Hyp, RejectsAreShownInTheOrderOfTheLinesAndTheRestCounted) {
  write("hyp.json", "{}");
  std::string text = "{\"n\":0}\n";
  for (int i = 0; i < 15; ++i) text += i % 2 == 0 ? "{\"n\":\"x\"}\n" : "no json\n";
  write("bad.ndjson", text);
  const ProgramResult result = hyp({"ingest", "events", folder_ / "bad.ndjson"});
  EXPECT_EQ(result.status, 3);
  EXPECT_THAT(result.out, AllOf(HasSubstr("took 16 lines"), HasSubstr("1 row was added to the cache"),
                                HasSubstr("15 rows were rejected"), HasSubstr("… and 5 more")));
  size_t at = 0;
  for (int line = 2; line <= 11; ++line) {
    const size_t next = result.out.find(fmt::format("  line {}", line), at);
    ASSERT_NE(next, std::string::npos) << line << "\n" << result.out;
    at = next + 1;
  }
}

TEST_F(Hyp, IfOneFileCannotBeTakenNothingIsTakenOfTheOthersOrItIsSaid) {
  write("hyp.json", "{}");
  write("good.ndjson", "{\"n\":1}\n");
  const ProgramResult absent = hyp({"ingest", "events", folder_ / "good.ndjson", folder_ / "absent.ndjson"});
  EXPECT_EQ(absent.status, 1);
  EXPECT_THAT(absent.err, HasSubstr("absent.ndjson"));
  EXPECT_THAT(output_of({"status"}), HasSubstr("nothing was ingested yet"));
  write("damaged.gz", std::string("\x1f\x8b\x08\x00garbage that is none of gzip's", 34));
  const ProgramResult damaged = hyp({"ingest", "events", folder_ / "good.ndjson", folder_ / "damaged.gz"});
  EXPECT_EQ(damaged.status, 1);
  EXPECT_THAT(damaged.out, AllOf(HasSubstr("took 1 line "), HasSubstr("from the first 1 of 2 files")));
  EXPECT_THAT(damaged.err, HasSubstr("damaged.gz"));
  EXPECT_EQ(output_of({"query", "select n from events", "--format", "csv"}), "n\n1\n");
}

TEST_F(Hyp, AHalfLineOfAFileThatIsStillWrittenWaits) {
  write("hyp.json", "{}");
  write("log.ndjson", "{\"n\":1}\n{\"n\":");
  const ProgramResult first = hyp({"ingest", "events", folder_ / "log.ndjson"});
  EXPECT_EQ(first.status, 3);
  EXPECT_THAT(first.out, HasSubstr("left the last line of " + folder_ / "log.ndjson (5 bytes)"));
  const Descriptor file(::open((folder_ / "log.ndjson").c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  ASSERT_EQ(::write(file.get(), "2}\n", 3), 3);
  EXPECT_THAT(output_of({"ingest", "events", folder_ / "log.ndjson"}), HasSubstr("took 1 line "));
  EXPECT_EQ(output_of({"query", "select n from events order by n", "--format", "csv"}), "n\n1\n2\n");
}

TEST_F(Hyp, BeyondTheDiskLimitNothingIsTakenAndWhatIsThereStays) {
  write("hyp.json", "{}");
  output_of({"ingest", "events", "-"}, "{\"n\":1}\n");
  write("hyp.json", "{\"maxCacheBytes\": 2000}");
  const ProgramResult refused = hyp({"ingest", "events", "-"}, "{\"n\":2}\n");
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("more than maxCacheBytes (2000)"), HasSubstr("hyp purge")));
  EXPECT_EQ(output_of({"query", "select n from events", "--format", "csv"}), "n\n1\n");
  write("hyp.json", "{\"maxCacheBytes\": 2000000}");
  output_of({"ingest", "events", "-"}, "{\"n\":2}\n");
}

TEST_F(Hyp, AChangedTypeOfAColumnIsToldByNameAndNothingIsStuck) {
  write("hyp.json", R"({"datasets": {"events": {"columns": {"n": "long"}}}})");
  output_of({"ingest", "events", "-"}, "{\"n\":1}\n");
  write("hyp.json", R"({"datasets": {"events": {"columns": {"n": "string"}}}})");
  const ProgramResult refused = hyp({"ingest", "events", "-"}, "{\"n\":\"a\"}\n");
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("column \"n\" is declared as string"), HasSubstr("has it as long")));
  EXPECT_THAT(output_of({"status"}), HasSubstr("column \"n\" is declared as string"));
  EXPECT_EQ(hyp({"query", "select n from events", "--format", "csv"}).out, "n\n1\n");
}

TEST_F(Hyp, ADeclaredColumnInOtherCaseIsToldByNameAndTheDatasetStaysQueryable) {
  write("hyp.json", "{}");
  output_of({"ingest", "d"}, "{\"id\":1,\"o\":{\"a\":10}}\n");
  for (const char* columns : {R"({"ID": "long"})", R"({"o": "struct<A: long>"})"}) {
    write("hyp.json", fmt::format(R"({{"datasets": {{"d": {{"columns": {}, "additionalColumns": true}}}}}})", columns));
    const ProgramResult refused = hyp({"ingest", "d"}, "{\"ID\":2,\"o\":{\"A\":20}}\n");
    EXPECT_EQ(refused.status, 1);
    EXPECT_THAT(refused.err, AllOf(HasSubstr("is declared, but the cache has it as"), HasSubstr("hyp.json")));
    EXPECT_EQ(output_of({"query", "select id, o.a as a from d", "--format", "csv"}), "id,a\n1,10\n");
  }
}

TEST_F(Hyp, ControlCharactersOfASourceBreakNoLineOfATextAndAreKeptInJson) {
  write("hyp.json", R"({"sinks": [{"name": "lake", "type": "blob", "path": "lake"}]})");
  const std::string source = "new\nline\x1b[2J";
  output_of({"ingest", "d", "--source", source}, "{\"id\":1}\n");
  const std::string shown = R"(new\nline\x1b[2J)";
  EXPECT_THAT(output_of({"status"}), AllOf(HasSubstr(shown), Not(HasSubstr(source))));
  EXPECT_THAT(output_of({"sink", "status"}), AllOf(HasSubstr("d/" + shown + " "), Not(HasSubstr(source))));
  EXPECT_EQ(Json::parse(output_of({"status", "--json"}))["partitions"][0]["source"], source);
  EXPECT_THAT(output_of({"sink", "run", "--partition", "d/" + source}), HasSubstr("shipped 1 row"));
}

// Of a cache that this user, or nobody, may write.
class HypReadOnly : public Hyp {
 protected:
  void SetUp() override {
    write("hyp.json", R"({"sinks": [{"name": "lake", "type": "blob", "path": "lake", "format": "parquet",
                                     "queryable": true, "datasets": ["shipped"]}]})");
    output_of({"ingest", "d"}, "{\"id\":1}\n");
    output_of({"ingest", "shipped"}, "{\"id\":1}\n");
    output_of({"sink", "run"});
    output_of({"ingest", "d", "--no-flush"}, "{\"id\":2}\n");
  }
  static bool can(Strings words) {
    words.emplace_back("true");
    return run_program(words).status == 0;
  }
  // `before` are words that run the program as somebody else, or elsewhere.
  ProgramResult hyp_by(const Strings& before, const Strings& words) const {
    Strings all = before;
    all.insert(all.end(), {FIRN_HYP_PROGRAM, "--config", folder_ / "hyp.json"});
    all.insert(all.end(), words.begin(), words.end());
    return run_program(all);
  }
  void expect_readable(const Strings& before) const {
    struct Case {
      Strings words;
      const char* shown;
    };
    for (const Case& one :
         {Case{{"query", "select sum(id) as sum from d", "--format", "csv"}, "sum\n3\n"},
          Case{{"query", "select id from shipped", "--format", "csv"}, "id\n1\n"},
          Case{{"status"}, "to be flushed: d 1 line"}, Case{{"schema", "d"}, "id"}, Case{{"sink", "status"}, "lake"}}) {
      const ProgramResult result = hyp_by(before, one.words);
      EXPECT_EQ(result.status, 0) << one.words[0] << ": " << result.err;
      EXPECT_THAT(result.out, HasSubstr(one.shown)) << one.words[0];
    }
    const ProgramResult refused = hyp_by(before, {"flush"});
    EXPECT_EQ(refused.status, 1);
    EXPECT_THAT(refused.err, HasSubstr(folder_ / ".hyp/cache"));
  }
};

TEST_F(HypReadOnly, AFileSystemThatIsMountedSoIsRead) {
  const Strings apart = {"unshare", "--mount"};
  if (!can(apart)) GTEST_SKIP() << "no mounts of its own for a program here";
  Strings mounted = apart;
  mounted.insert(mounted.end(), {"sh", "-c", R"(mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@")",
                                 folder_.path()});
  expect_readable(mounted);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / ".hyp/cache/datasets")) {
    if (entry.path().extension() == ".lock") std::filesystem::remove(entry.path());  // as in a copy without them
  }
  expect_readable(mounted);
}

TEST_F(HypReadOnly, AnotherUserReadsAndIsToldWhatHeMayNotDo) {
  const Strings nobody = {"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"};
  if (!can(nobody)) GTEST_SKIP() << "no other user for a program here";
  std::filesystem::permissions(folder_.path(), std::filesystem::perms(0755));
  if (hyp_by(nobody, {"--version"}).status != 0) GTEST_SKIP() << "the program is not another user's to run";
  expect_readable(nobody);
  const std::string lock = folder_ / ".hyp/cache/datasets/d/source=default/table-1.lock";
  std::filesystem::remove(lock);
  const ProgramResult refused = hyp_by(nobody, {"query", "select * from d"});
  EXPECT_EQ(refused.status, 1) << "a writer may be there, so nothing is read without the lock";
  EXPECT_THAT(refused.err, AllOf(HasSubstr(lock), Not(HasSubstr("Binder"))));
}

TEST_F(Hyp, ACommandThatIsNoneIsAnsweredWithThoseThatThereAre) {
  write("hyp.json", "{}");
  const ProgramResult foo = hyp({"statsu"});
  EXPECT_EQ(foo.status, 2);
  EXPECT_THAT(foo.err,
              AllOf(HasSubstr("hyp: there is no command \"statsu\", did you mean \"status\""), HasSubstr("ingest")));
  const ProgramResult help = run_program({FIRN_HYP_PROGRAM, "help", "ingest"});
  EXPECT_EQ(help.status, 0);
  EXPECT_THAT(help.out, HasSubstr("--no-flush"));
  EXPECT_THAT(run_program({FIRN_HYP_PROGRAM, "--version"}).out, HasSubstr("hyp 0."));
  EXPECT_THAT(run_program({FIRN_HYP_PROGRAM, "ingest"}).err, testing::StartsWith("hyp: "));
  EXPECT_EQ(run_program({FIRN_HYP_PROGRAM, "status", "--config", folder_ / "hyp.json"}).status, 0);
}

TEST_F(Hyp, TheDefaultsAreNamedWhereThereIsNoConfiguration) {
  const ProgramResult result = run_program({"sh", "-c", "cd " + folder_.path() + " && " FIRN_HYP_PROGRAM " status"},
                                           {{"HOME", folder_ / "home"}, {"HYP_CONFIG", ""}});
  EXPECT_THAT(result.err, AllOf(HasSubstr("there is no hyp.json here"), HasSubstr(folder_ / "home/.hyp/cache")));
}

TEST_F(Hyp, AStatementThatChangesSomethingIsToldThatItMayNot) {
  write("hyp.json", "{}");
  output_of({"ingest", "events", "-"}, "{\"n\":1}\n");
  for (const std::string sql : {"insert into events values (2)", "drop table events", "delete from events",
                                "update events set n = 2", "-- a comment\n create table x as select 1"}) {
    EXPECT_THAT(hyp({"query", sql}).err, HasSubstr("only statements that read are run")) << sql;
  }
  EXPECT_THAT(hyp({"query", "select nothing from events"}).err, HasSubstr("nothing"));
}

TEST_F(Hyp, TheSchemaIsSpelledAsTheConfigurationTakesIt) {
  write("hyp.json", "{}");
  output_of({"ingest", "events", "-"}, "{\"s\":{\"host\":\"a\",\"ports\":[1]}}\n");
  EXPECT_THAT(output_of({"schema", "events"}), HasSubstr("struct<host: string, ports: list<long>>"));
  EXPECT_THAT(hyp({"schema", "event"}).err, AllOf(HasSubstr("no dataset event"), HasSubstr("there are: events")));
}

TEST_F(Hyp, DatasetsThatAreOnlySpooledAreInTheStatus) {
  write("hyp.json", "{}");
  output_of({"ingest", "events", "-", "--no-flush"}, "{\"n\":1}\n{\"n\":2}\n");
  EXPECT_THAT(output_of({"status"}), HasSubstr("to be flushed: events 2 lines"));
  EXPECT_EQ(Json::parse(output_of({"status", "--json"}))["spooledLines"]["events"], 2);
}

TEST_F(Hyp, RejectsAreInTheStatusEvenOfADatasetThatHasNothingElse) {
  write("hyp.json", "{}");
  EXPECT_THAT(output_of({"status"}), Not(HasSubstr("rejects")));
  EXPECT_EQ(hyp({"ingest", "events"}, "{\"n\":1}\nno row\n{\"n\":\"x\"}\n").status, 3);
  EXPECT_EQ(hyp({"ingest", "other"}, "no row\n").status, 3);
  const std::string file = folder_ / ".hyp/cache/rejects/events.ndjson";
  EXPECT_THAT(output_of({"status"}), AllOf(HasSubstr("events: 2 lines in " + file), HasSubstr("other: 1 line in ")));
  const Json rejects = Json::parse(output_of({"status", "--json"}))["rejects"];
  EXPECT_EQ(rejects["events"], (Json{{"lines", 2}, {"file", file}}));
  EXPECT_EQ(rejects["other"]["lines"], 1);
}

TEST_F(Hyp, WhatAnEarlierCommandLeftIsNotCountedAsThisOnes) {
  write("hyp.json", "{}");
  output_of({"ingest", "events", "--no-flush"}, "{\"n\":1}\nno row\n");
  const ProgramResult result = hyp({"ingest", "events"}, "{\"n\":2}\n");
  EXPECT_EQ(result.status, 3);
  EXPECT_THAT(
      result.out,
      AllOf(HasSubstr("took 1 line"), HasSubstr("the flush added 2 rows to the cache, of all that was spooled"),
            HasSubstr("1 row, of all that was spooled, was rejected"), HasSubstr("  source default, line 2: ")));
}

TEST_F(Hyp, AMisspeltDatasetOfASinkIsWarnedOf) {
  write("hyp.json", R"({"sinks": [{"name": "objects", "type": "blob", "path": "objects", "datasets": ["evnts"]}]})");
  output_of({"ingest", "events", "-"}, "{\"n\":1}\n");
  EXPECT_THAT(hyp({"sink", "run"}).err, AllOf(HasSubstr("\"evnts\""), HasSubstr("did you mean \"events\"?")));
}

// A daemon of its own for a test.
class HypDaemon : public Hyp {
 protected:
  void start() {
    pid_ = ::fork();
    ASSERT_GE(pid_, 0);
    if (pid_ == 0) {
      const std::string config = folder_ / "hyp.json", log = folder_ / "daemon.log";
      const int in = ::open("/dev/null", O_RDONLY), out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      ::dup2(in, 0);
      ::dup2(out, 1);
      ::dup2(out, 2);
      ::execl(FIRN_HYP_PROGRAM, FIRN_HYP_PROGRAM, "--config", config.c_str(), "daemon", static_cast<char*>(nullptr));
      ::_exit(127);
    }
    for (int i = 0; i < 500; ++i) {
      if (make_local_file_io()->read_if_exists(folder_ / "daemon.log").value_or("").find("serving") !=
          std::string::npos)
        return;
      ::usleep(20'000);
    }
    FAIL() << "no daemon";
  }
  void TearDown() override {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGTERM);
    ::waitpid(pid_, nullptr, 0);
  }
  pid_t pid_ = 0;
};

TEST_F(HypDaemon, PathsOfTheCallersOwnDescriptorsAreTheCallers) {
  write("hyp.json", "{\"listen\": \"\"}");
  start();
  EXPECT_THAT(output_of({"ingest", "events", "/dev/stdin", "--id", "a"}, "{\"n\":1}\n"), HasSubstr("took 1 line "));
  EXPECT_THAT(output_of({"ingest", "events", "/proc/self/fd/0", "--id", "a"}, "{\"n\":1}\n{\"n\":2}\n"),
              HasSubstr("took 1 line "));
  write("in.ndjson", "{\"n\":3}\n");
  const ProgramResult other =
      run_program({"bash", "-c",
                   FIRN_HYP_PROGRAM " --config " + folder_ / "hyp.json" + " ingest events <(echo '{\"n\":4}') && " +
                       FIRN_HYP_PROGRAM " --config " + folder_ / "hyp.json" + " ingest events /dev/stdin < " +
                       folder_ / "in.ndjson"});
  EXPECT_EQ(other.status, 0) << other.err;
  EXPECT_EQ(output_of({"query", "select n from events order by n", "--format", "csv"}), "n\n1\n2\n3\n4\n");
}

TEST_F(HypDaemon, AnIngestTellsAFlushesNumbersAsThoseOfAllThatWasSpooled) {
  write("hyp.json", "{\"listen\": \"\", \"flushIntervalMs\": 3600000}");
  start();
  output_of({"ingest", "events", "--no-flush"}, "{\"n\":0}\n");
  // The daemon flushes the first rows at once, and those that come then in an hour.
  for (int i = 0; i < 500 && Json::parse(output_of({"status", "--json"}))["spooledLines"].contains("events"); ++i)
    ::usleep(20'000);
  output_of({"ingest", "events", "--no-flush"}, "{\"n\":1}\n{\"n\":2}\n");
  EXPECT_THAT(
      output_of({"ingest", "events"}, "{\"n\":3}\n"),
      AllOf(HasSubstr("took 1 line"), HasSubstr("the flush added 3 rows to the cache, of all that was spooled")));
}

// The daemon owns the cache, so it is the one that purges, and what it still has in its spool goes, too.
TEST_F(HypDaemon, APurgeGoesThroughTheDaemonAndLeavesNoRowInAnyFile) {
  write("hyp.json", R"({"listen": "", "flushIntervalMs": 3600000,
    "sinks": [{"name": "out", "type": "blob", "path": "out", "format": "jsonl", "compression": "none"}]})");
  start();
  output_of({"ingest", "events"}, "{\"id\":1,\"who\":\"ann-5e21\"}\n{\"id\":2,\"who\":\"bob\"}\n");
  output_of({"sink", "run"});
  output_of({"ingest", "events", "--no-flush"}, "{\"id\":3,\"who\":\"ann-5e21\"}\n{\"id\":4,\"who\":\"eve\"}\n");
  const std::string said = output_of({"purge", "events", "--where", "who = 'ann-5e21'"});
  EXPECT_THAT(said, HasSubstr("events: 2 rows removed"));
  EXPECT_THAT(said, HasSubstr("out"));  // which has one of them, and keeps it
  EXPECT_THAT(hyp::files_with(folder_ / ".hyp", "ann-5e21"), testing::IsEmpty());
  EXPECT_EQ(output_of({"query", "select id from events order by id", "--format", "csv"}), "id\n2\n4\n");
  EXPECT_THAT(output_of({"sink", "run"}), HasSubstr("shipped 1 row"));
}

TEST_F(HypDaemon, AnotherConfigurationThanTheDaemonsIsRefused) {
  write("hyp.json", R"({"listen": "", "sinks": [{"name": "prod", "type": "blob", "path": "prod"}]})");
  start();
  write("other.json",
        R"({"listen": "", "cacheRoot": ".hyp/cache", "sinks": [{"name": "test", "type": "blob", "path": "test"}]})");
  const ProgramResult refused = run_program({FIRN_HYP_PROGRAM, "--config", folder_ / "other.json", "sink", "run"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("other.json"), HasSubstr("hyp.json"), HasSubstr("Nothing was done")));
  write("hyp.json", "{\"listen\": \"\"}");
  EXPECT_THAT(hyp({"flush"}).err, HasSubstr("was changed since the daemon read it"));
}

TEST_F(Hyp, AnEmptyFileIsNoRows) {
  write("hyp.json", "{}");
  write("empty.ndjson", "");
  EXPECT_THAT(output_of({"ingest", "events", folder_ / "empty.ndjson"}), HasSubstr("took 0 lines"));
  EXPECT_THAT(output_of({"ingest", "events", "-"}), HasSubstr("took 0 lines"));
}

TEST_F(Hyp, WhatIsNotThereIsNamed) {
  write("hyp.json", R"({"sinks": [{"name": "objects", "type": "blob", "path": "objects"}]})");
  EXPECT_THAT(hyp({"ingest", "events", folder_ / "absent"}).err, HasSubstr(folder_ / "absent"));
  EXPECT_THAT(hyp({"sink", "run", "--sink", "lines"}).err, HasSubstr("lines"));
  EXPECT_EQ(hyp({"sink", "run", "--sink", "lines"}).status, 1);
  EXPECT_EQ(hyp({"query", "select * from nothing"}).status, 1);
  EXPECT_THAT(hyp({"query", "select * from nothing"}).err, HasSubstr("nothing"));
}

TEST_F(Hyp, RowsInSpoolAndTableAreQueriedAndEachSinkShipsThemOnce) {
  write("hyp.json", R"({"datasets": {"events": {"primaryTimestampColumn": "at"}}, "sinks": [
      {"name": "objects", "type": "blob", "path": "objects"}, {"name": "archive", "type": "iceberg", "path": "archive"}]})");
  EXPECT_THAT(output_of({"ingest", "events", "-"}, "{\"at\":\"2024-03-01T00:00:00Z\",\"n\":1}\n{\"n\":2}\n"),
              HasSubstr("took 2 lines"));
  output_of({"ingest", "events", "-", "--no-flush"}, "{\"n\":3}\n");
  EXPECT_EQ(output_of({"query", "select count(*) as rows, sum(n) as n from events", "--format", "csv"}),
            "rows,n\n3,6\n");
  const std::string first = output_of({"sink", "run"});
  EXPECT_THAT(first, HasSubstr("objects: shipped 3 rows"));
  EXPECT_THAT(first, HasSubstr("archive: shipped 3 rows"));
  EXPECT_EQ(output_of({"sink", "run"}), "objects: nothing new\narchive: nothing new\n");
  for (const Json& one : Json::parse(output_of({"sink", "status", "--json"}))) {
    EXPECT_EQ(one["rowsBehind"], 0);
    EXPECT_EQ(one["exportedRows"], 3);
  }
  const Json status = Json::parse(output_of({"status", "--json"}));
  EXPECT_EQ(status["partitions"][0]["rows"], 3);
  EXPECT_EQ(status["spooledBytes"], 0);
  EXPECT_THAT(output_of({"schema", "events"}), HasSubstr("timestamptz"));
}

TEST_F(Hyp, AQueryHoldsMoreSourcesThanAShellGivesDescriptors) {
  write("hyp.json", R"({"datasets": {"events": {"sourceColumn": "s"}}})");
  std::string rows;
  for (int i = 0; i < 60; ++i) rows += fmt::format("{{\"s\":\"{}\"}}\n", i);
  output_of({"ingest", "events"}, rows);
  const std::string query = fmt::format("ulimit -Sn 64; exec {} --config {} query 'select count(*) as n from events'",
                                        FIRN_HYP_PROGRAM, folder_ / "hyp.json");
  const ProgramResult result = run_program({"/bin/sh", "-c", query}, {}, {});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("60"));
}

TEST_F(Hyp, APipeWithAnIdIsTakenOnce) {
  write("hyp.json", "{}");
  const std::string rows = "{\"n\":1}\n{\"n\":1}\n";
  EXPECT_THAT(output_of({"ingest", "events", "-", "--id", "x"}, rows), HasSubstr("took 2 lines"));
  EXPECT_THAT(output_of({"ingest", "events", "-", "--id", "x"}, rows + "{\"n\":2}\n"), HasSubstr("took 1 line "));
  EXPECT_EQ(output_of({"query", "select count(*) as rows from events", "--format", "json"}), "{\"rows\":3}\n");
}

TEST_F(Hyp, CollectPicksUpAppendedLines) {
  write("hyp.json", "{}");
  write("app.log", "{\"n\":1}\n{\"n\":");
  EXPECT_THAT(output_of({"collect", folder_ / "app.log", "--name", "app", "--dataset", "logs"}),
              HasSubstr("picked up 1 line "));
  const Descriptor file(::open((folder_ / "app.log").c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  ASSERT_EQ(::write(file.get(), "2}\n", 3), 3);
  EXPECT_THAT(output_of({"collect"}), HasSubstr("picked up 1 line "));
  EXPECT_EQ(output_of({"query", "select n from logs order by n", "--format", "csv"}), "n\n1\n2\n");
  EXPECT_THAT(output_of({"collect", "--list"}), HasSubstr("app.log"));
  output_of({"collect", "--remove", "app"});
  EXPECT_EQ(hyp({"collect", "--remove", "app"}).status, 1);
}

}  // namespace
}  // namespace firn
