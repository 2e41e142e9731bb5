// In a file named *_test.cc because those are the sources of a test program.
#include "iceberg/expr/rows.h"

#include <arrow/api.h>

#include "base/arrow_status.h"

namespace firn::iceberg {
namespace {

std::shared_ptr<arrow::Field> arrow_field(const std::string& name, int32_t id, std::shared_ptr<arrow::DataType> type) {
  return arrow::field(name, std::move(type), true,
                      arrow::key_value_metadata({"PARQUET:field_id"}, {std::to_string(id)}));
}

template <class Builder, class T>
std::shared_ptr<arrow::Array> build(Builder builder, const std::vector<const Cell*>& cells, const T&) {
  for (const Cell* cell : cells)
    check(cell->null ? builder.AppendNull() : builder.Append(std::get<T>(cell->value)), "append");
  return check(builder.Finish(), "finish");
}

std::shared_ptr<arrow::Array> to_array(const Type& type, const std::vector<const Cell*>& cells, bool large);

std::shared_ptr<arrow::Array> struct_array(const Type& type, const std::vector<const Cell*>& cells, bool large) {
  arrow::ArrayVector children;
  arrow::FieldVector fields;
  static const Cell kNull;
  arrow::TypedBufferBuilder<bool> validity;
  for (const Cell* cell : cells) check(validity.Append(!cell->null), "append");
  for (size_t i = 0; i < type.fields().size(); ++i) {
    std::vector<const Cell*> members;
    for (const Cell* cell : cells) {
      if (!cell->null)
        members.push_back(&cell->members.at(i));
      else
        members.push_back(cell->members.empty() ? &kNull : &cell->members.at(i));
    }
    children.push_back(to_array(*type.fields()[i].type, members, large));
    fields.push_back(arrow_field(type.fields()[i].name, type.fields()[i].id, children.back()->type()));
  }
  return check(arrow::StructArray::Make(children, fields, check(validity.Finish(), "finish")), "struct");
}

std::shared_ptr<arrow::Array> to_array(const Type& type, const std::vector<const Cell*>& cells, bool large) {
  auto* pool = arrow::default_memory_pool();
  switch (type.id()) {
    case TypeId::boolean_:
      return build(arrow::BooleanBuilder(), cells, bool());
    case TypeId::int_:
      return build(arrow::Int32Builder(), cells, int32_t());
    case TypeId::long_:
      return build(arrow::Int64Builder(), cells, int64_t());
    case TypeId::float_:
      return build(arrow::FloatBuilder(), cells, float());
    case TypeId::double_:
      return build(arrow::DoubleBuilder(), cells, double());
    case TypeId::decimal:
      return build(arrow::Decimal128Builder(arrow::decimal128(type.precision(), type.scale())), cells,
                   arrow::Decimal128());
    case TypeId::date:
      return build(arrow::Date32Builder(), cells, int32_t());
    case TypeId::time:
      return build(arrow::Time64Builder(arrow::time64(arrow::TimeUnit::MICRO), pool), cells, int64_t());
    case TypeId::timestamp:
    case TypeId::timestamptz:
    case TypeId::timestamp_ns:
    case TypeId::timestamptz_ns: {
      const bool zoned = type.id() == TypeId::timestamptz || type.id() == TypeId::timestamptz_ns;
      const auto unit = is_nanos(type) ? arrow::TimeUnit::NANO : arrow::TimeUnit::MICRO;
      return build(arrow::TimestampBuilder(arrow::timestamp(unit, zoned ? "UTC" : ""), pool), cells, int64_t());
    }
    case TypeId::string:
      if (large) return build(arrow::LargeStringBuilder(), cells, std::string());
      return build(arrow::StringBuilder(), cells, std::string());
    case TypeId::binary:
      if (large) return build(arrow::LargeBinaryBuilder(), cells, std::string());
      return build(arrow::BinaryBuilder(), cells, std::string());
    case TypeId::uuid:
      return build(arrow::FixedSizeBinaryBuilder(arrow::fixed_size_binary(16)), cells, std::string());
    case TypeId::fixed:
      return build(arrow::FixedSizeBinaryBuilder(arrow::fixed_size_binary(type.length())), cells, std::string());
    case TypeId::unknown:
      return std::make_shared<arrow::NullArray>(static_cast<int64_t>(cells.size()));
    case TypeId::struct_:
      return struct_array(type, cells, large);
    default: {
      arrow::BooleanBuilder builder;
      for (const Cell* cell : cells) check(cell->null ? builder.AppendNull() : builder.Append(true), "append");
      return check(builder.Finish(), "finish");
    }
  }
}

const Cell* find_cell(const std::vector<Field>& fields, const std::vector<Cell>& cells,
                      const std::vector<int32_t>& path, size_t depth) {
  static const Cell kNull;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].id != path[depth]) continue;
    if (depth + 1 == path.size() || cells[i].null) return cells[i].null ? &kNull : &cells[i];
    return find_cell(fields[i].type->fields(), cells[i].members, path, depth + 1);
  }
  return &kNull;
}

}  // namespace

std::shared_ptr<arrow::RecordBatch> to_batch(const Schema& schema, const std::vector<Row>& rows, bool large) {
  arrow::ArrayVector columns;
  arrow::FieldVector fields;
  for (size_t c = 0; c < schema.fields().size(); ++c) {
    const Field& field = schema.fields()[c];
    std::vector<const Cell*> cells;
    for (const Row& row : rows) cells.push_back(&row.at(c));
    columns.push_back(to_array(*field.type, cells, large));
    fields.push_back(arrow_field(field.name, field.id, columns.back()->type()));
  }
  return arrow::RecordBatch::Make(arrow::schema(fields), static_cast<int64_t>(rows.size()), columns);
}

const Cell& cell_of(const Schema& schema, const Row& row, int32_t id) {
  return *find_cell(schema.fields(), row, schema.path_to(id), 0);
}

}  // namespace firn::iceberg
