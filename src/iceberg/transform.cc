#include "iceberg/transform.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include <fmt/format.h>

#include "base/civil_time.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/uri.h"
#include "iceberg/bounds.h"

namespace firn::iceberg {
namespace {

using arrow::Decimal128;

constexpr int64_t kMicrosPerSecond = 1'000'000;
constexpr int64_t kNanosPerSecond = 1'000'000'000;
constexpr int64_t kSecondsPerHour = 3600;
constexpr int64_t kSecondsPerDay = 86'400;

bool is_timestamp(const Type& type) {
  return type.id() == TypeId::timestamp || type.id() == TypeId::timestamptz || is_nanos(type);
}

[[noreturn]] void fail_source(const Transform& transform, const Type& source) {
  fail(ErrorKind::invalid_argument, "The transform {} does not take a column of type {}", transform.name,
       source.to_string());
}

int64_t seconds_of(const Value& value, const Type& source) {
  if (source.id() == TypeId::date) return std::get<int32_t>(value) * kSecondsPerDay;
  return floor_div(std::get<int64_t>(value), is_nanos(source) ? kNanosPerSecond : kMicrosPerSecond);
}

// Microseconds at the ends of int64 lie 2.5e9 hours away: those saturate, so that the transform keeps its order.
int32_t saturate(int64_t value) {
  return static_cast<int32_t>(
      std::clamp<int64_t>(value, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()));
}

// Years, months, days or hours since 1970, rounded down (cases.md 4).
int32_t time_ordinal(TransformKind kind, int64_t seconds) {
  if (kind == TransformKind::hour) return saturate(floor_div(seconds, kSecondsPerHour));
  const int64_t days = floor_div(seconds, kSecondsPerDay);
  if (kind == TransformKind::day) return static_cast<int32_t>(days);
  const CivilDate date = civil_from_days(static_cast<int32_t>(days));
  return kind == TransformKind::year ? date.year - 1970 : (date.year - 1970) * 12 + date.month - 1;
}

// Spec, Appendix B: what is hashed for each type.
std::string hashed_bytes(const Value& value, const Type& source) {
  switch (source.id()) {
    case TypeId::int_:
    case TypeId::date:
      return to_bytes(static_cast<int64_t>(std::get<int32_t>(value)), *Type::primitive(TypeId::long_));
    case TypeId::timestamp_ns:
    case TypeId::timestamptz_ns:
      return to_bytes(floor_div(std::get<int64_t>(value), 1000), *Type::primitive(TypeId::long_));
    default:
      return to_bytes(value, source);
  }
}

template <class T>
T truncate_integer(T value, int32_t width) {
  // Below the type's least multiple of the width it wraps, as in Java.
  using Unsigned = std::make_unsigned_t<T>;
  return static_cast<T>(static_cast<Unsigned>(value) - static_cast<Unsigned>(floor_mod(value, width)));
}

Value truncate(const Value& value, const Type& source, int32_t width) {
  switch (source.id()) {
    case TypeId::int_:
      return truncate_integer(std::get<int32_t>(value), width);
    case TypeId::long_:
      return truncate_integer(std::get<int64_t>(value), width);
    case TypeId::decimal: {
      const auto& unscaled = std::get<Decimal128>(value);
      Decimal128 remainder = unscaled % Decimal128(width);
      if (remainder < Decimal128(0)) remainder += Decimal128(width);
      return unscaled - remainder;
    }
    case TypeId::string:
      return std::string(code_point_prefix(std::get<std::string>(value), width));
    default:
      return std::get<std::string>(value).substr(0, width);
  }
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k) group = group << 8 | (i + k < bytes.size() ? static_cast<uint8_t>(bytes[i + k]) : 0);
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    for (size_t k = 0; k < 4; ++k) text.push_back(k <= count ? kDigits[group >> (18 - 6 * k) & 63] : '=');
  }
  return text;
}

// The helpers below print as Java does, whose paths are the ones in use.

