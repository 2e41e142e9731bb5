// Table metadata: what parses is written and parses again to the same bytes.
#include "iceberg/metadata/table_metadata.h"

#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace firn::iceberg;
  return firn::fuzz::read_hostile(data, size, [](std::string_view bytes) {
    const TableMetadata metadata = parse_table_metadata(bytes, "fuzz.metadata.json");
    if (metadata.format_version < 2) return;
    const std::string written = serialize_table_metadata(metadata);
    if (serialize_table_metadata(parse_table_metadata(written, "written.metadata.json")) != written) __builtin_trap();
  });
}
