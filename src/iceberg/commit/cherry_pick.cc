#include "iceberg/commit/cherry_pick.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "base/clock.h"
#include "base/error.h"
#include "iceberg/commit/manifest_cache.h"
#include "iceberg/manifest/file_identity.h"
#include "iceberg/manifest/snapshot_manifests.h"
#include "iceberg/metadata/changes.h"

namespace firn::iceberg {
namespace {

constexpr const char* kStagedId = "wap.id";
constexpr const char* kPublishedId = "published-wap-id";
constexpr const char* kSource = "source-snapshot-id";

std::string summary_value(const Snapshot& snapshot, const char* key) {
  const auto found = snapshot.summary.find(key);
  return found == snapshot.summary.end() ? std::string() : found->second;
}

const Snapshot& source_of(const TableMetadata& metadata, int64_t snapshot_id) {
  const Snapshot* source = metadata.find_snapshot(snapshot_id);
  if (source == nullptr)
    fail(ErrorKind::not_found, "table {} has no snapshot {} to pick; it may have expired", metadata.location,
         snapshot_id);
  return *source;
}

std::optional<int64_t> head_of(const TableMetadata& metadata, const std::string& branch) {
  const auto ref = metadata.refs.find(branch);
  if (ref == metadata.refs.end()) {
    if (branch == "main") return std::nullopt;
    fail(ErrorKind::not_found, "table {} has no branch {}; make it first", metadata.location, branch);
  }
  if (!ref->second.is_branch)
    fail(ErrorKind::invalid_argument, "table {}: {} is a tag, which takes no commits", metadata.location, branch);
  return ref->second.snapshot_id;
}

// The snapshot of `branch` that is `source` or a pick of it.
std::optional<int64_t> find_picked(const TableMetadata& metadata, const Snapshot& source, const std::string& branch) {
  for (const int64_t id : ancestor_ids(metadata, head_of(metadata, branch))) {
    if (id == source.snapshot_id ||
        summary_value(*metadata.find_snapshot(id), kSource) == std::to_string(source.snapshot_id))
      return id;
  }
  return std::nullopt;
}

// Throws already_exists if the branch has what `source` did. `shares_id`: another snapshot was staged under the same
// wap.id, so that its publication says nothing of this one.
void check_not_picked(const TableMetadata& metadata, const Snapshot& source, const std::string& branch,
                      bool shares_id) {
  if (const auto id = find_picked(metadata, source, branch))
    fail(ErrorKind::already_exists, "table {}: branch {} has snapshot {} already, as {}", metadata.location, branch,
         source.snapshot_id, *id);
  const std::string wap_id = shares_id ? std::string() : summary_value(source, kStagedId);
  for (const int64_t id : ancestor_ids(metadata, head_of(metadata, branch))) {
    const Snapshot& ancestor = *metadata.find_snapshot(id);
    if (!wap_id.empty() &&
        (summary_value(ancestor, kStagedId) == wap_id || summary_value(ancestor, kPublishedId) == wap_id))
      fail(ErrorKind::already_exists, "table {}: what was staged as {} is published on branch {} already, as {}",
           metadata.location, wap_id, branch, id);
  }
}

// Moves the branch to `snapshot_id` if that follows its head. False: it does not.
bool fast_forward_to(TableOperations& table, int64_t snapshot_id, const std::string& branch, bool shares_id,
                     CommitResult& result) {
  bool follows = false;
  result = commit_metadata(table, [&](TableMetadata& next) {
    const Snapshot& source = source_of(next, snapshot_id);
    const std::optional<int64_t> head = head_of(next, branch);
    follows = head == snapshot_id;  // an earlier try of this call
    if (follows || source.parent_snapshot_id != head) return false;
    check_not_picked(next, source, branch, shares_id);  // a wap.id that was published otherwise
    follows = true;
    return set_current_snapshot(next, snapshot_id, now_ms(), branch);
  });
  result.snapshot_id = snapshot_id;
  return follows;
}

// What `source` itself added and removed.
SnapshotChange change_of(const TableMetadata& metadata, const Snapshot& source, FileIO& io) {
  SnapshotChange change;
  change.operation = source.operation();
  if (source.schema_id) change.written_schema = metadata.schema(*source.schema_id);
  const auto read = [&](const std::string& path) { return *manifest_cache().read(io, path); };
  for (const ManifestFile& manifest : snapshot_manifests(metadata, source, read)) {
    if (manifest.added_snapshot_id != source.snapshot_id) continue;
    const auto bytes = manifest_cache().read(io, manifest.manifest_path);
    for (ManifestEntry& entry : read_manifest(*bytes, manifest, metadata.spec(manifest.partition_spec_id),
                                              metadata.schema(), /*live_only=*/false)) {
      if (entry.status == EntryStatus::existing || entry.snapshot_id != source.snapshot_id) continue;
      entry.file.partition_spec_id = manifest.partition_spec_id;
      (entry.status == EntryStatus::added ? change.added : change.removed).push_back(std::move(entry.file));
    }
  }
  return change;
}

bool is_data(const DataFile& file) { return file.content == FileContent::data; }

// Every file is there only once, and its partition holds what it held when `source` was made.
ReadCheck unchanged_partitions(const SnapshotChange& change, const Snapshot& source) {
  ReadCheck check;
  check.since_snapshot_id = source.parent_snapshot_id;
  for (const std::vector<DataFile>* files : {&change.added, &change.removed})
    for (const DataFile& file : *files) check.partitions.push_back({file.partition_spec_id, file.partition});
  check.no_added_data = check.no_added_deletes = check.no_removed_data = true;
  return check;
}

CommitResult pick(TableOperations& table, int64_t snapshot_id, const std::string& branch, bool shares_id) {
  CommitResult result;
  const LoadedTable base = table.load();
  check_not_picked(*base.metadata, source_of(*base.metadata, snapshot_id), branch, shares_id);
  if (fast_forward_to(table, snapshot_id, branch, shares_id, result)) return result;

  const TableMetadata& metadata = *base.metadata;
  const Snapshot& source = source_of(metadata, snapshot_id);
  const bool is_append = source.operation() == "append";
  const bool is_replacement =
      source.operation() == "overwrite" && summary_value(source, "replace-partitions") == "true";
  if (!is_append && !is_replacement)
    fail(ErrorKind::unsupported,
         "table {}: snapshot {} is {} that does not follow the head of {}: only an append or a dynamic partition "
         "overwrite can be applied again; redo the operation there",
         metadata.location, snapshot_id,
         source.operation().empty() ? "a change" : "a change of kind " + source.operation(), branch);
  SnapshotChange change = change_of(metadata, source, *table.io());
  const bool has_deletes = !std::all_of(change.added.begin(), change.added.end(), is_data);
  if (has_deletes || (is_append && !change.removed.empty()))
    fail(ErrorKind::unsupported,
         "table {}: snapshot {} says {} and {}: it cannot be applied again; redo the operation on {}",
         metadata.location, snapshot_id, source.operation(), has_deletes ? "adds delete files" : "removes files",
         branch);
  change.branch = branch;
  change.summary[kSource] = std::to_string(snapshot_id);
  if (const std::string wap_id = summary_value(source, kStagedId); !wap_id.empty())
    change.summary[kPublishedId] = wap_id;
  if (is_replacement && !(change.added.empty() && change.removed.empty()))
    change.read_check = unchanged_partitions(change, source);
  change.plan_try = [&](const TableMetadata& next, int64_t, int64_t) {
    check_not_picked(next, source, branch, shares_id);
    if (is_replacement && source.parent_snapshot_id &&
        !is_ancestor(next, *source.parent_snapshot_id, head_of(next, branch)))
      fail(ErrorKind::commit_conflict,
           "table {}: snapshot {} replaced partitions as snapshot {} had them, which is not in the history of {}; redo "
           "the operation there",
           next.location, snapshot_id, *source.parent_snapshot_id, branch);
    return TryPlan();
  };
  return commit_snapshot(table, change);
}

}  // namespace

CommitResult cherry_pick(TableOperations& table, int64_t snapshot_id, const std::string& branch) {
  return pick(table, snapshot_id, branch, /*shares_id=*/false);
}

CommitResult publish_staged(TableOperations& table, const std::string& wap_id, const std::string& branch) {
  const LoadedTable base = table.load();
  std::vector<int64_t> staged;
  for (const Snapshot& snapshot : base.metadata->snapshots)
    if (summary_value(snapshot, kStagedId) == wap_id) staged.push_back(snapshot.snapshot_id);
  if (wap_id.empty() || staged.empty())
    fail(ErrorKind::not_found, "table {} has no snapshot staged as '{}'", base.metadata->location, wap_id);
  const bool shares_id = staged.size() > 1;
  std::vector<int64_t> waiting;
  for (const int64_t id : staged)
    if (!find_picked(*base.metadata, source_of(*base.metadata, id), branch)) waiting.push_back(id);
  if (waiting.size() > 1)
    fail(ErrorKind::invalid_argument, "table {}: snapshots {} are staged as '{}': cherry-pick one by its id",
         base.metadata->location, fmt::join(waiting, ", "), wap_id);
  return pick(table, waiting.empty() ? staged.front() : waiting.front(), branch, shares_id);
}

}  // namespace firn::iceberg
