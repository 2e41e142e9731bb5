// Rows deleted, overwritten and upserted.
#include "iceberg/rows/rows.h"

#include <fmt/ranges.h>

#include "base/arrow_status.h"
#include "cli/firn/command.h"
#include "cli/firn/progress.h"
#include "cli/firn/row_format.h"

namespace firn::cli {
namespace {

using iceberg::PreparedRows;
using iceberg::RowCounts;
using iceberg::RowOptions;
using iceberg::RowsResult;
using iceberg::TableMetadata;

struct RowArguments {
  TableArgument table;
  std::string where;
  std::vector<std::string> files, key;
  std::string format, mode, isolation, commit_id, memory;
  std::string branch = "main";
  bool partitions = false, all = false, dry_run = false, as_json = false;
};

RowOptions row_options(const RowArguments& arguments) {
  RowOptions options;
  options.branch = arguments.branch;
  options.commit_id = make_commit_id(arguments.commit_id);
  if (const auto memory = parse_size(arguments.memory, "--memory")) options.memory_bytes_max = *memory;
  if (!arguments.mode.empty()) {
    options.mode =
        arguments.mode == "copy-on-write" ? iceberg::RowMode::copy_on_write : iceberg::RowMode::merge_on_read;
  }
  if (!arguments.isolation.empty()) {
    options.isolation =
        arguments.isolation == "serializable" ? iceberg::Isolation::serializable : iceberg::Isolation::snapshot;
  }
  return options;
}

iceberg::LoadedTable load_to_change(const RowArguments& arguments, iceberg::TableOperations& table) {
  iceberg::LoadedTable head = table.load();
  check_may_change(table, head);
  check_branch(*head.metadata, arguments.branch);
  return head;
}

// The rows of several files, one after another. All have the columns of the first, or fewer of them.
class ConcatenatedRows final : public arrow::RecordBatchReader {
 public:
  ConcatenatedRows(std::vector<RowInput> inputs, Progress& progress)
      : inputs_(std::move(inputs)), progress_(progress) {}
  std::shared_ptr<arrow::Schema> schema() const override { return inputs_.front().rows->schema(); }
  arrow::Status ReadNext(std::shared_ptr<arrow::RecordBatch>* batch) override {
    for (*batch = nullptr; current_ < inputs_.size(); ++current_) {
      check(inputs_[current_].rows->ReadNext(batch), "read rows");
      if (*batch) break;
    }
    if (*batch) {
      const double done = inputs_[current_].done ? inputs_[current_].done() : -1;
      num_rows_ += (*batch)->num_rows();
      if (done >= 0) progress_.set_part((static_cast<double>(current_) + done) / static_cast<double>(inputs_.size()));
      progress_.say(format_counted(num_rows_, "row") + " read");
    }
    return arrow::Status::OK();
  }

