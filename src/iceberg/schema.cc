#include "iceberg/schema.h"

#include <algorithm>
#include <unordered_set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "iceberg/full_names.h"

namespace firn::iceberg {
namespace {

std::string lower_ascii(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return lower;
}

// Types nested deeper are refused: a hostile file must not exhaust the stack.
constexpr int kDepthMax = 100;

TypePtr type_from_json(const Json& json, std::string_view where, int depth);

Json field_to_json(const Field& field) {
  Json json = {
      {"id", field.id}, {"name", field.name}, {"required", field.required}, {"type", type_to_json(*field.type)}};
  if (!field.doc.empty()) json["doc"] = field.doc;
  // An absent default is null, and null is what an absent one means.
  if (field.initial_default && !is_null(*field.initial_default))
    json["initial-default"] = to_json(*field.initial_default, *field.type);
  if (field.write_default && !is_null(*field.write_default))
    json["write-default"] = to_json(*field.write_default, *field.type);
  return json;
}

Field field_from_json(const Json& json, std::string_view where, int depth) {
  Field field;
  field.id = get_int32(json, "id", where);
  field.name = get_string(json, "name", where);
  const std::string inside = fmt::format("{}, column {}", where, field.name);
  field.required = get_bool(json, "required", inside);
  const Json* type = find_member(json, "type");
  if (!type) fail(ErrorKind::corrupt, "{}: the field has no type", inside);
  field.type = type_from_json(*type, inside, depth);
  field.doc = find_string(json, "doc", inside).value_or("");
  if (const Json* value = find_member(json, "initial-default"))
    field.initial_default = from_json(*value, *field.type, inside);
  if (const Json* value = find_member(json, "write-default"))
    field.write_default = from_json(*value, *field.type, inside);
  return field;
}

const Json& member(const Json& json, const char* key, std::string_view where) {
  const Json* found = find_member(json, key);
  if (!found) fail(ErrorKind::corrupt, "{}: the type has no \"{}\"", where, key);
  return *found;
}

std::vector<Field> fields_from_json(const Json& json, std::string_view where, int depth) {
  std::vector<Field> fields;
  for (const Json& field : get_array(json, "fields", where)) fields.push_back(field_from_json(field, where, depth));
  return fields;
}

TypePtr type_from_json(const Json& json, std::string_view where, int depth) {
  if (depth > kDepthMax) fail(ErrorKind::corrupt, "{}: the type is nested deeper than {} levels", where, kDepthMax);
  if (json.is_string()) {
    const auto& text = json.get_ref<const std::string&>();
    TypePtr type;
    try {
      type = parse_primitive_type(text);
    } catch (const Error& e) {
      throw Error(ErrorKind::corrupt, std::string(where), e);
    }
    if (!type) fail(ErrorKind::corrupt, "{}: \"{}\" is no type of format versions 1 to 3", where, text);
    return type;
  }
  if (!json.is_object()) fail(ErrorKind::corrupt, "{}: a type must be a string or an object", where);
  const std::string kind = get_string(json, "type", where);
  if (kind == "struct") return Type::struct_of(fields_from_json(json, where, depth + 1));
  if (kind == "list")
    return Type::list_of(get_int32(json, "element-id", where), get_bool(json, "element-required", where),
                         type_from_json(member(json, "element", where), where, depth + 1));
  if (kind == "map")
    return Type::map_of(get_int32(json, "key-id", where), type_from_json(member(json, "key", where), where, depth + 1),
                        get_int32(json, "value-id", where), get_bool(json, "value-required", where),
                        type_from_json(member(json, "value", where), where, depth + 1));
  fail(ErrorKind::corrupt, "{}: \"{}\" is no nested type: struct, list or map", where, kind);
}

// Gives every field of `type` below the top a new id from `next`, a struct's own fields before their children.
TypePtr with_fresh_ids(const TypePtr& type, int32_t& next);

std::vector<Field> with_fresh_ids(std::vector<Field> fields, int32_t& next) {
  for (Field& field : fields) field.id = next++;
  for (Field& field : fields) field.type = with_fresh_ids(field.type, next);
  return fields;
}

TypePtr with_fresh_ids(const TypePtr& type, int32_t& next) {
  switch (type->id()) {
    case TypeId::struct_:
      return Type::struct_of(with_fresh_ids(type->fields(), next));
    case TypeId::list: {
      const int32_t element = next++;
      return Type::list_of(element, type->element().required, with_fresh_ids(type->element().type, next));
    }
    case TypeId::map: {
      const int32_t key = next++;
      const int32_t value = next++;
      auto key_type = with_fresh_ids(type->key().type, next);
      return Type::map_of(key, std::move(key_type), value, type->value().required,
                          with_fresh_ids(type->value().type, next));
    }
    default:
      return type;
  }
}

void collect_ids(const Type& before, const Type& after, std::unordered_map<int32_t, int32_t>& new_ids) {
  for (size_t i = 0; i < before.fields().size(); ++i) {
    new_ids[before.fields()[i].id] = after.fields()[i].id;
    collect_ids(*before.fields()[i].type, *after.fields()[i].type, new_ids);
  }
}

// One union: where the next column id comes from and whether anything moved.
class Union {
 public:
  Union(const Schema& current, int32_t last_column_id, int32_t format_version)
      : identifiers_(current.identifier_field_ids()), last_id_(last_column_id), format_version_(format_version) {}

