#include "iceberg/parquet/array_adapter.h"

#include <arrow/compute/cast.h>
#include <arrow/extension_type.h>
#include <arrow/scalar.h>
#include <arrow/util/bitmap_ops.h>

#include "base/arrow_status.h"
#include "iceberg/parquet/arrow_schema.h"

namespace firn::iceberg {

namespace {

using ArrayPtr = std::shared_ptr<arrow::Array>;

[[noreturn]] void refuse(const AdaptRules& rules, const std::string& path, const std::string& why) {
  fail(rules.error, "column {}: {}{}{}", path, why, rules.where.empty() ? "" : " ", rules.where);
}

// Whether a value of Arrow's `from` is one of `target`, perhaps in another unit or width. Whether each value fits is
// the cast's to check.
bool converts(const arrow::DataType& from, const Type& target, const AdaptRules& rules) {
  const arrow::Type::type id = from.id();
  const bool is_text = id == arrow::Type::STRING || id == arrow::Type::LARGE_STRING || id == arrow::Type::STRING_VIEW;
  const bool is_bytes = id == arrow::Type::BINARY || id == arrow::Type::LARGE_BINARY || id == arrow::Type::BINARY_VIEW;
  const bool is_small_int = id == arrow::Type::INT8 || id == arrow::Type::INT16 || id == arrow::Type::UINT8 ||
                            id == arrow::Type::UINT16 || id == arrow::Type::INT32;
  switch (target.id()) {
    case TypeId::boolean_:
      return id == arrow::Type::BOOL;
    case TypeId::int_:
      return is_small_int;
    case TypeId::long_:
      return is_small_int || id == arrow::Type::UINT32 || id == arrow::Type::INT64;
    case TypeId::float_:
      return id == arrow::Type::HALF_FLOAT || id == arrow::Type::FLOAT;
    case TypeId::double_:
      return id == arrow::Type::HALF_FLOAT || id == arrow::Type::FLOAT || id == arrow::Type::DOUBLE;
    case TypeId::decimal: {
      if (!arrow::is_decimal(id)) return false;
      const auto& decimal = static_cast<const arrow::DecimalType&>(from);
      return decimal.scale() == target.scale() && decimal.precision() <= target.precision();
    }
    case TypeId::date:
      return id == arrow::Type::DATE32 || id == arrow::Type::DATE64;
    case TypeId::time:
      return id == arrow::Type::TIME32 || id == arrow::Type::TIME64;
    case TypeId::timestamp:
    case TypeId::timestamp_ns:
      if (id == arrow::Type::DATE32) return true;  // spec, "Schema Evolution": date to timestamp
      [[fallthrough]];
    case TypeId::timestamptz:
    case TypeId::timestamptz_ns: {
      if (id != arrow::Type::TIMESTAMP) return false;
      const bool zoned = !static_cast<const arrow::TimestampType&>(from).timezone().empty();
      return rules.from_file || zoned == (target.id() == TypeId::timestamptz || target.id() == TypeId::timestamptz_ns);
    }
    case TypeId::string:
      return is_text || (rules.from_file && is_bytes);
    case TypeId::binary:
    case TypeId::geometry:
    case TypeId::geography:
      return is_bytes || id == arrow::Type::FIXED_SIZE_BINARY || (rules.from_file && is_text);
    case TypeId::uuid:
    case TypeId::fixed: {
      const int32_t width = target.id() == TypeId::uuid ? 16 : target.length();
      return id == arrow::Type::FIXED_SIZE_BINARY &&
             static_cast<const arrow::FixedSizeBinaryType&>(from).byte_width() == width;
    }
    default:
      return false;
  }
}

ArrayPtr with_type(const ArrayPtr& array, std::shared_ptr<arrow::DataType> type) {
  auto data = array->data()->Copy();
  data->type = std::move(type);
  return arrow::MakeArray(data);
}

// Arrow's own array of nulls has nulls in the members too, and what writes Parquet refuses them where a member is
// required, though a null struct hides it. Builders put values there instead, at every depth.
ArrayPtr nulls_of(const Type& type, int64_t length) {
  const auto arrow_type = to_arrow_type(type);
  const std::string what = "nulls of " + type.to_string();
  if (type.id() != TypeId::struct_ && type.id() != TypeId::variant)
    return check(arrow::MakeArrayOfNull(arrow_type, length), what);
  const auto builder = check(arrow::MakeBuilder(arrow_type), what);
  check(builder->AppendNulls(length), what);
  return with_type(check(builder->Finish(), what), arrow_type);
}

// For the same reason: a required `child`, none of whose nulls show, without them. What lies under them is shown by
// nobody.
ArrayPtr without_hidden_nulls(const ArrayPtr& child) {
  if (child->null_count() == 0 || child->type_id() == arrow::Type::NA) return child;
  auto data = child->data()->Copy();
  data->buffers[0] = nullptr;
  data->null_count = 0;
  return arrow::MakeArray(data);
}

ArrayPtr adapt_leaf(const ArrayPtr& array, const Type& target, const std::string& path, const AdaptRules& rules) {
  const auto wanted = to_arrow_type(target);
  const arrow::DataType& from = *array->type();
  if (from.Equals(*wanted)) return array;
  if (from.id() == arrow::Type::NA || target.id() == TypeId::unknown) {
    if (array->null_count() != array->length())
      refuse(rules, path, fmt::format("{} does not convert to unknown", from.ToString()));
    return nulls_of(target, array->length());
  }
  if (from.id() == arrow::Type::DICTIONARY) {
    const auto& values = static_cast<const arrow::DictionaryType&>(from).value_type();
    return adapt_leaf(check(arrow::compute::Cast(*array, values), path), target, path, rules);
  }
  if (!converts(from, target, rules))
    refuse(rules, path, fmt::format("{} does not convert to {}", from.ToString(), target.to_string()));
  ArrayPtr source = array;
  if (from.id() == arrow::Type::DECIMAL128) return with_type(array, wanted);  // same scale: only the precision grows
  if (from.id() == arrow::Type::TIMESTAMP) {
    // A zone only says how to print: the number is UTC or local already, so it is renamed, not shifted.
    const auto unit = static_cast<const arrow::TimestampType&>(from).unit();
    source = with_type(source, arrow::timestamp(unit, static_cast<const arrow::TimestampType&>(*wanted).timezone()));
  } else if (rules.from_file && from.id() == arrow::Type::BINARY && target.id() == TypeId::string) {
    return with_type(source, wanted);  // UTF-8 by the column's type; Parquet's string annotation is not checked either
  }
  auto cast = arrow::compute::Cast(*source, wanted, arrow::compute::CastOptions::Safe());
  if (!cast.ok())
    refuse(rules, path,
           fmt::format("{} does not fit {}: {}", from.ToString(), target.to_string(), cast.status().message()));
  return std::move(cast).ValueUnsafe();
}

// Nulls of `child` that a valid parent shows.
bool shows_null(const arrow::Array& parent, const arrow::Array& child) {
  if (child.null_count() == 0) return false;
  if (parent.null_count() == 0) return true;
  for (int64_t i = 0; i < parent.length(); ++i) {
    if (parent.IsValid(i) && child.IsNull(i)) return true;
  }
  return false;
}

ArrayPtr adapt_struct(const arrow::StructArray& array, const SourceField& source, const Field& target,
                      const std::string& path, const AdaptRules& rules) {
  arrow::ArrayVector children;
  std::vector<bool> used(source.children.size(), false);
  for (const Field& member : target.type->fields()) {
    const std::string member_path = path + "." + member.name;
    size_t index = 0;
    const SourceField* from = find_source(source.children, source.match_names, member, &index);
    if (from == nullptr) {
      if (rules.from_file) {
        children.push_back(missing_column(member, array.length(), member_path, rules));
      } else {
        if (member.required) refuse(rules, member_path, "it is required and not in the rows");
        children.push_back(constant_array(Value{}, *member.type, array.length()));
      }
      continue;
    }
    used[index] = true;
    Field optional_member = member;
    optional_member.required = false;  // a null parent hides its members; seen below
    ArrayPtr child = adapt_array(array.field(static_cast<int>(index)), *from, optional_member, member_path, rules);
    if (member.required && shows_null(array, *child)) refuse(rules, member_path, "it is required and has a null");
    children.push_back(member.required ? without_hidden_nulls(child) : std::move(child));
  }
  if (!rules.from_file) {
    for (size_t i = 0; i < used.size(); ++i) {
      if (!used[i]) refuse(rules, path + "." + source.children[i].name, "the table has no such column");
    }
  }
  std::shared_ptr<arrow::Buffer> validity;
  if (array.null_count() > 0) {
    // array.field() applied the offset to the children, so the validity follows.
    validity = check(arrow::internal::CopyBitmap(arrow::default_memory_pool(), array.null_bitmap_data(), array.offset(),
                                                 array.length()),
                     path);
  }
  return std::make_shared<arrow::StructArray>(to_arrow_type(*target.type), array.length(), std::move(children),
                                              std::move(validity), array.null_count());
}

ArrayPtr adapt_list(ArrayPtr array, const SourceField& source, const Field& target, const std::string& path,
                    const AdaptRules& rules) {
  const Field& element = target.type->element();
  if (array->type_id() != arrow::Type::LIST)
    array = check(arrow::compute::Cast(*array, arrow::list(array->type()->field(0))), path);
  const auto& list = static_cast<const arrow::ListArray&>(*array);
  Field optional_element = element;
  optional_element.required = false;  // elements outside every list do not count
  ArrayPtr values = adapt_array(list.values(), source.children.at(0), optional_element, path + ".element", rules);
  if (element.required && values->null_count() > 0) {
    for (int64_t i = 0; i < list.length(); ++i) {
      for (int64_t j = list.value_offset(i); list.IsValid(i) && j < list.value_offset(i + 1); ++j) {
        if (values->IsNull(j)) refuse(rules, path + ".element", "it is required and has a null");
      }
    }
    values = without_hidden_nulls(values);
  }
  auto data = array->data()->Copy();
  data->type = to_arrow_type(*target.type);
  data->child_data = {values->data()};
  return arrow::MakeArray(data);
}

ArrayPtr adapt_map(const ArrayPtr& array, const SourceField& source, const Field& target, const std::string& path,
                   const AdaptRules& rules) {
  const auto& map = static_cast<const arrow::MapArray&>(*array);
  Field key = target.type->key(), value = target.type->value();
  key.required = value.required = false;
  ArrayPtr keys = adapt_array(map.keys(), source.children.at(0), key, path + ".key", rules);
  ArrayPtr values = adapt_array(map.items(), source.children.at(1), value, path + ".value", rules);
  for (int64_t i = 0; i < map.length() && (keys->null_count() > 0 || values->null_count() > 0); ++i) {
    for (int64_t j = map.value_offset(i); map.IsValid(i) && j < map.value_offset(i + 1); ++j) {
      if (keys->IsNull(j)) refuse(rules, path + ".key", "a map has a null key");
      if (target.type->value().required && values->IsNull(j))
        refuse(rules, path + ".value", "it is required and has a null");
    }
  }
  keys = without_hidden_nulls(keys);
  if (target.type->value().required) values = without_hidden_nulls(values);
  auto type = to_arrow_type(*target.type);
  auto entries =
      arrow::ArrayData::Make(type->field(0)->type(), keys->length(), {nullptr}, {keys->data(), values->data()}, 0);
  auto data = array->data()->Copy();
  data->type = std::move(type);
  data->child_data = {std::move(entries)};
  return arrow::MakeArray(data);
}

// The struct of binary metadata and value that an unshredded variant is; its members have no ids.
ArrayPtr adapt_variant(const arrow::StructArray& array, const std::string& path, const AdaptRules& rules) {
  ArrayPtr metadata = array.GetFieldByName("metadata"), value = array.GetFieldByName("value");
  if (metadata == nullptr || value == nullptr || array.num_fields() != 2)
    refuse(rules, path, "a variant needs the members metadata and value; shredded variants are not supported");
  const Type& binary = *Type::primitive(TypeId::binary);
  const AdaptRules file_rules{.error = rules.error, .where = rules.where, .from_file = true};
  arrow::ArrayVector children = {adapt_leaf(metadata, binary, path + ".metadata", file_rules),
                                 adapt_leaf(value, binary, path + ".value", file_rules)};
  for (ArrayPtr& child : children) {
    if (!shows_null(array, *child)) child = without_hidden_nulls(child);
  }
  std::shared_ptr<arrow::Buffer> validity;
  if (array.null_count() > 0)
    validity = check(arrow::internal::CopyBitmap(arrow::default_memory_pool(), array.null_bitmap_data(), array.offset(),
                                                 array.length()),
                     path);
  return std::make_shared<arrow::StructArray>(to_arrow_type(*Type::primitive(TypeId::variant)), array.length(),
                                              std::move(children), std::move(validity), array.null_count());
}

std::shared_ptr<arrow::Scalar> to_scalar(const Value& value, const std::shared_ptr<arrow::DataType>& type) {
  switch (type->id()) {
    case arrow::Type::BOOL:
      return std::make_shared<arrow::BooleanScalar>(std::get<bool>(value));
    case arrow::Type::INT32:
      return std::make_shared<arrow::Int32Scalar>(std::get<int32_t>(value));
    case arrow::Type::DATE32:
      return std::make_shared<arrow::Date32Scalar>(std::get<int32_t>(value));
    case arrow::Type::INT64:
      return std::make_shared<arrow::Int64Scalar>(std::get<int64_t>(value));
    case arrow::Type::TIME64:
      return std::make_shared<arrow::Time64Scalar>(std::get<int64_t>(value), type);
    case arrow::Type::TIMESTAMP:
      return std::make_shared<arrow::TimestampScalar>(std::get<int64_t>(value), type);
    case arrow::Type::FLOAT:
      return std::make_shared<arrow::FloatScalar>(std::get<float>(value));
    case arrow::Type::DOUBLE:
      return std::make_shared<arrow::DoubleScalar>(std::get<double>(value));
    case arrow::Type::DECIMAL128:
      return std::make_shared<arrow::Decimal128Scalar>(std::get<arrow::Decimal128>(value), type);
    case arrow::Type::STRING:
      return std::make_shared<arrow::StringScalar>(arrow::Buffer::FromString(std::get<std::string>(value)));
    case arrow::Type::BINARY:
      return std::make_shared<arrow::BinaryScalar>(arrow::Buffer::FromString(std::get<std::string>(value)));
    case arrow::Type::FIXED_SIZE_BINARY:
      return std::make_shared<arrow::FixedSizeBinaryScalar>(arrow::Buffer::FromString(std::get<std::string>(value)),
                                                            type);
    default:
      fail(ErrorKind::unsupported, "a default of Arrow type {} is not supported", type->ToString());
  }
}

}  // namespace

SourceField source_field_of(const arrow::Field& field) {
  SourceField source{.id = field_id_of(field), .name = field.name()};
  std::shared_ptr<arrow::DataType> type = field.type();
  if (type->id() == arrow::Type::EXTENSION) type = static_cast<const arrow::ExtensionType&>(*type).storage_type();
  if (type->id() == arrow::Type::MAP) {
    const auto& map = static_cast<const arrow::MapType&>(*type);
    source.children = {source_field_of(*map.key_field()), source_field_of(*map.item_field())};
  } else {
    for (const auto& child : type->fields()) source.children.push_back(source_field_of(*child));
  }
  for (const SourceField& child : source.children) source.match_names |= !child.id;
  return source;
}

const SourceField* find_source(const std::vector<SourceField>& children, bool match_names, const Field& target,
                               size_t* index) {
  for (size_t i = 0; i < children.size(); ++i) {
    if (match_names ? children[i].name == target.name : children[i].id == target.id) {
      *index = i;
      return &children[i];
    }
  }
  return nullptr;
}

std::shared_ptr<arrow::Array> adapt_array(const std::shared_ptr<arrow::Array>& array, const SourceField& source,
                                          const Field& target, const std::string& path, const AdaptRules& rules) {
  if (array->type_id() == arrow::Type::EXTENSION)
    return adapt_array(static_cast<const arrow::ExtensionArray&>(*array).storage(), source, target, path, rules);
  ArrayPtr result;
  const arrow::Type::type id = array->type_id();
  const bool is_list = id == arrow::Type::LIST || id == arrow::Type::LARGE_LIST || id == arrow::Type::FIXED_SIZE_LIST ||
                       id == arrow::Type::LIST_VIEW || id == arrow::Type::LARGE_LIST_VIEW;
  const TypeId wanted = target.type->id();
  if (id == arrow::Type::STRUCT && wanted == TypeId::struct_) {
    result = adapt_struct(static_cast<const arrow::StructArray&>(*array), source, target, path, rules);
  } else if (is_list && wanted == TypeId::list) {
    result = adapt_list(array, source, target, path, rules);
  } else if (id == arrow::Type::MAP && wanted == TypeId::map) {
    result = adapt_map(array, source, target, path, rules);
  } else if (id == arrow::Type::STRUCT && wanted == TypeId::variant) {
    result = adapt_variant(static_cast<const arrow::StructArray&>(*array), path, rules);
  } else if (id != arrow::Type::NA && arrow::is_nested(id) != (target.type->is_nested() || wanted == TypeId::variant)) {
    refuse(rules, path, fmt::format("{} does not convert to {}", array->type()->ToString(), target.type->to_string()));
  } else {
    result = adapt_leaf(array, *target.type, path, rules);
  }
  if (target.required && result->null_count() > 0) refuse(rules, path, "it is required and has a null");
  return result;
}

std::shared_ptr<arrow::Array> constant_array(const Value& value, const Type& type, int64_t length) {
  const auto arrow_type = to_arrow_type(type);
  if (is_null(value)) return nulls_of(type, length);
  if (!type.is_nested())
    return check(arrow::MakeArrayFromScalar(*to_scalar(value, arrow_type), length),
                 "a constant of " + type.to_string());
  const Json json = to_json(value, type);
  if (type.id() == TypeId::struct_ && json.is_object() && json.empty()) {
    arrow::ArrayVector children;
    for (const Field& field : type.fields())
      children.push_back(constant_array(field.initial_default.value_or(Value{}), *field.type, length));
    return std::make_shared<arrow::StructArray>(arrow_type, length, std::move(children));
  }
  const bool is_empty = type.id() == TypeId::map ? json == Json{{"keys", Json::array()}, {"values", Json::array()}}
                                                 : json.is_array() && json.empty();
  if (!is_empty || type.id() == TypeId::struct_)
    fail(ErrorKind::unsupported, "the default {} of {} is not supported: only null and empty nested defaults are",
         json.dump(), type.to_string());
  auto builder = check(arrow::MakeBuilder(arrow_type), "a builder of " + type.to_string());
  check(builder->AppendEmptyValues(length), "empty values of " + type.to_string());
  return check(builder->Finish(), "empty values of " + type.to_string());
}

std::shared_ptr<arrow::Array> missing_column(const Field& target, int64_t length, const std::string& path,
                                             const AdaptRules& rules) {
  const Value value = target.initial_default.value_or(Value{});
  if (target.required && is_null(value) && target.type->id() != TypeId::unknown)
    refuse(rules, path, "it is required, has no initial-default, and is missing");
  return constant_array(value, *target.type, length);
}

}  // namespace firn::iceberg
