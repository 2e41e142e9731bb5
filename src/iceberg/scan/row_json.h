// Rows as JSON text, spelled as the conformance tables' manifest.json says under `encoding`.
#pragma once

#include <string>

#include <arrow/record_batch.h>

#include "iceberg/schema.h"

namespace firn::iceberg {

// Appends row `index` of `batch` (columns as to_arrow_schema(schema)) as one JSON object without spaces. Throws corrupt
// for a variant that breaks its encoding.
void append_row_json(const arrow::RecordBatch& batch, const Schema& schema, int64_t index, std::string& out);
// Appends value `index` of `array`, which has to_arrow_type(type), spelled as in such a row.
void append_value_json(const arrow::Array& array, const Type& type, int64_t index, std::string& out);

}  // namespace firn::iceberg