  std::vector<Field> fields(const std::vector<Field>& current, const std::vector<Field>& wanted,
                            const std::string& prefix) {
    std::vector<Field> merged = current;
    for (const Field& want : wanted) {
      const std::string name = prefix + want.name;
      const auto found =
          std::find_if(merged.begin(), merged.end(), [&](const Field& f) { return f.name == want.name; });
      if (found == merged.end()) {
        merged.push_back(added(want, name));
        changed_ = true;
        continue;
      }
      found->type = type(found->type, want.type, name);
      // An identifier must not become null (spec, "Identifier Field IDs").
      const bool identifies = std::find(identifiers_.begin(), identifiers_.end(), found->id) != identifiers_.end();
      if (found->required && !want.required && !identifies) {
        found->required = false;
        changed_ = true;
      }
    }
    return merged;
  }

  int32_t last_id() const { return last_id_; }
  bool changed() const { return changed_; }

 private:
  Field added(Field field, const std::string& name) {
    if (field.required && (format_version_ < 3 || !field.initial_default || is_null(*field.initial_default)))
      fail(ErrorKind::schema_mismatch,
           "Column {} is required and not in the table, and has no default for the rows that are there (which needs "
           "format version 3): declare it optional",
           name);
    int32_t next = last_id_ + 1;
    field.id = next++;
    field.type = with_fresh_ids(field.type, next);
    last_id_ = next - 1;
    return field;
  }

  TypePtr type(const TypePtr& current, const TypePtr& wanted, const std::string& name) {
    if (current->id() == wanted->id() && current->is_nested()) {
      switch (current->id()) {
        case TypeId::struct_:
          return Type::struct_of(fields(current->fields(), wanted->fields(), name + "."));
        case TypeId::list: {
          const auto merged = fields({current->element()}, {wanted->element()}, name + ".");
          return Type::list_of(merged[0].id, merged[0].required, merged[0].type);
        }
        default: {
          const auto merged = fields({current->key(), current->value()}, {wanted->key(), wanted->value()}, name + ".");
          return Type::map_of(merged[0].id, merged[0].type, merged[1].id, merged[1].required, merged[1].type);
        }
      }
    }
    if (!wanted->is_nested() && same_type(*current, *wanted)) return current;
    if (can_promote(*current, *wanted, format_version_)) {
      changed_ = true;
      if (!wanted->is_nested()) return wanted;
      int32_t next = last_id_ + 1;  // an unknown column takes a nested type
      auto fresh = with_fresh_ids(wanted, next);
      last_id_ = next - 1;
      return fresh;
    }
    // The column is wider than what is wanted: it stays, and the values are widened as they are written.
    if (wanted->id() == TypeId::unknown || can_promote(*wanted, *current, format_version_)) return current;
    fail(ErrorKind::schema_mismatch, "Column {} is {} and cannot become {}: write it under another name", name,
         current->to_string(), wanted->to_string());
  }

