#include "iceberg/scan/projection.h"

#include <algorithm>

#include <arrow/array/util.h>

#include "base/arrow_status.h"
#include "iceberg/parquet/array_adapter.h"
#include "iceberg/parquet/arrow_schema.h"

namespace firn::iceberg {

namespace {

Field with_type(Field field, TypePtr type) {
  field.type = std::move(type);
  return field;
}

Field* find_by_id(std::vector<Field>& fields, int32_t id) {
  const auto found = std::find_if(fields.begin(), fields.end(), [&](const Field& field) { return field.id == id; });
  return found == fields.end() ? nullptr : &*found;
}

size_t index_of(const std::vector<Field>& fields, int32_t id) {
  const auto found = std::find_if(fields.begin(), fields.end(), [&](const Field& field) { return field.id == id; });
  if (found == fields.end()) fail(ErrorKind::internal, "field {} is not in the struct that was read", id);
  return static_cast<size_t>(found - fields.begin());
}

// A field that was dropped: files written since need not have it, whatever it was before.
Field optional_field(Field field) {
  field.required = false;
  return field;
}

std::shared_ptr<arrow::Array> struct_of(const arrow::StructArray& from, const Type& type,
                                        const arrow::ArrayVector& children) {
  const int64_t null_count = from.null_bitmap() ? arrow::kUnknownNullCount : 0;
  return check(
      arrow::StructArray::Make(children, to_arrow_type(type)->fields(), from.null_bitmap(), null_count, from.offset()),
      "put a struct together");
}

}  // namespace

std::optional<Field> prune_field(const Field& field, const std::set<int32_t>& ids) {
  if (ids.contains(field.id)) return field;
  if (field.type->id() != TypeId::struct_) return std::nullopt;
  std::vector<Field> kept;
  for (const Field& child : field.type->fields()) {
    if (std::optional<Field> pruned = prune_field(child, ids)) kept.push_back(std::move(*pruned));
  }
  if (kept.empty()) return std::nullopt;
  return with_type(field, Type::struct_of(std::move(kept)));
}

std::vector<Field> merge_fields(std::vector<Field> base, const std::vector<Field>& extra) {
  for (const Field& field : extra) {
    if (Field* same = find_by_id(base, field.id)) {
      if (same->type->id() == TypeId::struct_ && field.type->id() == TypeId::struct_) {
        same->type = Type::struct_of(merge_fields(same->type->fields(), field.type->fields()));
      }
      continue;
    }
    Field added = optional_field(field);
    const bool taken =
        std::any_of(base.begin(), base.end(), [&](const Field& other) { return other.name == added.name; });
    if (taken) added.name = fmt::format("{} (field {})", added.name, added.id);
    base.push_back(std::move(added));
  }
  return base;
}

Schema columns_of_other_schemas(const TableMetadata& metadata, const Schema& schema, const std::set<int32_t>& ids) {
  std::vector<Field> found;
  std::set<int32_t> missing;
  for (const int32_t id : ids) {
    if (schema.find_field(id) == nullptr) missing.insert(id);
  }
  for (auto other = metadata.schemas.rbegin(); other != metadata.schemas.rend() && !missing.empty(); ++other) {
    std::set<int32_t> here;
    for (const int32_t id : missing) {
      if (other->find_field(id) != nullptr && !other->is_nested_below_list_or_map(id)) here.insert(id);
    }
    std::vector<Field> pruned;
    for (const Field& field : other->fields()) {
      if (std::optional<Field> kept = prune_field(field, here)) pruned.push_back(std::move(*kept));
    }
    found = merge_fields(std::move(found), pruned);
    for (const int32_t id : here) missing.erase(id);
  }
  return Schema(std::move(found));
}

std::shared_ptr<arrow::Array> project_array(const std::shared_ptr<arrow::Array>& array, const Type& from,
                                            const Type& to) {
  if (from.id() != TypeId::struct_ || same_type(from, to)) return array;
  const auto& source = static_cast<const arrow::StructArray&>(*array);
  arrow::ArrayVector children;
  for (const Field& field : to.fields()) {
    const size_t index = index_of(from.fields(), field.id);
    // The child as stored, without this array's offset: struct_of keeps that.
    const std::shared_ptr<arrow::Array> child = arrow::MakeArray(source.data()->child_data.at(index));
    children.push_back(project_array(child, *from.fields()[index].type, *field.type));
  }
  return struct_of(source, to, children)->Slice(0, array->length());
}

std::shared_ptr<arrow::Array> with_constants(const std::shared_ptr<arrow::Array>& array, const Type& type,
                                             const std::map<int32_t, Value>& constants) {
  if (type.id() != TypeId::struct_ || constants.empty()) return array;
  const auto& source = static_cast<const arrow::StructArray&>(*array);
  arrow::ArrayVector children;
  bool changed = false;
  for (size_t i = 0; i < type.fields().size(); ++i) {
    const Field& field = type.fields()[i];
    const std::shared_ptr<arrow::Array> child = arrow::MakeArray(source.data()->child_data.at(i));
    const auto constant = constants.find(field.id);
    children.push_back(constant != constants.end() ? constant_array(constant->second, *field.type, child->length())
                                                   : with_constants(child, *field.type, constants));
    changed = changed || children.back() != child;
  }
  return changed ? struct_of(source, type, children)->Slice(0, array->length()) : array;
}

std::shared_ptr<arrow::Array> nested_array(std::shared_ptr<arrow::Array> array, const Type& type,
                                           const std::vector<int32_t>& path) {
  const Type* parent = &type;
  for (const int32_t id : path) {
    const size_t index = index_of(parent->fields(), id);
    array = check(static_cast<const arrow::StructArray&>(*array).GetFlattenedField(static_cast<int>(index)),
                  "take a field out of a struct");
    parent = parent->fields()[index].type.get();
  }
  return array;
}

}  // namespace firn::iceberg
