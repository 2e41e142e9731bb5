// Partition transforms, partition specs and sort orders (Iceberg spec, "Partitioning", "Sorting").
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "iceberg/schema.h"

namespace firn::iceberg {

enum class TransformKind : uint8_t { identity, bucket, truncate, year, month, day, hour, void_, unknown };

struct Transform {
  TransformKind kind = TransformKind::identity;
  int32_t parameter = 0;  // buckets or width
  std::string name;       // as in JSON: "bucket[16]"; kept for unknown ones

  static Transform parse(
      std::string_view text);  // never throws: what it does not know is unknown (v3 forward compatibility)
  bool operator==(const Transform& other) const { return name == other.name; }
};

bool can_transform(const Transform& transform, const Type& source);
// Throws invalid_argument if it cannot transform `source`. Result of day is date (int for others of time).
TypePtr result_type(const Transform& transform, const TypePtr& source);
// Null stays null. Before 1970 time transforms floor. Value has result_type's alternative.
Value apply(const Transform& transform, const Value& value, const Type& source);
// As in partition paths: "2024-03-01-05" for hour, base64 for binary, and so on (Java's toHumanString).
std::string to_human_string(const Transform& transform, const Value& value, const Type& source);

struct PartitionField {
  std::vector<int32_t> source_ids;  // one but for v3 multi-argument transforms
  int32_t field_id = 0;             // from 1000
  std::string name;
  Transform transform;
  int32_t source_id() const { return source_ids.at(0); }
};

struct PartitionSpec {
  int32_t spec_id = 0;
  std::vector<PartitionField> fields;

  bool is_unpartitioned() const;  // no field, or only void ones
  // The partition tuple's type under `schema`: optional fields with field_id, name, result type. A dropped source is
  // unknown.
  TypePtr partition_type(const Schema& schema) const;
  // "f1=v1/f2=v2" with names and values form-encoded as Java does (case 6); "" if unpartitioned.
  std::string partition_path(const std::vector<Value>& values, const Schema& schema) const;
  Json to_json() const;
  static PartitionSpec from_json(const Json& json, std::string_view where);  // object form
  static std::vector<PartitionField> fields_from_v1_json(const Json& array, std::string_view where);
  // Same sources, transforms and names in the same order; ids aside.
  bool compatible_with(const PartitionSpec& other) const;
  std::string to_display(const Schema& schema) const;  // "day(ts), bucket[16](id)", or "unpartitioned"
};

struct SortField {
  Transform transform;
  std::vector<int32_t> source_ids;
  bool ascending = true;
  bool nulls_first = true;
  int32_t source_id() const { return source_ids.at(0); }
};

struct SortOrder {
  int32_t order_id = 0;  // 0: unsorted
  std::vector<SortField> fields;
  Json to_json() const;
  static SortOrder from_json(const Json& json, std::string_view where);
  std::string to_display(const Schema& schema) const;
};

// Hyp's and others' declaration form {"column": …, "transform": …} as a spec of `schema` with spec id 0 and field ids
// from 1000; names as Java gives them (ts_day, id_bucket_16, c for identity). Throws invalid_argument naming the
// column.
struct PartitionDeclaration {
  std::string column;
  std::string transform = "identity";
};
PartitionSpec make_partition_spec(const std::vector<PartitionDeclaration>& fields, const Schema& schema);

}  // namespace firn::iceberg
