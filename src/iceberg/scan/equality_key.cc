#include "iceberg/scan/equality_key.h"

#include <cmath>
#include <limits>

#include "base/error.h"
#include "iceberg/scan/projection.h"

namespace firn::iceberg {

namespace {

template <class T>
void append_float_key(T value, std::string& out) {
  if (std::isnan(value)) value = std::numeric_limits<T>::quiet_NaN();  // one NaN for all
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void append_bytes(std::string_view bytes, std::string& out) {
  const uint64_t size = bytes.size();
  out.append(reinterpret_cast<const char*>(&size), sizeof(size));
  out += bytes;
}

bool is_encodable(const arrow::DataType& type) {
  switch (type.id()) {
    case arrow::Type::BOOL:
    case arrow::Type::FLOAT:
    case arrow::Type::DOUBLE:
    case arrow::Type::STRING:
    case arrow::Type::BINARY:
    case arrow::Type::INT32:
    case arrow::Type::DATE32:
    case arrow::Type::INT64:
    case arrow::Type::TIME64:
    case arrow::Type::TIMESTAMP:
    case arrow::Type::FIXED_SIZE_BINARY:
    case arrow::Type::DECIMAL128:
    case arrow::Type::NA:
      return true;
    default:
      return false;
  }
}

}  // namespace

EqualityKeys::EqualityKeys(const arrow::RecordBatch& batch, const Schema& schema, const std::vector<int32_t>& ids) {
  for (const int32_t id : ids) {
    std::vector<int32_t> path = schema.path_to(id);
    if (path.empty()) fail(ErrorKind::internal, "equality column {} was not read", id);
    size_t index = 0;
    while (schema.fields()[index].id != path.front()) ++index;
    path.erase(path.begin());
    columns_.push_back(nested_array(batch.column(static_cast<int>(index)), *schema.fields()[index].type, path));
    if (!is_encodable(*columns_.back()->type())) {
      fail(ErrorKind::unsupported, "equality deletes by column {} of type {}", schema.full_name(id),
           schema.find_field(id)->type->to_string());
    }
  }
}

void EqualityKeys::append_key(int64_t row, std::string& out) const {
  for (const auto& column : columns_) {
    if (column->IsNull(row)) {
      out.push_back('\0');
      continue;
    }
    out.push_back('\1');
    switch (column->type_id()) {
      case arrow::Type::BOOL:
        out.push_back(static_cast<const arrow::BooleanArray&>(*column).Value(row) ? '\1' : '\0');
        break;
      case arrow::Type::FLOAT:
        append_float_key(static_cast<const arrow::FloatArray&>(*column).Value(row), out);
        break;
      case arrow::Type::DOUBLE:
        append_float_key(static_cast<const arrow::DoubleArray&>(*column).Value(row), out);
        break;
      case arrow::Type::STRING:
      case arrow::Type::BINARY:
        append_bytes(static_cast<const arrow::BinaryArray&>(*column).GetView(row), out);
        break;
      default: {  // fixed width, equal where the bytes are
        const auto& array = static_cast<const arrow::PrimitiveArray&>(*column);
        const int width = static_cast<const arrow::FixedWidthType&>(*column->type()).bit_width() / 8;
        out.append(reinterpret_cast<const char*>(array.values()->data()) + (column->offset() + row) * width, width);
      }
    }
  }
}

}  // namespace firn::iceberg
