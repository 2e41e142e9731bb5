// The command firn: looks into Iceberg tables, makes them, and appends to them.
#include <cstdio>
#include <cstdlib>

#include <CLI/CLI.hpp>

#include "base/log.h"
#include "cli/firn/command.h"

namespace {

constexpr int kFailed = 1, kUsage = 2;

using namespace firn::cli;

// What CLI11 fills in.
struct Parsed {
  TableArgument table;
  AtArguments at;
  bool as_json = false, as_csv = false, as_count = false, no_pruning = false;
  SnapshotsArguments snapshots;
  ScanArguments scan;
  CreateArguments create;
  AppendArguments append;
};

CLI::App* add_command(CLI::App& app, Parsed& p, const std::string& name, const std::string& about) {
  CLI::App* command = app.add_subcommand(name, about);
  command->add_option("TABLE", p.table.table, "A table's directory, or namespace.table with --warehouse")->required();
  command->add_option("--warehouse", p.table.warehouse, "The folder of namespace/table folders")
      ->envname("FIRN_WAREHOUSE");
  return command;
}

void add_at(CLI::App& command, AtArguments& at) {
  auto* group = command.add_option_group("when", "Which snapshot; none is the current one");
  group->add_option("--snapshot", at.snapshot_id, "By its id");
  group->add_option("--ref", at.ref, "A branch or tag");
  group->add_option("--as-of", at.as_of, "The one current at a time: 2024-03-01T12:00:00Z, or milliseconds since 1970");
  group->require_option(0, 1);
}

void add_options(CLI::App& app, Parsed& p) {
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "Help of every command");

  auto* describe = add_command(app, p, "describe", "Schema, partitioning, properties, current snapshot, refs");
  describe->add_flag("--json", p.as_json, "As JSON");

  auto* snapshots = add_command(app, p, "snapshots", "The snapshots, oldest first");
  snapshots->add_flag("--json", p.as_json, "As JSON, with the whole summary");
  snapshots->add_option("--summary", p.snapshots.summary_keys, "A further column: this summary property")
      ->delimiter(',')
      ->allow_extra_args(false);

  auto* scan = add_command(app, p, "scan", "Rows");
  scan->add_option("--columns", p.scan.columns, "Only these, in this order")->delimiter(',')->allow_extra_args(false);
  scan->add_option("--where", p.scan.where,
                   "Only rows for which it is true: \"ts >= '2024-01-01' and not (a is null)\"");
  add_at(*scan, p.at);
  scan->add_option("--limit", p.scan.limit, "At most so many rows")->check(CLI::NonNegativeNumber);
  scan->add_flag("--row-lineage", p.scan.row_lineage, "With _row_id and _last_updated_sequence_number");
  scan->add_flag("--no-pruning", p.no_pruning, "Read every file, row group and page");
  scan->add_flag("--stats", p.scan.stats, "Tell on standard error what was read and what was pruned");
  auto* format = scan->add_option_group("format", "How; none is a table");
  format->add_flag("--json", p.as_json, "One JSON object a line");
  format->add_flag("--csv", p.as_csv, "CSV with a title line; null is empty, an empty string \"\"");
  format->add_flag("--count", p.as_count, "Their number alone");
  format->require_option(0, 1);

  auto* files = add_command(app, p, "files", "Live data and delete files");
  add_at(*files, p.at);
  files->add_flag("--json", p.as_json, "As JSON");

  auto* create = add_command(app, p, "create", "Make a table");
  create
      ->add_option("--schema", p.create.schema_file,
                   "A file with the schema as Iceberg's JSON; field ids may be left out")
      ->required();
  create->add_option("--partition", p.create.partition_by, "\"day(ts)\", \"bucket(16, id)\", \"country\"")
      ->allow_extra_args(false);
  create->add_option("--sort", p.create.sort_by, "\"ts\", \"ts desc\", \"ts asc nulls last\"")->allow_extra_args(false);
  create->add_option("--property", p.create.properties, "key=value; format-version=3 makes a version 3 table")
      ->allow_extra_args(false);

  auto* append = add_command(app, p, "append", "Append Parquet files' rows as one snapshot");
  append->add_option("FILE", p.append.files, "Parquet; columns are matched by name")->required();
  append->add_option("--branch", p.append.branch, "The branch")->capture_default_str();
  append->add_option("--commit-id", p.append.commit_id, "Run again with the same id, nothing is appended twice");
  append->add_flag("--add-columns", p.append.add_columns, "Add columns that the table lacks");
}

void run(const CLI::App& app, Parsed& p) {
  if (app.got_subcommand("describe")) return describe(p.table, p.as_json);
  if (app.got_subcommand("snapshots")) {
    p.snapshots.as_json = p.as_json;
    return snapshots(p.table, p.snapshots);
  }
  if (app.got_subcommand("scan")) {
    p.scan.at = p.at;
    p.scan.prune = !p.no_pruning;
    p.scan.format = p.as_json    ? RowFormat::json
                    : p.as_csv   ? RowFormat::csv
                    : p.as_count ? RowFormat::count
                                 : RowFormat::table;
    return scan(p.table, p.scan);
  }
  if (app.got_subcommand("files")) return files(p.table, p.at, p.as_json);
  if (app.got_subcommand("create")) return create(p.table, p.create);
  append(p.table, p.append);
}

}  // namespace

int main(int argc, char** argv) {
  firn::init_log(spdlog::level::warn);
  CLI::App app("firn reads, makes and appends to Apache Iceberg tables.", "firn");
  Parsed parsed;
  add_options(app, parsed);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // help
    std::fprintf(stderr, "firn: %s\nTry: firn --help-all\n", e.what());
    return kUsage;
  }
  try {
    run(app, parsed);
    if (std::fflush(stdout) != 0) firn::fail(firn::ErrorKind::io, "standard output could not be written");
    return 0;
  } catch (const std::exception& e) {
    std::fflush(stdout);
    std::fprintf(stderr, "firn: %s\n", e.what());
    return kFailed;
  }
}
