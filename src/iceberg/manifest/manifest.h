// Manifests and manifest lists (Iceberg spec, "Manifests", "Manifest Lists"). Bytes in, values out, and back; no file
// is opened here.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "iceberg/metadata/table_metadata.h"

namespace firn::iceberg {

enum class FileContent : uint8_t { data = 0, position_deletes = 1, equality_deletes = 2 };
enum class ManifestContent : uint8_t { data = 0, deletes = 1 };
enum class EntryStatus : uint8_t { existing = 0, added = 1, deleted = 2 };

// data_file, field ids of the spec at each member. Maps are by column id; an id that is absent is unknown.
struct DataFile {
  FileContent content = FileContent::data;       // 134; v1: data
  std::string file_path;                         // 100
  std::string file_format = "PARQUET";           // 101, upper case
  std::vector<Value> partition;                  // 102, in the order of the spec's fields
  int64_t record_count = 0;                      // 103
  int64_t file_size_bytes = 0;                   // 104
  std::map<int32_t, int64_t> column_sizes;       // 108
  std::map<int32_t, int64_t> value_counts;       // 109
  std::map<int32_t, int64_t> null_value_counts;  // 110
  std::map<int32_t, int64_t> nan_value_counts;   // 137
  std::map<int32_t, std::string> lower_bounds;   // 125, single-value bytes
  std::map<int32_t, std::string> upper_bounds;   // 128
  std::string key_metadata;                      // 131; empty: none
  std::vector<int64_t> split_offsets;            // 132
  std::vector<int32_t> equality_ids;             // 135
  std::optional<int32_t> sort_order_id;          // 140
  std::optional<int64_t> first_row_id;           // 142, v3
  std::string referenced_data_file;              // 143, v3; empty: none
  std::optional<int64_t> content_offset;         // 144, v3 deletion vectors
  std::optional<int64_t> content_size_bytes;     // 145
  int32_t partition_spec_id = 0;                 // of the manifest, not stored in the entry
};

struct ManifestEntry {
  EntryStatus status = EntryStatus::added;      // 0
  std::optional<int64_t> snapshot_id;           // 1; null inherits the manifest's
  std::optional<int64_t> sequence_number;       // 3; data sequence number; null inherits (added only)
  std::optional<int64_t> file_sequence_number;  // 4
  DataFile file;                                // 2
};

// Bounds of a uuid field may be in either of two orders: the specification's, or by signed 64-bit halves (Java). They
// exclude a value only if both orders do.
struct FieldSummary {
  bool contains_null = true;                            // 509
  std::optional<bool> contains_nan;                     // 518
  std::optional<std::string> lower_bound, upper_bound;  // 510, 511, single-value bytes of the partition field's type
};

struct ManifestFile {
  std::string manifest_path;                        // 500
  int64_t manifest_length = 0;                      // 501
  int32_t partition_spec_id = 0;                    // 502
  ManifestContent content = ManifestContent::data;  // 517; v1: data
  std::optional<int64_t> sequence_number;           // 515; null only while staged: assigned at commit. v1: 0
  std::optional<int64_t> min_sequence_number;       // 516
  int64_t added_snapshot_id = 0;                    // 503
  std::optional<int32_t> added_files_count, existing_files_count, deleted_files_count;  // 504–506; nullopt: unknown
  std::optional<int64_t> added_rows_count, existing_rows_count, deleted_rows_count;     // 512–514
  std::optional<std::vector<FieldSummary>> partitions;                                  // 507
  std::string key_metadata;                                                             // 519
  std::optional<int64_t> first_row_id;                                                  // 520, v3
};

// A manifest's bytes, of any format version and codec (null, deflate, snappy, zstandard), fields resolved by id.
// `manifest` gives what entries inherit: snapshot id, sequence numbers (spec, "Sequence Number Inheritance"),
// first_row_id ("First Row ID Inheritance": added up over entries that have none; deleted ones take no part, as in
// Java, since only added and existing rows have ids reserved). Partition values come in the order of `spec`'s fields.
// Throws corrupt naming manifest.manifest_path. With live_only, deleted entries are left out. `columns_wanted`, if
// given, are the column ids whose stats maps are kept; the rest is skipped.
std::vector<ManifestEntry> read_manifest(std::string_view bytes, const ManifestFile& manifest,
                                         const PartitionSpec& spec, const Schema& schema, bool live_only,
                                         const std::vector<int32_t>* columns_wanted = nullptr);

struct WrittenManifest {
  std::string bytes;
  ManifestFile file;  // whole but for the sequence numbers and row ids that write_manifest_list assigns
};
// Avro with deflate (or the codec named). `entries` all of one content and of `spec`. Null sequence numbers are written
// as null, which only added entries may have. Throws invalid_argument naming the file that is wrong.
WrittenManifest write_manifest(const std::vector<ManifestEntry>& entries, const std::string& path, int64_t snapshot_id,
                               const PartitionSpec& spec, const Schema& schema, ManifestContent content,
                               int32_t format_version, const std::string& codec = "deflate");

// The six counts of `manifest` from all of its entries, deleted ones included.
void set_counts(ManifestFile& manifest, const std::vector<ManifestEntry>& entries);

std::vector<ManifestFile> read_manifest_list(std::string_view bytes, std::string_view where);
// Gives manifests staged by `snapshot` its sequence number. On v3, gives each data manifest without first_row_id its
// own, counting up from `next_row_id` (by added and existing rows). Throws invalid_argument for a manifest whose counts
// are unknown: v2 requires them, so a manifest of a v1 table is read once and gets them from set_counts.
std::string write_manifest_list(std::vector<ManifestFile>& manifests, const Snapshot& snapshot, int32_t format_version,
                                int64_t next_row_id, const std::string& codec = "deflate");

}  // namespace firn::iceberg
