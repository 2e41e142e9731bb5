// Branches, tags, and which snapshots are there.
#include <algorithm>
#include <set>

#include <fmt/ranges.h>

#include "base/civil_time.h"
#include "base/error.h"
#include "iceberg/metadata/changes.h"

namespace firn::iceberg {

namespace {

constexpr const char* kMain = "main";

void check_snapshot(const TableMetadata& metadata, int64_t snapshot_id) {
  if (metadata.find_snapshot(snapshot_id) == nullptr)
    fail(ErrorKind::not_found, "table {} has no snapshot {}; it may have expired", metadata.location, snapshot_id);
}

const SnapshotRef& existing_ref(const TableMetadata& metadata, const std::string& name) {
  const auto ref = metadata.refs.find(name);
  if (ref != metadata.refs.end()) return ref->second;
  std::vector<std::string_view> known;
  for (const auto& [other, unused] : metadata.refs) known.push_back(other);
  fail(ErrorKind::not_found, "table {} has no branch or tag {}; it has: {}", metadata.location, name,
       known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")));
}

const SnapshotRef& existing_branch(const TableMetadata& metadata, const std::string& name) {
  const SnapshotRef& ref = existing_ref(metadata, name);
  if (!ref.is_branch)
    fail(ErrorKind::invalid_argument, "table {}: {} is a tag, which does not move; replace the tag instead",
         metadata.location, name);
  return ref;
}

void check_retention(const std::string& name, bool is_branch, const RefOptions& options) {
  if (!is_branch && (options.min_snapshots_to_keep || options.max_snapshot_age_ms))
    fail(ErrorKind::invalid_argument, "Tag {}: only a branch keeps snapshots before its own; a tag has a max ref age",
         name);
  if (name == kMain && options.max_ref_age_ms)
    fail(ErrorKind::invalid_argument, "Branch main never expires: it has no max ref age");
  if ((options.min_snapshots_to_keep && *options.min_snapshots_to_keep <= 0) ||
      (options.max_snapshot_age_ms && *options.max_snapshot_age_ms <= 0) ||
      (options.max_ref_age_ms && *options.max_ref_age_ms <= 0))
    fail(ErrorKind::invalid_argument, "Ref {}: numbers of snapshots to keep and ages are positive", name);
}

// All heads move here, so that main, the current snapshot and its log agree.
bool move_head(TableMetadata& metadata, const std::string& branch, int64_t snapshot_id, int64_t now_ms) {
  const auto [ref, added] = metadata.refs.try_emplace(branch);
  if (!added && ref->second.snapshot_id == snapshot_id) return false;
  ref->second.snapshot_id = snapshot_id;
  if (branch == kMain) {
    metadata.current_snapshot_id = snapshot_id;
    metadata.last_updated_ms = std::max(metadata.last_updated_ms, now_ms);  // the log does not run back
    metadata.snapshot_log.push_back({metadata.last_updated_ms, snapshot_id});
  }
  return true;
}

bool set_ref(TableMetadata& metadata, const std::string& name, bool is_branch, const RefOptions& options,
             int64_t now_ms) {
  const std::string_view kind = is_branch ? "branch" : "tag";
  if (name.empty()) fail(ErrorKind::invalid_argument, "A {} needs a name", kind);
  if (name == kMain && !is_branch) fail(ErrorKind::invalid_argument, "main is a branch: no tag can have that name");
  check_retention(name, is_branch, options);
  const std::optional<int64_t> wanted = options.snapshot_id ? options.snapshot_id : metadata.current_snapshot_id;
  if (!wanted)
    fail(ErrorKind::invalid_argument, "table {} has no snapshot yet for {} {} to name: append to it first",
         metadata.location, kind, name);
  check_snapshot(metadata, *wanted);

  SnapshotRef ref;
  ref.snapshot_id = *wanted;
  ref.is_branch = is_branch;
  ref.min_snapshots_to_keep = options.min_snapshots_to_keep;
  ref.max_snapshot_age_ms = options.max_snapshot_age_ms;
  ref.max_ref_age_ms = options.max_ref_age_ms;
  const auto old = metadata.refs.find(name);
  if (old != metadata.refs.end()) {
    const SnapshotRef& there = old->second;
    if (there.is_branch != is_branch)
      fail(ErrorKind::invalid_argument, "table {}: {} is a {}; remove it first, or choose another name",
           metadata.location, name, there.is_branch ? "branch" : "tag");
    if (there.snapshot_id == ref.snapshot_id && there.min_snapshots_to_keep == ref.min_snapshots_to_keep &&
        there.max_snapshot_age_ms == ref.max_snapshot_age_ms && there.max_ref_age_ms == ref.max_ref_age_ms)
      return false;
    if (!options.replace)
      fail(ErrorKind::already_exists, "table {} has a {} {} at snapshot {}: replace it, or choose another name",
           metadata.location, kind, name, there.snapshot_id);
    ref.unknown_members = there.unknown_members;
  }
  move_head(metadata, name, *wanted, now_ms);
  metadata.refs[name] = std::move(ref);
  return true;
}

}  // namespace

bool set_branch(TableMetadata& metadata, const std::string& name, const RefOptions& options, int64_t now_ms) {
  return set_ref(metadata, name, true, options, now_ms);
}

bool set_tag(TableMetadata& metadata, const std::string& name, const RefOptions& options, int64_t now_ms) {
  return set_ref(metadata, name, false, options, now_ms);
}

bool remove_ref(TableMetadata& metadata, const std::string& name) {
  if (name == kMain) fail(ErrorKind::invalid_argument, "Branch main cannot be removed");
  return metadata.refs.erase(name) > 0;
}

bool set_ref_retention(TableMetadata& metadata, const std::string& name, const RefOptions& options) {
  check_retention(name, existing_ref(metadata, name).is_branch, options);
  SnapshotRef& ref = metadata.refs.at(name);
  bool changed = false;
  const auto take = [&](auto& kept, const auto& wanted) {
    if (!wanted || kept == wanted) return;
    kept = wanted;
    changed = true;
  };
  take(ref.min_snapshots_to_keep, options.min_snapshots_to_keep);
  take(ref.max_snapshot_age_ms, options.max_snapshot_age_ms);
  take(ref.max_ref_age_ms, options.max_ref_age_ms);
  return changed;
}

bool fast_forward(TableMetadata& metadata, const std::string& branch, const std::string& to, int64_t now_ms) {
  const int64_t target = existing_ref(metadata, to).snapshot_id;
  if (metadata.refs.contains(branch)) {
    const int64_t head = existing_branch(metadata, branch).snapshot_id;
    if (!is_ancestor(metadata, head, target))
      fail(ErrorKind::invalid_argument,
           "table {}: {} cannot be fast-forwarded to {}, which does not descend from its head {}; cherry-pick instead",
           metadata.location, branch, to, head);
  } else if (branch.empty()) {
    fail(ErrorKind::invalid_argument, "A branch needs a name");
  }
  return move_head(metadata, branch, target, now_ms);
}

bool rollback_to_snapshot(TableMetadata& metadata, int64_t snapshot_id, int64_t now_ms, const std::string& branch) {
  const int64_t head = existing_branch(metadata, branch).snapshot_id;
  check_snapshot(metadata, snapshot_id);
  if (!is_ancestor(metadata, snapshot_id, head))
    fail(ErrorKind::invalid_argument,
         "table {}: snapshot {} is no ancestor of {}'s head {}, so that {} cannot be rolled back to it; set it as the "
         "current snapshot if that is what you want",
         metadata.location, snapshot_id, branch, head, branch);
  return move_head(metadata, branch, snapshot_id, now_ms);
}

bool rollback_to_time(TableMetadata& metadata, int64_t time_ms, int64_t now_ms, const std::string& branch) {
  for (const int64_t id : ancestor_ids(metadata, existing_branch(metadata, branch).snapshot_id))
    if (metadata.find_snapshot(id)->timestamp_ms < time_ms) return move_head(metadata, branch, id, now_ms);
  fail(ErrorKind::not_found, "table {}: branch {} has no snapshot from before {}", metadata.location, branch,
       format_timestamp_ms_utc(time_ms));
}

bool set_current_snapshot(TableMetadata& metadata, int64_t snapshot_id, int64_t now_ms, const std::string& branch) {
  check_snapshot(metadata, snapshot_id);
  if (branch != kMain || metadata.refs.contains(branch)) existing_branch(metadata, branch);
  return move_head(metadata, branch, snapshot_id, now_ms);
}

std::vector<int64_t> ancestor_ids(const TableMetadata& metadata, std::optional<int64_t> snapshot_id) {
  std::vector<int64_t> ids;
  std::set<int64_t> seen;  // damaged metadata may hold a ring
  const Snapshot* snapshot = snapshot_id ? metadata.find_snapshot(*snapshot_id) : nullptr;
  while (snapshot != nullptr && seen.insert(snapshot->snapshot_id).second) {
    ids.push_back(snapshot->snapshot_id);
    snapshot = snapshot->parent_snapshot_id ? metadata.find_snapshot(*snapshot->parent_snapshot_id) : nullptr;
  }
  return ids;
}

bool is_ancestor(const TableMetadata& metadata, int64_t ancestor, std::optional<int64_t> of) {
  const std::vector<int64_t> ids = ancestor_ids(metadata, of);
  return std::find(ids.begin(), ids.end(), ancestor) != ids.end();
}

bool remove_snapshots(TableMetadata& metadata, const std::vector<int64_t>& snapshot_ids) {
  const std::set<int64_t> ids(snapshot_ids.begin(), snapshot_ids.end());
  for (const auto& [name, ref] : metadata.refs)
    if (ids.contains(ref.snapshot_id))
      fail(ErrorKind::invalid_argument, "table {}: snapshot {} is the head of {}: move or remove that ref first",
           metadata.location, ref.snapshot_id, name);
  if (metadata.snapshots.erase_if([&](const Snapshot& s) { return ids.contains(s.snapshot_id); }) == 0) return false;

  // Up to the last removed one the log has a gap, and a time there would be answered wrongly.
  std::vector<SnapshotLogEntry> log;
  for (const SnapshotLogEntry& entry : metadata.snapshot_log) {
    if (ids.contains(entry.snapshot_id)) {
      log.clear();
    } else {
      log.push_back(entry);
    }
  }
  metadata.snapshot_log = std::move(log);
  for (const int64_t id : ids) {
    remove_statistics(metadata, id);
    remove_partition_statistics(metadata, id);
  }
  return true;
}

}  // namespace firn::iceberg
