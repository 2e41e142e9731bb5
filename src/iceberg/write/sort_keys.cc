#include "iceberg/write/sort_keys.h"

#include <bit>
#include <cmath>
#include <limits>

#include <arrow/array.h>

#include "base/error.h"
#include "iceberg/write/array_values.h"

namespace firn::iceberg {

namespace {

template <class Unsigned>
void append_big_endian(std::string& out, Unsigned value) {
  char bytes[sizeof(value)];
  for (size_t i = 0; i < sizeof(value); ++i) bytes[i] = static_cast<char>(value >> (8 * (sizeof(value) - 1 - i)));
  out.append(bytes, sizeof(value));
}

void append_int32(std::string& out, int32_t value) {
  append_big_endian(out, static_cast<uint32_t>(value) ^ (1U << 31));
}
void append_int64(std::string& out, int64_t value) {
  append_big_endian(out, static_cast<uint64_t>(value) ^ (1ULL << 63));
}

// IEEE 754 bits order as integers once negative ones are turned round.
void append_float(std::string& out, float value) {
  if (std::isnan(value)) value = std::numeric_limits<float>::quiet_NaN();
  const auto bits = std::bit_cast<uint32_t>(value);
  append_big_endian(out, (bits >> 31) != 0 ? ~bits : bits | (1U << 31));
}
void append_double(std::string& out, double value) {
  if (std::isnan(value)) value = std::numeric_limits<double>::quiet_NaN();
  const auto bits = std::bit_cast<uint64_t>(value);
  append_big_endian(out, (bits >> 63) != 0 ? ~bits : bits | (1ULL << 63));
}

// Ends in 00 00, and a 00 within becomes 00 FF, so that a prefix sorts first and no key runs into the next field.
void append_bytes(std::string& out, std::string_view value) {
  for (char c : value) {
    out.push_back(c);
    if (c == '\0') out.push_back('\xff');
  }
  out.append(2, '\0');
}

void append_decimal(std::string& out, const arrow::Decimal128& value) {
  append_int64(out, value.high_bits());
  append_big_endian(out, value.low_bits());
}

void append_value(std::string& out, const Value& value) {
  std::visit(
      [&](const auto& v) {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, bool>)
          out.push_back(v ? 1 : 0);
        else if constexpr (std::is_same_v<T, int32_t>)
          append_int32(out, v);
        else if constexpr (std::is_same_v<T, int64_t>)
          append_int64(out, v);
        else if constexpr (std::is_same_v<T, float>)
          append_float(out, v);
        else if constexpr (std::is_same_v<T, double>)
          append_double(out, v);
        else if constexpr (std::is_same_v<T, arrow::Decimal128>)
          append_decimal(out, v);
        else if constexpr (std::is_same_v<T, std::string>)
          append_bytes(out, v);
        else
          fail(ErrorKind::internal, "a nested value has no order");
      },
      value);
}

// append_value(value_at(row)) without the Value in between.
void append_row(std::string& out, const arrow::Array& array, const Type& type, int64_t row) {
  switch (array.type_id()) {
    case arrow::Type::INT32:
    case arrow::Type::DATE32:
      return append_int32(out, array.data()->GetValues<int32_t>(1)[row]);
    case arrow::Type::INT64:
    case arrow::Type::TIME64:
    case arrow::Type::TIMESTAMP:
      return append_int64(out, array.data()->GetValues<int64_t>(1)[row]);
    case arrow::Type::STRING:
    case arrow::Type::BINARY:
      return append_bytes(out, static_cast<const arrow::BinaryArray&>(array).GetView(row));
    default:
      append_value(out, value_at(array, type, row));
  }
}

}  // namespace

SortKeyEncoder::SortKeyEncoder(const SortOrder& order, const Schema& schema) : schema_(schema) {
  for (const SortField& field : order.fields) {
    if (field.transform.kind == TransformKind::void_) continue;
    const Field* source = field.source_ids.size() == 1 ? schema.find_field(field.source_id()) : nullptr;
    if (source == nullptr || field.transform.kind == TransformKind::unknown)
      fail(ErrorKind::unsupported, "sort order {}: firn cannot sort by the transform {} of its columns", order.order_id,
           field.transform.name);
    parts_.push_back({.transform = field.transform,
                      .source = source->type,
                      .result = result_type(field.transform, source->type),
                      .source_id = field.source_id(),
                      .ascending = field.ascending,
                      .nulls_first = field.nulls_first});
  }
}

SortKeys SortKeyEncoder::encode(const arrow::RecordBatch& batch, const std::vector<uint32_t>* partitions) const {
  std::vector<std::shared_ptr<arrow::Array>> arrays;
  for (const Part& part : parts_) arrays.push_back(array_of(batch, schema_, part.source_id));
  SortKeys keys;
  std::string& out = keys.bytes_;
  keys.offsets_.reserve(static_cast<size_t>(batch.num_rows()) + 1);
  for (int64_t row = 0; row < batch.num_rows(); ++row) {
    if (partitions != nullptr) append_big_endian(out, (*partitions)[static_cast<size_t>(row)]);
    for (size_t i = 0; i < parts_.size(); ++i) {
      const Part& part = parts_[i];
      const arrow::Array& array = *arrays[i];
      if (array.IsNull(row)) {
        out.push_back(part.nulls_first ? '\0' : '\2');
        continue;
      }
      out.push_back('\1');
      const size_t begin = out.size();
      if (part.transform.kind == TransformKind::identity) {
        append_row(out, array, *part.source, row);
      } else {
        append_value(out, apply(part.transform, value_at(array, *part.source, row), *part.source));
      }
      if (!part.ascending) {
        for (size_t at = begin; at < out.size(); ++at) out[at] = static_cast<char>(~out[at]);
      }
    }
    keys.offsets_.push_back(out.size());
  }
  return keys;
}

}  // namespace firn::iceberg
