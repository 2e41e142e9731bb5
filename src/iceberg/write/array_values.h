// Single values out of Arrow arrays, and columns by field id.
#pragma once

#include <memory>

#include <arrow/record_batch.h>

#include "iceberg/schema.h"

namespace firn::iceberg {

// Row `row` of `array`, which has to_arrow_type(type); null is monostate.
Value value_at(const arrow::Array& array, const Type& type, int64_t row);

// The column with field id `id` of a batch that has to_arrow_schema(schema), or the struct member, with the nulls of
// the structs above it. `id` is not below a list or map.
std::shared_ptr<arrow::Array> array_of(const arrow::RecordBatch& batch, const Schema& schema, int32_t id);

}  // namespace firn::iceberg
