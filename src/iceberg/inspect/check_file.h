// What must hold for one data or delete file: what its entry says of itself, and what its content says of the entry.
#pragma once

#include <string>
#include <unordered_map>

#include "iceberg/inspect/findings.h"
#include "iceberg/manifest/manifest.h"

namespace firn::iceberg {

// Live data files of the snapshot with their record counts: what deletes may point at.
using RecordCounts = std::unordered_map<std::string, int64_t>;

// The entry alone.
void check_file_entry(const DataFile& file, const TableMetadata& metadata, const Schema& schema, Findings& findings);

struct FileCheck {
  const TableMetadata& metadata;
  const Schema& schema;  // of the snapshot
  FileIO& io;
  const RecordCounts& data_files;  // for delete files
  bool is_new = false;             // added by the snapshot that is verified: its targets must be live
  bool check_data = false;
};
// The file is there, has its size, and with check_data its rows agree with its entry. Thread-safe.
void check_file(const DataFile& file, const FileCheck& check, Findings& findings);

}  // namespace firn::iceberg
