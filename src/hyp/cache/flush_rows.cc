#include "hyp/cache/flush_rows.h"

#include <atomic>

#include "base/arrow_status.h"
#include "hyp/cache/parallel.h"
#include "hyp/cache/row_id.h"
#include "hyp/capture/json_scanner.h"
#include "hyp/capture/line_blocks.h"

namespace firn::hyp {
namespace {

constexpr int64_t kJobBytes = 1 << 20;

// A job's lines as one text. A job of one range is read in place.
struct JobText {
  std::string_view text;
  std::string joined;
  std::vector<size_t> begins;  // where each range begins in the text

  explicit JobText(const Job& job) {
    if (job.size() == 1) {
      begins.push_back(0);
      text = of(job[0]);
      return;
    }
    size_t bytes = 0;
    for (const LineRange& range : job) bytes += static_cast<size_t>(range.end - range.begin);
    joined.reserve(bytes);
    for (const LineRange& range : job) {
      begins.push_back(joined.size());
      joined += of(range);
    }
    text = joined;
  }
  JobText(const JobText&) = delete;  // `text` may view `joined`

  static std::string_view of(const LineRange& range) {
    return std::string_view(range.frame->frame.text)
        .substr(static_cast<size_t>(range.begin), static_cast<size_t>(range.end - range.begin));
  }
};

// Numbers lines of frames whose offsets ascend, counting each newline once.
class LineCounter {
 public:
  int64_t line_at(const FrameAt& frame, int64_t offset) {
    if (frame_ != &frame || offset < offset_) {
      frame_ = &frame;
      offset_ = 0;
      line_ = frame.frame.first_line;
    }
    const auto begin = frame.frame.text.begin();
    line_ += count_newlines(std::string_view(begin + offset_, begin + offset));
    offset_ = offset;
    return line_;
  }

 private:
  const FrameAt* frame_ = nullptr;
  int64_t offset_ = 0, line_ = 0;
};

RejectedRow describe(const FrameAt& frame, int64_t offset, const RejectedLine& rejected, LineCounter& lines) {
  const std::string& text = frame.frame.text;
  const auto begin = static_cast<size_t>(offset);
  size_t end = std::min(text.find('\n', begin), text.size());
  if (end > begin && text[end - 1] == '\r') --end;
  const std::string_view line = std::string_view(text).substr(begin, end - begin);
  const CutLine kept = find_cut(line).value_or(CutLine{line});
  return {{frame.begin, offset},  frame.frame.source, lines.line_at(frame, offset), rejected.column, rejected.reason,
          std::string(kept.text), kept.bytes};
}

std::shared_ptr<arrow::Array> make_batch_ids(const Job& job, const JobText& text,
                                             const std::vector<int64_t>& row_offsets) {
  arrow::StringBuilder builder;
  check(builder.Reserve(static_cast<int64_t>(row_offsets.size())), "batch ids");
  size_t range = 0;
  for (const int64_t offset : row_offsets) {
    while (range + 1 < job.size() && static_cast<size_t>(offset) >= text.begins[range + 1]) ++range;
    check(builder.Append(job[range].frame->frame.batch_id), "batch ids");
  }
  return check(builder.Finish(), "batch ids");
}

}  // namespace

std::vector<Job> make_jobs(const std::vector<LineRange>& lines) {
  std::vector<Job> jobs;
  int64_t bytes = 0;
  for (const LineRange& range : lines) {
    const int64_t size = range.end - range.begin;
    if (size == 0) continue;
    if (jobs.empty() || bytes + size > kJobBytes) {
      jobs.emplace_back();
      bytes = 0;
    }
    jobs.back().push_back(range);
    bytes += size;
  }
  return jobs;
}

ParsedJob parse_job(const Job& job, const iceberg::Schema& visible, const RowParserOptions& options) {
  const JobText text(job);
  ParsedRows rows = parse_rows(text.text, visible, options);
  ParsedJob parsed;
  parsed.row_ids = make_row_ids(*rows.batch);
  parsed.batch_ids = make_batch_ids(job, text, rows.row_offsets);
  parsed.rows = std::move(rows.batch);
  parsed.has_new_columns = rows.has_new_columns;
  LineCounter lines;
  size_t range = 0;
  for (const RejectedLine& rejected : rows.rejected) {
    while (range + 1 < job.size() && static_cast<size_t>(rejected.offset) >= text.begins[range + 1]) ++range;
    const int64_t offset = job[range].begin + rejected.offset - static_cast<int64_t>(text.begins[range]);
    parsed.rejected.push_back(describe(*job[range].frame, offset, rejected, lines));
    parsed.has_rejected_columns |= !rejected.column.empty();
  }
  return parsed;
}

int64_t count_lines(const std::vector<Job>& jobs) {
  std::atomic<int64_t> lines{0};
  run_parallel(jobs.size(), [&](size_t i) {
    for (const LineRange& range : jobs[i]) {
      const std::string_view text = JobText::of(range);
      lines += count_newlines(text) + (text.empty() || text.ends_with('\n') ? 0 : 1);
    }
  });
  return lines;
}

iceberg::Schema infer_schema(const std::vector<Job>& jobs, const iceberg::Schema& known, int64_t row_bytes_max,
                             const std::string& timestamp_column) {
  std::vector<std::unique_ptr<SchemaInference>> seen(jobs.size());
  run_parallel(jobs.size(), [&](size_t i) {
    seen[i] = std::make_unique<SchemaInference>(known, row_bytes_max, timestamp_column);
    seen[i]->observe(JobText(jobs[i]).text);
  });
  SchemaInference all(known, row_bytes_max, timestamp_column);
  for (auto& part : seen) all.merge(std::move(*part));
  return all.schema();
}

std::vector<RejectedRow> describe_rejected(const FrameAt& frame, const std::vector<RejectedLine>& rejected) {
  std::vector<RejectedRow> rows;
  LineCounter lines;
  for (const RejectedLine& line : rejected) rows.push_back(describe(frame, line.offset, line, lines));
  return rows;
}

}  // namespace firn::hyp
