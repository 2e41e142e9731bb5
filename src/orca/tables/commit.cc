#include "orca/tables/commit.h"

#include <algorithm>

#include "base/error.h"
#include "base/fault_point.h"
#include "base/log.h"
#include "base/parallel.h"
#include "iceberg/commit/history.h"
#include "iceberg/manifest/file_identity.h"
#include "orca/tables/file_owners.h"
#include "orca/tables/replace.h"
#include "orca/tables/step_commit.h"

namespace firn::orca {
namespace {

constexpr const char* kAppend = "append";
constexpr const char* kReplacePartitions = "replace_partitions";
constexpr const char* kCommit = "commit";
constexpr int kStatThreads = 16;

// Best effort: what stays is named by no snapshot and falls to orphan removal.
void remove_files(const DataFiles& files, FileIO& io) {
  for (const iceberg::DataFile& file : files.files) {
    try {
      io.remove(file.file_path);
    } catch (const Error& e) {
      spdlog::debug("remove {}: {}", file.file_path, e.what());
    }
  }
}

// Commits files that this call wrote: they go again where no snapshot names them.
template <class Commit>
int64_t commit_own_files(const DataFiles& files, FileIO& io, const Commit& commit_files) {
  bool is_recognised = false;
  try {
    const int64_t snapshot_id = commit_files(is_recognised);
    if (is_recognised) remove_files(files, io);
    return snapshot_id;
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::commit_unknown) remove_files(files, io);
    throw;
  }
}

// Files written elsewhere may be old enough to have been taken for orphans (P15).
void check_files_exist(const DataFiles& files, const Table& table) {
  for (const iceberg::DataFile& file : files.files) {
    if (file.content != iceberg::FileContent::data)
      fail(ErrorKind::invalid_argument, "{}: {} is a delete file; commit() commits those, append_files only data files",
           table.title(), file.file_path);
  }
  parallel_for(files.size(), kStatThreads, [&](size_t i) {
    const iceberg::DataFile& file = files.files[i];
    const std::optional<FileInfo> info = table.io()->stat(file.file_path);
    if (!info)
      fail(ErrorKind::not_found, "{}: data file {} is not there (any more); write it again", table.title(),
           file.file_path);
    if (info->size_bytes != file.file_size_bytes)
      fail(ErrorKind::corrupt, "{}: data file {} has {} bytes, and its entry says {}; write it again", table.title(),
           file.file_path, info->size_bytes, file.file_size_bytes);
  });
}

int64_t publish_append(StepCommit& step, const DataFiles& files, bool& is_recognised) {
  iceberg::SnapshotChange change;
  change.added = files.files;
  return step.publish(
      std::move(change), [&](const iceberg::TableMetadata& base) { check_schemas(base, files); }, is_recognised);
}

// The snapshot that the caller planned its change on.
std::optional<int64_t> read_snapshot_of(Ctx& ctx, const Table& table, const FileChanges& files) {
  const iceberg::TableMetadata& metadata = table.metadata();
  const auto known = [&](int64_t id) -> const iceberg::Snapshot& {
    const iceberg::Snapshot* snapshot = metadata.find_snapshot(id);
    if (!snapshot)
      fail(ErrorKind::commit_conflict,
           "{}: snapshot {}, which the change was planned on, has expired; nothing was committed. Plan it again",
           table.title(), id);
    return *snapshot;
  };
  if (files.read_snapshot_id) return known(*files.read_snapshot_id).snapshot_id;
  const iceberg::Snapshot* oldest = metadata.current_snapshot();
  for (const Pin& pin : ctx.record().pins()) {
    if (pin.table_uuid != metadata.table_uuid || !pin.snapshot_id) continue;
    const iceberg::Snapshot& pinned = known(*pin.snapshot_id);
    if (!oldest || pinned.sequence_number < oldest->sequence_number) oldest = &pinned;
  }
  return oldest ? std::optional(oldest->snapshot_id) : std::nullopt;
}

// Whose the removed files are, on a try's base. Files that are gone are left to the commit, which refuses them.
void check_owners(const iceberg::TableMetadata& base, const iceberg::SnapshotChange& change, const AttemptId& id,
                  const Table& table) {
  FileOwners owners(base, *table.io(), id, table.title());
  for (const iceberg::ManifestEntry& entry : taken_entries(base, change, *table.io())) owners.check_not_later(entry);
}

}  // namespace

