#include "iceberg/parquet/without_field_ids.h"

namespace firn::iceberg {

std::shared_ptr<arrow::Field> without_field_ids(const std::shared_ptr<arrow::Field>& field) {
  return arrow::field(field->name(), without_field_ids(field->type()), field->nullable());
}

std::shared_ptr<arrow::DataType> without_field_ids(const std::shared_ptr<arrow::DataType>& type) {
  switch (type->id()) {
    case arrow::Type::STRUCT: {
      arrow::FieldVector fields;
      for (const auto& field : type->fields()) fields.push_back(without_field_ids(field));
      return arrow::struct_(fields);
    }
    case arrow::Type::LIST:
      return arrow::list(without_field_ids(type->field(0)));
    case arrow::Type::LARGE_LIST:
      return arrow::large_list(without_field_ids(type->field(0)));
    case arrow::Type::MAP: {
      const auto& map = static_cast<const arrow::MapType&>(*type);
      return std::make_shared<arrow::MapType>(without_field_ids(map.key_field()), without_field_ids(map.item_field()),
                                              map.keys_sorted());
    }
    default:
      return type;
  }
}

std::shared_ptr<arrow::Schema> without_field_ids(const arrow::Schema& schema) {
  arrow::FieldVector fields;
  for (const auto& field : schema.fields()) fields.push_back(without_field_ids(field));
  return arrow::schema(std::move(fields));
}

}  // namespace firn::iceberg
