#include "iceberg/commit/stage.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "base/arrow_status.h"
#include "base/clock.h"
#include "base/fault_point.h"
#include "base/log.h"
#include "base/uri.h"
#include "base/uuid.h"
#include "iceberg/commit/history.h"
#include "iceberg/commit/manifest_cache.h"

namespace firn::iceberg {
namespace {

// About 8 MB, write.manifest target size, at a few hundred compressed bytes an entry.
constexpr size_t kEntriesPerManifestMax = 20'000;

std::vector<ManifestFile> parent_manifests(FileIO& io, const TableMetadata& base, const Snapshot* parent) {
  if (!parent) return {};
  if (parent->manifest_list.empty()) {
    fail(ErrorKind::unsupported,
         "table {}: snapshot {} of format version 1 has no manifest list; rewrite its manifests first", base.location,
         parent->snapshot_id);
  }
  return read_manifest_list(*manifest_cache().read(io, parent->manifest_list), parent->manifest_list);
}

bool holds_live_files(const ManifestFile& manifest) {
  return manifest.added_files_count.value_or(1) > 0 || manifest.existing_files_count.value_or(1) > 0;
}

// Totals go on from the parent's where it has them, as Java's do: a count that was never known stays unknown.
void set_total(std::map<std::string, std::string>& summary, const Snapshot* parent, const std::string& name,
               int64_t added) {
  int64_t total = 0;
  if (parent) {
    const auto found = parent->summary.find(name);
    if (found == parent->summary.end()) return;
    const std::string& text = found->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), total);
    if (error != std::errc{} || end != text.data() + text.size()) return;
  }
  summary[name] = std::to_string(total + added);
}

std::map<std::string, std::string> append_summary(const AppendCommit& commit, const Snapshot* parent) {
  int64_t num_records = 0, size_bytes = 0;
  std::set<std::string> partitions;
  for (const DataFile& file : commit.files) {
    num_records += file.record_count;
    size_bytes += file.file_size_bytes;
    partitions.insert(commit.written_spec.partition_path(file.partition, commit.written_schema));
  }
  const auto num_files = static_cast<int64_t>(commit.files.size());
  std::map<std::string, std::string> summary = commit.summary;
  if (commit.commit_id) summary[commit.commit_id->property] = commit.commit_id->value;
  summary["operation"] = "append";
  if (num_files > 0) {
    summary["added-data-files"] = std::to_string(num_files);
    summary["added-records"] = std::to_string(num_records);
    summary["added-files-size"] = std::to_string(size_bytes);
  }
  summary["changed-partition-count"] = std::to_string(partitions.size());
  set_total(summary, parent, "total-records", num_records);
  set_total(summary, parent, "total-files-size", size_bytes);
  set_total(summary, parent, "total-data-files", num_files);
  set_total(summary, parent, "total-delete-files", 0);
  set_total(summary, parent, "total-position-deletes", 0);
  set_total(summary, parent, "total-equality-deletes", 0);
  return summary;
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

}  // namespace

StagedAppend::StagedAppend(std::shared_ptr<FileIO> io, const AppendCommit& commit, int64_t snapshot_id)
    : io_(std::move(io)), commit_(commit), snapshot_id_(snapshot_id), uuid_(uuid_v4()) {
  for (const DataFile& file : commit_.files) {
    if (file.partition_spec_id != commit_.written_spec.spec_id || file.content != FileContent::data) {
      fail(ErrorKind::invalid_argument, "data file {} is not one of partition spec {} to be appended", file.file_path,
           commit_.written_spec.spec_id);
    }
  }
}

TableMetadata StagedAppend::stage(const TableMetadata& base) {
  if (base.format_version < 2) {
    fail(ErrorKind::unsupported, "table {}: firn does not write format version 1; upgrade the table to version 2",
         base.location);
  }
  if (!is_written_) write_manifests(base);

  const Snapshot* parent = branch_head(base, commit_.branch);
  Snapshot snapshot;
  snapshot.snapshot_id = snapshot_id_;
  if (parent) snapshot.parent_snapshot_id = parent->snapshot_id;
  snapshot.sequence_number = base.last_sequence_number + 1;
  snapshot.timestamp_ms = std::max(now_ms(), base.last_updated_ms);
  snapshot.summary = append_summary(commit_, parent);
  snapshot.schema_id = base.current_schema_id;

  std::vector<ManifestFile> older;
  for (ManifestFile& manifest : parent_manifests(*io_, base, parent)) {
    if (holds_live_files(manifest)) older.push_back(std::move(manifest));
  }
  std::vector<ManifestFile> manifests = added_;
  for (ManifestFile& manifest : merge_small(base, std::move(older))) manifests.push_back(std::move(manifest));
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

  TableMetadata next = base;
  add_snapshot(next, snapshot, commit_.branch);
  return next;
}

