// The rows of a batch, those of one partition next to each other.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <arrow/record_batch.h>

namespace firn::iceberg {

struct GroupedRows {
  struct Group {  // rows [first, first + count) have this key
    uint32_t key = 0;
    int64_t first = 0, count = 0;
  };
  std::shared_ptr<arrow::RecordBatch> rows;
  std::vector<Group> groups;  // by key, none empty
};

// The rows of `batch` (fewer than 2^31) by keys[row], which are below `key_count`; rows of a key keep their order.
// Columns are copied on up to `threads` threads.
GroupedRows group_rows(const arrow::RecordBatch& batch, const std::vector<uint32_t>& keys, size_t key_count,
                       int threads);

}  // namespace firn::iceberg
