// What a received body's rows are, whatever came before them.
#include "hyp/receiver/rows.h"

#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "hyp/capture/spool_format.h"

namespace firn::hyp {
namespace {

const RowMark kMark{"hyp_gateway", "edge", 1 << 20};

bool is_taken(const std::string& body) {
  const ReceivedRows rows = receive_rows(body, kMark, 1000);
  EXPECT_TRUE(rows.problem ? rows.text.empty() : !rows.text.empty());
  return !rows.problem;
}

// Names are remembered from row to row, which must not be seen: of all rows of up to three members, one after any other
// is judged as it is alone.
TEST(ReceivedRows, ARowIsJudgedAsIfItWereAlone) {
  const std::vector<std::string> members = {R"("a":1)",        R"("A":"x")",   R"("b":[])",
                                            R"("\u0061" : 2)", R"( "c":null)", R"("hyp_gateway":null)"};
  std::vector<std::string> rows = {"{}"};
  for (const std::string& first : members) {
    rows.push_back("{" + first + "}");
    for (const std::string& second : members) {
      rows.push_back("{" + first + "," + second + "}");
      for (const std::string& third : members) rows.push_back("{" + first + "," + second + "," + third + "}");
    }
  }
  std::map<std::string, bool> alone;
  for (const std::string& row : rows) alone[row] = is_taken(row);
  EXPECT_TRUE(alone.at(R"({"a":1,"b":[], "c":null})"));
  EXPECT_FALSE(alone.at(R"({"a":1,"b":[],"A":"x"})"));
  for (const std::string& before : rows) {
    if (!alone.at(before)) continue;
    for (const std::string& row : rows) {
      const ReceivedRows received = receive_rows(before + "\n" + row + "\n" + before, kMark, 1000);
      ASSERT_EQ(!received.problem, alone.at(row)) << before << " " << row;
      if (received.problem) {
        ASSERT_EQ(received.problem->line, 2) << before << " " << row;
      } else {
        ASSERT_EQ(received.rows, 3) << before << " " << row;
      }
    }
  }
}

TEST(ReceivedRows, CapturedLinesAreMarkedAsReceivedOnesAre) {
  const std::string body =
      "\xEF\xBB\xBF{\"a\":1}\n\t{ \"b\" : 2 }\r\n{}\n{ }\n{\"c\":3,\"hyp_gateway\":null}\n{\"hyp_gateway\":null}";
  const ReceivedRows received = receive_rows(body, kMark, 1000), captured = mark_rows(body, kMark);
  EXPECT_EQ(received.rows, 6);
  EXPECT_EQ(captured.rows, 6);
  EXPECT_EQ(with_row_member(received.text, row_member(kMark)), captured.text);
  EXPECT_EQ(captured.text,
            "{\"hyp_gateway\":\"edge\",\"a\":1}\n{\"hyp_gateway\":\"edge\",\"b\" : 2 }\r\n{\"hyp_gateway\":\"edge\"}\n"
            "{\"hyp_gateway\":\"edge\"}\n{\"hyp_gateway\":\"edge\",\"c\":3}\n{\"hyp_gateway\":\"edge\"}\n");
}

TEST(ReceivedRows, ABodyOfBlankLinesHasNoRows) {
  for (const char* body : {"", "\n", " \t\r\n\n", "  "}) {
    const ReceivedRows rows = receive_rows(body, kMark, 1000);
    EXPECT_FALSE(rows.problem);
    EXPECT_EQ(rows.rows, 0);
    EXPECT_EQ(rows.text, "");
  }
}

// Of tiny rows the gateway's column would make many times the body.
TEST(ReceivedRows, RowsThatTheGatewaysColumnMakesTooLongAreTooLong) {
  RowMark mark = kMark;
  std::string body;
  for (int i = 0; i < 100; ++i) body += "{}\n";
  mark.text_bytes_max = static_cast<int64_t>(with_row_member(body, row_member(mark)).size()) + 100;
  EXPECT_FALSE(receive_rows(body, mark, 1000).is_too_long);
  mark.text_bytes_max -= 101;
  EXPECT_TRUE(receive_rows(body, mark, 1000).is_too_long);
  EXPECT_TRUE(mark_rows(body, mark).is_too_long);
}

}  // namespace
}  // namespace firn::hyp
