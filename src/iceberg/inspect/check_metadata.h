// What must hold within a table's metadata, no other file opened but statistics.
#pragma once

#include "base/json.h"
#include "iceberg/inspect/findings.h"

namespace firn::iceberg {

void check_metadata(const TableMetadata& metadata, Findings& findings);

// Members that the format version requires, and those that parsing mends.
void check_metadata_json(const Json& json, const TableMetadata& metadata, const std::string& object,
                         Findings& findings);

// Statistics files: there, of the recorded size, with the recorded blobs.
void check_statistics(const TableMetadata& metadata, FileIO& io, Findings& findings);

}  // namespace firn::iceberg
