#include "base/civil_time.h"

#include <limits>

#include <fmt/format.h>

namespace firn {
namespace {

constexpr int64_t kSecondsPerDay = 86'400;
constexpr int kYearDigitsMax = 7;  // of the farthest day of an int32: +5881580-07-11

struct WideDate {
  int64_t year;
  int32_t month;
  int32_t day;
};

// Years are counted from 1 March in eras of 400, so that the leap day is a year's last and every era is alike.
constexpr int64_t kDaysPerEra = 146'097;
constexpr int64_t kEpochShift = 719'468;  // days from 0000-03-01 to 1970-01-01

constexpr int64_t days_from(int64_t year, int32_t month, int32_t day) {
  if (month <= 2) --year;
  const int64_t era = floor_div(year, 400);
  const int64_t year_of_era = year - era * 400;
  const int64_t day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
  return era * kDaysPerEra + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - kEpochShift;
}

constexpr WideDate date_from(int64_t days) {
  days += kEpochShift;
  const int64_t era = floor_div(days, kDaysPerEra);
  const int64_t day_of_era = days - era * kDaysPerEra;
  const int64_t year_of_era =
      (day_of_era - day_of_era / 1'460 + day_of_era / 36'524 - day_of_era / (kDaysPerEra - 1)) / 365;
  const int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const int64_t month_from_march = (5 * day_of_year + 2) / 153;
  const auto day = static_cast<int32_t>(day_of_year - (153 * month_from_march + 2) / 5 + 1);
  const auto month = static_cast<int32_t>(month_from_march < 10 ? month_from_march + 3 : month_from_march - 9);
  return {year_of_era + era * 400 + (month <= 2 ? 1 : 0), month, day};
}

constexpr int32_t days_in_month(int64_t year, int32_t month) {
  if (month == 2) return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0 ? 29 : 28;
  return month == 4 || month == 6 || month == 9 || month == 11 ? 30 : 31;
}

constexpr bool is_day(CivilDate date) {
  return date.month >= 1 && date.month <= 12 && date.day >= 1 && date.day <= days_in_month(date.year, date.month);
}

constexpr bool has_usual_year(CivilDate date) { return date.year >= 1 && date.year <= 9999; }

std::string format_wide_date(int64_t days) {
  const WideDate date = date_from(days);
  // Beyond four digits ISO 8601 wants a sign.
  if (date.year > 9999) return fmt::format("+{}-{:02}-{:02}", date.year, date.month, date.day);
  if (date.year < 0) return fmt::format("-{:04}-{:02}-{:02}", -date.year, date.month, date.day);
  return fmt::format("{:04}-{:02}-{:02}", date.year, date.month, date.day);
}

std::string format_clock(int64_t second_of_day) {
  return fmt::format("{:02}:{:02}:{:02}", second_of_day / 3600, second_of_day / 60 % 60, second_of_day % 60);
}

std::string format_timestamp(int64_t value, int64_t units_per_second, int digits, std::string_view zone) {
  const int64_t seconds = floor_div(value, units_per_second);
  return fmt::format("{}T{}.{:0{}}{}", format_wide_date(floor_div(seconds, kSecondsPerDay)),
                     format_clock(floor_mod(seconds, kSecondsPerDay)), floor_mod(value, units_per_second), digits,
                     zone);
}

// Takes text from the front; every function returns false without a claim on the text's state.
struct Cursor {
  std::string_view rest;

  bool take(char c) {
    if (rest.empty() || rest.front() != c) return false;
    rest.remove_prefix(1);
    return true;
  }

  bool starts_with_digit() const { return !rest.empty() && rest.front() >= '0' && rest.front() <= '9'; }

  bool take_number(int digits, int32_t& value) {
    value = 0;
    for (int i = 0; i < digits; ++i) {
      if (!starts_with_digit()) return false;
      value = value * 10 + (rest.front() - '0');
      rest.remove_prefix(1);
    }
    return true;
  }

  // Four digits, or any: a sign and up to kYearDigitsMax of them. There is no year -0.
  bool take_year(Years years, int32_t& year) {
    const bool is_negative = !rest.empty() && rest.front() == '-';
    if (years != Years::any || (!take('+') && !take('-'))) return take_number(4, year);
    if (!take_number(4, year)) return false;
    for (int digits = 4; starts_with_digit(); ++digits) {
      if (digits == kYearDigitsMax) return false;
      year = year * 10 + (rest.front() - '0');
      rest.remove_prefix(1);
    }
    if (is_negative && year == 0) return false;
    if (is_negative) year = -year;
    return true;
  }

  bool take_date(Years years, int64_t& days) {
    CivilDate date;
    if (!take_year(years, date.year) || !take('-') || !take_number(2, date.month) || !take('-') ||
        !take_number(2, date.day) || !is_day(date)) {
      return false;
    }
    if (years != Years::any && !has_usual_year(date)) return false;
    days = days_from(date.year, date.month, date.day);
    return true;
  }

