// Entries of data files that are written and not committed, as a task returns them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "iceberg/manifest/manifest.h"

namespace firn::orca {

// Crosses processes as encode() writes it; an aggregate that holds one and plain fields crosses with it.
struct DataFiles {
  std::vector<iceberg::DataFile> files;
  // The schemas that they were written under, each once. What they say of a field id must still hold where they are
  // committed (P2); entries that come without one are taken as they are.
  std::vector<iceberg::Schema> schemas;

  DataFiles() = default;
  DataFiles(std::vector<iceberg::DataFile> entries) : files(std::move(entries)) {}  // NOLINT: entries are data files
  size_t size() const { return files.size(); }
  bool empty() const { return files.empty(); }

  // Appends other's entries, e.g. from another task.
  void add(const DataFiles& other);

  // Appends every field of each entry, behind a version, in bytes that say where they end.
  void encode(std::string& out) const;
  // What encode() wrote at buf[pos…]; pos moves past it. Throws corrupt, and then pos is where it was; unsupported for
  // a later version.
  static DataFiles decode(std::string_view buf, size_t& pos);
};

}  // namespace firn::orca
