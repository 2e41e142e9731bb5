// Puffin footers.
#include "iceberg/puffin/puffin.h"

#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return firn::fuzz::read_hostile(data, size, [](std::string_view bytes) {
    firn::iceberg::parse_puffin_footer(bytes, static_cast<int64_t>(bytes.size()), "fuzz.puffin");
  });
}
