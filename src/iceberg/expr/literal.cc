#include "iceberg/expr/literal.h"

#include <charconv>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "base/civil_time.h"
#include "base/error.h"
#include "base/uuid.h"

namespace firn::iceberg {
namespace {

using arrow::Decimal128;

constexpr int64_t kMicrosPerDay = 86'400'000'000;

PlacedLiteral exactly(Value value) { return {Place::exact, std::move(value)}; }

// What a literal says, whatever it was written as.
struct Written {
  std::optional<std::string> text;    // a string
  std::optional<std::string> number;  // decimal digits, with point or exponent
  bool is_json = false;
};

Written written(const Value& literal) {
  if (const auto* text = std::get_if<std::string>(&literal)) return {.text = *text};
  if (const auto* i = std::get_if<int32_t>(&literal)) return {.number = std::to_string(*i)};
  if (const auto* i = std::get_if<int64_t>(&literal)) return {.number = std::to_string(*i)};
  if (const auto* d = std::get_if<double>(&literal)) return {.number = fmt::format("{}", *d)};
  if (const auto* f = std::get_if<float>(&literal)) return {.number = fmt::format("{}", *f)};
  if (const auto* json = std::get_if<NestedJson>(&literal)) {
    if (!json->text.starts_with('"')) return {.number = json->text, .is_json = true};
    return {.text = parse_json(json->text, "a literal").get<std::string>(), .is_json = true};
  }
  return {};
}

std::optional<double> parse_double(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size() || error == std::errc::invalid_argument) return std::nullopt;
  if (error != std::errc::result_out_of_range) return value;
  // from_chars leaves `value` alone there: overflow or underflow, as strtod tells.
  return std::strtod(std::string(text).c_str(), nullptr);
}

std::optional<PlacedLiteral> place_in_boolean(const Value& literal, const Written& w) {
  if (const auto* b = std::get_if<bool>(&literal)) return exactly(*b);
  if (w.text == "true" || w.number == "true") return exactly(true);
  if (w.text == "false" || w.number == "false") return exactly(false);
  return std::nullopt;
}

std::optional<PlacedLiteral> place_in_decimal(const Value& literal, const Written& w, const Type& type) {
  if (const auto* unscaled = std::get_if<Decimal128>(&literal)) return exactly(*unscaled);
  const std::optional<std::string>& number = w.text ? w.text : w.number;
  if (!number) return std::nullopt;
  const auto parsed = parse_double(*number);
  if (!parsed) return std::nullopt;
  if (std::isnan(*parsed)) return PlacedLiteral{Place::nan, {}};
  const auto floored = floor_decimal(*number, type.scale());
  if (!floored || !floored->unscaled.FitsInPrecision(type.precision()))
    return PlacedLiteral{*parsed < 0 ? Place::below : Place::above, {}};
  return PlacedLiteral{floored->is_exact ? Place::exact : Place::between, floored->unscaled};
}

std::optional<PlacedLiteral> place_in_integers(const Written& w, const Type& type) {
  const std::optional<std::string>& number = w.text ? w.text : w.number;
  if (!number) return std::nullopt;
  int64_t integer = 0;
  const char* end = number->data() + number->size();
  const auto [stop, error] = std::from_chars(number->data(), end, integer);
  if (error == std::errc() && stop == end) return place_integer(integer, type);
  const auto parsed = parse_double(*number);
  if (!parsed) return std::nullopt;
  if (std::isnan(*parsed)) return PlacedLiteral{Place::nan, {}};
  const auto floored = floor_decimal(*number, 0);
  const auto whole = floored ? floored->unscaled.ToInteger<int64_t>() : arrow::Result<int64_t>();
  if (!whole.ok()) return PlacedLiteral{*parsed < 0 ? Place::below : Place::above, {}};
  PlacedLiteral placed = place_integer(*whole, type);
  if (placed.place == Place::exact && !floored->is_exact) placed.place = Place::between;
  return placed;
}

// Nearer to zero than any other value of F.
template <class F>
PlacedLiteral place_beside_zero(bool is_negative) {
  return {Place::between, is_negative ? -std::numeric_limits<F>::denorm_min() : F{0}};
}

// `value` as F: the nearest if F can hold its size, else between F's largest and infinity, or beside zero.
template <class F>
PlacedLiteral place_double(double value) {
  if (std::isnan(value)) return {Place::nan, {}};
  if (std::isfinite(value) && std::abs(value) > std::numeric_limits<F>::max())
    return {Place::between, value > 0 ? std::numeric_limits<F>::max() : -std::numeric_limits<F>::infinity()};
  const F nearest = static_cast<F>(value);
  return nearest == 0 && value != 0 ? place_beside_zero<F>(value < 0) : exactly(nearest);
}

template <class F>
PlacedLiteral place_integer_in_floats(int64_t integer) {
  F value = static_cast<F>(integer);
  // Integers above 2^53 (2^24) may lie between two values.
  const auto back = static_cast<__int128>(value);
  if (back == integer) return exactly(value);
  if (back > integer) value = std::nextafter(value, -std::numeric_limits<F>::infinity());
  return {Place::between, value};
}

template <class F>
std::optional<PlacedLiteral> place_in_floats(const Value& literal, const Written& w) {
  if (const auto* i = std::get_if<int32_t>(&literal)) return place_integer_in_floats<F>(*i);
  if (const auto* i = std::get_if<int64_t>(&literal)) return place_integer_in_floats<F>(*i);
  if (const auto* f = std::get_if<float>(&literal)) return place_double<F>(*f);
  if (const auto* d = std::get_if<double>(&literal)) return place_double<F>(*d);
  const std::optional<std::string>& number = w.text ? w.text : w.number;
  if (!number) return std::nullopt;
  if (*number == "NaN") return PlacedLiteral{Place::nan, {}};
  if (*number == "Infinity") return exactly(std::numeric_limits<F>::infinity());
  if (*number == "-Infinity") return exactly(-std::numeric_limits<F>::infinity());
  const auto parsed = parse_double(*number);
  if (!parsed) return std::nullopt;
  if (*parsed == 0 && number->find_first_of("123456789") < number->find_first_of("eE"))
    return place_beside_zero<F>(number->starts_with('-'));
  // Straight from the text where a float is asked: by way of a double it would be rounded twice.
  F direct = 0;
  if (std::from_chars(number->data(), number->data() + number->size(), direct).ec == std::errc() &&
      std::isfinite(direct) && direct != 0)
    return exactly(direct);
  return place_double<F>(*parsed);
}

std::optional<PlacedLiteral> place_in_dates(const Written& w, const Type& type) {
  if (w.number) return place_in_integers(w, type);
  if (!w.text) return std::nullopt;
  if (const auto days = parse_date(*w.text, Years::any)) return exactly(*days);
  const auto timestamp = parse_timestamp_us(*w.text, Years::any);
  if (!timestamp || timestamp->has_offset) return std::nullopt;
  return PlacedLiteral{floor_mod(timestamp->value, kMicrosPerDay) == 0 ? Place::exact : Place::between,
                       static_cast<int32_t>(floor_div(timestamp->value, kMicrosPerDay))};
}

std::optional<PlacedLiteral> place_in_times(const Written& w, const Type& type) {
  if (w.number) return place_in_integers(w, type);
  if (!w.text) return std::nullopt;
  if (const auto micros = parse_time_us(*w.text)) return exactly(*micros);
  return std::nullopt;
}

std::optional<PlacedLiteral> place_in_timestamps(const Written& w, const Type& type, std::string_view column) {
  if (w.number) return place_in_integers(w, type);
  if (!w.text) return std::nullopt;
  const bool zoned = type.id() == TypeId::timestamptz || type.id() == TypeId::timestamptz_ns;
  const auto micros = parse_timestamp_us(*w.text, Years::any);
  const auto nanos = parse_timestamp_ns(*w.text, Years::any);
  if (!micros && !nanos) return std::nullopt;
  if (!zoned && (micros ? micros->has_offset : nanos->has_offset))
    fail(ErrorKind::invalid_argument, "Column {} of type {} is compared with {}, which has an offset: leave it out",
         column, type.to_string(), *w.text);
  if (is_nanos(type)) {
    if (nanos) return exactly(nanos->value);
    return PlacedLiteral{micros->value < 0 ? Place::below : Place::above, {}};
  }
  if (micros) return exactly(micros->value);
  return PlacedLiteral{Place::between, floor_div(nanos->value, 1000)};
}

std::optional<PlacedLiteral> place_in_bytes(const Written& w, const Type& type, std::string_view where) {
  if (!w.text) return std::nullopt;
  if (!w.is_json) return exactly(*w.text);
  // JSON spells bytes in hexadecimal; their number is free here, unlike in a default.
  return exactly(
      from_json(Json(*w.text), *Type::primitive(TypeId::binary), fmt::format("{} ({})", where, type.to_string())));
}

std::optional<PlacedLiteral> place(const Value& literal, const Type& type, std::string_view column) {
  const Written w = written(literal);
  switch (type.id()) {
    case TypeId::boolean_:
      return place_in_boolean(literal, w);
    case TypeId::int_:
    case TypeId::long_:
      return place_in_integers(w, type);
    case TypeId::float_:
      return place_in_floats<float>(literal, w);
    case TypeId::double_:
      return place_in_floats<double>(literal, w);
    case TypeId::decimal:
      return place_in_decimal(literal, w, type);
    case TypeId::date:
      return place_in_dates(w, type);
    case TypeId::time:
      return place_in_times(w, type);
    case TypeId::timestamp:
    case TypeId::timestamptz:
    case TypeId::timestamp_ns:
    case TypeId::timestamptz_ns:
      return place_in_timestamps(w, type, column);
    case TypeId::string:
      if (w.text) return exactly(*w.text);
      return std::nullopt;
    case TypeId::uuid:
      if (!w.text) return std::nullopt;
      if (auto bytes = uuid_to_bytes(*w.text)) return exactly(std::move(*bytes));
      if (w.text->size() == 16 && !w.is_json) return exactly(*w.text);
      return std::nullopt;
    case TypeId::fixed:
    case TypeId::binary:
      return place_in_bytes(w, type, column);
    default:
      return std::nullopt;
  }
}

std::string literal_text(const Value& literal) {
  if (const auto* b = std::get_if<bool>(&literal)) return *b ? "true" : "false";
  const Written w = written(literal);
  return w.text ? "'" + *w.text + "'" : w.number.value_or("a decimal");
}

}  // namespace

PlacedLiteral place_integer(__int128 value, const Type& type) {
  const bool is_32_bits = type.id() == TypeId::int_ || type.id() == TypeId::date;
  const __int128 min = is_32_bits ? std::numeric_limits<int32_t>::min() : std::numeric_limits<int64_t>::min();
  const __int128 max = is_32_bits ? std::numeric_limits<int32_t>::max() : std::numeric_limits<int64_t>::max();
  if (value < min) return {Place::below, {}};
  if (value > max) return {Place::above, {}};
  if (is_32_bits) return exactly(static_cast<int32_t>(value));
  return exactly(static_cast<int64_t>(value));
}

PlacedLiteral place_literal(const Value& literal, const Type& type, std::string_view column) {
  std::optional<PlacedLiteral> placed;
  try {
    placed = place(literal, type, column);
  } catch (const Error& e) {
    throw Error(ErrorKind::invalid_argument, fmt::format("Column {}", column), e);
  }
  if (!placed)
    fail(ErrorKind::invalid_argument, "Column {} of type {} cannot be compared with {}", column, type.to_string(),
         literal_text(literal));
  return *placed;
}

}  // namespace firn::iceberg
