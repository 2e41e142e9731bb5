// Rows as plain values, and the same rows as Arrow batches: for tests of filters.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <arrow/record_batch.h>

#include "iceberg/schema.h"

namespace firn::iceberg {

// A column's value in one row. A struct that is not null has members; a list, map or variant that is not null has
// neither value nor members: only its being there counts.
struct Cell {
  bool null = true;
  Value value;
  std::vector<Cell> members;

  static Cell of(Value value) { return {is_null(value), std::move(value), {}}; }
};
using Row = std::vector<Cell>;

// In Iceberg's Arrow mapping, field ids in the metadata. `large` strings and binaries have 64-bit offsets. Columns
// whose values do not matter (list, map, variant) become boolean ones.
std::shared_ptr<arrow::RecordBatch> to_batch(const Schema& schema, const std::vector<Row>& rows, bool large = false);

// The cell of the column `id`, null inside a null struct.
const Cell& cell_of(const Schema& schema, const Row& row, int32_t id);

}  // namespace firn::iceberg
