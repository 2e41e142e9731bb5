#include "iceberg/schema_update.h"

#include <algorithm>
#include <set>

#include <fmt/ranges.h>

#include "base/error.h"

namespace firn::iceberg {
namespace {

constexpr int32_t kFieldIdMax = 2147483447;  // above it ids are reserved (spec, "Reserved Field IDs")

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return lower(x) == lower(y); });
}

// The type, or one that it is made of.
bool needs_v3_anywhere(const Type& type) {
  return needs_v3(type.id()) || std::any_of(type.fields().begin(), type.fields().end(),
                                            [](const Field& field) { return needs_v3_anywhere(*field.type); });
}

// `type` of the same kind with other fields.
TypePtr with_fields(const Type& type, std::vector<Field> fields) {
  switch (type.id()) {
    case TypeId::list:
      return Type::list_of(fields[0].id, fields[0].required, fields[0].type);
    case TypeId::map:
      return Type::map_of(fields[0].id, fields[0].type, fields[1].id, fields[1].required, fields[1].type);
    default:
      return Type::struct_of(std::move(fields));
  }
}

// `type` with the field that `path` leads to (ids, from one of its own fields down) changed.
TypePtr edited(const Type& type, const std::vector<int32_t>& path, size_t depth,
               const std::function<void(Field&)>& edit) {
  std::vector<Field> fields = type.fields();
  for (Field& field : fields) {
    if (field.id != path[depth]) continue;
    if (depth + 1 == path.size()) {
      edit(field);
    } else {
      field.type = edited(*field.type, path, depth + 1, edit);
    }
  }
  return with_fields(type, std::move(fields));
}

const Field& find_column(const Schema& schema, const std::string& name, bool case_sensitive) {
  const Field* field = schema.find_field(name);
  if (field == nullptr && !case_sensitive) field = schema.find_field_ci(name);
  if (field != nullptr) return *field;
  std::vector<std::string_view> known;
  for (const Field& column : schema.fields()) known.push_back(column.name);
  fail(ErrorKind::not_found, "There is no column {}; the table's columns are: {}", name, fmt::join(known, ", "));
}

bool holds_value_of(const Value& value, const Type& type) {
  switch (type.id()) {
    case TypeId::boolean_:
      return std::holds_alternative<bool>(value);
    case TypeId::int_:
    case TypeId::date:
      return std::holds_alternative<int32_t>(value);
    case TypeId::long_:
    case TypeId::time:
    case TypeId::timestamp:
    case TypeId::timestamptz:
    case TypeId::timestamp_ns:
    case TypeId::timestamptz_ns:
      return std::holds_alternative<int64_t>(value);
    case TypeId::float_:
      return std::holds_alternative<float>(value);
    case TypeId::double_:
      return std::holds_alternative<double>(value);
    case TypeId::decimal:
      return std::holds_alternative<arrow::Decimal128>(value);
    case TypeId::string:
    case TypeId::uuid:
    case TypeId::fixed:
    case TypeId::binary:
      return std::holds_alternative<std::string>(value);
    case TypeId::struct_:
    case TypeId::list:
    case TypeId::map:
      return std::holds_alternative<NestedJson>(value);
    default:
      return false;
  }
}

bool has_value(const std::optional<Value>& value) { return value && !is_null(*value); }

// The first required field of a struct that `{}` would leave without a value; nullptr: none.
const Field* required_without_default(const Type& type) {
  for (const Field& field : type.fields())
    if (field.required && !has_value(field.initial_default)) return &field;
  return nullptr;
}

MappedField mapped(const Field& field) {
  MappedField result{.field_id = field.id, .names = {field.name}, .fields = {}};
  for (const Field& child : field.type->fields()) result.fields.push_back(mapped(child));
  return result;
}

bool has_name(const MappedField& entry, const std::string& name) {
  return std::find(entry.names.begin(), entry.names.end(), name) != entry.names.end();
}

void follow(NameMapping& mapping, const Type& after, const Schema& before) {
  const auto is_taken = [&](const std::string& name) {
    return std::any_of(mapping.begin(), mapping.end(), [&](const MappedField& entry) { return has_name(entry, name); });
  };
  for (const Field& field : after.fields()) {
    const Field* old = before.find_field(field.id);
    const auto entry = std::find_if(mapping.begin(), mapping.end(),
                                    [&](const MappedField& known) { return known.field_id == field.id; });
    if (entry != mapping.end()) {
      if (old != nullptr && old->name != field.name && !is_taken(field.name)) entry->names.push_back(field.name);
      follow(entry->fields, *field.type, before);
    } else if (old == nullptr) {  // an old column without an entry was left out on purpose
      MappedField added = mapped(field);
      if (is_taken(field.name)) added.names.clear();
      mapping.push_back(std::move(added));
    }
  }
}

}  // namespace

