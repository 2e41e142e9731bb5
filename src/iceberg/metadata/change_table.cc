// Properties, format version, location, statistics.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/uuid.h"
#include "iceberg/metadata/changes.h"
#include "iceberg/metadata/properties.h"

namespace firn::iceberg {

namespace {

// They are fields of the metadata; Java Iceberg reserves the same names.
constexpr std::array<std::string_view, 9> kReserved = {"format-version",
                                                       "uuid",
                                                       "snapshot-count",
                                                       "current-snapshot-summary",
                                                       "current-snapshot-id",
                                                       "current-schema",
                                                       "default-partition-spec",
                                                       "default-sort-order",
                                                       "current-snapshot-timestamp-ms"};

void check_property_name(const std::string& key) {
  if (key.empty()) fail(ErrorKind::invalid_argument, "A property needs a name");
  if (std::find(kReserved.begin(), kReserved.end(), key) == kReserved.end()) return;
  fail(ErrorKind::invalid_argument, "Property {}: the name is reserved{}", key,
       key == "format-version" ? "; upgrade the format version instead" : " for the table's own metadata");
}

}  // namespace

bool update_properties(TableMetadata& metadata, const std::map<std::string, std::string>& set,
                       const std::vector<std::string>& remove) {
  for (const auto& [key, value] : set) {
    check_property_name(key);
    if (std::find(remove.begin(), remove.end(), key) != remove.end())
      fail(ErrorKind::invalid_argument, "Property {} is to be set and to be removed: choose one", key);
  }
  check_properties(set);
  for (const std::string& key : remove) check_property_name(key);

  bool changed = false;
  for (const auto& [key, value] : set) {
    const auto [property, added] = metadata.properties.try_emplace(key, value);
    changed |= added || property->second != value;
    property->second = value;
  }
  for (const std::string& key : remove) changed |= metadata.properties.erase(key) > 0;
  return changed;
}

bool upgrade_format_version(TableMetadata& metadata, int32_t format_version) {
  if (format_version == metadata.format_version) return false;
  if (format_version < metadata.format_version)
    fail(ErrorKind::invalid_argument, "table {} is of format version {}, which cannot go down to {}", metadata.location,
         metadata.format_version, format_version);
  if (format_version > 3)
    fail(ErrorKind::invalid_argument, "format version {}; firn writes versions 2 and 3", format_version);
  if (metadata.format_version < 2 && metadata.table_uuid.empty()) metadata.table_uuid = uuid_v4();
  if (metadata.format_version < 3) metadata.next_row_id = 0;  // spec, "Row Lineage for Upgraded Tables"
  metadata.format_version = format_version;
  return true;
}

bool set_location(TableMetadata& metadata, const std::string& location) {
  std::string clean = location;
  while (clean.size() > 1 && clean.ends_with('/')) clean.pop_back();
  if (clean.empty()) fail(ErrorKind::invalid_argument, "A table needs a location");
  if (clean == metadata.location) return false;
  metadata.location = std::move(clean);
  return true;
}

// --- statistics

namespace {

std::optional<int64_t> snapshot_of(const Json& file) { return find_int64(file, "snapshot-id", "a statistics file"); }

// Throws invalid_argument unless `file` has what the specification requires and is of a snapshot that is there.
void check_statistics(const TableMetadata& metadata, const Json& file, bool of_table) {
  try {
    const std::string where = "the statistics file";
    if (!file.is_object()) fail(ErrorKind::corrupt, "{} is no JSON object", where);
    const int64_t snapshot_id = get_int64(file, "snapshot-id", where);
    get_string(file, "statistics-path", where);
    get_int64(file, "file-size-in-bytes", where);
    if (of_table) {
      get_int64(file, "file-footer-size-in-bytes", where);
      for (const Json& blob : get_array(file, "blob-metadata", where)) {
        get_string(blob, "type", where);
        get_int64(blob, "snapshot-id", where);
        get_int64(blob, "sequence-number", where);
        get_array(blob, "fields", where);
      }
    }
    if (metadata.find_snapshot(snapshot_id) == nullptr)
      fail(ErrorKind::corrupt, "{} is of snapshot {}, which the table does not have", where, snapshot_id);
  } catch (const Error& e) {
    throw Error(ErrorKind::invalid_argument, "table " + metadata.location, e);
  }
}

bool set_file(std::vector<Json>& files, const Json& file) {
  const auto old = std::find_if(files.begin(), files.end(),
                                [&](const Json& known) { return snapshot_of(known) == snapshot_of(file); });
  if (old == files.end()) {
    files.push_back(file);
    return true;
  }
  if (*old == file) return false;
  *old = file;
  return true;
}

bool remove_file(std::vector<Json>& files, int64_t snapshot_id) {
  return std::erase_if(files, [&](const Json& file) { return snapshot_of(file) == snapshot_id; }) > 0;
}

}  // namespace

bool set_statistics(TableMetadata& metadata, const Json& file) {
  check_statistics(metadata, file, true);
  return set_file(metadata.statistics, file);
}

bool set_partition_statistics(TableMetadata& metadata, const Json& file) {
  check_statistics(metadata, file, false);
  return set_file(metadata.partition_statistics, file);
}

bool remove_statistics(TableMetadata& metadata, int64_t snapshot_id) {
  return remove_file(metadata.statistics, snapshot_id);
}

bool remove_partition_statistics(TableMetadata& metadata, int64_t snapshot_id) {
  return remove_file(metadata.partition_statistics, snapshot_id);
}

}  // namespace firn::iceberg