std::string human_date(int64_t days) {
  const CivilDate date = civil_from_days(static_cast<int32_t>(days));
  return fmt::format("{:04}-{:02}-{:02}", date.year, date.month, date.day);
}

// LocalTime.toString: no seconds where they are zero, fractions by threes.
std::string human_time(int64_t micros) {
  const int64_t seconds = micros / kMicrosPerSecond, fraction = micros % kMicrosPerSecond;
  std::string text = fmt::format("{:02}:{:02}", seconds / 3600, seconds / 60 % 60);
  if (seconds % 60 == 0 && fraction == 0) return text;
  text += fmt::format(":{:02}", seconds % 60);
  if (fraction == 0) return text;
  return text + (fraction % 1000 == 0 ? fmt::format(".{:03}", fraction / 1000) : fmt::format(".{:06}", fraction));
}

// ISO_LOCAL_DATE_TIME: seconds always, of the fraction as many digits as it takes.
std::string human_timestamp(int64_t value, const Type& type) {
  const int64_t per_second = is_nanos(type) ? kNanosPerSecond : kMicrosPerSecond;
  const int64_t seconds = floor_div(value, per_second), fraction = floor_mod(value, per_second);
  const int64_t days = floor_div(seconds, kSecondsPerDay), of_day = floor_mod(seconds, kSecondsPerDay);
  std::string text =
      fmt::format("{}T{:02}:{:02}:{:02}", human_date(days), of_day / 3600, of_day / 60 % 60, of_day % 60);
  if (fraction != 0) {
    text += is_nanos(type) ? fmt::format(".{:09}", fraction) : fmt::format(".{:06}", fraction);
    text.erase(text.find_last_not_of('0') + 1);
  }
  if (type.id() == TypeId::timestamptz || type.id() == TypeId::timestamptz_ns) text += "+00:00";
  return text;
}

// BigDecimal.toString: an exponent where the value is far below one.
std::string human_decimal(const Decimal128& value, const Type& type) {
  const std::string text = value.ToIntegerString();
  const bool negative = text[0] == '-';
  std::string digits = text.substr(negative ? 1 : 0);
  const int64_t exponent = static_cast<int64_t>(digits.size()) - 1 - type.scale();
  if (exponent >= -6) return to_display(value, type);
  if (digits.size() > 1) digits.insert(1, ".");
  return fmt::format("{}{}E{}", negative ? "-" : "", digits, exponent);
}

// Double.toString: at least one digit after the point; an exponent below 1e-3 and from 1e7 on.
std::string human_float(const Value& value, const Type& type) {
  const double number = type.id() == TypeId::float_ ? std::get<float>(value) : std::get<double>(value);
  const double size = number < 0 ? -number : number;
  if (!(size < std::numeric_limits<double>::infinity()) || size == 0 || (size >= 1e-3 && size < 1e7))
    return to_display(value, type);
  // fmt's {:e} is not the shortest form: the digits come from {}, the point moves.
  const std::string text =
      type.id() == TypeId::float_ ? fmt::format("{}", std::get<float>(value)) : fmt::format("{}", number);
  std::string digits;
  int64_t exponent = 0;
  const size_t e = text.find('e');
  std::string mantissa = text.substr(0, e);
  if (e != std::string::npos) exponent = std::strtol(text.c_str() + e + 1, nullptr, 10);
  const bool negative = mantissa[0] == '-';
  if (negative) mantissa.erase(0, 1);
  const size_t point = mantissa.find('.');
  exponent += static_cast<int64_t>(point == std::string::npos ? mantissa.size() : point) - 1;
  for (const char c : mantissa)
    if (c != '.') digits.push_back(c);
  const size_t first = digits.find_first_not_of('0');
  exponent -= static_cast<int64_t>(first);
  digits.erase(0, first);
  digits.erase(digits.find_last_not_of('0') + 1);
  return fmt::format("{}{}.{}E{}", negative ? "-" : "", digits[0], digits.size() > 1 ? digits.substr(1) : "0",
                     exponent);
}

