#include "hyp/receiver/body_digest.h"

#define XXH_INLINE_ALL
#include <arrow/vendored/xxhash.h>

#include "base/hash.h"

namespace firn::hyp {

std::string body_digest(std::string_view body) {
  XXH128_canonical_t bytes;
  XXH128_canonicalFromHash(&bytes, XXH3_128bits(body.data(), body.size()));
  return to_hex({reinterpret_cast<const char*>(bytes.digest), sizeof bytes.digest});
}

}  // namespace firn::hyp
