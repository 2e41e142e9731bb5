// A table, its spec and files for the manifest tests.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.h"
#include "iceberg/manifest/expect_entry.h"
#include "iceberg/manifest/manifest.h"

namespace firn::iceberg {

inline ErrorKind kind_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& e) {
    return e.kind();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorKind::internal;
}

inline Field column(int32_t id, const std::string& name, TypePtr type) {
  return {.id = id, .name = name, .type = std::move(type)};
}

// One column of each type that can be partitioned by, and its identity partition field: "p.<n>" is 1000 + n.
struct Sample {
  Schema schema;
  PartitionSpec spec;
};
inline Sample every_type() {
  const std::vector<TypePtr> types = {
      Type::primitive(TypeId::boolean_),
      Type::primitive(TypeId::int_),
      Type::primitive(TypeId::long_),
      Type::primitive(TypeId::float_),
      Type::primitive(TypeId::double_),
      Type::decimal(9, 2),
      Type::primitive(TypeId::date),
      Type::primitive(TypeId::time),
      Type::primitive(TypeId::timestamp),
      Type::primitive(TypeId::timestamptz),
      Type::primitive(TypeId::timestamp_ns),
      Type::primitive(TypeId::string),
      Type::primitive(TypeId::uuid),
      Type::fixed(3),
      Type::primitive(TypeId::binary),
      Type::decimal(9, 2),
      Type::decimal(38, 10),
  };
  Sample sample;
  std::vector<Field> fields;
  sample.spec.spec_id = 4;
  for (size_t i = 0; i < types.size(); ++i) {
    const auto id = static_cast<int32_t>(i + 1);
    fields.push_back(column(id, "c" + std::to_string(i), types[i]));
    sample.spec.fields.push_back({.source_ids = {id},
                                  .field_id = 1000 + static_cast<int32_t>(i),
                                  .name = "p." + std::to_string(i),
                                  .transform = Transform::parse("identity")});
  }
  sample.schema = Schema(std::move(fields), 2);
  return sample;
}

inline std::vector<Value> every_value() {
  return {true,
          int32_t{-7},
          int64_t{1} << 40,
          1.5F,
          -2.25,
          arrow::Decimal128(-128),  // case 3: -1.28, whose least bytes are one
          int32_t{-1},
          int64_t{86'399'999'999},
          int64_t{-1},
          int64_t{1'700'000'000'000'000},
          int64_t{1'700'000'000'000'000'001},
          std::string("O\xe2\x80\x99"
                      "Brien"),
          std::string("\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f", 16),
          std::string("\xff\x00\x7f", 3),
          std::string(),
          arrow::Decimal128(999'999'999),
          arrow::Decimal128::FromString("-12345678901234567890.0123456789").ValueOrDie()};
}

// v2 data file with every member set.
inline ManifestEntry full_entry(std::vector<Value> partition) {
  ManifestEntry entry;
  entry.status = EntryStatus::existing;
  entry.snapshot_id = 77;
  entry.sequence_number = 3;
  entry.file_sequence_number = 4;
  DataFile& file = entry.file;
  file.file_path = "s3://bucket/t/data/a b%20c.parquet";
  file.partition = std::move(partition);
  file.record_count = 1000;
  file.file_size_bytes = 123456789012;
  file.column_sizes = {{1, 10}, {2, 20}, {2147483540, 5}};
  file.value_counts = {{1, 1000}, {2, 1000}};
  file.null_value_counts = {{1, 0}, {2, 7}};
  file.nan_value_counts = {{4, 1}};
  file.lower_bounds = {{1, std::string(1, '\0')}, {2, ""}};
  file.upper_bounds = {{1, std::string(1, '\1')}, {2, "zz"}};
  file.key_metadata = "key";
  file.split_offsets = {4, 5'000'000'000};
  file.sort_order_id = 1;
  return entry;
}

inline ManifestEntry small_entry(const std::string& path, EntryStatus status, int64_t records) {
  ManifestEntry entry;
  entry.status = status;
  if (status != EntryStatus::added) entry.sequence_number = entry.file_sequence_number = 1;
  entry.file.file_path = path;
  entry.file.record_count = records;
  entry.file.file_size_bytes = 10 * records;
  return entry;
}

}  // namespace firn::iceberg
