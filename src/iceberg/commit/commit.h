// The commit loop (protocols P1.6, P1.7, P2, P3).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "iceberg/catalog/catalog.h"
#include "iceberg/manifest/manifest.h"

namespace firn::iceberg {

// An id looked for in the history of the base of every try; found means landed (P3.1).
struct CommitId {
  std::string property;  // the summary property that carries it, e.g. "firn.commit-id"; set by the commit
  std::string value;
  int64_t floor_sequence = 0;  // last-sequence-number when the first attempt first touched the table (P3.2)
};

// What a try is to do on the base it would build on. Called anew for each try; may throw to refuse (the error passes
// through).
struct TryPlan {
  std::optional<int64_t> landed_snapshot;  // set: nothing is published, this is the result
  bool already_done = false;               // likewise, for a commit without a snapshot
  std::map<std::string, std::string> set_properties;
  std::vector<std::string> remove_properties;
};
// `snapshot_id` and `sequence_number` are those the new snapshot will have on this base (0 if the commit has none).
using PlanTry = std::function<TryPlan(const TableMetadata& base, int64_t snapshot_id, int64_t sequence_number)>;

struct AppendCommit {
  std::vector<DataFile> files;  // durable; written under `written_schema`
  Schema written_schema;        // field ids checked against every base (P2; schema_mismatch)
  PartitionSpec written_spec;   // must be the base's default spec, else partition_spec_drift
  std::string branch = "main";
  std::map<std::string, std::string> summary;  // added to Iceberg's own counts
  std::optional<CommitId> commit_id;
  PlanTry plan_try;  // may be empty
};

struct CommitResult {
  int64_t snapshot_id = 0;  // of the landed snapshot; 0 for a commit without one
  bool recognised = false;  // an earlier attempt's; nothing was published
  LoadedTable table;        // a head that holds it
};

// One append snapshot. Manifests are written once and reused by every try; small ones merged as commit.manifest* says.
// Retries with jittered backoff within commit.retry.*. Throws commit_conflict when retries run out, commit_unknown when
// the outcome cannot be settled (delete nothing), and what plan_try throws. On a known failure the manifests written
// here are removed; data files are the caller's.
CommitResult commit_append(TableOperations& table, const AppendCommit& commit);

// Metadata-only commits: properties, schema. `change` is applied to a copy of each try's base; false: it holds already.
CommitResult commit_metadata(TableOperations& table, const std::function<bool(TableMetadata& next)>& change);

// Adds and widens columns so that `wanted` fits (schema.h union_by_name), in a commit of its own (P2). Returns the
// head.
LoadedTable evolve_schema(TableOperations& table, const Schema& wanted);

// The snapshot that carries `id` along `branch` (P3.2); throws commit_unknown if the walk is cut above the floor.
std::optional<int64_t> find_commit(const TableMetadata& base, const std::string& branch, const CommitId& id);

}  // namespace firn::iceberg
