// What a manifest says about a data file's columns (Iceberg spec, "Field-level Metrics and Statistics"): counts, sizes
// and bounds from the footer, and what a footer lacks (NaN counts, bounds of long strings) from the rows as they are
// written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <arrow/record_batch.h>
#include <parquet/metadata.h>

#include "iceberg/manifest/manifest.h"
#include "iceberg/metadata/metrics_mode.h"
#include "iceberg/parquet/parquet_schema.h"

namespace firn::iceberg {

// One file's. One thread.
class ColumnMetrics {
 public:
  // `modes` by leaf, in the order of leaf_columns(stored).
  ColumnMetrics(const Schema& stored, std::vector<MetricsMode> modes);

  void add(const arrow::RecordBatch& batch);  // columns of to_arrow_schema(stored)
  // Sets record count, sizes, counts, bounds and split offsets.
  void finish(const parquet::FileMetaData& footer, DataFile& file) const;

 private:
  // Least and greatest of the byte strings seen. The first eight bytes decide most comparisons.
  class ByteBounds {
   public:
    void add(const arrow::BinaryArray& values);
    const std::optional<std::string>& lower() const { return lower_; }
    const std::optional<std::string>& upper() const { return upper_; }

   private:
    std::optional<std::string> lower_, upper_;
    uint64_t lower_prefix_ = 0, upper_prefix_ = 0;
  };
  struct Leaf {
    LeafColumn column;
    MetricsMode mode;
    bool counts_nan = false, bounds_bytes = false;
    int64_t nan_count = 0;
    ByteBounds byte_bounds;
  };
  // A column, struct member, element, key or value with the leaves below it.
  struct Node {
    size_t first_leaf = 0, leaf_count = 0;
    bool watched = false;  // some leaf below is looked at row by row
    std::vector<Node> children;
  };

  Node make_node(const Type& type, size_t& next_leaf);
  void add(const Node& node, const arrow::Array& array);

  std::vector<Leaf> leaves_;
  std::vector<Node> columns_;
};

}  // namespace firn::iceberg
