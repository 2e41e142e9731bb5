#include "hyp/cache/new_table.h"

#include <charconv>
#include <filesystem>

#include "base/clock.h"
#include "base/fault_point.h"
#include "base/uri.h"
#include "hyp/cache/layout.h"
#include "hyp/cache/visible_schema.h"

namespace firn::hyp {
namespace {

std::map<std::string, std::string> table_properties() {
  std::map<std::string, std::string> properties = {
      {"format-version", "3"},
      {kSequencedProperty, "true"},
      {kMaxSeqProperty, "0"},
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

std::optional<int64_t> generation_number(const std::string& name) {
  if (!name.starts_with(kTablePrefix)) return std::nullopt;
  int64_t number = 0;
  const char* const end = name.data() + name.size();
  const auto [after, error] = std::from_chars(name.data() + kTablePrefix.size(), end, number);
  return error == std::errc() && after == end ? std::optional(number) : std::nullopt;
}

}  // namespace

iceberg::TableMetadata new_cache_table(const std::string& location, const iceberg::Schema& visible,
                                       const DatasetConfig& config) {
  const iceberg::Schema schema = with_hidden(visible);
  const iceberg::PartitionSpec spec = iceberg::make_partition_spec(config.cache_partitioning, schema);
  return iceberg::new_table_metadata(location, schema, spec, by_sequence(schema), table_properties(), now_ms());
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

}  // namespace firn::hyp
