#include "iceberg/parquet/parquet_schema.h"

#include <cmath>
#include <limits>

#include <arrow/util/decimal.h>
#include <parquet/types.h>

#include "base/civil_time.h"
#include "base/error.h"

namespace firn::iceberg {

namespace {

using parquet::LogicalType;
using parquet::Repetition;
using parquet::schema::GroupNode;
using parquet::schema::NodePtr;
using parquet::schema::NodeVector;
using parquet::schema::PrimitiveNode;

TypePtr stored_type(const TypePtr& type, const std::string& path);

std::vector<Field> stored_fields(const std::vector<Field>& fields, const std::string& parent) {
  std::vector<Field> stored;
  for (const Field& field : fields) {
    if (field.type->id() == TypeId::unknown) continue;
    stored.push_back(field);
    stored.back().type = stored_type(field.type, parent.empty() ? field.name : parent + "." + field.name);
  }
  return stored;
}

TypePtr stored_type(const TypePtr& type, const std::string& path) {
  switch (type->id()) {
    case TypeId::struct_: {
      std::vector<Field> fields = stored_fields(type->fields(), path);
      if (fields.empty())
        fail(ErrorKind::unsupported, "column {}: Parquet cannot store a struct without members of a known type", path);
      return Type::struct_of(std::move(fields));
    }
    case TypeId::list:
      return Type::list_of(type->element().id, type->element().required,
                           stored_type(type->element().type, path + ".element"));
    case TypeId::map:
      return Type::map_of(type->key().id, stored_type(type->key().type, path + ".key"), type->value().id,
                          type->value().required, stored_type(type->value().type, path + ".value"));
    case TypeId::unknown:
      fail(ErrorKind::unsupported, "column {}: a list or map of unknown cannot be stored in Parquet", path);
    default:
      return type;
  }
}

NodePtr to_node(const std::string& name, bool required, int32_t id, const Type& type) {
  const auto repetition = required ? Repetition::REQUIRED : Repetition::OPTIONAL;
  const auto leaf = [&](parquet::Type::type physical, std::shared_ptr<const LogicalType> logical = LogicalType::None(),
                        int length = -1) {
    return PrimitiveNode::Make(name, repetition, std::move(logical), physical, length, id);
  };
  const auto timestamp = [&](bool utc, LogicalType::TimeUnit::unit unit) {
    return leaf(parquet::Type::INT64, LogicalType::Timestamp(utc, unit));
  };
  switch (type.id()) {
    case TypeId::boolean_:
      return leaf(parquet::Type::BOOLEAN);
    case TypeId::int_:
      return leaf(parquet::Type::INT32);
    case TypeId::long_:
      return leaf(parquet::Type::INT64);
    case TypeId::float_:
      return leaf(parquet::Type::FLOAT);
    case TypeId::double_:
      return leaf(parquet::Type::DOUBLE);
    case TypeId::decimal: {
      auto logical = LogicalType::Decimal(type.precision(), type.scale());
      if (type.precision() <= 9) return leaf(parquet::Type::INT32, std::move(logical));
      if (type.precision() <= 18) return leaf(parquet::Type::INT64, std::move(logical));
      return leaf(parquet::Type::FIXED_LEN_BYTE_ARRAY, std::move(logical),
                  arrow::DecimalType::DecimalSize(type.precision()));
    }
    case TypeId::date:
      return leaf(parquet::Type::INT32, LogicalType::Date());
    case TypeId::time:
      return leaf(parquet::Type::INT64, LogicalType::Time(false, LogicalType::TimeUnit::MICROS));
    case TypeId::timestamp:
      return timestamp(false, LogicalType::TimeUnit::MICROS);
    case TypeId::timestamptz:
      return timestamp(true, LogicalType::TimeUnit::MICROS);
    case TypeId::timestamp_ns:
      return timestamp(false, LogicalType::TimeUnit::NANOS);
    case TypeId::timestamptz_ns:
      return timestamp(true, LogicalType::TimeUnit::NANOS);
    case TypeId::string:
      return leaf(parquet::Type::BYTE_ARRAY, LogicalType::String());
    case TypeId::uuid:
      return leaf(parquet::Type::FIXED_LEN_BYTE_ARRAY, LogicalType::UUID(), 16);
    case TypeId::fixed:
      return leaf(parquet::Type::FIXED_LEN_BYTE_ARRAY, LogicalType::None(), type.length());
    case TypeId::binary:
      return leaf(parquet::Type::BYTE_ARRAY);
    case TypeId::geometry:
      return leaf(parquet::Type::BYTE_ARRAY, LogicalType::Geometry(type.crs()));
    case TypeId::geography: {
      using Edges = LogicalType::EdgeInterpolationAlgorithm;
      const std::string& name = type.algorithm();
      const auto algorithm = name == "vincenty"  ? Edges::VINCENTY
                             : name == "thomas"  ? Edges::THOMAS
                             : name == "andoyer" ? Edges::ANDOYER
                             : name == "karney"  ? Edges::KARNEY
                                                 : Edges::SPHERICAL;
      return leaf(parquet::Type::BYTE_ARRAY, LogicalType::Geography(type.crs(), algorithm));
    }
    case TypeId::variant:
      return GroupNode::Make(
          name, repetition,
          {PrimitiveNode::Make("metadata", Repetition::REQUIRED, LogicalType::None(), parquet::Type::BYTE_ARRAY),
           PrimitiveNode::Make("value", Repetition::REQUIRED, LogicalType::None(), parquet::Type::BYTE_ARRAY)},
          LogicalType::Variant(), id);
    case TypeId::struct_: {
      NodeVector members;
      for (const Field& field : type.fields())
        members.push_back(to_node(field.name, field.required, field.id, *field.type));
      return GroupNode::Make(name, repetition, members, nullptr, id);
    }
    case TypeId::list: {
      const Field& element = type.element();
      NodePtr repeated = GroupNode::Make("list", Repetition::REPEATED,
                                         {to_node("element", element.required, element.id, *element.type)});
      return GroupNode::Make(name, repetition, {std::move(repeated)}, LogicalType::List(), id);
    }
    case TypeId::map: {
      NodePtr repeated =
          GroupNode::Make("key_value", Repetition::REPEATED,
                          {to_node("key", true, type.key().id, *type.key().type),
                           to_node("value", type.value().required, type.value().id, *type.value().type)});
      return GroupNode::Make(name, repetition, {std::move(repeated)}, LogicalType::Map(), id);
    }
    case TypeId::unknown:
      break;
  }
  fail(ErrorKind::internal, "column {}: no Parquet type for {}", name, type.to_string());
}

void add_leaves(const Field& field, bool repeated, std::vector<LeafColumn>& leaves) {
  switch (field.type->id()) {
    case TypeId::struct_:
      for (const Field& member : field.type->fields()) add_leaves(member, repeated, leaves);
      return;
    case TypeId::list:
      add_leaves(field.type->element(), true, leaves);
      return;
    case TypeId::map:
      add_leaves(field.type->key(), true, leaves);
      add_leaves(field.type->value(), true, leaves);
      return;
    case TypeId::variant:
      leaves.push_back({.type = Type::primitive(TypeId::binary), .repeated = repeated});
      leaves.push_back({.type = Type::primitive(TypeId::binary), .repeated = repeated});
      return;
    default:
      leaves.push_back({.id = field.id, .type = field.type, .repeated = repeated});
  }
}

template <class T>
std::optional<T> decode_plain(std::string_view encoded) {
  T value;
  if (encoded.size() != sizeof(value)) return std::nullopt;
  std::memcpy(&value, encoded.data(), sizeof(value));
  return value;
}

std::optional<arrow::Decimal128> decode_big_endian(std::string_view bytes) {
  if (bytes.empty() || bytes.size() > 16) return std::nullopt;
  auto value =
      arrow::Decimal128::FromBigEndian(reinterpret_cast<const uint8_t*>(bytes.data()), static_cast<int>(bytes.size()));
  return value.ok() ? std::optional(*value) : std::nullopt;
}

// Microseconds in one of `unit`, or its part: a factor and a divisor.
struct UnitRatio {
  int64_t factor = 1, divisor = 1;
};
UnitRatio ratio(LogicalType::TimeUnit::unit from, bool to_nanos) {
  switch (from) {
    case LogicalType::TimeUnit::MILLIS:
      return {to_nanos ? 1'000'000 : 1'000, 1};
    case LogicalType::TimeUnit::MICROS:
      return {to_nanos ? 1'000 : 1, 1};
    case LogicalType::TimeUnit::NANOS:
      return {1, to_nanos ? 1 : 1'000};
    default:
      return {0, 1};
  }
}

std::optional<Value> scaled(int64_t value, UnitRatio by) {
  if (by.factor == 0 || by.divisor != 1)
    return by.factor == 0 ? std::nullopt : std::optional<Value>(floor_div(value, by.divisor));
  int64_t result;
  if (__builtin_mul_overflow(value, by.factor, &result)) return std::nullopt;
  return result;
}

std::optional<Value> decode_integer(int64_t value, bool is_int32, const LogicalType& logical, const Type& type) {
  if (logical.is_int() && !static_cast<const parquet::IntLogicalType&>(logical).is_signed()) return std::nullopt;
  switch (type.id()) {
    case TypeId::int_:
      if (!is_int32 || logical.is_date() || logical.is_decimal() || logical.is_time()) return std::nullopt;
      return static_cast<int32_t>(value);
    case TypeId::long_:
      if (logical.is_date() || logical.is_decimal() || logical.is_time() || logical.is_timestamp()) return std::nullopt;
      return value;
    case TypeId::date:
      return is_int32 && logical.is_date() ? std::optional<Value>(static_cast<int32_t>(value)) : std::nullopt;
    case TypeId::decimal:
      if (!logical.is_decimal() || static_cast<const parquet::DecimalLogicalType&>(logical).scale() != type.scale())
        return std::nullopt;
      return arrow::Decimal128(value);
    case TypeId::time:
      if (!logical.is_time()) return std::nullopt;
      return scaled(value, ratio(static_cast<const parquet::TimeLogicalType&>(logical).time_unit(), false));
    case TypeId::timestamp:
    case TypeId::timestamptz:
    case TypeId::timestamp_ns:
    case TypeId::timestamptz_ns: {
      const bool nanos = type.id() == TypeId::timestamp_ns || type.id() == TypeId::timestamptz_ns;
      if (logical.is_date()) return scaled(value, {nanos ? 86'400'000'000'000 : 86'400'000'000, 1});
      if (logical.is_timestamp())
        return scaled(value, ratio(static_cast<const parquet::TimestampLogicalType&>(logical).time_unit(), nanos));
      return std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

}  // namespace

Schema stored_schema(const Schema& schema) { return Schema(stored_fields(schema.fields(), ""), schema.schema_id()); }

std::shared_ptr<GroupNode> to_parquet_schema(const Schema& stored) {
  NodeVector columns;
  for (const Field& field : stored.fields())
    columns.push_back(to_node(field.name, field.required, field.id, *field.type));
  return std::static_pointer_cast<GroupNode>(GroupNode::Make("table", Repetition::REQUIRED, columns));
}

std::vector<LeafColumn> leaf_columns(const Schema& stored) {
  std::vector<LeafColumn> leaves;
  for (const Field& field : stored.fields()) add_leaves(field, false, leaves);
  return leaves;
}

std::optional<Value> decode_statistic(std::string_view encoded, const parquet::ColumnDescriptor& column,
                                      const Type& type) {
  const LogicalType& logical = *column.logical_type();
  switch (column.physical_type()) {
    case parquet::Type::BOOLEAN: {
      const auto value = decode_plain<uint8_t>(encoded);
      if (!value || type.id() != TypeId::boolean_) return std::nullopt;
      return *value != 0;
    }
    case parquet::Type::INT32: {
      const auto value = decode_plain<int32_t>(encoded);
      return value ? decode_integer(*value, true, logical, type) : std::nullopt;
    }
    case parquet::Type::INT64: {
      const auto value = decode_plain<int64_t>(encoded);
      return value ? decode_integer(*value, false, logical, type) : std::nullopt;
    }
    case parquet::Type::FLOAT: {
      const auto value = decode_plain<float>(encoded);
      if (!value || std::isnan(*value)) return std::nullopt;
      if (type.id() == TypeId::double_) return static_cast<double>(*value);
      return type.id() == TypeId::float_ ? std::optional<Value>(*value) : std::nullopt;
    }
    case parquet::Type::DOUBLE: {
      const auto value = decode_plain<double>(encoded);
      if (!value || std::isnan(*value) || type.id() != TypeId::double_) return std::nullopt;
      return *value;
    }
    case parquet::Type::BYTE_ARRAY:
    case parquet::Type::FIXED_LEN_BYTE_ARRAY: {
      // Without a declared order the bounds are the deprecated ones, which compared bytes as signed.
      if (column.column_order().get_order() != parquet::ColumnOrder::TYPE_DEFINED_ORDER) return std::nullopt;
      if (type.id() == TypeId::decimal) {
        if (!logical.is_decimal() || static_cast<const parquet::DecimalLogicalType&>(logical).scale() != type.scale())
          return std::nullopt;
        const auto value = decode_big_endian(encoded);
        return value ? std::optional<Value>(*value) : std::nullopt;
      }
      if (logical.is_decimal() || logical.is_interval() || logical.is_float16()) return std::nullopt;
      const bool is_fixed = column.physical_type() == parquet::Type::FIXED_LEN_BYTE_ARRAY;
      switch (type.id()) {
        case TypeId::string:
        case TypeId::binary:
          return std::string(encoded);
        case TypeId::fixed:
        case TypeId::uuid:
          return is_fixed ? std::optional<Value>(std::string(encoded)) : std::nullopt;
        default:
          return std::nullopt;
      }
    }
    default:
      return std::nullopt;  // int96: its order is not defined
  }
}

}  // namespace firn::iceberg
