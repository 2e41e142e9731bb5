// Columns of an Avro file: which field ids they hold, and their values as Arrow arrays.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <arrow/array.h>

#include "iceberg/avro/cursor.h"
#include "iceberg/parquet/file_columns.h"

namespace firn::iceberg {

// The fields of the record `root`, one a field and in order, with ids from "field-id", "element-id", "key-id" and
// "value-id", else from `mapping`. A record of a map's key and value ("logicalType": "map") is the map's, not a child
// of its own. Throws corrupt naming `where` if `root` is no record, unsupported if no column has an id and there is no
// mapping, and for unions of several types and schemas nested beyond reason.
std::vector<FileColumn> avro_file_columns(const avro::Node& root, const std::optional<NameMapping>& mapping,
                                          const std::string& where);

class AvroValueDecoder;  // one value of the writer's after another into a builder

// Decodes records of `root`: the selected ones of `columns`, as avro_file_columns gave them. `root` and `where` must
// outlive it.
class AvroRowDecoder {
 public:
  // Throws unsupported for types that Iceberg has no use for.
  AvroRowDecoder(const avro::Node& root, const std::vector<FileColumn>& columns, const std::string& where);
  ~AvroRowDecoder();

  void append(avro::Cursor& cursor);  // throws corrupt
  // The selected columns of the rows appended since the last call, in the file's order and as the file's types are:
  // timestamps in its units, a decimal with its precision. What array_adapter.h makes a table's columns of.
  arrow::ArrayVector finish();

  int64_t leaf_count() const { return leaf_count_; }            // of the columns selected
  int64_t row_width_bytes() const { return row_width_bytes_; }  // of their fixed parts, roughly

 private:
  struct Step {
    const avro::Node* node = nullptr;
    avro::Nullable value;
    std::unique_ptr<AvroValueDecoder> decoder;  // nullptr: read over
  };
  std::vector<Step> steps_;
  int64_t leaf_count_ = 0, row_width_bytes_ = 0;
};

}  // namespace firn::iceberg