std::string human_value(const Value& value, const Type& type) {
  switch (type.id()) {
    case TypeId::date:
      return human_date(std::get<int32_t>(value));
    case TypeId::time:
      return human_time(std::get<int64_t>(value));
    case TypeId::timestamp:
    case TypeId::timestamptz:
    case TypeId::timestamp_ns:
    case TypeId::timestamptz_ns:
      return human_timestamp(std::get<int64_t>(value), type);
    case TypeId::fixed:
    case TypeId::binary:
      return base64(std::get<std::string>(value));
    case TypeId::decimal:
      return human_decimal(std::get<Decimal128>(value), type);
    case TypeId::float_:
    case TypeId::double_:
      return human_float(value, type);
    default:
      return to_display(value, type);
  }
}

std::vector<int32_t> source_ids_from_json(const Json& json, std::string_view where) {
  std::vector<int32_t> ids;
  if (const Json* list = find_member(json, "source-ids")) {
    if (!list->is_array()) fail(ErrorKind::corrupt, "{}: source-ids is no list", where);
    for (const Json& id : *list) {
      if (!id.is_number_integer()) fail(ErrorKind::corrupt, "{}: a source id is no integer", where);
      ids.push_back(id.get<int32_t>());
    }
    if (ids.empty()) fail(ErrorKind::corrupt, "{}: source-ids is empty", where);
    return ids;
  }
  return {get_int32(json, "source-id", where)};
}

void source_ids_to_json(const std::vector<int32_t>& ids, Json& json) {
  if (ids.size() == 1)
    json["source-id"] = ids[0];
  else
    json["source-ids"] = ids;
}

// No transform of several arguments is defined yet: all of them are unknown to us, and kept.
Transform transform_from_json(const Json& json, const std::vector<int32_t>& source_ids, std::string_view where) {
  Transform transform = Transform::parse(get_string(json, "transform", where));
  if (source_ids.size() > 1) transform.kind = TransformKind::unknown;
  return transform;
}

std::string field_to_display(const Transform& transform, const std::vector<int32_t>& source_ids, const Schema& schema) {
  std::string columns;
  for (const int32_t id : source_ids) {
    if (!columns.empty()) columns += ", ";
    columns += schema.find_field(id) ? schema.full_name(id) : fmt::format("dropped column {}", id);
  }
  return transform.kind == TransformKind::identity ? columns : fmt::format("{}({})", transform.name, columns);
}

std::string partition_name(const std::string& column, const Transform& transform) {
  switch (transform.kind) {
    case TransformKind::bucket:
      return fmt::format("{}_bucket_{}", column, transform.parameter);
    case TransformKind::truncate:
      return fmt::format("{}_trunc_{}", column, transform.parameter);
    case TransformKind::void_:
      return column + "_null";
    case TransformKind::identity:
      return column;
    default:
      return column + "_" + transform.name;
  }
}

}  // namespace

Transform Transform::parse(std::string_view text) {
  struct Name {
    std::string_view name;
    TransformKind kind;
    bool has_parameter;
  };
  static constexpr Name kNames[] = {
      {"identity", TransformKind::identity, false}, {"bucket", TransformKind::bucket, true},
      {"truncate", TransformKind::truncate, true},  {"year", TransformKind::year, false},
      {"month", TransformKind::month, false},       {"day", TransformKind::day, false},
      {"hour", TransformKind::hour, false},         {"void", TransformKind::void_, false},
  };
  std::string lower(text);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  for (const Name& known : kNames) {
    if (!known.has_parameter) {
      if (lower == known.name) return {known.kind, 0, std::move(lower)};
      continue;
    }
    const size_t open = known.name.size();
    if (!lower.starts_with(known.name) || lower.size() < open + 3 || lower[open] != '[' || lower.back() != ']')
      continue;
    int32_t parameter = 0;
    const char* end = lower.data() + lower.size() - 1;
    const auto [stop, error] = std::from_chars(lower.data() + open + 1, end, parameter);
    if (error == std::errc() && stop == end && parameter > 0) return {known.kind, parameter, std::move(lower)};
  }
  return {TransformKind::unknown, 0, std::string(text)};
}

