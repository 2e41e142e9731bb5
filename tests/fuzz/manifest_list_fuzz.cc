// Manifest lists.
#include "fuzz.h"
#include "iceberg/manifest/manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return firn::fuzz::read_hostile(
      data, size, [](std::string_view bytes) { firn::iceberg::read_manifest_list(bytes, "fuzz.avro"); });
}
