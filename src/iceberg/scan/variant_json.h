// Variant values (Parquet's "Variant Binary Encoding") as JSON text.
#pragma once

#include <string>
#include <string_view>

namespace firn::iceberg {

// Appends {"t":physical type,"v":value}, as the conformance tables spell variants; null has no "v". Throws corrupt for
// bytes that break the encoding.
void append_variant_json(std::string_view metadata, std::string_view value, std::string& out);

}  // namespace firn::iceberg
