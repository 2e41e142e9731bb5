#include "iceberg/parquet/arrow_schema.h"

#include <charconv>

#include <arrow/extension_type.h>
#include <arrow/util/key_value_metadata.h>

#include "iceberg/parquet/array_adapter.h"

namespace firn::iceberg {

namespace {

constexpr const char* kFieldIdKey = "PARQUET:field_id";

std::shared_ptr<arrow::Field> arrow_field(std::string name, std::shared_ptr<arrow::DataType> type, bool required,
                                          int32_t id) {
  return arrow::field(std::move(name), std::move(type), !required,
                      arrow::key_value_metadata({{kFieldIdKey, std::to_string(id)}}));
}

// Takes ids from the metadata where `ids_given`, else counts up from 1.
class FromArrow {
 public:
  explicit FromArrow(bool ids_given) : ids_given_(ids_given) {}

  Field field(const arrow::Field& from, const std::string& path) {
    Field field;
    field.id = id_of(from);
    field.name = from.name();
    field.required = !from.nullable();
    field.type = type(*from.type(), path);
    return field;
  }

 private:
  int32_t id_of(const arrow::Field& from) { return ids_given_ ? *field_id_of(from) : ++last_id_; }

  TypePtr type(const arrow::DataType& from, const std::string& path) {
    switch (from.id()) {
      case arrow::Type::BOOL:
        return Type::primitive(TypeId::boolean_);
      case arrow::Type::INT8:
      case arrow::Type::INT16:
      case arrow::Type::INT32:
      case arrow::Type::UINT8:
      case arrow::Type::UINT16:
        return Type::primitive(TypeId::int_);
      case arrow::Type::UINT32:
      case arrow::Type::INT64:
        return Type::primitive(TypeId::long_);
      case arrow::Type::HALF_FLOAT:
      case arrow::Type::FLOAT:
        return Type::primitive(TypeId::float_);
      case arrow::Type::DOUBLE:
        return Type::primitive(TypeId::double_);
      case arrow::Type::DECIMAL32:
      case arrow::Type::DECIMAL64:
      case arrow::Type::DECIMAL128:
      case arrow::Type::DECIMAL256: {
        const auto& decimal = static_cast<const arrow::DecimalType&>(from);
        if (decimal.precision() > 38 || decimal.scale() < 0 || decimal.scale() > decimal.precision())
          unsupported(from, path);
        return Type::decimal(decimal.precision(), decimal.scale());
      }
      case arrow::Type::DATE32:
      case arrow::Type::DATE64:
        return Type::primitive(TypeId::date);
      case arrow::Type::TIME32:
      case arrow::Type::TIME64:
        return Type::primitive(TypeId::time);
      case arrow::Type::TIMESTAMP: {
        const auto& timestamp = static_cast<const arrow::TimestampType&>(from);
        const bool zoned = !timestamp.timezone().empty();
        if (timestamp.unit() == arrow::TimeUnit::NANO)
          return Type::primitive(zoned ? TypeId::timestamptz_ns : TypeId::timestamp_ns);
        return Type::primitive(zoned ? TypeId::timestamptz : TypeId::timestamp);
      }
      case arrow::Type::STRING:
      case arrow::Type::LARGE_STRING:
      case arrow::Type::STRING_VIEW:
        return Type::primitive(TypeId::string);
      case arrow::Type::BINARY:
      case arrow::Type::LARGE_BINARY:
      case arrow::Type::BINARY_VIEW:
        return Type::primitive(TypeId::binary);
      case arrow::Type::FIXED_SIZE_BINARY:
        return Type::fixed(static_cast<const arrow::FixedSizeBinaryType&>(from).byte_width());
      case arrow::Type::NA:
        return Type::primitive(TypeId::unknown);
      case arrow::Type::DICTIONARY:
        return type(*static_cast<const arrow::DictionaryType&>(from).value_type(), path);
      case arrow::Type::EXTENSION: {
        const auto& extension = static_cast<const arrow::ExtensionType&>(from);
        if (extension.extension_name() == "arrow.uuid") return Type::primitive(TypeId::uuid);
        return type(*extension.storage_type(), path);
      }
      case arrow::Type::STRUCT: {
        std::vector<Field> fields;
        for (const auto& child : from.fields()) fields.push_back(field(*child, path + "." + child->name()));
        return Type::struct_of(std::move(fields));
      }
      case arrow::Type::LIST:
      case arrow::Type::LARGE_LIST:
      case arrow::Type::FIXED_SIZE_LIST:
      case arrow::Type::LIST_VIEW:
      case arrow::Type::LARGE_LIST_VIEW: {
        const arrow::Field& element = *from.field(0);
        const int32_t id = id_of(element);
        return Type::list_of(id, !element.nullable(), type(*element.type(), path + ".element"));
      }
      case arrow::Type::MAP: {
        const auto& map = static_cast<const arrow::MapType&>(from);
        const int32_t key_id = id_of(*map.key_field());
        const int32_t value_id = id_of(*map.item_field());
        TypePtr key = type(*map.key_type(), path + ".key");
        return Type::map_of(key_id, std::move(key), value_id, !map.item_field()->nullable(),
                            type(*map.item_type(), path + ".value"));
      }
      default:
        unsupported(from, path);
    }
  }

  [[noreturn]] static void unsupported(const arrow::DataType& from, const std::string& path) {
    fail(ErrorKind::unsupported, "column {}: Iceberg has no type for Arrow's {}; cast the column first", path,
         from.ToString());
  }

