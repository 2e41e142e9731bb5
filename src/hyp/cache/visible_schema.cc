#include "hyp/cache/visible_schema.h"

#include "base/log.h"
#include "hyp/cache/cache.h"

namespace firn::hyp {
namespace {

using iceberg::Field;
using iceberg::Schema;
using iceberg::Type;
using iceberg::TypeId;
using iceberg::TypePtr;

constexpr int32_t kTableFormatVersion = 3;

// How two schemas become one, and where they do not.
class Merge {
 public:
  explicit Merge(Stands stands) : stands_(stands) {}
  std::vector<Field> fields(const std::vector<Field>& a, const std::vector<Field>& b, const std::string& parent);
  const std::vector<TypeConflict>& conflicts() const { return conflicts_; }

 private:
  TypePtr type(const TypePtr& a, const TypePtr& b, const std::string& column);
  TypePtr conflict(const TypePtr& a, const TypePtr& b, const std::string& column) {
    conflicts_.push_back({column, a, b});
    return stands_ == Stands::first ? a : b;
  }

  Stands stands_;
  std::vector<TypeConflict> conflicts_;
};

TypePtr Merge::type(const TypePtr& a, const TypePtr& b, const std::string& column) {
  if (a->id() == TypeId::struct_ && b->id() == TypeId::struct_) {
    return Type::struct_of(fields(a->fields(), b->fields(), column + "."));
  }
  if (a->id() == TypeId::list && b->id() == TypeId::list) {
    TypePtr element = type(a->element().type, b->element().type, column + ".element");
    return Type::list_of(a->element().id, a->element().required && b->element().required, std::move(element));
  }
  if (a->id() == TypeId::map && b->id() == TypeId::map) {
    TypePtr key = type(a->key().type, b->key().type, column + ".key");
    TypePtr value = type(a->value().type, b->value().type, column + ".value");
    return Type::map_of(a->key().id, std::move(key), a->value().id, a->value().required && b->value().required,
                        std::move(value));
  }
  if (iceberg::can_promote(*b, *a, kTableFormatVersion)) return a;
  if (iceberg::can_promote(*a, *b, kTableFormatVersion)) return b;
  return conflict(a, b, column);
}

std::vector<Field> Merge::fields(const std::vector<Field>& a, const std::vector<Field>& b, const std::string& parent) {
  std::vector<Field> merged = a;
  for (const Field& field : b) {
    const auto same_name = [&](const Field& other) { return other.name == field.name; };
    const auto found = std::find_if(merged.begin(), merged.end(), same_name);
    if (found == merged.end()) {
      merged.push_back(field);
      merged.back().required = false;
      continue;
    }
    found->type = type(found->type, field.type, parent + field.name);
    found->required = found->required && field.required;
  }
  for (Field& field : merged) {
    const auto same_name = [&](const Field& other) { return other.name == field.name; };
    if (std::none_of(b.begin(), b.end(), same_name)) field.required = false;
  }
  return merged;
}

// Ids that clash within a merged struct must go before a Schema can be made of it: numbers them depth first from 1.
TypePtr renumber(const TypePtr& type, int32_t& next_id) {
  switch (type->id()) {
    case TypeId::struct_: {
      std::vector<Field> fields = type->fields();
      for (Field& field : fields) field.id = next_id++;
      for (Field& field : fields) field.type = renumber(field.type, next_id);
      return Type::struct_of(std::move(fields));
    }
    case TypeId::list: {
      const int32_t id = next_id++;
      return Type::list_of(id, type->element().required, renumber(type->element().type, next_id));
    }
    case TypeId::map: {
      const int32_t key_id = next_id++, value_id = next_id++;
      TypePtr key = renumber(type->key().type, next_id);
      return Type::map_of(key_id, std::move(key), value_id, type->value().required,
                          renumber(type->value().type, next_id));
    }
    default:
      return type;
  }
}

const Field* field_named(const std::vector<Field>& fields, const std::string& name) {
  const auto found = std::find_if(fields.begin(), fields.end(), [&](const Field& field) { return field.name == name; });
  return found == fields.end() ? nullptr : &*found;
}

// Not itself of that name.
const Field* field_in_other_case(const std::vector<Field>& fields, const std::string& name) {
  const std::string folded = fold_name(name);
  const auto found = std::find_if(fields.begin(), fields.end(), [&](const Field& field) {
    return field.name != name && fold_name(field.name) == folded;
  });
  return found == fields.end() ? nullptr : &*found;
}

std::vector<Field> spelled_alike(const std::vector<Field>& declared, const std::vector<Field>& cached);

TypePtr spelled_alike(const TypePtr& declared, const TypePtr& cached) {
  if (declared->id() != cached->id()) return declared;
  switch (declared->id()) {
    case TypeId::struct_:
      return Type::struct_of(spelled_alike(declared->fields(), cached->fields()));
    case TypeId::list: {
      const Field& element = declared->element();
      return Type::list_of(element.id, element.required, spelled_alike(element.type, cached->element().type));
    }
    case TypeId::map: {
      const Field &key = declared->key(), &value = declared->value();
      return Type::map_of(key.id, spelled_alike(key.type, cached->key().type), value.id, value.required,
                          spelled_alike(value.type, cached->value().type));
    }
    default:
      return declared;
  }
}

std::vector<Field> spelled_alike(const std::vector<Field>& declared, const std::vector<Field>& cached) {
  std::vector<Field> kept;
  for (const Field& field : declared) {
    const Field* found = field_named(cached, field.name);
    if (found == nullptr && field_in_other_case(cached, field.name) != nullptr) continue;
    kept.push_back(field);
    if (found != nullptr) kept.back().type = spelled_alike(field.type, found->type);
  }
  return kept;
}

std::vector<Field> required_as(std::vector<Field> fields, const std::vector<Field>& declared) {
  for (Field& field : fields) {
    const Field* as = field_named(declared, field.name);
    if (as == nullptr) continue;
    field.required = as->required;
    if (field.type->id() == TypeId::struct_ && as->type->id() == TypeId::struct_) {
      field.type = Type::struct_of(required_as(field.type->fields(), as->type->fields()));
    }
  }
  return fields;
}

std::optional<RefusedColumn> refused_field(const std::vector<Field>& declared, const std::vector<Field>& cached,
                                           const std::string& parent);

std::optional<RefusedColumn> refused_type(const TypePtr& declared, const TypePtr& cached, const std::string& column) {
  if (declared->id() == TypeId::struct_ && cached->id() == TypeId::struct_) {
    return refused_field(declared->fields(), cached->fields(), column + ".");
  }
  if (declared->id() == TypeId::list && cached->id() == TypeId::list) {
    return refused_type(declared->element().type, cached->element().type, column + ".element");
  }
  if (declared->id() == TypeId::map && cached->id() == TypeId::map) {
    auto refused = refused_type(declared->key().type, cached->key().type, column + ".key");
    return refused ? refused : refused_type(declared->value().type, cached->value().type, column + ".value");
  }
  const bool is_nested = declared->is_nested() || cached->is_nested();
  if (!is_nested && iceberg::can_promote(*cached, *declared, kTableFormatVersion)) return std::nullopt;
  return RefusedColumn{column, declared, cached, false, ""};
}

std::optional<RefusedColumn> refused_field(const std::vector<Field>& declared, const std::vector<Field>& cached,
                                           const std::string& parent) {
  for (const Field& field : declared) {
    const std::string column = parent + field.name;
    const Field* found = field_named(cached, field.name);
    if (found == nullptr) {
      if (const Field* other = field_in_other_case(cached, field.name)) {
        return RefusedColumn{column, field.type, nullptr, false, parent + other->name};
      }
      if (field.required) return RefusedColumn{column, field.type, nullptr, true, ""};
      continue;
    }
    if (auto refused = refused_type(field.type, found->type, column)) return refused;
    if (field.required && !found->required) return RefusedColumn{column, field.type, found->type, true, ""};
  }
  return std::nullopt;
}

int32_t hidden_id(const Schema& schema, const char* name, TypeId type, std::string_view where) {
  const Field* field = schema.find_field(std::string_view(name));
  if (field == nullptr || field->type->id() != type) {
    fail(ErrorKind::corrupt, "{}: the cache table's column {} is missing or of another type", where, name);
  }
  return field->id;
}

}  // namespace

Schema without_hidden(const Schema& table_schema) {
  std::vector<Field> fields;
  for (const Field& field : table_schema.fields()) {
    if (!is_hidden_column(field.name)) fields.push_back(field);
  }
  return Schema(std::move(fields), table_schema.schema_id());
}

Schema with_hidden(const Schema& visible) {
  std::vector<Field> fields = visible.fields();
  int32_t id = visible.highest_field_id();
  fields.push_back({++id, kIngestSeqColumn, false, Type::primitive(TypeId::long_)});
  fields.push_back({++id, kRowIdColumn, false, Type::primitive(TypeId::string)});
  fields.push_back({++id, kBatchIdColumn, false, Type::primitive(TypeId::string)});
  return Schema(std::move(fields), visible.schema_id());
}

HiddenIds hidden_ids(const Schema& table_schema, std::string_view where) {
  return {hidden_id(table_schema, kIngestSeqColumn, TypeId::long_, where),
          hidden_id(table_schema, kRowIdColumn, TypeId::string, where),
          hidden_id(table_schema, kBatchIdColumn, TypeId::string, where)};
}

Schema merge_schemas(const Schema& a, const Schema& b, std::string_view where, Stands stands) {
  Merge merge(stands);
  int32_t next_id = 1;
  const TypePtr merged = Type::struct_of(merge.fields(a.fields(), b.fields(), ""));
  for (const TypeConflict& conflict : merge.conflicts()) {
    spdlog::warn("{}: column {} is {} in one place and {} in another; the {} stands", where, conflict.column,
                 conflict.a->to_string(), conflict.b->to_string(), stands == Stands::first ? "first" : "second");
  }
  return Schema(renumber(merged, next_id)->fields());
}

std::optional<TypeConflict> find_conflict(const Schema& a, const Schema& b) {
  Merge merge(Stands::first);
  merge.fields(a.fields(), b.fields(), "");
  return merge.conflicts().empty() ? std::nullopt : std::optional(merge.conflicts().front());
}

Schema with_required(const Schema& schema, const Schema& declared) {
  return Schema(required_as(schema.fields(), declared.fields()), schema.schema_id());
}

Schema without_other_case(const Schema& declared, const Schema& cached) {
  return Schema(spelled_alike(declared.fields(), cached.fields()), declared.schema_id());
}

std::optional<RefusedColumn> find_refused(const Schema& declared, const Schema& table) {
  return refused_field(declared.fields(), table.fields(), "");
}

}  // namespace firn::hyp
