// Avro's binary encoding, appended to a string (Avro 1.11 spec, "Binary Encoding").
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace firn::iceberg::avro {

inline void put_long(std::string& out, int64_t value) {  // also int, enum, union branch, count
  uint64_t zigzag = (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
  while (zigzag > 0x7f) {
    out.push_back(static_cast<char>(zigzag | 0x80));
    zigzag >>= 7;
  }
  out.push_back(static_cast<char>(zigzag));
}

inline void put_boolean(std::string& out, bool value) { out.push_back(value ? '\1' : '\0'); }

inline void put_bytes(std::string& out, std::string_view value) {  // also string
  put_long(out, static_cast<int64_t>(value.size()));
  out.append(value);
}

template <class Float>
void put_floating(std::string& out, Float value) {  // float or double
  char bytes[sizeof(Float)];
  std::memcpy(bytes, &value, sizeof(Float));
  out.append(bytes, sizeof(Float));
}

}  // namespace firn::iceberg::avro
