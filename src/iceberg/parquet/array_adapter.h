// Arrow arrays of one shape as arrays of an Iceberg type: what conform() and the reader's column projection share.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <arrow/array.h>
#include <arrow/type.h>

#include "base/error.h"
#include "iceberg/schema.h"

namespace firn::iceberg {

// How an array's type names its parts, in the order of its children: a struct's members, a list's element, a map's key
// and value. An id decides where there is one; `match_names` says that the struct's members go by name instead.
struct SourceField {
  std::optional<int32_t> id;
  std::string name;
  bool match_names = false;
  std::vector<SourceField> children;
};

// Ids from the field metadata; members go by name where any of them lacks an id.
SourceField source_field_of(const arrow::Field& field);

struct AdaptRules {
  ErrorKind error = ErrorKind::schema_mismatch;  // kind of every refusal
  std::string where;                             // ends the message, e.g. "in s3://…/x.parquet"
  // Files: members that are not wanted are dropped, lacking ones get their initial-default, and types that older
  // writers left without annotation (int96 and zone-less timestamps, strings as binary) are taken. Batches: none of
  // that.
  bool from_file = false;
};

// `array` as to_arrow_type(*target.type), zero-copy where the type is equal. `path` names the column in errors. Throws
// rules.error for a type that does not convert without loss, and for a null in a required field.
std::shared_ptr<arrow::Array> adapt_array(const std::shared_ptr<arrow::Array>& array, const SourceField& source,
                                          const Field& target, const std::string& path, const AdaptRules& rules);

// The member of `children` that is `target`; nullptr: none.
const SourceField* find_source(const std::vector<SourceField>& children, bool match_names, const Field& target,
                               size_t* index);

// `length` times `value` (null included) of `type`. Members of a null struct or variant are not null where they are
// required. A struct's `{}` takes its fields' initial defaults. Throws unsupported for other nested defaults that are
// not null or empty.
std::shared_ptr<arrow::Array> constant_array(const Value& value, const Type& type, int64_t length);

// What a file without the column has in its place (spec, "Default values"): initial-default, else null. Throws
// rules.error if the column is required and has no default.
std::shared_ptr<arrow::Array> missing_column(const Field& target, int64_t length, const std::string& path,
                                             const AdaptRules& rules);

}  // namespace firn::iceberg
