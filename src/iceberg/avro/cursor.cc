#include "iceberg/avro/cursor.h"

#include "base/error.h"

namespace firn::iceberg::avro {

namespace {
constexpr int kValueDepthMax = 128;
}

void Cursor::fail_corrupt(std::string_view what) const {
  fail(ErrorKind::corrupt, "{}: the Avro data hold {}; the file is damaged", where_, what);
}

void Cursor::fail_truncated() const {
  fail(ErrorKind::corrupt, "{}: the Avro data end within a value; the file is damaged", where_);
}

void Cursor::skip(const Node& node, int depth) {
  if (node.is_empty) return;
  if (depth > kValueDepthMax) fail_corrupt("values nested too deeply");
  switch (node.kind) {
    case Kind::null:
      return;
    case Kind::boolean:
      take(1);
      return;
    case Kind::int_:
    case Kind::long_:
    case Kind::enum_:
      read_long();
      return;
    case Kind::float_:
      take(4);
      return;
    case Kind::double_:
      take(8);
      return;
    case Kind::bytes:
    case Kind::string:
      read_bytes();
      return;
    case Kind::fixed:
      read_fixed(node.size);
      return;
    case Kind::record:
      for (const RecordField& field : node.fields) skip(*field.type, depth + 1);
      return;
    case Kind::array:
    case Kind::map:
      skip_items(node, depth);
      return;
    case Kind::union_: {
      const int64_t branch = read_long();
      if (branch < 0 || branch >= static_cast<int64_t>(node.branches.size()))
        fail_corrupt("a union branch that its schema lacks");
      skip(*node.branches[static_cast<size_t>(branch)], depth + 1);
      return;
    }
  }
}

void Cursor::skip_items(const Node& node, int depth) {
  while (true) {
    const int64_t count = read_long();
    if (count == 0) return;
    if (count < 0) {  // the block's size follows
      read_fixed(read_long());
      continue;
    }
    const bool is_map = node.kind == Kind::map;
    if (node.items->is_empty && !is_map) continue;
    if (static_cast<uint64_t>(count) > remaining()) fail_corrupt("a count beyond the end of the data");
    if (!is_map && node.items->varint_count > 0) {
      skip_varints(static_cast<uint64_t>(count) * static_cast<uint64_t>(node.items->varint_count));
      continue;
    }
    for (int64_t i = 0; i < count; ++i) {
      if (is_map) read_bytes();
      skip(*node.items, depth + 1);
    }
  }
}

// Counts the bytes that end one; most of a manifest's statistics are such numbers.
void Cursor::skip_varints(uint64_t count) {
  const char* at = at_;
  while (count > 0) {
    if (at == end_) fail_truncated();
    count -= static_cast<uint8_t>(*at++) < 0x80 ? 1 : 0;
  }
  at_ = at;
}

}  // namespace firn::iceberg::avro
