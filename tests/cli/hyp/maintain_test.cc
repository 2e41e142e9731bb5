// `hyp maintain` and what `hyp status` tells of it, as a user runs them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "io/file_io.h"
#include "io/local.h"
#include "support/run_program.h"
#include "support/temp_folder.h"

namespace firn {
namespace {

using ::testing::HasSubstr;

class HypMaintain : public testing::Test {
 protected:
  std::string output_of(std::vector<std::string> words, std::string_view input = {}) const {
    words.insert(words.begin(), {FIRN_HYP_PROGRAM, "--config", folder_ / "hyp.json"});
    const ProgramResult result = run_program(words, {}, input);
    EXPECT_EQ(result.status, 0) << result.err;
    return result.out;
  }

  TempFolder folder_;
};

TEST_F(HypMaintain, CompactsDropsDuplicatesAndSaysSo) {
  replace_file(folder_ / "hyp.json", R"({"datasets": {"logs": {"dedupe": "content"}}, "compaction": {"minFiles": 4}})");
  for (const char* row : {"{\"id\":1}\n", "{\"id\":2}\n", "{\"id\":3}\n", "{\"id\":4}\n", "{\"id\":1}\n"})
    output_of({"ingest", "logs", "-"}, row);
  EXPECT_THAT(output_of({"maintain", "--dry-run"}), HasSubstr("logs: would be compacted: 5 of 5 files are small"));
  EXPECT_EQ(Json::parse(output_of({"status", "--json"}))["partitions"][0]["generation"], "table-1");
  const Json report = Json::parse(output_of({"maintain", "--json"}));
  ASSERT_EQ(report["compaction"].size(), 1u);
  EXPECT_EQ(report["compaction"][0]["swapped"], true);
  EXPECT_EQ(report["compaction"][0]["duplicatesDropped"], 1);
  EXPECT_EQ(report["generationsRemoved"], 1);
  EXPECT_THAT(output_of({"maintain"}), HasSubstr("nothing to do"));
  const Json status = Json::parse(output_of({"status", "--json"}))["partitions"][0];
  EXPECT_EQ(status["rows"], 4);
  EXPECT_EQ(status["files"], 1);
  EXPECT_EQ(status["generation"], "table-2");
  EXPECT_EQ(status["generations"], 1);
  EXPECT_EQ(status["lastCompaction"]["filesBefore"], 5);
  EXPECT_EQ(status["lastCompaction"]["filesAfter"], 1);
  EXPECT_THAT(output_of({"status"}), HasSubstr("5 files became 1"));
  EXPECT_THAT(output_of({"query", "select count(*) as n from logs", "--format", "csv"}), HasSubstr("4"));
}

}  // namespace
}  // namespace firn
