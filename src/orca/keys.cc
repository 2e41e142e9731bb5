#include "orca/keys.h"

#include "base/civil_time.h"
#include "base/clock.h"

namespace firn::orca {

Day Day::parse(std::string_view text) {
  const std::optional<int32_t> days = parse_date(text);
  if (!days) fail(ErrorKind::invalid_argument, "\"{}\" is no day (2013-01-31)", text);
  return {*days};
}

std::string Day::str() const { return format_date(days); }

Hour Hour::parse(std::string_view text) {
  if (text.size() == 13 && (text[10] == 'T' || text[10] == ' ')) {
    const std::optional<int32_t> days = parse_date(text.substr(0, 10));
    const char tens = text[11], ones = text[12];
    const int hour = (tens - '0') * 10 + (ones - '0');
    if (days && tens >= '0' && tens <= '2' && ones >= '0' && ones <= '9' && hour < 24)
      return {*days * int64_t{24} + hour};
  }
  fail(ErrorKind::invalid_argument, "\"{}\" is no hour (2013-01-31T05)", text);
}

std::string Hour::str() const { return fmt::format("{}T{:02}", day().str(), hour_of_day()); }
Day Hour::day() const { return {static_cast<int32_t>(floor_div(hours, 24))}; }
int Hour::hour_of_day() const { return static_cast<int>(floor_mod(hours, 24)); }

std::vector<Day> days_between(Day first, Day last) {
  std::vector<Day> days;
  for (Day day = first; day <= last; day = day.plus(1)) days.push_back(day);
  return days;
}

std::vector<Hour> hours_between(Hour first, Hour last) {
  std::vector<Hour> hours;
  for (Hour hour = first; hour <= last; hour = hour.plus(1)) hours.push_back(hour);
  return hours;
}

void check_key(const std::string& text) {
  if (text.empty()) fail(ErrorKind::invalid_argument, "a key is empty; a partition needs a name");
  // As JSON, so that a message can show it, and the first of it where it is long.
  const auto shown = [&] { return Json(text.substr(0, 60)).dump(-1, ' ', false, Json::error_handler_t::replace); };
  if (text.size() > kKeyBytesMax)
    fail(ErrorKind::invalid_argument, "the key {}… has {} bytes, and {} is the most; name it by something shorter",
         shown(), text.size(), kKeyBytesMax);
  if (text.find('\0') != std::string::npos)
    fail(ErrorKind::invalid_argument,
         "the key {} has a NUL, which no name of a partition can have; leave it out, or "
         "encode the key, as hexadecimal or base64",
         shown());
  if (!internal::is_utf8(text))
    fail(ErrorKind::invalid_argument, "the key {} is not UTF-8 (bytes {}); encode it, as hexadecimal or base64",
         shown(), to_hex(text.substr(0, 16)));
}

Day today() { return {static_cast<int32_t>(floor_div(now_ms(), 86'400'000))}; }

}  // namespace firn::orca