  // hh:mm[:ss[.f]], f of 1 to 9 digits of which those beyond the unit are zero.
  bool take_clock(int64_t units_per_second, int64_t& value) {
    int32_t hour = 0;
    int32_t minute = 0;
    int32_t second = 0;
    if (!take_number(2, hour) || !take(':') || !take_number(2, minute) || hour > 23 || minute > 59) return false;
    int64_t nanos = 0;
    if (take(':')) {
      if (!take_number(2, second) || second > 59) return false;
      if (take('.')) {
        if (!starts_with_digit()) return false;
        for (int64_t weight = 100'000'000; starts_with_digit(); weight /= 10) {
          if (weight == 0) return false;
          nanos += (rest.front() - '0') * weight;
          rest.remove_prefix(1);
        }
      }
    }
    const int64_t nanos_per_unit = 1'000'000'000 / units_per_second;
    if (nanos % nanos_per_unit != 0) return false;
    value = (hour * 3600 + minute * 60 + second) * units_per_second + nanos / nanos_per_unit;
    return true;
  }

  // Z, ±hh:mm, ±hhmm, ±hh or nothing, then the end.
  bool take_offset(std::optional<int32_t>& seconds) {
    if (rest.empty()) return true;
    if (take('Z') || take('z')) {
      seconds = 0;
      return rest.empty();
    }
    const bool is_negative = rest.front() == '-';
    if (!take('+') && !take('-')) return false;
    int32_t hours = 0;
    int32_t minutes = 0;
    if (!take_number(2, hours) || hours > 23) return false;
    if (!rest.empty()) {
      take(':');
      if (!take_number(2, minutes) || minutes > 59) return false;
    }
    seconds = (hours * 3600 + minutes * 60) * (is_negative ? -1 : 1);
    return rest.empty();
  }
};

std::optional<ParsedTimestamp> parse_timestamp(std::string_view text, int64_t units_per_second, Years years) {
  Cursor cursor{text};
  int64_t days = 0;
  int64_t clock = 0;
  std::optional<int32_t> offset_seconds;
  if (!cursor.take_date(years, days)) return std::nullopt;
  if (!cursor.rest.empty()) {
    if (!cursor.take('T') && !cursor.take('t') && !cursor.take(' ')) return std::nullopt;
    if (!cursor.take_clock(units_per_second, clock) || !cursor.take_offset(offset_seconds)) return std::nullopt;
  }
  const int64_t seconds = days * kSecondsPerDay + floor_div(clock, units_per_second) - offset_seconds.value_or(0);
  // An offset can carry an instant out of the years 0001 to 9999.
  if (years != Years::any &&
      (seconds < days_from(1, 1, 1) * kSecondsPerDay || seconds >= days_from(10'000, 1, 1) * kSecondsPerDay)) {
    return std::nullopt;
  }
  ParsedTimestamp parsed{0, offset_seconds.has_value()};
  // In nanoseconds an int64 holds only 1677 to 2262. The product may overflow where the sum does not (second
  // -9223372037).
  const __int128 value = static_cast<__int128>(seconds) * units_per_second + floor_mod(clock, units_per_second);
  if (value < std::numeric_limits<int64_t>::min() || value > std::numeric_limits<int64_t>::max()) return std::nullopt;
  parsed.value = static_cast<int64_t>(value);
  return parsed;
}

}  // namespace

int32_t days_from_civil(CivilDate date) { return static_cast<int32_t>(days_from(date.year, date.month, date.day)); }

CivilDate civil_from_days(int32_t days) {
  const WideDate date = date_from(days);
  return {static_cast<int32_t>(date.year), date.month, date.day};
}

bool is_valid(CivilDate date) { return is_day(date) && has_usual_year(date); }

std::string format_date(int32_t days) { return format_wide_date(days); }

std::string format_time_us(int64_t micros_of_day) {
  return fmt::format("{}.{:06}", format_clock(micros_of_day / 1'000'000), micros_of_day % 1'000'000);
}

std::string format_timestamp_us(int64_t micros, bool with_utc_offset) {
  return format_timestamp(micros, 1'000'000, 6, with_utc_offset ? "+00:00" : "");
}

std::string format_timestamp_ns(int64_t nanos, bool with_utc_offset) {
  return format_timestamp(nanos, 1'000'000'000, 9, with_utc_offset ? "+00:00" : "");
}

std::string format_timestamp_ms_utc(int64_t millis) { return format_timestamp(millis, 1'000, 3, "Z"); }

std::optional<int32_t> parse_date(std::string_view text, Years years) {
  Cursor cursor{text};
  int64_t days = 0;
  if (!cursor.take_date(years, days) || !cursor.rest.empty()) return std::nullopt;
  if (days < std::numeric_limits<int32_t>::min() || days > std::numeric_limits<int32_t>::max()) return std::nullopt;
  return static_cast<int32_t>(days);
}

std::optional<int64_t> parse_time_us(std::string_view text) {
  Cursor cursor{text};
  int64_t micros = 0;
  if (!cursor.take_clock(1'000'000, micros) || !cursor.rest.empty()) return std::nullopt;
  return micros;
}

std::optional<ParsedTimestamp> parse_timestamp_us(std::string_view text, Years years) {
  return parse_timestamp(text, 1'000'000, years);
}
std::optional<ParsedTimestamp> parse_timestamp_ns(std::string_view text, Years years) {
  return parse_timestamp(text, 1'000'000'000, years);
}

}  // namespace firn
