// What a table is, and what it went through.
#include <algorithm>

#include "base/civil_time.h"
#include "base/json.h"
#include "cli/firn/command.h"
#include "cli/firn/text_table.h"

namespace firn::cli {
namespace {

using iceberg::Field;
using iceberg::LoadedTable;
using iceberg::Snapshot;
using iceberg::TableMetadata;

Json summary_json(const Snapshot& snapshot) {
  Json summary = Json::object();
  for (const auto& [key, value] : snapshot.summary) summary[key] = value;
  return summary;
}

Json snapshot_json(const Snapshot& snapshot) {
  Json json;
  json["snapshot-id"] = snapshot.snapshot_id;
  json["parent-snapshot-id"] = snapshot.parent_snapshot_id ? Json(*snapshot.parent_snapshot_id) : Json();
  json["sequence-number"] = snapshot.sequence_number;
  json["timestamp-ms"] = snapshot.timestamp_ms;
  json["committed-at"] = format_timestamp_ms_utc(snapshot.timestamp_ms);
  json["operation"] = snapshot.operation();
  if (snapshot.schema_id) json["schema-id"] = *snapshot.schema_id;
  if (snapshot.first_row_id) json["first-row-id"] = *snapshot.first_row_id;
  if (snapshot.added_rows) json["added-rows"] = *snapshot.added_rows;
  json["manifest-list"] = snapshot.manifest_list;
  json["summary"] = summary_json(snapshot);
  return json;
}

Json describe_json(const iceberg::TableOperations& table, const LoadedTable& head) {
  const TableMetadata& metadata = *head.metadata;
  Json json;
  json["format-version"] = metadata.format_version;
  json["table-uuid"] = metadata.table_uuid;
  json["location"] = metadata.location;
  if (table.location() != metadata.location) json["opened-at"] = table.location();
  json["metadata-file"] = head.metadata_path;
  json["last-updated-ms"] = metadata.last_updated_ms;
  json["last-sequence-number"] = metadata.last_sequence_number;
  if (metadata.format_version >= 3) json["next-row-id"] = metadata.next_row_id;
  json["schema"] = metadata.schema().to_json();
  json["partition-spec"] = metadata.spec().to_json();
  json["sort-order"] = metadata.sort_order().to_json();
  json["properties"] = Json::object();
  for (const auto& [key, value] : metadata.properties) json["properties"][key] = value;
  const Snapshot* current = metadata.current_snapshot();
  json["current-snapshot"] = current ? snapshot_json(*current) : Json();
  json["refs"] = Json::object();
  for (const auto& [name, ref] : metadata.refs) {
    json["refs"][name] = {{"type", ref.is_branch ? "branch" : "tag"}, {"snapshot-id", ref.snapshot_id}};
  }
  return json;
}

void print_field(const Field& field, int depth) {
  print_text(fmt::format("{}{} {}: {}{}{}\n", std::string(static_cast<size_t>(depth) * 2 + 2, ' '), field.id,
                         field.name,
                         field.type->is_nested() ? (field.type->id() == iceberg::TypeId::struct_ ? "struct"
                                                    : field.type->id() == iceberg::TypeId::list  ? "list"
                                                                                                 : "map")
                                                 : field.type->to_string(),
                         field.required ? " required" : "", field.doc.empty() ? "" : "  -- " + field.doc));
  if (!field.type->is_nested()) return;
  for (const Field& child : field.type->fields()) print_field(child, depth + 1);
}

// "added-records" and the like, where the summary has them.
std::string summary_value(const Snapshot& snapshot, const std::string& key) {
  const auto found = snapshot.summary.find(key);
  return found == snapshot.summary.end() ? "" : found->second;
}

// Properties that firn's own programs put in; other engines have theirs in --json.
std::string own_properties(const Snapshot& snapshot) {
  std::string text;
  for (const auto& [key, value] : snapshot.summary) {
    if (key.starts_with("firn.") || key.starts_with("orca.")) text += (text.empty() ? "" : " ") + key + "=" + value;
  }
  return text;
}

void print_current(const TableMetadata& metadata) {
  const Snapshot* current = metadata.current_snapshot();
  if (!current) {
    print_text("current snapshot: none\n");
    return;
  }
  print_text(fmt::format("current snapshot: {} ({}, {})\n", current->snapshot_id, current->operation(),
                         format_timestamp_ms_utc(current->timestamp_ms)));
  for (const auto& [key, value] : current->summary) {
    if (key.starts_with("total-")) print_text(fmt::format("  {}: {}\n", key, value));
  }
}

}  // namespace

void describe(const TableArgument& argument, bool as_json) {
  const auto table = open_table(argument);
  const LoadedTable head = table->load();
  const TableMetadata& metadata = *head.metadata;
  if (as_json) {
    print_text(describe_json(*table, head).dump(2) + "\n");
    return;
  }
  print_text(fmt::format("format version: {}\nuuid: {}\nlocation: {}\n", metadata.format_version, metadata.table_uuid,
                         metadata.location));
  if (table->location() != iceberg::normal_location(metadata.location)) {
    print_text(fmt::format("opened at: {}\n", table->location()));
  }
  print_text(fmt::format("metadata file: {}\nlast updated: {}\nsequence number: {}\n", head.metadata_path,
                         format_timestamp_ms_utc(metadata.last_updated_ms), metadata.last_sequence_number));
  if (metadata.format_version >= 3) print_text(fmt::format("next row id: {}\n", metadata.next_row_id));
  print_text(fmt::format("schema {}:\n", metadata.schema().schema_id()));
  for (const Field& field : metadata.schema().fields()) print_field(field, 0);
  print_text(
      fmt::format("partition spec {}: {}\n", metadata.spec().spec_id, metadata.spec().to_display(metadata.schema())));
  print_text(fmt::format("sort order {}: {}\n", metadata.sort_order().order_id,
                         metadata.sort_order().to_display(metadata.schema())));
  print_text(metadata.properties.empty() ? "properties: none\n" : "properties:\n");
  for (const auto& [key, value] : metadata.properties) print_text(fmt::format("  {}: {}\n", key, value));
  print_current(metadata);
  print_text(metadata.refs.empty() ? "refs: none\n" : "refs:\n");
  for (const auto& [name, ref] : metadata.refs) {
    print_text(fmt::format("  {} {}: {}\n", ref.is_branch ? "branch" : "tag", name, ref.snapshot_id));
  }
}

void snapshots(const TableArgument& argument, const SnapshotsArguments& arguments) {
  const LoadedTable head = open_table(argument)->load();
  std::vector<Snapshot> ordered = head.metadata->snapshots;
  std::stable_sort(ordered.begin(), ordered.end(), [](const Snapshot& a, const Snapshot& b) {
    return a.timestamp_ms != b.timestamp_ms ? a.timestamp_ms < b.timestamp_ms : a.sequence_number < b.sequence_number;
  });
  if (arguments.as_json) {
    Json json = Json::array();
    for (const Snapshot& snapshot : ordered) json.push_back(snapshot_json(snapshot));
    print_text(json.dump(2) + "\n");
    return;
  }
  std::vector<std::string> titles = {"SNAPSHOT",    "PARENT",     "COMMITTED AT", "OPERATION",
                                     "ADDED FILES", "ADDED ROWS", "TOTAL FILES",  "TOTAL ROWS"};
  for (const std::string& key : arguments.summary_keys) titles.push_back(key);
  titles.push_back("PROPERTIES");
  TextTable text(titles);
  for (const Snapshot& snapshot : ordered) {
    std::vector<std::string> cells = {std::to_string(snapshot.snapshot_id),
                                      snapshot.parent_snapshot_id ? std::to_string(*snapshot.parent_snapshot_id) : "",
                                      format_timestamp_ms_utc(snapshot.timestamp_ms),
                                      snapshot.operation(),
                                      summary_value(snapshot, "added-data-files"),
                                      summary_value(snapshot, "added-records"),
                                      summary_value(snapshot, "total-data-files"),
                                      summary_value(snapshot, "total-records")};
    for (const std::string& key : arguments.summary_keys) cells.push_back(summary_value(snapshot, key));
    cells.push_back(own_properties(snapshot));
    text.add(std::move(cells));
  }
  text.finish();
}

}  // namespace firn::cli
