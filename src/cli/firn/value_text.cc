#include "cli/firn/value_text.h"

#include <charconv>
#include <limits>

#include <arrow/builder.h>

#include "base/arrow_status.h"
#include "base/civil_time.h"
#include "cli/firn/variant_text.h"

namespace firn::cli {
namespace {

using iceberg::Field;
using iceberg::Type;
using iceberg::TypeId;

constexpr size_t kQuotedTextMax = 40;

std::string quoted(std::string_view text) {
  if (text.size() <= kQuotedTextMax) return fmt::format("'{}'", text);
  size_t size = kQuotedTextMax;
  while (size > 0 && (text[size] & 0xC0) == 0x80) --size;  // not within a character
  return fmt::format("'{}…'", text.substr(0, size));
}

// What is wrong with the text of a time; "" for other types.
std::string time_hint(const Type& type, std::string_view text) {
  const bool has_zone = type.id() == TypeId::timestamptz || type.id() == TypeId::timestamptz_ns;
  if (!has_zone && type.id() != TypeId::timestamp && type.id() != TypeId::timestamp_ns) return "";
  const auto micros = parse_timestamp_us(text, Years::any);
  const auto nanos = parse_timestamp_ns(text, Years::any);
  if (micros || nanos) {
    const bool has_offset = micros ? micros->has_offset : nanos->has_offset;
    if (has_offset && !has_zone) return " (it has an offset: leave it out)";
    if (!has_offset && has_zone) return " (such as 2024-03-01T12:00:00Z; it needs an offset)";
    return iceberg::is_nanos(type) ? " (nanoseconds reach from 1677 to 2262)"
                                   : " (it has more than 6 digits after the point of its seconds)";
  }
  return has_zone ? " (such as 2024-03-01T12:00:00Z)" : " (such as 2024-03-01T12:00:00)";
}

[[noreturn]] void fail_value(const Type& type, std::string_view text) {
  fail(ErrorKind::invalid_argument, "{} is no {}{}", quoted(text), type.to_string(), time_hint(type, text));
}

template <class Builder, class Value>
void append_to(arrow::ArrayBuilder& builder, const Value& value) {
  check(static_cast<Builder&>(builder).Append(value), "append a value");
}

template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<int64_t> parse_timestamp(std::string_view text, const Type& type) {
  const auto parsed =
      iceberg::is_nanos(type) ? parse_timestamp_ns(text, Years::any) : parse_timestamp_us(text, Years::any);
  const bool has_zone = type.id() == TypeId::timestamptz || type.id() == TypeId::timestamptz_ns;
  if (!parsed || parsed->has_offset != has_zone) return std::nullopt;
  return parsed->value;
}

template <class Builder, class Value>
void append_parsed(arrow::ArrayBuilder& builder, const Type& type, std::string_view text,
                   const std::optional<Value>& value) {
  if (!value) fail_value(type, text);
  append_to<Builder>(builder, *value);
}

// A primitive's text.
void append_primitive(arrow::ArrayBuilder& builder, const Type& type, std::string_view text) {
  switch (type.id()) {
    case TypeId::boolean_:
      if (text != "true" && text != "false") fail_value(type, text);
      return append_to<arrow::BooleanBuilder>(builder, text == "true");
    case TypeId::int_:
      return append_parsed<arrow::Int32Builder>(builder, type, text, parse_number<int32_t>(text));
    case TypeId::long_:
      return append_parsed<arrow::Int64Builder>(builder, type, text, parse_number<int64_t>(text));
    case TypeId::float_:
      return append_parsed<arrow::FloatBuilder>(builder, type, text, parse_number<float>(text));
    case TypeId::double_:
      return append_parsed<arrow::DoubleBuilder>(builder, type, text, parse_number<double>(text));
    case TypeId::decimal:
      return append_parsed<arrow::Decimal128Builder>(builder, type, text, parse_decimal(text, type));
    case TypeId::date:
      return append_parsed<arrow::Date32Builder>(builder, type, text, parse_date(text, Years::any));
    case TypeId::time:
      return append_parsed<arrow::Time64Builder>(builder, type, text, parse_time_us(text));
    case TypeId::timestamp:
    case TypeId::timestamptz:
    case TypeId::timestamp_ns:
    case TypeId::timestamptz_ns:
      return append_parsed<arrow::TimestampBuilder>(builder, type, text, parse_timestamp(text, type));
    case TypeId::string:
      return append_to<arrow::StringBuilder>(builder, text);
    case TypeId::uuid:
      return append_parsed<arrow::FixedSizeBinaryBuilder>(builder, type, text, bytes_of_uuid(text));
    case TypeId::fixed: {
      const auto bytes = bytes_of_hex(text);
      if (!bytes || bytes->size() != static_cast<size_t>(type.length())) fail_value(type, text);
      return append_to<arrow::FixedSizeBinaryBuilder>(builder, *bytes);
    }
    case TypeId::binary:
    case TypeId::geometry:
    case TypeId::geography:
      return append_parsed<arrow::BinaryBuilder>(builder, type, text, bytes_of_hex(text));
    default:
      fail_value(type, text);  // unknown has no value but null
  }
}

void append_struct(arrow::ArrayBuilder& builder, const Type& type, const Json& json) {
  if (!json.is_object()) fail(ErrorKind::invalid_argument, "a struct is written as a JSON object");
  auto& members = static_cast<arrow::StructBuilder&>(builder);
  check(members.Append(), "append a struct");
  size_t num_known = 0;
  for (size_t i = 0; i < type.fields().size(); ++i) {
    const Field& field = type.fields()[i];
    const auto found = json.find(field.name);
    if (found != json.end()) ++num_known;
    append_json(*members.field_builder(static_cast<int>(i)), field, found == json.end() ? Json() : *found);
  }
  if (num_known == json.size()) return;
  for (const auto& [name, unused] : json.items()) {
    const bool known = std::any_of(type.fields().begin(), type.fields().end(),
                                   [&, &key = name](const Field& field) { return field.name == key; });
    if (!known) fail(ErrorKind::invalid_argument, "the struct has no field '{}'", name);
  }
}

void append_list(arrow::ArrayBuilder& builder, const Type& type, const Json& json) {
  if (!json.is_array()) fail(ErrorKind::invalid_argument, "a list is written as a JSON array");
  auto& list = static_cast<arrow::ListBuilder&>(builder);
  check(list.Append(), "append a list");
  for (const Json& element : json) append_json(*list.value_builder(), type.element(), element);
}

void append_map(arrow::ArrayBuilder& builder, const Type& type, const Json& json) {
  auto& map = static_cast<arrow::MapBuilder&>(builder);
  check(map.Append(), "append a map");
  if (json.is_object()) {  // taken too, where keys have a text
    for (const auto& [key, value] : json.items()) {
      append_text(*map.key_builder(), type.key(), key);
      append_json(*map.item_builder(), type.value(), value);
    }
    return;
  }
  if (!json.is_array()) fail(ErrorKind::invalid_argument, "a map is written as a JSON array of [key, value] pairs");
  for (const Json& pair : json) {
    if (!pair.is_array() || pair.size() != 2) {
      fail(ErrorKind::invalid_argument, "a map is written as a JSON array of [key, value] pairs");
    }
    append_json(*map.key_builder(), type.key(), pair[0]);
    append_json(*map.item_builder(), type.value(), pair[1]);
  }
}

void append_variant(arrow::ArrayBuilder& builder, const Json& json) {
  if (!json.is_object() || json.size() != 1 || !json.contains("variant")) {
    fail(ErrorKind::invalid_argument, "a variant is written as {{\"variant\":{{\"t\":physical type,\"v\":value}}}}");
  }
  const VariantBytes bytes = encode_variant(json["variant"]);
  auto& parts = static_cast<arrow::StructBuilder&>(builder);
  check(parts.Append(), "append a variant");
  for (int i = 0; i < parts.num_fields(); ++i) {
    const bool is_metadata = parts.type()->field(i)->name() == "metadata";
    append_to<arrow::BinaryBuilder>(*parts.field_builder(i), is_metadata ? bytes.metadata : bytes.value);
  }
}

void append_null(arrow::ArrayBuilder& builder, const Field& field) {
  if (field.required) fail(ErrorKind::invalid_argument, "it is required, and null or missing here");
  check(builder.AppendNull(), "append a null");
}

// Errors name the way to the value.
template <class Append>
void append_named(const Field& field, const Append& append) {
  try {
    append();
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::invalid_argument) throw;
    const std::string text = e.what();
    throw Error(e.kind(), text.starts_with("column ") ? "column " + field.name + "." + text.substr(7)
                                                      : fmt::format("column {}: {}", field.name, text));
  }
}

}  // namespace

