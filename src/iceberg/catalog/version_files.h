// Names of metadata files, and what version-hint.text may say (cases 7 and 8). Text only: no file is opened here.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace firn::iceberg {

// "v3.metadata.json" (Hadoop's tables and ours) or "00003-<uuid>.metadata.json" (tables of other catalogs), plain or
// gzip: "….gz.metadata.json", and "….metadata.json.gz" of older writers.
struct MetadataFileName {
  int64_t version = 0;
  bool is_numbered = false;  // the first kind, whose name follows from the version alone
};
std::optional<MetadataFileName> parse_metadata_file_name(std::string_view name);
// What follows the last '/' of a path.
inline std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// Throws unsupported if firn cannot publish a version after the one at `metadata_path`, since another catalog named it.
void check_may_publish(const std::string& location, const std::string& metadata_path);

// The name that firn publishes under, and every name that a numbered version may have (that one first).
std::string version_file_name(int64_t version);
std::array<std::string, 3> version_file_names(int64_t version);

// A hint is a number, or a metadata file's name with or without folders and suffix; white space around it is ignored.
struct VersionHint {
  int64_t version = 0;
  std::string file_name;  // empty: it was a number
};
std::optional<VersionHint> parse_version_hint(std::string_view text);

}  // namespace firn::iceberg
