// What a table is, and what it went through.
#include <algorithm>
#include <charconv>
#include <set>

#include <fmt/ranges.h>

#include "base/civil_time.h"
#include "cli/firn/command.h"
#include "cli/firn/text_table.h"
#include "iceberg/metadata/changes.h"
#include "iceberg/scan/snapshot_choice.h"

namespace firn::cli {
namespace {

using iceberg::Field;
using iceberg::LoadedTable;
using iceberg::Snapshot;
using iceberg::TableMetadata;

Json ref_json(const iceberg::SnapshotRef& ref) {
  Json json = {{"type", ref.is_branch ? "branch" : "tag"}, {"snapshot-id", ref.snapshot_id}};
  if (ref.min_snapshots_to_keep) json["min-snapshots-to-keep"] = *ref.min_snapshots_to_keep;
  if (ref.max_snapshot_age_ms) json["max-snapshot-age-ms"] = *ref.max_snapshot_age_ms;
  if (ref.max_ref_age_ms) json["max-ref-age-ms"] = *ref.max_ref_age_ms;
  return json;
}

// Whether another catalog writes the table.
bool is_read_only(const iceberg::TableOperations& table, const LoadedTable& head) {
  try {
    check_may_change(table, head);
    return false;
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::unsupported) throw;
    return true;
  }
}

Json describe_json(const iceberg::TableOperations& table, const LoadedTable& head) {
  const TableMetadata& metadata = *head.metadata;
  Json json;
  json["format-version"] = metadata.format_version;
  json["table-uuid"] = metadata.table_uuid;
  json["location"] = metadata.location;
  if (table.location() != metadata.location) json["opened-at"] = table.location();
  json["metadata-file"] = head.metadata_path;
  json["read-only"] = is_read_only(table, head);
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
  for (const auto& [name, ref] : metadata.refs) json["refs"][name] = ref_json(ref);
  return json;
}

// " default 7", or " default 7 (on write 8)" where they differ.
std::string default_text(const Field& field) {
  std::string text;
  if (field.initial_default) text = " default " + to_display(*field.initial_default, *field.type);
  if (field.write_default && field.write_default != field.initial_default) {
    text += (text.empty() ? " default on write " : " (on write ") + to_display(*field.write_default, *field.type) +
            (text.empty() ? "" : ")");
  }
  return text;
}

void print_field(const Field& field, int depth) {
  print_text(fmt::format(
      "{}{} {}: {}{}{}\n", std::string(static_cast<size_t>(depth) * 2 + 2, ' '), field.id, field.name,
      field.type->is_nested() ? (field.type->id() == iceberg::TypeId::struct_ ? "struct"
                                 : field.type->id() == iceberg::TypeId::list  ? "list"
                                                                              : "map")
                              : field.type->to_string(),
      (field.required ? " required" : "") + default_text(field), field.doc.empty() ? "" : "  -- " + field.doc));
  if (!field.type->is_nested()) return;
  for (const Field& child : field.type->fields()) print_field(child, depth + 1);
}

// "added-records" and the like, where the summary has them.
std::string summary_value(const Snapshot& snapshot, const std::string& key) {
  const auto found = snapshot.summary.find(key);
  return found == snapshot.summary.end() ? "" : found->second;
}

// Properties that firn's own programs put in, and the ids of staged snapshots; --json has all.
std::string own_properties(const Snapshot& snapshot) {
  std::string text;
  for (const auto& [key, value] : snapshot.summary) {
    const bool is_own = key.starts_with("firn.") || key.starts_with("orca.");
    if (!is_own && key != "wap.id" && key != "published-wap-id") continue;
    text.append(text.empty() ? "" : " ").append(key).append("=").append(value);
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

struct DescribeArguments {
  TableArgument table;
  bool as_json = false;
};

void describe(const DescribeArguments& arguments) {
  const auto table = open_table(arguments.table);
  const LoadedTable head = table->load();
  const TableMetadata& metadata = *head.metadata;
  if (arguments.as_json) {
    print_text(describe_json(*table, head).dump(2) + "\n");
    return;
  }
  print_text(fmt::format("format version: {}\nuuid: {}\nlocation: {}\n", metadata.format_version, metadata.table_uuid,
                         metadata.location));
  if (table->location() != iceberg::normal_location(metadata.location)) {
    print_text(fmt::format("opened at: {}\n", table->location()));
  }
  if (is_read_only(*table, head)) {
    print_text("read only: another catalog writes it, which would not see firn's commits\n");
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

// Snapshots with a wap.id that no branch or tag leads to, and of which no pick is known.
std::set<int64_t> staged_ids(const TableMetadata& metadata) {
  std::set<int64_t> reached;
  for (const auto& [name, ref] : metadata.refs) {
    for (const int64_t id : ancestor_ids(metadata, ref.snapshot_id)) {
      reached.insert(id);
      const std::string source = summary_value(*metadata.find_snapshot(id), "source-snapshot-id");
      int64_t source_id = 0;
      const auto [end, error] = std::from_chars(source.data(), source.data() + source.size(), source_id);
      if (error == std::errc{}) reached.insert(source_id);
    }
  }
  std::set<int64_t> staged;
  for (const Snapshot& snapshot : metadata.snapshots) {
    if (!summary_value(snapshot, "wap.id").empty() && !reached.contains(snapshot.snapshot_id))
      staged.insert(snapshot.snapshot_id);
  }
  return staged;
}

struct SnapshotsArguments {
  TableArgument table;
  std::vector<std::string> summary_keys;  // further columns
  bool as_json = false;
};

void snapshots(const SnapshotsArguments& arguments) {
  const LoadedTable head = open_table(arguments.table)->load();
  std::vector<Snapshot> ordered(head.metadata->snapshots.begin(), head.metadata->snapshots.end());
  std::stable_sort(ordered.begin(), ordered.end(), [](const Snapshot& a, const Snapshot& b) {
    return a.timestamp_ms != b.timestamp_ms ? a.timestamp_ms < b.timestamp_ms : a.sequence_number < b.sequence_number;
  });
  const std::set<int64_t> staged = staged_ids(*head.metadata);
  if (arguments.as_json) {
    Json json = Json::array();
    for (const Snapshot& snapshot : ordered) {
      json.push_back(snapshot_json(snapshot));
      json.back()["staged"] = staged.contains(snapshot.snapshot_id);
    }
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
                                      snapshot.operation() + (staged.contains(snapshot.snapshot_id) ? " (staged)" : ""),
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

struct SchemaArguments {
  TableArgument table;
  std::string at;
  bool all = false, as_json = false;
};

void print_schema(const iceberg::Schema& schema) {
  for (const Field& field : schema.fields()) print_field(field, 0);
  if (schema.identifier_field_ids().empty()) return;
  std::vector<std::string> names;
  for (const int32_t id : schema.identifier_field_ids()) names.push_back(schema.full_name(id));
  print_text(fmt::format("identifier: {}\n", fmt::join(names, ", ")));
}

void schema(const SchemaArguments& arguments) {
  const LoadedTable head = open_table(arguments.table)->load();
  const TableMetadata& metadata = *head.metadata;
  iceberg::ScanOptions options;
  set_snapshot(options, parse_at(arguments.at, metadata));
  std::vector<iceberg::Schema> schemas = {choose_snapshot(metadata, options).schema};
  if (arguments.all) schemas = metadata.schemas;
  if (arguments.as_json) {
    Json json = Json::array();
    for (const iceberg::Schema& one : schemas) json.push_back(one.to_json());
    print_text((arguments.all ? json : json[0]).dump(2) + "\n");
    return;
  }
  for (const iceberg::Schema& one : schemas) {
    print_text(fmt::format("schema {}{}:\n", one.schema_id(),
                           arguments.all && one.schema_id() == metadata.current_schema_id ? " (current)" : ""));
    print_schema(one);
  }
}

struct RefsArguments {
  TableArgument table;
  bool as_json = false;
};

std::string duration_text(const std::optional<int64_t>& ms) {
  if (!ms) return "";
  constexpr std::pair<int64_t, const char*> kUnits[] = {
      {86'400'000, "d"}, {3'600'000, "h"}, {60'000, "m"}, {1000, "s"}};
  for (const auto& [unit_ms, unit] : kUnits) {
    if (*ms % unit_ms == 0) return fmt::format("{}{}", *ms / unit_ms, unit);
  }
  return fmt::format("{}ms", *ms);
}

void refs(const RefsArguments& arguments) {
  const LoadedTable head = open_table(arguments.table)->load();
  if (arguments.as_json) {
    Json json = Json::object();
    for (const auto& [name, ref] : head.metadata->refs) json[name] = ref_json(ref);
    print_text(json.dump(2) + "\n");
    return;
  }
  TextTable text({"NAME", "TYPE", "SNAPSHOT", "KEEP AT LEAST", "SNAPSHOT AGE MAX", "REF AGE MAX"});
  for (const auto& [name, ref] : head.metadata->refs) {
    text.add({name, ref.is_branch ? "branch" : "tag", std::to_string(ref.snapshot_id),
              ref.min_snapshots_to_keep ? std::to_string(*ref.min_snapshots_to_keep) : "",
              duration_text(ref.max_snapshot_age_ms), duration_text(ref.max_ref_age_ms)});
  }
  text.finish();
}

}  // namespace

static Json summary_json(const Snapshot& snapshot) {
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

void add_look_commands(CLI::App& app) {
  CLI::App* of_describe =
      add_command(app, kReading, "describe", "Schema, partitioning, properties, current snapshot, refs",
                  "describe warehouse/nyc/flights");
  auto& describing = run_with<DescribeArguments>(of_describe, describe);
  add_table(of_describe, describing.table);
  of_describe->add_flag("--json", describing.as_json, "As JSON");
  add_relocate(of_describe, describing.table);

  CLI::App* of_schema = add_command(app, kReading, "schema", "The columns, with ids, types and defaults",
                                    "schema local:nyc.flights --at 2024-03-01 --json");
  auto& of_schemas = run_with<SchemaArguments>(of_schema, schema);
  add_table(of_schema, of_schemas.table);
  add_at(of_schema, of_schemas.at);
  of_schema->add_flag("--all", of_schemas.all, "Every schema that the table has had");
  of_schema->add_flag("--json", of_schemas.as_json, "As the specification's JSON");
  add_relocate(of_schema, of_schemas.table);

  CLI::App* of_snapshots =
      add_command(app, kReading, "snapshots", "The snapshots, oldest first", "snapshots local:nyc.flights --json");
  auto& listing = run_with<SnapshotsArguments>(of_snapshots, snapshots);
  add_table(of_snapshots, listing.table);
  of_snapshots->add_flag("--json", listing.as_json, "As JSON, with the whole summary");
  of_snapshots->add_option("--summary", listing.summary_keys, "A further column: this summary property")
      ->delimiter(',')
      ->allow_extra_args(false);
  add_relocate(of_snapshots, listing.table);

  CLI::App* of_refs = add_command(app, kReading, "refs", "Branches and tags", "refs local:nyc.flights");
  auto& of_names = run_with<RefsArguments>(of_refs, refs);
  add_table(of_refs, of_names.table);
  of_refs->add_flag("--json", of_names.as_json, "As JSON");
  add_relocate(of_refs, of_names.table);
}

}  // namespace firn::cli
