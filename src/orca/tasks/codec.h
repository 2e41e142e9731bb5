// Values as bytes between processes of one program: numbers, enums, strings, optional, vector, array, map, pair, tuple,
// and structs of these by their fields. A type of its own making says how it crosses by two members:
//
//   void encode(std::string& out) const;                        // appends
//   static T decode(std::string_view bytes, size_t& position);  // reads at position, and moves it past
#pragma once

#include <array>
#include <concepts>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "orca/tasks/reflect.h"

namespace firn::orca {

template <class T>
concept EncodesItself = requires(const T& value, std::string& out, std::string_view bytes, size_t& position) {
  value.encode(out);
  { T::decode(bytes, position) } -> std::same_as<T>;
};

template <class T>
struct Codec;  // specialised below, and by whoever cannot add members to a type

template <class T>
void encode_value(std::string& out, const T& value) {
  Codec<T>::encode(out, value);
}

// Reads at `position` and moves it past. Throws corrupt where bytes are missing or mean nothing.
template <class T>
T decode_value(std::string_view bytes, size_t& position) {
  return Codec<T>::decode(bytes, position);
}

// All of `bytes`.
template <class T>
T decode_whole(std::string_view bytes) {
  size_t position = 0;
  T value = decode_value<T>(bytes, position);
  if (position != bytes.size())
    fail(ErrorKind::corrupt, "a task's value ends at byte {} of {}", position, bytes.size());
  return value;
}

namespace internal {

inline std::string_view take_bytes(std::string_view bytes, size_t& position, size_t count) {
  if (count > bytes.size() - position) {
    fail(ErrorKind::corrupt, "a task's value needs {} bytes at byte {}, of {}", count, position, bytes.size());
  }
  const std::string_view taken = bytes.substr(position, count);
  position += count;
  return taken;
}

inline void put_count(std::string& out, size_t count) {
  const uint64_t fixed = count;
  out.append(reinterpret_cast<const char*>(&fixed), sizeof(fixed));
}

// Each element takes a byte at least, so a count beyond the bytes left is damage.
inline size_t take_count(std::string_view bytes, size_t& position) {
  uint64_t count = 0;
  std::memcpy(&count, take_bytes(bytes, position, sizeof(count)).data(), sizeof(count));
  if (count > bytes.size() - position) {
    fail(ErrorKind::corrupt, "a task's value counts {} elements with {} bytes left", count, bytes.size() - position);
  }
  return count;
}

template <class T>
inline constexpr bool kAlwaysFalse = false;

}  // namespace internal

template <class T>
  requires EncodesItself<T>
struct Codec<T> {
  static void encode(std::string& out, const T& value) { value.encode(out); }
  static T decode(std::string_view bytes, size_t& position) { return T::decode(bytes, position); }
};

// Both sides are one program on one machine (or of its kind): bytes as they lie in memory.
template <class T>
  requires(std::is_arithmetic_v<T> || std::is_enum_v<T>)
struct Codec<T> {
  static void encode(std::string& out, const T& value) { out.append(reinterpret_cast<const char*>(&value), sizeof(T)); }
  static T decode(std::string_view bytes, size_t& position) {
    const std::string_view taken = internal::take_bytes(bytes, position, sizeof(T));
    if constexpr (std::is_same_v<T, bool>) {
      if (taken[0] != 0 && taken[0] != 1) fail(ErrorKind::corrupt, "a task's bool is {}", static_cast<int>(taken[0]));
      return taken[0] == 1;
    } else {
      T value;
      std::memcpy(&value, taken.data(), sizeof(T));
      return value;
    }
  }
};

template <>
struct Codec<std::string> {
  static void encode(std::string& out, const std::string& value) {
    internal::put_count(out, value.size());
    out.append(value);
  }
  static std::string decode(std::string_view bytes, size_t& position) {
    const size_t count = internal::take_count(bytes, position);
    return std::string(internal::take_bytes(bytes, position, count));
  }
};

template <class T>
struct Codec<std::optional<T>> {
  static void encode(std::string& out, const std::optional<T>& value) {
    encode_value(out, value.has_value());
    if (value) encode_value(out, *value);
  }
  static std::optional<T> decode(std::string_view bytes, size_t& position) {
    if (!decode_value<bool>(bytes, position)) return std::nullopt;
    return decode_value<T>(bytes, position);
  }
};

template <class T>
struct Codec<std::vector<T>> {
  static void encode(std::string& out, const std::vector<T>& values) {
    internal::put_count(out, values.size());
    for (const T& value : values) encode_value<T>(out, value);
  }
  static std::vector<T> decode(std::string_view bytes, size_t& position) {
    const size_t count = internal::take_count(bytes, position);
    std::vector<T> values;
    values.reserve(count);
    for (size_t i = 0; i < count; ++i) values.push_back(decode_value<T>(bytes, position));
    return values;
  }
};

template <class T, size_t N>
struct Codec<std::array<T, N>> {
  static void encode(std::string& out, const std::array<T, N>& values) {
    for (const T& value : values) encode_value(out, value);
  }
  static std::array<T, N> decode(std::string_view bytes, size_t& position) {
    std::array<T, N> values;
    for (T& value : values) value = decode_value<T>(bytes, position);
    return values;
  }
};

template <class K, class V>
struct Codec<std::map<K, V>> {
  static void encode(std::string& out, const std::map<K, V>& values) {
    internal::put_count(out, values.size());
    for (const auto& [key, value] : values) {
      encode_value(out, key);
      encode_value(out, value);
    }
  }
  static std::map<K, V> decode(std::string_view bytes, size_t& position) {
    std::map<K, V> values;
    for (size_t count = internal::take_count(bytes, position); count > 0; --count) {
      K key = decode_value<K>(bytes, position);
      values.emplace(std::move(key), decode_value<V>(bytes, position));
    }
    return values;
  }
};

template <class A, class B>
struct Codec<std::pair<A, B>> {
  static void encode(std::string& out, const std::pair<A, B>& value) {
    encode_value(out, value.first);
    encode_value(out, value.second);
  }
  static std::pair<A, B> decode(std::string_view bytes, size_t& position) {
    A first = decode_value<A>(bytes, position);
    return {std::move(first), decode_value<B>(bytes, position)};
  }
};

template <class... T>
struct Codec<std::tuple<T...>> {
  static void encode(std::string& out, const std::tuple<T...>& values) {
    std::apply([&](const auto&... value) { (encode_value(out, value), ...); }, values);
  }
  static std::tuple<T...> decode(std::string_view bytes, size_t& position) {
    return std::tuple<T...>{decode_value<T>(bytes, position)...};  // in braces: in order
  }
};

// A byte behind the fields, so that a struct without any still takes one.
template <class T>
  requires(Reflected<T> && !EncodesItself<T>)
struct Codec<T> {
  static void encode(std::string& out, const T& value) {
    each_field(value, [&](const char*, const auto& field) { encode_value(out, field); });
    out.push_back('.');
  }
  static T decode(std::string_view bytes, size_t& position) {
    T value{};
    each_field(value, [&](const char*, auto& field) {
      field = decode_value<std::remove_cvref_t<decltype(field)>>(bytes, position);
    });
    if (internal::take_bytes(bytes, position, 1) != ".")
      fail(ErrorKind::corrupt, "a task's struct does not end where it should");
    return value;
  }
};

}  // namespace firn::orca