std::optional<int64_t> find_commit(Ctx& ctx, const Table& table) {
  const Table now(table.operations());
  const int64_t floor = recorded_floor(ctx, now);
  const auto found = find_own(ctx.id(), now.metadata(), ctx.next_commit(now.location()), floor, now.title());
  return found ? std::optional(found->snapshot_id) : std::nullopt;
}

int64_t append(Ctx& ctx, Table& table, const Batches& batches) {
  check_writes(ctx, table.location());
  if (is_replaced(ctx, table.location())) return replace_partitions(ctx, table, batches);
  StepCommit step(ctx, table, kAppend, kAppend);
  if (const auto landed = step.landed()) return *landed;
  const DataFiles files = write_files(table, batches);
  fault_point("orca.files_written");
  return commit_own_files(files, *table.io(),
                          [&](bool& is_recognised) { return publish_append(step, files, is_recognised); });
}

int64_t append_files(Ctx& ctx, Table& table, const DataFiles& files) {
  check_writes(ctx, table.location());
  if (is_replaced(ctx, table.location())) return replace_partition_files(ctx, table, files);
  StepCommit step(ctx, table, kAppend, kAppend);
  if (const auto landed = step.landed()) return *landed;
  check_files_exist(files, table);
  bool is_recognised = false;
  return publish_append(step, files, is_recognised);
}

int64_t commit(Ctx& ctx, Table& table, const std::string& operation, const FileChanges& files) {
  check_writes(ctx, table.location());
  if (operation != "append" && operation != "overwrite" && operation != "delete" && operation != "replace")
    fail(ErrorKind::invalid_argument, "{}: a snapshot's operation is append, overwrite, delete or replace, not '{}'",
         table.title(), operation);
  // Before anything is loaded anew: it is what the caller planned with.
  const Table planned = table;
  StepCommit step(ctx, table, kCommit, operation);
  if (const auto landed = step.landed()) return *landed;

  iceberg::SnapshotChange change;
  change.operation = operation;
  change.added = files.added;
  change.removed = files.removed;
  if (!files.removed.empty() || std::any_of(files.added.begin(), files.added.end(), [](const iceberg::DataFile& file) {
        return file.content != iceberg::FileContent::data;
      })) {
    change.read_check.emplace();
    change.read_check->since_snapshot_id = read_snapshot_of(ctx, planned, files);
    change.read_check->no_added_deletes = true;
    const iceberg::Snapshot* read = change.read_check->since_snapshot_id
                                        ? planned.metadata().find_snapshot(*change.read_check->since_snapshot_id)
                                        : nullptr;
    if (operation == "replace" && read) change.data_sequence_number = read->sequence_number;
  }
  for (const iceberg::DataFile& file : files.added) {
    if (file.content != iceberg::FileContent::position_deletes) continue;
    if (std::string target = iceberg::single_data_file(file); !target.empty())
      change.required_data_files.push_back(std::move(target));
  }
  const iceberg::SnapshotChange removal = change;
  bool is_recognised = false;
  return step.publish(
      std::move(change),
      [&](const iceberg::TableMetadata& base) {
        if (operation != "replace" && !removal.removed.empty()) check_owners(base, removal, ctx.id(), table);
      },
      is_recognised);
}

int64_t replace_partitions(Ctx& ctx, Table& table, const Batches& batches) {
  check_writes(ctx, table.location());
  StepCommit step(ctx, table, kReplacePartitions, "");
  if (const auto landed = step.landed()) return *landed;
  const DataFiles files = write_files(table, batches);
  fault_point("orca.files_written");
  return commit_own_files(files, *table.io(), [&](bool& is_recognised) {
    return publish_replacement(ctx, table, step, files, is_recognised);
  });
}

int64_t replace_partition_files(Ctx& ctx, Table& table, const DataFiles& files) {
  check_writes(ctx, table.location());
  StepCommit step(ctx, table, kReplacePartitions, "");
  if (const auto landed = step.landed()) return *landed;
  check_files_exist(files, table);
  bool is_recognised = false;
  return publish_replacement(ctx, table, step, files, is_recognised);
}

}  // namespace firn::orca
