// Where tables are found and how a new version of one is published (protocols P1).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "iceberg/metadata/table_metadata.h"
#include "io/file_io.h"

namespace firn::iceberg {

// A table as loaded. Immutable.
struct LoadedTable {
  std::shared_ptr<const TableMetadata> metadata;
  std::string metadata_path;
  int64_t version = 0;       // N of v<N>.metadata.json
  std::string file_version;  // FileInfo::version of that file when it was read (P1.3)
};

enum class PublishOutcome : uint8_t {
  landed,   // `next` is, or was, the head
  lost,     // proven: another's version stands in its place. Load again and stage again.
  unknown,  // no proof either way; nothing it names may be deleted
};

// One table, whatever holds it. Thread-safe.
class TableOperations {
 public:
  virtual ~TableOperations() = default;
  virtual const std::string& location() const = 0;
  virtual const std::shared_ptr<FileIO>& io() const = 0;
  // The newest version. Throws not_found if the table is gone or, since this object was opened, another's (table-uuid,
  // P1.3), corrupt for versions of different table-uuids and if the one that the hint names is gone (P1.5).
  virtual LoadedTable load() = 0;
  // Tries to make `next` the version after `base`; settles the outcome by P1.3 and P1.6 (`snapshot_id`, the one that
  // `next` adds, tells ours from others'; 0: none, then the bytes do). metadata-log, last-updated-ms are set here. An
  // outcome that is not clear is looked at again, and the same bytes put again, within commit.status-check.*. Throws
  // only where nothing of ours stands: unsupported (format version 1, another catalog's table), not_found (dropped and
  // re-created; what was put is taken back).
  struct Published {
    PublishOutcome outcome;
    LoadedTable table;
  };  // table: the new head if landed
  virtual Published publish(const LoadedTable& base, TableMetadata next, int64_t snapshot_id) = 0;
};

// The table directory `location` with metadata/v<N>.metadata.json and metadata/version-hint.text, or as another catalog
// laid it out (those can be read only). A table whose metadata says another location is read and written where it lies:
// io() is then relocated. Throws not_found if there is no table, invalid_argument if it is a folder of tables.
std::shared_ptr<TableOperations> open_filesystem_table(std::shared_ptr<FileIO> io, const std::string& location);
// Publishes version 1 at metadata.location. Throws already_exists if a table is there, commit_unknown without an
// answer.
LoadedTable create_filesystem_table(std::shared_ptr<FileIO> io, const TableMetadata& metadata);
bool filesystem_table_exists(FileIO& io, const std::string& location);

// `io`, or where `metadata` was written for another location than `folder`, one that finds its files below `folder`.
std::shared_ptr<FileIO> relocated_io(std::shared_ptr<FileIO> io, const std::string& folder,
                                     const TableMetadata& metadata);
// A local folder made absolute and clean ("./t/" is "/here/t"), a URI without '/' at its end.
std::string normal_location(const std::string& location);

// Identifiers are "namespace.table", each part without '.' or '/'.
class Catalog {
 public:
  virtual ~Catalog() = default;
  virtual std::shared_ptr<TableOperations> table(const std::string& identifier) = 0;  // throws not_found
  virtual LoadedTable create(const std::string& identifier, const Schema& schema, const PartitionSpec& spec,
                             const SortOrder& order, const std::map<std::string, std::string>& properties) = 0;
  virtual std::vector<std::string> list() = 0;  // identifiers, sorted
};
std::unique_ptr<Catalog> make_filesystem_catalog(std::shared_ptr<FileIO> io, const std::string& warehouse);

}  // namespace firn::iceberg
