#include "hyp/cache/layout.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "base/civil_time.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/uri.h"

namespace firn::hyp {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSourcePrefix = "source=";

// Names of the directories right in `folder`; none if it is absent.
std::vector<std::string> subfolders(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->is_directory()) names.push_back(it->path().filename().string());
  }
  if (error && error != std::errc::no_such_file_or_directory) fail_errno(error.value(), "list " + folder);
  return names;
}

// A folder whose name is not ours to decode is no partition: someone else put it there.
std::optional<std::string> decode_or_skip(const std::string& folder, std::string_view segment) {
  try {
    return decode_segment(segment);
  } catch (const Error& e) {
    spdlog::warn("{} holds a folder that is no cache partition: {}", folder, e.what());
    return std::nullopt;
  }
}

bool has_generation(const std::string& partition_folder) {
  const std::vector<std::string> names = subfolders(partition_folder);
  return std::any_of(names.begin(), names.end(),
                     [](const std::string& name) { return name.starts_with(kTablePrefix); });
}

std::string cursor_remedy(const std::string& partition_folder) {
  std::string tables;
  for (const std::string& name : subfolders(partition_folder)) {
    if (name.starts_with(kTablePrefix)) tables += (tables.empty() ? "" : ", ") + name;
  }
  const bool has_several = tables.find(',') != std::string::npos;
  return fmt::format(
      "Restore it, or write {{\"v\":1,\"tableDir\":\"{}\",\"cacheId\":\"…\"}} into it, with the cacheId of another "
      "partition's or of _hyp_ingest_seq.json{}",
      has_several ? "…" : tables,
      has_several ? fmt::format(", and of {} the one that holds the rows", tables) : std::string());
}

// Where no cursor was read: throws corrupt if a table with rows is there all the same. A crash between the first table
// and its cursor leaves an empty one.
void check_cursor_not_lost(const std::string& partition_folder) {
  const auto io = make_local_file_io();
  for (const std::string& name : subfolders(partition_folder)) {
    const std::string location = generation_folder(partition_folder, name);
    if (!name.starts_with(kTablePrefix) || !iceberg::filesystem_table_exists(*io, location)) continue;
    if (iceberg::open_filesystem_table(io, location)->load().metadata->current_snapshot() == nullptr) continue;
    if (read_cursor(partition_folder)) return;  // written meanwhile
    fail(ErrorKind::corrupt, "{} has no cursor.json, but {} holds rows. {}", partition_folder, location,
         cursor_remedy(partition_folder));
  }
}

constexpr const char* kCursorMembers[] = {"v", "tableDir", "cacheId", "updatedAt", "compaction"};

// Rows do not depend on it, and the next compaction writes it anew, so damage is passed over.
std::optional<CompactionRecord> read_compaction(const Json& cursor, const std::string& path) {
  const Json* json = find_member(cursor, "compaction");
  if (json == nullptr) return std::nullopt;
  try {
    CompactionRecord record;
    record.at = get_string(*json, "at", path);
    record.snapshot_id = find_int64(*json, "snapshot", path);
    record.rows = get_int64(*json, "rows", path);
    record.files = get_int64(*json, "files", path);
    record.bytes = get_int64(*json, "bytes", path);
    record.metadata_bytes = get_int64(*json, "metadataBytes", path);
    record.gatherable_files = get_int64(*json, "gatherableFiles", path);
    record.files_before = get_int64(*json, "filesBefore", path);
    record.bytes_before = get_int64(*json, "bytesBefore", path);
    record.files_rewritten = get_int64(*json, "filesRewritten", path);
    record.duplicates_dropped = get_int64(*json, "duplicatesDropped", path);
    return record;
  } catch (const Error& e) {
    spdlog::warn("the record of the last compaction is damaged: {}", e.what());
    return std::nullopt;
  }
}

Json to_json(const CompactionRecord& record) {
  Json json = {{"at", record.at}};
  if (record.snapshot_id) json["snapshot"] = *record.snapshot_id;
  json["rows"] = record.rows;
  json["files"] = record.files;
  json["bytes"] = record.bytes;
  json["metadataBytes"] = record.metadata_bytes;
  json["gatherableFiles"] = record.gatherable_files;
  json["filesBefore"] = record.files_before;
  json["bytesBefore"] = record.bytes_before;
  json["filesRewritten"] = record.files_rewritten;
  json["duplicatesDropped"] = record.duplicates_dropped;
  return json;
}