SchemaUpdate::SchemaUpdate(const Schema& schema, int32_t last_column_id, int32_t format_version,
                           SchemaUpdateOptions options)
    : base_(schema),
      schema_(schema),
      base_last_column_id_(std::max(last_column_id, schema.highest_field_id())),
      last_column_id_(base_last_column_id_),
      format_version_(format_version),
      options_(options) {}

const Field& SchemaUpdate::find(const std::string& name) const {
  return find_column(schema_, name, options_.case_sensitive);
}

int32_t SchemaUpdate::parent_of(int32_t id) const {
  const std::vector<int32_t> path = schema_.path_to(id);
  return path.size() < 2 ? 0 : path[path.size() - 2];
}

void SchemaUpdate::check_name_is_free(int32_t parent_id, const std::string& name, int32_t except_id) const {
  const std::string full_name = parent_id == 0 ? name : schema_.full_name(parent_id) + "." + name;
  if (name.empty()) fail(ErrorKind::invalid_argument, "A column needs a name");
  const Type& parent = parent_id == 0 ? *schema_.as_struct() : *schema_.find_field(parent_id)->type;
  const Field* taken = schema_.find_field(full_name);  // also "a.b" beside a member b of a
  if (taken != nullptr && taken->id == except_id) taken = nullptr;
  for (const Field& sibling : parent.fields()) {
    if (sibling.id == except_id) continue;
    if (sibling.name == name || (!options_.case_sensitive && equal_ignoring_case(sibling.name, name))) taken = &sibling;
  }
  if (taken != nullptr)
    fail(ErrorKind::invalid_argument,
         "Column {}: the name is taken by {} (id {}); choose another, or rename or drop that one first", full_name,
         schema_.full_name(taken->id), taken->id);
}

void SchemaUpdate::check_not_in_map_key(int32_t id) const {
  const Type* type = schema_.as_struct().get();
  for (const int32_t step : schema_.path_to(id)) {
    if (type->id() == TypeId::map && type->key().id == step)
      fail(ErrorKind::invalid_argument,
           "Column {} is, or lies within, the key of a map: keys cannot change; add another map column instead",
           schema_.full_name(id));
    type = schema_.find_field(step)->type.get();
  }
}

void SchemaUpdate::check_default(const std::optional<Value>& value, const Type& type, const std::string& name) const {
  if (!has_value(value)) return;
  if (format_version_ < 3)
    fail(ErrorKind::invalid_argument, "Column {}: default values need format version 3; upgrade the table first", name);
  switch (type.id()) {
    case TypeId::unknown:
    case TypeId::variant:
    case TypeId::geometry:
    case TypeId::geography:
      fail(ErrorKind::invalid_argument, "Column {}: a column of type {} has no default but null", name,
           type.to_string());
    default:
      break;
  }
  if (!holds_value_of(*value, type))
    fail(ErrorKind::invalid_argument, "Column {}: its default is no value of type {}", name, type.to_string());
  try {
    const Json json = to_json(*value, type);
    from_json(json, type, "the default");
    if (type.id() != TypeId::struct_) return;
    if (!json.empty())
      fail(ErrorKind::invalid_argument, "a struct's default is null or {{}}: give its fields defaults of their own");
    if (const Field* field = required_without_default(type))
      fail(ErrorKind::invalid_argument, "{{}} leaves its required field {} without a value", field->name);
  } catch (const Error& e) {
    throw Error(ErrorKind::invalid_argument, fmt::format("Column {}: its default", name), e);
  }
}

TypePtr SchemaUpdate::with_new_ids(const TypePtr& type) {
  if (!type->is_nested()) return type;
  std::vector<Field> fields = type->fields();
  for (Field& field : fields) {
    if (last_column_id_ >= kFieldIdMax) fail(ErrorKind::invalid_argument, "The table has used up all column ids");
    field.id = ++last_column_id_;
  }
  for (Field& field : fields) field.type = with_new_ids(field.type);
  return with_fields(*type, std::move(fields));
}

