// Table metadata v1–v3 (Iceberg spec, "Table Metadata", Appendix C). Values only: no file is opened here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "iceberg/transform.h"

namespace firn::iceberg {

struct Snapshot {
  int64_t snapshot_id = 0;
  std::optional<int64_t> parent_snapshot_id;
  int64_t sequence_number = 0;  // 0 in v1
  int64_t timestamp_ms = 0;
  std::string manifest_list;                   // empty only in old v1 tables, which have `manifests`
  std::vector<std::string> manifests;          // v1 alone
  std::map<std::string, std::string> summary;  // with "operation"
  std::optional<int32_t> schema_id;
  std::optional<int64_t> first_row_id;   // v3
  std::optional<int64_t> added_rows;     // v3
  std::string key_id;                    // v3 encryption; kept
  Json unknown_members;                  // members of its JSON that are not above; null: none. Written back
  const std::string& operation() const;  // "" if absent
};

// The snapshots of a table, in the order of the file. One never changes once it is here, so a copy of the list, which
// each version of the metadata has, shares them and the JSON made of them: a commit's cost would else grow with all
// that is kept (P1.8). Copies may be read and changed by different threads; one list is as safe as a std::vector.
class SnapshotList {
  struct Kept {
    explicit Kept(Snapshot value) : snapshot(std::move(value)) {}
    const Snapshot snapshot;
    mutable std::once_flag has_json;
    mutable std::string json;  // made when first written: who only reads a table does not pay for it
  };
  struct Slot {
    int64_t snapshot_id;  // beside the pointer, so that a search follows none
    std::shared_ptr<const Kept> kept;
  };

 public:
  class const_iterator {  // references stay valid while any list holds the snapshot, not only this one
   public:
    using iterator_category = std::bidirectional_iterator_tag;
    using value_type = Snapshot;
    using difference_type = std::ptrdiff_t;
    using pointer = const Snapshot*;
    using reference = const Snapshot&;

    const_iterator() = default;
    reference operator*() const { return slot_->kept->snapshot; }
    pointer operator->() const { return &slot_->kept->snapshot; }
    const_iterator& operator++() { return ++slot_, *this; }
    const_iterator& operator--() { return --slot_, *this; }
    const_iterator operator++(int) { return const_iterator(slot_++); }
    const_iterator operator--(int) { return const_iterator(slot_--); }
    bool operator==(const const_iterator&) const = default;

   private:
    friend SnapshotList;
    explicit const_iterator(const Slot* slot) : slot_(slot) {}
    const Slot* slot_ = nullptr;
  };
  using iterator = const_iterator;
  using value_type = Snapshot;
  using const_reference = const Snapshot&;
  using size_type = size_t;

  SnapshotList() = default;
  SnapshotList(std::initializer_list<Snapshot> snapshots) {
    for (const Snapshot& snapshot : snapshots) push_back(snapshot);
  }

  size_t size() const { return slots_.size(); }
  bool empty() const { return slots_.empty(); }
  const_iterator begin() const { return const_iterator(slots_.data()); }
  const_iterator end() const { return const_iterator(slots_.data() + slots_.size()); }
  std::reverse_iterator<const_iterator> rbegin() const { return std::reverse_iterator(end()); }
  std::reverse_iterator<const_iterator> rend() const { return std::reverse_iterator(begin()); }
  const Snapshot& operator[](size_t index) const { return slots_[index].kept->snapshot; }
  const Snapshot& back() const { return slots_.back().kept->snapshot; }
  const Snapshot* find(int64_t snapshot_id) const;  // nullptr: none
  // The object that metadata files hold for it. Made once for all lists that share the snapshot; any thread may ask.
  const std::string& json(size_t index) const;

  void reserve(size_t size) { slots_.reserve(size); }
  void push_back(Snapshot snapshot);
  void replace(size_t index, Snapshot snapshot);  // in this list alone
  // Takes out those for which `predicate` holds; returns how many.
  template <class Predicate>
  size_t erase_if(Predicate predicate) {
    return std::erase_if(slots_, [&](const Slot& slot) { return predicate(slot.kept->snapshot); });
  }

