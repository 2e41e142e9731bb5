// Variants from the text that iceberg/scan/variant_json.h gives them.
#pragma once

#include <string>

#include "base/json.h"

namespace firn::cli {

struct VariantBytes {
  std::string metadata, value;  // Parquet's "Variant Binary Encoding"
};
// `json` is {"t": physical type, "v": value}. Throws invalid_argument saying what is wrong.
VariantBytes encode_variant(const Json& json);

}  // namespace firn::cli
