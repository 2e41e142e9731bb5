// Rows to partitions, by a spec's transforms.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <arrow/record_batch.h>

#include "iceberg/transform.h"

namespace firn::iceberg {

// Numbers the partitions as it meets them, from 0. One thread.
class Partitioner {
 public:
  // Throws unsupported for a transform that firn does not know.
  Partitioner(const PartitionSpec& spec, const Schema& schema);

  // The partition of each row of a batch with to_arrow_schema(schema).
  std::vector<uint32_t> assign(const arrow::RecordBatch& batch);
  const std::vector<Value>& values(uint32_t partition) const { return partitions_[partition]; }  // in the spec's order
  size_t count() const { return partitions_.size(); }

 private:
  // Numbers one field's values.
  struct Coder {
    Transform transform;
    TypePtr source;
    TypePtr result;
    int32_t source_id = 0;
    std::vector<Value> values;                           // by code
    std::unordered_map<std::string, uint32_t> codes;     // of a value's bytes; null is its own key
    std::unordered_map<int64_t, uint32_t> code_of_step;  // of sources that have one value for sure, such as a day

    void assign(const arrow::Array& array, std::vector<uint32_t>& out);
    uint32_t code_of(const Value& source_value);
    std::optional<int64_t> step_width() const;
  };

  Schema schema_;
  std::vector<Coder> coders_;
  std::vector<std::vector<Value>> partitions_;
  std::unordered_map<std::string, uint32_t> partition_of_codes_;
};

// Where files of that partition go below `data_folder`: its partition_path(), as other engines have it. A folder's name
// above 200 bytes, which disks refuse from 256 on, is cut there and ends with a hash of the whole. Readers take values
// from the metadata alone.
std::string partition_folder(const std::string& data_folder, const PartitionSpec& spec,
                             const std::vector<Value>& values, const Schema& schema);

}  // namespace firn::iceberg
