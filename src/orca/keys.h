// The keys that mapped steps run over: days, hours, integers, strings, and structs (as their JSON).
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "orca/json_value.h"

namespace firn::orca {

// A day in UTC, "2013-01-31".
struct Day {
  int32_t days = 0;                         // since 1970-01-01
  static Day parse(std::string_view text);  // throws invalid_argument
  std::string str() const;
  Day plus(int32_t count) const { return {days + count}; }
  auto operator<=>(const Day&) const = default;
};

// An hour in UTC, "2013-01-31T05".
struct Hour {
  int64_t hours = 0;                         // since 1970-01-01
  static Hour parse(std::string_view text);  // throws invalid_argument
  std::string str() const;
  Day day() const;
  int hour_of_day() const;
  Hour plus(int64_t count) const { return {hours + count}; }
  auto operator<=>(const Hour&) const = default;
};

std::vector<Day> days_between(Day first, Day last);  // both included
std::vector<Hour> hours_between(Hour first, Hour last);
Day today();

template <class K>
concept RangedKey =
    std::is_same_v<K, Day> || std::is_same_v<K, Hour> || (std::is_integral_v<K> && !std::is_same_v<K, bool>);

inline constexpr size_t kKeyBytesMax = 1'024;  // PostgreSQL's indexes take rows of 2,704 bytes

// Throws invalid_argument, naming the key, where it cannot be a partition's name: it is empty, not UTF-8, has a NUL
// (which PostgreSQL's text cannot hold) or more than kKeyBytesMax bytes. The same in both databases.
void check_key(const std::string& text);

// A key as the partition's name in state, commands and snapshots. Throws as check_key().
template <class K>
std::string key_text(const K& key) {
  std::string text;
  if constexpr (std::is_same_v<K, std::string>) {
    text = key;
  } else if constexpr (TextValue<K>) {
    text = key.str();
  } else {
    try {
      text = value_to_json(key).dump();
    } catch (const Error& e) {  // a string of it is not UTF-8
      throw Error(e.kind(), "a key", e);
    }
  }
  check_key(text);
  return text;
}

// Throws invalid_argument.
template <class K>
K key_from_text(const std::string& text) {
  if constexpr (std::is_same_v<K, std::string>) {
    return text;
  } else if constexpr (TextValue<K>) {
    return K::parse(text);
  } else {
    try {
      return value_from_json<K>(parse_json(text, "a key"), "a key");
    } catch (const Error& e) {
      throw Error(ErrorKind::invalid_argument, "\"" + text + "\" is no key of this step", e);
    }
  }
}

inline constexpr int64_t kRangeMax = 1'000'000;

// The keys from `from` to `to`, both included. Throws invalid_argument where `to` comes first, or there are too many.
template <class K>
std::vector<std::string> key_range(const std::string& from, const std::string& to) {
  const K first = key_from_text<K>(from), last = key_from_text<K>(to);
  const auto number = [](const K& key) {
    if constexpr (std::is_same_v<K, Day>) {
      return static_cast<int64_t>(key.days);
    } else if constexpr (std::is_same_v<K, Hour>) {
      return key.hours;
    } else {
      return static_cast<int64_t>(key);
    }
  };
  if (number(last) < number(first)) fail(ErrorKind::invalid_argument, "--from {} comes after --to {}", from, to);
  const uint64_t count = static_cast<uint64_t>(number(last)) - static_cast<uint64_t>(number(first));
  if (count >= static_cast<uint64_t>(kRangeMax))
    fail(ErrorKind::invalid_argument, "{} to {} are more than {} keys", from, to, kRangeMax);
  std::vector<std::string> keys;
  for (uint64_t i = 0; i <= count; ++i) {
    const int64_t at = number(first) + static_cast<int64_t>(i);
    if constexpr (std::is_same_v<K, Day>) {
      keys.push_back(Day{static_cast<int32_t>(at)}.str());
    } else if constexpr (std::is_same_v<K, Hour>) {
      keys.push_back(Hour{at}.str());
    } else {
      keys.push_back(std::to_string(at));
    }
  }
  return keys;
}

// What a key is called in messages.
template <class K>
std::string key_title() {
  if constexpr (std::is_same_v<K, Day>) {
    return "day";
  } else if constexpr (std::is_same_v<K, Hour>) {
    return "hour";
  } else if constexpr (std::is_integral_v<K>) {
    return "integer";
  } else if constexpr (std::is_same_v<K, std::string>) {
    return "string";
  } else {
    return json_type<K>();
  }
}

}  // namespace firn::orca
