// Iceberg schemas as Parquet schemas (Iceberg spec, Appendix A, "Parquet"), and Parquet's statistics as Iceberg values.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include <parquet/schema.h>

#include "iceberg/schema.h"

namespace firn::iceberg {

// `schema` without its columns and struct members of type unknown, which no file stores. Throws unsupported for a list
// or map of unknown and for a struct of nothing else, whose nulls would be lost.
Schema stored_schema(const Schema& schema);

// Field ids on every node that has one. `stored` as stored_schema() gives it.
std::shared_ptr<parquet::schema::GroupNode> to_parquet_schema(const Schema& stored);

// A Parquet leaf of to_parquet_schema(), in its order.
struct LeafColumn {
  std::optional<int32_t> id;  // nullopt: a part of a variant
  TypePtr type;
  bool repeated = false;  // below a list or map
};
std::vector<LeafColumn> leaf_columns(const Schema& stored);

// `encoded`, the plain encoding of a minimum, maximum or page bound of `column`, as a value of `type` (promoted where
// the schema has moved on). nullopt where it is ill-formed, a NaN, or of a column whose values are not ordered as
// Iceberg's.
std::optional<Value> decode_statistic(std::string_view encoded, const parquet::ColumnDescriptor& column,
                                      const Type& type);

}  // namespace firn::iceberg
