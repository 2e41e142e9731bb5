// Spooled lines as rows of a cache table, in jobs of about 1 MiB of text.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <arrow/record_batch.h>

#include "hyp/cache/rejects.h"
#include "hyp/capture/row_parser.h"
#include "hyp/capture/spool.h"

namespace firn::hyp {

// Whole lines of one frame's text: [begin, end).
struct LineRange {
  const FrameAt* frame = nullptr;  // outlives the range
  int64_t begin = 0, end = 0;
};
using Job = std::vector<LineRange>;  // parsed together; in spool order

// `lines` cut into jobs; a range is never cut.
std::vector<Job> make_jobs(const std::vector<LineRange>& lines);

struct ParsedJob {
  std::shared_ptr<arrow::RecordBatch> rows;  // the visible columns, in spool order
  std::shared_ptr<arrow::Array> row_ids;     // _hyp_cache_row_id (P5.3)
  std::shared_ptr<arrow::Array> batch_ids;   // _hyp_cache_batch_id, of the row's frame
  std::vector<RejectedRow> rejected;         // in spool order
  bool has_new_columns = false;
  bool has_rejected_columns = false;  // some line was rejected for one of its columns
};
ParsedJob parse_job(const Job& job, const iceberg::Schema& visible, const RowParserOptions& options);

int64_t count_lines(const std::vector<Job>& jobs);  // blank ones included

// The columns that `known` and the lines of `jobs` have together (row_parser.h).
iceberg::Schema infer_schema(const std::vector<Job>& jobs, const iceberg::Schema& known, int64_t row_bytes_max,
                             const std::string& timestamp_column);

// Rejected lines of one frame, with their lines' numbers and text. `rejected` ascends by offset.
std::vector<RejectedRow> describe_rejected(const FrameAt& frame, const std::vector<RejectedLine>& rejected);

}  // namespace firn::hyp
