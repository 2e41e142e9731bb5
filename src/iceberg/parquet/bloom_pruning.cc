#include "iceberg/parquet/bloom_pruning.h"

#include <algorithm>
#include <limits>
#include <map>
#include <vector>

#include <parquet/types.h>

#include "iceberg/parquet/arrow_schema.h"

namespace firn::iceberg {

namespace {

using Hashes = std::vector<uint64_t>;  // of the values that equal a literal; none: no value of the file does

// Two's complement, big-endian, in `width` bytes; nullopt if it does not fit.
std::optional<std::string> decimal_bytes(const arrow::Decimal128& value, int width) {
  const auto little_endian = value.ToBytes();
  const char sign = value < arrow::Decimal128(0) ? '\xff' : '\0';
  std::string bytes(static_cast<size_t>(width), sign);
  for (size_t i = 0; i < little_endian.size(); ++i) {
    const auto byte = static_cast<char>(little_endian[i]);
    if (i < bytes.size()) {
      bytes[bytes.size() - 1 - i] = byte;
    } else if (byte != sign) {
      return std::nullopt;
    }
  }
  const bool keeps_sign = width > 0 && ((bytes[0] & '\x80') != 0) == (sign != '\0');
  return keeps_sign ? std::optional(bytes) : std::nullopt;
}

// As the file's type has it, in the file's units; a promotion of the column since then only widened it.
bool has_units_of(const arrow::DataType& stored, const Type& type) {
  const auto wanted = to_arrow_type(type);
  if (stored.id() == arrow::Type::TIMESTAMP && wanted->id() == arrow::Type::TIMESTAMP) {
    return static_cast<const arrow::TimestampType&>(stored).unit() ==
           static_cast<const arrow::TimestampType&>(*wanted).unit();
  }
  if (stored.id() == arrow::Type::DECIMAL128 && wanted->id() == arrow::Type::DECIMAL128) {
    return static_cast<const arrow::Decimal128Type&>(stored).scale() ==
           static_cast<const arrow::Decimal128Type&>(*wanted).scale();
  }
  const bool widened = (stored.id() == arrow::Type::INT32 && wanted->id() == arrow::Type::INT64) ||
                       (stored.id() == arrow::Type::FLOAT && wanted->id() == arrow::Type::DOUBLE);
  const bool unannotated = stored.id() == arrow::Type::BINARY && wanted->id() == arrow::Type::STRING;
  return widened || unannotated || stored.Equals(*wanted);
}

template <class Float>
Hashes float_hashes(const parquet::BloomFilter& bloom, double value) {
  const auto stored = static_cast<Float>(value);
  if (static_cast<double>(stored) != value) return {};  // NaN equals nothing; else it was never a float
  if (stored == 0) return {bloom.Hash(Float{0}), bloom.Hash(-Float{0})};
  return {bloom.Hash(stored)};
}

// nullopt: not known.
std::optional<Hashes> integer_hashes(const parquet::BloomFilter& bloom, parquet::Type::type physical, int64_t value) {
  if (physical == parquet::Type::INT64) return Hashes{bloom.Hash(value)};
  if (physical != parquet::Type::INT32) return std::nullopt;
  if (value != static_cast<int32_t>(value)) return Hashes{};
  return Hashes{bloom.Hash(static_cast<int32_t>(value))};
}

std::optional<Hashes> decimal_hashes(const parquet::BloomFilter& bloom, const parquet::ColumnDescriptor& column,
                                     const arrow::Decimal128& value) {
  if (column.physical_type() == parquet::Type::FIXED_LEN_BYTE_ARRAY) {
    const std::optional<std::string> bytes = decimal_bytes(value, column.type_length());
    if (!bytes) return Hashes{};
    const parquet::FLBA fixed(reinterpret_cast<const uint8_t*>(bytes->data()));
    return Hashes{bloom.Hash(fixed, static_cast<uint32_t>(column.type_length()))};
  }
  // In a byte array, a number may have more bytes than it needs.
  if (column.physical_type() == parquet::Type::BYTE_ARRAY) return std::nullopt;
  const std::optional<std::string> narrow = decimal_bytes(value, 8);
  if (!narrow) return Hashes{};
  return integer_hashes(bloom, column.physical_type(), static_cast<int64_t>(value.low_bits()));
}

std::optional<Hashes> bytes_hashes(const parquet::BloomFilter& bloom, const parquet::ColumnDescriptor& column,
                                   const std::string& value) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(value.data());
  if (column.physical_type() == parquet::Type::BYTE_ARRAY)
    return Hashes{bloom.Hash(parquet::ByteArray(static_cast<uint32_t>(value.size()), bytes))};
  if (column.physical_type() != parquet::Type::FIXED_LEN_BYTE_ARRAY) return std::nullopt;
  if (static_cast<int>(value.size()) != column.type_length()) return Hashes{};
  return Hashes{bloom.Hash(parquet::FLBA(bytes), static_cast<uint32_t>(value.size()))};
}

std::optional<Hashes> hashes_of(const parquet::BloomFilter& bloom, const parquet::ColumnDescriptor& column,
                                const Value& literal) {
  const parquet::Type::type physical = column.physical_type();
  if (const auto* value = std::get_if<int32_t>(&literal)) return integer_hashes(bloom, physical, *value);
  if (const auto* value = std::get_if<int64_t>(&literal)) return integer_hashes(bloom, physical, *value);
  if (const auto* value = std::get_if<arrow::Decimal128>(&literal)) return decimal_hashes(bloom, column, *value);
  if (const auto* value = std::get_if<std::string>(&literal)) return bytes_hashes(bloom, column, *value);
  std::optional<double> number;
  if (const auto* value = std::get_if<float>(&literal)) number = *value;
  if (const auto* value = std::get_if<double>(&literal)) number = *value;
  if (!number) return std::nullopt;
  if (physical == parquet::Type::FLOAT) return float_hashes<float>(bloom, *number);
  if (physical == parquet::Type::DOUBLE) return float_hashes<double>(bloom, *number);
  return std::nullopt;
}

class Prover {
 public:
  Prover(const FilterColumns& columns, const parquet::SchemaDescriptor& schema, const LoadBloomFilter& load)
      : columns_(columns), schema_(schema), load_(load) {}

