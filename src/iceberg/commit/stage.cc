#include "iceberg/commit/stage.h"

#include <algorithm>
#include <set>
#include <unordered_set>

#include "base/arrow_status.h"
#include "base/clock.h"
#include "base/fault_point.h"
#include "base/log.h"
#include "base/uri.h"
#include "base/uuid.h"
#include "iceberg/commit/history.h"
#include "iceberg/commit/manifest_cache.h"
#include "iceberg/manifest/file_identity.h"
#include "iceberg/manifest/snapshot_manifests.h"

namespace firn::iceberg {
namespace {

// About 8 MB, write.manifest target size, at a few hundred compressed bytes an entry.
constexpr size_t kEntriesPerManifestMax = 20'000;
constexpr int64_t kManifestTargetBytes = 8 << 20;

ManifestContent content_of(const DataFile& file) {
  return file.content == FileContent::data ? ManifestContent::data : ManifestContent::deletes;
}

// Rows that the list gives row ids to: those of data manifests that had none (spec, "First Row ID Assignment").
int64_t rows_without_ids(const std::vector<ManifestFile>& manifests) {
  int64_t rows = 0;
  for (const ManifestFile& manifest : manifests) {
    if (manifest.content != ManifestContent::data || manifest.first_row_id) continue;
    rows += manifest.added_rows_count.value_or(0) + manifest.existing_rows_count.value_or(0);
  }
  return rows;
}

const PartitionSpec& spec_of(const TableMetadata& base, const DataFile& file) {
  for (const PartitionSpec& spec : base.partition_specs) {
    if (spec.spec_id == file.partition_spec_id) return spec;
  }
  fail(ErrorKind::partition_spec_drift, "table {}: {} was written under partition spec {}, which the table lacks",
       base.location, file.file_path, file.partition_spec_id);
}

std::vector<std::string> paths_of(const std::vector<ManifestFile>& manifests) {
  std::vector<std::string> paths;
  for (const ManifestFile& manifest : manifests) paths.push_back(manifest.manifest_path);
  return paths;
}

// Nulls first; values of one field, which may have been widened between two manifests.
bool partition_less(const ManifestEntry& a, const ManifestEntry& b) {
  const std::vector<Value>&left = a.file.partition, &right = b.file.partition;
  for (size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
    if (left[i].index() != right[i].index()) return left[i].index() < right[i].index();
    if (is_null(left[i])) continue;
    const auto order = compare(left[i], right[i], /*total=*/true);
    if (order != 0) return order < 0;
  }
  return false;
}

}  // namespace

StagedSnapshot::StagedSnapshot(std::shared_ptr<FileIO> io, const SnapshotChange& change, int64_t snapshot_id)
    : io_(std::move(io)), change_(change), snapshot_id_(snapshot_id), uuid_(uuid_v4()), removal_(change) {
  if (!change_.required_spec) return;
  for (const DataFile& file : change_.added) {
    if (file.content == FileContent::position_deletes) continue;  // of the spec of their data file
    if (file.partition_spec_id != change_.required_spec->spec_id) {
      fail(ErrorKind::invalid_argument, "file {} is not one of partition spec {}", file.file_path,
           change_.required_spec->spec_id);
    }
  }
}

TableMetadata StagedSnapshot::stage(TableMetadata base) {
  if (base.format_version < 2) {
    fail(ErrorKind::unsupported, "table {}: firn does not write format version 1; upgrade the table to version 2",
         base.location);
  }
  if (!is_written_) write_added(base);

  const Snapshot* parent = branch_head(base, change_.branch);
  Snapshot snapshot;
  snapshot.snapshot_id = snapshot_id_;
  if (parent) snapshot.parent_snapshot_id = parent->snapshot_id;
  snapshot.sequence_number = base.last_sequence_number + 1;
  snapshot.timestamp_ms = std::max(now_ms(), base.last_updated_ms);
  snapshot.schema_id = base.current_schema_id;
  snapshot.summary = change_.summary;
  snapshot.summary["operation"] = change_.operation;
  if (change_.commit_id) snapshot.summary[change_.commit_id->property] = change_.commit_id->value;

  SummaryCounts counts;
  for (const DataFile& file : change_.added) counts.add(file);
  std::vector<ManifestFile> older = without_removed(base, base_manifests(base, parent), counts);
  counts.write(snapshot.summary, parent);
  if (change_.rewrites_manifest) older = rewrite_chosen(base, std::move(older), snapshot.summary);
  if (change_.merge_manifests) older = merge_small(base, std::move(older));

  std::vector<ManifestFile> manifests = added_;
  manifests.insert(manifests.end(), std::make_move_iterator(older.begin()), std::make_move_iterator(older.end()));
  named_.clear();
  for (ManifestFile& manifest : manifests) {
    if (manifest.added_snapshot_id == snapshot_id_) named_.push_back(manifest.manifest_path);
    if (!manifest.sequence_number) manifest.sequence_number = snapshot.sequence_number;
    if (!manifest.min_sequence_number) manifest.min_sequence_number = snapshot.sequence_number;
  }
  if (base.format_version >= 3) {
    snapshot.first_row_id = base.next_row_id;
    snapshot.added_rows = rows_without_ids(manifests);
  }

  list_path_ = new_path(base, fmt::format("snap-{}-{}-{}.avro", snapshot_id_, ++num_lists_, uuid_v4()));
  snapshot.manifest_list = list_path_;
  fault_point("commit.manifest_list");
  write_file(list_path_, write_manifest_list(manifests, snapshot, base.format_version, base.next_row_id));

  add_snapshot(base, snapshot, change_.stage_only ? "" : change_.branch);
  return base;
}

void StagedSnapshot::write_added(const TableMetadata& base) {
  std::map<std::pair<int32_t, ManifestContent>, std::vector<ManifestEntry>> groups;
  const auto write = [&](const PartitionSpec& spec, ManifestContent content, std::vector<ManifestEntry>& entries) {
    const Schema& schema = change_.written_schema.fields().empty() ? base.schema() : change_.written_schema;
    const std::string path = new_path(base, fmt::format("{}-m{}.avro", uuid_, num_manifests_++));
    WrittenManifest manifest = write_manifest(entries, path, snapshot_id_, spec, schema, content, base.format_version);
    manifest.file.sequence_number.reset();
    fault_point("commit.manifest");
    write_file(path, std::move(manifest.bytes));
    added_.push_back(std::move(manifest.file));
    entries.clear();
  };
  for (const DataFile& file : change_.added) {
    const PartitionSpec& spec = spec_of(base, file);
    ManifestEntry entry;
    entry.status = EntryStatus::added;
    entry.snapshot_id = snapshot_id_;
    if (file.content == FileContent::data) entry.sequence_number = change_.data_sequence_number;
    entry.file = file;
    entry.file.first_row_id.reset();  // inherited: the number is not known before the commit (v3)
    std::vector<ManifestEntry>& entries = groups[{spec.spec_id, content_of(file)}];
    entries.push_back(std::move(entry));
    if (entries.size() == kEntriesPerManifestMax) write(spec, content_of(file), entries);
  }
  for (auto& [key, entries] : groups) {
    if (!entries.empty()) write(base.spec(key.first), key.second, entries);
  }
  is_written_ = true;
}

std::vector<ManifestFile> StagedSnapshot::base_manifests(const TableMetadata& base, const Snapshot* parent) {
  if (!parent) return {};
  std::vector<ManifestFile> live;
  const auto read = [&](const std::string& path) { return *manifest_cache().read(*io_, path); };
  for (ManifestFile& manifest : snapshot_manifests(base, *parent, read)) {
    if (!manifest.added_files_count || !manifest.existing_files_count || !manifest.deleted_files_count ||
        !manifest.added_rows_count || !manifest.existing_rows_count || !manifest.deleted_rows_count) {
      // Version 1 allows them to be unknown, the lists written here do not.
      const auto [counted, is_new] = counted_.try_emplace(manifest.manifest_path, manifest);
      if (is_new) {
        const std::shared_ptr<const std::string> bytes = manifest_cache().read(*io_, manifest.manifest_path);
        counted->second.manifest_length = static_cast<int64_t>(bytes->size());
        set_counts(counted->second, read_manifest(*bytes, manifest, base.spec(manifest.partition_spec_id),
                                                  base.schema(), /*live_only=*/false));
      }
      manifest = counted->second;
    }
    if (may_hold_live_files(manifest)) live.push_back(std::move(manifest));
  }
  return live;
}

std::vector<ManifestFile> StagedSnapshot::without_removed(const TableMetadata& base,
                                                          std::vector<ManifestFile> manifests, SummaryCounts& counts) {
  if (removal_.empty()) return manifests;
  std::unordered_set<std::string> found;
  for (ManifestFile& manifest : manifests) {
    if (!removal_.may_take_from(manifest, base)) continue;
    const Filtered& filtered = filter(base, manifest);
    for (const DataFile& file : filtered.removed) {
      counts.remove(file);
      found.insert(file_key(file));
    }
    if (filtered.file) manifest = *filtered.file;
  }
  removal_.check_found(found, base);
  return manifests;
}

const StagedSnapshot::Filtered& StagedSnapshot::filter(const TableMetadata& base, const ManifestFile& manifest) {
  const auto [found, is_new] = filtered_.try_emplace(manifest.manifest_path);
  Filtered& filtered = found->second;
  if (!is_new) return filtered;
  std::vector<ManifestEntry> entries = live_entries(base, manifest);
  for (ManifestEntry& entry : entries) {
    if (!removal_.takes(entry.file)) continue;
    entry.status = EntryStatus::deleted;
    entry.snapshot_id = snapshot_id_;
    filtered.removed.push_back(entry.file);
  }
  if (filtered.removed.empty()) return filtered;
  filtered.file =
      write_existing(base, entries, manifest.partition_spec_id, manifest.content, "commit.filtered_manifest");
  return filtered;
}

// Manifests of one spec and content are gathered, oldest first, up to commit.manifest.target-size-bytes. A full group
// is merged, the youngest only once it has commit.manifest.min-count-to-merge members. A manifest above half the target
// is left alone, so a merge rewrites at most as much again as it gathers, and an entry is rewritten a bounded number of
// times. Manifests made by this commit stay as they are: they say what it removed.
std::vector<ManifestFile> StagedSnapshot::merge_small(const TableMetadata& base, std::vector<ManifestFile> manifests) {
  if (!base.bool_property("commit.manifest-merge.enabled", true)) return manifests;
  const int64_t target_bytes = base.int_property("commit.manifest.target-size-bytes", kManifestTargetBytes);
  const auto count_min =
      static_cast<size_t>(std::max<int64_t>(2, base.int_property("commit.manifest.min-count-to-merge", 100)));

  struct Group {
    std::vector<size_t> members;
    int64_t size_bytes = 0;
  };
  std::map<std::pair<int32_t, ManifestContent>, Group> open;
  std::vector<Group> to_merge;
  for (size_t i = manifests.size(); i-- > 0;) {  // a list has the youngest first
    const ManifestFile& manifest = manifests[i];
    if (manifest.manifest_length > target_bytes / 2 || manifest.added_snapshot_id == snapshot_id_) continue;
    Group& group = open[{manifest.partition_spec_id, manifest.content}];
    if (group.size_bytes + manifest.manifest_length > target_bytes && group.members.size() > 1) {
      to_merge.push_back(std::move(group));
      group = {};
    }
    group.members.push_back(i);
    group.size_bytes += manifest.manifest_length;
  }
  for (auto& [key, group] : open) {
    if (group.members.size() >= count_min) to_merge.push_back(std::move(group));
  }

  std::set<size_t> gone;
  std::vector<ManifestFile> result;
  for (const Group& group : to_merge) {
    std::vector<ManifestFile> parts;
    for (const size_t i : group.members) parts.push_back(manifests[i]);
    gone.insert(group.members.begin(), group.members.end());
    result.push_back(merge(base, parts));
  }
  for (size_t i = 0; i < manifests.size(); ++i) {
    if (!gone.contains(i)) result.push_back(std::move(manifests[i]));
  }
  return result;
}

ManifestFile StagedSnapshot::merge(const TableMetadata& base, const std::vector<ManifestFile>& parts) {
  std::vector<std::string> key = paths_of(parts);
  if (const auto found = merged_.find(key); found != merged_.end()) return found->second;
  std::vector<ManifestEntry> entries;
  for (const ManifestFile& part : parts) {
    std::vector<ManifestEntry> live = live_entries(base, part);
    entries.insert(entries.end(), std::make_move_iterator(live.begin()), std::make_move_iterator(live.end()));
  }
  ManifestFile merged =
      write_existing(base, entries, parts.front().partition_spec_id, parts.front().content, "commit.merged_manifest");
  return merged_.emplace(std::move(key), std::move(merged)).first->second;
}

std::vector<ManifestFile> StagedSnapshot::rewrite_chosen(const TableMetadata& base, std::vector<ManifestFile> manifests,
                                                         std::map<std::string, std::string>& summary) {
  std::map<std::pair<int32_t, ManifestContent>, std::vector<ManifestFile>> groups;
  std::vector<ManifestFile> result;
  for (ManifestFile& manifest : manifests) {
    if (manifest.added_snapshot_id != snapshot_id_ && change_.rewrites_manifest(manifest)) {
      groups[{manifest.partition_spec_id, manifest.content}].push_back(std::move(manifest));
    } else {
      result.push_back(std::move(manifest));
    }
  }
  const size_t num_kept = result.size();
  int64_t num_replaced = 0, num_entries = 0;
  for (const auto& [key, parts] : groups) {
    num_replaced += static_cast<int64_t>(parts.size());
    for (ManifestFile& manifest : cluster(base, parts)) {
      num_entries += manifest.existing_files_count.value_or(0);
      result.push_back(std::move(manifest));
    }
  }
  summary["manifests-created"] = std::to_string(result.size() - num_kept);
  summary["manifests-kept"] = std::to_string(num_kept);
  summary["manifests-replaced"] = std::to_string(num_replaced);
  summary["entries-processed"] = std::to_string(num_entries);
  return result;
}

// The entries of `parts` in the order of their partitions, in manifests of commit.manifest.target-size-bytes.
std::vector<ManifestFile> StagedSnapshot::cluster(const TableMetadata& base, const std::vector<ManifestFile>& parts) {
  std::vector<std::string> key = paths_of(parts);
  if (const auto found = clustered_.find(key); found != clustered_.end()) return found->second;
  int64_t size_bytes = 0;
  std::vector<ManifestEntry> entries;
  for (const ManifestFile& part : parts) {
    std::vector<ManifestEntry> live = live_entries(base, part);
    entries.insert(entries.end(), std::make_move_iterator(live.begin()), std::make_move_iterator(live.end()));
    size_bytes += part.manifest_length;
  }
  std::stable_sort(entries.begin(), entries.end(), partition_less);
  const int64_t target_bytes = std::max<int64_t>(1, change_.manifest_target_bytes.value_or(base.int_property(
                                                        "commit.manifest.target-size-bytes", kManifestTargetBytes)));
  const size_t num_manifests = static_cast<size_t>((size_bytes + target_bytes - 1) / target_bytes);
  const size_t step = std::max<size_t>(1, (entries.size() + num_manifests - 1) / std::max<size_t>(1, num_manifests));
  std::vector<ManifestFile> written;
  for (size_t begin = 0; begin < entries.size(); begin += step) {
    const std::vector<ManifestEntry> some(
        entries.begin() + static_cast<ptrdiff_t>(begin),
        entries.begin() + static_cast<ptrdiff_t>(std::min(entries.size(), begin + step)));
    written.push_back(write_existing(base, some, parts.front().partition_spec_id, parts.front().content,
                                     "commit.rewritten_manifest"));
  }
  return clustered_.emplace(std::move(key), std::move(written)).first->second;
}

// As existing, with every number that they inherit.
std::vector<ManifestEntry> StagedSnapshot::live_entries(const TableMetadata& base, const ManifestFile& manifest) {
  const std::shared_ptr<const std::string> bytes = manifest_cache().read(*io_, manifest.manifest_path);
  std::vector<ManifestEntry> entries =
      read_manifest(*bytes, manifest, base.spec(manifest.partition_spec_id), base.schema(), /*live_only=*/true);
  for (ManifestEntry& entry : entries) {
    entry.status = EntryStatus::existing;
    entry.file.partition_spec_id = manifest.partition_spec_id;
  }
  return entries;
}

ManifestFile StagedSnapshot::write_existing(const TableMetadata& base, const std::vector<ManifestEntry>& entries,
                                            int32_t spec_id, ManifestContent content, const char* fault_point_name) {
  std::optional<int64_t> first_row_id;
  bool all_have_row_ids = true;
  for (const ManifestEntry& entry : entries) {
    if (entry.status == EntryStatus::deleted) continue;
    if (const auto row_id = entry.file.first_row_id) {
      first_row_id = std::min(first_row_id.value_or(*row_id), *row_id);
    } else {
      all_have_row_ids = false;
    }
  }
  const std::string path = new_path(base, fmt::format("{}-m{}.avro", uuid_, num_manifests_++));
  WrittenManifest manifest =
      write_manifest(entries, path, snapshot_id_, base.spec(spec_id), base.schema(), content, base.format_version);
  manifest.file.sequence_number.reset();  // that of the try that commits it
  // Every live entry carries its row id, so nothing is inherited; with a null here the list would give out ids for all
  // its rows.
  if (all_have_row_ids && base.format_version >= 3) manifest.file.first_row_id = first_row_id;
  fault_point(fault_point_name);
  write_file(path, std::move(manifest.bytes));
  return std::move(manifest.file);
}

void StagedSnapshot::write_file(const std::string& path, std::string bytes) {
  written_.push_back(path);  // before the write: one that fails halfway may leave the file
  const std::unique_ptr<OutputFile> file = io_->create(path);
  check(file->stream().Write(bytes.data(), static_cast<int64_t>(bytes.size())), "write " + path);
  file->close();
  manifest_cache().put(path, std::move(bytes));
}

std::string StagedSnapshot::new_path(const TableMetadata& base, const std::string& name) const {
  return join_path(base.property("write.metadata.path", join_path(base.location, "metadata")), name);
}

void StagedSnapshot::drop_list() { remove(list_path_); }

void StagedSnapshot::keep_named() {
  std::erase(written_, list_path_);
  for (const std::string& path : named_) std::erase(written_, path);
}

StagedSnapshot::~StagedSnapshot() {
  if (may_be_named_) return;
  for (const std::string& path : std::vector(written_)) remove(path);
}

void StagedSnapshot::remove(const std::string& path) {
  try {
    if (!survives_fault_point("commit.remove_staged")) return;
    io_->remove(path);
  } catch (const Error& e) {
    // Named by no snapshot, it falls to orphan removal.
    spdlog::warn("{} not removed: {}", path, e.what());
  }
  std::erase(written_, path);
}

}  // namespace firn::iceberg
