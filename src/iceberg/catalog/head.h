// Finding the newest version of a table directory (protocols P1.5).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "iceberg/catalog/catalog.h"

namespace firn::iceberg {

struct TableFolder {
  std::shared_ptr<FileIO> io;
  std::string location;  // without a '/' at its end

  std::string metadata_folder() const;
  std::string version_path(int64_t version) const;  // where firn publishes it
  std::string hint_path() const;
};

// The file of a numbered version, under whichever of its names it has; nullopt if there is none.
std::optional<FileInfo> find_version(const TableFolder& folder, int64_t version);

// The version that the hint names; nullopt if it is missing or says nothing usable.
std::optional<int64_t> read_hint(const TableFolder& folder);

// The newest version in a listing, whoever named it; nullopt if there is no metadata file at all.
std::optional<int64_t> newest_listed_version(const TableFolder& folder);

// Whether the snapshots of `branch` in `head` lead back to `snapshot_id` (nullopt: to a first snapshot) without a gap
// (P1.6).
bool leads_back(const TableMetadata& head, const std::string& branch, std::optional<int64_t> snapshot_id);

struct Head {
  LoadedTable table;
  // A version that belongs to another table, if one was met on the way: an old writer died before its check (P1.5).
  std::string stray_path, stray_uuid;
};

// The head at one moment during the call: after v<N+1> was seen to be absent, v<N> and the hint were still those read.
// Old versions go oldest first and after the hint (P1.4), so nothing was above N at that moment. `known`, a version
// this process has seen (may be null), saves reading it again. nullopt: no table. Throws corrupt for a head that cannot
// be parsed, or that the hint names and that is gone with all above it (never a lower version in its stead);
// invalid_argument for a folder that holds tables; busy if the table moves faster than it can be read.
std::optional<Head> find_head(const TableFolder& folder, const LoadedTable* known);

}  // namespace firn::iceberg
