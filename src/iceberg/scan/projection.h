// Columns cut out of, added to and put into nested columns, by field id.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <arrow/array.h>

#include "iceberg/metadata/table_metadata.h"

namespace firn::iceberg {

// `field` with only the fields of `ids` and the structs around them; an id's own field is kept whole. nullopt: none is
// there.
std::optional<Field> prune_field(const Field& field, const std::set<int32_t>& ids);

// `base` with the fields of `extra` that it lacks, structs of the same id merged. What is added stands behind what was
// there, is optional, and gets another name where its own is taken (a column dropped and added again).
std::vector<Field> merge_fields(std::vector<Field> base, const std::vector<Field>& extra);

// The columns of `ids` that `schema` lacks, with the structs around them, each as the newest schema of the table that
// has it. An id that none has is left out.
Schema columns_of_other_schemas(const TableMetadata& metadata, const Schema& schema, const std::set<int32_t>& ids);

// `array` of `from` as `to`, a subset of its fields (the top level's name and order aside).
std::shared_ptr<arrow::Array> project_array(const std::shared_ptr<arrow::Array>& array, const Type& from,
                                            const Type& to);

// `array` of `type` with each primitive field below it that `constants` names replaced, through structs. Where the
// struct is null it stays null.
std::shared_ptr<arrow::Array> with_constants(const std::shared_ptr<arrow::Array>& array, const Type& type,
                                             const std::map<int32_t, Value>& constants);

// The values of the field reached by `path` (ids below the column's own) through structs, null where one of them is.
std::shared_ptr<arrow::Array> nested_array(std::shared_ptr<arrow::Array> array, const Type& type,
                                           const std::vector<int32_t>& path);

}  // namespace firn::iceberg
