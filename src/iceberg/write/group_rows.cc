#include "iceberg/write/group_rows.h"

#include <algorithm>
#include <cstring>

#include <arrow/array.h>
#include <arrow/compute/api_vector.h>
#include <arrow/type_traits.h>
#include <arrow/util/bit_util.h>

#include "base/arrow_status.h"
#include "base/parallel.h"

namespace firn::iceberg {

namespace {

// Where each row goes. Rows are read in their order, which the processor foresees, and written to as many places as
// there are keys, each of which goes forward: collecting the rows of one key after another would wait for memory at
// every row.
using Places = std::vector<uint32_t>;

std::shared_ptr<arrow::Buffer> allocate(int64_t bytes) { return check(arrow::AllocateBuffer(bytes), "group rows"); }

template <class T>
void scatter(const uint8_t* from, const Places& places, uint8_t* to) {
  const T* const in = reinterpret_cast<const T*>(from);
  T* const out = reinterpret_cast<T*>(to);
  for (size_t row = 0; row < places.size(); ++row) out[places[row]] = in[row];
}

struct Bytes16 {
  uint64_t words[2];
};

std::shared_ptr<arrow::Buffer> group_fixed(const uint8_t* values, size_t width, const Places& places) {
  std::shared_ptr<arrow::Buffer> result = allocate(static_cast<int64_t>(places.size() * width));
  uint8_t* const out = result->mutable_data();
  switch (width) {
    case 4:
      scatter<uint32_t>(values, places, out);
      break;
    case 8:
      scatter<uint64_t>(values, places, out);
      break;
    case 16:
      scatter<Bytes16>(values, places, out);
      break;
    default:
      for (size_t row = 0; row < places.size(); ++row)
        std::memcpy(out + places[row] * width, values + row * width, width);
  }
  return result;
}

// Offsets and bytes.
std::vector<std::shared_ptr<arrow::Buffer>> group_bytes(const arrow::BinaryArray& array, const Places& places) {
  const int32_t* const offsets = array.raw_value_offsets();
  const int64_t rows = array.length();
  std::shared_ptr<arrow::Buffer> offsets_buffer = allocate((rows + 1) * static_cast<int64_t>(sizeof(int32_t)));
  auto* const out_offsets = reinterpret_cast<int32_t*>(offsets_buffer->mutable_data());
  out_offsets[0] = 0;
  for (int64_t row = 0; row < rows; ++row) out_offsets[places[row] + 1] = offsets[row + 1] - offsets[row];
  for (int64_t place = 0; place < rows; ++place) out_offsets[place + 1] += out_offsets[place];
  std::shared_ptr<arrow::Buffer> bytes = allocate(out_offsets[rows]);
  const uint8_t* const in = array.value_data() ? array.value_data()->data() : nullptr;
  uint8_t* const out = bytes->mutable_data();
  for (int64_t row = 0; row < rows; ++row) {
    const int32_t size = offsets[row + 1] - offsets[row];
    if (size > 0) std::memcpy(out + out_offsets[places[row]], in + offsets[row], static_cast<size_t>(size));
  }
  return {std::move(offsets_buffer), std::move(bytes)};
}

std::shared_ptr<arrow::Buffer> group_validity(const arrow::Array& array, const Places& places) {
  if (array.null_count() == 0) return nullptr;
  std::shared_ptr<arrow::Buffer> bits = check(arrow::AllocateEmptyBitmap(array.length()), "group rows");
  for (size_t row = 0; row < places.size(); ++row) {
    if (array.IsValid(static_cast<int64_t>(row))) arrow::bit_util::SetBit(bits->mutable_data(), places[row]);
  }
  return bits;
}

std::shared_ptr<arrow::Array> group_by_take(const std::shared_ptr<arrow::Array>& array, const Places& places) {
  std::vector<uint32_t> order(places.size());
  for (size_t row = 0; row < places.size(); ++row) order[places[row]] = static_cast<uint32_t>(row);
  const arrow::UInt32Array indices(array->length(), arrow::Buffer::Wrap(order.data(), order.size()));
  return check(arrow::compute::Take(*array, indices, arrow::compute::TakeOptions::NoBoundsCheck()), "group rows");
}

std::shared_ptr<arrow::Array> group_column(const std::shared_ptr<arrow::Array>& array, const Places& places) {
  const arrow::Type::type id = array->type_id();
  const bool is_fixed = arrow::is_fixed_width(id) && id != arrow::Type::BOOL && id != arrow::Type::DICTIONARY;
  const bool is_bytes = id == arrow::Type::STRING || id == arrow::Type::BINARY;
  if (!is_fixed && !is_bytes) return group_by_take(array, places);
  std::vector<std::shared_ptr<arrow::Buffer>> buffers = {group_validity(*array, places)};
  if (is_bytes) {
    for (auto& buffer : group_bytes(static_cast<const arrow::BinaryArray&>(*array), places))
      buffers.push_back(std::move(buffer));
  } else {
    const auto width = static_cast<size_t>(array->type()->byte_width());
    const uint8_t* values = array->data()->GetValues<uint8_t>(1, array->offset() * static_cast<int64_t>(width));
    buffers.push_back(group_fixed(values, width, places));
  }
  return arrow::MakeArray(
      arrow::ArrayData::Make(array->type(), array->length(), std::move(buffers), array->null_count()));
}

}  // namespace

GroupedRows group_rows(const arrow::RecordBatch& batch, const std::vector<uint32_t>& keys, size_t key_count,
                       int threads) {
  std::vector<uint32_t> next(key_count, 0);  // first the count of a key, then the place of its next row
  for (const uint32_t key : keys) ++next[key];
  GroupedRows result;
  uint32_t first = 0;
  for (uint32_t key = 0; key < key_count; ++key) {
    const uint32_t count = next[key];
    if (count > 0) result.groups.push_back({.key = key, .first = first, .count = count});
    next[key] = first;
    first += count;
  }
  Places places(keys.size());
  for (size_t row = 0; row < keys.size(); ++row) places[row] = next[keys[row]]++;
  arrow::ArrayVector columns(static_cast<size_t>(batch.num_columns()));
  parallel_for(columns.size(), threads,
               [&](size_t i) { columns[i] = group_column(batch.column(static_cast<int>(i)), places); });
  result.rows = arrow::RecordBatch::Make(batch.schema(), batch.num_rows(), std::move(columns));
  return result;
}

}  // namespace firn::iceberg
