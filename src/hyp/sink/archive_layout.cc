#include "hyp/sink/archive_layout.h"

#include <algorithm>

#include "base/clock.h"
#include "base/warn_once.h"

namespace firn::hyp {
namespace {

using iceberg::Field;
using iceberg::PartitionSpec;
using iceberg::Schema;
using iceberg::SortOrder;
using iceberg::TableMetadata;
using iceberg::Transform;

// A spec by names, so that specs of two schemas compare; void fields partition nothing.
std::vector<std::string> fields_by_name(const PartitionSpec& spec, const Schema& schema) {
  std::vector<std::string> fields;
  for (const iceberg::PartitionField& field : spec.fields) {
    if (field.transform.kind == iceberg::TransformKind::void_) continue;
    std::string sources;
    for (const int32_t id : field.source_ids) sources += (sources.empty() ? "" : ",") + schema.full_name(id);
    fields.push_back(fmt::format("{}({})", field.transform.name, sources));
  }
  return fields;
}

}  // namespace

PartitionSpec archive_spec(const DatasetConfig& dataset, const Schema& schema) {
  const std::string& column = dataset.primary_timestamp_column;
  const Field* field = column.empty() ? nullptr : schema.find_field(std::string_view(column));
  if (field == nullptr) return {};
  if (!iceberg::can_transform(Transform::parse("day"), *field->type)) {
    warn_once(
        fmt::format("dataset {}: primaryTimestampColumn {} is {}, which has no days; its archive is not partitioned",
                    dataset.name, column, field->type->to_string()));
    return {};
  }
  return iceberg::make_partition_spec({{column, "day"}}, schema);
}

SortOrder archive_order(const DatasetConfig& dataset, const Schema& schema) {
  SortOrder order;
  for (const iceberg::PartitionDeclaration& declared : dataset.cache_partitioning) {
    if (declared.transform != "identity") continue;
    const Field* field = schema.find_field(std::string_view(declared.column));
    const Transform identity = Transform::parse("identity");
    if (field == nullptr || !iceberg::can_transform(identity, *field->type)) continue;
    if (schema.is_nested_below_list_or_map(field->id)) continue;
    order.fields.push_back({identity, {field->id}});
  }
  order.order_id = order.fields.empty() ? 0 : 1;
  return order;
}

void check_archive_spec(const TableMetadata& table, const DatasetConfig& dataset, const Schema& schema) {
  const PartitionSpec derived = archive_spec(dataset, schema);
  if (fields_by_name(derived, schema) == fields_by_name(table.spec(), table.schema())) return;
  fail(ErrorKind::partition_spec_drift,
       "table {} is partitioned by {}, but dataset {} now derives {} from its primaryTimestampColumn; export it to "
       "another path "
       "under a new sink name",
       table.location, table.spec().to_display(table.schema()), dataset.name, derived.to_display(schema));
}

TableMetadata new_archive_table(const std::string& location, const DatasetConfig& dataset, const Schema& schema) {
  return iceberg::new_table_metadata(location, schema, archive_spec(dataset, schema), archive_order(dataset, schema),
                                     {{"format-version", "3"},
                                      {"write.metadata.previous-versions-max", "100"},
                                      {"write.metadata.delete-after-commit.enabled", "true"},
                                      {"commit.retry.num-retries", "20"}},  // several caches may export to one table
                                     now_ms());
}

std::string display_spec(const TableMetadata& table) { return table.spec().to_display(table.schema()); }

std::string display_order(const TableMetadata& table) {
  std::string columns;
  for (const iceberg::SortField& field : table.sort_order().fields) {
    columns += (columns.empty() ? "" : ",") + table.schema().full_name(field.source_id());
  }
  return columns.empty() ? "unsorted" : columns;
}

}  // namespace firn::hyp