void append_json(arrow::ArrayBuilder& builder, const Field& field, const Json& json) {
  append_named(field, [&] {
    if (json.is_null()) return append_null(builder, field);
    const Type& type = *field.type;
    switch (type.id()) {
      case TypeId::struct_:
        return append_struct(builder, type, json);
      case TypeId::list:
        return append_list(builder, type, json);
      case TypeId::map:
        return append_map(builder, type, json);
      case TypeId::variant:
        return append_variant(builder, json);
      default:
        break;
    }
    if (json.is_string()) return append_primitive(builder, type, json.get_ref<const std::string&>());
    // Not printed: it may be long.
    if (json.is_structured()) fail_value(type, json.is_array() ? "an array" : "an object");
    const std::string text = json.dump();
    const bool takes_numbers = type.id() == TypeId::int_ || type.id() == TypeId::long_ || type.id() == TypeId::float_ ||
                               type.id() == TypeId::double_ || type.id() == TypeId::decimal;
    if (json.is_number() ? !takes_numbers : !json.is_boolean() || type.id() != TypeId::boolean_) {
      fail_value(type, text);
    }
    append_primitive(builder, type, text);
  });
}

void append_text(arrow::ArrayBuilder& builder, const Field& field, std::optional<std::string_view> text) {
  const Type& type = *field.type;
  const bool is_json = type.is_nested() || type.id() == TypeId::variant;
  if (text && is_json) return append_json(builder, field, parse_json(*text, "column " + field.name));
  append_named(field, [&] {
    if (!text) return append_null(builder, field);
    append_primitive(builder, type, *text);
  });
}

std::optional<std::string> bytes_of_hex(std::string_view text) {
  if (text.size() % 2 != 0) return std::nullopt;
  std::string bytes;
  for (size_t i = 0; i < text.size(); i += 2) {
    uint8_t byte = 0;
    const auto [end, error] = std::from_chars(text.data() + i, text.data() + i + 2, byte, 16);
    if (error != std::errc{} || end != text.data() + i + 2) return std::nullopt;
    bytes.push_back(static_cast<char>(byte));
  }
  return bytes;
}

std::optional<std::string> bytes_of_uuid(std::string_view text) {
  if (text.size() != 36) return std::nullopt;
  std::string hex;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (is_dash != (text[i] == '-')) return std::nullopt;
    if (!is_dash) hex.push_back(text[i]);
  }
  return bytes_of_hex(hex);
}

}  // namespace firn::cli
