// Schema, partition spec and sort order.
#include <algorithm>
#include <set>

#include <fmt/ranges.h>

#include "base/error.h"
#include "iceberg/full_names.h"
#include "iceberg/metadata/changes.h"

namespace firn::iceberg {

namespace {

constexpr const char* kNameMappingProperty = "schema.name-mapping.default";

// What default spec and sort order are computed from must stay, and keep its partition values.
void check_uses(const TableMetadata& metadata, const Schema& after) {
  const Schema& before = metadata.schema();
  for (const PartitionField& field : metadata.spec().fields) {
    if (field.transform.kind == TransformKind::void_) continue;
    for (const int32_t id : field.source_ids)
      if (before.find_field(id) != nullptr && after.find_field(id) == nullptr)
        fail(ErrorKind::invalid_argument,
             "Column {} is the source of partition field {}: remove that field from the partition spec first",
             before.full_name(id), field.name);
  }
  for (const SortField& field : metadata.sort_order().fields)
    for (const int32_t id : field.source_ids)
      if (before.find_field(id) != nullptr && after.find_field(id) == nullptr)
        fail(ErrorKind::invalid_argument, "Column {} is in the table's sort order: set another sort order first",
             before.full_name(id));
  for (const PartitionSpec& spec : metadata.partition_specs)
    for (const PartitionField& field : spec.fields)
      for (const int32_t id : field.source_ids) {
        const Field* old = before.find_field(id);
        const Field* now = after.find_field(id);
        if (old != nullptr && now != nullptr && !keeps_partition_value(field.transform, *old->type, *now->type))
          fail(ErrorKind::invalid_argument,
               "Column {} is the source of partition field {} (spec {}), whose values would change with its type from "
               "{} to {}: add another column instead",
               before.full_name(id), field.name, spec.spec_id, old->type->to_string(), now->type->to_string());
      }
}

// Readers would take a partition field for a column of its name, unless it is that column's identity.
void check_names(const PartitionSpec& spec, const Schema& before, const Schema& after) {
  for (const PartitionField& field : spec.fields) {
    const Field* column = after.find_field(field.name);
    if (column == nullptr) continue;
    const bool is_new =
        before.find_field(column->id) == nullptr || before.full_name(column->id) != after.full_name(column->id);
    if (is_new && (field.transform.kind != TransformKind::identity || column->id != field.source_id()))
      fail(ErrorKind::invalid_argument,
           "Column {}: a partition field has that name; rename the partition field first, or choose another name",
           field.name);
  }
}

// Properties that name a column in their key.
constexpr std::string_view kColumnProperties[] = {
    "write.metadata.metrics.column.", "write.parquet.bloom-filter-enabled.column.",
    "write.parquet.bloom-filter-fpp.column.", "write.parquet.bloom-filter-ndv.column.",
    "write.parquet.stats-enabled.column."};

// They follow a renamed column, and go with a dropped one: they would else be for a later column of that name.
void update_column_properties(std::map<std::string, std::string>& properties, const Schema& before,
                              const Schema& after) {
  std::map<std::string, std::string> moved;
  for (const std::string_view prefix : kColumnProperties) {
    for (auto it = properties.lower_bound(std::string(prefix));
         it != properties.end() && it->first.starts_with(prefix);) {
      const Field* field = before.find_field(std::string_view(it->first).substr(prefix.size()));
      const bool is_dropped = field != nullptr && after.find_field(field->id) == nullptr;
      if (field == nullptr || (!is_dropped && before.full_name(field->id) == after.full_name(field->id))) {
        ++it;
        continue;
      }
      if (!is_dropped) moved.emplace(std::string(prefix) + after.full_name(field->id), it->second);
      it = properties.erase(it);
    }
  }
  for (auto& [key, value] : moved) properties[key] = std::move(value);
}

}  // namespace

bool update_schema(TableMetadata& metadata, const std::function<void(SchemaUpdate&)>& edit,
                   const SchemaUpdateOptions& options) {
  const Schema before = metadata.schema();
  SchemaUpdate update(before, metadata.last_column_id, metadata.format_version, options);
  edit(update);
  const EvolvedSchema after = update.finish();
  if (!after.changed) return false;
  if (!repeated_full_name(before)) check_full_names(after.schema);  // else a rename may be on its way
  check_uses(metadata, after.schema);
  check_names(metadata.spec(), before, after.schema);

  std::optional<std::string> mapping_text;
  if (const auto mapping = metadata.properties.find(kNameMappingProperty); mapping != metadata.properties.end()) {
    const std::string where = fmt::format("table {}, property {}", metadata.location, kNameMappingProperty);
    const NameMapping parsed = name_mapping_from_json(parse_json(mapping->second, where), where);
    mapping_text = name_mapping_to_json(update_name_mapping(parsed, before, after.schema)).dump();
  }
  set_current_schema(metadata, after.schema, after.last_column_id);
  if (mapping_text) metadata.properties[kNameMappingProperty] = std::move(*mapping_text);
  update_column_properties(metadata.properties, before, metadata.schema());
  return true;
}

// --- partition spec

namespace {

const Field& source_column(const Schema& schema, const std::string& name, const Transform& transform,
                           std::string_view user) {
  const Field* column = schema.find_field(name);
  if (column == nullptr) {
    std::vector<std::string_view> known;
    for (const Field& field : schema.fields()) known.push_back(field.name);
    fail(ErrorKind::not_found, "{}: there is no column {}; there are: {}", user, name, fmt::join(known, ", "));
  }
  if (transform.kind == TransformKind::unknown)
    fail(ErrorKind::invalid_argument,
         "{}: {} is no transform; there are identity, bucket[N], truncate[W], year, month, day, hour and void", user,
         transform.name);
  if (column->type->is_nested() || !can_transform(transform, *column->type))
    fail(ErrorKind::invalid_argument, "{}: the transform {} does not take column {} of type {}", user, transform.name,
         name, column->type->to_string());
  if (schema.is_nested_below_list_or_map(column->id))
    fail(ErrorKind::invalid_argument, "{}: column {} lies in a list or map, so that a row has no single value of it",
         user, name);
  return *column;
}

std::string display(const PartitionField& field, const Schema& schema) {
  return PartitionSpec{.spec_id = 0, .fields = {field}}.to_display(schema);
}

// By its name, or as "day(ts)".
std::vector<PartitionField>::iterator find_field(std::vector<PartitionField>& fields, const std::string& name,
                                                 const Schema& schema) {
  auto found = std::find_if(fields.begin(), fields.end(), [&](const PartitionField& f) { return f.name == name; });
  if (found == fields.end())
    found = std::find_if(fields.begin(), fields.end(), [&](const PartitionField& f) {
      return schema.find_field(f.source_id()) != nullptr && display(f, schema) == name;
    });
  if (found != fields.end()) return found;
  std::vector<std::string_view> known;
  for (const PartitionField& field : fields) known.push_back(field.name);
  fail(ErrorKind::not_found, "The partition spec has no field {}; it has: {}", name,
       known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")));
}

// Makes room for a field named `name`: a void one, left behind by a removal in v1, moves out of its way as in Java.
void free_name(std::vector<PartitionField>& fields, const std::string& name, const PartitionField* except) {
  for (PartitionField& field : fields) {
    if (&field == except || field.name != name) continue;
    if (field.transform.kind != TransformKind::void_)
      fail(ErrorKind::invalid_argument, "Partition field {}: the name is taken; choose another", name);
    field.name = fmt::format("{}_{}", name, field.field_id);
  }
}

void check_field_name(const PartitionField& field, const Schema& schema) {
  if (field.name.empty()) fail(ErrorKind::invalid_argument, "A partition field needs a name");
  const Field* column = schema.find_field(field.name);
  if (column != nullptr && (field.transform.kind != TransformKind::identity || column->id != field.source_id()))
    fail(ErrorKind::invalid_argument, "Partition field {}: a column has that name; choose another", field.name);
}

void add_field(const TableMetadata& metadata, std::vector<PartitionField>& fields, const SpecChange::Add& add,
               int32_t& last_id) {
  const Schema& schema = metadata.schema();
  PartitionField field;
  field.transform = Transform::parse(add.transform);
  field.name = add.name;
  field.source_ids = {
      source_column(schema, add.column, field.transform, fmt::format("Partition by {}({})", add.transform, add.column))
          .id};
  const auto is_same = [&](const PartitionField& other) {
    return other.source_ids == field.source_ids && other.transform == field.transform;
  };
  if (const auto same = std::find_if(fields.begin(), fields.end(), is_same); same != fields.end()) {
    if (add.name.empty() || add.name == same->name) return;
    fail(ErrorKind::invalid_argument, "The table is partitioned by {} already, as {}: rename that field",
         display(field, schema), same->name);
  }
  // An equivalent field of any spec lends its id (and, unless one is asked for, its name). Ids of v1 specs are only
  // positions.
  if (metadata.format_version >= 2) {
    for (const PartitionSpec& spec : metadata.partition_specs)
      for (const PartitionField& known : spec.fields) {
        const bool id_is_free = std::none_of(fields.begin(), fields.end(), [&](const PartitionField& other) {
          return other.field_id == known.field_id;
        });
        if (field.field_id == 0 && id_is_free && is_same(known) && (add.name.empty() || add.name == known.name)) {
          field.field_id = known.field_id;
          field.name = known.name;
        }
      }
  }
  if (field.field_id == 0) field.field_id = ++last_id;
  if (field.name.empty()) field.name = make_partition_spec({{add.column, add.transform}}, schema).fields[0].name;
  check_field_name(field, schema);
  free_name(fields, field.name, nullptr);
  fields.push_back(std::move(field));
}

}  // namespace

bool update_spec(TableMetadata& metadata, const SpecChange& change) {
  const Schema& schema = metadata.schema();
  PartitionSpec spec = metadata.spec();
  int32_t last_id = metadata.last_partition_id;
  for (const std::string& name : change.remove) {
    const auto field = find_field(spec.fields, name, schema);
    if (metadata.format_version >= 2) {
      spec.fields.erase(field);
    } else {  // ids are positions there (spec, "Partition Evolution")
      field->transform = Transform::parse("void");
    }
  }
  for (const SpecChange::Rename& rename : change.rename) {
    const auto field = find_field(spec.fields, rename.name, schema);
    if (field->name == rename.new_name) continue;
    free_name(spec.fields, rename.new_name, &*field);
    field->name = rename.new_name;
    check_field_name(*field, schema);
  }
  for (const SpecChange::Add& add : change.add) add_field(metadata, spec.fields, add, last_id);

  int32_t highest_spec_id = -1;
  for (const PartitionSpec& known : metadata.partition_specs) {
    highest_spec_id = std::max(highest_spec_id, known.spec_id);
    if (!known.compatible_with(spec)) continue;
    if (known.spec_id == metadata.default_spec_id) return false;
    metadata.default_spec_id = known.spec_id;
    return true;
  }
  spec.spec_id = highest_spec_id + 1;
  metadata.last_partition_id = last_id;
  metadata.default_spec_id = spec.spec_id;
  metadata.partition_specs.push_back(std::move(spec));
  return true;
}

// --- sort order

bool set_sort_order(TableMetadata& metadata, const std::vector<SortBy>& fields) {
  SortOrder order;
  for (const SortBy& by : fields) {
    SortField field;
    field.transform = Transform::parse(by.transform);
    field.source_ids = {
        source_column(metadata.schema(), by.column, field.transform, fmt::format("Sort by {}", by.column)).id};
    field.ascending = by.ascending;
    field.nulls_first = by.nulls_first.value_or(by.ascending);
    order.fields.push_back(std::move(field));
  }
  int32_t highest_id = 0;  // which is the unsorted order's
  for (const SortOrder& known : metadata.sort_orders) {
    highest_id = std::max(highest_id, known.order_id);
    const bool same = std::equal(known.fields.begin(), known.fields.end(), order.fields.begin(), order.fields.end(),
                                 [](const SortField& a, const SortField& b) {
                                   return a.transform == b.transform && a.source_ids == b.source_ids &&
                                          a.ascending == b.ascending && a.nulls_first == b.nulls_first;
                                 });
    if (!same) continue;
    if (known.order_id == metadata.default_sort_order_id) return false;
    metadata.default_sort_order_id = known.order_id;
    return true;
  }
  order.order_id = order.fields.empty() ? 0 : highest_id + 1;
  metadata.default_sort_order_id = order.order_id;
  metadata.sort_orders.push_back(std::move(order));
  return true;
}

}  // namespace firn::iceberg