bool can_transform(const Transform& transform, const Type& source) {
  const TypeId id = source.id();
  switch (transform.kind) {
    case TransformKind::identity:
      return id < TypeId::variant;
    case TransformKind::bucket:
      return id == TypeId::int_ || id == TypeId::long_ || (id >= TypeId::decimal && id <= TypeId::binary);
    case TransformKind::truncate:
      return id == TypeId::int_ || id == TypeId::long_ || id == TypeId::decimal || id == TypeId::string ||
             id == TypeId::binary;
    case TransformKind::year:
    case TransformKind::month:
    case TransformKind::day:
      return id == TypeId::date || is_timestamp(source);
    case TransformKind::hour:
      return is_timestamp(source);
    case TransformKind::void_:
    case TransformKind::unknown:
      return true;
  }
  return false;
}

TypePtr result_type(const Transform& transform, const TypePtr& source) {
  // A column of type unknown is one that was dropped: only the transforms with a result type of their own know theirs.
  if (source->id() != TypeId::unknown && !can_transform(transform, *source)) fail_source(transform, *source);
  switch (transform.kind) {
    case TransformKind::identity:
    case TransformKind::truncate:
    case TransformKind::void_:
      return source;
    case TransformKind::bucket:
    case TransformKind::year:
    case TransformKind::month:
    case TransformKind::hour:
      return Type::primitive(TypeId::int_);
    case TransformKind::day:
      return Type::primitive(TypeId::date);
    case TransformKind::unknown:
      return Type::primitive(TypeId::string);
  }
  return source;
}

Value apply(const Transform& transform, const Value& value, const Type& source) {
  if (!can_transform(transform, source)) fail_source(transform, source);
  if (is_null(value)) return {};
  switch (transform.kind) {
    case TransformKind::identity:
      return value;
    case TransformKind::bucket:
      return static_cast<int32_t>((murmur3_32(hashed_bytes(value, source)) & 0x7FFFFFFF) % transform.parameter);
    case TransformKind::truncate:
      return truncate(value, source, transform.parameter);
    case TransformKind::year:
    case TransformKind::month:
    case TransformKind::day:
    case TransformKind::hour:
      return time_ordinal(transform.kind, seconds_of(value, source));
    case TransformKind::void_:
      return {};
    case TransformKind::unknown:
      break;
  }
  fail(ErrorKind::unsupported, "The transform {} is not known to firn: its partitions can be read, not written",
       transform.name);
}

std::string to_human_string(const Transform& transform, const Value& value, const Type& source) {
  if (is_null(value)) return "null";
  switch (transform.kind) {
    case TransformKind::year:
      return fmt::format("{:04}", 1970 + static_cast<int64_t>(std::get<int32_t>(value)));
    case TransformKind::month: {
      const int64_t month = std::get<int32_t>(value);
      return fmt::format("{:04}-{:02}", 1970 + floor_div(month, 12), 1 + floor_mod(month, 12));
    }
    case TransformKind::day:
      return human_date(std::get<int32_t>(value));
    case TransformKind::hour: {
      const int64_t hour = std::get<int32_t>(value);
      return fmt::format("{}-{:02}", human_date(floor_div(hour, 24)), floor_mod(hour, 24));
    }
    case TransformKind::bucket:
      return std::to_string(std::get<int32_t>(value));
    case TransformKind::unknown:
      if (const auto* text = std::get_if<std::string>(&value)) return *text;
      fail(ErrorKind::unsupported, "The transform {} is not known to firn: its partitions have no path",
           transform.name);
    default:
      return human_value(value, source);
  }
}

