#include "hyp/sink/bodies.h"

#include <algorithm>

#include <arrow/util/byte_size.h>

#include "base/arrow_status.h"
#include "hyp/sink/json_lines.h"

namespace firn::hyp {
namespace {

constexpr int64_t kLineSliceBytes = 1 << 20;  // of Arrow buffers, turned into text at once
constexpr int64_t kLineSliceRows = 1024;

void append_row(Body& body, int64_t number, std::string_view line) {
  const size_t begin = body.text.size();
  body.text += line;
  body.rows.push_back({number, begin, body.text.size()});
}

// The rows from `first` on, which the body then no longer has.
Body split_off(Body& body, size_t first) {
  Body rest;
  for (size_t i = first; i < body.rows.size(); ++i) {
    const BodyRow& row = body.rows[i];
    append_row(rest, row.number, std::string_view(body.text).substr(row.begin, row.end - row.begin));
  }
  body.text.resize(body.rows[first].begin);
  body.rows.resize(first);
  return rest;
}

}  // namespace

BodyCutter::BodyCutter(UnitRows& rows, int64_t rows_max, int64_t bytes_max,
                       std::function<bool(int64_t number, std::string_view line)> keep)
    : rows_(rows), rows_max_(rows_max), bytes_max_(bytes_max), keep_(std::move(keep)) {}

bool BodyCutter::read_slice() {
  if (!batch_ || slice_end_ == batch_->rows->num_rows()) {
    batch_ = rows_.next_numbered();
    if (!batch_) return false;
    slice_end_ = 0;
    const int64_t row_bytes =
        check(arrow::util::ReferencedBufferSize(*batch_->rows), "measure rows") / batch_->rows->num_rows();
    slice_rows_max_ = std::clamp<int64_t>(kLineSliceBytes / std::max<int64_t>(1, row_bytes), 1, kLineSliceRows);
  }
  slice_begin_ = slice_end_;
  slice_end_ = std::min(slice_begin_ + slice_rows_max_, batch_->rows->num_rows());
  slice_.clear();
  slice_at_ = 0;
  // A column that some rows have is null in all the others: to a receiver that does not take it, they are rows without.
  append_json_lines(*batch_->rows->Slice(slice_begin_, slice_end_ - slice_begin_), rows_.schema(),
                    NullColumns::left_out, slice_);
  return true;
}

std::optional<BodyCutter::Line> BodyCutter::next_line() {
  if (slice_at_ == slice_.size() && !read_slice()) return std::nullopt;
  const size_t end = slice_.find('\n', slice_at_) + 1;  // there is none within a line
  const Line line{batch_->after[static_cast<size_t>(slice_begin_)],
                  std::string_view(slice_).substr(slice_at_, end - slice_at_)};
  slice_at_ = end;
  ++slice_begin_;
  return line;
}

std::optional<Body> BodyCutter::next() {
  Body body = std::exchange(carried_, {});
  while (const auto line = next_line()) {
    if (!keep_(line->number, line->text.substr(0, line->text.size() - 1))) continue;
    const bool fits = static_cast<int64_t>(body.rows.size()) < rows_max_ &&
                      static_cast<int64_t>(body.text.size() + line->text.size()) <= bytes_max_;
    if (!fits && !body.rows.empty()) {
      const auto same = std::find_if(body.rows.begin(), body.rows.end(),
                                     [&](const BodyRow& row) { return row.number == line->number; });
      if (same != body.rows.begin()) {  // else the body is one number's rows, which go together
        if (same != body.rows.end()) carried_ = split_off(body, static_cast<size_t>(same - body.rows.begin()));
        append_row(carried_, line->number, line->text);
        return body;
      }
    }
    append_row(body, line->number, line->text);
  }
  if (body.rows.empty()) return std::nullopt;
  return body;
}

}  // namespace firn::hyp
