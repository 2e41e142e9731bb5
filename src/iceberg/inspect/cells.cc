#include "iceberg/inspect/cells.h"

#include "base/arrow_status.h"
#include "iceberg/parquet/arrow_schema.h"

namespace firn::iceberg {
namespace {

constexpr std::string_view kWhat = "a metadata table";

template <class T>
const T& value_of(const Value& value, const Type& type) {
  if (const T* held = std::get_if<T>(&value)) return *held;
  fail(ErrorKind::internal, "a metadata table has a value that is no {}", type.to_string());
}

// A value written before its column was promoted is one of the narrower type.
int64_t integer_of(const Value& value, const Type& type) {
  if (const auto* narrow = std::get_if<int32_t>(&value)) return *narrow;
  return value_of<int64_t>(value, type);
}

double real_of(const Value& value, const Type& type) {
  if (const auto* narrow = std::get_if<float>(&value)) return *narrow;
  return value_of<double>(value, type);
}

arrow::Status append(arrow::ArrayBuilder& builder, const Type& type, const Cell& cell);

arrow::Status append_primitive(arrow::ArrayBuilder& builder, const Type& type, const Value& value) {
  switch (builder.type()->id()) {
    case arrow::Type::BOOL:
      return static_cast<arrow::BooleanBuilder&>(builder).Append(value_of<bool>(value, type));
    case arrow::Type::INT32:
      return static_cast<arrow::Int32Builder&>(builder).Append(value_of<int32_t>(value, type));
    case arrow::Type::DATE32:
      return static_cast<arrow::Date32Builder&>(builder).Append(value_of<int32_t>(value, type));
    case arrow::Type::INT64:
      return static_cast<arrow::Int64Builder&>(builder).Append(integer_of(value, type));
    case arrow::Type::TIME64:
      return static_cast<arrow::Time64Builder&>(builder).Append(integer_of(value, type));
    case arrow::Type::TIMESTAMP:
      return static_cast<arrow::TimestampBuilder&>(builder).Append(integer_of(value, type));
    case arrow::Type::FLOAT:
      return static_cast<arrow::FloatBuilder&>(builder).Append(value_of<float>(value, type));
    case arrow::Type::DOUBLE:
      return static_cast<arrow::DoubleBuilder&>(builder).Append(real_of(value, type));
    case arrow::Type::DECIMAL128:
      return static_cast<arrow::Decimal128Builder&>(builder).Append(value_of<arrow::Decimal128>(value, type));
    case arrow::Type::STRING:
      return static_cast<arrow::StringBuilder&>(builder).Append(value_of<std::string>(value, type));
    case arrow::Type::BINARY:
      return static_cast<arrow::BinaryBuilder&>(builder).Append(value_of<std::string>(value, type));
    case arrow::Type::FIXED_SIZE_BINARY: {
      auto& fixed = static_cast<arrow::FixedSizeBinaryBuilder&>(builder);
      const std::string& bytes = value_of<std::string>(value, type);
      if (static_cast<int64_t>(bytes.size()) != fixed.byte_width())
        fail(ErrorKind::internal, "a metadata table has a {} of {} bytes", type.to_string(), bytes.size());
      return fixed.Append(bytes);
    }
    default:
      fail(ErrorKind::internal, "a metadata table has a value of type {}", type.to_string());
  }
}

arrow::Status append_struct(arrow::StructBuilder& builder, const Type& type, const std::vector<Cell>& parts) {
  ARROW_RETURN_NOT_OK(builder.Append());
  for (size_t i = 0; i < type.fields().size(); ++i) {
    const int child = static_cast<int>(i);
    ARROW_RETURN_NOT_OK(append(*builder.field_builder(child), *type.fields()[i].type, parts.at(i)));
  }
  return arrow::Status::OK();
}

arrow::Status append(arrow::ArrayBuilder& builder, const Type& type, const Cell& cell) {
  if (!type.is_nested())
    return is_null(cell.value) ? builder.AppendNull() : append_primitive(builder, type, cell.value);
  if (!cell.parts) return builder.AppendNull();
  if (type.id() == TypeId::struct_)
    return append_struct(static_cast<arrow::StructBuilder&>(builder), type, *cell.parts);
  if (type.id() == TypeId::list) {
    auto& list = static_cast<arrow::ListBuilder&>(builder);
    ARROW_RETURN_NOT_OK(list.Append());
    for (const Cell& element : *cell.parts)
      ARROW_RETURN_NOT_OK(append(*list.value_builder(), *type.element().type, element));
    return arrow::Status::OK();
  }
  auto& map = static_cast<arrow::MapBuilder&>(builder);
  ARROW_RETURN_NOT_OK(map.Append());
  for (size_t i = 0; i + 1 < cell.parts->size(); i += 2) {
    ARROW_RETURN_NOT_OK(append(*map.key_builder(), *type.key().type, (*cell.parts)[i]));
    ARROW_RETURN_NOT_OK(append(*map.item_builder(), *type.value().type, (*cell.parts)[i + 1]));
  }
  return arrow::Status::OK();
}

}  // namespace

BatchBuilder::BatchBuilder(const Schema& schema) : schema_(schema), arrow_schema_(to_arrow_schema(schema)) {
  for (const auto& field : arrow_schema_->fields())
    builders_.push_back(check(arrow::MakeBuilder(field->type()), kWhat));
}

void BatchBuilder::add(const Row& row) {
  for (size_t i = 0; i < builders_.size(); ++i)
    check(append(*builders_[i], *schema_.fields()[i].type, row.at(i)), kWhat);
  ++num_rows_;
}

std::shared_ptr<arrow::RecordBatch> BatchBuilder::finish() {
  std::vector<std::shared_ptr<arrow::Array>> columns;
  for (const auto& builder : builders_) columns.push_back(check(builder->Finish(), kWhat));
  const int64_t num_rows = num_rows_;
  num_rows_ = 0;
  return arrow::RecordBatch::Make(arrow_schema_, num_rows, std::move(columns));
}

}  // namespace firn::iceberg
