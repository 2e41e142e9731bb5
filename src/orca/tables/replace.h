// A snapshot that replaces partitions, planned on the snapshot that it is committed on top of.
#pragma once

#include <cstdint>
#include <vector>

#include "iceberg/commit/commit.h"
#include "iceberg/manifest/manifest.h"
#include "orca/tables/data_files.h"
#include "orca/tables/step_commit.h"
#include "orca/tables/table.h"

namespace firn::orca {

// Commits `files` and the removal that goes with them (commit.h, replace_partitions); a base that has moved since the
// plan is planned anew. Throws what StepCommit::publish and FileOwners::is_replaced do, and partition_spec_drift.
int64_t publish_replacement(Ctx& ctx, Table& table, StepCommit& step, const DataFiles& files, bool& is_recognised);

// Throws schema_mismatch where `base` means other columns by the field ids that `files` were written with (P2).
void check_schemas(const iceberg::TableMetadata& base, const DataFiles& files);

// The live entries of the current snapshot that `change` takes away, with their spec ids; metrics left out. Reads the
// manifests that may hold them.
std::vector<iceberg::ManifestEntry> taken_entries(const iceberg::TableMetadata& base,
                                                  const iceberg::SnapshotChange& change, FileIO& io);

}  // namespace firn::orca
