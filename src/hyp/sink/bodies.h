// A unit's rows as NDJSON without their null columns, cut into what a forward sink sends at once.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hyp/sink/unit.h"

namespace firn::hyp {

struct BodyRow {
  int64_t number = 0;
  size_t begin = 0, end = 0;  // its line in the body's text, with the line end
};
struct Body {
  std::string text;
  std::vector<BodyRow> rows;  // numbers ascend; equal ones are in one body (P9.1)
};

// Memory is bounded by two bodies and a slice of rows. One thread.
class BodyCutter {
 public:
  // Leaves out the rows that `keep(number, line)` refuses; `line` is without its end. A body has at most rows_max rows
  // and bytes_max bytes of text, but at least one row, and all that share its number.
  BodyCutter(UnitRows& rows, int64_t rows_max, int64_t bytes_max,
             std::function<bool(int64_t number, std::string_view line)> keep);
  std::optional<Body> next();

 private:
  struct Line {
    int64_t number = 0;
    std::string_view text;  // with its end; until the next call
  };
  std::optional<Line> next_line();
  bool read_slice();

  UnitRows& rows_;
  int64_t rows_max_, bytes_max_;
  std::function<bool(int64_t, std::string_view)> keep_;
  Body carried_;  // read, and too much for the body before
  std::optional<SequencedBatch> batch_;
  int64_t slice_begin_ = 0, slice_end_ = 0, slice_rows_max_ = 0;  // rows of the batch
  std::string slice_;                                             // their text
  size_t slice_at_ = 0;                                           // in the text
};

}  // namespace firn::hyp
