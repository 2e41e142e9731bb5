// Why a scan reads what it reads.
#pragma once

#include "iceberg/scan/scan.h"

namespace firn::iceberg {

// What left out a manifest or a file; none: it is read.
enum class PlanRule : uint8_t {
  none,
  no_live_files,    // manifest: its counts say so
  partition_range,  // manifest: no partition in it fits the filter
  older,            // delete manifest: older than every planned file
  partition,        // file: its partition does not fit
  metrics,          // file: its counts and bounds prove that no row fits
};
std::string_view to_string(PlanRule rule);  // "" for none, else as above with spaces

struct ExplainedManifest {
  std::string path;
  ManifestContent content = ManifestContent::data;
  PlanRule pruned_by = PlanRule::none;
};

struct ExplainedFile {
  std::string path;
  std::string format;  // PARQUET, AVRO
  int64_t rows = 0, size_bytes = 0;
  PlanRule pruned_by = PlanRule::none;
  std::vector<std::string> deletes;        // paths of the delete files that apply; planned files only
  std::string residual;                    // what is checked row by row; empty: nothing
  std::vector<RowGroupChoice> row_groups;  // planned Parquet files, where files were opened
};

struct ScanExplanation {
  std::optional<int64_t> snapshot_id;
  std::string filter;                        // as bound; empty: none
  std::vector<ExplainedManifest> manifests;  // data manifests, then delete manifests, in the manifest list's order
  std::vector<ExplainedFile> files;          // live data files of the manifests read, in order
};

// Plans as plan_scan does and says why. `opens_files`: read the footers and indexes of the planned files too, on
// options.threads threads. Throws as plan_scan and the readers do.
ScanExplanation explain_scan(const TableMetadata& metadata, const std::shared_ptr<FileIO>& io,
                             const ScanOptions& options, bool opens_files = true);

}  // namespace firn::iceberg
