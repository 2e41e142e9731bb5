// Arrow types freed of field ids, for rows whose ids are another table's: there the names decide.
#pragma once

#include <memory>

#include <arrow/type.h>

namespace firn::iceberg {

// The same names, types and nullability at every depth, without field metadata. Maps keep whether their keys are
// sorted.
std::shared_ptr<arrow::DataType> without_field_ids(const std::shared_ptr<arrow::DataType>& type);
std::shared_ptr<arrow::Field> without_field_ids(const std::shared_ptr<arrow::Field>& field);
std::shared_ptr<arrow::Schema> without_field_ids(const arrow::Schema& schema);

}  // namespace firn::iceberg
