// Rows of Iceberg values as Arrow batches: metadata tables are built cell by cell.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <arrow/builder.h>
#include <arrow/record_batch.h>

#include "iceberg/schema.h"

namespace firn::iceberg {

// One value of a column: of a primitive type a Value, of a nested one its parts (a struct's fields, a list's elements,
// a map's keys and values in turn). Neither: null.
struct Cell {
  Value value;
  std::optional<std::vector<Cell>> parts;

  Cell() = default;
  Cell(Value of) : value(std::move(of)) {}          // NOLINT: rows are lists of values
  Cell(int32_t of) : value(of) {}                   // NOLINT
  Cell(int64_t of) : value(of) {}                   // NOLINT
  Cell(bool of) : value(of) {}                      // NOLINT
  Cell(std::string of) : value(std::move(of)) {}    // NOLINT
  Cell(const char* of) : value(std::string(of)) {}  // NOLINT
  template <class T>
  Cell(const std::optional<T>& of) : value(of ? Value(*of) : Value()) {}  // NOLINT
  static Cell nested(std::vector<Cell> parts) {
    Cell cell;
    cell.parts = std::move(parts);
    return cell;
  }
};
using Row = std::vector<Cell>;

// Gathers rows of `schema`. One thread.
class BatchBuilder {
 public:
  explicit BatchBuilder(const Schema& schema);
  const std::shared_ptr<arrow::Schema>& arrow_schema() const { return arrow_schema_; }
  int64_t num_rows() const { return num_rows_; }
  // As many cells as columns. Throws internal for a value of another type than its column's.
  void add(const Row& row);
  std::shared_ptr<arrow::RecordBatch> finish();  // and starts anew

 private:
  Schema schema_;
  std::shared_ptr<arrow::Schema> arrow_schema_;
  std::vector<std::unique_ptr<arrow::ArrayBuilder>> builders_;
  int64_t num_rows_ = 0;
};

}  // namespace firn::iceberg
