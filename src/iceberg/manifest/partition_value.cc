#include "iceberg/manifest/partition_value.h"

#include "base/error.h"
#include "base/uuid.h"
#include "iceberg/avro/encoder.h"
#include "iceberg/manifest/avro_schemas.h"
#include "iceberg/manifest/record_plan.h"

namespace firn::iceberg {

using avro::Kind;

namespace {

std::string_view read_value_bytes(avro::Cursor& cursor, const avro::Node& node, FixedEncoding encoding) {
  if (encoding == FixedEncoding::plain || !is_ambiguous(node)) return read_bytes(cursor, node);
  if (cursor.read_long() != node.size) cursor.fail_corrupt("a fixed value of another length");
  return cursor.read_fixed(node.size);
}

Value read_natural_value(avro::Cursor& cursor, const avro::Node& node, bool is_decimal, FixedEncoding encoding) {
  switch (node.kind) {
    case Kind::boolean:
      return cursor.read_boolean();
    case Kind::int_:
      return cursor.read_int();
    case Kind::long_:
      return cursor.read_long();
    case Kind::float_:
      return cursor.read_float();
    case Kind::double_:
      return cursor.read_double();
    case Kind::bytes:
    case Kind::string:
    case Kind::fixed: {
      const std::string_view bytes = read_value_bytes(cursor, node, encoding);
      if (!is_decimal) return std::string(bytes);
      const auto decimal = arrow::Decimal128::FromBigEndian(reinterpret_cast<const uint8_t*>(bytes.data()),
                                                            static_cast<int32_t>(std::min<size_t>(bytes.size(), 64)));
      if (!decimal.ok()) cursor.fail_corrupt("a decimal beyond 16 bytes");
      return *decimal;
    }
    default:
      cursor.fail_corrupt("a partition value of a nested type");
  }
}

Value to_int(avro::Cursor& cursor, const Value& value) {
  if (std::holds_alternative<int32_t>(value)) return value;
  const auto* wide = std::get_if<int64_t>(&value);
  if (wide == nullptr || *wide != static_cast<int32_t>(*wide)) cursor.fail_corrupt("a partition value of another type");
  return static_cast<int32_t>(*wide);
}

Value to_long(avro::Cursor& cursor, const Value& value) {
  if (std::holds_alternative<int64_t>(value)) return value;
  const auto* narrow = std::get_if<int32_t>(&value);
  if (narrow == nullptr) cursor.fail_corrupt("a partition value of another type");
  return static_cast<int64_t>(*narrow);
}

template <class T>
const T& get_value(const Value& value, const std::string& name, const Type& type) {
  const T* found = std::get_if<T>(&value);
  if (found == nullptr)
    fail(ErrorKind::invalid_argument, "partition field {}: the value given is not of its type, {}", name,
         type.to_string());
  return *found;
}

const std::string& get_sized(const Value& value, size_t size_bytes, const std::string& name, const Type& type) {
  const auto& bytes = get_value<std::string>(value, name, type);
  if (bytes.size() != size_bytes)
    fail(ErrorKind::invalid_argument, "partition field {}: a value of {} bytes for {}", name, bytes.size(),
         type.to_string());
  return bytes;
}

void put_decimal(std::string& out, const arrow::Decimal128& value, const Type& type, const std::string& name) {
  if (!value.FitsInPrecision(type.precision()))
    fail(ErrorKind::invalid_argument, "partition field {}: the value given does not fit {}", name, type.to_string());
  for (int32_t i = decimal_size_bytes(type.precision()) - 1; i >= 0; --i) {
    const uint64_t half = i >= 8 ? static_cast<uint64_t>(value.high_bits()) : value.low_bits();
    out.push_back(static_cast<char>(half >> (8 * (i % 8))));
  }
}

}  // namespace

bool is_ambiguous(const avro::Node& node) {
  return node.kind == Kind::fixed && node.logical_type != "decimal" && node.logical_type != "uuid";
}

Value read_partition_value(avro::Cursor& cursor, const avro::Node& node, const Type& target, FixedEncoding encoding) {
  const bool is_decimal =
      target.id() == TypeId::decimal || (target.id() == TypeId::unknown && node.logical_type == "decimal");
  Value value = read_natural_value(cursor, node, is_decimal, encoding);
  switch (target.id()) {
    case TypeId::boolean_:
      if (std::holds_alternative<bool>(value)) return value;
      break;
    case TypeId::int_:
    case TypeId::date:
      return to_int(cursor, value);
    case TypeId::long_:
    case TypeId::time:
      return to_long(cursor, value);
    case TypeId::timestamp:
    case TypeId::timestamptz:
    case TypeId::timestamp_ns:
    case TypeId::timestamptz_ns:
      if (node.logical_type == "date") {  // v3 promotes dates to timestamps
        auto promoted = promote(to_int(cursor, value), *Type::primitive(TypeId::date), target);
        if (!promoted) cursor.fail_corrupt("a date beyond what its timestamp can hold");
        return std::move(*promoted);
      }
      return to_long(cursor, value);
    case TypeId::float_:
      if (std::holds_alternative<float>(value)) return value;
      break;
    case TypeId::double_:
      if (const auto* narrow = std::get_if<float>(&value)) return static_cast<double>(*narrow);
      if (std::holds_alternative<double>(value)) return value;
      break;
    case TypeId::decimal:
      if (std::holds_alternative<arrow::Decimal128>(value)) return value;
      break;
    case TypeId::uuid:
      if (const auto* bytes = std::get_if<std::string>(&value)) {
        if (bytes->size() == 16) return value;
        if (auto parsed = uuid_to_bytes(*bytes)) return std::move(*parsed);  // Avro's own uuid is text
      }
      break;
    case TypeId::string:
    case TypeId::fixed:
    case TypeId::binary:
      if (std::holds_alternative<std::string>(value)) return value;
      break;
    default:
      return value;
  }
  cursor.fail_corrupt("a partition value of another type");
}

void put_partition_value(std::string& out, const Value& value, const Type& type, const std::string& name) {
  switch (type.id()) {
    case TypeId::boolean_:
      return avro::put_boolean(out, get_value<bool>(value, name, type));
    case TypeId::int_:
    case TypeId::date:
      return avro::put_long(out, get_value<int32_t>(value, name, type));
    case TypeId::long_:
    case TypeId::time:
    case TypeId::timestamp:
    case TypeId::timestamptz:
    case TypeId::timestamp_ns:
    case TypeId::timestamptz_ns:
      return avro::put_long(out, get_value<int64_t>(value, name, type));
    case TypeId::float_:
      return avro::put_floating(out, get_value<float>(value, name, type));
    case TypeId::double_:
      return avro::put_floating(out, get_value<double>(value, name, type));
    case TypeId::decimal:
      return put_decimal(out, get_value<arrow::Decimal128>(value, name, type), type, name);
    case TypeId::string:
    case TypeId::binary:
      return avro::put_bytes(out, get_value<std::string>(value, name, type));
    case TypeId::fixed:
      return avro::put_bytes(out, get_sized(value, static_cast<size_t>(type.length()), name, type));
    case TypeId::uuid:
      out += get_sized(value, 16, name, type);
      return;
    default:
      fail(ErrorKind::invalid_argument, "partition field {}: no value can be of type {}", name, type.to_string());
  }
}

TypePtr natural_type(const Value& value) {
  struct Visitor {
    TypePtr operator()(std::monostate) const { return Type::primitive(TypeId::unknown); }
    TypePtr operator()(bool) const { return Type::primitive(TypeId::boolean_); }
    TypePtr operator()(int32_t) const { return Type::primitive(TypeId::int_); }
    TypePtr operator()(int64_t) const { return Type::primitive(TypeId::long_); }
    TypePtr operator()(float) const { return Type::primitive(TypeId::float_); }
    TypePtr operator()(double) const { return Type::primitive(TypeId::double_); }
    TypePtr operator()(const arrow::Decimal128&) const { return Type::decimal(38, 0); }
    TypePtr operator()(const std::string&) const { return Type::primitive(TypeId::binary); }
    TypePtr operator()(const NestedJson&) const { return Type::primitive(TypeId::unknown); }
  };
  return std::visit(Visitor{}, value);
}

}  // namespace firn::iceberg
