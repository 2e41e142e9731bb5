// Where a cache keeps what: partition folders, cursors, generations.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hyp/cache/cache.h"

namespace firn::hyp {

constexpr std::string_view kTablePrefix = "table-";  // of the generations' folders; a number follows

// cursor.json of a partition: {v, tableDir, cacheId}.
struct Cursor {
  std::string table_dir;  // of the live generation, in the partition's folder
  std::string cache_id;
};
std::optional<Cursor> read_cursor(
    const std::string& partition_folder);  // throws corrupt or io if it is there and unreadable
void write_cursor(const std::string& partition_folder, const Cursor& cursor);  // durable when it returns

// Partitions that have a cursor or a generation, sorted; of one dataset if it is given.
std::vector<PartitionId> list_partitions(const std::string& cache_root, const std::optional<std::string>& dataset = {});

// The table's directory of a generation, and the lock that its readers share.
std::string generation_folder(const std::string& partition_folder, const std::string& table_dir);
std::string generation_lock_path(const std::string& partition_folder, const std::string& table_dir);

// The live generation's directory under its shared lock (P7): the cursor is read again once the lock is held, so that
// what is held is what the cursor named at that moment. nullopt: no cursor. Throws corrupt if it was lost: a table with
// rows is there.
struct HeldGeneration {
  FileLock lock;
  std::string location;
};
std::optional<HeldGeneration> hold_generation(const std::string& partition_folder);

}  // namespace firn::hyp
