// The source rows of a merge: sorted by key, on disk, read key range by key range. Internal to rows/.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "iceberg/rows/rows.h"
#include "iceberg/write/sort_keys.h"
#include "iceberg/write/spill_file.h"

namespace firn::iceberg {

// Rows' values in the key columns.
struct RowKeys {
  SortKeys keys;               // equal bytes where the values are equal (NaN to NaN, -0.0 to 0.0), in the values' order
  std::vector<bool> has_null;  // such a key equals none
};

class KeyEncoder {
 public:
  // Throws invalid_argument naming a column that cannot be a key.
  KeyEncoder(const Schema& schema, std::vector<int32_t> key_ids);
  const std::vector<int32_t>& ids() const { return ids_; }
  const Schema& columns() const { return columns_; }  // one flat column a key
  // Of a batch with to_arrow_schema(schema), a schema that has the key columns.
  RowKeys encode(const arrow::RecordBatch& batch, const Schema& schema) const;
  // The bytes that the keys of rows with `value` in the first key column begin with.
  std::string first_column_key(const Value& value) const;
  std::string to_display(const arrow::RecordBatch& batch, const Schema& schema,
                         int64_t row) const;  // "id = 1, name = x"

 private:
  std::vector<std::shared_ptr<arrow::Array>> arrays(const arrow::RecordBatch& batch, const Schema& schema) const;

  std::vector<int32_t> ids_;
  Schema columns_;
  SortKeyEncoder encoder_;
};

// What a set of keys says about the rows that may have one: for planning.
class KeyRange {
 public:
  explicit KeyRange(const KeyEncoder& keys);
  // Rows with a null key aside.
  void add(const arrow::RecordBatch& batch, const Schema& schema, const std::vector<bool>& has_null);
  bool empty() const { return empty_; }
  // Unbound, exact names; true for every row with one of the keys. nullptr: nothing is known.
  ExpressionPtr filter(const Schema& table_schema) const;

 private:
  struct Less {
    bool operator()(const Value& a, const Value& b) const { return compare(a, b) < 0; }
  };
  struct Column {
    int32_t id = 0;
    TypePtr type;
    std::optional<std::set<Value, Less>> values;  // nullopt: too many
    Value lowest, highest;
    bool has_nan = false;
  };
  std::vector<Column> columns_;
  bool empty_ = true;
};

// One range of the sorted source, in memory, with an index over its keys.
class SourceRange {
 public:
  SourceRange(const KeyEncoder& encoder, const Schema& schema, std::shared_ptr<arrow::RecordBatch> rows);
  const std::shared_ptr<arrow::RecordBatch>& rows() const { return rows_; }
  bool deletes(int64_t row) const;
  const KeyRange& range() const { return range_; }
  std::optional<uint32_t> find(std::string_view key) const;
  // False proves that no key's first column lies between the two (as KeyEncoder::first_column_key has them).
  bool may_hold_between(std::string_view lowest, std::string_view highest) const;

 private:
  std::shared_ptr<arrow::RecordBatch> rows_;  // the source's columns, then whether the row deletes
  RowKeys keys_;
  KeyRange range_;
  std::vector<uint32_t> slots_;  // row + 1, by hash; 0: free
};

// Reads all of `rows`, once; then gives ranges any number of times. Throws invalid_argument for a key that two rows
// have, naming it; schema_mismatch for columns that are not the table's.
class MergeSource {
 public:
  MergeSource(const TableMetadata& base, arrow::RecordBatchReader& rows, const MergeOptions& options);
  const Schema& schema() const { return schema_; }  // the table's columns that the source has, in the table's order
  const KeyEncoder& keys() const { return *keys_; }
  const KeyRange& range() const { return *range_; }  // of all keys
  int64_t num_rows() const { return num_rows_; }

  // Calls back with one range after another, each of at most about `size_bytes_max`.
  void for_each_range(int64_t size_bytes_max, const std::function<void(const SourceRange&)>& visit) const;

 private:
  void spill(const std::shared_ptr<arrow::RecordBatch>& sorted);

  Schema schema_;
  std::string table_;
  std::unique_ptr<KeyEncoder> keys_;
  std::unique_ptr<KeyRange> range_;
  std::unique_ptr<SpillFile> file_;
  std::optional<std::string> last_key_;  // of the rows spilled
  int64_t num_rows_ = 0;
};

}  // namespace firn::iceberg
