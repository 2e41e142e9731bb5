// Rows as lines of JSON, spelled so that `hyp ingest` reads them back.
#pragma once

#include <cstdint>
#include <string>

#include <arrow/record_batch.h>

#include "iceberg/schema.h"

namespace firn::hyp {

// Of a row's columns; null fields of a struct are always written.
enum class NullColumns : uint8_t { written, left_out };

// Appends each row of `batch`, which has to_arrow_schema(schema), as one JSON object and '\n'. boolean, int and long as
// they are; float and double as the shortest number that reads back, NaN and the infinities as "NaN", "Infinity",
// "-Infinity"; decimal as a string with its scale's digits; date, time and timestamps as ISO 8601 strings, a
// timestamptz in UTC with 'Z'; uuid in text form; binary, fixed, geometry and geography in base64; a struct is an
// object, a list an array, a map an object where its keys are strings, else an array of [key, value]. Throws
// unsupported naming the column for a variant.
void append_json_lines(const arrow::RecordBatch& batch, const iceberg::Schema& schema, NullColumns nulls,
                       std::string& out);

}  // namespace firn::hyp
