#include "cli/firn/csv_text.h"

#include <algorithm>
#include <cstring>

#include <arrow/buffer.h>

#include "base/arrow_status.h"

namespace firn::cli {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// The cells of the first line of `text` with any; nullopt: it does not end here.
std::optional<std::vector<std::string>> first_line(std::string_view text, bool is_whole) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  const size_t begin = text.find_first_not_of("\r\n");
  if (begin == std::string_view::npos) return is_whole ? std::optional(std::vector<std::string>()) : std::nullopt;
  std::vector<std::string> cells(1);
  bool is_quoted = false, may_open = true;
  for (size_t at = begin; at < text.size(); ++at) {
    const char c = text[at];
    if (is_quoted) {
      const bool is_double = c == '"' && at + 1 < text.size() && text[at + 1] == '"';
      if (c != '"' || is_double) cells.back() += c;
      is_quoted = c != '"' || is_double;
      at += is_double ? 1 : 0;
    } else if (c == '"' && may_open) {
      is_quoted = true;
    } else if (c == '\r' || c == '\n') {
      return cells;
    } else if (c == ',') {
      cells.emplace_back();
      may_open = true;
      continue;
    } else {
      cells.back() += c;
    }
    may_open = false;
  }
  return is_whole ? std::optional(cells) : std::nullopt;
}

}  // namespace

std::vector<std::string> CsvText::titles() {
  for (;;) {
    const auto block = check(in_->Read(kBlockBytes), "read " + name_);
    check(block->size() == 0 ? look_at_end() : look_at(std::string_view(*block)), "read " + name_);
    held_ += std::string_view(*block);
    if (auto cells = first_line(held_, block->size() == 0)) {
      const size_t mark = held_.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
      held_.erase(mark, std::min(held_.find_first_not_of("\r\n", mark), held_.size()) - mark);
      return *std::move(cells);
    }
  }
}

std::string CsvText::open_quote_hint() const {
  if (state_ != State::quoted) return "";
  return fmt::format(" (the quote that opens in line {} is not closed before)", quote_line_);
}

arrow::Result<int64_t> CsvText::Read(int64_t num_bytes, void* out) {
  ARROW_ASSIGN_OR_RAISE(const auto buffer, Read(num_bytes));
  std::memcpy(out, buffer->data(), static_cast<size_t>(buffer->size()));
  return buffer->size();
}

arrow::Result<std::shared_ptr<arrow::Buffer>> CsvText::Read(int64_t num_bytes) {
  std::shared_ptr<arrow::Buffer> buffer;
  if (!held_.empty()) {
    buffer = arrow::Buffer::FromString(held_.substr(0, static_cast<size_t>(num_bytes)));
    held_.erase(0, static_cast<size_t>(num_bytes));
  } else {
    ARROW_ASSIGN_OR_RAISE(buffer, in_->Read(num_bytes));
    ARROW_RETURN_NOT_OK(buffer->size() == 0 ? look_at_end() : look_at(std::string_view(*buffer)));
  }
  position_ += buffer->size();
  return buffer;
}

arrow::Status CsvText::look_at(std::string_view bytes) {
  for (const char c : bytes) {
    if (may_be_mark_) {
      may_be_mark_ = mark_bytes_ < kByteOrderMark.size() && c == kByteOrderMark[mark_bytes_];
      mark_bytes_ += may_be_mark_ ? 1 : 0;
      if (may_be_mark_) continue;
    }
    const bool is_end = c == ',' || c == '\n' || c == '\r';
    switch (state_) {
      case State::begin:
        if (is_end) break;
        state_ = c == '"' ? State::quoted : State::plain;
        quote_line_ = line_;
        break;
      case State::plain:
        if (is_end) state_ = State::begin;
        break;
      case State::quoted:
        if (c == '"') state_ = State::after_quote;
        break;
      case State::after_quote:
        if (!is_end && c != '"') {
          return arrow::Status::Invalid("line ", quote_line_,
                                        ": text follows the quote that closes the one opened there; a quote within "
                                        "quotes is doubled");
        }
        state_ = is_end ? State::begin : State::quoted;
        break;
    }
    if (c == '\r' || (c == '\n' && last_ != '\r')) ++line_;
    last_ = c;
  }
  return arrow::Status::OK();
}

arrow::Status CsvText::look_at_end() const {
  if (state_ != State::quoted) return arrow::Status::OK();
  return arrow::Status::Invalid("line ", quote_line_, ": the quote that opens there is never closed");
}

}  // namespace firn::cli
