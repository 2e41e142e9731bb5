#include "iceberg/write/file_pages.h"

#include <algorithm>
#include <string>

namespace firn::iceberg {

TableMetadata with_pages_for(TableMetadata metadata, int64_t file_bytes) {
  const auto limit = [&](const char* property, int64_t standard, int64_t bytes_max) {
    const int64_t bytes = metadata.int_property(property, standard);
    if (bytes > bytes_max) metadata.properties[property] = std::to_string(std::max<int64_t>(bytes_max, 4 << 10));
  };
  limit("write.parquet.page-size-bytes", 1 << 20, file_bytes / 64);
  limit("write.parquet.dict-size-bytes", 2 << 20, file_bytes / 32);
  return metadata;
}

}  // namespace firn::iceberg