  bool might_match(const Expression& filter) {
    switch (filter.op) {
      case Op::and_:
        return might_match(*filter.children[0]) && might_match(*filter.children[1]);
      case Op::or_:
        return might_match(*filter.children[0]) || might_match(*filter.children[1]);
      case Op::eq:
      case Op::in:
        return might_equal(filter);
      default:
        return true;
    }
  }

 private:
  bool might_equal(const Expression& predicate) {
    if (predicate.transform || !predicate.field_id) return true;  // the literals are bucket numbers
    const auto found = columns_.find(*predicate.field_id);
    if (found == columns_.end() || found->second.leaf < 0) return true;
    const parquet::ColumnDescriptor& column = *schema_.Column(found->second.leaf);
    if (!has_units_of(*decoded_type(column), *found->second.type)) return true;
    const parquet::BloomFilter* bloom = bloom_of(found->second.leaf);
    if (bloom == nullptr) return true;
    return std::any_of(predicate.literals.begin(), predicate.literals.end(), [&](const Value& literal) {
      const std::optional<Hashes> hashes = hashes_of(*bloom, column, literal);
      return !hashes ||
             std::any_of(hashes->begin(), hashes->end(), [&](uint64_t hash) { return bloom->FindHash(hash); });
    });
  }

  const parquet::BloomFilter* bloom_of(int leaf) {
    const auto [entry, is_new] = loaded_.try_emplace(leaf);
    if (is_new) entry->second = load_(leaf);
    return entry->second.get();
  }

  const FilterColumns& columns_;
  const parquet::SchemaDescriptor& schema_;
  const LoadBloomFilter& load_;
  std::map<int, std::unique_ptr<parquet::BloomFilter>> loaded_;
};

}  // namespace

bool bloom_might_match(const Expression& filter, const FilterColumns& columns, const parquet::SchemaDescriptor& schema,
                       const LoadBloomFilter& load) {
  return Prover(columns, schema, load).might_match(filter);
}

}  // namespace firn::iceberg
