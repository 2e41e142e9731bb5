// The commit loop (protocols P1.6, P1.7, P2, P3).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "iceberg/catalog/catalog.h"
#include "iceberg/expr/expression.h"
#include "iceberg/manifest/manifest.h"

namespace firn::iceberg {

// An id looked for in the history of the base of every try; found means landed (P3.1).
struct CommitId {
  std::string property;  // the summary property that carries it, e.g. "firn.commit-id"; set by the commit
  std::string value;
  int64_t floor_sequence = 0;  // last-sequence-number when the first attempt first touched the table (P3.2)
};

// What a try is to do on the base it would build on. Called anew for each try; may throw to refuse (the error passes
// through; as the cause of a commit_unknown while an earlier try may still land).
struct TryPlan {
  std::optional<int64_t> landed_snapshot;  // set: nothing is published, this is the result
  bool already_done = false;               // likewise, for a commit without a snapshot
  std::map<std::string, std::string> set_properties;
  std::vector<std::string> remove_properties;
};
// `snapshot_id` and `sequence_number` are those the new snapshot will have on this base (0 if the commit has none).
using PlanTry = std::function<TryPlan(const TableMetadata& base, int64_t snapshot_id, int64_t sequence_number)>;

// One partition: a spec of the table, and a value for each of its fields in the spec's order.
struct PartitionTuple {
  int32_t spec_id = 0;
  std::vector<Value> values;
};

// What a change was derived from. What other commits did on the branch after `since_snapshot_id` is held against it on
// each try; a conflict is commit_conflict, not tried again here: the caller reads anew (P1.7).
struct ReadCheck {
  std::optional<int64_t> since_snapshot_id;  // the snapshot that was read; nullopt: there was none
  ExpressionPtr filter;                      // unbound: the rows that were read; nullptr: all of them
  std::vector<PartitionTuple> partitions;    // if not empty, only files of these partitions count
  bool no_added_data = false;                // serializable: no data file was added that may hold such a row
  bool no_added_deletes = false;             // no delete was added that may apply to such a row
  bool no_removed_data = false;              // no data file that may hold such a row was removed
};

// One snapshot: files that come and files that go.
struct SnapshotChange {
  std::string operation = "append";  // append, overwrite, delete, replace (spec, "Snapshots", summary)
  std::vector<DataFile> added;       // durable: data files, delete files, deletion vectors; of any spec of the table
  // Live files, told by path and content_offset. A base that lacks one is commit_conflict. Deletion vectors of data
  // files removed here go by themselves.
  std::vector<DataFile> removed;
  // Takes away every live file of these partitions, whatever the base, with their deletes (dynamic partition
  // overwrite).
  std::vector<PartitionTuple> replaced_partitions;
  // The data sequence number of the added data files: a rewrite keeps that of what it read, so that equality deletes
  // made meanwhile still apply. nullopt: the snapshot's.
  std::optional<int64_t> data_sequence_number;
  std::vector<std::string> required_data_files;  // paths that added deletes name: commit_conflict once one is gone
  Schema written_schema;  // field ids of the added files, checked against every base (P2; schema_mismatch)
  std::optional<PartitionSpec> required_spec;  // must be the base's default spec, else partition_spec_drift
  std::optional<ReadCheck> read_check;
  std::string branch = "main";
  // Write-audit-publish: the snapshot is added and no branch moves (summary "wap.id" is the caller's).
  bool stage_only = false;
  bool merge_manifests = true;  // small ones, as commit.manifest* says; false: a fast append
  // Manifests of the base that are written anew: true for those to be gathered by spec and content
  // ("rewrite manifests"; operation replace). Entries keep their numbers.
  std::function<bool(const ManifestFile&)> rewrites_manifest;
  std::optional<int64_t> manifest_target_bytes;  // of those; nullopt: the table's commit.manifest.target-size-bytes
  std::map<std::string, std::string> summary;    // added to Iceberg's own counts
  std::optional<CommitId> commit_id;
  PlanTry plan_try;  // may be empty
};

// A change of metadata alone: schema, spec, order, properties, refs. Applied to a copy of each try's base; false: it
// holds already. May throw to refuse.
using MetadataChange = std::function<bool(TableMetadata& next)>;

struct CommitResult {
  int64_t snapshot_id = 0;  // of the landed snapshot (the last one); 0 for a commit without one
  bool recognised = false;  // an earlier attempt's; nothing was published
  LoadedTable table;        // a head that holds it
};

// One snapshot. Manifests are written once and reused by every try; small ones merged as commit.manifest* says.
// Retries with jittered backoff within commit.retry.*. Throws commit_conflict when retries run out or the base no
// longer has what the change was made from, commit_unknown when the outcome cannot be settled (delete nothing), and
// what plan_try throws. On a known failure the manifests written here are removed; data files are the caller's.
CommitResult commit_snapshot(TableOperations& table, const SnapshotChange& change);

// Metadata-only commits: properties, schema, refs.
CommitResult commit_metadata(TableOperations& table, const MetadataChange& change);

// Several changes as one metadata version, each on what the ones before it left (a transaction): all or none.
using Change = std::variant<SnapshotChange, MetadataChange>;
CommitResult commit_transaction(TableOperations& table, const std::vector<Change>& changes);

// Adds and widens columns so that `wanted` fits (schema.h union_by_name), in a commit of its own (P2). Returns the
// head.
LoadedTable evolve_schema(TableOperations& table, const Schema& wanted);

// The snapshot that carries `id` along `branch` (P3.2); throws commit_unknown if the walk is cut above the floor.
std::optional<int64_t> find_commit(const TableMetadata& base, const std::string& branch, const CommitId& id);

}  // namespace firn::iceberg