  std::vector<int32_t> identifiers_;
  int32_t last_id_;
  int32_t format_version_;
  bool changed_ = false;
};

NameMapping name_mapping_from_json(const Json& json, std::string_view where, int depth);

MappedField mapped_field_from_json(const Json& json, std::string_view where, int depth) {
  MappedField field;
  field.field_id = find_int32(json, "field-id", where);
  for (const Json& name : get_array(json, "names", where)) {
    if (!name.is_string()) fail(ErrorKind::corrupt, "{}: a name in the name mapping is no string", where);
    field.names.push_back(name.get<std::string>());
  }
  if (const Json* fields = find_member(json, "fields"))
    field.fields = name_mapping_from_json(*fields, where, depth + 1);
  return field;
}

NameMapping name_mapping_from_json(const Json& json, std::string_view where, int depth) {
  if (depth > kDepthMax)
    fail(ErrorKind::corrupt, "{}: the name mapping is nested deeper than {} levels", where, kDepthMax);
  if (!json.is_array()) fail(ErrorKind::corrupt, "{}: the name mapping is no list", where);
  NameMapping mapping;
  for (const Json& field : json) mapping.push_back(mapped_field_from_json(field, where, depth));
  return mapping;
}

}  // namespace

// Built once with the schema; Field pointers stay valid because the root's type is shared and immutable.
struct Schema::Index {
  struct Entry {
    const Field* field = nullptr;
    int32_t parent_id = 0;  // 0: a top-level column
    bool below_list_or_map = false;
    std::string full_name;
  };
  std::unordered_map<int32_t, Entry> by_id;
  std::unordered_map<std::string, int32_t> by_name;
  std::unordered_map<std::string, std::optional<int32_t>> by_lower_name;  // nullopt: ambiguous
  int32_t highest_id = 0;

