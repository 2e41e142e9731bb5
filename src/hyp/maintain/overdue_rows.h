// Rows of a table that are past their age: which of them go, and which wait for a sink (P8).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hyp/maintain/retention_state.h"
#include "hyp/maintain/row_age.h"
#include "hyp/maintain/sink_positions.h"
#include "iceberg/rows/chosen_rows.h"
#include "iceberg/scan/scan.h"

namespace firn::hyp {

struct OverdueRows {
  std::shared_ptr<const iceberg::ScanPlan> plan;  // of the files that may hold such rows
  std::vector<iceberg::ChosenRows> gone;          // of the plan: the rows to remove
  int64_t rows_gone = 0;
  RowsBySink rows_forced_out;          // of those: rows that the sink does not have
  RowsBySink rows_waiting;             // kept for the sink, once for each that keeps them
  std::optional<NumberRange> waiting;  // of rows kept
  int64_t files_read = 0;              // of the others the metadata told all
};

// Looks for the rows that `look` describes in the head of `metadata`, a table with the hidden columns. `known`: what
// was found before and noted in the table (nullopt: nothing); files that it tells of are not read again. Reads the
// columns that decide, of files whose metadata do not tell all; on all cores. Throws what reading throws.
OverdueRows find_overdue_rows(const iceberg::TableMetadata& metadata, const std::shared_ptr<FileIO>& io,
                              const RowAge& age, const RetentionState& look, const std::vector<SinkPosition>& sinks,
                              const std::optional<RetentionState>& known);

}  // namespace firn::hyp
