// Predicates evaluated on rows.
#pragma once

#include <memory>

#include <arrow/array.h>
#include <arrow/record_batch.h>

#include "iceberg/expr/expression.h"

namespace firn::iceberg {

// One bit a row: true where `bound` is true (never null). Columns of `batch` are found by field id in their Arrow field
// metadata "PARQUET:field_id", nested struct members too; a column the batch lacks throws internal. Thread-safe.
std::shared_ptr<arrow::BooleanArray> evaluate(const Expression& bound, const arrow::RecordBatch& batch);

}  // namespace firn::iceberg
