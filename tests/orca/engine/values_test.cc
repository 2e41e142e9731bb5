// Inputs, outputs and keys as JSON and as text.
#include <gtest/gtest.h>

#include "base/error.h"
#include "orca/keys.h"

namespace values_test {  // of a user's own namespace

enum class Colour : uint8_t { red = 1, green = 2 };
struct Point {
  int32_t x = 0;
  double y = 0;
};
struct Everything {
  bool flag = false;
  int64_t big = 0;
  std::string text;
  std::optional<int64_t> maybe;
  std::vector<Point> points;
  std::map<std::string, std::vector<int64_t>> groups;
  Colour colour = Colour::red;
  firn::orca::Day day;
  std::pair<int64_t, std::string> pair;
};
ORCA_FIELDS(Everything, flag, big, text, maybe, points, groups, colour, day, pair);
struct Empty {};
struct Bytes {
  std::string raw;
  void encode(std::string& out) const { firn::orca::encode_value(out, raw); }
  static Bytes decode(std::string_view bytes, size_t& position) {
    return {firn::orca::decode_value<std::string>(bytes, position)};
  }
};

}  // namespace values_test

namespace firn::orca {
namespace {

using namespace values_test;

TEST(Values, NamedFieldsAreObjectsAndOthersArrays) {
  Everything all{.flag = true,
                 .big = 9'007'199'254'740'993,
                 .text = "a\"b",
                 .points = {{1, 0.5}},
                 .groups = {{"g", {1, 2}}},
                 .colour = Colour::green,
                 .day = Day::parse("2013-01-31"),
                 .pair = {4, "p"}};
  const Json json = value_to_json(all);
  EXPECT_EQ(
      json.dump(),
      R"({"flag":true,"big":9007199254740993,"text":"a\"b","maybe":null,"points":[[1,0.5]],"groups":{"g":[1,2]},"colour":2,"day":"2013-01-31","pair":[4,"p"]})");
  const auto back = value_from_json<Everything>(Json::parse(json.dump()), "it");
  EXPECT_EQ(value_to_json(back).dump(), json.dump());
  EXPECT_EQ(back.big, all.big);
  EXPECT_EQ(back.day, all.day);
  EXPECT_EQ(value_to_json(Empty{}).dump(), "[]");
}

TEST(Values, TypesThatCrossInBytesOfTheirOwnAreHexadecimal) {
  const Bytes bytes{std::string("\0\xff", 2)};
  const Json json = value_to_json(bytes);
  ASSERT_TRUE(json.is_string());
  EXPECT_EQ(value_from_json<Bytes>(json, "it").raw, bytes.raw);
  EXPECT_THROW(value_from_json<Bytes>("zz", "it"), Error);
}

TEST(Values, WhatDoesNotFitIsNamed) {
  const auto message = [](const std::string& text) {
    try {
      value_from_json<Everything>(Json::parse(text), "input 1");
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::corrupt);
      return std::string(e.what());
    }
    return std::string("nothing was thrown");
  };
  EXPECT_NE(message("[]").find("input 1: [] should be an object"), std::string::npos);
  EXPECT_NE(message(R"({"flag": 1})").find("input 1.flag: 1 should be true or false"), std::string::npos);
  EXPECT_NE(message(R"({"flag": true})").find("an object with big"), std::string::npos);
  EXPECT_THROW(value_from_json<int32_t>(Json(3'000'000'000), "it"), Error);
  EXPECT_THROW(value_from_json<uint8_t>(Json(-1), "it"), Error);
  EXPECT_THROW(value_from_json<int64_t>(Json(1.5), "it"), Error);
  EXPECT_THROW(value_from_json<int64_t>(Json(18'446'744'073'709'551'615U), "it"), Error);
  EXPECT_THROW(value_to_json(std::string("\xff")), Error) << "JSON is UTF-8";
}

TEST(Values, NumbersThatJsonHasNoWordForComeBack) {
  EXPECT_TRUE(std::isnan(value_from_json<double>(Json::parse(value_to_json(std::nan("")).dump()), "it")));
  EXPECT_EQ(value_from_json<double>(value_to_json(-std::numeric_limits<double>::infinity()), "it"),
            -std::numeric_limits<double>::infinity());
  EXPECT_EQ(value_from_json<double>(Json::parse(value_to_json(0.1).dump()), "it"), 0.1);
}

TEST(Values, TypesSayWhatTheyAre) {
  EXPECT_EQ(json_type<Everything>(),
            "{flag:bool,big:integer,text:string,maybe:integer?,points:[{integer,number}],groups:{*:[integer]},colour:"
            "enum,day:text,pair:[integer,string]}");
}

TEST(Keys, AreTextAndBack) {
  EXPECT_EQ(key_text(Day::parse("2013-01-31")), "2013-01-31");
  EXPECT_EQ(key_text(Hour::parse("2013-01-31T05")), "2013-01-31T05");
  EXPECT_EQ(key_text<int64_t>(-4), "-4");
  EXPECT_EQ(key_text<std::string>("a b"), "a b");
  EXPECT_EQ(key_text(Point{1, 2.5}), "[1,2.5]");
  EXPECT_EQ(key_from_text<Point>("[1,2.5]").y, 2.5);
  EXPECT_EQ(key_from_text<Hour>("1969-12-31T23").hours, -1);
  EXPECT_EQ(Hour{-1}.day().str(), "1969-12-31");
  EXPECT_THROW(key_text<std::string>(""), Error);
  for (const char* wrong : {"2013-01-31T24", "2013-01-31T5", "2013-02-30T01", "2013-01-31", ""})
    EXPECT_THROW(Hour::parse(wrong), Error) << wrong;
  EXPECT_THROW(key_from_text<int64_t>("1x"), Error);
}

TEST(Keys, ThatNoDatabaseHoldsAreRefusedByName) {
  const auto message = [](const std::string& key) {
    try {
      return key_text(key);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::invalid_argument);
      return std::string(e.what());
    }
  };
  EXPECT_NE(message(std::string("a\0b", 3)).find("the key \"a\\u0000b\" has a NUL"), std::string::npos);
  EXPECT_NE(message("a\xff").find("the key \"a\xEF\xBF\xBD\" is not UTF-8 (bytes 61ff)"), std::string::npos);
  EXPECT_EQ(message(std::string(1'024, 'k')), std::string(1'024, 'k')) << "as long as a key may be";
  EXPECT_NE(message(std::string(1'025, 'k')).find("has 1025 bytes, and 1024 is the most"), std::string::npos);
  EXPECT_THROW(key_text(std::vector<std::string>{"\xff"}), Error) << "a key's JSON is UTF-8";
  EXPECT_EQ(key_text(std::vector<std::string>{std::string("\0", 1)}), "[\"\\u0000\"]") << "as JSON it has none";
}

TEST(Keys, RangesHaveBothEnds) {
  EXPECT_EQ(key_range<Day>("2012-02-28", "2012-03-01"),
            (std::vector<std::string>{"2012-02-28", "2012-02-29", "2012-03-01"}));
  EXPECT_EQ(key_range<Hour>("2013-12-31T23", "2014-01-01T00"),
            (std::vector<std::string>{"2013-12-31T23", "2014-01-01T00"}));
  EXPECT_EQ(key_range<int64_t>("-1", "1"), (std::vector<std::string>{"-1", "0", "1"}));
  EXPECT_THROW(key_range<int64_t>("2", "1"), Error);
  EXPECT_THROW(key_range<int64_t>("-9223372036854775808", "9223372036854775807"), Error);
  EXPECT_EQ(days_between(Day::parse("2013-01-01"), Day::parse("2013-12-31")).size(), 365U);
}

}  // namespace
}  // namespace firn::orca
