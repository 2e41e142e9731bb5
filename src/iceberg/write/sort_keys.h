// Sort orders as byte strings: rows compare as their keys' bytes do.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <arrow/record_batch.h>

#include "iceberg/transform.h"

namespace firn::iceberg {

// The keys of a batch's rows, one after another.
class SortKeys {
 public:
  std::string_view operator[](size_t row) const {
    return std::string_view(bytes_).substr(offsets_[row], offsets_[row + 1] - offsets_[row]);
  }
  size_t size() const { return offsets_.size() - 1; }
  int64_t memory_bytes() const {
    return static_cast<int64_t>(bytes_.capacity() + offsets_.capacity() * sizeof(size_t));
  }

 private:
  friend class SortKeyEncoder;
  std::string bytes_;
  std::vector<size_t> offsets_ = {0};
};

// Within a field: nulls as the order says; -0.0 below 0.0, NaN above every number whatever its bits, strings and bytes
// by unsigned byte; a descending field is all that turned round, nulls aside (Iceberg spec, "Sorting").
class SortKeyEncoder {
 public:
  // Throws unsupported for a transform that firn does not know.
  SortKeyEncoder(const SortOrder& order, const Schema& schema);

  // `partitions`, if not null, come before all else: one number a row.
  SortKeys encode(const arrow::RecordBatch& batch, const std::vector<uint32_t>* partitions) const;

 private:
  struct Part {
    Transform transform;
    TypePtr source, result;
    int32_t source_id = 0;
    bool ascending = true, nulls_first = true;
  };
  Schema schema_;
  std::vector<Part> parts_;
};

}  // namespace firn::iceberg
