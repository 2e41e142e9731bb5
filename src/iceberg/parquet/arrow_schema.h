// Iceberg types as Arrow types, and back, with field ids in the Arrow field metadata "PARQUET:field_id".
#pragma once

#include <memory>

#include <arrow/type.h>

#include "iceberg/schema.h"

namespace firn::iceberg {

// boolean bool; int int32; long int64; float; double; decimal128; date date32; time time64[us]; timestamp
// timestamp[us]; timestamptz timestamp[us, UTC]; *_ns timestamp[ns]; string utf8; uuid fixed_size_binary(16); fixed
// fixed_size_binary(n); binary, geometry, geography, variant (as its Parquet struct of metadata and value) binary or
// struct; unknown null; struct, list, map. Nullability from `required`.
std::shared_ptr<arrow::DataType> to_arrow_type(const Type& type);
std::shared_ptr<arrow::Field> to_arrow_field(const Field& field);
std::shared_ptr<arrow::Schema> to_arrow_schema(const Schema& schema);

// Arrow's types as Iceberg's, ids from the metadata where all have one, else fresh from 1. Unsigned and small integers
// widen; timestamps of s and ms become µs types; dictionary types become their values'. Throws unsupported naming the
// field.
Schema from_arrow_schema(const arrow::Schema& schema);

std::optional<int32_t> field_id_of(const arrow::Field& field);

// `batch` as `target`'s columns: matched by field id where the batch has ids, else by name; casts where Arrow's type
// differs without loss (large_utf8, dictionary, other time units); missing ones have their write default, or null.
// Throws schema_mismatch naming the column for a type that does not convert, a null in a required column, and an
// unknown column.
std::shared_ptr<arrow::RecordBatch> conform(const std::shared_ptr<arrow::RecordBatch>& batch, const Schema& target);

}  // namespace firn::iceberg