  void add_level(const Type& type, const std::string& prefix, int32_t parent_id, bool below_list_or_map) {
    std::unordered_set<std::string_view> names;
    for (const Field& field : type.fields()) {
      std::string full_name = prefix + field.name;
      if (!names.insert(field.name).second)
        fail(ErrorKind::invalid_argument, "Schema: the name {} is there twice: rename one of the two", full_name);
      if (!by_id.emplace(field.id, Entry{&field, parent_id, below_list_or_map, full_name}).second)
        fail(ErrorKind::invalid_argument, "Schema: column {} has id {}, which column {} has too: ids are unique",
             full_name, field.id, by_id[field.id].full_name);
      highest_id = std::max(highest_id, field.id);
      // A column named "a.b" and a member b of a column a: the outer one, which is added first, has the name.
      if (!by_name.emplace(full_name, field.id).second) continue;
      const auto [lower, added] = by_lower_name.emplace(lower_ascii(full_name), field.id);
      if (!added) lower->second = std::nullopt;
    }
    for (const Field& field : type.fields())
      add_level(*field.type, prefix + field.name + ".", field.id,
                below_list_or_map || field.type->id() >= TypeId::list);
  }
};

Schema::Schema(std::vector<Field> fields, int32_t schema_id, std::vector<int32_t> identifier_field_ids)
    : root_(Type::struct_of(std::move(fields))),
      schema_id_(schema_id),
      identifier_field_ids_(std::move(identifier_field_ids)) {
  auto index = std::make_shared<Index>();
  index->add_level(*root_, "", 0, false);
  index_ = std::move(index);
}

int32_t Schema::highest_field_id() const { return index_ ? index_->highest_id : 0; }

const Field* Schema::find_field(int32_t id) const {
  if (!index_) return nullptr;
  const auto found = index_->by_id.find(id);
  return found == index_->by_id.end() ? nullptr : found->second.field;
}

const Field* Schema::find_field(std::string_view dotted_name) const {
  if (!index_) return nullptr;
  const auto found = index_->by_name.find(std::string(dotted_name));
  return found == index_->by_name.end() ? nullptr : find_field(found->second);
}

const Field* Schema::find_field_ci(std::string_view dotted_name) const {
  if (!index_) return nullptr;
  const auto found = index_->by_lower_name.find(lower_ascii(dotted_name));
  return found == index_->by_lower_name.end() || !found->second ? nullptr : find_field(*found->second);
}

std::string Schema::full_name(int32_t id) const {
  if (!find_field(id)) fail(ErrorKind::not_found, "Schema {}: there is no column with id {}", schema_id_, id);
  return index_->by_id.at(id).full_name;
}

std::vector<int32_t> Schema::path_to(int32_t id) const {
  std::vector<int32_t> path;
  if (!find_field(id)) return path;
  for (int32_t at = id; at != 0; at = index_->by_id.at(at).parent_id) path.push_back(at);
  std::reverse(path.begin(), path.end());
  return path;
}

bool Schema::is_nested_below_list_or_map(int32_t id) const {
  return find_field(id) && index_->by_id.at(id).below_list_or_map;
}

Schema Schema::with_id(int32_t schema_id) const {
  Schema copy = *this;
  copy.schema_id_ = schema_id;
  return copy;
}

Schema Schema::select(const std::vector<std::string>& names) const {
  std::vector<Field> selected;
  for (const std::string& name : names) {
    const auto found = std::find_if(fields().begin(), fields().end(), [&](const Field& f) { return f.name == name; });
    if (found == fields().end()) {
      std::vector<std::string_view> known;
      for (const Field& field : fields()) known.push_back(field.name);
      fail(ErrorKind::not_found, "There is no column {}; there are: {}", name, fmt::join(known, ", "));
    }
    selected.push_back(*found);
  }
  Schema schema(std::move(selected), schema_id_);
  for (const int32_t id : identifier_field_ids_)
    if (schema.find_field(id)) schema.identifier_field_ids_.push_back(id);
  return schema;
}

Json Schema::to_json() const {
  Json json = {{"type", "struct"}, {"schema-id", schema_id_}};
  if (!identifier_field_ids_.empty()) json["identifier-field-ids"] = identifier_field_ids_;
  json["fields"] = Json::array();
  for (const Field& field : fields()) json["fields"].push_back(field_to_json(field));
  return json;
}

Schema Schema::from_json(const Json& json, std::string_view where) {
  std::vector<int32_t> identifiers;
  if (const Json* ids = find_member(json, "identifier-field-ids")) {
    if (!ids->is_array()) fail(ErrorKind::corrupt, "{}: identifier-field-ids is no list", where);
    for (const Json& id : *ids) {
      if (!id.is_number_integer()) fail(ErrorKind::corrupt, "{}: an identifier field id is no integer", where);
      identifiers.push_back(id.get<int32_t>());
    }
  }
  const int32_t schema_id = find_int32(json, "schema-id", where).value_or(0);  // v1 schemas have none
  auto fields = fields_from_json(json, where, 0);
  try {
    return Schema(std::move(fields), schema_id, std::move(identifiers));
  } catch (const Error& e) {
    throw Error(ErrorKind::corrupt, std::string(where), e);
  }
}

bool Schema::same_fields(const Schema& other) const {
  return same_type(*root_, *other.root_) && identifier_field_ids_ == other.identifier_field_ids_;
}

Json type_to_json(const Type& type) {
  switch (type.id()) {
    case TypeId::struct_: {
      Json json = {{"type", "struct"}, {"fields", Json::array()}};
      for (const Field& field : type.fields()) json["fields"].push_back(field_to_json(field));
      return json;
    }
    case TypeId::list:
      return {{"type", "list"},
              {"element-id", type.element().id},
              {"element-required", type.element().required},
              {"element", type_to_json(*type.element().type)}};
    case TypeId::map:
      return {{"type", "map"},
              {"key-id", type.key().id},
              {"key", type_to_json(*type.key().type)},
              {"value-id", type.value().id},
              {"value-required", type.value().required},
              {"value", type_to_json(*type.value().type)}};
    default:
      return type.to_string();
  }
}

TypePtr type_from_json(const Json& json, std::string_view where) { return type_from_json(json, where, 0); }

Schema assign_fresh_ids(const Schema& schema) {
  int32_t next = 1;
  const auto fresh = Type::struct_of(with_fresh_ids(schema.fields(), next));
  std::unordered_map<int32_t, int32_t> new_ids;
  collect_ids(*schema.as_struct(), *fresh, new_ids);
  std::vector<int32_t> identifiers;
  for (const int32_t id : schema.identifier_field_ids()) identifiers.push_back(new_ids.at(id));
  return Schema(fresh->fields(), schema.schema_id(), std::move(identifiers));
}

EvolvedSchema union_by_name(const Schema& current, const Schema& wanted, int32_t last_column_id,
                            int32_t format_version) {
  Union merge(current, last_column_id, format_version);
  auto fields = merge.fields(current.fields(), wanted.fields(), "");
  if (!merge.changed()) return {current, last_column_id, false};
  EvolvedSchema evolved = {Schema(std::move(fields), current.schema_id(), current.identifier_field_ids()),
                           merge.last_id(), true};
  if (!repeated_full_name(current)) check_full_names(evolved.schema);  // else it was so before
  return evolved;
}

NameMapping name_mapping_from_json(const Json& json, std::string_view where) {
  return name_mapping_from_json(json, where, 0);
}

Json name_mapping_to_json(const NameMapping& mapping) {
  Json json = Json::array();
  for (const MappedField& field : mapping) {
    Json item = Json::object();
    if (field.field_id) item["field-id"] = *field.field_id;
    item["names"] = field.names;
    if (!field.fields.empty()) item["fields"] = name_mapping_to_json(field.fields);
    json.push_back(std::move(item));
  }
  return json;
}

}  // namespace firn::iceberg