void SchemaUpdate::edit_field(int32_t id, const std::function<void(Field&)>& edit) {
  replace(edited(*schema_.as_struct(), schema_.path_to(id), 0, edit)->fields(), schema_.identifier_field_ids());
}

void SchemaUpdate::edit_members(int32_t parent_id, const std::function<void(std::vector<Field>&)>& edit) {
  if (parent_id != 0) {
    edit_field(parent_id, [&](Field& parent) {
      std::vector<Field> fields = parent.type->fields();
      edit(fields);
      parent.type = Type::struct_of(std::move(fields));
    });
    return;
  }
  std::vector<Field> fields = schema_.fields();
  edit(fields);
  replace(std::move(fields), schema_.identifier_field_ids());
}

void SchemaUpdate::replace(std::vector<Field> fields, std::vector<int32_t> identifier_ids) {
  schema_ = Schema(std::move(fields), schema_.schema_id(), std::move(identifier_ids));
}

bool SchemaUpdate::is_identifier_or_holds_one(int32_t id) const {
  return std::any_of(schema_.identifier_field_ids().begin(), schema_.identifier_field_ids().end(), [&](int32_t other) {
    const std::vector<int32_t> path = schema_.path_to(other);
    return std::find(path.begin(), path.end(), id) != path.end();
  });
}

namespace {

// Puts `field` among `fields` where `place` says. Throws not_found for a sibling that is not there.
void insert_at(std::vector<Field>& fields, Field field, const ColumnPlace& place, bool case_sensitive) {
  using Kind = ColumnPlace::Kind;
  if (place.kind == Kind::first) {
    fields.insert(fields.begin(), std::move(field));
    return;
  }
  if (place.kind == Kind::last) {
    fields.push_back(std::move(field));
    return;
  }
  auto sibling = std::find_if(fields.begin(), fields.end(), [&](const Field& f) { return f.name == place.sibling; });
  if (sibling == fields.end() && !case_sensitive)
    sibling = std::find_if(fields.begin(), fields.end(),
                           [&](const Field& f) { return equal_ignoring_case(f.name, place.sibling); });
  if (sibling == fields.end())
    fail(ErrorKind::not_found,
         "Column {} cannot be placed {} {}: there is no other column of that name in its struct; columns move within "
         "their struct alone",
         field.name, place.kind == Kind::before ? "before" : "after", place.sibling);
  fields.insert(place.kind == Kind::before ? sibling : sibling + 1, std::move(field));
}

}  // namespace

void SchemaUpdate::add_column(const NewColumn& column) {
  int32_t parent_id = 0;
  if (!column.parent.empty()) {
    const Field* parent = &find(column.parent);
    if (parent->type->id() == TypeId::list) parent = &parent->type->element();
    if (parent->type->id() == TypeId::map) parent = &parent->type->value();
    if (parent->type->id() != TypeId::struct_)
      fail(ErrorKind::invalid_argument, "Column {} is {}: only a struct takes the new column {}", column.parent,
           parent->type->to_string(), column.name);
    parent_id = parent->id;
    check_not_in_map_key(parent_id);
  }
  check_name_is_free(parent_id, column.name, 0);
  const std::string full_name = parent_id == 0 ? column.name : schema_.full_name(parent_id) + "." + column.name;

  if (!column.type) fail(ErrorKind::invalid_argument, "Column {} needs a type", full_name);
  if (format_version_ < 3 && needs_v3_anywhere(*column.type))
    fail(ErrorKind::invalid_argument, "Column {}: type {} needs format version 3; upgrade the table first", full_name,
         column.type->to_string());
  if (column.required && column.type->id() == TypeId::unknown)
    fail(ErrorKind::invalid_argument, "Column {}: a column of type unknown is optional", full_name);

  const int32_t last_before = last_column_id_;
  try {
    if (last_column_id_ >= kFieldIdMax) fail(ErrorKind::invalid_argument, "The table has used up all column ids");
    Field field;
    field.id = ++last_column_id_;
    field.name = column.name;
    field.required = column.required;
    field.type = with_new_ids(column.type);
    field.doc = column.doc;
    if (has_value(column.initial_default)) field.initial_default = column.initial_default;
    const std::optional<Value>& write_default = column.write_default ? column.write_default : column.initial_default;
    if (has_value(write_default)) field.write_default = write_default;
    check_default(field.initial_default, *field.type, full_name);
    check_default(field.write_default, *field.type, full_name);
    const auto check_inner_defaults = [&](const Type& type, const auto& again) -> void {
      for (const Field& inner : type.fields()) {
        check_default(inner.initial_default, *inner.type, full_name + "." + inner.name);
        check_default(inner.write_default, *inner.type, full_name + "." + inner.name);
        again(*inner.type, again);
      }
    };
    check_inner_defaults(*field.type, check_inner_defaults);
    if (field.required && !options_.allow_incompatible && !(field.initial_default && field.write_default))
      fail(ErrorKind::invalid_argument,
           "Column {} is required and has no {} for the rows {}: give it a default (format version 3), or make it "
           "optional",
           full_name, field.initial_default ? "write default" : "initial default",
           field.initial_default ? "to come" : "that are there");
    edit_members(parent_id, [&](std::vector<Field>& fields) {
      insert_at(fields, std::move(field), column.place, options_.case_sensitive);
    });
  } catch (...) {  // as it was before; the error passes on
    last_column_id_ = last_before;
    throw;
  }
}