Cursor parse_cursor(const std::string& text, const std::string& path) {
  const Json json = parse_json(text, path);
  Cursor cursor{get_string(json, "tableDir", path), find_string(json, "cacheId", path).value_or(""), {}, {}};
  if (cursor.table_dir.empty() || cursor.table_dir[0] == '.' || cursor.table_dir.find('/') != std::string::npos) {
    fail(ErrorKind::corrupt, "{}: tableDir \"{}\" is no folder's name", path, cursor.table_dir);
  }
  cursor.compaction = read_compaction(json, path);
  for (const auto& [key, value] : json.items()) {
    const bool is_known =
        std::find(std::begin(kCursorMembers), std::end(kCursorMembers), key) != std::end(kCursorMembers);
    if (!is_known) cursor.unknown_members[key] = value;
  }
  return cursor;
}

}  // namespace

std::optional<Cursor> read_cursor(const std::string& partition_folder) {
  const std::string path = join_path(partition_folder, "cursor.json");
  const auto text = make_local_file_io()->read_if_exists(path);
  if (!text) return std::nullopt;
  try {
    return parse_cursor(*text, path);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::corrupt) throw;
    fail(ErrorKind::corrupt, "{}. {}", error.what(), cursor_remedy(partition_folder));
  }
}

void write_cursor(const std::string& partition_folder, const Cursor& cursor) {
  Json json = {{"v", 1},
               {"tableDir", cursor.table_dir},
               {"cacheId", cursor.cache_id},
               {"updatedAt", format_timestamp_ms_utc(now_ms())}};
  if (cursor.compaction) json["compaction"] = to_json(*cursor.compaction);
  if (!cursor.unknown_members.is_null()) json.update(cursor.unknown_members);
  replace_file(join_path(partition_folder, "cursor.json"), json.dump() + "\n");
}

std::vector<PartitionId> list_partitions(const std::string& cache_root, const std::optional<std::string>& dataset) {
  const std::string root = join_path(cache_root, "datasets");
  std::vector<PartitionId> partitions;
  for (const std::string& segment : dataset ? std::vector{encode_segment(*dataset)} : subfolders(root)) {
    const auto name = decode_or_skip(root, segment);
    if (!name) continue;
    const std::string folder = join_path(root, segment);
    for (const std::string& child : subfolders(folder)) {
      if (!child.starts_with(kSourcePrefix)) continue;
      const std::string partition_folder = join_path(folder, child);
      if (!fs::exists(join_path(partition_folder, "cursor.json")) && !has_generation(partition_folder)) continue;
      if (auto source = decode_or_skip(folder, std::string_view(child).substr(kSourcePrefix.size()))) {
        partitions.push_back({*name, *source});
      }
    }
  }
  std::sort(partitions.begin(), partitions.end());
  return partitions;
}

std::string table_dir_of(const HeldTable& held) {
  const std::string& location = held.operations->location();
  return location.substr(location.rfind('/') + 1);
}

std::string generation_folder(const std::string& partition_folder, const std::string& table_dir) {
  return join_path(partition_folder, table_dir);
}

std::string generation_lock_path(const std::string& partition_folder, const std::string& table_dir) {
  return join_path(partition_folder, table_dir + ".lock");
}

std::optional<int64_t> generation_number(std::string_view table_dir) {
  constexpr std::string_view kOlderPrefix = "epoch=";
  constexpr int64_t kOlder = int64_t{-1} << 62;
  const bool is_older = table_dir.starts_with(kOlderPrefix);
  if (!is_older && !table_dir.starts_with(kTablePrefix)) return std::nullopt;
  table_dir.remove_prefix(is_older ? kOlderPrefix.size() : kTablePrefix.size());
  int64_t number = 0;
  const char* const end = table_dir.data() + table_dir.size();
  const auto [after, error] = std::from_chars(table_dir.data(), end, number);
  if (error != std::errc() || after != end || number < 0 || number >= -kOlder) return std::nullopt;
  return is_older ? kOlder + number : number;
}

std::vector<std::string> list_generations(const std::string& partition_folder) {
  std::vector<std::string> names = subfolders(partition_folder);
  std::erase_if(names, [](const std::string& name) { return !generation_number(name); });
  std::sort(names.begin(), names.end(),
            [](const std::string& a, const std::string& b) { return *generation_number(a) < *generation_number(b); });
  return names;
}

std::optional<HeldGeneration> hold_generation(const std::string& partition_folder) {
  auto cursor = read_cursor(partition_folder);
  if (!cursor) {
    check_cursor_not_lost(partition_folder);
    cursor = read_cursor(partition_folder);
  }
  while (cursor) {
    GenerationLock lock(generation_lock_path(partition_folder, cursor->table_dir));
    lock.share();
    auto again = read_cursor(partition_folder);
    if (again && again->table_dir == cursor->table_dir) {
      return HeldGeneration{std::move(lock), generation_folder(partition_folder, cursor->table_dir)};
    }
    cursor = std::move(again);  // swapped in between: what we locked may be removed already
  }
  return std::nullopt;
}

}  // namespace firn::hyp
