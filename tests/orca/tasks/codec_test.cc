// Values cross processes whole, and damaged ones are told.
#include <gtest/gtest.h>

#include "orca/tasks/codec.h"

namespace codec_test {

struct Inner {
  int16_t a = 0;
  std::string b;
  bool operator==(const Inner&) const = default;
};
struct Outer {
  bool flag = false;
  double number = 0;
  std::optional<Inner> maybe;
  std::vector<Inner> many;
  std::map<std::string, int64_t> map;
  std::array<uint8_t, 3> bytes{};
  std::pair<int, std::string> pair;
  std::tuple<int, Inner> tuple;
  bool operator==(const Outer&) const = default;
};
struct Empty {
  bool operator==(const Empty&) const = default;
};
// Not an aggregate: it says how it crosses.
class Own {
 public:
  Own() = default;
  explicit Own(std::string text) : text_(std::move(text)) {}
  void encode(std::string& out) const { firn::orca::encode_value(out, text_ + "!"); }
  static Own decode(std::string_view bytes, size_t& position) {
    std::string text = firn::orca::decode_value<std::string>(bytes, position);
    text.pop_back();
    return Own(text);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};
struct Holder {
  Own own;
  int64_t rows = 0;
};

}  // namespace codec_test

namespace firn::orca {
namespace {

using namespace codec_test;

template <class T>
std::string bytes_of(const T& value) {
  std::string bytes;
  encode_value(bytes, value);
  return bytes;
}

TEST(Codecs, ValuesComeBackAsTheyWent) {
  const Outer outer{.flag = true,
                    .number = -0.1,
                    .maybe = Inner{-3, "x"},
                    .many = {{1, std::string("\0y", 2)}, {2, ""}},
                    .map = {{"k", 1LL << 60}},
                    .bytes = {1, 2, 255},
                    .pair = {7, "p"},
                    .tuple = {8, {9, "t"}}};
  EXPECT_EQ(decode_whole<Outer>(bytes_of(outer)), outer);
  EXPECT_EQ(decode_whole<Outer>(bytes_of(Outer{})), Outer{});
  EXPECT_EQ(decode_whole<std::vector<Empty>>(bytes_of(std::vector<Empty>(5))).size(), 5U);
}

TEST(Codecs, ATypeSaysHowItCrossesAndStructsThatHoldItFollow) {
  const Holder holder = decode_whole<Holder>(bytes_of(Holder{.own = Own("text"), .rows = 4}));
  EXPECT_EQ(holder.own.text(), "text");
  EXPECT_EQ(holder.rows, 4);
}

TEST(Codecs, BytesThatEndEarlyOrLieAreCorrupt) {
  const std::string whole = bytes_of(Outer{.many = {{1, "abc"}}, .map = {{"k", 1}}});
  for (size_t length = 0; length < whole.size(); ++length) {
    try {
      decode_whole<Outer>(whole.substr(0, length));
      ADD_FAILURE() << "taken at length " << length;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::corrupt);
    }
  }
  EXPECT_THROW(decode_whole<Outer>(whole + "x"), Error);
  const std::string huge(8, '\xff');  // a count of 2^64 - 1
  EXPECT_THROW(decode_whole<std::string>(huge), Error);
  EXPECT_THROW((decode_whole<std::vector<Empty>>(huge)), Error);
  EXPECT_THROW((decode_whole<std::map<int, int>>(huge)), Error);
  EXPECT_THROW(decode_whole<bool>(std::string(1, '\2')), Error);
}

}  // namespace
}  // namespace firn::orca
