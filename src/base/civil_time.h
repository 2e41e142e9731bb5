// Proleptic Gregorian dates and UTC times, without locale or time zone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace firn {

// Division and remainder that round toward negative infinity (before 1970 they differ from C's).
constexpr int64_t floor_div(int64_t a, int64_t b) { return a / b - ((a % b != 0) && ((a < 0) != (b < 0)) ? 1 : 0); }
constexpr int64_t floor_mod(int64_t a, int64_t b) { return a % b + ((a % b != 0) && ((a < 0) != (b < 0)) ? b : 0); }

struct CivilDate {
  int32_t year = 1970;
  int32_t month = 1;  // 1–12
  int32_t day = 1;    // 1–31
};

int32_t days_from_civil(CivilDate date);  // days since 1970-01-01
CivilDate civil_from_days(int32_t days);
bool is_valid(CivilDate date);  // a day that exists, year 1–9999

// Text as ISO 8601 and Iceberg's single-value JSON write it. Formats always give the stated digits; years beyond 9999
// or before 0000 get a sign: +10000-01-01, -0001-12-31.
std::string format_date(int32_t days);                                  // 2024-02-29
std::string format_time_us(int64_t micros_of_day);                      // 23:59:59.999999
std::string format_timestamp_us(int64_t micros, bool with_utc_offset);  // 2024-02-29T23:59:59.999999[+00:00]
std::string format_timestamp_ns(int64_t nanos, bool with_utc_offset);   // nine digits
std::string format_timestamp_ms_utc(int64_t millis);                    // 2024-02-29T23:59:59.999Z, for our own files

// Parsers take what RFC 3339 and ISO 8601 allow in common use: 'T', 't' or a space; no seconds or seconds with 0–9
// digits (digits beyond the unit must be zero, else nullopt); 'Z', 'z', ±hh:mm, ±hhmm, ±hh or no offset; a date alone
// is its midnight. nullopt for all else, days that do not exist, 24:00 and leap seconds included.
// Years::any also takes what the formats write of every value: 0000, and a sign with four to seven digits, as far as
// the unit reaches.
enum class Years : uint8_t { from_1_to_9999, any };
std::optional<int32_t> parse_date(std::string_view text, Years years = Years::from_1_to_9999);  // days
std::optional<int64_t> parse_time_us(std::string_view text);  // microseconds of the day
struct ParsedTimestamp {
  int64_t value = 0;  // in the asked unit, UTC if has_offset, else local
  bool has_offset = false;
};
std::optional<ParsedTimestamp> parse_timestamp_us(std::string_view text, Years years = Years::from_1_to_9999);
std::optional<ParsedTimestamp> parse_timestamp_ns(std::string_view text, Years years = Years::from_1_to_9999);

}  // namespace firn
