// Values of query results as text.
#pragma once

#include <cstdint>
#include <string>

#include <arrow/array.h>

namespace firn::hyp {

// As JSON: numbers as numbers, decimals with all their digits (NaN and the infinities, which JSON lacks, as strings),
// dates and times as ISO 8601 strings with a space between date and time as SQL has it, binary as hex, structs as
// objects, lists as arrays, maps as objects of their keys' text.
void append_cell_json(const arrow::Array& array, int64_t row, std::string& out);

// As a cell of a table or of CSV: the JSON form without quotes; null is empty.
std::string cell_text(const arrow::Array& array, int64_t row);

}  // namespace firn::hyp
