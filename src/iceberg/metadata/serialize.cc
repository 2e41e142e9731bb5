// Writing metadata JSON, members in the order of Java's (Iceberg spec, Appendix C, "Table Metadata and Snapshots").
#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "base/json.h"
#include "iceberg/metadata/table_metadata.h"

namespace firn::iceberg {

namespace {

void add_members(Json& json, const Json& unknown) {
  if (unknown.is_null()) return;
  for (const auto& [key, value] : unknown.items())
    if (!json.contains(key)) json[key] = value;
}

Json snapshot_to_json(const Snapshot& snapshot) {
  Json json = Json::object();
  json["sequence-number"] = snapshot.sequence_number;
  json["snapshot-id"] = snapshot.snapshot_id;
  if (snapshot.parent_snapshot_id) json["parent-snapshot-id"] = *snapshot.parent_snapshot_id;
  json["timestamp-ms"] = snapshot.timestamp_ms;
  if (!snapshot.summary.empty()) json["summary"] = snapshot.summary;
  if (snapshot.manifest_list.empty()) {
    json["manifests"] = snapshot.manifests;  // of a v1 snapshot that outlived the table's upgrade
  } else {
    json["manifest-list"] = snapshot.manifest_list;
  }
  if (snapshot.schema_id) json["schema-id"] = *snapshot.schema_id;
  if (snapshot.first_row_id) json["first-row-id"] = *snapshot.first_row_id;
  if (snapshot.added_rows) json["added-rows"] = *snapshot.added_rows;
  if (!snapshot.key_id.empty()) json["key-id"] = snapshot.key_id;
  add_members(json, snapshot.unknown_members);
  return json;
}

Json ref_to_json(const SnapshotRef& ref) {
  Json json = Json::object();
  json["snapshot-id"] = ref.snapshot_id;
  json["type"] = ref.is_branch ? "branch" : "tag";
  if (ref.min_snapshots_to_keep) json["min-snapshots-to-keep"] = *ref.min_snapshots_to_keep;
  if (ref.max_snapshot_age_ms) json["max-snapshot-age-ms"] = *ref.max_snapshot_age_ms;
  if (ref.max_ref_age_ms) json["max-ref-age-ms"] = *ref.max_ref_age_ms;
  add_members(json, ref.unknown_members);
  return json;
}

template <class Container, class Function>
Json array_of(const Container& values, Function&& to_element) {
  Json array = Json::array();
  for (const auto& value : values) array.push_back(to_element(value));
  return array;
}

// The text of an object, member by member: what grows with the snapshots kept is added as text, without building Json
// of it.
class ObjectText {
 public:
  explicit ObjectText(size_t size_expected) { text_.reserve(size_expected); }
  void add(const std::string& key, const Json& value) { begin(key) += value.dump(); }
  // `append_element(text, index)` for each of `size`.
  template <class Append>
  void add_array(const std::string& key, size_t size, Append append_element) {
    std::string& text = begin(key);
    text += '[';
    for (size_t i = 0; i < size; ++i) {
      if (i > 0) text += ',';
      append_element(text, i);
    }
    text += ']';
  }
  // Those that were not added.
  void add_unknown(const Json& members) {
    if (members.is_null()) return;
    for (const auto& [key, value] : members.items())
      if (std::find(keys_.begin(), keys_.end(), key) == keys_.end()) add(key, value);
  }
  std::string finish() && { return std::move(text_ += '}'); }

 private:
  std::string& begin(const std::string& key) {
    text_ += keys_.empty() ? '{' : ',';
    keys_.push_back(key);
    text_ += Json(key).dump();
    return text_ += ':';
  }

  std::string text_;
  std::vector<std::string> keys_;
};

}  // namespace

const std::string& SnapshotList::json(size_t index) const {
  const Kept& kept = *slots_[index].kept;
  std::call_once(kept.has_json, [&] { kept.json = snapshot_to_json(kept.snapshot).dump(); });
  return kept.json;
}

std::string serialize_table_metadata(const TableMetadata& metadata) {
  if (metadata.format_version != 2 && metadata.format_version != 3)
    fail(ErrorKind::unsupported, "table {}: firn writes format versions 2 and 3, not {}; upgrade the table first",
         metadata.location, metadata.format_version);
  if (metadata.table_uuid.empty())
    fail(ErrorKind::invalid_argument, "table {}: its metadata lack a table-uuid, which version {} requires",
         metadata.location, metadata.format_version);
  const bool is_v3 = metadata.format_version >= 3;

  size_t size_expected = 4096 + 64 * metadata.snapshot_log.size();
  for (size_t i = 0; i < metadata.snapshots.size(); ++i) size_expected += metadata.snapshots.json(i).size() + 1;
  ObjectText text(size_expected);
  text.add("format-version", metadata.format_version);
  text.add("table-uuid", metadata.table_uuid);
  text.add("location", metadata.location);
  text.add("last-sequence-number", metadata.last_sequence_number);
  text.add("last-updated-ms", metadata.last_updated_ms);
  text.add("last-column-id", metadata.last_column_id);
  text.add("current-schema-id", metadata.current_schema_id);
  text.add("schemas", array_of(metadata.schemas, [](const Schema& schema) { return schema.to_json(); }));
  text.add("default-spec-id", metadata.default_spec_id);
  text.add("partition-specs",
           array_of(metadata.partition_specs, [](const PartitionSpec& spec) { return spec.to_json(); }));
  text.add("last-partition-id", metadata.last_partition_id);
  text.add("default-sort-order-id", metadata.default_sort_order_id);
  text.add("sort-orders", array_of(metadata.sort_orders, [](const SortOrder& order) { return order.to_json(); }));
  Json properties = Json::object();
  for (const auto& [key, value] : metadata.properties) properties[key] = value;
  text.add("properties", properties);
  // Readers of v2 expect -1 for none, those of v3 null (spec, Appendix C, current-snapshot-id).
  if (metadata.current_snapshot_id) {
    text.add("current-snapshot-id", *metadata.current_snapshot_id);
  } else {
    text.add("current-snapshot-id", is_v3 ? Json(nullptr) : Json(-1));
  }
  if (is_v3) text.add("next-row-id", metadata.next_row_id);
  if (is_v3 && !metadata.encryption_keys.empty()) text.add("encryption-keys", metadata.encryption_keys);
  Json refs = Json::object();
  for (const auto& [name, ref] : metadata.refs) refs[name] = ref_to_json(ref);
  text.add("refs", refs);
  text.add_array("snapshots", metadata.snapshots.size(),
                 [&](std::string& array, size_t i) { array += metadata.snapshots.json(i); });
  text.add("statistics", metadata.statistics);
  text.add("partition-statistics", metadata.partition_statistics);
  text.add_array("snapshot-log", metadata.snapshot_log.size(), [&](std::string& log, size_t i) {
    const SnapshotLogEntry& entry = metadata.snapshot_log[i];
    const fmt::format_int time_ms(entry.timestamp_ms), id(entry.snapshot_id);
    log.append(R"({"timestamp-ms":)").append(time_ms.data(), time_ms.size());
    log.append(R"(,"snapshot-id":)").append(id.data(), id.size()).append("}");
  });
  text.add_array("metadata-log", metadata.metadata_log.size(), [&](std::string& log, size_t i) {
    const MetadataLogEntry& entry = metadata.metadata_log[i];
    log += fmt::format(R"({{"timestamp-ms":{},"metadata-file":{}}})", entry.timestamp_ms,
                       Json(entry.metadata_file).dump());
  });
  text.add_unknown(metadata.unknown_members);
  return std::move(text).finish();
}

}  // namespace firn::iceberg
