// The lines of a received body, as they may go into the spool.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace firn::hyp {

struct LineProblem {
  int64_t line = 0;  // from 1, blank lines counted
  std::string reason;
};

struct ReceivedRows {
  std::string text;  // NDJSON, each line ended by '\n'; empty if there is no row
  int64_t rows = 0;
  std::optional<LineProblem> problem;  // of the first line that is no row; then there is no text
  bool is_too_long = false;            // the text would be; then there is none
};

// The column that a receiver sets, and what it may add: of tiny rows it could be many times the body.
struct RowMark {
  std::string column, gateway;
  int64_t text_bytes_max = 0;
};

// `"column":"gateway"`.
std::string row_member(const RowMark& mark);

// The rows as they came, to which `mark` is to be added (Frame::row_member). A row is a JSON object in UTF-8, whose
// columns have names that a table can have (P4.3) and others than the gateway's, and that is no longer than
// row_bytes_max with it. The gateway's column may be there if it is null, as it is in all rows of a dataset of which
// one brought it: it is taken out. Types are not looked at.
ReceivedRows receive_rows(std::string body, const RowMark& mark, int64_t row_bytes_max);

// Captured lines, which nobody has looked at (P4), each with `mark` as its first member, blank ones left out: one that
// is no row stays as it is, and becomes a reject at the flush.
ReceivedRows mark_rows(std::string_view body, const RowMark& mark);

}  // namespace firn::hyp