 private:
  std::vector<RowInput> inputs_;
  Progress& progress_;
  size_t current_ = 0;
  int64_t num_rows_ = 0;
};

std::unique_ptr<ConcatenatedRows> open_inputs(const RowArguments& arguments, const iceberg::Schema& schema,
                                              Progress& progress, RowInputOptions options = {}) {
  if (!arguments.format.empty()) options.format = parse_row_format(arguments.format);
  std::vector<RowInput> inputs;
  for (const std::string& path : arguments.files) {
    inputs.push_back(open_rows(path, schema, options));
    if (!inputs.back().rows->schema()->Equals(*inputs.front().rows->schema(), false)) {
      fail(ErrorKind::invalid_argument, "{} has other columns than {}; give them one by one", path,
           arguments.files.front());
    }
  }
  return std::make_unique<ConcatenatedRows>(std::move(inputs), progress);
}

std::string counts_text(const RowCounts& counts) {
  std::vector<std::string> parts;
  if (counts.rows_deleted > 0) parts.push_back(format_counted(counts.rows_deleted, "row") + " deleted");
  if (counts.rows_updated > 0) parts.push_back(format_counted(counts.rows_updated, "row") + " updated");
  if (counts.rows_inserted > 0) parts.push_back(format_counted(counts.rows_inserted, "row") + " inserted");
  return parts.empty() ? "no row changes" : fmt::format("{}", fmt::join(parts, ", "));
}

Json counts_json(const RowCounts& counts) {
  return {{"rows-deleted", counts.rows_deleted},
          {"rows-updated", counts.rows_updated},
          {"rows-inserted", counts.rows_inserted}};
}

void print_changed(const RowArguments& arguments, const RowsResult& result) {
  Json json = {{"dry-run", false},
               {"snapshot-id", result.commit ? Json(result.commit->snapshot_id) : Json()},
               {"recognised", result.commit && result.commit->recognised}};
  json.update(counts_json(result.counts));
  const std::string text =
      !result.commit ? "nothing to do: no row changes, and there is no new snapshot"
      : result.commit->recognised
          ? fmt::format("snapshot {} has commit id {} already; nothing was changed", result.commit->snapshot_id,
                        arguments.commit_id)
          : fmt::format("{} as snapshot {}", counts_text(result.counts), result.commit->snapshot_id);
  print_result(arguments.as_json, text, json);
}

// What was prepared is taken away again: no snapshot names it.
void print_prepared(const RowArguments& arguments, const PreparedRows& prepared, FileIO& io) {
  discard(prepared, io);
  const size_t added = prepared.change ? prepared.change->added.size() : 0;
  const size_t removed =
      static_cast<size_t>(prepared.files_replaced) + (prepared.change ? prepared.change->removed.size() : 0);
  Json json = {{"dry-run", true}};
  json.update(counts_json(prepared.counts));
  json["files-added"] = added;
  json["files-removed"] = removed;
  print_result(arguments.as_json,
               fmt::format("would do: {}; {} added, {} removed", counts_text(prepared.counts),
                           format_counted(static_cast<int64_t>(added), "file"),
                           format_counted(static_cast<int64_t>(removed), "file")),
               json);
}

// A dry run reads alone.
void print_rows_to_delete(const RowArguments& arguments, const TableMetadata& metadata,
                          const std::shared_ptr<FileIO>& io, const iceberg::ExpressionPtr& filter) {
  Progress progress("delete");
  iceberg::ScanOptions options;
  options.ref = arguments.branch;
  options.filter = filter;
  options.columns = {"_pos"};
  const auto plan = std::make_shared<const iceberg::ScanPlan>(plan_scan(metadata, io, options));
  int64_t num_rows = 0, num_files = 0;
  for (size_t task = 0; task < plan->tasks.size(); ++task) {
    const int64_t before = num_rows;
    const auto rows = read_task(plan, task, io, options);
    for (std::shared_ptr<arrow::RecordBatch> batch;;) {
      check(rows->ReadNext(&batch), "read rows");
      if (!batch) break;
      num_rows += batch->num_rows();
    }
    num_files += num_rows > before ? 1 : 0;
    progress.set_part(static_cast<double>(task + 1) / static_cast<double>(plan->tasks.size()));
  }
  print_result(arguments.as_json,
               fmt::format("would delete {} in {}", format_counted(num_rows, "row"), format_counted(num_files, "file")),
               {{"dry-run", true}, {"rows-deleted", num_rows}, {"files-changed", num_files}});
}

void remove_rows(const RowArguments& arguments) {
  if (arguments.where.empty() != arguments.all) {
    throw CLI::ValidationError("which rows go is said by --where; --all deletes every row");
  }
  const RowOptions options = row_options(arguments);
  const auto table = open_table(arguments.table);
  const auto head = load_to_change(arguments, *table);
  const iceberg::ExpressionPtr filter = parse_where(arguments.where, head.metadata->schema());
  if (arguments.dry_run) return print_rows_to_delete(arguments, *head.metadata, table->io(), filter);
  std::optional<RowsResult> result;
  {
    Progress progress("delete");
    result = delete_rows(*table, filter, options);
  }
  print_changed(arguments, *result);
}

void overwrite(const RowArguments& arguments) {
  if (int{!arguments.where.empty()} + int{arguments.partitions} + int{arguments.all} != 1) {
    throw CLI::ValidationError("what the rows replace is said by one of --where, --partitions and --all");
  }
  iceberg::OverwriteOptions options;
  options.rows = row_options(arguments);
  const auto table = open_table(arguments.table);
  const auto head = load_to_change(arguments, *table);
  const iceberg::ExpressionPtr filter = parse_where(arguments.where, head.metadata->schema());
  std::optional<RowsResult> result;
  std::optional<PreparedRows> prepared;
  {
    Progress progress("overwrite");
    const auto rows = open_inputs(arguments, head.metadata->schema(), progress);
    if (arguments.dry_run) {
      prepared = arguments.partitions ? prepare_replace_partitions(*head.metadata, table->io(), *rows, options.rows)
                                      : prepare_overwrite_rows(*head.metadata, table->io(), filter, *rows, options);
    } else {
      result = arguments.partitions ? replace_partitions(*table, *rows, options.rows)
                                    : overwrite_rows(*table, filter, *rows, options);
    }
  }
  if (prepared) return print_prepared(arguments, *prepared, *table->io());
  print_changed(arguments, *result);
}

void upsert(const RowArguments& arguments) {
  iceberg::MergeOptions options;
  options.rows = row_options(arguments);
  options.key_columns = arguments.key;
  const auto table = open_table(arguments.table);
  const auto head = load_to_change(arguments, *table);
  check_columns(arguments.key, head.metadata->schema());
  if (arguments.key.empty() && head.metadata->schema().identifier_field_ids().empty()) {
    throw CLI::ValidationError("--key: the table has no identifier columns, so name the columns that tell rows apart");
  }
  std::optional<RowsResult> result;
  std::optional<PreparedRows> prepared;
  {
    Progress progress("upsert");
    // Columns that the rows lack keep their values.
    const auto rows = open_inputs(arguments, head.metadata->schema(), progress, {.has_columns_of_first_row = true});
    if (arguments.dry_run) {
      prepared = prepare_upsert_rows(*head.metadata, table->io(), *rows, options);
    } else {
      result = upsert_rows(*table, *rows, options);
    }
  }
  if (prepared) return print_prepared(arguments, *prepared, *table->io());
  print_changed(arguments, *result);
}

void add_row_options(CLI::App* command, RowArguments& arguments) {
  command
      ->add_option("--mode", arguments.mode,
                   "copy-on-write or merge-on-read; without it, as the table's properties say")
      ->check(CLI::IsMember({"copy-on-write", "merge-on-read"}));
  command
      ->add_option("--isolation", arguments.isolation,
                   "serializable or snapshot; without it, as the table's properties say")
      ->check(CLI::IsMember({"serializable", "snapshot"}));
  command->add_option("--branch", arguments.branch, "The branch")->capture_default_str();
  command->add_option("--commit-id", arguments.commit_id, "Run again with the same id, nothing is done twice");
  command->add_option("--memory", arguments.memory, "For what grows with the rows; 256MiB without it");
  command->add_flag("--dry-run", arguments.dry_run, "Say what would be done, and change nothing");
  command->add_flag("--json", arguments.as_json, "Answer in JSON");
}

void add_files(CLI::App* command, RowArguments& arguments) {
  command->add_option("FILE", arguments.files, "As append takes them; - is standard input")->required();
  command->add_option("--format", arguments.format, "json, csv, arrow or parquet, whatever the name")
      ->check(CLI::IsMember(kInputFormats));
}

}  // namespace

void add_row_commands(CLI::App& app) {
  CLI::App* deleting = add_command(app, kWriting, "delete", "Delete rows",
                                   "delete local:nyc.flights --where \"dest = 'HNL'\" --dry-run");
  auto& to_delete = run_with<RowArguments>(deleting, remove_rows);
  add_table(deleting, to_delete.table);
  add_where(deleting, to_delete.where, "The rows for which it is true:");
  deleting->add_flag("--all", to_delete.all, "Every row");
  add_row_options(deleting, to_delete);

  CLI::App* overwriting =
      add_command(app, kWriting, "overwrite", "Replace rows by those of files, in one snapshot",
                  "overwrite local:nyc.flights may.parquet --where \"ts >= '2013-05-01' and ts < '2013-06-01'\"");
  auto& to_overwrite = run_with<RowArguments>(overwriting, overwrite);
  add_table(overwriting, to_overwrite.table);
  add_files(overwriting, to_overwrite);
  add_where(overwriting, to_overwrite.where, "Rows for which it is true are replaced:");
  overwriting->add_flag("--partitions", to_overwrite.partitions, "Partitions that the new rows fall into are replaced");
  overwriting->add_flag("--all", to_overwrite.all, "Every row is replaced");
  add_row_options(overwriting, to_overwrite);

  CLI::App* upserting =
      add_command(app, kWriting, "upsert", "Update rows of the same key (in the columns given), insert the others",
                  "upsert local:nyc.planes changes.ndjson --key tailnum");
  auto& to_upsert = run_with<RowArguments>(upserting, upsert);
  add_table(upserting, to_upsert.table);
  add_files(upserting, to_upsert);
  upserting
      ->add_option("--key", to_upsert.key, "Columns that tell rows apart; without it, the table's identifier columns")
      ->delimiter(',')
      ->allow_extra_args(false);
  add_row_options(upserting, to_upsert);
}

}  // namespace firn::cli
