// Tables made, and taken away.
#include "base/clock.h"
#include "cli/firn/command.h"
#include "cli/firn/schema_text.h"
#include "iceberg/catalog/drop_table.h"
#include "iceberg/full_names.h"

namespace firn::cli {
namespace {

using iceberg::Field;
using iceberg::Schema;

struct CreateArguments {
  TableArgument table;
  std::string schema_file;
  std::vector<std::string> columns, partition_by, sort_by, properties;
  bool as_json = false;
};

Schema schema_of(const CreateArguments& arguments) {
  if (arguments.schema_file.empty() == arguments.columns.empty()) {
    throw CLI::ValidationError("the columns are given by --schema FILE, or by --column once for each");
  }
  if (!arguments.schema_file.empty()) return read_schema_file(arguments.schema_file);
  std::vector<Field> fields;
  int32_t next_id = 1;
  for (const std::string& text : arguments.columns) fields.push_back(parse_column(text, next_id));
  return Schema(std::move(fields));
}

iceberg::TableMetadata metadata_of(const std::string& location, const Schema& schema,
                                   const iceberg::PartitionSpec& spec, const iceberg::SortOrder& order,
                                   const std::map<std::string, std::string>& properties) {
  try {
    return new_table_metadata(location, schema, spec, order, properties, now_ms());
  } catch (const Error& e) {
    const bool needs_v3 = std::string_view(e.what()).find("need") != std::string_view::npos &&
                          std::string_view(e.what()).find("format version 3") != std::string_view::npos;
    if (!needs_v3) throw;
    throw Error(e.kind(), fmt::format("{} (--property format-version=3)", e.what()));
  }
}

void create(const CreateArguments& arguments) {
  const Schema schema = schema_of(arguments);
  iceberg::check_full_names(schema);
  const iceberg::PartitionSpec spec = make_partition_spec(parse_partitions(arguments.partition_by), schema);
  const iceberg::SortOrder order = make_sort_order(parse_sort(arguments.sort_by), schema, "--sort");
  const auto properties = parse_pairs(arguments.properties, "--property");
  const iceberg::LoadedTable made = create_filesystem_table(
      make_io(arguments.table), metadata_of(table_location(arguments.table), schema, spec, order, properties));
  print_result(arguments.as_json, fmt::format("created {} ({})", made.metadata->location, made.metadata->table_uuid),
               {{"location", made.metadata->location},
                {"table-uuid", made.metadata->table_uuid},
                {"format-version", made.metadata->format_version},
                {"metadata-file", made.metadata_path}});
}

struct DropArguments {
  TableArgument table;
  bool dry_run = false, as_json = false;
};

void drop(const DropArguments& arguments) {
  const auto table = open_table(arguments.table);
  const iceberg::DroppedTable dropped =
      iceberg::drop_filesystem_table(make_io(arguments.table), table->location(), {.dry_run = arguments.dry_run});
  const std::string text = fmt::format(
      "{} {} with {} ({}){}", arguments.dry_run ? "would drop" : "dropped", table->location(),
      format_counted(dropped.files, "file"), format_bytes(dropped.bytes),
      dropped.kept.empty() ? ""
                           : fmt::format("; {} not of the table stay", format_counted(dropped.kept_files, "file")));
  print_result(arguments.as_json, text,
               {{"dry-run", arguments.dry_run},
                {"location", table->location()},
                {"files", dropped.files},
                {"bytes", dropped.bytes},
                {"files-kept", dropped.kept_files},
                {"kept", dropped.kept}});
}

}  // namespace

void add_create_commands(CLI::App& app) {
  CLI::App* command =
      add_command(app, kChanging, "create", "Make a table",
                  "create warehouse/nyc/flights --column \"ts timestamptz required\" --column \"dest string\" "
                  "--partition \"day(ts)\" --sort dest");
  auto& arguments = run_with<CreateArguments>(command, create);
  add_table(command, arguments.table);
  command->add_option("--column", arguments.columns, "\"name type\" or \"name type required\", once for each column")
      ->allow_extra_args(false);
  command->add_option("--schema", arguments.schema_file,
                      "Instead of --column: a file with the schema as Iceberg's JSON; field ids may be left out");
  command->add_option("--partition", arguments.partition_by, "\"day(ts)\", \"bucket(16, id)\", \"country\"")
      ->allow_extra_args(false);
  command->add_option("--sort", arguments.sort_by, "\"ts\", \"ts desc\", \"ts asc nulls last\"")
      ->allow_extra_args(false);
  command->add_option("--property", arguments.properties, "key=value; format-version=3 makes a version 3 table")
      ->allow_extra_args(false);
  command->add_flag("--json", arguments.as_json, "Answer in JSON");

  CLI::App* dropping =
      add_command(app, kChanging, "drop", "Take a table away, with its files", "drop local:nyc.flights --dry-run");
  auto& to_drop = run_with<DropArguments>(dropping, drop);
  add_table(dropping, to_drop.table);
  dropping->add_flag("--dry-run", to_drop.dry_run, "Say what would go, and change nothing");
  dropping->add_flag("--json", to_drop.as_json, "Answer in JSON");
}

}  // namespace firn::cli