namespace {

// Elements, keys and values have no name, place or default of their own.
void check_is_member(const Schema& schema, int32_t id, int32_t parent_id, std::string_view what) {
  if (parent_id == 0) return;
  const TypeId parent = schema.find_field(parent_id)->type->id();
  if (parent != TypeId::struct_)
    fail(ErrorKind::invalid_argument, "Column {} is part of a {}: it cannot {}; change {} instead",
         schema.full_name(id), parent == TypeId::list ? "list" : "map", what, schema.full_name(parent_id));
}

}  // namespace

void SchemaUpdate::drop_column(const std::string& name) {
  const int32_t id = find(name).id;
  const int32_t parent_id = parent_of(id);
  check_not_in_map_key(id);
  check_is_member(schema_, id, parent_id, "be dropped");
  if (is_identifier_or_holds_one(id))
    fail(ErrorKind::invalid_argument,
         "Column {} is, or holds, an identifier field: set other identifier fields first, or none",
         schema_.full_name(id));
  edit_members(parent_id, [&](std::vector<Field>& fields) {
    std::erase_if(fields, [&](const Field& field) { return field.id == id; });
  });
}

void SchemaUpdate::rename_column(const std::string& name, const std::string& new_name) {
  const Field& field = find(name);
  const int32_t parent_id = parent_of(field.id);
  if (field.name == new_name) return;
  check_not_in_map_key(field.id);
  check_is_member(schema_, field.id, parent_id, "be renamed");
  check_name_is_free(parent_id, new_name, field.id);
  edit_field(field.id, [&](Field& renamed) { renamed.name = new_name; });
}

void SchemaUpdate::move_column(const std::string& name, const ColumnPlace& place) {
  const int32_t id = find(name).id;
  const int32_t parent_id = parent_of(id);
  check_not_in_map_key(id);
  check_is_member(schema_, id, parent_id, "be moved");
  edit_members(parent_id, [&](std::vector<Field>& fields) {
    const auto at = std::find_if(fields.begin(), fields.end(), [&](const Field& field) { return field.id == id; });
    Field moved = *at;
    fields.erase(at);  // so that a column placed beside itself is found missing
    insert_at(fields, std::move(moved), place, options_.case_sensitive);
  });
}

void SchemaUpdate::promote_column(const std::string& name, const TypePtr& type) {
  const Field& field = find(name);
  const int32_t id = field.id;
  if (same_type(*field.type, *type)) return;
  check_not_in_map_key(id);
  const std::string full_name = schema_.full_name(id);
  if (!can_promote(*field.type, *type, format_version_))
    fail(ErrorKind::invalid_argument,
         "Column {} is {} and cannot become {}: int becomes long, float double, a decimal one of more digits{}; add "
         "another column for other types",
         full_name, field.type->to_string(), type->to_string(),
         format_version_ >= 3 ? ", date timestamp or timestamp_ns" : "");
  const auto promoted = [&](const std::optional<Value>& value) -> std::optional<Value> {
    if (!has_value(value)) return std::nullopt;
    std::optional<Value> result = promote(*value, *field.type, *type);
    if (!result)
      fail(ErrorKind::invalid_argument, "Column {}: its default does not fit type {}", full_name, type->to_string());
    return result;
  };
  const auto initial_default = promoted(field.initial_default);
  const auto write_default = promoted(field.write_default);
  const TypePtr fresh = with_new_ids(type);
  edit_field(id, [&](Field& edit) {
    edit.type = fresh;
    edit.initial_default = initial_default;
    edit.write_default = write_default;
  });
}

