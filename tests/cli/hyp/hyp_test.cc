// The command `hyp` as a user runs it.
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "io/file_io.h"
#include "io/local.h"
#include "support/run_program.h"
#include "support/temp_folder.h"

namespace firn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
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

TEST_F(Hyp, AnEmptyFileIsNoRows) {
  write("hyp.json", "{}");
  write("empty.ndjson", "");
  EXPECT_THAT(output_of({"ingest", "events", folder_ / "empty.ndjson"}), HasSubstr("took 0 rows"));
  EXPECT_THAT(output_of({"ingest", "events", "-"}), HasSubstr("took 0 rows"));
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
              HasSubstr("took 2 rows"));
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

TEST_F(Hyp, APipeWithAnIdIsTakenOnce) {
  write("hyp.json", "{}");
  const std::string rows = "{\"n\":1}\n{\"n\":1}\n";
  EXPECT_THAT(output_of({"ingest", "events", "-", "--id", "x"}, rows), HasSubstr("took 2 rows"));
  EXPECT_THAT(output_of({"ingest", "events", "-", "--id", "x"}, rows + "{\"n\":2}\n"), HasSubstr("took 1 rows"));
  EXPECT_EQ(output_of({"query", "select count(*) as rows from events", "--format", "json"}), "{\"rows\":3}\n");
}

TEST_F(Hyp, CollectPicksUpAppendedLines) {
  write("hyp.json", "{}");
  write("app.log", "{\"n\":1}\n{\"n\":");
  EXPECT_THAT(output_of({"collect", folder_ / "app.log", "--name", "app", "--dataset", "logs"}),
              HasSubstr("picked up 1 rows"));
  const Descriptor file(::open((folder_ / "app.log").c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  ASSERT_EQ(::write(file.get(), "2}\n", 3), 3);
  EXPECT_THAT(output_of({"collect"}), HasSubstr("picked up 1 rows"));
  EXPECT_EQ(output_of({"query", "select n from logs order by n", "--format", "csv"}), "n\n1\n2\n");
  EXPECT_THAT(output_of({"collect", "--list"}), HasSubstr("app.log"));
  output_of({"collect", "--remove", "app"});
  EXPECT_EQ(hyp({"collect", "--remove", "app"}).status, 1);
}

}  // namespace
}  // namespace firn
