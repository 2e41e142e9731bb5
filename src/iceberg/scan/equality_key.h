// Rows of equality deletes and of data files as bytes that are equal where the rows are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <arrow/record_batch.h>

#include "iceberg/schema.h"

namespace firn::iceberg {

// Encodes the columns `ids` (sorted) of batches whose columns are to_arrow_schema(schema). Null equals null alone
// (spec, "Equality Delete Files"); NaN equals NaN. Throws unsupported for a column that is no primitive.
class EqualityKeys {
 public:
  EqualityKeys(const arrow::RecordBatch& batch, const Schema& schema, const std::vector<int32_t>& ids);
  void append_key(int64_t row, std::string& out) const;

 private:
  std::vector<std::shared_ptr<arrow::Array>> columns_;
};

}  // namespace firn::iceberg
