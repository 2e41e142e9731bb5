#include "hyp/cache/new_table.h"

#include <filesystem>

#include "base/arrow_status.h"
#include "base/clock.h"
#include "base/fault_point.h"
#include "base/log.h"
#include "base/uri.h"
#include "hyp/cache/layout.h"
#include "hyp/cache/sequence_bounds.h"
#include "hyp/cache/table_opens.h"
#include "hyp/cache/visible_schema.h"
#include "iceberg/commit/commit.h"
#include "iceberg/metadata/changes.h"

namespace firn::hyp {
namespace {

constexpr int32_t kFormatVersion = 3;

// Of any cache table.
std::map<std::string, std::string> table_properties() {
  std::map<std::string, std::string> properties = {
      {"write.metadata.previous-versions-max", "10"},
      {"write.metadata.delete-after-commit.enabled", "true"},
      // What an incremental read decodes beside the new rows is at most a page a file.
      {"write.parquet.page-row-limit", "4096"},
      // The whole history is in the sinks' hands; a reader only ever needs the head and what it holds.
      {"commit.retry.num-retries", "20"},
  };
  for (const char* column : {kIngestSeqColumn, kRowIdColumn, kBatchIdColumn}) {
    properties[fmt::format("write.metadata.metrics.column.{}", column)] = "full";
  }
  return properties;
}

iceberg::SortOrder by_sequence(const iceberg::Schema& schema) {
  iceberg::SortField field;
  field.transform = iceberg::Transform::parse("identity");
  field.source_ids = {schema.find_field(std::string_view(kIngestSeqColumn))->id};
  return {1, {field}};
}

// The highest number that a row has already; 0: none has one.
int64_t find_highest_number(const HeldTable& held) {
  const iceberg::TableMetadata& metadata = *held.table.metadata;
  const iceberg::Field* field = metadata.schema().find_field(std::string_view(kIngestSeqColumn));
  if (field == nullptr) return 0;
  iceberg::ScanOptions scan;
  scan.columns = {kIngestSeqColumn};
  scan.filter = iceberg::predicate(iceberg::Op::not_null, kIngestSeqColumn);
  const auto& io = held.operations->io();
  const auto plan = std::make_shared<const iceberg::ScanPlan>(iceberg::plan_scan(metadata, io, scan));
  int64_t highest = 0;
  for (size_t i = 0; i < plan->tasks.size(); ++i) {
    if (const auto bound = highest_number(plan->tasks[i].file, field->id)) {
      highest = std::max(highest, *bound);
      continue;
    }
    const auto rows = iceberg::read_task(plan, i, io, scan);
    for (std::shared_ptr<arrow::RecordBatch> batch;;) {
      check(rows->ReadNext(&batch), "read sequence numbers");
      if (!batch) break;
      if (batch->column(0)->type_id() != arrow::Type::INT64) break;  // adopt_table() says what is wrong
      const auto& numbers = static_cast<const arrow::Int64Array&>(*batch->column(0));
      for (int64_t row = 0; row < numbers.length(); ++row) highest = std::max(highest, numbers.Value(row));
    }
  }
  return highest;
}

}  // namespace

iceberg::TableMetadata new_cache_table(const std::string& location, const iceberg::Schema& visible,
                                       const DatasetConfig& config) {
  const iceberg::Schema schema = with_hidden(visible);
  const iceberg::PartitionSpec spec = iceberg::make_partition_spec(config.cache_partitioning, schema);
  std::map<std::string, std::string> properties = table_properties();
  properties["format-version"] = std::to_string(kFormatVersion);
  properties[kSequencedProperty] = "true";
  properties[kMaxSeqProperty] = "0";
  return iceberg::new_table_metadata(location, schema, spec, by_sequence(schema), std::move(properties), now_ms());
}

std::string next_table_dir(const Cache& cache, const PartitionId& partition) {
  const std::string folder = cache.folder(partition);
  int64_t highest = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const auto number = generation_number(entry.path().filename().string());
    if (number && entry.is_directory()) highest = std::max(highest, *number);
  }
  return fmt::format("{}{}", kTablePrefix, highest + 1);
}

void publish_first_table(Cache& cache, const PartitionId& partition, const std::string& table_dir,
                         const iceberg::TableMetadata& metadata) {
  const std::string cache_id = cache.sequence().cache_id();
  fault_point("flush.create-table");
  iceberg::create_filesystem_table(cache.io(), metadata);
  fault_point("flush.table-created");
  write_cursor(cache.folder(partition), {table_dir, cache_id});
  fault_point("flush.cursor-written");
}

bool is_adopted(const iceberg::TableMetadata& metadata) { return metadata.properties.contains(kMaxSeqProperty); }

void adopt_table(const Cache& cache, const PartitionId& partition, HeldTable& held) {
  if (is_adopted(*held.table.metadata)) return;
  const int64_t highest = find_highest_number(held);
  if (auto cursor = read_cursor(cache.folder(partition)); cursor && cursor->cache_id.empty()) {
    cursor->cache_id = cache.sequence().cache_id();
    write_cursor(cache.folder(partition), *cursor);
  }
  spdlog::info("{}: made by another system or an older cache; it gets the hidden columns",
               held.table.metadata->location);
  fault_point("legacy.adopt");
  held.table = iceberg::commit_metadata(*held.operations, [&](iceberg::TableMetadata& next) {
                 if (is_adopted(next)) return false;
                 iceberg::upgrade_format_version(next, kFormatVersion);
                 iceberg::update_schema(
                     next, [](iceberg::SchemaUpdate& update) { update.union_by_name(with_hidden(iceberg::Schema())); });
                 iceberg::SortBy by_sequence;
                 by_sequence.column = kIngestSeqColumn;
                 iceberg::set_sort_order(next, {by_sequence});
                 std::map<std::string, std::string> properties = table_properties();
                 properties[kMaxSeqProperty] = std::to_string(highest);
                 if (highest > 0) properties[kLegacyUntilProperty] = std::to_string(highest);
                 next.properties.merge(properties);  // what it says already stands
                 return true;
               }).table;
  fault_point("legacy.adopted");
}

}  // namespace firn::hyp
