#include "iceberg/maintain/rewrite_manifests.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/span.h"
#include "iceberg/commit/commit.h"
#include "iceberg/commit/history.h"
#include "iceberg/manifest/snapshot_manifests.h"

namespace firn::iceberg {
namespace {

constexpr const char* kTargetProperty = "commit.manifest.target-size-bytes";
constexpr int64_t kTargetBytes = 8 << 20;

using Manifests = std::vector<ManifestFile>;

Manifests manifests_of(const TableMetadata& metadata, const Snapshot& snapshot, FileIO& io) {
  return snapshot_manifests(metadata, snapshot, [&io](const std::string& path) { return io.read(path); });
}

// One call wrote them all: they are as good as it makes them.
bool are_of_one_rewrite(const TableMetadata& metadata, const Manifests& manifests) {
  const int64_t id = manifests.front().added_snapshot_id;
  const Snapshot* snapshot = metadata.find_snapshot(id);
  if (snapshot == nullptr || snapshot->operation() != "replace" || !snapshot->summary.contains("manifests-created"))
    return false;
  return std::all_of(manifests.begin(), manifests.end(),
                     [&](const ManifestFile& manifest) { return manifest.added_snapshot_id == id; });
}

// Whether values of the first partition field lie in several manifests, beyond those at their ends.
bool do_overlap(const TableMetadata& metadata, const Manifests& manifests) {
  const PartitionSpec& spec = metadata.spec(manifests.front().partition_spec_id);
  if (spec.fields.empty()) return false;
  const TypePtr partition = spec.partition_type(metadata.schema());
  const Type& type = *partition->fields().front().type;
  if (type.is_nested() || type.id() == TypeId::unknown || type.id() == TypeId::uuid) return false;  // no one order
  std::vector<std::pair<Value, Value>> ranges;
  for (const ManifestFile& manifest : manifests) {
    if (!manifest.partitions || manifest.partitions->empty()) continue;
    const FieldSummary& summary = manifest.partitions->front();
    if (!summary.lower_bound || !summary.upper_bound) continue;
    std::optional<Value> lower = from_bytes(*summary.lower_bound, type);
    std::optional<Value> upper = from_bytes(*summary.upper_bound, type);
    if (lower && upper) ranges.emplace_back(std::move(*lower), std::move(*upper));
  }
  std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) {
    const auto order = compare(a.first, b.first);
    return order != 0 ? order < 0 : compare(a.second, b.second) < 0;
  });
  for (size_t i = 1; i < ranges.size(); ++i) {
    if (compare(ranges[i].first, ranges[i - 1].second) < 0) return true;
  }
  return false;
}

bool is_worthwhile(const TableMetadata& metadata, const Manifests& manifests, int64_t target_bytes) {
  if (manifests.size() < 2 || are_of_one_rewrite(metadata, manifests)) return false;
  int64_t size_bytes = 0;
  for (const ManifestFile& manifest : manifests) size_bytes += manifest.manifest_length;
  const int64_t wanted = std::max<int64_t>(1, (size_bytes + target_bytes - 1) / target_bytes);
  return static_cast<int64_t>(manifests.size()) > wanted || do_overlap(metadata, manifests);
}

}  // namespace

RewriteManifestsResult rewrite_manifests(TableOperations& table, const RewriteManifestsOptions& options) {
  Span span("iceberg.rewrite_manifests");
  span.set("table", table.location());
  const LoadedTable base = table.load();
  const TableMetadata& metadata = *base.metadata;
  if (options.spec_id && std::none_of(metadata.partition_specs.begin(), metadata.partition_specs.end(),
                                      [&](const PartitionSpec& spec) { return spec.spec_id == *options.spec_id; })) {
    fail(ErrorKind::not_found, "table {} has no partition spec {}", table.location(), *options.spec_id);
  }
  const int64_t target_bytes = options.target_size_bytes.value_or(metadata.int_property(kTargetProperty, kTargetBytes));
  if (target_bytes <= 0) {
    fail(ErrorKind::invalid_argument, "table {}: manifests of {} bytes cannot be; the target must be above 0",
         table.location(), target_bytes);
  }
  RewriteManifestsResult result;
  const Snapshot* head = branch_head(metadata, options.branch);
  if (head == nullptr) return result;

  std::map<std::pair<int32_t, ManifestContent>, Manifests> groups;
  for (ManifestFile& manifest : manifests_of(metadata, *head, *table.io())) {
    if (options.spec_id && manifest.partition_spec_id != *options.spec_id) continue;
    if (may_hold_live_files(manifest)) {
      groups[{manifest.partition_spec_id, manifest.content}].push_back(std::move(manifest));
    }
  }
  std::set<std::string> chosen;
  for (const auto& [key, manifests] : groups) {
    if (!options.rewrite_all && !is_worthwhile(metadata, manifests, target_bytes)) continue;
    for (const ManifestFile& manifest : manifests) {
      chosen.insert(manifest.manifest_path);
      result.rewritten.push_back(manifest.manifest_path);
      result.entries += manifest.added_files_count.value_or(0) + manifest.existing_files_count.value_or(0);
    }
  }
  if (chosen.empty() || options.dry_run) return result;

  SnapshotChange change;
  change.operation = "replace";
  change.branch = options.branch;
  change.summary = options.summary;
  change.merge_manifests = false;
  change.rewrites_manifest = [&](const ManifestFile& manifest) { return chosen.contains(manifest.manifest_path); };
  change.manifest_target_bytes = target_bytes;
  const CommitResult commit = commit_snapshot(table, change);
  result.snapshot_id = commit.snapshot_id;
  const Snapshot* snapshot = commit.table.metadata->find_snapshot(commit.snapshot_id);
  for (const ManifestFile& manifest : manifests_of(*commit.table.metadata, *snapshot, *table.io())) {
    if (manifest.added_snapshot_id == commit.snapshot_id) result.added.push_back(manifest.manifest_path);
  }
  span.set("manifests", static_cast<int64_t>(result.rewritten.size()));
  return result;
}

}  // namespace firn::iceberg
