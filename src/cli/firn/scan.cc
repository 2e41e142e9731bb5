// Rows of a snapshot, how many there are, and why which files are read for them.
#include "iceberg/scan/scan.h"

#include <fmt/ranges.h>

#include "base/arrow_status.h"
#include "cli/firn/command.h"
#include "cli/firn/output_argument.h"
#include "cli/firn/progress.h"
#include "cli/firn/text_table.h"
#include "iceberg/scan/appends.h"
#include "iceberg/scan/explain.h"
#include "iceberg/scan/snapshot_choice.h"

namespace firn::cli {
namespace {

using iceberg::FileScanTask;
using iceberg::LoadedTable;
using iceberg::ReadCounters;
using iceberg::ScanOptions;
using iceberg::ScanPlan;
using iceberg::TableMetadata;

struct ScanArguments {
  TableArgument table;
  std::string at, since;
  std::vector<std::string> columns;
  std::string where;
  std::optional<int64_t> limit;
  bool row_lineage = false, no_pruning = false, count = false, explain = false, stats = false;
  OutputArgument output;
};

// Rows up to `limit`, from metadata where a file's count is exact.
int64_t count_rows(const std::shared_ptr<FileIO>& io, ScanPlan plan, const ScanOptions& options) {
  int64_t num_rows = 0;
  std::vector<FileScanTask> to_read;
  for (FileScanTask& task : plan.tasks) {
    if (task.deletes.empty() && !task.residual) {
      num_rows += task.file.record_count;
    } else {
      to_read.push_back(std::move(task));
    }
  }
  plan.tasks = std::move(to_read);
  if (plan.tasks.empty()) return num_rows;
  const auto rows = iceberg::read_tasks(std::make_shared<const ScanPlan>(std::move(plan)), io, options);
  while (true) {
    std::shared_ptr<arrow::RecordBatch> batch;
    check(rows->ReadNext(&batch), "read rows");
    if (!batch) return num_rows;
    num_rows += batch->num_rows();
  }
}

void print_stats(const ReadCounters& counters) {
  fmt::print(stderr,
             "manifests read {}, skipped {}; files planned {}, pruned {}, opened {}; row groups read {}, pruned {}; "
             "pages read {}, pruned {}; rows decoded {}, values decoded {}; bytes read {}\n",
             counters.manifests_read.load(), counters.manifests_skipped.load(), counters.files_planned.load(),
             counters.files_pruned.load(), counters.files_opened.load(), counters.row_groups_read.load(),
             counters.row_groups_pruned.load(), counters.pages_read.load(), counters.pages_pruned.load(),
             counters.rows_decoded.load(), counters.values_decoded.load(), counters.bytes_read.load());
}

Json explanation_json(const iceberg::ScanExplanation& explained) {
  Json json;
  json["snapshot-id"] = explained.snapshot_id ? Json(*explained.snapshot_id) : Json();
  json["filter"] = explained.filter;
  json["manifests"] = Json::array();
  for (const auto& manifest : explained.manifests) {
    json["manifests"].push_back({{"path", manifest.path},
                                 {"content", manifest.content == iceberg::ManifestContent::data ? "data" : "deletes"},
                                 {"pruned-by", std::string(to_string(manifest.pruned_by))}});
  }
  json["files"] = Json::array();
  for (const auto& file : explained.files) {
    Json one = {{"path", file.path},
                {"format", file.format},
                {"rows", file.rows},
                {"size-in-bytes", file.size_bytes},
                {"pruned-by", std::string(to_string(file.pruned_by))}};
    if (file.pruned_by == iceberg::PlanRule::none) {
      one["deletes"] = file.deletes;
      one["residual"] = file.residual;
      one["row-groups"] = Json::array();
      for (const auto& group : file.row_groups) {
        one["row-groups"].push_back({{"rows", group.rows},
                                     {"rows-selected", group.rows_selected},
                                     {"pages", group.pages},
                                     {"pages-selected", group.pages_selected},
                                     {"pruned-by", std::string(to_string(group.rule))}});
      }
    }
    json["files"].push_back(std::move(one));
  }
  return json;
}

// "" or " (by partition)".
std::string reason(std::string_view rule) { return rule.empty() ? "" : fmt::format(" (by {})", rule); }

void print_explanation(const iceberg::ScanExplanation& explained) {
  using iceberg::PlanRule;
  int64_t manifests_read = 0, files_planned = 0;
  for (const auto& manifest : explained.manifests) manifests_read += manifest.pruned_by == PlanRule::none ? 1 : 0;
  for (const auto& file : explained.files) files_planned += file.pruned_by == PlanRule::none ? 1 : 0;
  print_text(fmt::format("snapshot: {}\nfilter: {}\n",
                         explained.snapshot_id ? std::to_string(*explained.snapshot_id) : "none",
                         explained.filter.empty() ? "none" : explained.filter));
  print_text(fmt::format("manifests: {} read, {} skipped\n", manifests_read,
                         static_cast<int64_t>(explained.manifests.size()) - manifests_read));
  for (const auto& manifest : explained.manifests) {
    print_text(fmt::format("  {} {} {}{}\n", manifest.pruned_by == PlanRule::none ? "read" : "skip",
                           manifest.content == iceberg::ManifestContent::data ? "data" : "deletes", manifest.path,
                           reason(to_string(manifest.pruned_by))));
  }
  print_text(fmt::format("files: {} planned, {} pruned\n", files_planned,
                         static_cast<int64_t>(explained.files.size()) - files_planned));
  for (const auto& file : explained.files) {
    const bool is_planned = file.pruned_by == PlanRule::none;
    print_text(fmt::format("  {} {}: {}, {}{}\n", is_planned ? "read" : "skip", file.path,
                           format_counted(file.rows, "row"), format_bytes(file.size_bytes),
                           reason(to_string(file.pruned_by))));
    if (!file.residual.empty()) print_text(fmt::format("    checked row by row: {}\n", file.residual));
    for (const std::string& path : file.deletes) print_text(fmt::format("    deletes: {}\n", path));
    for (size_t i = 0; i < file.row_groups.size(); ++i) {
      const auto& group = file.row_groups[i];
      const std::string pages =
          group.pages > 0 ? fmt::format(", {} of {} pages", group.pages_selected, group.pages) : std::string();
      print_text(fmt::format("    row group {}: {} of {} rows{}{}\n", i, group.rows_selected, group.rows, pages,
                             reason(to_string(group.rule))));
    }
  }
}

ScanPlan make_plan(const ScanArguments& arguments, const TableMetadata& metadata, const std::shared_ptr<FileIO>& io,
                   const ScanOptions& options) {
  if (arguments.since.empty()) return iceberg::plan_scan(metadata, io, options);
  iceberg::AppendRange range;
  range.from_snapshot_id = snapshot_id_at(arguments.since, metadata);
  range.to_snapshot_id = snapshot_id_at(arguments.at, metadata);
  ScanOptions appends = options;
  set_snapshot(appends, {});
  return iceberg::plan_appends(metadata, io, range, appends);
}

void print_rows(const ScanArguments& arguments, RowFormat format, const std::shared_ptr<FileIO>& io, ScanPlan plan,
                const ScanOptions& options) {
  int64_t rows_planned = 0;
  for (const FileScanTask& task : plan.tasks) rows_planned += task.file.record_count;
  if (arguments.limit) rows_planned = std::min(rows_planned, *arguments.limit);
  const auto shared_plan = std::make_shared<const ScanPlan>(std::move(plan));
  const auto output = make_row_output(shared_plan->projection, format, arguments.output.output);
  const auto rows = iceberg::read_tasks(shared_plan, io, options);
  std::optional<Progress> progress;
  if (!arguments.output.output.empty()) progress.emplace("scan");
  write_rows(*rows, *output, arguments.limit, [&](int64_t num_rows) {
    if (!progress) return;
    progress->set_part(rows_planned == 0 ? 1 : static_cast<double>(num_rows) / static_cast<double>(rows_planned));
    progress->say(format_counted(num_rows, "row"));
  });
}

void scan(const ScanArguments& arguments) {
  const RowFormat format = chosen_format(arguments.output);
  if (arguments.explain && arguments.count) throw CLI::ValidationError("--count and --explain exclude each other");
  if (!arguments.since.empty() && arguments.explain) {
    throw CLI::ValidationError("--explain tells of a whole scan: leave out --since");
  }
  const auto table = open_table(arguments.table);
  const LoadedTable head = table->load();
  ReadCounters counters;
  ScanOptions options;
  set_snapshot(options, parse_at(arguments.at, *head.metadata));
  const iceberg::Schema schema =
      arguments.since.empty() ? choose_snapshot(*head.metadata, options).schema : head.metadata->schema();
  check_columns(arguments.columns, schema);
  options.columns = arguments.columns;
  options.row_lineage = arguments.row_lineage;
  options.filter = parse_where(arguments.where, schema);
  options.prune = !arguments.no_pruning;
  options.counters = &counters;
  if (arguments.explain) {
    const auto explained = iceberg::explain_scan(*head.metadata, table->io(), options);
    if (format == RowFormat::json) {
      print_text(explanation_json(explained).dump(2) + "\n");
    } else {
      print_explanation(explained);
    }
  } else if (arguments.count) {
    options.columns = {"_pos"};  // a row's place is known without reading any column
    options.row_lineage = false;
    int64_t num_rows = count_rows(table->io(), make_plan(arguments, *head.metadata, table->io(), options), options);
    if (arguments.limit) num_rows = std::min(*arguments.limit, num_rows);
    print_result(format == RowFormat::json, std::to_string(num_rows), {{"count", num_rows}});
  } else {
    print_rows(arguments, format, table->io(), make_plan(arguments, *head.metadata, table->io(), options), options);
  }
  if (arguments.stats) print_stats(counters);
}

}  // namespace

void add_scan_command(CLI::App& app) {
  CLI::App* command = add_command(app, kReading, "scan", "Rows",
                                  "scan archive/nyc/flights --select carrier,dest --where \"dest = 'HNL'\" --limit 5");
  auto& arguments = run_with<ScanArguments>(command, scan);
  add_table(command, arguments.table);
  command->add_option("--select,--columns", arguments.columns, "Only these columns, in this order")
      ->delimiter(',')
      ->allow_extra_args(false);
  add_where(command, arguments.where, "Only rows for which it is true:");
  add_at(command, arguments.at);
  command->add_option("--since", arguments.since, "Only rows appended after this snapshot (as --at names it)");
  command->add_option("--limit", arguments.limit, "At most so many rows")->check(whole_number(0));
  command->add_flag("--row-lineage", arguments.row_lineage, "With _row_id and _last_updated_sequence_number");
  add_output(command, arguments.output);
  command->add_flag("--count", arguments.count, "Their number alone");
  command->add_flag("--explain", arguments.explain,
                    "No rows: which manifests, files, row groups and pages are read and pruned, and why");
  command->add_flag("--stats", arguments.stats, "Tell on standard error what was read and what was pruned");
  command->add_flag("--no-pruning", arguments.no_pruning, "Read every file, row group and page");
  add_relocate(command, arguments.table);
}

}  // namespace firn::cli
