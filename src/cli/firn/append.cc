// Rows of files into a table, as one snapshot.
#include <algorithm>

#include "base/arrow_status.h"
#include "cli/firn/command.h"
#include "cli/firn/progress.h"
#include "cli/firn/row_format.h"
#include "iceberg/metadata/changes.h"
#include "iceberg/parquet/arrow_schema.h"
#include "iceberg/parquet/without_field_ids.h"
#include "iceberg/write/append_writer.h"

namespace firn::cli {
namespace {

using iceberg::Field;
using iceberg::LoadedTable;
using iceberg::Schema;
using iceberg::SnapshotChange;
using iceberg::TableMetadata;
using iceberg::Type;

struct AppendArguments {
  TableArgument table;
  std::vector<std::string> files;
  std::string format;
  std::string branch = "main";
  std::string commit_id, wap_id;
  bool add_columns = false, dry_run = false, as_json = false;
};

void print_recognised(const AppendArguments& arguments, int64_t snapshot_id) {
  print_result(
      arguments.as_json,
      fmt::format("snapshot {} has commit id {} already; nothing was appended", snapshot_id, arguments.commit_id),
      {{"dry-run", arguments.dry_run}, {"snapshot-id", snapshot_id}, {"recognised", true}, {"rows", 0}, {"files", 0}});
}

std::vector<RowInput> open_inputs(const AppendArguments& arguments, const Schema& schema) {
  RowInputOptions options;
  if (!arguments.format.empty()) options.format = parse_row_format(arguments.format);
  options.infers_new_columns = arguments.add_columns;
  options.can_add_columns = true;
  std::vector<RowInput> inputs;
  for (const std::string& path : arguments.files) inputs.push_back(open_rows(path, schema, options));
  return inputs;
}

// Throws invalid_argument where a column of `rows` is wider than the table's, which it would widen for good.
void check_not_wider(const Type& rows, const Type& table, const std::string& name, const TableMetadata& metadata) {
  if (rows.is_nested() && rows.id() == table.id()) {
    for (const Field& column : rows.fields()) {
      for (const Field& there : table.fields()) {
        if (there.name == column.name)
          check_not_wider(*column.type, *there.type, (name.empty() ? "" : name + ".") + column.name, metadata);
      }
    }
    return;
  }
  if (rows.is_nested() || table.is_nested() || rows.to_string() == table.to_string() ||
      !can_promote(table, rows, metadata.format_version))
    return;
  fail(ErrorKind::invalid_argument,
       "column {} is {} in the rows and {} in the table, and an append widens no column: firn alter promote-column {} "
       "{} "
       "{} does",
       name, rows.to_string(), table.to_string(), metadata.location, name, rows.to_string());
}

// Of types that a column may be widened to.
bool is_wide(const arrow::DataType& type) {
  return type.id() == arrow::Type::INT64 || type.id() == arrow::Type::DOUBLE || type.id() == arrow::Type::DECIMAL128;
}

// The columns of `rows` that the table lacks (if `adds`), and those that it has with another type, such as structs with
// more fields; whether they are required is the table's matter. `input` for errors.
Schema differing_columns(const arrow::Schema& rows, const std::string& input, const TableMetadata& metadata,
                         bool adds) {
  arrow::FieldVector wanted;
  for (const auto& column : rows.fields()) {
    const auto& there = metadata.schema().fields();
    const auto found =
        std::find_if(there.begin(), there.end(), [&](const Field& field) { return field.name == column->name(); });
    if (found == there.end()) {
      if (adds && column->name().empty())
        fail(ErrorKind::invalid_argument, "{}: a column that the table lacks has no name: give it one", input);
      if (adds) wanted.push_back(column->WithNullable(true));
    } else if (!adds && !is_wide(*column->type())) {
      continue;  // the writer converts it, or says what is wrong
    } else if (!column->type()->Equals(iceberg::without_field_ids(iceberg::to_arrow_type(*found->type)))) {
      wanted.push_back(column->WithNullable(!found->required));
    }
  }
  Schema columns = iceberg::from_arrow_schema(arrow::Schema(std::move(wanted)));
  check_not_wider(*columns.as_struct(), *metadata.schema().as_struct(), "", metadata);
  return columns;
}

// `metadata` with the columns that `wanted` has more.
bool add_columns(TableMetadata& metadata, const Schema& wanted) {
  const iceberg::EvolvedSchema evolved =
      union_by_name(metadata.schema(), wanted, metadata.last_column_id, metadata.format_version);
  if (evolved.changed) set_current_schema(metadata, evolved.schema, evolved.last_column_id);
  return evolved.changed;
}

// Throws already_exists where a snapshot was staged under `wap_id` before: which of two is meant could not be told.
void check_not_staged(const TableMetadata& metadata, const std::string& wap_id) {
  const auto has = [&](const iceberg::Snapshot& snapshot, const char* key) {
    const auto found = snapshot.summary.find(key);
    return found != snapshot.summary.end() && found->second == wap_id;
  };
  for (const iceberg::Snapshot& snapshot : metadata.snapshots) {
    const bool is_published =
        has(snapshot, "published-wap-id") ||
        (has(snapshot, "wap.id") && std::any_of(metadata.refs.begin(), metadata.refs.end(), [&](const auto& ref) {
           return is_ancestor(metadata, snapshot.snapshot_id, ref.second.snapshot_id);
         }));
    if (is_published) {
      fail(ErrorKind::already_exists, "'{}' was published as snapshot {}: take another id; nothing was staged", wap_id,
           snapshot.snapshot_id);
    }
  }
  for (const iceberg::Snapshot& snapshot : metadata.snapshots) {
    if (!has(snapshot, "wap.id")) continue;
    fail(ErrorKind::already_exists,
         "snapshot {} is staged as '{}' already: publish it (firn cherry-pick --staged {}), expire it (firn expire "
         "--snapshot {}), or take another id; nothing was staged",
         snapshot.snapshot_id, wap_id, wap_id, snapshot.snapshot_id);
  }
}

// Of known failures: the files are named by nothing. Best effort: what stays falls to orphan removal.
void remove_files(FileIO& io, const std::vector<iceberg::DataFile>& files) {
  for (const iceberg::DataFile& file : files) {
    try {
      io.remove(file.file_path);
    } catch (const Error&) {
    }
  }
}

// Of a dry run.
struct WrittenFiles {
  FileIO& io;
  const std::vector<iceberg::DataFile>& files;
  ~WrittenFiles() { remove_files(io, files); }
};

int64_t write_inputs(std::vector<RowInput>& inputs, iceberg::AppendWriter& writer) {
  Progress progress("append");
  int64_t num_rows = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (;;) {
      std::shared_ptr<arrow::RecordBatch> batch;
      check(inputs[i].rows->ReadNext(&batch), "read rows");
      if (!batch) break;
      writer.write(batch);
      num_rows += batch->num_rows();
      const double done = inputs[i].done ? inputs[i].done() : -1;
      if (done >= 0) progress.set_part((static_cast<double>(i) + done) / static_cast<double>(inputs.size()));
      progress.say(format_counted(num_rows, "row"));
    }
  }
  return num_rows;
}

SnapshotChange change_of(const AppendArguments& arguments, std::vector<iceberg::DataFile> files, const Schema& schema) {
  SnapshotChange change;
  change.added = std::move(files);
  change.written_schema = schema;
  change.branch = arguments.branch;
  change.commit_id = make_commit_id(arguments.commit_id);
  if (!arguments.wap_id.empty()) {
    change.stage_only = true;
    change.summary["wap.id"] = arguments.wap_id;
    change.plan_try = [wap_id = arguments.wap_id](const TableMetadata& base, int64_t, int64_t) {
      check_not_staged(base, wap_id);
      return iceberg::TryPlan();
    };
  }
  return change;
}

void print_appended(const AppendArguments& arguments, int64_t num_rows, size_t num_files,
                    std::optional<int64_t> snapshot_id) {
  const bool is_staged = !arguments.wap_id.empty();
  const std::string what =
      fmt::format("{} in {}", format_counted(num_rows, "row"), format_counted(static_cast<int64_t>(num_files), "file"));
  print_result(arguments.as_json,
               snapshot_id ? fmt::format("{} {} as snapshot {}", is_staged ? "staged" : "appended", what, *snapshot_id)
                           : fmt::format("would {} {}", is_staged ? "stage" : "append", what),
               {{"dry-run", arguments.dry_run},
                {"snapshot-id", snapshot_id ? Json(*snapshot_id) : Json()},
                {"recognised", false},
                {"rows", num_rows},
                {"files", num_files}});
}

void append(const AppendArguments& arguments) {
  const auto table = open_table(arguments.table);
  const std::optional<iceberg::CommitId> commit_id = make_commit_id(arguments.commit_id);
  LoadedTable base = table->load();
  check_may_change(*table, base);
  check_branch(*base.metadata, arguments.branch);
  if (commit_id) {  // before anything is written: an earlier run may have committed it
    if (const auto landed = find_commit(*base.metadata, arguments.branch, *commit_id)) {
      return print_recognised(arguments, *landed);
    }
  }
  if (!arguments.wap_id.empty()) check_not_staged(*base.metadata, arguments.wap_id);
  std::vector<RowInput> inputs = open_inputs(arguments, base.metadata->schema());
  // Columns are added by commits of their own, before the first file that needs them (P2).
  std::vector<Schema> added;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Schema wanted =
        differing_columns(*inputs[i].rows->schema(), arguments.files[i], *base.metadata, arguments.add_columns);
    if (!arguments.add_columns || wanted.fields().empty()) continue;
    if (arguments.dry_run) {
      auto next = std::make_shared<TableMetadata>(*base.metadata);
      add_columns(*next, wanted);
      base.metadata = std::move(next);
    } else {
      base = evolve_schema(*table, wanted);
    }
    added.push_back(std::move(wanted));
  }
  iceberg::AppendWriter writer(table->io(), *base.metadata);
  const int64_t num_rows = write_inputs(inputs, writer);
  const SnapshotChange change = change_of(arguments, writer.finish(), base.metadata->schema());
  if (arguments.dry_run) {  // the files go again, whatever is said of them
    const WrittenFiles written{*table->io(), change.added};
    metadata_after(*table, [&](iceberg::TableOperations& unpublished) {
      std::vector<iceberg::Change> steps;
      for (const Schema& wanted : added) {
        steps.emplace_back(iceberg::MetadataChange([&](TableMetadata& next) { return add_columns(next, wanted); }));
      }
      steps.emplace_back(change);
      commit_transaction(unpublished, steps);
    });
    return print_appended(arguments, num_rows, change.added.size(), std::nullopt);
  }
  iceberg::CommitResult result;
  try {
    result = commit_snapshot(*table, change);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::commit_unknown) remove_files(*table->io(), change.added);
    throw;
  }
  if (result.recognised) {
    remove_files(*table->io(), change.added);
    return print_recognised(arguments, result.snapshot_id);
  }
  print_appended(arguments, num_rows, change.added.size(), result.snapshot_id);
}

}  // namespace

