// Planning over given manifests: what plan_scan, explain_scan and plan_appends share.
#pragma once

#include <functional>

#include "iceberg/scan/explain.h"
#include "iceberg/scan/scan.h"

namespace firn::iceberg {

// Where a plan's files come from.
struct PlanSource {
  std::vector<ManifestFile> manifests;
  std::function<bool(const ManifestEntry&)> takes;  // of the live entries of data manifests; empty: all
  bool has_deletes = true;                          // false: delete manifests do not matter
};

// Fills in plan.tasks (and what goes with their deletes) of a plan whose schemas and filter are set. `explanation`:
// nullptr, or what becomes of each manifest and file is added to it.
void plan_files(const TableMetadata& metadata, FileIO& io, const ScanOptions& options, const PlanSource& source,
                ScanPlan& plan, ScanExplanation* explanation);

// A plan without tasks: table schema, projection, filter and name mapping.
ScanPlan plan_columns(const TableMetadata& metadata, const Schema& table_schema, const ScanOptions& options);

// `plan` with one of its tasks alone, for a reader that then changes what is read of it.
ScanPlan one_task_plan(const ScanPlan& plan, size_t task_index);

// As plan_scan, explained if `explanation` is given.
ScanPlan plan_snapshot(const TableMetadata& metadata, FileIO& io, const ScanOptions& options,
                       ScanExplanation* explanation);

}  // namespace firn::iceberg
