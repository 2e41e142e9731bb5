// Single values out of Arrow arrays, and columns by field id.
#pragma once

#include <memory>
#include <vector>

#include <arrow/compute/api_vector.h>
#include <arrow/record_batch.h>

#include "base/arrow_status.h"
#include "iceberg/schema.h"

namespace firn::iceberg {

// Row `row` of `array`, which has to_arrow_type(type); null is monostate.
Value value_at(const arrow::Array& array, const Type& type, int64_t row);

// The column with field id `id` of a batch that has to_arrow_schema(schema), or the struct member, with the nulls of
// the structs above it. `id` is not below a list or map.
std::shared_ptr<arrow::Array> array_of(const arrow::RecordBatch& batch, const Schema& schema, int32_t id);

// The rows of `batch` at these places of it, in this order.
template <class T>
std::shared_ptr<arrow::RecordBatch> take_rows(const std::shared_ptr<arrow::RecordBatch>& batch,
                                              const std::vector<T>& rows) {
  using ArrayType = typename arrow::CTypeTraits<T>::ArrayType;
  const auto indices =
      std::make_shared<ArrayType>(static_cast<int64_t>(rows.size()), arrow::Buffer::Wrap(rows.data(), rows.size()));
  return check(arrow::compute::Take(batch, indices, arrow::compute::TakeOptions::NoBoundsCheck()), "take rows")
      .record_batch();
}

}  // namespace firn::iceberg
