// Rows that Java wrote, written again by us: the manifest must say the same of them.
#include <filesystem>

#include "../conformance_tables.h"
#include "files.h"
#include "iceberg/manifest/manifest.h"
#include "iceberg/metadata/table_metadata.h"

namespace firn::iceberg {
namespace {

struct JavaFile {
  std::filesystem::path path;
  DataFile file;
  Schema schema;
  ParquetWriteOptions options;
};

std::vector<JavaFile> java_files(const std::filesystem::path& table) {
  std::vector<JavaFile> files;
  for (const auto& path : metadata_files(table)) {
    const TableMetadata metadata = parse_table_metadata(read_whole(path), path.string());
    const Snapshot* snapshot = metadata.current_snapshot();
    if (snapshot == nullptr || snapshot->manifest_list.empty()) continue;
    const auto list_path = moved_path(table, snapshot->manifest_list);
    if (!std::filesystem::exists(list_path)) continue;
    for (const ManifestFile& manifest : read_manifest_list(read_whole(list_path), list_path.string())) {
      if (manifest.content != ManifestContent::data) continue;
      const auto manifest_path = moved_path(table, manifest.manifest_path);
      if (!std::filesystem::exists(manifest_path)) continue;
      for (const ManifestEntry& entry :
           read_manifest(read_whole(manifest_path), manifest, metadata.spec(manifest.partition_spec_id),
                         metadata.schema(), true)) {
        const auto file_path = moved_path(table, entry.file.file_path);
        if (entry.file.file_format == "PARQUET" && std::filesystem::exists(file_path))
          files.push_back({file_path, entry.file, metadata.schema(), ParquetWriteOptions::from_properties(metadata)});
      }
    }
  }
  return files;
}

TEST(JavaMetrics, CountsAndBoundsOfTheSameRowsAreJavas) {
  // Not those whose files are of an older schema or have no ids: there the columns differ.
  int files = 0;
  const TempFolder folder;
  for (const char* name : {"prim_v1", "nested_v2", "metrics_pruning", "types_java_v2", "types_ns_v3",
                           "part_identity_java_v3", "lineage_v3"}) {
    const auto table = conformance_root() / name;
    if (!std::filesystem::is_directory(table)) continue;
    for (const JavaFile& java : java_files(table)) {
      SCOPED_TRACE(java.path.string());
      ParquetFileWriter writer(*make_local_file_io(), folder / (std::to_string(++files) + ".parquet"), java.schema,
                               java.options);
      for (const auto& batch : read_batches(java.path.string(), {.projection = java.schema}))
        writer.write(*batch.batch);
      const DataFile ours = writer.close();
      EXPECT_EQ(ours.record_count, java.file.record_count);
      // Of top-level columns: below, Java counts a double only where the struct around it is not null.
      const auto top_level = [&](auto map) {
        std::erase_if(map, [&](const auto& item) {
          return std::none_of(java.schema.fields().begin(), java.schema.fields().end(),
                              [&](const Field& f) { return f.id == item.first; });
        });
        return map;
      };
      const auto with_plus_zero = [&](auto bounds) {  // a zero may be bounded below by either zero
        for (auto& [id, bytes] : bounds) {
          const TypeId type = java.schema.find_field(id)->type->id();
          if ((type == TypeId::float_ || type == TypeId::double_) && bytes.back() == '\x80' &&
              bytes.find_first_not_of('\0') == bytes.size() - 1)
            bytes.back() = '\0';
        }
        return bounds;
      };
      EXPECT_EQ(top_level(ours.value_counts), top_level(java.file.value_counts));
      EXPECT_EQ(top_level(ours.null_value_counts), top_level(java.file.null_value_counts));
      EXPECT_EQ(top_level(ours.nan_value_counts), top_level(java.file.nan_value_counts));
      EXPECT_EQ(with_plus_zero(top_level(ours.lower_bounds)), with_plus_zero(top_level(java.file.lower_bounds)));
      EXPECT_EQ(top_level(ours.upper_bounds), top_level(java.file.upper_bounds));
    }
  }
  EXPECT_GT(files, 0);
}

}  // namespace
}  // namespace firn::iceberg
