// Cache tables as another system left them: no hidden columns, or rows without numbers.
#pragma once

#include <optional>
#include <string>

#include "base/uri.h"
#include "hyp/cache/cache_box.h"
#include "iceberg/commit/commit.h"
#include "iceberg/parquet/arrow_schema.h"
#include "iceberg/write/append_writer.h"
#include "iceberg/write/delete_writer.h"

namespace firn::hyp {

inline iceberg::Field optional_field(int32_t id, const std::string& name, iceberg::TypeId type) {
  return {id, name, false, iceberg::Type::primitive(type)};
}

inline iceberg::Schema id_and_text() {
  return iceberg::Schema(
      {optional_field(1, "id", iceberg::TypeId::long_), optional_field(2, "text", iceberg::TypeId::string)});
}

// The partition's table `table-3`, named by a cursor that knows no cacheId.
inline void make_legacy_table(const Cache& cache, const PartitionId& partition, const iceberg::Schema& schema,
                              const std::string& format_version = "2", const iceberg::PartitionSpec& spec = {}) {
  const std::string folder = cache.folder(partition);
  make_directories(folder);
  iceberg::create_filesystem_table(cache.io(),
                                   iceberg::new_table_metadata(folder + "/table-3", schema, spec, {},
                                                               {{"format-version", format_version}}, now_ms()));
  replace_file(folder + "/cursor.json", R"({"tableDir":"table-3"})");
}

inline std::shared_ptr<iceberg::TableOperations> legacy_table(const Cache& cache, const PartitionId& partition) {
  return iceberg::open_filesystem_table(cache.io(), cache.folder(partition) + "/table-3");
}

// One snapshot of one file, as a program without our locks writes it; rows have numbers where they are given.
inline iceberg::DataFile append_as_other(const Cache& cache, const PartitionId& partition, const Lines& lines,
                                         const std::vector<std::optional<int64_t>>& numbers = {}) {
  const auto table = legacy_table(cache, partition);
  const auto metadata = table->load().metadata;
  std::vector<iceberg::Field> visible;
  for (const iceberg::Field& field : metadata->schema().fields()) {
    if (!is_hidden_column(field.name)) visible.push_back(field);
  }
  auto batch = parse_rows(fmt::format("{}\n", fmt::join(lines, "\n")), iceberg::Schema(visible), {}).batch;
  if (!numbers.empty()) {
    arrow::Int64Builder builder;
    for (const auto& number : numbers) check(number ? builder.Append(*number) : builder.AppendNull(), "test");
    batch = check(batch->AddColumn(batch->num_columns(), arrow::field(kIngestSeqColumn, arrow::int64()),
                                   check(builder.Finish(), "test")),
                  "test");
    const int32_t id = metadata->schema().find_field(std::string_view(kIngestSeqColumn))->id;
    arrow::FieldVector fields = batch->schema()->fields();
    fields.back() = fields.back()->WithMetadata(arrow::key_value_metadata({"PARQUET:field_id"}, {std::to_string(id)}));
    batch = arrow::RecordBatch::Make(arrow::schema(fields), batch->num_rows(), batch->columns());
  }
  iceberg::WriteOptions options;
  options.sort_order = iceberg::SortOrder();
  iceberg::AppendWriter writer(table->io(), *metadata, options);
  writer.write(batch);
  const std::vector<iceberg::DataFile> files = writer.finish();
  iceberg::commit_snapshot(*table,
                           {.added = files, .written_schema = metadata->schema(), .required_spec = metadata->spec()});
  return files.at(0);
}

inline void delete_as_other(const Cache& cache, const PartitionId& partition, const iceberg::DataFile& file,
                            int64_t position) {
  const auto table = legacy_table(cache, partition);
  const auto metadata = table->load().metadata;
  iceberg::PositionSet positions;
  positions.add(position);
  iceberg::PositionDeleteWriter writer(table->io(), *metadata);
  writer.add(file, std::move(positions));
  iceberg::ReadCheck check;
  check.since_snapshot_id = metadata->current_snapshot_id;
  check.no_removed_data = true;
  iceberg::commit_snapshot(*table, {.operation = "delete",
                                    .added = writer.finish(),
                                    .required_data_files = {file.file_path},
                                    .written_schema = metadata->schema(),
                                    .read_check = check});
}

// Every column of the partition's rows, hidden ones too, in sequence order.
inline std::vector<Json> whole_rows(const Cache& cache, const PartitionId& partition) {
  const auto held = cache.hold(partition);
  const auto& metadata = *held->table.metadata;
  std::vector<Json> rows;
  for (const std::string& row : rows_of(*iceberg::scan(metadata, held->operations->io(), {}), metadata.schema())) {
    rows.push_back(Json::parse(row));
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Json& a, const Json& b) { return a[kIngestSeqColumn] < b[kIngestSeqColumn]; });
  return rows;
}

}  // namespace firn::hyp
