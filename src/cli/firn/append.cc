// Rows of files into a table, as one snapshot.
#include <algorithm>

#include "base/arrow_status.h"
#include "cli/firn/command.h"
#include "cli/firn/progress.h"
#include "cli/firn/row_format.h"
#include "iceberg/parquet/arrow_schema.h"
#include "iceberg/parquet/without_field_ids.h"
#include "iceberg/write/append_writer.h"

namespace firn::cli {
namespace {

using iceberg::LoadedTable;

struct AppendArguments {
  TableArgument table;
  std::vector<std::string> files;
  std::string format;
  std::string branch = "main";
  std::string commit_id, wap_id;
  bool add_columns = false, as_json = false;
};

void print_recognised(const AppendArguments& arguments, int64_t snapshot_id) {
  print_result(
      arguments.as_json,
      fmt::format("snapshot {} has commit id {} already; nothing was appended", snapshot_id, arguments.commit_id),
      {{"snapshot-id", snapshot_id}, {"recognised", true}, {"rows", 0}, {"files", 0}});
}

std::vector<RowInput> open_inputs(const AppendArguments& arguments, const iceberg::Schema& schema) {
  RowInputOptions options;
  if (!arguments.format.empty()) options.format = parse_row_format(arguments.format);
  options.infers_new_columns = arguments.add_columns;
  std::vector<RowInput> inputs;
  for (const std::string& path : arguments.files) inputs.push_back(open_rows(path, schema, options));
  return inputs;
}

// The columns of `rows` that `table` lacks or has with another type; whether they are required is the table's matter.
iceberg::Schema columns_to_add(const arrow::Schema& rows, const iceberg::Schema& table) {
  arrow::FieldVector wanted;
  for (const auto& column : rows.fields()) {
    const auto there = std::find_if(table.fields().begin(), table.fields().end(),
                                    [&](const iceberg::Field& field) { return field.name == column->name(); });
    if (there == table.fields().end()) {
      wanted.push_back(column->WithNullable(true));
    } else if (!column->type()->Equals(iceberg::without_field_ids(iceberg::to_arrow_type(*there->type)))) {
      wanted.push_back(column->WithNullable(!there->required));
    }
  }
  return iceberg::from_arrow_schema(arrow::Schema(std::move(wanted)));
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

void append(const AppendArguments& arguments) {
  const auto table = open_table(arguments.table);
  const std::optional<iceberg::CommitId> commit_id = make_commit_id(arguments.commit_id);
  LoadedTable base = table->load();
  if (commit_id) {  // before anything is written: an earlier run may have committed it
    if (const auto landed = find_commit(*base.metadata, arguments.branch, *commit_id)) {
      return print_recognised(arguments, *landed);
    }
  }
  std::vector<RowInput> inputs = open_inputs(arguments, base.metadata->schema());
  // Columns are added by commits of their own, before the first file that needs them (P2).
  if (arguments.add_columns) {
    for (const RowInput& input : inputs) {
      const iceberg::Schema wanted = columns_to_add(*input.rows->schema(), base.metadata->schema());
      if (!wanted.fields().empty()) base = evolve_schema(*table, wanted);
    }
  }
  iceberg::AppendWriter writer(table->io(), *base.metadata);
  const int64_t num_rows = write_inputs(inputs, writer);
  iceberg::SnapshotChange change;
  change.added = writer.finish();
  change.written_schema = base.metadata->schema();
  change.branch = arguments.branch;
  change.commit_id = commit_id;
  if (!arguments.wap_id.empty()) {
    change.stage_only = true;
    change.summary["wap.id"] = arguments.wap_id;
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
  print_result(
      arguments.as_json,
      fmt::format("{} {} in {} as snapshot {}", arguments.wap_id.empty() ? "appended" : "staged",
                  format_counted(num_rows, "row"), format_counted(static_cast<int64_t>(change.added.size()), "file"),
                  result.snapshot_id),
      {{"snapshot-id", result.snapshot_id}, {"recognised", false}, {"rows", num_rows}, {"files", change.added.size()}});
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
  command->add_option("--format", arguments.format,
                      "json, csv, arrow or parquet, whatever the name; - is json without it");
  command->add_option("--branch", arguments.branch, "The branch")->capture_default_str();
  command->add_option("--commit-id", arguments.commit_id, "Run again with the same id, nothing is appended twice");
  command->add_option("--stage", arguments.wap_id,
                      "Stage the snapshot under this wap.id: no branch moves until cherry-pick --staged");
  command->add_flag("--add-columns", arguments.add_columns, "Add columns that the table lacks");
  command->add_flag("--json", arguments.as_json, "Answer in JSON");
}

}  // namespace firn::cli
