#include "base/civil_time.h"

#include <gtest/gtest.h>

#include <limits>

namespace firn {
namespace {

// Expected values are those of Python's datetime.

TEST(CivilTime, CountsEveryDayOfTheYears1To9999) {
  constexpr int kLengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  int32_t days = -719162;  // 0001-01-01
  int64_t num_wrong = 0;
  for (int year = 1; year <= 9999; ++year) {
    const bool is_leap = year % 400 == 0 || (year % 4 == 0 && year % 100 != 0);
    for (int month = 1; month <= 12; ++month) {
      const int length = kLengths[month - 1] + (month == 2 && is_leap ? 1 : 0);
      for (int day = 1; day <= length; ++day, ++days) {
        const CivilDate date = civil_from_days(days);
        if (date.year != year || date.month != month || date.day != day) ++num_wrong;
        if (days_from_civil({year, month, day}) != days || !is_valid({year, month, day})) ++num_wrong;
      }
      if (is_valid({year, month, length + 1})) ++num_wrong;
    }
  }
  EXPECT_EQ(num_wrong, 0);
  EXPECT_EQ(days - 1, 2932896);  // 9999-12-31
}

TEST(CivilTime, DividesTowardNegativeInfinity) {
  EXPECT_EQ(floor_div(-1, 86400), -1);
  EXPECT_EQ(floor_mod(-1, 86400), 86399);
  EXPECT_EQ(floor_div(-86400, 86400), -1);
  EXPECT_EQ(floor_mod(-86400, 86400), 0);
  EXPECT_EQ(floor_div(86400, 86400), 1);
  EXPECT_EQ(floor_div(7, -2), -4);
}

TEST(CivilTime, FormatsAlwaysGiveTheStatedDigits) {
  EXPECT_EQ(format_date(0), "1970-01-01");
  EXPECT_EQ(format_date(-719162), "0001-01-01");
  EXPECT_EQ(format_date(2932896), "9999-12-31");
  EXPECT_EQ(format_time_us(0), "00:00:00.000000");
  EXPECT_EQ(format_time_us(86'399'999'999), "23:59:59.999999");
  EXPECT_EQ(format_timestamp_us(-1, false), "1969-12-31T23:59:59.999999");
  EXPECT_EQ(format_timestamp_us(1709251199999999, true), "2024-02-29T23:59:59.999999+00:00");
  EXPECT_EQ(format_timestamp_us(-62135596800000000, false), "0001-01-01T00:00:00.000000");
  EXPECT_EQ(format_timestamp_us(253402300799999999, false), "9999-12-31T23:59:59.999999");
  EXPECT_EQ(format_timestamp_ns(-1, true), "1969-12-31T23:59:59.999999999+00:00");
  EXPECT_EQ(format_timestamp_ms_utc(1709251199999), "2024-02-29T23:59:59.999Z");
  EXPECT_EQ(format_timestamp_ms_utc(-1), "1969-12-31T23:59:59.999Z");
}

TEST(CivilTime, FormatsTheExtremesOfInt64WithoutOverflow) {
  EXPECT_EQ(format_timestamp_us(std::numeric_limits<int64_t>::max(), false), "+294247-01-10T04:00:54.775807");
  EXPECT_EQ(format_timestamp_us(std::numeric_limits<int64_t>::min(), false), "-290308-12-21T19:59:05.224192");
  EXPECT_EQ(format_timestamp_ns(std::numeric_limits<int64_t>::min(), false), "1677-09-21T00:12:43.145224192");
  EXPECT_EQ(format_timestamp_ns(std::numeric_limits<int64_t>::max(), false), "2262-04-11T23:47:16.854775807");
}

TEST(CivilTime, ParsesDates) {
  EXPECT_EQ(parse_date("1970-01-01"), 0);
  EXPECT_EQ(parse_date("1969-12-31"), -1);
  EXPECT_EQ(parse_date("0001-01-01"), -719162);
  EXPECT_EQ(parse_date("9999-12-31"), 2932896);
  EXPECT_EQ(parse_date("2024-02-29"), 19782);
  for (const char* text :
       {"", "2023-02-29", "1900-02-29", "2024-04-31", "0000-01-01", "2024-13-01", "2024-00-01", "2024-1-01", "24-01-01",
        "2024-01-01 ", " 2024-01-01", "+2024-01-01", "2024-01-01T", "2024/01/01", "10000-01-01", "2024-01-0a"}) {
    EXPECT_EQ(parse_date(text), std::nullopt) << text;
  }
}

TEST(CivilTime, ParsesTimesOfDay) {
  EXPECT_EQ(parse_time_us("00:00"), 0);
  EXPECT_EQ(parse_time_us("23:59:59.999999"), 86'399'999'999);
  EXPECT_EQ(parse_time_us("10:00:00.5"), 36'000'500'000);
  EXPECT_EQ(parse_time_us("10:00:00.123456000"), 36'000'123'456);
  for (const char* text : {"", "24:00", "23:60", "23:59:60", "1:00", "10", "10:00:00.", "10:00:00.1234567",
                           "10:00:00.1234560000", "10:00Z", "10:00:00,5", "10:00 "}) {
    EXPECT_EQ(parse_time_us(text), std::nullopt) << text;
  }
}

TEST(CivilTime, ParsesTimestampsWithAndWithoutOffset) {
  const auto parse = [](std::string_view text) {
    const auto parsed = parse_timestamp_us(text);
    return parsed ? std::optional(std::pair(parsed->value, parsed->has_offset)) : std::nullopt;
  };
  EXPECT_EQ(parse("1970-01-01"), std::pair(int64_t{0}, false));
  EXPECT_EQ(parse("1969-12-31T23:59:59.999999Z"), std::pair(int64_t{-1}, true));
  EXPECT_EQ(parse("2024-02-29 23:59:59.999999"), std::pair(int64_t{1709251199999999}, false));
  EXPECT_EQ(parse("2024-02-29t23:59"), std::pair(int64_t{1709251140000000}, false));
  EXPECT_EQ(parse("2013-01-01T05:00:00z"), std::pair(int64_t{1357016400000000}, true));
  for (const char* text : {"2013-01-01T00:00:00-05:00", "2013-01-01T00:00:00-0500", "2013-01-01T00:00:00-05"}) {
    EXPECT_EQ(parse(text), std::pair(int64_t{1357016400000000}, true)) << text;
  }
  EXPECT_EQ(parse("2013-01-01T10:30:00+05:30"), std::pair(int64_t{1357016400000000}, true));
  EXPECT_EQ(parse("0001-01-01T00:00:00"), std::pair(int64_t{-62135596800000000}, false));
  EXPECT_EQ(parse("9999-12-31T23:59:59.999999"), std::pair(int64_t{253402300799999999}, false));
  for (const char* text :
       {"", "2024-02-30T00:00:00", "2024-02-29T24:00:00", "2024-12-31T23:59:60Z", "2024-02-29T", "2024-02-29Z",
        "2024-02-29T10:00:00.0000001", "2024-02-29T10:00:00+24:00", "2024-02-29T10:00:00+05:60", "2024-02-29T10:00+5",
        "2024-02-29T10:00:00 Z", "2024-02-29T10:00:00ZZ", "2024-02-29T10:00:00+05:", "2024-02-29T10:00:00+05:3",
        "2024-02-29_10:00:00", "0001-01-01T00:00:00+00:01", "9999-12-31T23:59:00-00:01"}) {
    EXPECT_EQ(parse(text), std::nullopt) << text;
  }
}

TEST(CivilTime, ParsesNanosecondsWithinTheirRange) {
  EXPECT_EQ(parse_timestamp_ns("1970-01-01T00:00:00.000000001")->value, 1);
  EXPECT_EQ(parse_timestamp_ns("1677-09-21T00:12:43.145224192")->value, std::numeric_limits<int64_t>::min());
  EXPECT_EQ(parse_timestamp_ns("2262-04-11T23:47:16.854775807")->value, std::numeric_limits<int64_t>::max());
  EXPECT_FALSE(parse_timestamp_ns("1677-09-21T00:12:43.145224191"));
  EXPECT_FALSE(parse_timestamp_ns("2262-04-11T23:47:16.854775808"));
  EXPECT_FALSE(parse_timestamp_ns("9999-12-31T23:59:59"));
}

TEST(CivilTime, ParsesWhateverItFormatsWhereAnyYearIsAsked) {
  const auto any = Years::any;
  for (const int32_t days : {std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max(), -719'163,
                             -719'528, -719'529, 2'932'896, 2'932'897, 0}) {
    EXPECT_EQ(parse_date(format_date(days), any), days) << format_date(days);
  }
  for (const int64_t value : {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max(),
                              int64_t{253402300800000000}, int64_t{-62135596800000001}, int64_t{0}}) {
    for (const bool with_offset : {false, true}) {
      const std::string us = format_timestamp_us(value, with_offset), ns = format_timestamp_ns(value, with_offset);
      ASSERT_TRUE(parse_timestamp_us(us, any)) << us;
      EXPECT_EQ(parse_timestamp_us(us, any)->value, value);
      EXPECT_EQ(parse_timestamp_us(us, any)->has_offset, with_offset);
      ASSERT_TRUE(parse_timestamp_ns(ns, any)) << ns;
      EXPECT_EQ(parse_timestamp_ns(ns, any)->value, value);
    }
  }
  EXPECT_EQ(parse_date("+10000-01-01", any), 2'932'897);
  EXPECT_EQ(parse_date("+2024-02-29", any), 19'782);
  EXPECT_EQ(parse_date("0000-02-29", any), -719'469);
  EXPECT_EQ(parse_timestamp_us("9999-12-31T23:59:00-00:01", any)->value, 253402300800000000);
  for (const char* text : {"-0000-01-01", "10000-01-01", "+999-01-01", "+10000000-01-01", "+5881580-07-12",
                           "-5877641-06-22", "--001-01-01", "+-001-01-01", "-0001-02-29", "+10001-02-29", "+", ""}) {
    EXPECT_EQ(parse_date(text, any), std::nullopt) << text;
  }
  EXPECT_FALSE(parse_timestamp_us("+294247-01-10T04:00:54.775808", any));
  EXPECT_FALSE(parse_timestamp_us("-290308-12-21T19:59:05.224191", any));
  EXPECT_FALSE(parse_timestamp_ns("+10000-01-01T00:00:00", any));
  EXPECT_FALSE(parse_timestamp_us("+10000-01-01T00:00:00")) << "four digits unless asked";
  EXPECT_FALSE(parse_date("0000-12-31"));
}

}  // namespace
}  // namespace firn
