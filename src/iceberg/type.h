// Types and schemas (Iceberg spec, "Schemas and Data Types").
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "iceberg/value.h"

namespace firn::iceberg {

enum class TypeId : uint8_t {
  boolean_,
  int_,
  long_,
  float_,
  double_,
  decimal,
  date,
  time,
  timestamp,
  timestamptz,
  timestamp_ns,
  timestamptz_ns,
  string,
  uuid,
  fixed,
  binary,
  unknown,
  variant,
  geometry,
  geography,
  struct_,
  list,
  map,
};

class Type;
using TypePtr = std::shared_ptr<const Type>;

// One field of a struct, the element of a list, or the key or value of a map.
struct Field {
  int32_t id = 0;
  std::string name;
  bool required = false;
  TypePtr type;
  std::string doc;                       // empty: none
  std::optional<Value> initial_default;  // v3; of `type`
  std::optional<Value> write_default;    // v3; of `type`
};

// Immutable and shared. Only the members that its id needs are set.
class Type {
 public:
  static TypePtr primitive(TypeId id);                       // any id without parameters
  static TypePtr decimal(int32_t precision, int32_t scale);  // throws invalid_argument outside 1–38, 0–precision
  static TypePtr fixed(int32_t length);
  static TypePtr geometry(std::string crs);
  static TypePtr geography(std::string crs, std::string algorithm);
  static TypePtr struct_of(std::vector<Field> fields);
  static TypePtr list_of(int32_t element_id, bool element_required, TypePtr element);
  static TypePtr map_of(int32_t key_id, TypePtr key, int32_t value_id, bool value_required, TypePtr value);

  TypeId id() const { return id_; }
  bool is_nested() const { return id_ >= TypeId::struct_; }
  int32_t precision() const { return precision_; }
  int32_t scale() const { return scale_; }
  int32_t length() const { return precision_; }  // fixed
  const std::string& crs() const { return crs_; }
  const std::string& algorithm() const { return algorithm_; }
  const std::vector<Field>& fields() const { return fields_; }  // struct
  const Field& element() const { return fields_[0]; }           // list, named "element"
  const Field& key() const { return fields_[0]; }               // map, named "key"
  const Field& value() const { return fields_[1]; }             // map, named "value"

  // As the specification's JSON spells primitives: "decimal(9,2)", "fixed[16]", "timestamptz_ns"; nested types as a
  // readable form ("struct<1: a: required int, …>") for messages.
  std::string to_string() const;

 private:
  TypeId id_ = TypeId::unknown;
  int32_t precision_ = 0, scale_ = 0;
  std::string crs_, algorithm_;
  std::vector<Field> fields_;
};

// timestamp_ns and timestamptz_ns.
inline bool is_nanos(const Type& type) {
  return type.id() == TypeId::timestamp_ns || type.id() == TypeId::timestamptz_ns;
}

// Whether format versions below 3 lack the type itself; what it is made of is not looked at.
bool needs_v3(TypeId id);
// Whether values of the type have one order, so that they can have bounds and be keys.
inline bool has_order(const Type& type) { return type.id() < TypeId::unknown; }

// The type that Type::to_string spells as `text` (white space around parameters allowed), nested ones aside; nullptr if
// it is none. Throws invalid_argument for parameters out of range.
TypePtr parse_primitive_type(std::string_view text);
// Same ids, names, nullability, types and defaults.
bool same_type(const Type& a, const Type& b);
// Whether a column of `from` may become `to` (spec, "Schema Evolution"; date to timestamp only where version >= 3), the
// type itself included.
bool can_promote(const Type& from, const Type& to, int32_t format_version);

}  // namespace firn::iceberg
