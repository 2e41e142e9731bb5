// Precompiled once for all tests, after cmake/pch.h.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

// As in cmake/pch.h: what comparisons of JSON and text are made of.
inline void firn_test_pch_instantiate(const nlohmann::ordered_json& json, const std::string& text) {
  EXPECT_EQ(json, json);
  EXPECT_EQ(json, text);
  EXPECT_EQ(json, "");
  EXPECT_EQ(json, 0);
  EXPECT_EQ(json, int64_t{0});
  EXPECT_EQ(json, true);
  EXPECT_EQ(json.size(), 0U);
  EXPECT_EQ(json.get<std::string>(), "");
  EXPECT_EQ(text, text);
  EXPECT_NE(text, "");
  EXPECT_EQ(int64_t{0}, 0);
  EXPECT_GT(int64_t{0}, 0);
  EXPECT_EQ(std::vector<std::string>(), std::vector<std::string>());
  EXPECT_EQ(std::vector<int64_t>(), std::vector<int64_t>());
  EXPECT_THAT(text, testing::AllOf(testing::HasSubstr(""), testing::Not(testing::HasSubstr(text))));
  EXPECT_THAT(std::vector<std::string>(), testing::ElementsAre("", ""));
}
