// The rows of the example: a file's lines, and what becomes of them. Plain Arrow: nothing here knows of tables or
// steps.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <arrow/api.h>

namespace nyc {

std::shared_ptr<arrow::Schema> raw_columns();    // a line of a file, as it is
std::shared_ptr<arrow::Schema> event_columns();  // a flight
std::shared_ptr<arrow::Schema> daily_columns();  // a carrier's flights of one day

// The lines of an NDJSON file. Throws not_found, io, and corrupt for a line that is no flight.
std::vector<std::shared_ptr<arrow::RecordBatch>> read_file(const std::string& path);

// Adds the days that raw rows are of, counted from 1970-01-01. Reads year, month and day.
void add_days(const arrow::RecordBatch& raw, std::set<int32_t>& days);

// Raw rows as events.
std::shared_ptr<arrow::RecordBatch> to_events(const arrow::RecordBatch& raw);

struct Daily {
  std::shared_ptr<arrow::RecordBatch> rows;  // in order of day and carrier
  int64_t flights = 0, cancelled = 0;        // in all
};
Daily to_daily(arrow::RecordBatchReader& events);

}  // namespace nyc
