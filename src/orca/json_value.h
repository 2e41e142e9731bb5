// Inputs and outputs of steps as JSON: numbers, bool, strings, enums (as numbers), optional (null), vector, array, map
// with string keys, pair, tuple, Day and its like (as text), and structs of these: objects where ORCA_FIELDS names the
// fields, else arrays. A type that crosses processes in bytes of its own (orca/tasks/codec.h) is those bytes in
// hexadecimal.
#pragma once

#include <cmath>
#include <limits>

#include "base/hash.h"
#include "base/json.h"
#include "orca/tasks/codec.h"

namespace firn::orca {

// Types that are one word of text: Day, Hour, and a pipeline's own.
template <class T>
concept TextValue = requires(const T& value, std::string_view text) {
  { value.str() } -> std::convertible_to<std::string>;
  { T::parse(text) } -> std::same_as<T>;
};

template <class T>
struct JsonValue;  // specialised below, and by whoever cannot add members to a type

template <class T>
Json value_to_json(const T& value) {
  return JsonValue<T>::to(value);
}
// Throws corrupt, naming `where`, where `json` is no T.
template <class T>
T value_from_json(const Json& json, const std::string& where) {
  return JsonValue<T>::from(json, where);
}
// What T is in JSON, so that a result kept under other code is recognised: "{rows:integer,day:Day}".
template <class T>
std::string json_type() {
  return JsonValue<T>::type();
}

namespace internal {
[[noreturn]] inline void fail_json(const Json& json, const std::string& where, const std::string& wanted) {
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  fail(ErrorKind::corrupt, "{}: {} should be {}", where, text, wanted);
}
std::string bytes_from_hex(const std::string& hex, const std::string& where);  // throws corrupt
bool is_utf8(std::string_view text);
void check_utf8(std::string_view text);  // throws invalid_argument
}  // namespace internal

template <>
struct JsonValue<bool> {
  static Json to(bool value) { return value; }
  static bool from(const Json& json, const std::string& where) {
    if (!json.is_boolean()) internal::fail_json(json, where, "true or false");
    return json.get<bool>();
  }
  static std::string type() { return "bool"; }
};

template <class T>
  requires(std::is_integral_v<T> && !std::is_same_v<T, bool>)
struct JsonValue<T> {
  static Json to(T value) { return value; }
  static T from(const Json& json, const std::string& where) {
    if (json.is_number_unsigned()) {
      const uint64_t value = json.get<uint64_t>();
      if (std::in_range<T>(value)) return static_cast<T>(value);
    } else if (json.is_number_integer()) {
      const int64_t value = json.get<int64_t>();
      if (std::in_range<T>(value)) return static_cast<T>(value);
    }
    internal::fail_json(json, where, "an integer of " + std::to_string(sizeof(T) * 8) + " bits");
  }
  static std::string type() { return "integer"; }
};

template <class T>
  requires std::is_floating_point_v<T>
struct JsonValue<T> {
  static Json to(T value) {  // JSON has no word for these three
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
    return static_cast<double>(value);
  }
  static T from(const Json& json, const std::string& where) {
    if (json.is_number()) return static_cast<T>(json.get<double>());
    if (json == "NaN") return std::numeric_limits<T>::quiet_NaN();
    if (json == "Infinity") return std::numeric_limits<T>::infinity();
    if (json == "-Infinity") return -std::numeric_limits<T>::infinity();
    internal::fail_json(json, where, "a number");
  }
  static std::string type() { return "number"; }
};

template <class T>
  requires std::is_enum_v<T>
struct JsonValue<T> {
  using Number = std::underlying_type_t<T>;
  static Json to(T value) { return static_cast<int64_t>(value); }
  static T from(const Json& json, const std::string& where) {
    return static_cast<T>(value_from_json<Number>(json, where));
  }
  static std::string type() { return "enum"; }
};

template <>
struct JsonValue<std::string> {
  static Json to(const std::string& value) {
    internal::check_utf8(value);
    return value;
  }
  static std::string from(const Json& json, const std::string& where) {
    if (!json.is_string()) internal::fail_json(json, where, "a string");
    return json.get<std::string>();
  }
  static std::string type() { return "string"; }
};

template <class T>
struct JsonValue<std::optional<T>> {
  static Json to(const std::optional<T>& value) { return value ? value_to_json(*value) : Json(nullptr); }
  static std::optional<T> from(const Json& json, const std::string& where) {
    if (json.is_null()) return std::nullopt;
    return value_from_json<T>(json, where);
  }
  static std::string type() { return json_type<T>() + "?"; }
};

template <class T>
struct JsonValue<std::vector<T>> {
  static Json to(const std::vector<T>& values) {
    Json json = Json::array();
    for (const T& value : values) json.push_back(value_to_json<T>(value));
    return json;
  }
  static std::vector<T> from(const Json& json, const std::string& where) {
    if (!json.is_array()) internal::fail_json(json, where, "an array");
    std::vector<T> values;
    values.reserve(json.size());
    for (size_t i = 0; i < json.size(); ++i)
      values.push_back(value_from_json<T>(json[i], where + "[" + std::to_string(i) + "]"));
    return values;
  }
  static std::string type() { return "[" + json_type<T>() + "]"; }
};

template <class T, size_t N>
struct JsonValue<std::array<T, N>> {
  static Json to(const std::array<T, N>& values) { return value_to_json(std::vector<T>(values.begin(), values.end())); }
  static std::array<T, N> from(const Json& json, const std::string& where) {
    const std::vector<T> all = value_from_json<std::vector<T>>(json, where);
    if (all.size() != N) internal::fail_json(json, where, std::to_string(N) + " values");
    std::array<T, N> values;
    std::copy(all.begin(), all.end(), values.begin());
    return values;
  }
  static std::string type() { return "[" + json_type<T>() + "*" + std::to_string(N) + "]"; }
};

template <class T>
struct JsonValue<std::map<std::string, T>> {
  static Json to(const std::map<std::string, T>& values) {
    Json json = Json::object();
    for (const auto& [key, value] : values) {
      internal::check_utf8(key);
      json[key] = value_to_json(value);
    }
    return json;
  }
  static std::map<std::string, T> from(const Json& json, const std::string& where) {
    if (!json.is_object()) internal::fail_json(json, where, "an object");
    std::map<std::string, T> values;
    for (const auto& [key, value] : json.items())
      values[key] = value_from_json<T>(value, std::string(where).append(".").append(key));
    return values;
  }
  static std::string type() { return "{*:" + json_type<T>() + "}"; }
};

template <class... T>
struct JsonValue<std::tuple<T...>> {
  static Json to(const std::tuple<T...>& values) {
    Json json = Json::array();
    std::apply([&](const auto&... value) { (json.push_back(value_to_json(value)), ...); }, values);
    return json;
  }
  static std::tuple<T...> from(const Json& json, const std::string& where) {
    if (!json.is_array() || json.size() != sizeof...(T))
      internal::fail_json(json, where, std::to_string(sizeof...(T)) + " values");
    return from_each(json, where, std::index_sequence_for<T...>());
  }
  template <size_t... I>
  static std::tuple<T...> from_each(const Json& json, const std::string& where, std::index_sequence<I...>) {
    return std::tuple<T...>{value_from_json<T>(json[I], where + "[" + std::to_string(I) + "]")...};
  }
  static std::string type() {
    std::string text;
    ((text += (text.empty() ? "" : ",") + json_type<T>()), ...);
    return "[" + text + "]";
  }
};

template <class A, class B>
struct JsonValue<std::pair<A, B>> {
  static Json to(const std::pair<A, B>& value) { return value_to_json(std::tuple<A, B>(value)); }
  static std::pair<A, B> from(const Json& json, const std::string& where) {
    auto [a, b] = value_from_json<std::tuple<A, B>>(json, where);
    return {std::move(a), std::move(b)};
  }
  static std::string type() { return json_type<std::tuple<A, B>>(); }
};

template <class T>
  requires TextValue<T>
struct JsonValue<T> {
  static Json to(const T& value) { return value_to_json(std::string(value.str())); }
  static T from(const Json& json, const std::string& where) {
    try {
      return T::parse(value_from_json<std::string>(json, where));
    } catch (const Error& e) {
      throw Error(ErrorKind::corrupt, where, e);
    }
  }
  static std::string type() { return "text"; }
};

template <class T>
  requires(EncodesItself<T> && !TextValue<T>)
struct JsonValue<T> {
  static Json to(const T& value) {
    std::string bytes;
    value.encode(bytes);
    return to_hex(bytes);
  }
  static T from(const Json& json, const std::string& where) {
    return decode_whole<T>(internal::bytes_from_hex(value_from_json<std::string>(json, where), where));
  }
  static std::string type() { return "bytes"; }
};

template <class T>
  requires(Reflected<T> && !EncodesItself<T> && !TextValue<T>)
struct JsonValue<T> {
  static Json to(const T& value) {
    Json json = NamedFields<T> ? Json::object() : Json::array();
    each_field(value, [&](const char* name, const auto& field) {
      if constexpr (NamedFields<T>) {
        json[name] = value_to_json(field);
      } else {
        json.push_back(value_to_json(field));
      }
    });
    return json;
  }
  static T from(const Json& json, const std::string& where) {
    T value{};
    if constexpr (NamedFields<T>) {
      if (!json.is_object()) internal::fail_json(json, where, "an object");
      each_field(value, [&](const char* name, auto& field) {
        const auto found = json.find(name);
        if (found == json.end()) internal::fail_json(json, where, std::string("an object with ") + name);
        field = value_from_json<std::remove_cvref_t<decltype(field)>>(*found, where + "." + name);
      });
    } else {
      if (!json.is_array() || json.size() != field_count<T>()) {
        internal::fail_json(json, where, "an array of " + std::to_string(field_count<T>()) + " fields");
      }
      size_t next = 0;
      each_field(value, [&](const char*, auto& field) {
        const size_t at = next++;
        field = value_from_json<std::remove_cvref_t<decltype(field)>>(json[at], where + "[" + std::to_string(at) + "]");
      });
    }
    return value;
  }
  static std::string type() {
    std::string text;
    const T value{};
    each_field(value, [&](const char* name, const auto& field) {
      text += (text.empty() ? "" : ",") + (name == nullptr ? "" : std::string(name) + ":") +
              json_type<std::remove_cvref_t<decltype(field)>>();
    });
    return "{" + text + "}";
  }
};

}  // namespace firn::orca
