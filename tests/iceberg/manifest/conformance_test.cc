// Manifests of other engines against what their snapshots say of them.
#include <gtest/gtest.h>

#include <set>

#include "iceberg/conformance_tables.h"
#include "iceberg/manifest/manifest.h"

namespace firn::iceberg {
namespace {

// The snapshot's live files; counts and row ids checked on the way.
struct Totals {
  int64_t data_files = 0, records = 0, delete_files = 0, position_deletes = 0, equality_deletes = 0;
};

void check_counts(const ManifestFile& manifest, const std::vector<ManifestEntry>& entries) {
  ManifestFile counted = manifest;
  set_counts(counted, entries);
  EXPECT_EQ(counted.added_files_count, manifest.added_files_count);
  EXPECT_EQ(counted.existing_files_count, manifest.existing_files_count);
  EXPECT_EQ(counted.deleted_files_count, manifest.deleted_files_count);
  EXPECT_EQ(counted.added_rows_count, manifest.added_rows_count);
  EXPECT_EQ(counted.existing_rows_count, manifest.existing_rows_count);
  EXPECT_EQ(counted.deleted_rows_count, manifest.deleted_rows_count);
}

void add(Totals& totals, const ManifestEntry& entry) {
  switch (entry.file.content) {
    case FileContent::data:
      totals.data_files += 1;
      totals.records += entry.file.record_count;
      break;
    case FileContent::position_deletes:
      totals.delete_files += 1;
      totals.position_deletes += entry.file.record_count;
      break;
    case FileContent::equality_deletes:
      totals.delete_files += 1;
      totals.equality_deletes += entry.file.record_count;
      break;
  }
}

void expect_total(const Snapshot& snapshot, const char* key, int64_t total) {
  const auto found = snapshot.summary.find(key);
  if (found == snapshot.summary.end()) return;
  EXPECT_EQ(found->second, std::to_string(total)) << key;
}

// Writes what was read as this version, reads it again, and compares.
void check_rewrite(const std::vector<ManifestEntry>& entries, const ManifestFile& manifest, const PartitionSpec& spec,
                   const Schema& schema, int32_t format_version) {
  const WrittenManifest written =
      write_manifest(entries, manifest.manifest_path, 1, spec, schema, manifest.content, format_version);
  EXPECT_EQ(written.file.added_rows_count, manifest.added_rows_count);
  // Our bounds are those that Java gives to the same values, but for uuids on both sides of 8000…: none holds for all
  // readers then.
  if (!written.file.partitions) {
    EXPECT_EQ(manifest.manifest_path.find("/warehouse/part_identity_java_v3/"), 0u);
  }
  for (size_t i = 0; written.file.partitions && i < manifest.partitions->size(); ++i) {
    ASSERT_EQ(written.file.partitions->size(), manifest.partitions->size());
    const FieldSummary &ours = written.file.partitions->at(i), &theirs = manifest.partitions->at(i);
    EXPECT_EQ(ours.contains_null, theirs.contains_null);
    EXPECT_EQ(ours.contains_nan, theirs.contains_nan);
    EXPECT_EQ(ours.lower_bound, theirs.lower_bound) << spec.fields[i].name;
    EXPECT_EQ(ours.upper_bound, theirs.upper_bound) << spec.fields[i].name;
  }
  const auto again = read_manifest(written.bytes, written.file, spec, schema, false);
  ASSERT_EQ(again.size(), entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    EXPECT_EQ(again[i].file.file_path, entries[i].file.file_path);
    EXPECT_EQ(again[i].file.partition, entries[i].file.partition);
    EXPECT_EQ(again[i].file.lower_bounds, entries[i].file.lower_bounds);
    EXPECT_EQ(again[i].file.equality_ids, entries[i].file.equality_ids);
    EXPECT_EQ(again[i].sequence_number, entries[i].sequence_number);
  }
}

void check_snapshot(const std::filesystem::path& table, const TableMetadata& metadata, const Snapshot& snapshot) {
  Totals totals;
  std::set<int64_t> row_ids;
  const std::string list = read_whole(moved_path(table, snapshot.manifest_list));
  ASSERT_FALSE(list.empty());
  for (const ManifestFile& manifest : read_manifest_list(list, snapshot.manifest_list)) {
    SCOPED_TRACE(manifest.manifest_path);
    const std::string bytes = read_whole(moved_path(table, manifest.manifest_path));
    EXPECT_EQ(static_cast<int64_t>(bytes.size()), manifest.manifest_length);
    EXPECT_LE(manifest.sequence_number, snapshot.sequence_number);
    const PartitionSpec& spec = metadata.spec(manifest.partition_spec_id);
    const auto entries = read_manifest(bytes, manifest, spec, metadata.schema(), false);
    check_counts(manifest, entries);
    int64_t rows = 0;
    for (const ManifestEntry& entry : entries) {
      EXPECT_EQ(entry.file.content != FileContent::data, manifest.content == ManifestContent::deletes);
      EXPECT_EQ(entry.file.partition.size(), spec.fields.size());
      ASSERT_TRUE(entry.sequence_number.has_value());
      if (entry.status == EntryStatus::deleted) continue;
      EXPECT_GE(*entry.sequence_number, *manifest.min_sequence_number);
      add(totals, entry);
      if (!entry.file.first_row_id) continue;
      EXPECT_LE(*entry.file.first_row_id + entry.file.record_count, metadata.next_row_id);
      for (rows = 0; rows < entry.file.record_count; ++rows)
        EXPECT_TRUE(row_ids.insert(*entry.file.first_row_id + rows).second) << "a row id is given twice";
    }
    if (snapshot.first_row_id) {
      EXPECT_EQ(manifest.content == ManifestContent::data, manifest.first_row_id.has_value());
    }
    check_rewrite(entries, manifest, spec, metadata.schema(), std::max(2, metadata.format_version));
  }
  expect_total(snapshot, "total-data-files", totals.data_files);
  expect_total(snapshot, "total-records", totals.records);
  expect_total(snapshot, "total-delete-files", totals.delete_files);
  expect_total(snapshot, "total-position-deletes", totals.position_deletes);
  expect_total(snapshot, "total-equality-deletes", totals.equality_deletes);
}

TEST(ConformanceManifests, EverySnapshotHoldsWhatItsSummarySays) {
  int snapshots = 0;
  for (const auto& table : table_folders()) {
    std::set<int64_t> seen;
    for (const auto& path : metadata_files(table)) {
      const TableMetadata metadata = parse_table_metadata(read_whole(path), path.string());
      for (const Snapshot& snapshot : metadata.snapshots) {
        if (!seen.insert(snapshot.snapshot_id).second) continue;
        if (!std::filesystem::exists(moved_path(table, snapshot.manifest_list))) continue;  // expired since
        SCOPED_TRACE(path.string() + " snapshot " + std::to_string(snapshot.snapshot_id));
        check_snapshot(table, metadata, snapshot);
        ++snapshots;
      }
    }
  }
  EXPECT_GE(snapshots, 150);
}

TEST(ConformanceManifests, PartitionValuesOfEveryTypeAreThoseThatJavaWrote) {
  const auto table = fixtures_root() / "part_identity_java_v3";
  const TableMetadata metadata = parse_table_metadata(read_whole(table / "metadata/v2.metadata.json"), "v2");
  const Snapshot& snapshot = *metadata.current_snapshot();
  const auto manifests = read_manifest_list(read_whole(moved_path(table, snapshot.manifest_list)), "list");
  std::set<std::string> paths;
  for (const ManifestFile& manifest : manifests) {
    const auto entries = read_manifest(read_whole(moved_path(table, manifest.manifest_path)), manifest, metadata.spec(),
                                       metadata.schema(), true);
    for (const ManifestEntry& entry : entries) {
      // Java's own path holds its view of the tuple, up to the names' escapes: rows are stored under <path>/<file>.
      const std::string& path = entry.file.file_path;
      const size_t data = path.find("/data/") + 6;
      const std::string folder = path.substr(data, path.rfind('/') - data);
      EXPECT_EQ(metadata.spec().partition_path(entry.file.partition, metadata.schema()), folder);
      paths.insert(folder);
    }
  }
  EXPECT_GE(paths.size(), 3u);
}

}  // namespace
}  // namespace firn::iceberg
