// What a forward sink and a receiver tell each other (P11.1).
#include "hyp/http/wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace firn::hyp {
namespace {

std::string range_error(const std::string& text) {
  try {
    parse_seq_range(text);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::invalid_argument);
    return e.what();
  }
  return "no error";
}

TEST(Wire, ARangeReadsBackAsItWasWritten) {
  const std::vector<std::pair<SeqRange, std::string>> cases = {
      {{0, 10}, "0,10"},
      {{0, 1, true}, "0,1;start"},
      {{-5, 0, true}, "-5,0;start"},
      {{7, 7, false, 20}, "7,7;reset=20"},
      {{7, 7, false, -1}, "7,7;reset=-1"},
      {{INT64_MIN, INT64_MAX}, "-9223372036854775808,9223372036854775807"},
  };
  for (const auto& [range, text] : cases) {
    EXPECT_EQ(to_text(range), text);
    EXPECT_EQ(parse_seq_range(text), range) << text;
  }
}

TEST(Wire, ARangeThatMeansNothingIsRefusedWithTheReason) {
  using ::testing::HasSubstr;
  for (const std::string text : {"",
                                 "5",
                                 "5;start",
                                 ",",
                                 "1,",
                                 ",1",
                                 "a,b",
                                 "1,2,3",
                                 " 1,2",
                                 "1, 2",
                                 "1,2 ",
                                 "+1,2",
                                 "0x1,2",
                                 "1.0,2",
                                 "1,2;",
                                 "1,2;START",
                                 "1,2;start;",
                                 "1,2;start;reset=1",
                                 "1,2;reset=1;start",
                                 "2,2;reset=",
                                 "2,2;reset=x",
                                 ";start,1"}) {
    EXPECT_THAT(range_error(text), HasSubstr("\"" + text + "\"")) << text;
  }
  EXPECT_THAT(range_error("3,2"), HasSubstr("before it begins"));
  EXPECT_THAT(range_error("2,2"), HasSubstr("empty"));
  EXPECT_THAT(range_error("2,2;start"), HasSubstr("empty"));
  EXPECT_THAT(range_error("1,2;reset=2"), HasSubstr("reset"));
  EXPECT_THAT(range_error("0,9223372036854775808"), HasSubstr("64 bits"));
  EXPECT_THAT(range_error("1,1;reset=99999999999999999999"), HasSubstr("64 bits"));
}

TEST(Wire, ABodyAlwaysHasTheSameIdAndAnyOtherAnother) {
  const SeqRange range{1, 9};
  const std::string id = batch_id_of("logs", "c/logs/s", "open", range, "{}\n");
  EXPECT_EQ(id, batch_id_of("logs", "c/logs/s", "open", range, "{}\n"));
  EXPECT_EQ(id.size(), 64u);
  EXPECT_NE(id, batch_id_of("log", "sc/logs/s", "open", range, "{}\n")) << "where a part ends counts";
  EXPECT_NE(id, batch_id_of("logs", "c/logs/t", "open", range, "{}\n"));
  EXPECT_NE(id, batch_id_of("logs", "c/logs/s", "other", range, "{}\n"));
  EXPECT_NE(id, batch_id_of("logs", "c/logs/s", "open", {2, 9}, "{}\n"));
  EXPECT_NE(id, batch_id_of("logs", "c/logs/s", "open", range, "{}\n{}\n"));
  EXPECT_NE(id, batch_id_of("logs", "c/logs/s", "open", {1, 10}, "{}\n"))
      << "the same rows for a longer range are another step of the stream";
}

}  // namespace
}  // namespace firn::hyp
