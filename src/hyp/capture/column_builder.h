// Arrow columns that grow row by row and can be cut back: a row that is rejected half-way leaves nothing behind, which
// Arrow's own builders cannot undo.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <arrow/array/data.h>
#include <arrow/buffer.h>

#include "iceberg/type.h"

namespace firn::hyp {

class ByteBuffer {
 public:
  template <class T>
  void push(T value) {
    if (capacity_ - size_ < static_cast<int64_t>(sizeof value)) [[unlikely]]
      grow(sizeof value);
    std::memcpy(data_ + size_, &value, sizeof value);
    size_ += sizeof value;
  }
  void push_bytes(std::string_view bytes) {
    const auto count = static_cast<int64_t>(bytes.size());
    if (capacity_ - size_ < count) [[unlikely]]
      grow(count);
    if (count > 0) std::memcpy(data_ + size_, bytes.data(), bytes.size());
    size_ += count;
  }
  void push_fill(uint8_t value, int64_t count) {
    if (capacity_ - size_ < count) grow(count);
    if (count > 0) std::memset(data_ + size_, value, static_cast<size_t>(count));
    size_ += count;
  }
  void reserve(int64_t capacity) {
    if (capacity > capacity_) grow(capacity - size_);
  }
  void truncate(int64_t size) { size_ = size; }
  int64_t size() const { return size_; }
  const uint8_t* data() const { return data_; }
  template <class T>
  T at(int64_t index) const {
    T value;
    std::memcpy(&value, data_ + index * static_cast<int64_t>(sizeof value), sizeof value);
    return value;
  }
  std::shared_ptr<arrow::Buffer> finish();

 private:
  void grow(int64_t count);

  std::shared_ptr<arrow::ResizableBuffer> buffer_;
  uint8_t* data_ = nullptr;
  int64_t size_ = 0;
  int64_t capacity_ = 0;
};

// One column and what is nested in it, laid out as Arrow's arrays are. One thread.
struct ColumnBuilder {
  // Throws unsupported naming the column for types that rows cannot hold.
  ColumnBuilder(const iceberg::Field& field, const std::string& parent_path);

  std::string name;
  std::string path;  // dotted, for messages
  iceberg::TypePtr type;
  iceberg::TypeId id;
  bool required;
  int64_t length = 0;
  ByteBuffer validity;                                   // a byte a row, empty while no row is null
  ByteBuffer values;                                     // fixed-width values, booleans as bytes, the bytes of strings
  ByteBuffer offsets;                                    // int32, length + 1 of them: strings, lists, maps
  std::vector<std::unique_ptr<ColumnBuilder>> children;  // fields; element; key and value

  void mark_valid() {
    if (validity.size() > 0) validity.push<uint8_t>(1);
    ++length;
  }
  template <class T>
  void append(T value) {
    values.push(value);
    mark_valid();
  }
  void append_bytes(std::string_view bytes) {
    values.push_bytes(bytes);
    end_bytes();
  }
  // After bytes were pushed to `values`, or items to the children.
  void end_bytes() {
    offsets.push(static_cast<int32_t>(values.size()));
    mark_valid();
  }
  void end_items() {
    offsets.push(static_cast<int32_t>(children.front()->length));
    mark_valid();
  }
  // Null, or where the column is required (below a null struct) a value that nobody sees.
  void append_absent();
  void reserve(int64_t rows);
  void truncate(int64_t rows);
  std::shared_ptr<arrow::ArrayData> finish(const std::shared_ptr<arrow::DataType>& arrow_type);
};

}  // namespace firn::hyp
