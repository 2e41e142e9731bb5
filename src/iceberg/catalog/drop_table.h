// A table of a filesystem catalog, taken away.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "io/file_io.h"

namespace firn::iceberg {

struct DropOptions {
  bool dry_run = false;
};

struct DroppedTable {
  int64_t files = 0, bytes = 0;   // that went, or would go
  int64_t kept_files = 0;         // below the location and neither in its folder metadata nor in data
  std::vector<std::string> kept;  // the first 100 of them
};

// Removes the table at `location`: its metadata versions, oldest first, the hint, then all other files in its folders
// metadata and data, with what killed writers left there. Once the newest version has gone there is no table, and a
// crash leaves files that no table names. Files that the table keeps elsewhere stay. Throws not_found if there is no
// table; unsupported for another catalog's, which would go on naming it; invalid_argument where gc.enabled is false,
// since its files may be another table's; commit_conflict if a version was published meanwhile: the table stands with
// that one, and no data file was removed.
DroppedTable drop_filesystem_table(const std::shared_ptr<FileIO>& io, const std::string& location,
                                   const DropOptions& options);

}  // namespace firn::iceberg
