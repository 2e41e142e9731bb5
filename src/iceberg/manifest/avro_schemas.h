// The Avro schemas that manifests and manifest lists are written with (Iceberg spec, "Manifests", "Manifest Lists";
// Appendix A). Internal to manifest/.
#pragma once

#include <string>

#include "iceberg/type.h"

namespace firn::iceberg {

// `partition_type` is a struct of primitives with the spec's field ids.
std::string manifest_avro_schema(const Type& partition_type, int32_t format_version);
std::string manifest_list_avro_schema(int32_t format_version);

// Bytes of the fixed that holds a decimal of `precision`: the least whose two's complement has room for it.
int32_t decimal_size_bytes(int32_t precision);

}  // namespace firn::iceberg