// A type that has `value`, where nothing else tells.
static TypePtr type_of(const Value& value) {
  if (std::holds_alternative<bool>(value)) return Type::primitive(TypeId::boolean_);
  if (std::holds_alternative<int32_t>(value)) return Type::primitive(TypeId::int_);
  if (std::holds_alternative<int64_t>(value)) return Type::primitive(TypeId::long_);
  if (std::holds_alternative<float>(value)) return Type::primitive(TypeId::float_);
  if (std::holds_alternative<double>(value)) return Type::primitive(TypeId::double_);
  if (std::holds_alternative<Decimal128>(value)) return Type::decimal(38, 0);
  if (std::holds_alternative<std::string>(value)) return Type::primitive(TypeId::string);
  return Type::primitive(TypeId::unknown);
}

bool PartitionSpec::is_unpartitioned() const {
  return std::all_of(fields.begin(), fields.end(),
                     [](const PartitionField& field) { return field.transform.kind == TransformKind::void_; });
}

TypePtr PartitionSpec::partition_type(const Schema& schema) const {
  std::vector<Field> types;
  for (const PartitionField& field : fields) {
    const Field* source = schema.find_field(field.source_id());
    const TypePtr source_type = source ? source->type : Type::primitive(TypeId::unknown);
    types.push_back({.id = field.field_id, .name = field.name, .type = result_type(field.transform, source_type)});
  }
  return Type::struct_of(std::move(types));
}

std::string PartitionSpec::partition_path(const std::vector<Value>& values, const Schema& schema) const {
  if (is_unpartitioned()) return "";
  std::string path;
  for (size_t i = 0; i < fields.size(); ++i) {
    const Field* source = schema.find_field(fields[i].source_id());
    const TypePtr type = source ? source->type : type_of(values.at(i));  // of an older spec: its column was dropped
    if (i > 0) path += '/';
    path += form_encode(fields[i].name) + '=' + form_encode(to_human_string(fields[i].transform, values.at(i), *type));
  }
  return path;
}

Json PartitionSpec::to_json() const {
  Json json = {{"spec-id", spec_id}, {"fields", Json::array()}};
  for (const PartitionField& field : fields) {
    Json item = {{"name", field.name}, {"transform", field.transform.name}};
    source_ids_to_json(field.source_ids, item);
    item["field-id"] = field.field_id;
    json["fields"].push_back(std::move(item));
  }
  return json;
}

PartitionSpec PartitionSpec::from_json(const Json& json, std::string_view where) {
  return {get_int32(json, "spec-id", where), fields_from_v1_json(get_array(json, "fields", where), where)};
}

std::vector<PartitionField> PartitionSpec::fields_from_v1_json(const Json& array, std::string_view where) {
  if (!array.is_array()) fail(ErrorKind::corrupt, "{}: the partition spec is no list", where);
  std::vector<PartitionField> fields;
  for (const Json& item : array) {
    PartitionField field;
    field.name = get_string(item, "name", where);
    const std::string inside = fmt::format("{}, partition field {}", where, field.name);
    field.source_ids = source_ids_from_json(item, inside);
    field.transform = transform_from_json(item, field.source_ids, inside);
    // v1 wrote no ids; they count from 1000 (spec, "Partition Specs").
    field.field_id = find_int32(item, "field-id", inside).value_or(1000 + static_cast<int32_t>(fields.size()));
    fields.push_back(std::move(field));
  }
  return fields;
}

bool PartitionSpec::compatible_with(const PartitionSpec& other) const {
  return std::equal(fields.begin(), fields.end(), other.fields.begin(), other.fields.end(),
                    [](const PartitionField& a, const PartitionField& b) {
                      return a.source_ids == b.source_ids && a.transform == b.transform && a.name == b.name;
                    });
}

std::string PartitionSpec::to_display(const Schema& schema) const {
  if (fields.empty()) return "unpartitioned";
  std::string text;
  for (const PartitionField& field : fields) {
    if (!text.empty()) text += ", ";
    text += field_to_display(field.transform, field.source_ids, schema);
  }
  return text;
}

