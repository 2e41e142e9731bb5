// The files that a snapshot has, and the metadata tables.
#include <algorithm>

#include <fmt/ranges.h>

#include "cli/firn/command.h"
#include "cli/firn/output_argument.h"
#include "cli/firn/text_table.h"
#include "iceberg/inspect/metadata_tables.h"
#include "iceberg/parquet/arrow_schema.h"

namespace firn::cli {
namespace {

using iceberg::DataFile;
using iceberg::FileContent;
using iceberg::LiveFile;

struct FilesArguments {
  TableArgument table;
  std::string at;
  bool as_json = false;
};

const char* content_name(const DataFile& file) {
  return file.content == FileContent::data               ? "data"
         : file.content == FileContent::position_deletes ? "position-deletes"
                                                         : "equality-deletes";
}

Json file_json(const LiveFile& entry, const std::string& partition) {
  Json json;
  json["content"] = content_name(entry.file);
  json["file-path"] = entry.file.file_path;
  json["file-format"] = entry.file.file_format;
  json["spec-id"] = entry.file.partition_spec_id;
  json["partition"] = partition;
  json["record-count"] = entry.file.record_count;
  json["file-size-in-bytes"] = entry.file.file_size_bytes;
  json["data-sequence-number"] = entry.data_sequence_number;
  json["file-sequence-number"] = entry.file_sequence_number;
  json["snapshot-id"] = entry.snapshot_id;
  if (entry.file.first_row_id) json["first-row-id"] = *entry.file.first_row_id;
  if (!entry.file.referenced_data_file.empty()) json["referenced-data-file"] = entry.file.referenced_data_file;
  if (entry.file.content_offset) json["content-offset"] = *entry.file.content_offset;
  if (entry.file.content_size_bytes) json["content-size-in-bytes"] = *entry.file.content_size_bytes;
  return json;
}

// The newest schema that has the columns which `spec` is made of: one of them may be dropped now.
const iceberg::Schema& schema_of(const iceberg::PartitionSpec& spec, const iceberg::TableMetadata& metadata) {
  const auto has_all = [&](const iceberg::Schema& schema) {
    return std::all_of(spec.fields.begin(), spec.fields.end(), [&](const iceberg::PartitionField& field) {
      return schema.find_field(field.source_id()) != nullptr;
    });
  };
  if (has_all(metadata.schema())) return metadata.schema();
  const auto found = std::find_if(metadata.schemas.rbegin(), metadata.schemas.rend(), has_all);
  return found == metadata.schemas.rend() ? metadata.schema() : *found;
}

void files(const FilesArguments& arguments) {
  const auto table = open_table(arguments.table);
  const iceberg::LoadedTable head = table->load();
  const std::optional<int64_t> snapshot_id = snapshot_id_at(arguments.at, *head.metadata);
  std::vector<LiveFile> live;
  if (snapshot_id) {
    live = iceberg::live_files(*head.metadata, *head.metadata->find_snapshot(*snapshot_id), *table->io());
  }
  const auto partition = [&](const DataFile& file) {
    const iceberg::PartitionSpec& spec = head.metadata->spec(file.partition_spec_id);
    return spec.partition_path(file.partition, schema_of(spec, *head.metadata));
  };
  if (arguments.as_json) {
    Json json = Json::array();
    for (const LiveFile& entry : live) json.push_back(file_json(entry, partition(entry.file)));
    print_text(json.dump(2) + "\n");
    return;
  }
  TextTable text({"CONTENT", "ROWS", "BYTES", "SEQUENCE", "PARTITION", "FILE"});
  for (const LiveFile& entry : live) {
    text.add({content_name(entry.file), std::to_string(entry.file.record_count),
              std::to_string(entry.file.file_size_bytes), std::to_string(entry.data_sequence_number),
              partition(entry.file), entry.file.file_path});
  }
  text.finish();
}

struct MetadataArguments {
  TableArgument table;
  std::string name = "partitions";
  std::string at;
  OutputArgument output;
};

void metadata_rows(const MetadataArguments& arguments) {
  const RowFormat format = chosen_format(arguments.output);
  const auto table = open_table(arguments.table);
  const iceberg::LoadedTable head = table->load();
  iceberg::MetadataTableOptions options;
  options.metadata_path = head.metadata_path;
  const ChosenSnapshot chosen = parse_at(arguments.at, *head.metadata);
  options.snapshot_id = chosen.snapshot_id;
  options.ref = chosen.ref;
  options.as_of_ms = chosen.as_of_ms;
  const auto rows = iceberg::metadata_table(*head.metadata, table->io(), arguments.name, options);
  const auto output = make_row_output(iceberg::from_arrow_schema(*rows->schema()), format, arguments.output.output);
  write_rows(*rows, *output, std::nullopt);
}

}  // namespace

void add_file_commands(CLI::App& app) {
  CLI::App* command =
      add_command(app, kReading, "files", "Live data and delete files", "files local:nyc.flights --json");
  auto& arguments = run_with<FilesArguments>(command, files);
  add_table(command, arguments.table);
  add_at(command, arguments.at);
  command->add_flag("--json", arguments.as_json, "As JSON");
  add_relocate(command, arguments.table);

  CLI::App* partitions =
      add_command(app, kReading, "partitions", "Partitions with their rows and files", "partitions local:nyc.flights");
  auto& of_partitions = run_with<MetadataArguments>(partitions, metadata_rows);
  add_table(partitions, of_partitions.table);
  add_at(partitions, of_partitions.at);
  add_output(partitions, of_partitions.output);
  add_relocate(partitions, of_partitions.table);

  CLI::App* metadata = add_command(app, kReading, "metadata", "A metadata table's rows",
                                   "metadata local:nyc.flights manifests --at main");
  auto& of_metadata = run_with<MetadataArguments>(metadata, metadata_rows);
  add_table(metadata, of_metadata.table);
  metadata->add_option("NAME", of_metadata.name, fmt::format("{}", fmt::join(iceberg::metadata_table_names(), ", ")))
      ->required();
  add_at(metadata, of_metadata.at);
  add_output(metadata, of_metadata.output);
  add_relocate(metadata, of_metadata.table);
}

}  // namespace firn::cli
