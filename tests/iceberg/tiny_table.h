// Tables of two columns whose data files are names only: for tests of versions and commits, which open no data file.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "iceberg/commit/commit.h"

namespace firn::iceberg {

inline Schema tiny_schema() {
  return Schema({Field{.id = 1, .name = "id", .required = false, .type = Type::primitive(TypeId::long_)},
                 Field{.id = 2, .name = "name", .required = false, .type = Type::primitive(TypeId::string)}});
}

// Waits are short, so that tests are.
inline std::map<std::string, std::string> tiny_properties(std::map<std::string, std::string> more = {}) {
  std::map<std::string, std::string> properties = {{"commit.retry.min-wait-ms", "1"},
                                                   {"commit.retry.max-wait-ms", "20"},
                                                   {"commit.status-check.min-wait-ms", "1"},
                                                   {"commit.status-check.max-wait-ms", "2"}};
  for (auto& [key, value] : more) properties[key] = value;
  return properties;
}

inline TableMetadata tiny_metadata(const std::string& location, std::map<std::string, std::string> properties = {}) {
  return new_table_metadata(location, tiny_schema(), {}, {}, tiny_properties(std::move(properties)), now_ms());
}

inline DataFile tiny_file(const std::string& path, int64_t num_records = 1, int64_t size_bytes = 100) {
  DataFile file;
  file.file_path = path;
  file.record_count = num_records;
  file.file_size_bytes = size_bytes;
  return file;
}

// An append of one file of one record.
inline SnapshotChange tiny_append(const TableMetadata& metadata, const std::string& path) {
  SnapshotChange commit;
  commit.added = {tiny_file(path)};
  commit.written_schema = metadata.schema();
  commit.required_spec = metadata.spec();
  return commit;
}

inline std::vector<ManifestEntry> live_entries(const TableMetadata& metadata, const Snapshot& snapshot, FileIO& io) {
  std::vector<ManifestEntry> entries;
  for (const ManifestFile& manifest : read_manifest_list(io.read(snapshot.manifest_list), snapshot.manifest_list)) {
    for (ManifestEntry& entry : read_manifest(io.read(manifest.manifest_path), manifest,
                                              metadata.spec(manifest.partition_spec_id), metadata.schema(), true)) {
      entries.push_back(std::move(entry));
    }
  }
  return entries;
}

// Paths of the files live in the current snapshot, sorted, as often as they are live.
inline std::vector<std::string> live_paths(TableOperations& table) {
  const LoadedTable head = table.load();
  std::vector<std::string> paths;
  if (const Snapshot* snapshot = head.metadata->current_snapshot()) {
    for (const ManifestEntry& entry : live_entries(*head.metadata, *snapshot, *table.io())) {
      paths.push_back(entry.file.file_path);
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace firn::iceberg
