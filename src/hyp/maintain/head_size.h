// How large a table's head is, by its summary and its files' sizes.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "hyp/cache/cache.h"
#include "hyp/maintain/compaction_plan.h"

namespace firn::hyp {

// Totals of the current snapshot's summary; nullopt where its writer did not say.
struct HeadTotals {
  std::optional<int64_t> rows_written;  // with deleted ones
  std::optional<int64_t> rows_deleted;  // by position deletes and deletion vectors
  std::optional<int64_t> bytes, files, delete_files;
};
HeadTotals head_totals(const iceberg::TableMetadata& metadata);

// Of a live data file, its deletes aside.
FileShape shape_without_deletes(const iceberg::DataFile& file, const iceberg::TableMetadata& metadata, int32_t seq_id);

// The live data files by the head's manifests, which are kept in memory (iceberg/commit/manifest_cache.h).
// `metadata_bytes`: of the metadata file, the manifest list's entries and nothing older.
struct HeadFiles {
  std::vector<FileShape> files;
  int64_t metadata_bytes = 0;
};
HeadFiles look_at_head(const iceberg::LoadedTable& table, FileIO& io);

int64_t metadata_file_bytes(const iceberg::LoadedTable& table, FileIO& io);

}  // namespace firn::hyp
