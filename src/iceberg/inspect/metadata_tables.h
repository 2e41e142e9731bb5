// A table's metadata as tables, with the columns and types that Java Iceberg and Spark give them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <arrow/record_batch.h>

#include "iceberg/metadata/table_metadata.h"
#include "io/file_io.h"

namespace firn::iceberg {

struct MetadataTableOptions {
  // The snapshot that tables of one snapshot show (manifests, entries, files, partitions, …): at most one of the three,
  // none is the current one. Tables of the whole table (snapshots, history, refs, all_…, …) take none.
  std::optional<int64_t> snapshot_id;
  std::string ref;
  std::optional<int64_t> as_of_ms;
  std::string metadata_path;  // of `metadata`, for metadata_log_entries, which lists it last; empty: left out
  int64_t batch_rows_max = 4096;
};

// "snapshots", "history", "refs", "metadata_log_entries", "properties", "manifests", "all_manifests", "entries",
// "all_entries", "files", "data_files", "delete_files", "all_files", "all_data_files", "all_delete_files",
// "partitions".
const std::vector<std::string>& metadata_table_names();

// One manifest is held at a time, and for "partitions" one row a partition; all_… tables keep the paths of manifests
// that they have shown. Throws not_found for an unknown name (listing those there are), snapshot or ref; ReadNext
// throws firn::Error. The reader keeps `io` and a copy of `metadata`. One thread at a time.
std::shared_ptr<arrow::RecordBatchReader> metadata_table(const TableMetadata& metadata, std::shared_ptr<FileIO> io,
                                                         const std::string& name,
                                                         const MetadataTableOptions& options = {});

}  // namespace firn::iceberg