Json SortOrder::to_json() const {
  Json json = {{"order-id", order_id}, {"fields", Json::array()}};
  for (const SortField& field : fields) {
    Json item = {{"transform", field.transform.name}};
    source_ids_to_json(field.source_ids, item);
    item["direction"] = field.ascending ? "asc" : "desc";
    item["null-order"] = field.nulls_first ? "nulls-first" : "nulls-last";
    json["fields"].push_back(std::move(item));
  }
  return json;
}

SortOrder SortOrder::from_json(const Json& json, std::string_view where) {
  SortOrder order;
  order.order_id = get_int32(json, "order-id", where);
  const std::string inside = fmt::format("{}, sort order {}", where, order.order_id);
  for (const Json& item : get_array(json, "fields", inside)) {
    SortField field;
    field.source_ids = source_ids_from_json(item, inside);
    field.transform = transform_from_json(item, field.source_ids, inside);
    const std::string direction = get_string(item, "direction", inside);
    const std::string null_order = get_string(item, "null-order", inside);
    if (direction != "asc" && direction != "desc")
      fail(ErrorKind::corrupt, "{}: the direction \"{}\" is neither asc nor desc", inside, direction);
    if (null_order != "nulls-first" && null_order != "nulls-last")
      fail(ErrorKind::corrupt, "{}: the null order \"{}\" is neither nulls-first nor nulls-last", inside, null_order);
    field.ascending = direction == "asc";
    field.nulls_first = null_order == "nulls-first";
    order.fields.push_back(std::move(field));
  }
  return order;
}

std::string SortOrder::to_display(const Schema& schema) const {
  if (fields.empty()) return "unsorted";
  std::string text;
  for (const SortField& field : fields) {
    if (!text.empty()) text += ", ";
    text += fmt::format("{} {} nulls {}", field_to_display(field.transform, field.source_ids, schema),
                        field.ascending ? "asc" : "desc", field.nulls_first ? "first" : "last");
  }
  return text;
}

PartitionSpec make_partition_spec(const std::vector<PartitionDeclaration>& fields, const Schema& schema) {
  PartitionSpec spec;
  for (const PartitionDeclaration& declared : fields) {
    const Field* source = schema.find_field(declared.column);
    if (!source)
      fail(ErrorKind::invalid_argument, "Partition column {} is not in the schema: name a column that is",
           declared.column);
    if (schema.is_nested_below_list_or_map(source->id))
      fail(ErrorKind::invalid_argument, "Partition column {} lies in a list or map: a row has no single value of it",
           declared.column);
    PartitionField field{.source_ids = {source->id}, .transform = Transform::parse(declared.transform)};
    if (field.transform.kind == TransformKind::unknown)
      fail(
          ErrorKind::invalid_argument,
          "Partition column {}: {} is no transform; there are identity, bucket[N], truncate[W], year, month, day, hour "
          "and void",
          declared.column, declared.transform);
    if (!can_transform(field.transform, *source->type))
      fail(ErrorKind::invalid_argument, "Partition column {}: the transform {} does not take type {}", declared.column,
           declared.transform, source->type->to_string());
    field.field_id = 1000 + static_cast<int32_t>(spec.fields.size());
    field.name = partition_name(declared.column, field.transform);
    const Field* namesake = schema.find_field(field.name);
    const bool taken = std::any_of(spec.fields.begin(), spec.fields.end(),
                                   [&](const PartitionField& other) { return other.name == field.name; });
    if (taken || (namesake && (namesake != source || field.transform.kind != TransformKind::identity)))
      fail(ErrorKind::invalid_argument, "Partition column {}: its partition field would be named {}, which is taken",
           declared.column, field.name);
    spec.fields.push_back(std::move(field));
  }
  return spec;
}

}  // namespace firn::iceberg
