// Changes of a table's schema that keep old files readable (Iceberg spec, "Schema Evolution").
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "iceberg/transform.h"

namespace firn::iceberg {

struct SchemaUpdateOptions {
  bool case_sensitive = true;  // false: names are found, and conflict, whatever their ASCII case
  // Lets a required column without default be added and an optional one be made required: rows that are there may then
  // fail to be read.
  bool allow_incompatible = false;
};

// Among the fields of one struct. `sibling` is a name within that struct; for before and after alone.
struct ColumnPlace {
  enum class Kind : uint8_t { last, first, before, after } kind = Kind::last;
  std::string sibling;

  static ColumnPlace last() { return {}; }
  static ColumnPlace first() { return {Kind::first, ""}; }
  static ColumnPlace before(std::string sibling) { return {Kind::before, std::move(sibling)}; }
  static ColumnPlace after(std::string sibling) { return {Kind::after, std::move(sibling)}; }
};

struct NewColumn {
  std::string parent;  // dotted name of a struct, or of a list or map whose element or value is one; empty: the table
  std::string name;    // taken as it is: a '.' in it is part of the name
  TypePtr type;        // field ids in it are replaced by new ones
  bool required = false;
  std::string doc;
  std::optional<Value> initial_default;  // v3. What rows have that are there
  std::optional<Value> write_default;    // v3. nullopt: the initial default
  ColumnPlace place;
};

// A schema being changed, one change after another: names mean the columns that the changes before left. What a
// refused change throws names the column and says what to do; the schema is then as before it. Kinds: not_found for a
// name that is not there, invalid_argument for all else (union_by_name: schema_mismatch). Map keys never change, nor
// does anything within them.
class SchemaUpdate {
 public:
  // `last_column_id`: the highest id that the table ever gave; new ones follow it.
  SchemaUpdate(const Schema& schema, int32_t last_column_id, int32_t format_version, SchemaUpdateOptions options = {});

  void add_column(const NewColumn& column);
  void drop_column(const std::string& name);  // an identifier, or what it lies in, is refused
  // `new_name` is the field's own name, without its parents'.
  void rename_column(const std::string& name, const std::string& new_name);
  void move_column(const std::string& name, const ColumnPlace& place);  // within its struct
  // Int to long, float to double, decimals to more digits; v3: date to timestamp and timestamp_ns, unknown to anything.
  // The write default is promoted with it; an initial default keeps its meaning likewise.
  void promote_column(const std::string& name, const TypePtr& type);
  void make_optional(const std::string& name);
  void make_required(const std::string& name);  // needs allow_incompatible, unless it was added here with a default
  void set_doc(const std::string& name, const std::string& doc);                       // empty: none
  void set_write_default(const std::string& name, const std::optional<Value>& value);  // v3; nullopt drops it
  void set_identifier_fields(const std::vector<std::string>& names);                   // empty: none
  void union_by_name(const Schema& wanted);                                            // as schema.h

  const Schema& schema() const { return schema_; }  // as changed so far; its schema_id is still the old one's
  // `changed`: it is another schema than at first.
  EvolvedSchema finish() const { return {schema_, last_column_id_, !schema_.same_fields(base_)}; }

 private:
  const Field& find(const std::string& name) const;
  int32_t parent_of(int32_t id) const;  // 0: the table
  void check_name_is_free(int32_t parent_id, const std::string& name, int32_t except_id) const;
  void check_not_in_map_key(int32_t id) const;
  void check_default(const std::optional<Value>& value, const Type& type, const std::string& name) const;
  TypePtr with_new_ids(const TypePtr& type);
  void edit_field(int32_t id, const std::function<void(Field&)>& edit);
  void edit_members(int32_t parent_id, const std::function<void(std::vector<Field>&)>& edit);
  void replace(std::vector<Field> fields, std::vector<int32_t> identifier_ids);
  bool is_identifier_or_holds_one(int32_t id) const;

  Schema base_, schema_;
  int32_t base_last_column_id_;
  int32_t last_column_id_;
  int32_t format_version_;
  SchemaUpdateOptions options_;
};

// Ids of `names` as a schema's identifier: primitive and required, not float or double, outside lists and maps, and in
// no optional struct (spec, "Identifier Field IDs"). Throws as SchemaUpdate.
std::vector<int32_t> identifier_ids(const Schema& schema, const std::vector<std::string>& names, bool case_sensitive);

// Whether a partition of a column of `from` has the same value once the column is `to` (spec, "Schema Evolution").
bool keeps_partition_value(const Transform& transform, const Type& from, const Type& to);

// `mapping`, made for `before`, as one for `after`: a new name is added to a renamed column's, and a column that was
// added gets an entry of its own. A name that already means another column of the files that have no ids (one dropped
// or renamed since) stays with that column: the new one's entry is then empty, and those files lack it (cases.md 15).
NameMapping update_name_mapping(const NameMapping& mapping, const Schema& before, const Schema& after);

}  // namespace firn::iceberg
