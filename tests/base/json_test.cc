#include "base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace firn {
namespace {

using testing::HasSubstr;

// The message of the error that `work` throws, which must be of kind corrupt.
template <class Work>
std::string corrupt_message(Work work) {
  try {
    work();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::corrupt) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

TEST(Json, SaysWhereTheMistakeIs) {
  const auto parse = [](std::string_view text) {
    return corrupt_message([&] { parse_json(text, "/t/v1.metadata.json"); });
  };
  EXPECT_THAT(parse("{\n  \"a\": 1,\n  \"b\": x\n}"), HasSubstr("/t/v1.metadata.json: line 3, column 8: "));
  EXPECT_THAT(parse("[1,]"), HasSubstr("line 1, column 4: "));
  EXPECT_THAT(parse("[1] 2"), HasSubstr("line 1, column 5: "));
  EXPECT_THAT(parse("{\"a\": 1e999}"), HasSubstr("line 1, column "));
  EXPECT_THAT(parse("\"\xff\""), HasSubstr("line 1, column 2: "));  // not UTF-8
  EXPECT_THAT(parse(""), HasSubstr("line 1, column 1: "));
  EXPECT_THAT(parse("{\"a\": [1, 2"), HasSubstr("line 1, column 12: "));
}

TEST(Json, RefusesNestingThatWouldExhaustTheStack) {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  EXPECT_THAT(corrupt_message([&] { parse_json(deep, "deep"); }), HasSubstr("line 1, column 513: nested deeper"));
  EXPECT_NO_THROW(parse_json(std::string(512, '[') + std::string(512, ']'), "allowed"));
  EXPECT_NO_THROW(parse_json("\"" + std::string(1000, '[') + "\\\"" + std::string(1000, '{') + "\"", "in a string"));
}

TEST(Json, KeepsMemberOrderAndTheLastOfDuplicates) {
  EXPECT_EQ(parse_json(R"({"z": 1, "a": 2, "z": 3})", "x").dump(), R"({"z":3,"a":2})");
}

TEST(Json, AccessorsNameTheMember) {
  const Json object = parse_json(R"({"n": 9223372036854775808, "f": 1.5, "s": "x", "i": -5, "null": null,
                                     "b": true, "big": 2147483648, "list": [], "inner": {}})",
                                 "here");
  EXPECT_EQ(get_int64(object, "i", "here"), -5);
  EXPECT_EQ(get_int64(object, "big", "here"), 2147483648);
  EXPECT_EQ(get_int32(object, "i", "here"), -5);
  EXPECT_TRUE(get_bool(object, "b", "here"));
  EXPECT_EQ(get_string(object, "s", "here"), "x");
  EXPECT_TRUE(get_array(object, "list", "here").empty());
  EXPECT_TRUE(get_object(object, "inner", "here").empty());
  EXPECT_EQ(corrupt_message([&] { get_int64(object, "n", "here"); }),
            "here: \"n\" should be a 64-bit integer, not 9223372036854775808");
  EXPECT_THAT(corrupt_message([&] { get_int64(object, "f", "here"); }), HasSubstr("1.5"));
  EXPECT_THAT(corrupt_message([&] { get_int32(object, "big", "here"); }), HasSubstr("32-bit"));
  EXPECT_EQ(corrupt_message([&] { get_string(object, "none", "here"); }), "here: \"none\" is missing");
  EXPECT_THAT(corrupt_message([&] { get_string(object, "null", "here"); }), HasSubstr("should be a string, not null"));
  EXPECT_THAT(corrupt_message([&] { get_array(object, "inner", "here"); }),
              HasSubstr("should be an array, not object"));
  EXPECT_THAT(corrupt_message([&] { get_int64(Json::array(), "a", "here"); }), HasSubstr("expected an object"));
}

TEST(Json, FindersTakeNullAndAbsentAsNoneAndRefuseOtherTypes) {
  const Json object = parse_json(R"({"i": 1, "s": "x", "null": null})", "here");
  EXPECT_EQ(find_int64(object, "i", "here"), 1);
  EXPECT_EQ(find_int32(object, "null", "here"), std::nullopt);
  EXPECT_EQ(find_bool(object, "none", "here"), std::nullopt);
  EXPECT_EQ(find_string(object, "s", "here"), "x");
  EXPECT_EQ(find_member(object, "null"), nullptr);
  EXPECT_THAT(corrupt_message([&] { find_int64(object, "s", "here"); }), HasSubstr("\"s\""));
}

}  // namespace
}  // namespace firn