void StagedAppend::write_manifests(const TableMetadata& base) {
  for (size_t begin = 0; begin < commit_.files.size(); begin += kEntriesPerManifestMax) {
    const size_t end = std::min(commit_.files.size(), begin + kEntriesPerManifestMax);
    std::vector<ManifestEntry> entries;
    for (size_t i = begin; i < end; ++i) {
      ManifestEntry entry;
      entry.status = EntryStatus::added;
      entry.snapshot_id = snapshot_id_;
      entry.file = commit_.files[i];
      entry.file.first_row_id.reset();  // inherited: the number is not known before the commit (v3)
      entries.push_back(std::move(entry));
    }
    const std::string path = new_path(base, fmt::format("{}-m{}.avro", uuid_, num_manifests_++));
    WrittenManifest manifest = write_manifest(entries, path, snapshot_id_, commit_.written_spec, commit_.written_schema,
                                              ManifestContent::data, base.format_version);
    manifest.file.sequence_number.reset();
    manifest.file.min_sequence_number.reset();
    fault_point("commit.manifest");
    write_file(path, std::move(manifest.bytes));
    added_.push_back(std::move(manifest.file));
  }
  is_written_ = true;
}

// Manifests of one spec and content are gathered, oldest first, up to commit.manifest.target-size-bytes. A full group
// is merged, the youngest only once it has commit.manifest.min-count-to-merge members. A manifest above half the target
// is left alone, so a merge rewrites at most as much again as it gathers, and an entry is rewritten a bounded number of
// times.
std::vector<ManifestFile> StagedAppend::merge_small(const TableMetadata& base, std::vector<ManifestFile> manifests) {
  if (!base.bool_property("commit.manifest-merge.enabled", true)) return manifests;
  const int64_t target_bytes = base.int_property("commit.manifest.target-size-bytes", 8 << 20);
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
    if (manifest.manifest_length > target_bytes / 2) continue;
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

ManifestFile StagedAppend::merge(const TableMetadata& base, const std::vector<ManifestFile>& parts) {
  std::vector<std::string> key;
  for (const ManifestFile& part : parts) key.push_back(part.manifest_path);
  if (const auto found = merged_.find(key); found != merged_.end()) return found->second;

  const PartitionSpec& spec = base.spec(parts.front().partition_spec_id);
  std::vector<ManifestEntry> entries;
  std::optional<int64_t> first_row_id;
  bool all_have_row_ids = true;
  for (const ManifestFile& part : parts) {
    const std::shared_ptr<const std::string> bytes = manifest_cache().read(*io_, part.manifest_path);
    for (ManifestEntry& entry : read_manifest(*bytes, part, spec, base.schema(), true)) {
      entry.status = EntryStatus::existing;
      if (const auto row_id = entry.file.first_row_id) {
        first_row_id = std::min(first_row_id.value_or(*row_id), *row_id);
      } else {
        all_have_row_ids = false;
      }
      entries.push_back(std::move(entry));
    }
  }
  const std::string path = new_path(base, fmt::format("{}-m{}.avro", uuid_, num_manifests_++));
  WrittenManifest manifest =
      write_manifest(entries, path, snapshot_id_, spec, base.schema(), parts.front().content, base.format_version);
  manifest.file.sequence_number.reset();  // that of the try that commits it
  // Every entry carries its row id, so nothing is inherited; with a null here the list would give out ids for all its
  // rows.
  if (all_have_row_ids && base.format_version >= 3) manifest.file.first_row_id = first_row_id;
  fault_point("commit.merged_manifest");
  write_file(path, std::move(manifest.bytes));
  return merged_.emplace(std::move(key), std::move(manifest.file)).first->second;
}

void StagedAppend::write_file(const std::string& path, std::string bytes) {
  written_.push_back(path);  // before the write: one that fails halfway may leave the file
  const std::unique_ptr<OutputFile> file = io_->create(path);
  check(file->stream().Write(bytes.data(), static_cast<int64_t>(bytes.size())), "write " + path);
  file->close();
  manifest_cache().put(path, std::move(bytes));
}

std::string StagedAppend::new_path(const TableMetadata& base, const std::string& name) const {
  return join_path(base.property("write.metadata.path", join_path(base.location, "metadata")), name);
}

void StagedAppend::drop_list() { remove(list_path_); }

void StagedAppend::keep_named() {
  std::erase(written_, list_path_);
  for (const std::string& path : named_) std::erase(written_, path);
}

StagedAppend::~StagedAppend() {
  if (may_be_named_) return;
  for (const std::string& path : std::vector(written_)) remove(path);
}

void StagedAppend::remove(const std::string& path) {
  try {
    fault_point("commit.remove_staged");
    io_->remove(path);
  } catch (const Error& e) {
    // Named by no snapshot, it falls to orphan removal.
    spdlog::warn("{} not removed: {}", path, e.what());
  }
  std::erase(written_, path);
}

}  // namespace firn::iceberg
