#include "iceberg/value.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "base/civil_time.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/uuid.h"
#include "iceberg/bounds.h"
#include "iceberg/type.h"

namespace firn::iceberg {
namespace {

using arrow::Decimal128;

constexpr int64_t kMicrosPerDay = 86'400'000'000;
constexpr int64_t kNanosPerDay = 86'400'000'000'000;

template <class F>
std::strong_ordering compare_floats(F a, F b, bool total) {
  if (a < b) return std::strong_ordering::less;
  if (a > b) return std::strong_ordering::greater;
  if (std::isnan(a) || std::isnan(b)) return static_cast<int>(std::isnan(a)) <=> static_cast<int>(std::isnan(b));
  if (!total) return std::strong_ordering::equal;
  return static_cast<int>(std::signbit(b)) <=> static_cast<int>(std::signbit(a));
}

template <class T>
std::string little_endian(T value) {
  static_assert(std::endian::native == std::endian::little);
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

template <class T>
T from_little_endian(std::string_view bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

// Two's complement, big-endian, the fewest bytes (case 3: -128 is one byte, -256 two).
std::string decimal_bytes(const Decimal128& value) {
  std::string bytes(16, '\0');
  const auto high = static_cast<uint64_t>(value.high_bits());
  for (int i = 0; i < 8; ++i) {
    bytes[i] = static_cast<char>(high >> (56 - 8 * i));
    bytes[8 + i] = static_cast<char>(value.low_bits() >> (56 - 8 * i));
  }
  const char sign = value.high_bits() < 0 ? '\xFF' : '\0';
  size_t skip = 0;
  while (skip < 15 && bytes[skip] == sign && (bytes[skip + 1] & 0x80) == (sign & 0x80)) ++skip;
  return bytes.substr(skip);
}

std::optional<Decimal128> decimal_from_bytes(std::string_view bytes) {
  if (bytes.empty()) return std::nullopt;
  const char sign = (bytes[0] & 0x80) ? '\xFF' : '\0';
  while (bytes.size() > 16 && bytes[0] == sign && (bytes[1] & 0x80) == (sign & 0x80)) bytes.remove_prefix(1);
  if (bytes.size() > 16) return std::nullopt;
  std::string padded(16 - bytes.size(), sign);
  padded += bytes;
  uint64_t high = 0, low = 0;
  for (int i = 0; i < 8; ++i) {
    high = high << 8 | static_cast<uint8_t>(padded[i]);
    low = low << 8 | static_cast<uint8_t>(padded[8 + i]);
  }
  return Decimal128(static_cast<int64_t>(high), low);
}

// Exactly `scale` digits after the point, never an exponent.
std::string plain_decimal(const Decimal128& value, int32_t scale) {
  std::string digits = value.ToIntegerString();
  const bool negative = digits[0] == '-';
  if (negative) digits.erase(0, 1);
  if (scale > 0) {
    if (digits.size() <= static_cast<size_t>(scale)) digits.insert(0, scale + 1 - digits.size(), '0');
    digits.insert(digits.size() - scale, 1, '.');
  }
  return negative ? "-" + digits : digits;
}

std::string float_text(double value, bool is_float) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  std::string text = is_float ? fmt::format("{}", static_cast<float>(value)) : fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::optional<double> named_float(std::string_view text) {
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (text == "Infinity") return std::numeric_limits<double>::infinity();
  if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

std::optional<std::string> bytes_from_hex(std::string_view hex) {
  if (hex.size() % 2 != 0) return std::nullopt;
  std::string bytes;
  bytes.reserve(hex.size() / 2);
  for (size_t i = 0; i < hex.size(); i += 2) {
    uint8_t byte = 0;
    const auto [end, error] = std::from_chars(hex.data() + i, hex.data() + i + 2, byte, 16);
    if (error != std::errc() || end != hex.data() + i + 2) return std::nullopt;
    bytes.push_back(static_cast<char>(byte));
  }
  return bytes;
}

[[noreturn]] void fail_json(const Json& json, const Type& type, std::string_view where) {
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > 100) text = text.substr(0, 100) + "…";
  fail(ErrorKind::corrupt, "{}: {} is no value of type {}", where, text, type.to_string());
}

int64_t integer_from_json(const Json& json, const Type& type, std::string_view where, int64_t min, int64_t max) {
  if (!json.is_number_integer()) fail_json(json, type, where);
  if (json.is_number_unsigned() && json.get<uint64_t>() > static_cast<uint64_t>(max)) fail_json(json, type, where);
  const auto value = json.get<int64_t>();
  if (value < min || value > max) fail_json(json, type, where);
  return value;
}

Value timestamp_from_json(const Json& json, const Type& type, std::string_view where) {
  const bool zoned = type.id() == TypeId::timestamptz || type.id() == TypeId::timestamptz_ns;
  const auto& text = json.get_ref<const std::string&>();
  const auto parsed = is_nanos(type) ? parse_timestamp_ns(text, Years::any) : parse_timestamp_us(text, Years::any);
  if (!parsed || parsed->has_offset != zoned) fail_json(json, type, where);
  return parsed->value;
}

// Shape and members of a nested default; the value itself stays JSON.
Value nested_from_json(const Json& json, const Type& type, std::string_view where) {
  switch (type.id()) {
    case TypeId::struct_:
      if (!json.is_object()) fail_json(json, type, where);
      for (const Field& field : type.fields()) {
        const auto member = json.find(std::to_string(field.id));
        if (member != json.end()) from_json(*member, *field.type, where);
      }
      break;
    case TypeId::list:
      if (!json.is_array()) fail_json(json, type, where);
      for (const Json& element : json) from_json(element, *type.element().type, where);
      break;
    default: {
      const Json& keys = get_array(json, "keys", where);
      const Json& values = get_array(json, "values", where);
      if (keys.size() != values.size()) fail_json(json, type, where);
      for (const Json& key : keys) from_json(key, *type.key().type, where);
      for (const Json& value : values) from_json(value, *type.value().type, where);
    }
  }
  return NestedJson{json.dump()};
}

}  // namespace

std::strong_ordering compare(const Value& a, const Value& b, bool total) {
  return std::visit(
      [&](const auto& left) -> std::strong_ordering {
        using T = std::decay_t<decltype(left)>;
        const T& right = std::get<T>(b);
        if constexpr (std::is_floating_point_v<T>) {
          return compare_floats(left, right, total);
        } else if constexpr (std::is_same_v<T, Decimal128>) {
          return left < right    ? std::strong_ordering::less
                 : left == right ? std::strong_ordering::equal
                                 : std::strong_ordering::greater;
        } else if constexpr (std::is_same_v<T, NestedJson>) {
          return left.text <=> right.text;
        } else {
          return left <=> right;  // char_traits<char> compares bytes as unsigned
        }
      },
      a);
}

bool is_nan(const Value& value) {
  if (const auto* f = std::get_if<float>(&value)) return std::isnan(*f);
  if (const auto* d = std::get_if<double>(&value)) return std::isnan(*d);
  return false;
}

std::string to_bytes(const Value& value, const Type& type) {
  return std::visit(
      [&](const auto& v) -> std::string {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, bool>) {
          return std::string(1, v ? '\1' : '\0');
        } else if constexpr (std::is_arithmetic_v<T>) {
          return little_endian(v);
        } else if constexpr (std::is_same_v<T, Decimal128>) {
          return decimal_bytes(v);
        } else if constexpr (std::is_same_v<T, std::string>) {
          return v;
        } else {
          fail(ErrorKind::invalid_argument, "A null or nested value of type {} has no binary single-value form",
               type.to_string());
        }
      },
      value);
}

std::optional<Value> from_bytes(std::string_view bytes, const Type& type) {
  switch (type.id()) {
    case TypeId::boolean_:
      if (bytes.size() != 1) return std::nullopt;
      return bytes[0] != '\0';
    case TypeId::int_:
    case TypeId::date:
      if (bytes.size() != 4) return std::nullopt;
      return from_little_endian<int32_t>(bytes);
    case TypeId::long_:
      if (bytes.size() == 4) return static_cast<int64_t>(from_little_endian<int32_t>(bytes));
      [[fallthrough]];
    case TypeId::time:
    case TypeId::timestamptz:
    case TypeId::timestamptz_ns:
      if (bytes.size() != 8) return std::nullopt;
      return from_little_endian<int64_t>(bytes);
    case TypeId::timestamp:
    case TypeId::timestamp_ns:
      if (bytes.size() == 4) return promote(from_little_endian<int32_t>(bytes), *Type::primitive(TypeId::date), type);
      if (bytes.size() != 8) return std::nullopt;
      return from_little_endian<int64_t>(bytes);
    case TypeId::float_:
      if (bytes.size() != 4) return std::nullopt;
      return from_little_endian<float>(bytes);
    case TypeId::double_:
      if (bytes.size() == 4) return static_cast<double>(from_little_endian<float>(bytes));
      if (bytes.size() != 8) return std::nullopt;
      return from_little_endian<double>(bytes);
    case TypeId::decimal:
      if (auto value = decimal_from_bytes(bytes)) return *value;
      return std::nullopt;
    case TypeId::string:
      if (!is_utf8(bytes)) return std::nullopt;  // case 2: bounds cut inside a character
      return std::string(bytes);
    case TypeId::uuid:
      if (bytes.size() != 16) return std::nullopt;
      return std::string(bytes);
    case TypeId::fixed:  // bounds of fixed columns may be cut too
      if (bytes.size() > static_cast<size_t>(type.length())) return std::nullopt;
      return std::string(bytes);
    case TypeId::binary:
      return std::string(bytes);
    case TypeId::unknown:
    case TypeId::variant:
    case TypeId::geometry:
    case TypeId::geography:
    case TypeId::struct_:
    case TypeId::list:
    case TypeId::map:
      return std::nullopt;
  }
  return std::nullopt;
}

Json to_json(const Value& value, const Type& type) {
  if (is_null(value)) return nullptr;
  switch (type.id()) {
    case TypeId::boolean_:
      return std::get<bool>(value);
    case TypeId::int_:
      return std::get<int32_t>(value);
    case TypeId::long_:
      return std::get<int64_t>(value);
    case TypeId::float_: {
      const float number = std::get<float>(value);
      if (!std::isfinite(number)) return float_text(number, true);
      // The double nearest to the float's shortest text, so that 0.1f is written 0.1.
      return std::strtod(fmt::format("{}", number).c_str(), nullptr);
    }
    case TypeId::double_: {
      const double number = std::get<double>(value);
      if (!std::isfinite(number)) return float_text(number, false);
      return number;
    }
    case TypeId::struct_:
    case TypeId::list:
    case TypeId::map:
      return parse_json(std::get<NestedJson>(value).text, "a default value");
    default:
      return to_display(value, type);
  }
}

Value from_json(const Json& json, const Type& type, std::string_view where) {
  if (json.is_null()) return {};
  switch (type.id()) {
    case TypeId::boolean_:
      if (!json.is_boolean()) fail_json(json, type, where);
      return json.get<bool>();
    case TypeId::int_:
      return static_cast<int32_t>(integer_from_json(json, type, where, std::numeric_limits<int32_t>::min(),
                                                    std::numeric_limits<int32_t>::max()));
    case TypeId::long_:
      return integer_from_json(json, type, where, std::numeric_limits<int64_t>::min(),
                               std::numeric_limits<int64_t>::max());
    case TypeId::float_:
    case TypeId::double_: {
      std::optional<double> number;
      if (json.is_number()) number = json.get<double>();
      if (json.is_string()) number = named_float(json.get_ref<const std::string&>());
      if (!number) fail_json(json, type, where);
      if (type.id() == TypeId::double_) return *number;
      if (std::isfinite(*number) && std::abs(*number) > std::numeric_limits<float>::max()) fail_json(json, type, where);
      return static_cast<float>(*number);
    }
    case TypeId::struct_:
    case TypeId::list:
    case TypeId::map:
      return nested_from_json(json, type, where);
    default:
      break;
  }
  if (!json.is_string()) fail_json(json, type, where);
  const auto& text = json.get_ref<const std::string&>();
  switch (type.id()) {
    case TypeId::decimal:
      if (auto decimal = parse_decimal(text, type)) return *decimal;
      break;
    case TypeId::date:
      if (auto days = parse_date(text, Years::any)) return *days;
      break;
    case TypeId::time:
      if (auto micros = parse_time_us(text)) return *micros;
      break;
    case TypeId::timestamp:
    case TypeId::timestamptz:
    case TypeId::timestamp_ns:
    case TypeId::timestamptz_ns:
      return timestamp_from_json(json, type, where);
    case TypeId::string:
      return text;
    case TypeId::uuid:
      if (auto bytes = uuid_to_bytes(text)) return *bytes;
      break;
    case TypeId::fixed:
    case TypeId::binary: {
      auto bytes = bytes_from_hex(text);
      if (!bytes || (type.id() == TypeId::fixed && bytes->size() != static_cast<size_t>(type.length()))) break;
      return *bytes;
    }
    default:
      break;  // unknown, variant and the geo types default to null alone
  }
  fail_json(json, type, where);
}

std::optional<FlooredDecimal> floor_decimal(std::string_view text, int32_t scale) {
  const auto take_digits = [&text] {
    const std::string_view taken = text.substr(0, std::min(text.find_first_not_of("0123456789"), text.size()));
    text.remove_prefix(taken.size());
    return taken;
  };
  const auto take_any = [&text](std::string_view signs) {
    const char c = !text.empty() && signs.find(text[0]) != std::string_view::npos ? text[0] : '\0';
    if (c != '\0') text.remove_prefix(1);
    return c;
  };
  const bool is_negative = take_any("+-") == '-';
  std::string digits(take_digits());
  auto point = static_cast<int64_t>(digits.size());  // digits before it, from the first of `digits` on
  if (take_any(".") != '\0') digits += take_digits();
  if (digits.empty()) return std::nullopt;
  if (take_any("eE") != '\0') {
    const bool is_small = take_any("+-") == '-';
    const std::string_view power = take_digits();
    if (power.empty()) return std::nullopt;
    int64_t exponent = 0;
    if (std::from_chars(power.data(), power.data() + power.size(), exponent).ec != std::errc() ||
        exponent > std::numeric_limits<int32_t>::max())
      exponent = std::numeric_limits<int32_t>::max();  // no text has digits to make up for it
    point += is_small ? -exponent : exponent;
  }
  if (!text.empty()) return std::nullopt;
  const size_t zeros = std::min(digits.find_first_not_of('0'), digits.size());
  digits.erase(0, zeros);
  if (digits.empty()) return FlooredDecimal{Decimal128(0), true};
  const int64_t kept = point - static_cast<int64_t>(zeros) + scale;
  if (kept > 38) return std::nullopt;
  Decimal128 unscaled(0);
  for (int64_t i = 0; i < kept; ++i) {
    const auto at = static_cast<size_t>(i);
    unscaled = unscaled * Decimal128(10) + Decimal128(at < digits.size() ? digits[at] - '0' : 0);
  }
  const bool is_exact =
      digits.find_first_not_of('0', static_cast<size_t>(std::max<int64_t>(kept, 0))) == std::string::npos;
  if (is_negative) unscaled = Decimal128(is_exact ? 0 : -1) - unscaled;
  return FlooredDecimal{unscaled, is_exact};
}

std::optional<Decimal128> parse_decimal(std::string_view text, const Type& type) {
  const auto floored = floor_decimal(text, type.scale());
  if (!floored || !floored->is_exact || !floored->unscaled.FitsInPrecision(type.precision())) return std::nullopt;
  return floored->unscaled;
}

std::string to_display(const Value& value, const Type& type) {
  if (is_null(value)) return "null";
  switch (type.id()) {
    case TypeId::boolean_:
      return std::get<bool>(value) ? "true" : "false";
    case TypeId::int_:
      return std::to_string(std::get<int32_t>(value));
    case TypeId::long_:
      return std::to_string(std::get<int64_t>(value));
    case TypeId::float_:
      return float_text(std::get<float>(value), true);
    case TypeId::double_:
      return float_text(std::get<double>(value), false);
    case TypeId::decimal:
      return plain_decimal(std::get<Decimal128>(value), type.scale());
    case TypeId::date:
      return format_date(std::get<int32_t>(value));
    case TypeId::time:
      return format_time_us(std::get<int64_t>(value));
    case TypeId::timestamp:
      return format_timestamp_us(std::get<int64_t>(value), false);
    case TypeId::timestamptz:
      return format_timestamp_us(std::get<int64_t>(value), true);
    case TypeId::timestamp_ns:
      return format_timestamp_ns(std::get<int64_t>(value), false);
    case TypeId::timestamptz_ns:
      return format_timestamp_ns(std::get<int64_t>(value), true);
    case TypeId::string:
      return std::get<std::string>(value);
    case TypeId::uuid:
      return uuid_from_bytes(std::get<std::string>(value));
    case TypeId::unknown:
    case TypeId::fixed:
    case TypeId::binary:
    case TypeId::variant:
    case TypeId::geometry:
    case TypeId::geography:
      return to_hex(std::get<std::string>(value));
    case TypeId::struct_:
    case TypeId::list:
    case TypeId::map:
      return std::get<NestedJson>(value).text;
  }
  return {};
}

std::optional<Value> promote(const Value& value, const Type& from, const Type& to) {
  if (!can_promote(from, to, 3)) return std::nullopt;
  if (is_null(value)) return value;
  switch (to.id()) {
    case TypeId::long_:
      if (from.id() == TypeId::int_) return static_cast<int64_t>(std::get<int32_t>(value));
      return value;
    case TypeId::double_:
      if (from.id() == TypeId::float_) return static_cast<double>(std::get<float>(value));
      return value;
    case TypeId::timestamp:
    case TypeId::timestamp_ns: {
      if (from.id() != TypeId::date) return value;
      int64_t units = 0;
      const int64_t per_day = to.id() == TypeId::timestamp ? kMicrosPerDay : kNanosPerDay;
      if (__builtin_mul_overflow(static_cast<int64_t>(std::get<int32_t>(value)), per_day, &units)) return std::nullopt;
      return units;
    }
    default:
      return value;
  }
}

}  // namespace firn::iceberg