void add_append_command(CLI::App& app) {
  CLI::App* command = add_command(app, kWriting, "append", "Append files' rows as one snapshot",
                                  "append local:nyc.flights january.parquet february.ndjson.gz --commit-id load-7");
  auto& arguments = run_with<AppendArguments>(command, append);
  add_table(command, arguments.table);
  command
      ->add_option(
          "FILE", arguments.files,
          "Parquet, Arrow, CSV or JSON lines, by its name (.gz and .zst too); - is standard input. Columns are "
          "matched by name; JSON and CSV are spelled as scan prints them")
      ->required();
  command
      ->add_option("--format", arguments.format, "json, csv, arrow or parquet, whatever the name; - is json without it")
      ->check(CLI::IsMember(kInputFormats));
  command->add_option("--branch", arguments.branch, "The branch")->capture_default_str();
  command->add_option("--commit-id", arguments.commit_id, "Run again with the same id, nothing is appended twice");
  command->add_option("--stage", arguments.wap_id,
                      "Stage the snapshot under this wap.id: no branch moves until cherry-pick --staged");
  command->add_flag("--add-columns", arguments.add_columns,
                    "Add columns that the table lacks; those that it has stay as they are");
  command->add_flag("--dry-run", arguments.dry_run, "Read all rows, say what would be appended, and change nothing");
  command->add_flag("--json", arguments.as_json, "Answer in JSON");
}

}  // namespace firn::cli
