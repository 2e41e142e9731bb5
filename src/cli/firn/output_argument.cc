#include "cli/firn/output_argument.h"

#include <algorithm>

#include "base/arrow_status.h"
#include "cli/firn/command.h"

namespace firn::cli {

void add_output(CLI::App* command, OutputArgument& output) {
  command->add_flag("--json", output.as_json, "One JSON object a line");
  command->add_flag("--csv", output.as_csv, "CSV with a title line; null is empty, an empty string \"\"");
  command->add_option("--format", output.format, "table, json, csv, arrow or parquet");
  command->add_option("--output,-o", output.output,
                      "Into this file instead of standard output, in the format of its name; it is there once whole");
}

RowFormat chosen_format(const OutputArgument& output) {
  if (int{output.as_json} + int{output.as_csv} + int{!output.format.empty()} > 1) {
    throw CLI::ValidationError("--json, --csv and --format exclude each other");
  }
  if (output.as_json) return RowFormat::json;
  if (output.as_csv) return RowFormat::csv;
  if (!output.format.empty()) {
    try {
      return parse_row_format(output.format);
    } catch (const Error& e) {
      throw CLI::ValidationError("--format", e.what());
    }
  }
  const std::optional<RowFormat> by_name = row_format_of(output.output);
  if (!by_name && !output.output.empty()) {
    fail_usage("--output {}: the name tells no format; give --format table, json, csv, arrow or parquet",
               output.output);
  }
  return by_name.value_or(RowFormat::table);
}

int64_t write_rows(arrow::RecordBatchReader& rows, RowOutput& output, std::optional<int64_t> limit,
                   const std::function<void(int64_t)>& done_rows) {
  int64_t num_rows = 0;
  while (!limit || num_rows < *limit) {
    std::shared_ptr<arrow::RecordBatch> batch;
    check(rows.ReadNext(&batch), "read rows");
    if (!batch) break;
    if (limit && batch->num_rows() > *limit - num_rows) batch = batch->Slice(0, *limit - num_rows);
    output.write(batch);
    num_rows += batch->num_rows();
    if (done_rows) done_rows(num_rows);
  }
  output.finish();
  return num_rows;
}

}  // namespace firn::cli
