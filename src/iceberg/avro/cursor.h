// Decoding of Avro's binary encoding (Avro 1.11 spec, "Binary Encoding") out of one block. Every read is checked
// against the block's end, and no length or count in the bytes leads to an allocation.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "iceberg/avro/writer_schema.h"

namespace firn::iceberg::avro {

// Reads forward over bytes that outlive it. Every member throws corrupt, naming `where`, when the bytes end too early
// or are ill-formed; it is of no use then.
class Cursor {
 public:
  Cursor(std::string_view bytes, std::string_view where)
      : at_(bytes.data()), end_(bytes.data() + bytes.size()), where_(where) {}

  size_t remaining() const { return static_cast<size_t>(end_ - at_); }
  std::string_view where() const { return where_; }

  int64_t read_long() {
    uint64_t zigzag = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at_ == end_) [[unlikely]]
        fail_truncated();
      const auto byte = static_cast<uint8_t>(*at_++);
      zigzag |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if ((byte & 0x80) == 0) return static_cast<int64_t>((zigzag >> 1) ^ (~(zigzag & 1) + 1));
    }
    fail_corrupt("a number of more than 10 bytes");
  }

  int32_t read_int() {
    const int64_t value = read_long();
    if (value != static_cast<int32_t>(value)) [[unlikely]]
      fail_corrupt("an int beyond 32 bits");
    return static_cast<int32_t>(value);
  }

  bool read_boolean() { return *take(1) != 0; }
  float read_float() { return std::bit_cast<float>(read_little_endian<uint32_t>()); }
  double read_double() { return std::bit_cast<double>(read_little_endian<uint64_t>()); }

  // Bytes or a string; a view into the block.
  std::string_view read_bytes() { return read_fixed(read_long()); }
  std::string_view read_fixed(int64_t size) {
    if (size < 0) [[unlikely]]
      fail_corrupt("a negative length");
    return {take(static_cast<uint64_t>(size)), static_cast<size_t>(size)};
  }

  // Whether a value follows; reads the union's branch where there is one.
  bool enter(const Nullable& nullable) {
    if (nullable.branch_count == 0) return nullable.value != nullptr;
    const int64_t branch = read_long();
    if (branch < 0 || branch >= nullable.branch_count) [[unlikely]]
      fail_corrupt("a union branch that its schema lacks");
    return branch == nullable.value_branch;
  }

  // The number of items in an array's or map's next block, 0 at its end. `items` is what each holds.
  int64_t next_item_count(const Node& items) {
    int64_t count = read_long();
    if (count < 0) {
      read_long();  // the block's size in bytes, which only a skip needs
      if (count == INT64_MIN) fail_corrupt("a negative count");
      count = -count;
    }
    // Keys and all items but empty ones take a byte each, so that no count makes for more work than there are bytes.
    if (!items.is_empty && static_cast<uint64_t>(count) > remaining()) [[unlikely]]
      fail_corrupt("a count beyond the end of the data");
    return count;
  }

  // Reads over one value of `node`.
  void skip(const Node& node) { skip(node, 0); }

  [[noreturn]] void fail_corrupt(std::string_view what) const;

 private:
  [[noreturn]] void fail_truncated() const;
  void skip(const Node& node, int depth);
  void skip_items(const Node& node, int depth);
  void skip_varints(uint64_t count);

  const char* take(uint64_t size) {
    if (size > remaining()) [[unlikely]]
      fail_truncated();
    const char* taken = at_;
    at_ += size;
    return taken;
  }

  template <class T>
  T read_little_endian() {
    static_assert(std::endian::native == std::endian::little);
    T value;
    std::memcpy(&value, take(sizeof(T)), sizeof(T));
    return value;
  }

  const char* at_;
  const char* end_;
  std::string_view where_;
};

}  // namespace firn::iceberg::avro
