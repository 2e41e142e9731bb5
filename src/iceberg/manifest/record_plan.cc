#include "iceberg/manifest/record_plan.h"

#include "base/error.h"

namespace firn::iceberg {

using avro::Kind;

namespace {

bool is_integer(const avro::Node& node) { return node.kind == Kind::int_ || node.kind == Kind::long_; }
bool is_bytes(const avro::Node& node) {
  return node.kind == Kind::bytes || node.kind == Kind::string || node.kind == Kind::fixed;
}

// An array of records of an integer key and a value, in this order.
bool is_map(const avro::Node& node, bool (*is_value)(const avro::Node&)) {
  if (node.kind != Kind::array || node.items->kind != Kind::record || node.items->fields.size() != 2) return false;
  const avro::Node& value = *node.items->fields[1].type;
  if (!is_integer(*node.items->fields[0].type)) return false;
  if (value.kind != Kind::union_) return is_value(value);
  for (const avro::Node* branch : value.branches)
    if (branch->kind != Kind::null && !is_value(*branch)) return false;
  return true;
}

}  // namespace

bool fits(const avro::Node& value, Shape shape) {
  switch (shape) {
    case Shape::boolean:
      return value.kind == Kind::boolean;
    case Shape::integer:
      return is_integer(value);
    case Shape::bytes:
      return is_bytes(value);
    case Shape::integer_list:
      return value.kind == Kind::array && is_integer(*value.items);
    case Shape::integer_map:
      return is_map(value, is_integer);
    case Shape::bytes_map:
      return is_map(value, is_bytes);
    case Shape::record:
      return value.kind == Kind::record;
    case Shape::record_list:
      return value.kind == Kind::array && value.items->kind == Kind::record;
  }
  return false;
}

void fail_shape(std::string_view name, std::string_view where) {
  fail(ErrorKind::corrupt, "{}: its Avro schema gives {} a type that Iceberg does not", where, name);
}

int64_t read_count(avro::Cursor& cursor) {
  const int64_t value = cursor.read_long();
  if (value < 0) cursor.fail_corrupt("a negative count or size");
  return value;
}

}  // namespace firn::iceberg
