#include "iceberg/expr/row_filter.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <unordered_set>

#include <arrow/array.h>
#include <arrow/buffer.h>
#include <arrow/compute/cast.h>
#include <arrow/extension_type.h>
#include <arrow/util/bit_util.h>
#include <arrow/util/key_value_metadata.h>

#include "base/arrow_status.h"
#include "base/error.h"

namespace firn::iceberg {
namespace {

using arrow::Decimal128;

// A byte a row: 1 where the expression is true. Bytes rather than bits, so that the loops below vectorise.
using Mask = std::vector<uint8_t>;

// A column found in the batch, and which rows have it: not null, nor inside a null struct.
struct Column {
  std::shared_ptr<arrow::Array> values;
  Mask valid;
};

std::optional<int32_t> field_id_of(const arrow::Field& field) {
  if (!field.metadata()) return std::nullopt;
  const int index = field.metadata()->FindKey("PARQUET:field_id");
  if (index < 0) return std::nullopt;
  const std::string& text = field.metadata()->value(index);
  int32_t id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return id;
}

// The child numbers that lead from `fields` to the field with `id`, through structs.
bool find_path(const arrow::FieldVector& fields, int32_t id, std::vector<int>& path) {
  for (size_t i = 0; i < fields.size(); ++i) {
    path.push_back(static_cast<int>(i));
    if (field_id_of(*fields[i]) == id) return true;
    if (fields[i]->type()->id() == arrow::Type::STRUCT && find_path(fields[i]->type()->fields(), id, path)) return true;
    path.pop_back();
  }
  return false;
}

void and_validity(const arrow::Array& array, Mask& valid) {
  if (array.type_id() == arrow::Type::NA) {
    std::fill(valid.begin(), valid.end(), 0);
    return;
  }
  const uint8_t* bits = array.null_bitmap_data();
  if (!bits || array.null_count() == 0) return;
  for (size_t i = 0; i < valid.size(); ++i) valid[i] &= arrow::bit_util::GetBit(bits, array.offset() + i);
}

Column find_column(const arrow::RecordBatch& batch, const Expression& predicate) {
  std::vector<int> path;
  if (!find_path(batch.schema()->fields(), *predicate.field_id, path))
    fail(ErrorKind::internal, "The filter reads column {} (id {}), which the batch does not have", predicate.column,
         *predicate.field_id);
  Column column{batch.column(path[0]), Mask(static_cast<size_t>(batch.num_rows()), 1)};
  and_validity(*column.values, column.valid);
  for (size_t i = 1; i < path.size(); ++i) {
    column.values = static_cast<const arrow::StructArray&>(*column.values).field(path[i]);
    and_validity(*column.values, column.valid);
  }
  if (column.values->type_id() == arrow::Type::EXTENSION)
    column.values = static_cast<const arrow::ExtensionArray&>(*column.values).storage();
  return column;
}

// The Arrow type that the loops below read for an Iceberg type; nullptr: there is more than one.
std::shared_ptr<arrow::DataType> loop_type(const Type& type) {
  switch (type.id()) {
    case TypeId::boolean_:
      return arrow::boolean();
    case TypeId::int_:
      return arrow::int32();
    case TypeId::long_:
      return arrow::int64();
    case TypeId::float_:
      return arrow::float32();
    case TypeId::double_:
      return arrow::float64();
    case TypeId::date:
      return arrow::date32();
    case TypeId::time:
      return arrow::time64(arrow::TimeUnit::MICRO);
    case TypeId::decimal:
      return arrow::decimal128(type.precision(), type.scale());
    default:
      return nullptr;
  }
}

bool is_timestamp_of(const arrow::DataType& arrow_type, const Type& type) {
  if (arrow_type.id() != arrow::Type::TIMESTAMP) return false;
  const auto unit = static_cast<const arrow::TimestampType&>(arrow_type).unit();
  return unit == (is_nanos(type) ? arrow::TimeUnit::NANO : arrow::TimeUnit::MICRO);
}

bool is_decimal_of(const arrow::DataType& arrow_type, const Type& type) {
  return arrow_type.id() == arrow::Type::DECIMAL128 &&
         static_cast<const arrow::Decimal128Type&>(arrow_type).scale() == type.scale();
}

// The array itself where a loop reads it, else cast: columns of files from before a promotion, dictionaries, other
// units.
std::shared_ptr<arrow::Array> readable(const std::shared_ptr<arrow::Array>& array, const Type& type) {
  std::shared_ptr<arrow::DataType> wanted = loop_type(type);
  switch (type.id()) {
    case TypeId::decimal:
      if (is_decimal_of(*array->type(), type)) return array;
      break;
    case TypeId::timestamp:
    case TypeId::timestamptz:
    case TypeId::timestamp_ns:
    case TypeId::timestamptz_ns:
      if (is_timestamp_of(*array->type(), type)) return array;
      // The zone stays: it is UTC or none, and a cast must not move the values.
      wanted = arrow::timestamp(is_nanos(type) ? arrow::TimeUnit::NANO : arrow::TimeUnit::MICRO,
                                array->type_id() == arrow::Type::TIMESTAMP
                                    ? static_cast<const arrow::TimestampType&>(*array->type()).timezone()
                                    : "");
      break;
    case TypeId::string:
    case TypeId::uuid:
    case TypeId::fixed:
    case TypeId::binary: {
      const auto id = array->type_id();
      if (id == arrow::Type::STRING || id == arrow::Type::BINARY || id == arrow::Type::LARGE_STRING ||
          id == arrow::Type::LARGE_BINARY || id == arrow::Type::FIXED_SIZE_BINARY)
        return array;
      wanted = arrow::large_binary();
      break;
    }
    default:
      if (array->type()->Equals(*wanted)) return array;
  }
  return check(arrow::compute::Cast(*array, wanted), "Filtering a column of Arrow type " + array->type()->ToString());
}

// Sets mask[i] by `test` of each value. `read(i)` may be called for null rows too. So that it vectorises at -O2: blocks
// of a fixed number of rows, and all by value, since a store of a byte might change what a reference names.
template <class Read, class Test>
void fill(Mask& mask, const Read read, const Test test) {
  constexpr size_t kBlock = 64;
  uint8_t* const out = mask.data();
  const size_t rows = mask.size();
  size_t begin = 0;
  for (; begin + kBlock <= rows; begin += kBlock)
    for (size_t i = begin; i < begin + kBlock; ++i) out[i] = static_cast<uint8_t>(test(read(i)));
  for (size_t i = begin; i < rows; ++i) out[i] = static_cast<uint8_t>(test(read(i)));
}

template <class T>
struct LiteralSet {
  std::vector<T> sorted;  // as bind leaves them
  bool contains(const T& value) const {
    const auto at = std::lower_bound(sorted.begin(), sorted.end(), value);
    return at != sorted.end() && *at == value;  // false for NaN, whose lower bound is the first
  }
};

template <>
struct LiteralSet<std::string_view> {
  explicit LiteralSet(const std::vector<std::string_view>& literals) : hashed(literals.begin(), literals.end()) {}
  std::unordered_set<std::string_view> hashed;
  bool contains(std::string_view value) const { return hashed.contains(value); }
};

constexpr size_t kLinearMax = 8;  // literals that are compared one by one rather than looked up

// `read(i)` gives values of T, which literals convert to. NaN: IEEE comparison gives what expression.h promises.
template <class T, class Read>
void compare_values(Op op, const std::vector<T>& literals, const Read& read, Mask& mask) {
  const T literal = literals[0];
  switch (op) {
    case Op::lt:
      return fill(mask, read, [literal](const T& v) { return v < literal; });
    case Op::lt_eq:
      return fill(mask, read, [literal](const T& v) { return v <= literal; });
    case Op::gt:
      return fill(mask, read, [literal](const T& v) { return v > literal; });
    case Op::gt_eq:
      return fill(mask, read, [literal](const T& v) { return v >= literal; });
    case Op::eq:
      return fill(mask, read, [literal](const T& v) { return v == literal; });
    case Op::not_eq_:
      return fill(mask, read, [literal](const T& v) { return v != literal; });
    default:
      break;
  }
  const bool wanted = op == Op::in;
  if (literals.size() <= kLinearMax) {
    return fill(mask, read, [&](const T& v) {
      bool found = false;
      for (const T& l : literals) found |= v == l;
      return found == wanted;
    });
  }
  const LiteralSet<T> set{literals};
  fill(mask, read, [&](const T& v) { return set.contains(v) == wanted; });
}

template <class T>
std::vector<T> literals_of(const Expression& predicate) {
  std::vector<T> literals;
  for (const Value& literal : predicate.literals) literals.push_back(std::get<T>(literal));
  return literals;
}

template <class T>
void compare_fixed_width(const Expression& e, const arrow::Array& array, Mask& mask) {
  const T* values = array.data()->GetValues<T>(1);
  compare_values<T>(
      e.op, literals_of<T>(e), [values](size_t i) { return values[i]; }, mask);
}

void compare_booleans(const Expression& e, const arrow::Array& array, Mask& mask) {
  const auto& booleans = static_cast<const arrow::BooleanArray&>(array);
  std::vector<uint8_t> literals;
  for (const Value& literal : e.literals) literals.push_back(std::get<bool>(literal));
  compare_values<uint8_t>(
      e.op, literals, [&](size_t i) { return static_cast<uint8_t>(booleans.Value(static_cast<int64_t>(i))); }, mask);
}

void compare_decimals(const Expression& e, const arrow::Array& array, Mask& mask) {
  const uint8_t* bytes = array.data()->buffers[1]->data() + array.offset() * 16;
  compare_values<Decimal128>(
      e.op, literals_of<Decimal128>(e), [bytes](size_t i) { return Decimal128(bytes + 16 * i); }, mask);
}

template <class Read>
void compare_text(const Expression& e, const Read& read, Mask& mask) {
  std::vector<std::string_view> literals;
  for (const Value& literal : e.literals) literals.push_back(std::get<std::string>(literal));
  if (e.op != Op::starts_with && e.op != Op::not_starts_with)
    return compare_values<std::string_view>(e.op, literals, read, mask);
  const bool wanted = e.op == Op::starts_with;
  fill(mask, read, [prefix = literals[0], wanted](std::string_view v) { return v.starts_with(prefix) == wanted; });
}

template <class Offset>
void compare_variable_width(const Expression& e, const arrow::Array& array, Mask& mask) {
  const Offset* offsets = array.data()->GetValues<Offset>(1);
  const auto& buffer = array.data()->buffers[2];
  const char* bytes = buffer ? reinterpret_cast<const char*>(buffer->data()) : "";
  compare_text(
      e,
      [=](size_t i) { return std::string_view(bytes + offsets[i], static_cast<size_t>(offsets[i + 1] - offsets[i])); },
      mask);
}

void compare_fixed_size_binary(const Expression& e, const arrow::Array& array, Mask& mask) {
  const auto& fixed = static_cast<const arrow::FixedSizeBinaryArray&>(array);
  const auto width = static_cast<size_t>(fixed.byte_width());
  const char* bytes = reinterpret_cast<const char*>(fixed.raw_values());
  compare_text(
      e, [=](size_t i) { return std::string_view(bytes + i * width, width); }, mask);
}

void compare_array(const Expression& e, const arrow::Array& array, Mask& mask) {
  switch (array.type_id()) {
    case arrow::Type::BOOL:
      return compare_booleans(e, array, mask);
    case arrow::Type::INT32:
    case arrow::Type::DATE32:
      return compare_fixed_width<int32_t>(e, array, mask);
    case arrow::Type::INT64:
    case arrow::Type::TIME64:
    case arrow::Type::TIMESTAMP:
      return compare_fixed_width<int64_t>(e, array, mask);
    case arrow::Type::FLOAT:
      return compare_fixed_width<float>(e, array, mask);
    case arrow::Type::DOUBLE:
      return compare_fixed_width<double>(e, array, mask);
    case arrow::Type::DECIMAL128:
      return compare_decimals(e, array, mask);
    case arrow::Type::STRING:
    case arrow::Type::BINARY:
      return compare_variable_width<int32_t>(e, array, mask);
    case arrow::Type::LARGE_STRING:
    case arrow::Type::LARGE_BINARY:
      return compare_variable_width<int64_t>(e, array, mask);
    case arrow::Type::FIXED_SIZE_BINARY:
      return compare_fixed_size_binary(e, array, mask);
    default:
      fail(ErrorKind::internal, "The filter cannot read an Arrow column of type {}", array.type()->ToString());
  }
}

template <class Float>
void test_nan(const arrow::Array& array, bool wanted, Mask& mask) {
  const Float* values = array.data()->GetValues<Float>(1);
  fill(
      mask, [values](size_t i) { return values[i]; }, [wanted](Float v) { return std::isnan(v) == wanted; });
}

Value value_at(const arrow::Array& array, int64_t i) {
  switch (array.type_id()) {
    case arrow::Type::INT32:
    case arrow::Type::DATE32:
      return array.data()->GetValues<int32_t>(1)[i];
    case arrow::Type::INT64:
    case arrow::Type::TIME64:
    case arrow::Type::TIMESTAMP:
      return array.data()->GetValues<int64_t>(1)[i];
    case arrow::Type::DECIMAL128:
      return Decimal128(static_cast<const arrow::Decimal128Array&>(array).GetValue(i));
    case arrow::Type::STRING:
    case arrow::Type::BINARY:
      return std::string(static_cast<const arrow::BinaryArray&>(array).GetView(i));
    case arrow::Type::LARGE_STRING:
    case arrow::Type::LARGE_BINARY:
      return std::string(static_cast<const arrow::LargeBinaryArray&>(array).GetView(i));
    case arrow::Type::FIXED_SIZE_BINARY:
      return std::string(static_cast<const arrow::FixedSizeBinaryArray&>(array).GetView(i));
    default:
      fail(ErrorKind::internal, "The filter cannot read an Arrow column of type {}", array.type()->ToString());
  }
}

// Buckets are hashed value by value: only an explicit bucket(N, c) in a filter comes here.
void compare_buckets(const Expression& e, const Column& column, const arrow::Array& array, Mask& mask) {
  std::vector<int32_t> buckets(mask.size(), 0);
  for (size_t i = 0; i < mask.size(); ++i)
    if (column.valid[i])
      buckets[i] = std::get<int32_t>(apply(*e.transform, value_at(array, static_cast<int64_t>(i)), *e.type));
  compare_values<int32_t>(
      e.op, literals_of<int32_t>(e), [&](size_t i) { return buckets[i]; }, mask);
}

Mask evaluate_predicate(const Expression& e, const arrow::RecordBatch& batch) {
  Column column = find_column(batch, e);
  if (e.op == Op::not_null) return std::move(column.valid);
  if (e.op == Op::is_null) {
    for (uint8_t& v : column.valid) v ^= 1;
    return std::move(column.valid);
  }
  Mask mask(column.valid.size(), 0);
  // Where no row has a value the array may lack its buffers.
  if (std::find(column.valid.begin(), column.valid.end(), 1) == column.valid.end()) return mask;
  const auto array = readable(column.values, *e.type);
  if (e.op == Op::is_nan || e.op == Op::not_nan) {
    if (e.type->id() == TypeId::float_)
      test_nan<float>(*array, e.op == Op::is_nan, mask);
    else
      test_nan<double>(*array, e.op == Op::is_nan, mask);
  } else if (e.transform) {
    compare_buckets(e, column, *array, mask);
  } else {
    compare_array(e, *array, mask);
  }
  for (size_t i = 0; i < mask.size(); ++i) mask[i] &= column.valid[i];
  return mask;
}

Mask evaluate_mask(const Expression& e, const arrow::RecordBatch& batch) {
  const auto rows = static_cast<size_t>(batch.num_rows());
  switch (e.op) {
    case Op::always_true:
      return Mask(rows, 1);
    case Op::always_false:
      return Mask(rows, 0);
    case Op::and_:
    case Op::or_: {
      Mask left = evaluate_mask(*e.children[0], batch);
      // Nothing to find out if the left side settled every row.
      const uint8_t open = e.op == Op::and_ ? 1 : 0;
      if (std::find(left.begin(), left.end(), open) == left.end()) return left;
      const Mask right = evaluate_mask(*e.children[1], batch);
      for (size_t i = 0; i < rows; ++i) left[i] = e.op == Op::and_ ? left[i] & right[i] : left[i] | right[i];
      return left;
    }
    case Op::not_:
      fail(ErrorKind::internal, "evaluate: the expression is not bound: {}", to_string(e));
    default:
      return evaluate_predicate(e, batch);
  }
}

}  // namespace

std::shared_ptr<arrow::BooleanArray> evaluate(const Expression& bound, const arrow::RecordBatch& batch) {
  const Mask mask = evaluate_mask(bound, batch);
  const auto rows = static_cast<int64_t>(mask.size());
  std::shared_ptr<arrow::Buffer> bits = check(arrow::AllocateEmptyBitmap(rows), "Allocating a filter's bitmap");
  uint8_t* out = bits->mutable_data();
  const size_t whole = mask.size() / 8;
  for (size_t i = 0; i < whole; ++i) {
    uint64_t eight = 0;
    std::memcpy(&eight, mask.data() + 8 * i, 8);
    out[i] = static_cast<uint8_t>(eight * 0x0102040810204080U >> 56);  // byte k, 0 or 1, becomes bit k
  }
  for (size_t i = 8 * whole; i < mask.size(); ++i) out[i / 8] |= static_cast<uint8_t>(mask[i] << (i % 8));
  return std::make_shared<arrow::BooleanArray>(rows, std::move(bits), nullptr, 0);
}

}  // namespace firn::iceberg
