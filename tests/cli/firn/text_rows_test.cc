// Rows of text whose lines say less, or more, than a row.
#include "cli/firn/run_firn.h"

namespace firn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class TextRows : public FirnCommand {
 protected:
  ProgramResult append_text(const std::string& format, const std::string& text, const Strings& more = {}) {
    Strings words = {"append", table_, "-", "--format", format};
    words.insert(words.end(), more.begin(), more.end());
    return run_firn(words, {}, text);
  }
};

TEST_F(TextRows, AnEmptyLineOfOneColumnIsANull) {
  output_of({"create", table_, "--column", "c string"});
  output_of({"append", table_, "-"}, {}, "{\"c\":null}\n{\"c\":\"\"}\n{\"c\":\"x\"}\n{\"c\":\"a\\n\\nb\"}\n{}\n");
  const std::string printed = output_of({"scan", table_, "--csv"});
  EXPECT_EQ(printed, "c\n\n\"\"\nx\n\"a\n\nb\"\n\n");
  const Strings rows = rows_of(table_);
  EXPECT_EQ(rows.size(), 5U);
  for (const char* line_end : {"\n", "\r\n"}) {
    const std::string copy = folder_ / ("copy" + std::to_string(std::string(line_end).size()));
    output_of({"create", copy, "--column", "c string"});
    std::string text;
    for (const std::string& part : {"c", "", "\"\"", "x", "\"a\n\nb\"", ""}) text += part + line_end;
    output_of({"append", copy, "-", "--format", "csv"}, {}, "\xEF\xBB\xBF" + std::string(line_end) + text);
    EXPECT_EQ(rows_of(copy), rows);
  }
}

TEST_F(TextRows, EmptyLinesOfSeveralColumnsArePassedOver) {
  create();
  EXPECT_EQ(append_text("csv", "\nid,name\n\n1,a\n\n2,\n\n").status, 0);
  EXPECT_EQ(rows_of(table_), (Strings{R"({"id":1,"name":"a"})", R"({"id":2,"name":null})"}));
}

TEST_F(TextRows, ARowThatHasAColumnTwiceIsRefused) {
  create();
  EXPECT_THAT(append_text("json", "{\"id\":1}\n{\"id\":2,\"name\":\"a\",\"\\u0069d\":3}\n").err,
              AllOf(HasSubstr("line 2"), HasSubstr("'id'")));
  EXPECT_THAT(append_text("csv", "id,id\n1,2\n").err, HasSubstr("'id'"));
  EXPECT_EQ(count(), "0\n");
  // Not what only looks like one, in a text.
  EXPECT_EQ(append_text("json", R"({"id":1,"name":"\"id\":{[\\"})").status, 0);
  EXPECT_EQ(rows_of(table_), Strings{R"({"id":1,"name":"\"id\":{[\\"})"});
}

TEST_F(TextRows, NoColumnWithoutANameIsAdded) {
  create();
  EXPECT_THAT(append_text("csv", ",id\n0,1\n", {"--add-columns"}).err, HasSubstr("has no name"));
  EXPECT_THAT(append_text("json", "{\"id\":1,\"\":0}\n", {"--add-columns"}).err, HasSubstr("has no name"));
  EXPECT_EQ(count(), "0\n");
}

TEST_F(TextRows, RowsThatNoFileCouldHoldAreRefused) {
  output_of({"create", table_, "--column", "c unknown", "--property", "format-version=3"});
  EXPECT_THAT(append_text("json", "{\"c\":null}\n{}\n").err, AllOf(HasSubstr(table_), HasSubstr("unknown")));
  output_of({"alter", "add-column", table_, "x", "int"});
  EXPECT_EQ(append_text("json", "{\"c\":null}\n{}\n").status, 0);
  EXPECT_EQ(count(), "2\n");
}

}  // namespace
}  // namespace firn
