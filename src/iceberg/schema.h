// Table schemas, and evolution that keeps field ids (Iceberg spec, "Schemas and Data Types", Appendix C).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "iceberg/type.h"

namespace firn::iceberg {

// Reserved ids (spec, "Reserved Field IDs").
constexpr int32_t kRowIdFieldId = 2147483540;                      // _row_id
constexpr int32_t kLastUpdatedSequenceNumberFieldId = 2147483539;  // _last_updated_sequence_number
constexpr int32_t kFilePathFieldId = 2147483646;                   // _file
constexpr int32_t kPosFieldId = 2147483645;                        // _pos
constexpr int32_t kDeleteFilePathFieldId = 2147483546;             // file_path of position deletes
constexpr int32_t kDeletePosFieldId = 2147483545;                  // pos of position deletes

// Immutable; copying shares the fields.
class Schema {
 public:
  Schema() = default;
  // Throws invalid_argument for a repeated id, or a name repeated within a struct.
  explicit Schema(std::vector<Field> fields, int32_t schema_id = 0, std::vector<int32_t> identifier_field_ids = {});

  int32_t schema_id() const { return schema_id_; }
  const std::vector<Field>& fields() const { return root_->fields(); }
  const TypePtr& as_struct() const { return root_; }
  const std::vector<int32_t>& identifier_field_ids() const { return identifier_field_ids_; }
  int32_t highest_field_id() const;  // 0 if empty

  const Field* find_field(int32_t id) const;                    // at any depth; nullptr: none
  const Field* find_field(std::string_view dotted_name) const;  // "a.b", "list.element.c", "map.value"; case-sensitive
  const Field* find_field_ci(
      std::string_view dotted_name) const;  // ASCII case-insensitive; nullptr if none or ambiguous
  std::string full_name(int32_t id) const;  // dotted; throws not_found
  // The chain of field ids from the root's column down to `id`, both included; empty: none.
  std::vector<int32_t> path_to(int32_t id) const;
  // True if any struct, list or map lies between the root and `id`.
  bool is_nested_below_list_or_map(int32_t id) const;

  Schema with_id(int32_t schema_id) const;
  // The top-level columns named, in that order (ids kept). Throws not_found naming the column and those that exist.
  Schema select(const std::vector<std::string>& names) const;
  Json to_json() const;  // {"type":"struct","schema-id":…,"fields":[…]}
  static Schema from_json(const Json& json, std::string_view where);  // throws corrupt

  bool same_fields(const Schema& other) const;  // ids and all; schema_id aside

 private:
  TypePtr root_ = Type::struct_of({});
  int32_t schema_id_ = 0;
  std::vector<int32_t> identifier_field_ids_;
  struct Index;
  std::shared_ptr<const Index> index_;
};

Json type_to_json(const Type& type);
TypePtr type_from_json(const Json& json, std::string_view where);

// `schema` with ids given anew from 1: breadth first as Java does (a struct's fields first, then their children).
Schema assign_fresh_ids(const Schema& schema);

// `current` brought up to `wanted`, matched by name at any depth: columns it lacks are added at the end of their struct
// (as optional, ids from last_column_id + 1), types are promoted where allowed, a column that `wanted` makes optional
// becomes optional. Columns that `wanted` lacks stay. Throws schema_mismatch naming the column for a type that cannot
// be promoted and for a new required column without a default, invalid_argument where two columns would have one full
// name.
struct EvolvedSchema {
  Schema schema;  // schema_id as current's if unchanged, else highest + 1 is the caller's to set
  int32_t last_column_id = 0;
  bool changed = false;
};
EvolvedSchema union_by_name(const Schema& current, const Schema& wanted, int32_t last_column_id,
                            int32_t format_version);

// Names of columns in files without field ids (spec, "Column Projection", name mapping).
struct MappedField {
  std::optional<int32_t> field_id;
  std::vector<std::string> names;
  std::vector<MappedField> fields;
};
using NameMapping = std::vector<MappedField>;
NameMapping name_mapping_from_json(const Json& json, std::string_view where);
Json name_mapping_to_json(const NameMapping& mapping);

}  // namespace firn::iceberg
