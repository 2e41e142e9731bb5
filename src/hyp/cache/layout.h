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

// What the last compaction of a partition did, and left: it is the measure of what came since (P7).
struct CompactionRecord {
  std::string at;                      // ISO 8601
  std::optional<int64_t> snapshot_id;  // that the generation began with; while it is the head, nothing came
  int64_t rows = 0, files = 0, bytes = 0, metadata_bytes = 0;  // after it
  int64_t gatherable_files = 0;                                // that it would have rewritten once more
  int64_t files_before = 0, bytes_before = 0;
  int64_t files_rewritten = 0, duplicates_dropped = 0;
};

// cursor.json of a partition: {v, tableDir, cacheId, compaction: {…}}.
struct Cursor {
  std::string table_dir;  // of the live generation, in the partition's folder
  std::string cache_id;
  std::optional<CompactionRecord> compaction;  // that made the generation; nullopt: none did, or it is unreadable
  Json unknown_members;                        // of later versions; null: none. Written back
};
std::optional<Cursor> read_cursor(
    const std::string& partition_folder);  // throws corrupt or io if it is there and unreadable
void write_cursor(const std::string& partition_folder, const Cursor& cursor);  // durable when it returns

// Partitions that have a cursor or a generation, sorted; of one dataset if it is given.
std::vector<PartitionId> list_partitions(const std::string& cache_root, const std::optional<std::string>& dataset = {});

// The name of the generation's directory, as a cursor has it.
std::string table_dir_of(const HeldTable& held);
// The table's directory of a generation, and the lock that its readers share.
std::string generation_folder(const std::string& partition_folder, const std::string& table_dir);
std::string generation_lock_path(const std::string& partition_folder, const std::string& table_dir);
// The n of "table-<n>"; below all of them for "epoch=<n>", which other systems' caches have (spec, fact 2); nullopt:
// another name.
std::optional<int64_t> generation_number(std::string_view table_dir);
// The partition's generations, live or not, by number.
std::vector<std::string> list_generations(const std::string& partition_folder);

// The live generation's directory under its shared lock (P7): the cursor is read again once the lock is held, so that
// what is held is what the cursor named at that moment. nullopt: no cursor. Throws corrupt if it was lost: a table with
// rows is there.
struct HeldGeneration {
  GenerationLock lock;
  std::string location;
};
std::optional<HeldGeneration> hold_generation(const std::string& partition_folder);

}  // namespace firn::hyp
