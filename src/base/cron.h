// Cron schedules of five fields (minute hour day-of-month month day-of-week), in UTC.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace firn {

// Lists, ranges, steps, names (jan, mon), 0 and 7 for Sunday, and @hourly @daily @weekly @monthly @yearly. As in cron,
// where both day fields are restricted a day matches if either does.
class CronSchedule {
 public:
  // Throws invalid_argument naming the field; also where no minute matches within 8 years (30 February).
  static CronSchedule parse(std::string_view text);
  // The first matching minute strictly after `unix_ms` (UTC milliseconds since 1970).
  int64_t next_after_ms(int64_t unix_ms) const;
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  uint64_t minutes_ = 0;
  uint32_t hours_ = 0, days_ = 0, months_ = 0, weekdays_ = 0;
  bool any_day_ = true, any_weekday_ = true;
};

}  // namespace firn