void SchemaUpdate::make_optional(const std::string& name) {
  const Field& field = find(name);
  const int32_t id = field.id;
  if (!field.required) return;
  check_not_in_map_key(id);
  if (is_identifier_or_holds_one(id))
    fail(ErrorKind::invalid_argument,
         "Column {} is, or holds, an identifier field, which is required: set other identifier fields first, or none",
         schema_.full_name(id));
  edit_field(id, [](Field& edit) { edit.required = false; });
}

void SchemaUpdate::make_required(const std::string& name) {
  const Field& field = find(name);
  const int32_t id = field.id;
  if (field.required) return;
  check_not_in_map_key(id);
  const std::string full_name = schema_.full_name(id);
  if (field.type->id() == TypeId::unknown)
    fail(ErrorKind::invalid_argument, "Column {}: a column of type unknown is optional", full_name);
  const bool added_with_default = id > base_last_column_id_ && has_value(field.initial_default);
  if (!added_with_default && !options_.allow_incompatible)
    fail(ErrorKind::invalid_argument,
         "Column {} is optional and rows that are there may hold null in it: allow incompatible changes if none does",
         full_name);
  edit_field(id, [](Field& edit) { edit.required = true; });
}

void SchemaUpdate::set_doc(const std::string& name, const std::string& doc) {
  const int32_t id = find(name).id;
  check_not_in_map_key(id);
  check_is_member(schema_, id, parent_of(id), "have a doc");
  edit_field(id, [&](Field& edit) { edit.doc = doc; });
}

void SchemaUpdate::set_write_default(const std::string& name, const std::optional<Value>& value) {
  const Field& field = find(name);
  const int32_t id = field.id;
  check_not_in_map_key(id);
  check_is_member(schema_, id, parent_of(id), "have a default");
  check_default(value, *field.type, schema_.full_name(id));
  const std::optional<Value> wanted = has_value(value) ? value : std::nullopt;
  edit_field(id, [&](Field& edit) { edit.write_default = wanted; });
}

void SchemaUpdate::set_identifier_fields(const std::vector<std::string>& names) {
  replace(schema_.fields(), identifier_ids(schema_, names, options_.case_sensitive));
}

void SchemaUpdate::union_by_name(const Schema& wanted) {
  EvolvedSchema evolved = iceberg::union_by_name(schema_, wanted, last_column_id_, format_version_);
  schema_ = std::move(evolved.schema);
  last_column_id_ = evolved.last_column_id;
}

std::vector<int32_t> identifier_ids(const Schema& schema, const std::vector<std::string>& names, bool case_sensitive) {
  std::set<int32_t> ids;
  for (const std::string& name : names) {
    const Field& field = find_column(schema, name, case_sensitive);
    const std::string full_name = schema.full_name(field.id);
    const TypeId type = field.type->id();
    if (field.type->is_nested() || type == TypeId::float_ || type == TypeId::double_ || type == TypeId::variant ||
        type == TypeId::geometry || type == TypeId::geography || type == TypeId::unknown)
      fail(ErrorKind::invalid_argument, "Column {} is {}, which cannot identify a row: choose another", full_name,
           field.type->to_string());
    if (schema.is_nested_below_list_or_map(field.id))
      fail(ErrorKind::invalid_argument, "Column {} lies in a list or map and cannot identify a row: choose another",
           full_name);
    for (const int32_t step : schema.path_to(field.id))
      if (!schema.find_field(step)->required)
        fail(ErrorKind::invalid_argument, "Column {} may be null, since {} is optional, and cannot identify a row",
             full_name, schema.full_name(step));
    ids.insert(field.id);
  }
  return {ids.begin(), ids.end()};
}

bool keeps_partition_value(const Transform& transform, const Type& from, const Type& to) {
  if (same_type(from, to) || transform.kind == TransformKind::void_) return true;
  if (transform.kind == TransformKind::unknown) return false;  // nobody can tell
  if (from.id() != TypeId::date) return true;
  // A date and its midnight share their year, month and day; their hash and the value itself differ.
  return transform.kind == TransformKind::year || transform.kind == TransformKind::month ||
         transform.kind == TransformKind::day;
}

NameMapping update_name_mapping(const NameMapping& mapping, const Schema& before, const Schema& after) {
  NameMapping updated = mapping;
  follow(updated, *after.as_struct(), before);
  return updated;
}

}  // namespace firn::iceberg
