// Text from outside on a line of ours.
#include "base/one_line.h"

#include <gtest/gtest.h>

namespace firn {
namespace {

TEST(OnOneLine, EscapesWhatWouldLeaveTheLineOrIsNoText) {
  EXPECT_EQ(on_one_line(""), "");
  EXPECT_EQ(on_one_line("plain \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"),
            "plain \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
  EXPECT_EQ(on_one_line("a\r\n\tb"), "a\\r\\n\\tb");
  EXPECT_EQ(on_one_line(std::string_view("a\0\x1b[31m\x7f", 8)), "a\\x00\\x1b[31m\\x7f");
  EXPECT_EQ(on_one_line("\xc2\x9b\xc2\xa0"), "\\u009b\xc2\xa0") << "U+009B begins a command of a terminal";
  // Not UTF-8: Latin-1, alone, overlong, a surrogate, above U+10FFFF, cut.
  EXPECT_EQ(on_one_line("caf\xe9!"), "caf\\xe9!");
  EXPECT_EQ(on_one_line("\xff\x80"), "\\xff\\x80");
  EXPECT_EQ(on_one_line("\xc0\xaf"), "\\xc0\\xaf");
  EXPECT_EQ(on_one_line("\xed\xa0\x80"), "\\xed\\xa0\\x80");
  EXPECT_EQ(on_one_line("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(on_one_line("\xe2\x82"), "\\xe2\\x82");
  EXPECT_EQ(on_one_line("\xe2\x82x\xe9\n"), "\\xe2\\x82x\\xe9\\n");
}

}  // namespace
}  // namespace firn
