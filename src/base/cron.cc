#include "base/cron.h"

#include <array>
#include <bit>
#include <cctype>
#include <optional>
#include <span>
#include <vector>

#include "base/civil_time.h"
#include "base/error.h"

namespace firn {
namespace {

constexpr std::array<std::string_view, 12> kMonths = {"jan", "feb", "mar", "apr", "may", "jun",
                                                      "jul", "aug", "sep", "oct", "nov", "dec"};
constexpr std::array<std::string_view, 7> kWeekdays = {"sun", "mon", "tue", "wed", "thu", "fri", "sat"};
constexpr int64_t kMillisPerMinute = 60'000;
constexpr int64_t kMinutesPerDay = 1'440;
constexpr int64_t kDaysSearched = 8 * 366;  // 29 February is up to eight years away (1896, 1904)

struct Field {
  std::string_view title;
  int first;
  int last;
  std::span<const std::string_view> names = {};  // of first, first + 1, …
};

constexpr Field kMinute{"minute", 0, 59};
constexpr Field kHour{"hour", 0, 23};
constexpr Field kDay{"day of month", 1, 31};
constexpr Field kMonth{"month", 1, 12, kMonths};
constexpr Field kWeekday{"day of week", 0, 7, kWeekdays};

struct FieldParser {
  std::string_view schedule;
  const Field& field;

  [[noreturn]] void refuse(std::string_view part, std::string_view why) const {
    fail(ErrorKind::invalid_argument, "cron schedule \"{}\": the {} field has \"{}\": {}", schedule, field.title, part,
         why);
  }

  int parse_number(std::string_view text, std::string_view part) const {
    if (text.empty() || text.size() > 4) refuse(part, "a number is expected");
    int value = 0;
    for (const char c : text) {
      if (c < '0' || c > '9') refuse(part, "a number is expected");
      value = value * 10 + (c - '0');
    }
    return value;
  }

  int parse_value(std::string_view text, std::string_view part) const {
    for (size_t i = 0; i < field.names.size(); ++i) {
      if (text == field.names[i]) return field.first + static_cast<int>(i);
    }
    const int value = parse_number(text, part);
    if (value < field.first || value > field.last) {
      refuse(part, fmt::format("use {} to {}", field.first, field.last));
    }
    return value;
  }

  // One of "*", "a", "a-b", each with "/step"; "a/step" goes on to the field's end.
  uint64_t parse_part(std::string_view part) const {
    const size_t slash = part.find('/');
    const std::string_view range = part.substr(0, slash);
    int step = 1;
    if (slash != std::string_view::npos) {
      step = parse_number(part.substr(slash + 1), part);
      if (step == 0) refuse(part, "the step must be at least 1");
    }
    int from = field.first;
    int to = field.last;
    if (range != "*") {
      const size_t dash = range.find('-');
      from = parse_value(range.substr(0, dash), part);
      if (dash != std::string_view::npos) {
        to = parse_value(range.substr(dash + 1), part);
        if (&field == &kWeekday && to == 0 && from > 0) to = 7;  // fri-sun
      } else if (slash == std::string_view::npos) {
        to = from;
      }
      if (from > to) refuse(part, "the range runs backwards");
    } else if (&field == &kWeekday) {
      to = 6;  // 7 is 0 once more: a step must not count Sunday twice
    }
    uint64_t bits = 0;
    for (int value = from; value <= to; value += step) bits |= uint64_t{1} << value;
    return bits;
  }

  uint64_t parse(std::string_view text) const {
    uint64_t bits = 0;
    for (size_t start = 0; start <= text.size();) {
      const size_t comma = std::min(text.find(',', start), text.size());
      const std::string_view part = text.substr(start, comma - start);
      if (part.empty()) refuse(text, "a list has an empty part");
      bits |= parse_part(part);
      start = comma + 1;
    }
    return bits;
  }
};

std::vector<std::string_view> split_fields(std::string_view text) {
  std::vector<std::string_view> fields;
  for (size_t i = 0; i < text.size();) {
    if (text[i] == ' ' || text[i] == '\t') {
      ++i;
      continue;
    }
    const size_t end = std::min(text.find_first_of(" \t", i), text.size());
    fields.push_back(text.substr(i, end - i));
    i = end;
  }
  return fields;
}

std::string_view expand_alias(std::string_view text) {
  if (text == "@hourly") return "0 * * * *";
  if (text == "@daily" || text == "@midnight") return "0 0 * * *";
  if (text == "@weekly") return "0 0 * * 0";
  if (text == "@monthly") return "0 0 1 * *";
  if (text == "@yearly" || text == "@annually") return "0 0 1 1 *";
  return text;
}

}  // namespace

CronSchedule CronSchedule::parse(std::string_view text) {
  CronSchedule schedule;
  schedule.text_ = text;
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  std::vector<std::string_view> fields = split_fields(lower);
  if (fields.size() == 1) fields = split_fields(expand_alias(fields[0]));
  if (fields.size() != 5) {
    fail(
        ErrorKind::invalid_argument,
        "cron schedule \"{}\": expected five fields (minute, hour, day of month, month, day of week) or one of @hourly "
        "@daily @weekly @monthly @yearly, found {}",
        text, fields.size());
  }
  schedule.minutes_ = FieldParser{text, kMinute}.parse(fields[0]);
  schedule.hours_ = static_cast<uint32_t>(FieldParser{text, kHour}.parse(fields[1]));
  schedule.days_ = static_cast<uint32_t>(FieldParser{text, kDay}.parse(fields[2]));
  schedule.months_ = static_cast<uint32_t>(FieldParser{text, kMonth}.parse(fields[3]));
  const uint64_t weekdays = FieldParser{text, kWeekday}.parse(fields[4]);
  schedule.weekdays_ = static_cast<uint32_t>((weekdays | weekdays >> 7) & 0x7f);
  // cron(8) takes a field as unrestricted when it begins with a star, "*/2" too.
  schedule.any_day_ = fields[2].front() == '*';
  schedule.any_weekday_ = fields[4].front() == '*';
  schedule.next_after_ms(0);
  return schedule;
}

int64_t CronSchedule::next_after_ms(int64_t unix_ms) const {
  const int64_t first_minute = floor_div(unix_ms, kMillisPerMinute) + 1;
  const int64_t first_day = floor_div(first_minute, kMinutesPerDay);
  for (int64_t day = first_day; day <= first_day + kDaysSearched; ++day) {
    const CivilDate date = civil_from_days(static_cast<int32_t>(day));
    if (!(months_ >> date.month & 1)) continue;
    const bool day_matches = days_ >> date.day & 1;
    const bool weekday_matches = weekdays_ >> floor_mod(day + 4, 7) & 1;  // 1970-01-01 was a Thursday
    const bool both_needed = any_day_ || any_weekday_;
    if (both_needed ? !(day_matches && weekday_matches) : !(day_matches || weekday_matches)) continue;
    const int64_t from = day == first_day ? floor_mod(first_minute, kMinutesPerDay) : 0;
    for (int64_t hour = from / 60; hour < 24; ++hour) {
      if (!(hours_ >> hour & 1)) continue;
      const int64_t skipped = hour == from / 60 ? from % 60 : 0;
      const uint64_t minutes = minutes_ >> skipped << skipped;
      if (minutes != 0) return ((day * 24 + hour) * 60 + std::countr_zero(minutes)) * kMillisPerMinute;
    }
  }
  fail(ErrorKind::invalid_argument, "cron schedule \"{}\" matches no minute within 8 years", text_);
}

}  // namespace firn
