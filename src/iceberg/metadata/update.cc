// Changes of metadata: a new table, a new schema, a new snapshot.
#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/uuid.h"
#include "iceberg/metadata/properties.h"
#include "iceberg/metadata/table_metadata.h"

namespace firn::iceberg {

namespace {

// Throws invalid_argument for what `format_version` lacks (spec, "Primitive Types", "Default values").
void check_field(const Field& field, int32_t format_version, const std::string& title) {
  const std::string name = title.empty() ? field.name : title + "." + field.name;
  if (format_version < 3) {
    if (needs_v3(field.type->id()))
      fail(ErrorKind::invalid_argument, "column {}: type {} needs format version 3; set \"format-version\" to 3", name,
           field.type->to_string());
    if (field.initial_default && !is_null(*field.initial_default))
      fail(ErrorKind::invalid_argument, "column {}: default values need format version 3", name);
    if (field.write_default && !is_null(*field.write_default))
      fail(ErrorKind::invalid_argument, "column {}: default values need format version 3", name);
  }
  if (field.type->id() == TypeId::unknown && field.required)
    fail(ErrorKind::invalid_argument, "column {}: type unknown must be optional", name);
  if (!field.type->is_nested()) return;
  for (const Field& child : field.type->fields()) check_field(child, format_version, name);
}

void check_fields(const Schema& schema, int32_t format_version) {
  for (const Field& field : schema.fields()) check_field(field, format_version, "");
}

// A Parquet file's levels, those of the schema's root aside: Arrow reads 100 with it, and no more.
constexpr int kParquetLevelsMax = 99;

int parquet_levels(const Type& type) {
  if (type.id() == TypeId::variant) return 2;
  int below = 0;
  for (const Field& field : type.fields()) below = std::max(below, parquet_levels(*field.type));
  const bool is_repeated = type.id() == TypeId::list || type.id() == TypeId::map;
  return below + (is_repeated ? 2 : 1);
}

// Throws invalid_argument for a name or a type that no file of the table could have.
void check_storable(const Field& field, const std::string& title) {
  const std::string name = title.empty() ? field.name : title + "." + field.name;
  if (field.name.empty())
    fail(ErrorKind::invalid_argument, "a column{}{} has no name: give it one", title.empty() ? "" : " of ", title);
  if (field.type->id() == TypeId::fixed && field.type->length() == 0)
    fail(ErrorKind::invalid_argument, "column {}: fixed[0] has no bytes; fixed[1] is the shortest", name);
  if (const int levels = title.empty() ? parquet_levels(*field.type) : 0; levels > kParquetLevelsMax)
    fail(ErrorKind::invalid_argument,
         "column {}: its type takes {} levels in a Parquet file, and {} can be read back (a list or map takes two, a "
         "struct or value one): nest it less deep",
         name, levels, kParquetLevelsMax);
  for (const Field& child : field.type->fields()) check_storable(child, name);
}

// The id in `fresh` of what is column `id` in `schema`.
int32_t fresh_id(const Schema& schema, const Schema& fresh, int32_t id, std::string_view user) {
  if (schema.find_field(id) == nullptr)
    fail(ErrorKind::invalid_argument, "{} names column id {}, which the schema lacks", user, id);
  return fresh.find_field(schema.full_name(id))->id;
}

void check_transform(const Schema& schema, const Transform& transform, const std::vector<int32_t>& source_ids,
                     std::string_view user) {
  if (source_ids.size() != 1) fail(ErrorKind::unsupported, "{} takes several columns", user);
  const Field& source = *schema.find_field(source_ids.front());
  const std::string name = schema.full_name(source.id);
  if (transform.kind == TransformKind::unknown)
    fail(ErrorKind::invalid_argument, "{}: unknown transform '{}'", user, transform.name);
  if (source.type->is_nested() || !can_transform(transform, *source.type))
    fail(ErrorKind::invalid_argument, "{}: {} cannot transform column {} of type {}", user, transform.name, name,
         source.type->to_string());
  if (schema.is_nested_below_list_or_map(source.id))
    fail(ErrorKind::invalid_argument, "{}: column {} lies within a list or map", user, name);
}

PartitionSpec fresh_spec(const PartitionSpec& spec, const Schema& schema, const Schema& fresh) {
  PartitionSpec result;
  std::set<std::string> names;
  int32_t next_id = 1000;
  for (PartitionField field : spec.fields) {
    const std::string user = "partition field " + field.name;
    for (int32_t& id : field.source_ids) id = fresh_id(schema, fresh, id, user);
    check_transform(fresh, field.transform, field.source_ids, user);
    if (field.name.empty()) fail(ErrorKind::invalid_argument, "a partition field has no name");
    if (!names.insert(field.name).second) fail(ErrorKind::invalid_argument, "{}: the name is taken twice", user);
    // Readers would take it for the column (Java refuses it too).
    const Field* column = fresh.find_field(field.name);
    if (column != nullptr && (field.transform.kind != TransformKind::identity || column->id != field.source_id()))
      fail(ErrorKind::invalid_argument, "{}: a column has that name; give the field another", user);
    field.field_id = next_id++;
    result.fields.push_back(std::move(field));
  }
  return result;
}

SortOrder fresh_order(const SortOrder& order, const Schema& schema, const Schema& fresh) {
  SortOrder result;
  result.order_id = order.fields.empty() ? 0 : 1;  // 0 is reserved for unsorted
  for (SortField field : order.fields) {
    for (int32_t& id : field.source_ids) id = fresh_id(schema, fresh, id, "the sort order");
    check_transform(fresh, field.transform, field.source_ids, "the sort order");
    result.fields.push_back(std::move(field));
  }
  return result;
}

int32_t take_format_version(std::map<std::string, std::string>& properties) {
  const auto found = properties.find("format-version");
  if (found == properties.end()) return 2;
  const std::string text = found->second;
  properties.erase(found);
  if (text == "2") return 2;
  if (text == "3") return 3;
  fail(ErrorKind::invalid_argument, "format-version is '{}'; firn creates tables of version 2 and 3", text);
}

// What the default spec and sort order are computed from must stay.
void check_sources(const TableMetadata& metadata, const Schema& schema) {
  for (const PartitionField& field : metadata.spec().fields) {
    if (field.transform.kind == TransformKind::void_) continue;
    for (const int32_t id : field.source_ids)
      if (schema.find_field(id) == nullptr)
        fail(ErrorKind::invalid_argument, "table {}: partition field {} needs column id {}, which the new schema lacks",
             metadata.location, field.name, id);
  }
  for (const SortField& field : metadata.sort_order().fields)
    for (const int32_t id : field.source_ids)
      if (schema.find_field(id) == nullptr)
        fail(ErrorKind::invalid_argument, "table {}: its sort order needs column id {}, which the new schema lacks",
             metadata.location, id);
}

// Gives `snapshot` its row ids' end, and the table the next one (spec, "Snapshot Row IDs").
void advance_row_ids(TableMetadata& metadata, const Snapshot& snapshot) {
  if (!snapshot.first_row_id || !snapshot.added_rows)
    fail(ErrorKind::invalid_argument,
         "table {}: snapshot {} lacks first-row-id and added-rows, which version 3 requires", metadata.location,
         snapshot.snapshot_id);
  if (*snapshot.first_row_id < metadata.next_row_id || *snapshot.added_rows < 0)
    fail(ErrorKind::invalid_argument,
         "table {}: snapshot {} starts at row id {}, below the table's next, {}; stage it again", metadata.location,
         snapshot.snapshot_id, *snapshot.first_row_id, metadata.next_row_id);
  metadata.next_row_id = *snapshot.first_row_id + *snapshot.added_rows;
}

}  // namespace

TableMetadata new_table_metadata(const std::string& location, const Schema& schema, const PartitionSpec& spec,
                                 const SortOrder& order, std::map<std::string, std::string> properties,
                                 int64_t now_ms) {
  if (location.empty()) fail(ErrorKind::invalid_argument, "a table needs a location");
  TableMetadata metadata;
  metadata.format_version = take_format_version(properties);
  check_fields(schema, metadata.format_version);
  for (const Field& field : schema.fields()) check_storable(field, "");
  check_properties(properties);
  const Schema fresh = assign_fresh_ids(schema).with_id(0);

  metadata.table_uuid = uuid_v4();
  metadata.location = location;
  while (metadata.location.size() > 1 && metadata.location.ends_with('/')) metadata.location.pop_back();
  metadata.last_updated_ms = now_ms;
  metadata.last_column_id = fresh.highest_field_id();
  metadata.schemas = {fresh};
  metadata.partition_specs = {fresh_spec(spec, schema, fresh)};
  metadata.last_partition_id = 999 + static_cast<int32_t>(spec.fields.size());
  metadata.sort_orders = {fresh_order(order, schema, fresh)};
  metadata.default_sort_order_id = metadata.sort_orders.front().order_id;
  metadata.properties = std::move(properties);
  return metadata;
}

void set_current_schema(TableMetadata& metadata, const Schema& schema, int32_t last_column_id) {
  check_fields(schema, metadata.format_version);
  for (const Field& field : schema.fields()) {
    const Field* known = metadata.schema().find_field(field.id);
    const bool is_as_before = known != nullptr && known->name == field.name && same_type(*known->type, *field.type);
    if (!is_as_before) check_storable(field, "");
  }
  check_sources(metadata, schema);
  if (schema.highest_field_id() > std::max(last_column_id, metadata.last_column_id))
    fail(ErrorKind::invalid_argument, "table {}: the new schema has column id {}, above last-column-id {}",
         metadata.location, schema.highest_field_id(), std::max(last_column_id, metadata.last_column_id));
  metadata.last_column_id = std::max(last_column_id, metadata.last_column_id);

  int32_t highest_id = -1;
  for (const Schema& known : metadata.schemas) {
    if (known.same_fields(schema) && known.identifier_field_ids() == schema.identifier_field_ids()) {
      metadata.current_schema_id = known.schema_id();
      return;
    }
    highest_id = std::max(highest_id, known.schema_id());
  }
  metadata.schemas.push_back(schema.with_id(highest_id + 1));
  metadata.current_schema_id = highest_id + 1;
}

void add_snapshot(TableMetadata& metadata, const Snapshot& snapshot, const std::string& branch) {
  if (metadata.find_snapshot(snapshot.snapshot_id) != nullptr)
    fail(ErrorKind::invalid_argument, "table {}: snapshot {} is there already", metadata.location,
         snapshot.snapshot_id);
  const auto ref = metadata.refs.find(branch);
  if (!branch.empty() && ref != metadata.refs.end()) {
    if (!ref->second.is_branch)
      fail(ErrorKind::invalid_argument, "table {}: {} is a tag, no branch", metadata.location, branch);
    if (snapshot.parent_snapshot_id != ref->second.snapshot_id)
      fail(ErrorKind::invalid_argument, "table {}: snapshot {} does not follow {}, the head of {}; stage it again",
           metadata.location, snapshot.snapshot_id, ref->second.snapshot_id, branch);
  }
  if (metadata.format_version >= 2) {
    if (snapshot.sequence_number <= metadata.last_sequence_number)
      fail(ErrorKind::invalid_argument, "table {}: snapshot {} has sequence number {}, not above the table's last, {}",
           metadata.location, snapshot.snapshot_id, snapshot.sequence_number, metadata.last_sequence_number);
    // Last of the checks, so that a refused snapshot leaves `metadata` as they were.
    if (metadata.format_version >= 3) advance_row_ids(metadata, snapshot);
    metadata.last_sequence_number = snapshot.sequence_number;
  }

  Snapshot added = snapshot;
  // A writer whose clock is behind takes the table's last time: readers refuse logs that run back by over a minute.
  added.timestamp_ms = std::max(snapshot.timestamp_ms, metadata.last_updated_ms);
  metadata.last_updated_ms = added.timestamp_ms;
  if (!branch.empty()) metadata.refs[branch].snapshot_id = added.snapshot_id;
  if (branch == "main") {
    metadata.current_snapshot_id = added.snapshot_id;
    metadata.snapshot_log.push_back({added.timestamp_ms, added.snapshot_id});
  }
  metadata.snapshots.push_back(std::move(added));
}

}  // namespace firn::iceberg