 private:
  std::vector<Slot> slots_;
};

struct SnapshotRef {
  int64_t snapshot_id = 0;
  bool is_branch = true;
  std::optional<int32_t> min_snapshots_to_keep;
  std::optional<int64_t> max_snapshot_age_ms, max_ref_age_ms;
  Json unknown_members;  // as a snapshot's
};

struct SnapshotLogEntry {
  int64_t timestamp_ms = 0;
  int64_t snapshot_id = 0;
};
struct MetadataLogEntry {
  int64_t timestamp_ms = 0;
  std::string metadata_file;
};

struct TableMetadata {
  int32_t format_version = 2;
  std::string table_uuid;
  std::string location;
  int64_t last_sequence_number = 0;
  int64_t last_updated_ms = 0;
  int32_t last_column_id = 0;
  int32_t current_schema_id = 0;
  std::vector<Schema> schemas;
  int32_t default_spec_id = 0;
  std::vector<PartitionSpec> partition_specs;
  int32_t last_partition_id = 999;
  int32_t default_sort_order_id = 0;
  std::vector<SortOrder> sort_orders;
  std::map<std::string, std::string> properties;
  std::optional<int64_t> current_snapshot_id;  // JSON -1 is none
  SnapshotList snapshots;
  std::vector<SnapshotLogEntry> snapshot_log;
  std::vector<MetadataLogEntry> metadata_log;
  std::map<std::string, SnapshotRef> refs;             // "main" follows current_snapshot_id
  std::vector<Json> statistics, partition_statistics;  // kept as they are
  std::vector<Json> encryption_keys;                   // v3, kept
  int64_t next_row_id = 0;                             // v3
  Json unknown_members;  // of later or other writers, as a snapshot's; those that v1 alone has are not among them

  const Schema& schema() const;            // current; throws corrupt if the id is dangling
  const Schema& schema(int32_t id) const;  // throws corrupt
  const PartitionSpec& spec() const;       // default
  const PartitionSpec& spec(int32_t id) const;
  const SortOrder& sort_order() const;
  const Snapshot* current_snapshot() const;  // nullptr: none
  const Snapshot* find_snapshot(int64_t id) const;
  std::string property(std::string_view key, std::string_view fallback) const;
  int64_t int_property(std::string_view key, int64_t fallback) const;  // throws invalid_argument if it is no number
  bool bool_property(std::string_view key, bool fallback) const;
};

// Throws corrupt naming `where`, unsupported for a format version above 3. `bytes` may be gzip (told by magic bytes).
TableMetadata parse_table_metadata(std::string_view bytes, std::string_view where);
// Format version 2 or 3 (throws unsupported for 1).
std::string serialize_table_metadata(const TableMetadata& metadata);

// Metadata of a table that has no snapshot: fresh column ids (spec and sort order follow by name of their source in
// `schema`), uuid made. Properties in `properties`: "format-version" is honoured (default 2) and not stored. Throws
// invalid_argument for types that the version lacks or no file could store, a name repeated, a property that firn could
// not use (properties.h), and so on.
TableMetadata new_table_metadata(const std::string& location, const Schema& schema, const PartitionSpec& spec,
                                 const SortOrder& order, std::map<std::string, std::string> properties, int64_t now_ms);

// `schema` added as the current one (an equal one that is there is taken); ids must be the table's. Throws
// invalid_argument, leaving `metadata` as they were, for types that the version lacks or, in a new or changed column,
// no file could store, ids above last-column-id, and where it lacks a column that the default spec or sort order needs.
void set_current_schema(TableMetadata& metadata, const Schema& schema, int32_t last_column_id);

// Appends `snapshot` to the history of `branch` ("main" or another; "": none, the snapshot is only staged) and its log,
// sequence and row-id counters. Its time is moved up to the table's last where a writer's clock is behind. Throws
// invalid_argument, leaving `metadata` as they were, if it does not follow the branch's head, or if its sequence number
// or first row id is behind the table's.
void add_snapshot(TableMetadata& metadata, const Snapshot& snapshot, const std::string& branch);

}  // namespace firn::iceberg
