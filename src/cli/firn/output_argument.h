// Where rows go, and as what: options of `scan`, `metadata` and `partitions`.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "cli/firn/row_format.h"

namespace firn::cli {

struct OutputArgument {
  bool as_json = false, as_csv = false;
  std::string format, output;
};

void add_output(CLI::App* command, OutputArgument& output);
// As the flags say, else as the file's name does, else a table. Throws CLI::ValidationError for several formats.
RowFormat chosen_format(const OutputArgument& output);

// Writes all of `rows`, or the first `limit`; returns how many. `done_rows` is told of them as they go.
int64_t write_rows(arrow::RecordBatchReader& rows, RowOutput& output, std::optional<int64_t> limit,
                   const std::function<void(int64_t)>& done_rows = nullptr);

}  // namespace firn::cli
