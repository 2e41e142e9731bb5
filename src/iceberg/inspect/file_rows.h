// Data files, manifest entries and partitions as rows of metadata tables.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "iceberg/inspect/cells.h"
#include "iceberg/manifest/manifest.h"

namespace firn::iceberg {

// A column of a metadata table.
inline Field field(int32_t id, const char* name, TypePtr type, bool required = false) {
  return Field{.id = id, .name = name, .required = required, .type = std::move(type)};
}
inline TypePtr primitive(TypeId id) { return Type::primitive(id); }

// What all specs of a table together partition by (Java's Partitioning.partitionType): the fields that are not void and
// whose source is in the current schema, by field id, each named as the newest spec that has it names it. Fields of
// transforms that firn does not know are left out, since their type is not known.
class PartitionColumns {
 public:
  explicit PartitionColumns(const TableMetadata& metadata);
  const TypePtr& type() const { return type_; }  // a struct
  bool empty() const { return type_->fields().empty(); }
  std::vector<Value> values(const DataFile& file) const;  // in the order of type(); null where the file's spec lacks it

 private:
  TypePtr type_;
  std::map<int32_t, std::vector<size_t>> positions_;  // by spec id: of each of its fields within type(), or npos
};

// The columns of data_file (spec) and Java's readable_metrics, under field ids of their own.
class FileColumns {
 public:
  explicit FileColumns(const TableMetadata& metadata);

  Schema files_schema() const;    // data_file's fields, then readable_metrics
  Schema entries_schema() const;  // status, numbers, data_file, readable_metrics
  Row file_row(const DataFile& file) const;
  Row entry_row(const ManifestEntry& entry) const;

 private:
  Row data_file(const DataFile& file) const;
  Cell readable_metrics(const DataFile& file) const;

  Schema table_schema_;
  PartitionColumns partition_;
  std::vector<Field> file_fields_;
  Field metrics_field_;
  std::vector<int32_t> metrics_ids_;  // columns in readable_metrics, in its order
};

// Sums over the live files of one snapshot, as Java's partitions table.
class PartitionRows {
 public:
  explicit PartitionRows(const TableMetadata& metadata);
  Schema schema() const;
  void add(const ManifestEntry& entry);
  std::vector<Row> rows() const;  // in the order of the partitions' first files

 private:
  struct Sums {
    std::vector<Value> partition;
    int32_t spec_id = 0;
    int64_t records = 0, size_bytes = 0, position_deletes = 0, equality_deletes = 0;
    int32_t data_files = 0, position_delete_files = 0, equality_delete_files = 0;
    std::optional<int64_t> updated_ms, updated_by;
  };
  std::map<int64_t, int64_t> time_of_snapshot_;
  PartitionColumns partition_;
  std::map<std::string, size_t> index_;  // by the values of `partition_`
  std::vector<Sums> sums_;
};

}  // namespace firn::iceberg