  bool ids_given_;
  int32_t last_id_ = 0;
};

bool all_have_ids(const arrow::FieldVector& fields) {
  for (const auto& field : fields) {
    const arrow::DataType& type = *field->type();
    if (!field_id_of(*field)) return false;
    if (type.id() == arrow::Type::MAP) {
      const auto& map = static_cast<const arrow::MapType&>(type);
      if (!all_have_ids({map.key_field(), map.item_field()})) return false;
    } else if (!all_have_ids(type.fields())) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::shared_ptr<arrow::DataType> to_arrow_type(const Type& type) {
  switch (type.id()) {
    case TypeId::boolean_:
      return arrow::boolean();
    case TypeId::int_:
      return arrow::int32();
    case TypeId::long_:
      return arrow::int64();
    case TypeId::float_:
      return arrow::float32();
    case TypeId::double_:
      return arrow::float64();
    case TypeId::decimal:
      return arrow::decimal128(type.precision(), type.scale());
    case TypeId::date:
      return arrow::date32();
    case TypeId::time:
      return arrow::time64(arrow::TimeUnit::MICRO);
    case TypeId::timestamp:
      return arrow::timestamp(arrow::TimeUnit::MICRO);
    case TypeId::timestamptz:
      return arrow::timestamp(arrow::TimeUnit::MICRO, "UTC");
    case TypeId::timestamp_ns:
      return arrow::timestamp(arrow::TimeUnit::NANO);
    case TypeId::timestamptz_ns:
      return arrow::timestamp(arrow::TimeUnit::NANO, "UTC");
    case TypeId::string:
      return arrow::utf8();
    case TypeId::uuid:
      return arrow::fixed_size_binary(16);
    case TypeId::fixed:
      return arrow::fixed_size_binary(type.length());
    case TypeId::binary:
    case TypeId::geometry:
    case TypeId::geography:
      return arrow::binary();
    case TypeId::unknown:
      return arrow::null();
    case TypeId::variant:
      return arrow::struct_(
          {arrow::field("metadata", arrow::binary(), false), arrow::field("value", arrow::binary(), false)});
    case TypeId::struct_: {
      arrow::FieldVector fields;
      for (const Field& field : type.fields()) fields.push_back(to_arrow_field(field));
      return arrow::struct_(fields);
    }
    case TypeId::list:
      return arrow::list(to_arrow_field(type.element()));
    case TypeId::map: {
      const Field& key = type.key();
      return std::make_shared<arrow::MapType>(arrow_field("key", to_arrow_type(*key.type), true, key.id),
                                              to_arrow_field(type.value()));
    }
  }
  fail(ErrorKind::internal, "no Arrow type for {}", type.to_string());
}

std::shared_ptr<arrow::Field> to_arrow_field(const Field& field) {
  return arrow_field(field.name, to_arrow_type(*field.type), field.required, field.id);
}

std::shared_ptr<arrow::Schema> to_arrow_schema(const Schema& schema) {
  arrow::FieldVector fields;
  for (const Field& field : schema.fields()) fields.push_back(to_arrow_field(field));
  return arrow::schema(std::move(fields));
}

Schema from_arrow_schema(const arrow::Schema& schema) {
  const bool ids_given = all_have_ids(schema.fields());
  FromArrow from(ids_given);
  std::vector<Field> fields;
  for (const auto& field : schema.fields()) fields.push_back(from.field(*field, field->name()));
  Schema result(std::move(fields));
  return ids_given ? result : assign_fresh_ids(result);
}

std::optional<int32_t> field_id_of(const arrow::Field& field) {
  if (!field.HasMetadata()) return std::nullopt;
  const int index = field.metadata()->FindKey(kFieldIdKey);
  if (index < 0) return std::nullopt;
  const std::string& text = field.metadata()->value(index);
  int32_t id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error != std::errc() || end != text.data() + text.size() || id < 0) return std::nullopt;
  return id;
}

std::shared_ptr<arrow::RecordBatch> conform(const std::shared_ptr<arrow::RecordBatch>& batch, const Schema& target) {
  const auto wanted = to_arrow_schema(target);
  if (batch->schema()->Equals(*wanted, /*check_metadata=*/true)) {
    bool no_null_in_required = true;
    for (int i = 0; i < wanted->num_fields(); ++i) {
      const arrow::Field& field = *wanted->field(i);
      // Nested fields may hide a null in a required member.
      if (field.type()->num_fields() > 0 || (!field.nullable() && batch->column_data(i)->GetNullCount() > 0))
        no_null_in_required = false;
    }
    if (no_null_in_required) return batch;
  }
  SourceField root;
  for (const auto& field : batch->schema()->fields()) {
    root.children.push_back(source_field_of(*field));
    if (!root.children.back().id) root.match_names = true;
  }
  const AdaptRules rules;
  std::vector<bool> used(root.children.size(), false);
  arrow::ArrayVector columns;
  for (const Field& field : target.fields()) {
    size_t index = 0;
    const SourceField* source = find_source(root.children, root.match_names, field, &index);
    if (source == nullptr) {
      if (field.required && !field.write_default) {
        fail(ErrorKind::schema_mismatch, "column {} is required and not in the rows", field.name);
      }
      columns.push_back(constant_array(field.write_default.value_or(Value{}), *field.type, batch->num_rows()));
      continue;
    }
    used[index] = true;
    columns.push_back(adapt_array(batch->column(static_cast<int>(index)), *source, field, field.name, rules));
  }
  for (size_t i = 0; i < used.size(); ++i) {
    if (!used[i])
      fail(ErrorKind::schema_mismatch,
           "the table has no column {}: add it to the schema first, or drop it from the rows", root.children[i].name);
  }
  return arrow::RecordBatch::Make(wanted, batch->num_rows(), std::move(columns));
}

}  // namespace firn::iceberg
