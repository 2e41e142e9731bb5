#include "orca/tables/file_owners.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "iceberg/commit/manifest_cache.h"
#include "iceberg/manifest/file_identity.h"
#include "iceberg/manifest/snapshot_manifests.h"
#include "orca/tables/step_commit.h"

namespace firn::orca {
namespace {

using iceberg::ManifestEntry;
using iceberg::Snapshot;

bool is_rewrite(const Snapshot& snapshot) { return snapshot.operation() == "replace"; }

// A cherry-pick's source says who made it; nullptr: it has expired.
const Snapshot* maker_of(const Snapshot& snapshot, const iceberg::TableMetadata& base) {
  const auto found = snapshot.summary.find("source-snapshot-id");
  if (found == snapshot.summary.end()) return &snapshot;
  int64_t id = 0;
  std::from_chars(found->second.data(), found->second.data() + found->second.size(), id);
  return base.find_snapshot(id);
}

std::string describe(const Snapshot& snapshot) {
  const std::optional<Committer> committer = committer_of(snapshot);
  return committer ? fmt::format("snapshot {} of {}", snapshot.snapshot_id, committer->to_string())
                   : fmt::format("snapshot {} of another writer", snapshot.snapshot_id);
}

}  // namespace

FileOwners::FileOwners(const iceberg::TableMetadata& base, FileIO& io, const AttemptId& id, std::string title)
    : base_(base), io_(io), id_(id), title_(std::move(title)) {
  for (const Snapshot& snapshot : base.snapshots) {
    by_id_.emplace(snapshot.snapshot_id, &snapshot);
    by_sequence_.emplace(snapshot.sequence_number, &snapshot);
    // Clocks differ a little, so a snapshot that is known to be from since then does not count.
    const bool is_before = id_.run_started_ms > 0 && snapshot.timestamp_ms <= id_.run_started_ms && !is_own(snapshot) &&
                           !is_later(snapshot);
    if (is_before) before_run_ = std::max(before_run_, snapshot.sequence_number);
  }
  const Snapshot* step = base.current_snapshot();
  is_whole_ = step == nullptr;
  while (step != nullptr) {
    if (is_own(*step)) first_own_ = step->sequence_number;
    is_whole_ = is_whole_ || is_before_run(step->sequence_number) || !step->parent_snapshot_id;
    step = step->parent_snapshot_id ? by_id(*step->parent_snapshot_id) : nullptr;
  }
}

const Snapshot* FileOwners::by_id(int64_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second;
}

bool FileOwners::is_own(const Snapshot& snapshot) const {
  const Snapshot* maker = maker_of(snapshot, base_);
  if (maker == nullptr) return false;
  const auto run = maker->summary.find("orca.run");
  return run != maker->summary.end() && run->second == id_.run;
}

bool FileOwners::is_later(const Snapshot& snapshot) const {
  const Snapshot* maker = maker_of(snapshot, base_);
  const std::optional<Committer> committer = maker ? committer_of(*maker) : std::nullopt;
  return committer && committer->pipeline == id_.pipeline && committer->run_number > id_.run_number;
}

std::vector<FileOwners::Origin> FileOwners::origins_of(const ManifestEntry& entry) {
  std::vector<Origin> origins;
  const int64_t sequence = entry.file_sequence_number.value_or(base_.last_sequence_number);
  add_origins({by_id(entry.snapshot_id.value_or(0)), sequence},
              iceberg::partition_key(entry.file.partition_spec_id, entry.file.partition), entry.file.partition_spec_id,
              origins);
  return origins;
}

void FileOwners::add_origins(Origin origin, const std::string& partition_key, int32_t spec_id,
                             std::vector<Origin>& origins) {
  const bool is_there = std::any_of(origins.begin(), origins.end(),
                                    [&](const Origin& other) { return other.sequence == origin.sequence; });
  if (is_there) return;
  origins.push_back(origin);
  if (origin.snapshot == nullptr || !is_rewrite(*origin.snapshot)) return;
  for (const Removed& removed : removed_by(*origin.snapshot)) {
    // Rows of the partition come from its files, or from those of another spec, which may hold any.
    if (removed.spec_id == spec_id && removed.partition_key != partition_key) continue;
    if (removed.sequence >= origin.sequence) continue;  // damaged; a rewrite reads what was there before
    const auto found = by_sequence_.find(removed.sequence);
    add_origins({found == by_sequence_.end() ? nullptr : found->second, removed.sequence}, removed.partition_key,
                removed.spec_id, origins);
  }
}

const std::vector<FileOwners::Removed>& FileOwners::removed_by(const Snapshot& rewrite) {
  const auto [found, is_new] = removed_.try_emplace(rewrite.snapshot_id);
  if (!is_new) return found->second;
  std::vector<Removed>& removed = found->second;
  const auto read = [&](const std::string& path) { return *iceberg::manifest_cache().read(io_, path); };
  for (const iceberg::ManifestFile& manifest : iceberg::snapshot_manifests(base_, rewrite, read)) {
    if (manifest.added_snapshot_id != rewrite.snapshot_id || manifest.content != iceberg::ManifestContent::data)
      continue;
    const std::vector<int32_t> no_columns;
    for (const ManifestEntry& entry : iceberg::read_manifest(
             *iceberg::manifest_cache().read(io_, manifest.manifest_path), manifest,
             base_.spec(manifest.partition_spec_id), base_.schema(), /*live_only=*/false, &no_columns)) {
      if (entry.status != iceberg::EntryStatus::deleted || entry.snapshot_id != rewrite.snapshot_id) continue;
      removed.push_back({iceberg::partition_key(manifest.partition_spec_id, entry.file.partition),
                         manifest.partition_spec_id, entry.file_sequence_number.value_or(rewrite.sequence_number - 1)});
    }
  }
  return removed;
}

void FileOwners::fail_unknown(const ManifestEntry& entry) const {
  fail(ErrorKind::commit_conflict,
       "{}: whose rows {} has cannot be told: snapshots from since run {} began have expired, so they may be a later "
       "run's. Nothing was committed; start a new run, and let `orca expire` expire snapshots",
       title_, entry.file.file_path, id_.run);
}

void FileOwners::check_origins(const ManifestEntry& entry, const std::vector<Origin>& origins) const {
  for (const Origin& origin : origins) {
    if (origin.snapshot == nullptr) {
      if (!is_before_run(origin.sequence)) fail_unknown(entry);
      continue;
    }
    if (!is_later(*origin.snapshot)) continue;
    const Snapshot* maker = maker_of(*origin.snapshot, base_);
    if (maker->timestamp_ms < id_.run_started_ms) {
      fail(ErrorKind::commit_conflict,
           "{}: {} has rows that {} committed, by its number a later run than {} (number {}), and yet before that "
           "began: "
           "the state that numbers runs is not the one it was then. Nothing was committed; use that state (ORCA_STATE, "
           "ORCA_DATABASE_URL) again, or, where it is lost, give the pipeline another name",
           title_, entry.file.file_path, describe(*maker), id_.run, id_.run_number);
    }
    fail(ErrorKind::commit_conflict,
         "{}: {} has rows that {} committed, which began after run {} (number {}): a run never removes a later run's "
         "rows. Nothing was committed; the later run's rows stand",
         title_, entry.file.file_path, describe(*maker), id_.run, id_.run_number);
  }
}

void FileOwners::check_not_later(const ManifestEntry& entry) { check_origins(entry, origins_of(entry)); }

bool FileOwners::is_replaced(const ManifestEntry& entry) {
  const std::vector<Origin> origins = origins_of(entry);
  const Snapshot* adder = origins.front().snapshot;
  const auto is_own_origin = [&](const Origin& origin) { return origin.snapshot && is_own(*origin.snapshot); };
  if (adder && is_own(*adder)) {
    if (std::all_of(origins.begin(), origins.end(), is_own_origin)) return false;
    fail(ErrorKind::commit_conflict,
         "{}: {} of this run rewrote files of other runs together, in a partition that is now to be replaced: {} can "
         "neither stay nor go. Nothing was committed; compact after the partition is replaced, and start a new run",
         title_, describe(*adder), entry.file.file_path);
  }
  check_origins(entry, origins);
  const auto own = std::find_if(origins.begin(), origins.end(), is_own_origin);
  if (own != origins.end())
    fail(ErrorKind::commit_conflict,
         "{}: {} rewrote (compacted) files that run {} itself had committed, so that {} has its rows and others': the "
         "partition cannot be replaced by this run any more. Nothing was committed; start a new run",
         title_, describe(*adder), id_.run, entry.file.file_path);
  if (first_own_ && origins.front().sequence > *first_own_)
    fail(
        ErrorKind::commit_conflict,
        "{}: two writers replace (or write) one partition at once: {} was added by {}, after the first commit of run "
        "{} "
        "to the table (sequence number {}). Nothing was committed; when the other has finished, a new run replaces the "
        "partition again",
        title_, entry.file.file_path, adder ? describe(*adder) : "a snapshot that has expired", id_.run, *first_own_);
  if (!is_whole_ && !is_before_run(origins.front().sequence))
    fail_unknown(entry);  // this run's first commit may be among what has expired
  return true;
}

}  // namespace firn::orca
