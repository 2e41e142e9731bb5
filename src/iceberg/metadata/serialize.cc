// Writing metadata JSON, members in the order of Java's (Iceberg spec, Appendix C, "Table Metadata and Snapshots").
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

}  // namespace

std::string serialize_table_metadata(const TableMetadata& metadata) {
  if (metadata.format_version != 2 && metadata.format_version != 3)
    fail(ErrorKind::unsupported, "table {}: firn writes format versions 2 and 3, not {}; upgrade the table first",
         metadata.location, metadata.format_version);
  if (metadata.table_uuid.empty())
    fail(ErrorKind::invalid_argument, "table {}: its metadata lack a table-uuid, which version {} requires",
         metadata.location, metadata.format_version);
  const bool is_v3 = metadata.format_version >= 3;

  Json json = Json::object();
  json["format-version"] = metadata.format_version;
  json["table-uuid"] = metadata.table_uuid;
  json["location"] = metadata.location;
  json["last-sequence-number"] = metadata.last_sequence_number;
  json["last-updated-ms"] = metadata.last_updated_ms;
  json["last-column-id"] = metadata.last_column_id;
  json["current-schema-id"] = metadata.current_schema_id;
  json["schemas"] = array_of(metadata.schemas, [](const Schema& schema) { return schema.to_json(); });
  json["default-spec-id"] = metadata.default_spec_id;
  json["partition-specs"] =
      array_of(metadata.partition_specs, [](const PartitionSpec& spec) { return spec.to_json(); });
  json["last-partition-id"] = metadata.last_partition_id;
  json["default-sort-order-id"] = metadata.default_sort_order_id;
  json["sort-orders"] = array_of(metadata.sort_orders, [](const SortOrder& order) { return order.to_json(); });
  Json properties = Json::object();
  for (const auto& [key, value] : metadata.properties) properties[key] = value;
  json["properties"] = std::move(properties);
  // Readers of v2 expect -1 for none, those of v3 null (spec, Appendix C, current-snapshot-id).
  if (metadata.current_snapshot_id) {
    json["current-snapshot-id"] = *metadata.current_snapshot_id;
  } else {
    json["current-snapshot-id"] = is_v3 ? Json(nullptr) : Json(-1);
  }
  if (is_v3) json["next-row-id"] = metadata.next_row_id;
  if (is_v3 && !metadata.encryption_keys.empty()) json["encryption-keys"] = metadata.encryption_keys;
  Json refs = Json::object();
  for (const auto& [name, ref] : metadata.refs) refs[name] = ref_to_json(ref);
  json["refs"] = std::move(refs);
  json["snapshots"] = array_of(metadata.snapshots, snapshot_to_json);
  json["statistics"] = metadata.statistics;
  json["partition-statistics"] = metadata.partition_statistics;
  json["snapshot-log"] = array_of(metadata.snapshot_log, [](const SnapshotLogEntry& entry) {
    return Json{{"timestamp-ms", entry.timestamp_ms}, {"snapshot-id", entry.snapshot_id}};
  });
  json["metadata-log"] = array_of(metadata.metadata_log, [](const MetadataLogEntry& entry) {
    return Json{{"timestamp-ms", entry.timestamp_ms}, {"metadata-file", entry.metadata_file}};
  });
  add_members(json, metadata.unknown_members);
  return json.dump();
}

}  // namespace firn::iceberg
