// Bounds cut short stay bounds (cases.md 2).
#include "iceberg/bounds.h"

#include <random>

#include <gtest/gtest.h>

#include "iceberg/type.h"
#include "support/test_seed.h"

namespace firn::iceberg {
namespace {

const TypePtr kString = Type::primitive(TypeId::string);
const TypePtr kBinary = Type::primitive(TypeId::binary);

std::optional<Value> text(const char* value) { return Value(std::string(value)); }

TEST(Bounds, StringsAreCutByCodePointAndTheUpperOneIsBumped) {
  const Value json = R"({"name":"John O’Brien"})";
  const auto lower = truncate_lower(json, *kString, 16), upper = truncate_upper(json, *kString, 16);
  EXPECT_EQ(lower, text(R"({"name":"John O’)"));
  EXPECT_EQ(std::get<std::string>(*lower).size(), 18u);
  EXPECT_EQ(upper, text("{\"name\":\"John O\u201A"));
}

TEST(Bounds, WhatFitsIsNotCutNorBumped) {
  EXPECT_EQ(truncate_lower(Value("abc"), *kString, 3), text("abc"));
  EXPECT_EQ(truncate_upper(Value("abc"), *kString, 3), text("abc"));
  EXPECT_EQ(truncate_upper(Value("日本語"), *kString, 3), text("日本語"));
  EXPECT_EQ(truncate_upper(Value(""), *kString, 1), text(""));
  EXPECT_EQ(truncate_upper(Value(int32_t{7}), *Type::primitive(TypeId::int_), 1), Value(int32_t{7}));
}

TEST(Bounds, UpperSkipsSurrogatesAndCarriesPastTheLastCodePoint) {
  EXPECT_EQ(truncate_upper(Value("\xED\x9F\xBFx"), *kString, 1), text("\uE000"));
  EXPECT_EQ(truncate_upper(Value("\x7Fx"), *kString, 1), text("\u0080"));
  EXPECT_EQ(truncate_upper(Value("\u07FFx"), *kString, 1), text("\u0800"));
  EXPECT_EQ(truncate_upper(Value("\uFFFFx"), *kString, 1), text("\U00010000"));
  EXPECT_EQ(truncate_upper(Value("a\U0010FFFFx"), *kString, 2), text("b"));
  EXPECT_EQ(truncate_upper(Value("\U0010FFFF\U0010FFFFx"), *kString, 2), std::nullopt);
}

TEST(Bounds, BytesAreBumpedAtTheLastThatIsNotAllOnes) {
  const auto bytes = [](const char* value) { return std::optional<Value>(Value(std::string(value))); };
  EXPECT_EQ(truncate_lower(Value("\x01\x02\x03"), *kBinary, 2), bytes("\x01\x02"));
  EXPECT_EQ(truncate_upper(Value("\x01\x02\x03"), *kBinary, 2), bytes("\x01\x03"));
  EXPECT_EQ(truncate_upper(Value("\x01\xFF\x03"), *kBinary, 2), bytes("\x02"));
  EXPECT_EQ(truncate_upper(Value("\xFF\xFF\x03"), *kBinary, 2), std::nullopt);
  EXPECT_EQ(truncate_upper(Value("\xFF\xFF"), *kBinary, 2), bytes("\xFF\xFF"));
  EXPECT_EQ(truncate_upper(Value("\x01\x02\x03"), *Type::fixed(3), 2), bytes("\x01\x03"));
}

TEST(Bounds, TextThatIsNoUtf8HasNone) {
  EXPECT_EQ(truncate_lower(Value("a\xFF"), *kString, 16), std::nullopt);
  EXPECT_EQ(truncate_upper(Value("a\xFF"), *kString, 16), std::nullopt);
}

TEST(Bounds, Utf8IsToldFromWhatLooksLikeIt) {
  EXPECT_TRUE(is_utf8("aé日\U0001F600"));
  EXPECT_TRUE(is_utf8("\xF4\x8F\xBF\xBF"));
  EXPECT_FALSE(is_utf8("\xC0\x80")) << "overlong";
  EXPECT_FALSE(is_utf8("\xE0\x9F\xBF")) << "overlong";
  EXPECT_FALSE(is_utf8("\xF0\x8F\xBF\xBF")) << "overlong";
  EXPECT_FALSE(is_utf8("\xED\xA0\x80")) << "a surrogate";
  EXPECT_FALSE(is_utf8("\xF4\x90\x80\x80")) << "above U+10FFFF";
  EXPECT_FALSE(is_utf8("\xE6\x97")) << "cut";
  EXPECT_FALSE(is_utf8("\x80"));
}

TEST(Bounds, EveryValueLiesBetweenItsCutBounds) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const std::vector<std::string> pieces = {"a",      "é",          "\u07FF",     "\xED\x9F\xBF",
                                           "\uFFFF", "\U0001F600", "\U0010FFFF", "\x7F"};
  for (int i = 0; i < 2000; ++i) {
    std::string characters, raw;
    for (uint64_t n = random() % 6; n > 0; --n) {
      characters += pieces[random() % pieces.size()];
      raw.push_back(static_cast<char>(random() % 4 == 0 ? 0xFF : random()));
    }
    const auto width = static_cast<int32_t>(1 + random() % 4);
    for (const auto& [value, type] : {std::pair(Value(characters), kString), std::pair(Value(raw), kBinary)}) {
      const auto lower = truncate_lower(value, *type, width), upper = truncate_upper(value, *type, width);
      ASSERT_TRUE(lower);
      EXPECT_TRUE(compare(*lower, value) <= 0);
      EXPECT_TRUE(!upper || compare(*upper, value) >= 0);
      if (upper && type == kString) {
        EXPECT_TRUE(is_utf8(std::get<std::string>(*upper)));
        EXPECT_LE(count_code_points(std::get<std::string>(*upper)), static_cast<size_t>(width));
      }
    }
  }
}

}  // namespace
}  // namespace firn::iceberg
