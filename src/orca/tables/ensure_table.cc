#include "orca/tables/ensure_table.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "base/clock.h"
#include "base/error.h"
#include "base/fault_point.h"
#include "base/uri.h"
#include "iceberg/commit/commit.h"
#include "iceberg/full_names.h"
#include "iceberg/metadata/changes.h"

namespace firn::orca {
namespace {

using iceberg::Field;
using iceberg::Schema;
using iceberg::TableMetadata;
using iceberg::Type;
using iceberg::TypeId;
using Properties = std::map<std::string, std::string>;

constexpr const char* kFormatVersion = "format-version";

const Field* find_by_name(const std::vector<Field>& fields, const std::string& name) {
  const auto found = std::find_if(fields.begin(), fields.end(), [&](const Field& field) { return field.name == name; });
  return found == fields.end() ? nullptr : &*found;
}

void check_fields(const std::vector<Field>& there, const std::vector<Field>& wanted, const std::string& prefix,
                  bool in_map_key);

// One column that both have.
void check_column(const Field& there, const Field& wanted, const std::string& name, bool in_map_key) {
  const Type& has = *there.type;
  if (has.is_nested() ? has.id() != wanted.type->id() : !iceberg::same_type(has, *wanted.type))
    fail(ErrorKind::schema_mismatch,
         "column {} is {} in the table, and {} in the schema: a column keeps its type; use another name", name,
         has.to_string(), wanted.type->to_string());
  if (in_map_key && there.required && !wanted.required)
    fail(ErrorKind::schema_mismatch, "column {} lies in the key of a map, and keys do not change: make it required",
         name);
  switch (has.id()) {
    case TypeId::struct_:
      return check_fields(has.fields(), wanted.type->fields(), name + ".", in_map_key);
    case TypeId::list:
      return check_column(has.element(), wanted.type->element(), name + ".element", in_map_key);
    case TypeId::map:
      check_column(has.key(), wanted.type->key(), name + ".key", true);
      return check_column(has.value(), wanted.type->value(), name + ".value", in_map_key);
    default:
      return;
  }
}

// What evolution by name cannot do. Ids are looked at once what is new has its numbers (check_ids).
void check_fields(const std::vector<Field>& there, const std::vector<Field>& wanted, const std::string& prefix,
                  bool in_map_key) {
  for (const Field& field : there) {
    if (field.required && find_by_name(wanted, field.name) == nullptr)
      fail(ErrorKind::schema_mismatch,
           "column {} is required in the table, and the schema leaves it out: its rows would have no value; add it",
           prefix + field.name);
  }
  for (const Field& want : wanted) {
    const std::string name = prefix + want.name;
    const Field* have = find_by_name(there, want.name);
    if (have != nullptr) {
      check_column(*have, want, name, in_map_key);
    } else if (in_map_key) {
      fail(ErrorKind::schema_mismatch, "column {} is new in the key of a map, and keys do not change: leave it out",
           name);
    } else if (want.required) {
      fail(ErrorKind::schema_mismatch,
           "column {} is new and marked required: rows that are there have no value for it; make it optional", name);
    }
  }
}

// Batches built from `wanted` carry its ids, and a column is matched by id first.
void check_ids(const std::vector<Field>& there, const std::vector<Field>& wanted, const std::string& prefix,
               int32_t last_id_before) {
  for (const Field& want : wanted) {
    const Field& have = *find_by_name(there, want.name);
    const std::string name = prefix + want.name;
    if (have.id != want.id)
      fail(
          ErrorKind::schema_mismatch,
          "column {} has field id {} in the schema, and the table {} it {}: batches are matched by field id; number it "
          "{}",
          name, want.id, have.id > last_id_before ? "will give" : "gave", have.id, have.id);
    check_ids(have.type->fields(), want.type->fields(), name + ".", last_id_before);
  }
}

bool evolve(TableMetadata& next, const Schema& wanted) {
  check_fields(next.schema().fields(), wanted.fields(), "", false);
  const int32_t last_id = next.last_column_id;
  const iceberg::EvolvedSchema evolved = iceberg::union_by_name(next.schema(), wanted, last_id, next.format_version);
  check_ids(evolved.schema.fields(), wanted.fields(), "", last_id);
  if (!evolved.changed) return false;
  return iceberg::update_schema(next, [&](iceberg::SchemaUpdate& update) { update.union_by_name(wanted); });
}

bool set_properties(TableMetadata& next, const Properties& properties) {
  Properties set = properties;
  bool changed = false;
  if (const auto version = set.find(kFormatVersion); version != set.end()) {  // a property by name alone
    if (version->second != "2" && version->second != "3")
      fail(ErrorKind::invalid_argument, "format-version is '{}'; firn writes versions 2 and 3", version->second);
    changed = iceberg::upgrade_format_version(next, version->second == "3" ? 3 : 2);
    set.erase(version);
  }
  for (const auto& [key, value] : table_defaults()) {
    if (!next.properties.contains(key)) set.try_emplace(key, value);
  }
  return iceberg::update_properties(next, set, {}) || changed;
}

// Metadata of an empty table that keeps the field ids of `schema`: batches built from it carry them.
TableMetadata new_metadata(const std::string& location, const Schema& schema, const iceberg::PartitionSpec& spec,
                           const Properties& properties) {
  iceberg::check_full_names(schema);
  Properties all = table_defaults();
  for (const auto& [key, value] : properties) all[key] = value;
  TableMetadata metadata = iceberg::new_table_metadata(location, schema, spec, {}, all, now_ms());
  const std::function<void(const Type&)> check_positive = [&](const Type& type) {
    for (const Field& field : type.fields()) {
      if (field.id <= 0)
        fail(ErrorKind::schema_mismatch, "column {} has field id {} in the schema: number the columns from 1",
             field.name, field.id);
      check_positive(*field.type);
    }
  };
  check_positive(*schema.as_struct());
  metadata.schemas = {schema.with_id(metadata.current_schema_id)};
  metadata.last_column_id = schema.highest_field_id();
  for (iceberg::PartitionSpec& made : metadata.partition_specs) {
    for (size_t i = 0; i < made.fields.size(); ++i) made.fields[i].source_ids = spec.fields[i].source_ids;
  }
  return metadata;
}

// nullopt: it was not there, and is not made.
std::optional<Table> find_table(iceberg::Catalog& catalog, const std::string& dataset) {
  try {
    return Table(catalog.table(dataset));
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::not_found) throw;
    return std::nullopt;
  }
}

void create_table(const std::string& dataset, const Schema& schema, const iceberg::PartitionSpec& spec,
                  const Properties& properties) {
  const size_t dot = dataset.find('.');
  const std::string root = iceberg::normal_location(warehouse());
  const std::string location = join_path(join_path(root, dataset.substr(0, dot)), dataset.substr(dot + 1));
  const TableMetadata metadata = new_metadata(location, schema, spec, properties);
  fault_point("orca.create_table");
  try {
    iceberg::create_filesystem_table(file_io_for(root), metadata);
  } catch (const Error& e) {
    // Another attempt may have been first; or our own put had no answer. What is there is brought up to date like any
    // other table.
    if (e.kind() != ErrorKind::already_exists && e.kind() != ErrorKind::commit_unknown) throw;
  }
}

}  // namespace

Properties table_defaults() {
  return {{"write.metadata.delete-after-commit.enabled", "true"},
          {"write.metadata.previous-versions-max", "100"},
          {"history.expire.max-snapshot-age-ms", std::to_string(DEFAULT_HISTORY_DAYS * DAY_MS)}};
}

Table ensure_table(Ctx& ctx, const std::string& dataset, const Schema& schema, const iceberg::PartitionSpec& spec,
                   const Properties& properties) {
  check_declares_writes(ctx, dataset);
  const auto catalog = warehouse_catalog();
  try {
    std::optional<Table> found = find_table(*catalog, dataset);
    if (!found) {
      create_table(dataset, schema, spec, properties);
      found = Table(catalog->table(dataset));
    }
    const auto bring_up = [&](TableMetadata& next) {
      const bool evolved = evolve(next, schema);
      return set_properties(next, properties) || evolved;
    };
    TableMetadata next = found->metadata();
    if (!bring_up(next)) return std::move(*found);
    fault_point("orca.evolve_table");
    found->set_loaded(iceberg::commit_metadata(*found->operations(), bring_up).table);
    return std::move(*found);
  } catch (const Error& e) {
    throw Error(e.kind(), "dataset " + dataset, e);
  }
}

}  // namespace firn::orca
