// query, schema.
#include <ostream>
#include <set>

#include "cli/hyp/command.h"
#include "hyp/query/cut.h"
#include "hyp/query/query.h"
#include "hyp/sink/exported_rows.h"
#include "hyp/sink/outbox.h"
#include "hyp/type_text.h"

namespace firn::hyp {
namespace {

OutputFormat parse_format(const std::string& name) {
  if (name == "json") return OutputFormat::json;
  if (name == "csv") return OutputFormat::csv;
  if (name == "parquet") return OutputFormat::parquet;
  return OutputFormat::table;
}

int64_t write_rows(arrow::RecordBatchReader& rows, const Invocation& invocation, const QueryArguments& arguments) {
  const OutputFormat format = parse_format(arguments.format);
  if (arguments.output.empty()) return write_result(rows, format, *invocation.out);
  return write_result_file(rows, format, absolute_path(invocation, arguments.output));
}

void print_counters(std::ostream& out, const char* origin, const iceberg::ReadCounters& counters) {
  out << fmt::format(
      "{}files: {} planned, {} pruned; row groups: {} read, {} pruned; pages: {} read, {} pruned; {} rows, {} values "
      "decoded; {}\n",
      origin, counters.files_planned.load(), counters.files_pruned.load(), counters.row_groups_read.load(),
      counters.row_groups_pruned.load(), counters.pages_read.load(), counters.pages_pruned.load(),
      format_count(counters.rows_decoded), format_count(counters.values_decoded), format_bytes(counters.bytes_read));
}

// An answer that lacks rows looks like any other.
void warn_of_lost_exports(const Config& config, const std::string& sql, std::ostream& err) {
  const std::string words = fold_name(sql);
  std::set<std::string> told;
  for (const SinkConfig& sink : config.sinks) {
    if (!sink.queryable) continue;
    for (const OutboxEntry& failed : list_outbox(config.state_dir, sink.name)) {
      const bool has_lost = failed.error_kind == to_string(ErrorKind::destination_behind) ||
                            failed.error_kind == to_string(ErrorKind::destination_forgot);
      const std::string& dataset = failed.partition.dataset;
      if (!has_lost || find_queryable_sink(config, dataset) != &sink) continue;
      if (words.find(fold_name(dataset)) == std::string::npos || !told.insert(dataset).second) continue;
      err << "hyp: warning: sink " << sink.name << " found at its last run that its destination lacks rows of "
          << dataset << " that were shipped there: those that the cache no longer has are not in the answer; `hyp sink "
          << "status " << sink.name << "` tells more\n";
    }
  }
}

}  // namespace

int command_query(const Config& config, const Invocation& invocation, const QueryArguments& arguments) {
  if (arguments.format == "parquet" && arguments.output.empty())
    fail(ErrorKind::invalid_argument, "--format parquet needs --output FILE");
  const Cache cache(config);
  iceberg::ReadCounters counters, blob_counters, archive_counters;
  QueryOptions options;
  options.prune = !arguments.no_pruning;
  options.cancelled = invocation.cancelled;
  options.counters = &counters;
  options.blob_counters = &blob_counters;
  options.archive_counters = &archive_counters;
  const auto rows = run_query(cache, arguments.sql, options);
  const int64_t count = write_rows(*rows, invocation, arguments);
  if (!arguments.output.empty())
    *invocation.err << format_counted(count, "row") << " into " << arguments.output << "\n";
  warn_of_lost_exports(config, arguments.sql, *invocation.err);
  if (arguments.stats) {
    const auto is_used = [](const iceberg::ReadCounters& of) { return of.files_planned + of.files_pruned > 0; };
    const bool has_exports = is_used(blob_counters) || is_used(archive_counters);
    print_counters(*invocation.err, has_exports ? "cache:   " : "", counters);
    if (is_used(blob_counters)) print_counters(*invocation.err, "blobs:   ", blob_counters);
    if (is_used(archive_counters)) print_counters(*invocation.err, "archive: ", archive_counters);
  }
  return 0;
}

int command_schema(const Config& config, const Invocation& invocation, const std::string& dataset, bool json) {
  const Cache cache(config);
  const iceberg::Schema schema = schema_with_exports(cache, dataset);
  if (schema.fields().empty()) {
    config.dataset(dataset);  // throws for a wrong name
    std::set<std::string> names;
    for (const std::string& name : cache.datasets()) names.insert(name);
    for (const auto& [name, declared] : config.datasets) names.insert(name);
    if (names.contains(dataset)) fail(ErrorKind::not_found, "dataset {} has no columns yet", dataset);
    fail(ErrorKind::not_found,
         "there is no dataset {} in the cache tables or the configuration (spooled rows show once they are flushed); "
         "there are: {}",
         dataset, names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
  }
  if (json) {
    *invocation.out << schema.to_json().dump(2) << "\n";
    return 0;
  }
  std::vector<std::vector<std::string>> rows;
  for (const iceberg::Field& field : schema.fields()) {
    rows.push_back({field.name, type_text(*field.type), field.required ? "required" : "", field.doc});
  }
  print_table(*invocation.out, {"column", "type", "", ""}, rows);
  return 0;
}

}  // namespace firn::hyp
