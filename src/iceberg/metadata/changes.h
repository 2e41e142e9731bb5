// Changes of a table's metadata that make no snapshot, for use within commit_metadata's callback. Each returns whether
// it changed anything: what holds already is no change, so that a commit tried again finds its own work done. What is
// refused throws and leaves `metadata` as they were: not_found for what is named and not there, already_exists for a
// ref to be made, invalid_argument else.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "iceberg/metadata/table_metadata.h"
#include "iceberg/schema_update.h"

namespace firn::iceberg {

// --- schema

// `edit` is called once, on the current schema. Beyond what SchemaUpdate refuses: dropping a column that the default
// spec or sort order uses, a promotion that would change a partition value (of any spec), and a column named as a
// partition field. The property schema.name-mapping.default, where set, follows.
bool update_schema(TableMetadata& metadata, const std::function<void(SchemaUpdate&)>& edit,
                   const SchemaUpdateOptions& options = {});

// --- partition spec

struct SpecChange {
  struct Add {
    std::string column;                  // dotted name; primitive, outside lists and maps
    std::string transform = "identity";  // "bucket[16]", "day", …
    std::string name;                    // of the partition field; empty: as Java names it ("ts_day")
  };
  struct Rename {
    std::string name, new_name;  // of partition fields
  };
  // Done in this order.
  std::vector<std::string> remove;  // partition fields by name, or as "day(ts)"
  std::vector<Rename> rename;
  std::vector<Add> add;
};
// The new default spec. A removed field leaves the spec, in v1 it becomes void; a field that any spec had (same source,
// transform and, if given, name) gets its id again; a compatible spec that is there is taken (spec, "Partitioning").
bool update_spec(TableMetadata& metadata, const SpecChange& change);

// --- sort order

struct SortBy {
  std::string column;  // dotted name
  std::string transform = "identity";
  bool ascending = true;
  std::optional<bool> nulls_first;  // nullopt: first where ascending, else last
};
bool set_sort_order(TableMetadata& metadata, const std::vector<SortBy>& fields);  // empty: unsorted

// --- properties, version, location

// Names that are fields of the metadata (format-version, uuid, …) are refused, and what check_properties refuses of
// those set (properties.h).
bool update_properties(TableMetadata& metadata, const std::map<std::string, std::string>& set,
                       const std::vector<std::string>& remove);
// 1 to 2 to 3, never down. Snapshots stay as they are; a v3 table starts at next-row-id 0.
bool upgrade_format_version(TableMetadata& metadata, int32_t format_version);
bool set_location(TableMetadata& metadata, const std::string& location);  // where new files go; nothing is moved

// --- branches and tags

struct RefOptions {
  std::optional<int64_t> snapshot_id;            // nullopt: main's
  std::optional<int32_t> min_snapshots_to_keep;  // branches; all three positive (spec, "Snapshot References")
  std::optional<int64_t> max_snapshot_age_ms;    // branches
  std::optional<int64_t> max_ref_age_ms;         // not main
  bool replace = false;  // an existing ref of the same kind moves (and takes these options); false: it is refused
};
// `now_ms` of these and of those below: the time that the snapshot log notes where main moves.
bool set_branch(TableMetadata& metadata, const std::string& name, const RefOptions& options, int64_t now_ms);
bool set_tag(TableMetadata& metadata, const std::string& name, const RefOptions& options, int64_t now_ms);
bool remove_ref(TableMetadata& metadata, const std::string& name);  // false: there is none. main stays
// Retention alone: a value that is set replaces the ref's, the others stay. options.snapshot_id and replace are not
// looked at.
bool set_ref_retention(TableMetadata& metadata, const std::string& name, const RefOptions& options);
// Moves `branch` (made if it is not there) to the head of ref `to`, which must descend from it.
bool fast_forward(TableMetadata& metadata, const std::string& branch, const std::string& to, int64_t now_ms);

// Moves `branch` back to `snapshot_id`, one of its ancestors.
bool rollback_to_snapshot(TableMetadata& metadata, int64_t snapshot_id, int64_t now_ms,
                          const std::string& branch = "main");
// Moves `branch` back to the newest of its ancestors from before `time_ms`.
bool rollback_to_time(TableMetadata& metadata, int64_t time_ms, int64_t now_ms, const std::string& branch = "main");
// Moves `branch` to any snapshot of the table.
bool set_current_snapshot(TableMetadata& metadata, int64_t snapshot_id, int64_t now_ms,
                          const std::string& branch = "main");

// Snapshot ids from `snapshot_id` (included) towards the root, as far as the snapshots are there.
std::vector<int64_t> ancestor_ids(const TableMetadata& metadata, std::optional<int64_t> snapshot_id);
// Whether `ancestor` is `of` or one of its ancestors.
bool is_ancestor(const TableMetadata& metadata, int64_t ancestor, std::optional<int64_t> of);

// Takes snapshots out, with their statistics and the log's entries up to them (spec, "snapshot-log"). Ids that are not
// there are passed over; one that a ref names is refused. No file is touched.
bool remove_snapshots(TableMetadata& metadata, const std::vector<int64_t>& snapshot_ids);

// --- statistics: JSON objects of the specification's "Table Statistics" and "Partition Statistics", at most one of
// each kind a snapshot, which must be there.

bool set_statistics(TableMetadata& metadata, const Json& file);
bool set_partition_statistics(TableMetadata& metadata, const Json& file);
bool remove_statistics(TableMetadata& metadata, int64_t snapshot_id);
bool remove_partition_statistics(TableMetadata& metadata, int64_t snapshot_id);

}  // namespace firn::iceberg
