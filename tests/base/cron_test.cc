#include "base/cron.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/civil_time.h"
#include "base/error.h"

namespace firn {
namespace {

// The next match after `time`, both as text.
std::string next(std::string_view schedule, std::string_view time) {
  const int64_t after_ms = parse_timestamp_us(time).value().value / 1000;
  return format_timestamp_ms_utc(CronSchedule::parse(schedule).next_after_ms(after_ms)).substr(0, 16);
}

std::string refusal(std::string_view schedule) {
  try {
    CronSchedule::parse(schedule).next_after_ms(0);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::invalid_argument);
    return e.what();
  }
  return "accepted";
}

TEST(Cron, GivesTheFirstMinuteStrictlyAfter) {
  EXPECT_EQ(next("* * * * *", "2024-01-01T00:00:00"), "2024-01-01T00:01");
  EXPECT_EQ(next("* * * * *", "2024-01-01T00:00:59.999"), "2024-01-01T00:01");
  EXPECT_EQ(next("30 4 * * *", "2024-01-01T04:29:59"), "2024-01-01T04:30");
  EXPECT_EQ(next("30 4 * * *", "2024-01-01T04:30"), "2024-01-02T04:30");
  EXPECT_EQ(next("59 23 31 12 *", "2024-12-31T23:59"), "2025-12-31T23:59");
}

TEST(Cron, TakesListsRangesStepsAndNames) {
  EXPECT_EQ(next("*/15 * * * *", "2024-01-01T00:50"), "2024-01-01T01:00");
  EXPECT_EQ(next("5-20/5 * * * *", "2024-01-01T00:16"), "2024-01-01T00:20");
  EXPECT_EQ(next("5-20/5 * * * *", "2024-01-01T00:20"), "2024-01-01T01:05");
  EXPECT_EQ(next("40/10 * * * *", "2024-01-01T00:45"), "2024-01-01T00:50");
  EXPECT_EQ(next("0,7,45 * * * *", "2024-01-01T00:07"), "2024-01-01T00:45");
  EXPECT_EQ(next("0 0 * feb,Nov *", "2024-03-01"), "2024-11-01T00:00");
  EXPECT_EQ(next("0 9 * * MON-FRI", "2024-01-05T09:00"), "2024-01-08T09:00");  // Friday to Monday
  EXPECT_EQ(next("0 0 * * fri-sun", "2024-01-06T12:00"), "2024-01-07T00:00");
  EXPECT_EQ(next(" 0\t0  1 1 * ", "2024-01-01"), "2025-01-01T00:00");
}

TEST(Cron, TakesZeroAndSevenForSunday) {
  EXPECT_EQ(next("0 0 * * 0", "2024-01-01"), "2024-01-07T00:00");
  EXPECT_EQ(next("0 0 * * 7", "2024-01-01"), "2024-01-07T00:00");
  EXPECT_EQ(next("0 0 * * 5-7", "2024-01-06"), "2024-01-07T00:00");
  EXPECT_EQ(next("0 0 * * */7", "2024-01-01"), "2024-01-07T00:00");
}

TEST(Cron, KnowsTheAliases) {
  EXPECT_EQ(next("@hourly", "2024-01-01T00:10"), "2024-01-01T01:00");
  EXPECT_EQ(next("@daily", "2024-02-28T12:00"), "2024-02-29T00:00");
  EXPECT_EQ(next("@weekly", "2024-01-01"), "2024-01-07T00:00");
  EXPECT_EQ(next("@monthly", "2024-01-01"), "2024-02-01T00:00");
  EXPECT_EQ(next("@yearly", "2024-01-01"), "2025-01-01T00:00");
  EXPECT_EQ(CronSchedule::parse("@daily").text(), "@daily");
}

// crontab(5): "If both fields are restricted (i.e., don't contain the "*" character), the command will be run when
// either field matches the current time."
TEST(Cron, MatchesEitherDayFieldWhereBothAreRestricted) {
  EXPECT_EQ(next("30 4 1,15 * 5", "2024-01-01T04:30"), "2024-01-05T04:30");  // a Friday
  EXPECT_EQ(next("30 4 1,15 * 5", "2024-01-12T04:30"), "2024-01-15T04:30");  // the 15th, a Monday
  EXPECT_EQ(next("30 4 */2 * 5", "2024-01-01"), "2024-01-05T04:30");         // a star: both must match
  EXPECT_EQ(next("30 4 */2 * 5", "2024-01-05T04:30"), "2024-01-19T04:30");
}

TEST(Cron, FindsLeapDaysEightYearsAwayAndTimesBefore1970) {
  EXPECT_EQ(next("0 0 29 2 *", "2024-02-29"), "2028-02-29T00:00");
  EXPECT_EQ(next("0 0 29 2 *", "2096-02-29"), "2104-02-29T00:00");
  EXPECT_EQ(next("0 12 * * *", "1969-12-30T13:00"), "1969-12-31T12:00");
  EXPECT_EQ(next("0 0 * * 3", "1969-12-30T13:00"), "1969-12-31T00:00");  // a Wednesday
}

TEST(Cron, NamesTheFieldThatIsWrong) {
  using testing::HasSubstr;
  EXPECT_THAT(refusal("60 * * * *"), HasSubstr("minute"));
  EXPECT_THAT(refusal("* 24 * * *"), HasSubstr("hour"));
  EXPECT_THAT(refusal("* * 0 * *"), HasSubstr("day of month"));
  EXPECT_THAT(refusal("* * * 13 *"), HasSubstr("month"));
  EXPECT_THAT(refusal("* * * * 8"), HasSubstr("day of week"));
  EXPECT_THAT(refusal("* * * foo *"), HasSubstr("foo"));
  EXPECT_THAT(refusal("*/0 * * * *"), HasSubstr("step"));
  EXPECT_THAT(refusal("20-10 * * * *"), HasSubstr("backwards"));
  EXPECT_THAT(refusal("1,,2 * * * *"), HasSubstr("empty part"));
  EXPECT_THAT(refusal("1, * * * *"), HasSubstr("empty part"));
  EXPECT_THAT(refusal("-1 * * * *"), HasSubstr("minute"));
  EXPECT_THAT(refusal("99999999999 * * * *"), HasSubstr("minute"));
  EXPECT_THAT(refusal("* * * *"), HasSubstr("five fields"));
  EXPECT_THAT(refusal("* * * * * *"), HasSubstr("five fields"));
  EXPECT_THAT(refusal(""), HasSubstr("five fields"));
  EXPECT_THAT(refusal("@often"), HasSubstr("five fields"));
  EXPECT_THAT(refusal("0 0 30 2 *"), HasSubstr("no minute"));
}

}  // namespace
}  // namespace firn
