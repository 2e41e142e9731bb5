// `hyp purge` as a user runs it.
#include <filesystem>

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
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class HypPurge : public testing::Test {
 protected:
  HypPurge() { replace_file(folder_ / "hyp.json", "{}"); }

  ProgramResult hyp(std::vector<std::string> words, std::string_view input = {}) const {
    words.insert(words.begin(), {FIRN_HYP_PROGRAM, "--config", folder_ / "hyp.json"});
    return run_program(words, {}, input);
  }
  std::string output_of(const std::vector<std::string>& words, std::string_view input = {}) const {
    const ProgramResult result = hyp(words, input);
    EXPECT_EQ(result.status, 0) << result.err;
    return result.out;
  }
  std::vector<std::string> files_with(const std::string& text) const { return hyp::files_with(folder_ / ".hyp", text); }

  TempFolder folder_;
};

TEST_F(HypPurge, RemovesRowsThatAreCachedOrOnlySpooledAndSaysHowMany) {
  output_of({"ingest", "events"}, R"({"id":1,"who":"ann-5e21"}
{"id":2,"who":"bob"}
)");
  output_of({"ingest", "events", "--source", "b", "--no-flush"}, R"({"id":3,"who":"ann-5e21"}
)");
  EXPECT_THAT(files_with("ann-5e21"), Not(IsEmpty()));
  const std::string where = "who = 'ann-5e21'";
  EXPECT_THAT(output_of({"purge", "events", "--where", where, "--dry-run"}),
              HasSubstr("events: 2 rows would be removed from 2 partitions"));
  EXPECT_THAT(output_of({"purge", "events", "--where", where}), HasSubstr("events: 2 rows removed from 2 partitions"));
  EXPECT_THAT(files_with("ann-5e21"), IsEmpty());
  EXPECT_EQ(output_of({"query", "select id from events", "--format", "csv"}), "id\n2\n");
  const Json again = Json::parse(output_of({"purge", "events", "--where", where, "--json"}));
  EXPECT_EQ(again["rows"], 0);
  EXPECT_EQ(again["waiting"], Json::array());
  EXPECT_TRUE(again["rejects"].is_null());
}

TEST_F(HypPurge, SaysThatRejectedLinesWereNotLookedAt) {
  EXPECT_EQ(hyp({"ingest", "events"}, "{\"id\":1}\n{\"id\":\n").status, 3);
  EXPECT_THAT(output_of({"purge", "events", "--where", "true"}),
              AllOf(HasSubstr("1 row removed"), HasSubstr("rejects/events.ndjson")));
}

TEST_F(HypPurge, RefusesWhatItDoesNotUnderstandAndRemovesNothing) {
  output_of({"ingest", "events"}, "{\"id\":1}\n");
  EXPECT_EQ(hyp({"purge", "events"}).status, 2);
  struct Case {
    std::vector<std::string> words;
    int status;
    const char* message;
  };
  for (const Case& one : {
           Case{{"purge", "event", "--where", "id = 1"}, 1, "did you mean \"events\""},
           Case{{"purge", "events", "--where", "ie = 1"}, 1, "did you mean \"id\""},
           Case{{"purge", "events", "--where", "id = 'x'"}, 1, "id"},
           // Never right, whatever is there: wrong usage.
           Case{{"purge", "events", "--where", "id = "}, 2, "--where \"id = \""},
           Case{{"purge", "events", "--where", "{}"}, 2, "--where"},
           Case{{"purge", "events", "--where", " "}, 2, "--where is empty"},
           Case{{"purge", "events", "--where", ""}, 2, "--where is empty"},
       }) {
    const ProgramResult result = hyp(one.words);
    EXPECT_EQ(result.status, one.status) << one.words.back();
    EXPECT_THAT(result.err, HasSubstr(one.message));
  }
  EXPECT_EQ(output_of({"query", "select id from events", "--format", "csv"}), "id\n1\n");
}

TEST_F(HypPurge, RowsThatCannotBeFlushedAreSaidToStayUnpurgedAlsoWhereTheDatasetHasNoOthers) {
  const std::string partition = folder_ / ".hyp/cache/datasets/events/source=default";
  output_of({"ingest", "events", "--no-flush"}, "{\"id\":1}\n");
  make_directories(partition);
  replace_file(partition + "/table-1", "");  // where the table's folder is to be
  const auto expect_unpurged = [&](const std::string& where) {
    const ProgramResult result = hyp({"purge", "events", "--where", where});
    EXPECT_EQ(result.status, 1);
    EXPECT_THAT(result.err, AllOf(HasSubstr("source=default"), HasSubstr("its rows stay in the spool, unpurged")));
    return result.err;
  };
  EXPECT_THAT(expect_unpurged("id = 1"), AllOf(Not(HasSubstr("no column")), Not(HasSubstr("no dataset"))));
  EXPECT_THAT(hyp({"purge", "event", "--where", "id = 1"}).err, HasSubstr("there is no dataset \"event\""));
  std::filesystem::rename(partition + "/table-1", partition + "/table-2");
  make_directories(partition + "/table-1");  // one that was begun
  EXPECT_THAT(expect_unpurged("id = 1"), AllOf(Not(HasSubstr("no column")), Not(HasSubstr("no dataset"))));
  // Another source has a table, and not the column.
  EXPECT_EQ(hyp({"ingest", "events", "--source", "b"}, "{\"other\":1}\n").status, 1);
  EXPECT_THAT(expect_unpurged("id = 1"), HasSubstr("has no column \"id\""));
  EXPECT_EQ(output_of({"query", "select id from events where id is not null", "--format", "csv"}), "id\n1\n");
}

}  // namespace
}  // namespace firn
