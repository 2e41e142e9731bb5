#include "hyp/maintain/head_size.h"

#include <algorithm>
#include <charconv>
#include <unordered_map>

#include "hyp/cache/sequence_bounds.h"
#include "iceberg/commit/manifest_cache.h"
#include "iceberg/manifest/file_identity.h"
#include "iceberg/manifest/snapshot_manifests.h"

namespace firn::hyp {
namespace {

using iceberg::DataFile;
using iceberg::ManifestEntry;
using iceberg::ManifestFile;
using iceberg::TableMetadata;

std::optional<int64_t> total(const iceberg::Snapshot& snapshot, const char* key) {
  const auto found = snapshot.summary.find(key);
  if (found == snapshot.summary.end()) return std::nullopt;
  int64_t number = 0;
  const char* const end = found->second.data() + found->second.size();
  const auto [after, error] = std::from_chars(found->second.data(), end, number);
  return error == std::errc() && after == end ? std::optional(number) : std::nullopt;
}

std::vector<ManifestEntry> live_entries(const TableMetadata& metadata, const ManifestFile& manifest, FileIO& io,
                                        const std::vector<int32_t>& columns) {
  const auto bytes = iceberg::manifest_cache().read(io, manifest.manifest_path);
  return iceberg::read_manifest(*bytes, manifest, metadata.spec(manifest.partition_spec_id), metadata.schema(),
                                /*live_only=*/true, &columns);
}

// What is deleted, by data file.
struct FileDeletes {
  std::unordered_map<std::string, int64_t> rows_by_file;
  bool has_shared = false;  // that may be for any file
};

}  // namespace

FileShape shape_without_deletes(const DataFile& file, const TableMetadata& metadata, int32_t seq_id) {
  FileShape shape;
  shape.partition = iceberg::partition_key(file.partition_spec_id, file.partition);
  shape.bytes = file.file_size_bytes;
  shape.rows = file.record_count;
  shape.must_rewrite = !is_in_sequence(file, metadata, seq_id);
  shape.lower = lowest_number(file, seq_id).value_or(shape.lower);
  shape.upper = highest_number(file, seq_id).value_or(shape.upper);
  return shape;
}

HeadTotals head_totals(const TableMetadata& metadata) {
  const iceberg::Snapshot* head = metadata.current_snapshot();
  if (head == nullptr) return {0, 0, 0, 0, 0};
  return {total(*head, "total-records"), total(*head, "total-position-deletes"), total(*head, "total-files-size"),
          total(*head, "total-data-files"), total(*head, "total-delete-files")};
}

int64_t metadata_file_bytes(const iceberg::LoadedTable& table, FileIO& io) {
  const auto info = io.stat(table.metadata_path);
  return info ? info->size_bytes : 0;
}

HeadFiles look_at_head(const iceberg::LoadedTable& table, FileIO& io) {
  HeadFiles head;
  const TableMetadata& metadata = *table.metadata;
  head.metadata_bytes = metadata_file_bytes(table, io);
  const iceberg::Snapshot* snapshot = metadata.current_snapshot();
  if (snapshot == nullptr) return head;
  const iceberg::Field* number = metadata.schema().find_field(std::string_view(kIngestSeqColumn));
  const int32_t seq_id = number != nullptr ? number->id : 0;
  FileDeletes deletes;
  std::vector<std::string> paths;
  for (const ManifestFile& manifest : iceberg::snapshot_manifests(
           metadata, *snapshot, [&](const std::string& path) { return *iceberg::manifest_cache().read(io, path); })) {
    head.metadata_bytes += manifest.manifest_length;
    if (!iceberg::may_hold_live_files(manifest)) continue;
    for (const ManifestEntry& entry : live_entries(metadata, manifest, io, {seq_id, iceberg::kDeleteFilePathFieldId})) {
      const DataFile& file = entry.file;
      if (file.content != iceberg::FileContent::data) {
        const std::string path = iceberg::single_data_file(file);
        if (file.content == iceberg::FileContent::position_deletes && !path.empty()) {
          deletes.rows_by_file[path] += file.record_count;
        } else {
          deletes.has_shared = true;
        }
        continue;
      }
      head.files.push_back(shape_without_deletes(file, metadata, seq_id));
      paths.push_back(file.file_path);
    }
  }
  for (size_t i = 0; i < paths.size(); ++i) {
    FileShape& shape = head.files[i];
    shape.must_rewrite = shape.must_rewrite || deletes.has_shared;
    const auto found = deletes.rows_by_file.find(paths[i]);
    if (found != deletes.rows_by_file.end()) shape.rows_hidden = std::min(shape.rows, found->second);
  }
  return head;
}

}  // namespace firn::hyp
