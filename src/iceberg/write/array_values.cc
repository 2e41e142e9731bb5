#include "iceberg/write/array_values.h"

#include <arrow/array.h>

#include "base/arrow_status.h"

namespace firn::iceberg {

Value value_at(const arrow::Array& array, const Type& type, int64_t row) {
  if (array.IsNull(row)) return {};
  switch (array.type_id()) {
    case arrow::Type::BOOL:
      return static_cast<const arrow::BooleanArray&>(array).Value(row);
    case arrow::Type::INT32:
    case arrow::Type::DATE32:
      return array.data()->GetValues<int32_t>(1)[row];
    case arrow::Type::INT64:
    case arrow::Type::TIME64:
    case arrow::Type::TIMESTAMP:
      return array.data()->GetValues<int64_t>(1)[row];
    case arrow::Type::FLOAT:
      return static_cast<const arrow::FloatArray&>(array).Value(row);
    case arrow::Type::DOUBLE:
      return static_cast<const arrow::DoubleArray&>(array).Value(row);
    case arrow::Type::DECIMAL128:
      return arrow::Decimal128(static_cast<const arrow::Decimal128Array&>(array).GetValue(row));
    case arrow::Type::STRING:
    case arrow::Type::BINARY:
      return std::string(static_cast<const arrow::BinaryArray&>(array).GetView(row));
    case arrow::Type::FIXED_SIZE_BINARY:
      return std::string(static_cast<const arrow::FixedSizeBinaryArray&>(array).GetView(row));
    default:
      fail(ErrorKind::unsupported, "a value of type {} cannot be partitioned or sorted by", type.to_string());
  }
}

std::shared_ptr<arrow::Array> array_of(const arrow::RecordBatch& batch, const Schema& schema, int32_t id) {
  const std::vector<int32_t> path = schema.path_to(id);
  std::shared_ptr<arrow::Array> array;
  const std::vector<Field>* fields = &schema.fields();
  for (int32_t step : path) {
    int index = 0;
    while (fields->at(static_cast<size_t>(index)).id != step) ++index;
    array = array == nullptr ? batch.column(index)
                             : check(static_cast<const arrow::StructArray&>(*array).GetFlattenedField(index),
                                     "column " + schema.full_name(id));
    const Type& type = *fields->at(static_cast<size_t>(index)).type;
    if (step != path.back() && type.id() != TypeId::struct_) break;
    fields = &type.fields();
    if (step == path.back()) return array;
  }
  fail(ErrorKind::invalid_argument, "field id {} is no column that rows can be partitioned or sorted by", id);
}

}  // namespace firn::iceberg
