// Delete files that apply to no data file any more. Within maintain/ only.
#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "iceberg/manifest/manifest.h"
#include "io/file_io.h"

namespace firn::iceberg {

// The live delete files of `snapshot` that apply to none of its live data files, as paths, partitions and sequence
// numbers tell (Iceberg spec, "Scan Planning"). Data files whose path is in `gone` count as not there. Memory follows
// the number of delete files.
std::vector<DataFile> find_dangling_deletes(const TableMetadata& metadata, const Snapshot& snapshot, FileIO& io,
                                            const std::unordered_set<std::string>& gone = {});

}  // namespace firn::iceberg
