#include "hyp/capture/column_builder.h"

#include <algorithm>

#include "base/arrow_status.h"
#include "base/error.h"

namespace firn::hyp {
namespace {

using iceberg::TypeId;

// Bytes of one value in `values`; 0: bytes with offsets, or no values of its own.
int64_t value_width(const iceberg::Type& type) {
  switch (type.id()) {
    case TypeId::boolean_:
      return 1;
    case TypeId::int_:
    case TypeId::float_:
    case TypeId::date:
      return 4;
    case TypeId::long_:
    case TypeId::double_:
    case TypeId::time:
    case TypeId::timestamp:
    case TypeId::timestamptz:
    case TypeId::timestamp_ns:
    case TypeId::timestamptz_ns:
      return 8;
    case TypeId::decimal:
    case TypeId::uuid:
      return 16;
    case TypeId::fixed:
      return type.length();
    default:
      return 0;
  }
}

bool has_offsets(TypeId id) {
  return id == TypeId::string || id == TypeId::binary || id == TypeId::list || id == TypeId::map;
}

// `bytes` (0 or 1 each) as a bitmap, least significant bit first.
std::shared_ptr<arrow::Buffer> pack_bits(const ByteBuffer& bytes) {
  const int64_t count = bytes.size();
  std::shared_ptr<arrow::Buffer> bitmap = check(arrow::AllocateBuffer((count + 7) / 8), "allocate a bitmap");
  uint8_t* out = bitmap->mutable_data();
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + i, 8);
    // The products put byte k at bit 56 + k, without carries.
    *out++ = static_cast<uint8_t>((word * 0x0102040810204080) >> 56);
  }
  if (i < count) {
    uint8_t last = 0;
    for (int64_t k = i; k < count; ++k) last = static_cast<uint8_t>(last | bytes.data()[k] << (k - i));
    *out = last;
  }
  return bitmap;
}

}  // namespace

void ByteBuffer::grow(int64_t count) {
  const int64_t capacity = std::max({size_ + count, capacity_ * 2, int64_t{64}});
  if (buffer_ == nullptr) buffer_ = check(arrow::AllocateResizableBuffer(0), "allocate a column");
  check(buffer_->Resize(capacity, /*shrink_to_fit=*/false), "grow a column");
  data_ = buffer_->mutable_data();
  capacity_ = capacity;
}

std::shared_ptr<arrow::Buffer> ByteBuffer::finish() {
  if (buffer_ == nullptr) buffer_ = check(arrow::AllocateResizableBuffer(0), "allocate a column");
  check(buffer_->Resize(size_, /*shrink_to_fit=*/false), "finish a column");
  std::shared_ptr<arrow::Buffer> buffer = std::move(buffer_);
  *this = ByteBuffer();
  return buffer;
}

ColumnBuilder::ColumnBuilder(const iceberg::Field& field, const std::string& parent_path)
    : name(field.name),
      path(parent_path.empty() ? field.name : parent_path + "." + field.name),
      type(field.type),
      id(field.type->id()),
      required(field.required) {
  if (id == TypeId::variant || id == TypeId::geometry || id == TypeId::geography) {
    fail(ErrorKind::unsupported, "column \"{}\": rows of JSON cannot be captured as {}", path, type->to_string());
  }
  if (id == TypeId::map && type->key().type->id() != TypeId::string) {
    fail(ErrorKind::unsupported,
         "column \"{}\": maps are captured from JSON objects, so their keys must be string, not {}", path,
         type->key().type->to_string());
  }
  if (has_offsets(id)) offsets.push<int32_t>(0);
  if (type->is_nested()) {
    for (const iceberg::Field& child : type->fields()) children.push_back(std::make_unique<ColumnBuilder>(child, path));
  }
}

void ColumnBuilder::append_absent() {
  values.push_fill(0, value_width(*type));
  if (has_offsets(id)) offsets.push(offsets.at<int32_t>(length));
  if (id == TypeId::struct_) {
    for (auto& child : children) child->append_absent();
  }
  if (required) {
    mark_valid();
    return;
  }
  if (validity.size() == 0) validity.push_fill(1, length);
  validity.push<uint8_t>(0);
  ++length;
}

void ColumnBuilder::reserve(int64_t rows) {
  values.reserve(rows * value_width(*type));
  if (has_offsets(id)) offsets.reserve((rows + 1) * static_cast<int64_t>(sizeof(int32_t)));
  if (id == TypeId::struct_) {
    for (auto& child : children) child->reserve(rows);
  }
}

void ColumnBuilder::truncate(int64_t rows) {
  // A value that failed half-way has left bytes, items or fields beyond `length`, so everything is cut even where rows
  // == length.
  validity.truncate(std::min(validity.size(), rows));
  length = rows;
  if (has_offsets(id)) {
    offsets.truncate((rows + 1) * static_cast<int64_t>(sizeof(int32_t)));
    const int64_t items = offsets.at<int32_t>(rows);
    if (type->is_nested()) {
      for (auto& child : children) child->truncate(items);
    } else {
      values.truncate(items);
    }
  } else if (id == TypeId::struct_) {
    for (auto& child : children) child->truncate(rows);
  } else {
    values.truncate(rows * value_width(*type));
  }
}

std::shared_ptr<arrow::ArrayData> ColumnBuilder::finish(const std::shared_ptr<arrow::DataType>& arrow_type) {
  const int64_t num_nulls = std::count(validity.data(), validity.data() + validity.size(), uint8_t{0});
  if (id == TypeId::unknown) return arrow::ArrayData::Make(arrow_type, length, {nullptr}, length);
  std::shared_ptr<arrow::Buffer> bitmap = num_nulls > 0 ? pack_bits(validity) : nullptr;
  switch (id) {
    case TypeId::struct_: {
      std::vector<std::shared_ptr<arrow::ArrayData>> parts;
      for (size_t i = 0; i < children.size(); ++i) {
        parts.push_back(children[i]->finish(arrow_type->field(static_cast<int>(i))->type()));
      }
      return arrow::ArrayData::Make(arrow_type, length, {bitmap}, std::move(parts), num_nulls);
    }
    case TypeId::list: {
      auto element = children[0]->finish(arrow_type->field(0)->type());
      return arrow::ArrayData::Make(arrow_type, length, {bitmap, offsets.finish()}, {std::move(element)}, num_nulls);
    }
    case TypeId::map: {
      const std::shared_ptr<arrow::DataType>& entry_type = arrow_type->field(0)->type();
      const int64_t num_entries = children[0]->length;
      auto key = children[0]->finish(entry_type->field(0)->type());
      auto value = children[1]->finish(entry_type->field(1)->type());
      auto entries = arrow::ArrayData::Make(entry_type, num_entries, {nullptr}, {std::move(key), std::move(value)}, 0);
      return arrow::ArrayData::Make(arrow_type, length, {bitmap, offsets.finish()}, {std::move(entries)}, num_nulls);
    }
    case TypeId::string:
    case TypeId::binary:
      return arrow::ArrayData::Make(arrow_type, length, {bitmap, offsets.finish(), values.finish()}, num_nulls);
    case TypeId::boolean_:
      return arrow::ArrayData::Make(arrow_type, length, {bitmap, pack_bits(values)}, num_nulls);
    default:
      return arrow::ArrayData::Make(arrow_type, length, {bitmap, values.finish()}, num_nulls);
  }
}

}  // namespace firn::hyp
