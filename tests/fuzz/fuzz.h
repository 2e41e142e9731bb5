// What every fuzzer here has in common.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"

namespace firn::fuzz {

// Bytes that break a format give a firn::Error that names them; anything else that is thrown is a finding.
template <class Read>
int read_hostile(const uint8_t* data, size_t size, const Read& read) {
  try {
    read(std::string_view(reinterpret_cast<const char*>(data), size));
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::internal) throw;
  }
  return 0;
}

}  // namespace firn::fuzz
