// Deleted rows in, delete files out (Iceberg spec, "Position Delete Files", "Deletion Vectors", "Equality Delete
// Files").
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "iceberg/puffin/puffin.h"
#include "iceberg/write/append_writer.h"

namespace firn::iceberg {

// write.delete.granularity of position delete files. `file` (ours by default): one for each data file, which names it,
// so readers of other data files leave it alone; `partition`: one for each partition, for fewer files.
enum class DeleteGranularity : uint8_t { file, partition };
DeleteGranularity delete_granularity(const TableMetadata& metadata);  // throws invalid_argument naming the property

// Positions deleted from data files: deletion vectors, all in one Puffin file, where the table's format version is 3;
// else Parquet position delete files. Each is written under its data file's spec and partition. Files are durable when
// finish() returns, at paths that no other attempt uses. Memory follows the positions (PositionSet). One thread.
class PositionDeleteWriter {
 public:
  PositionDeleteWriter(std::shared_ptr<FileIO> io, const TableMetadata& metadata);
  ~PositionDeleteWriter();  // without finish(): what was written is removed as far as it can be
  // `positions` of `data_file` (path, spec id and partition are looked at). Each data file once; a deletion vector
  // replaces all earlier ones of its data file, so it needs their positions too. Empty ones are left out.
  void add(const DataFile& data_file, PositionSet positions);
  // A DataFile for each delete file and deletion vector, in the order of their (first) data file's path.
  std::vector<DataFile> finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The columns of equality delete files: those of `equality_ids` with the structs around them, and the sources of the
// default spec's partition fields. Throws invalid_argument for an id that is no column of a primitive type, or is
// within a list or map. Written by AppendWriter with WriteOptions::equality_ids.
Schema equality_delete_schema(const TableMetadata& metadata, const std::vector<int32_t>& equality_ids);

}  // namespace firn::iceberg
