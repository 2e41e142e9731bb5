#include "cli/firn/text_table.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "base/error.h"

namespace firn::cli {
namespace {

constexpr size_t kHeldRowsMax = 1000;

size_t shown_width(const std::string& cell) {  // code points
  return static_cast<size_t>(std::count_if(cell.begin(), cell.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

bool is_number(const std::string& cell) {
  return cell.empty() || cell == "null" || cell.find_first_not_of("0123456789.-+e") == std::string::npos;
}

}  // namespace

TextTable::TextTable(std::vector<std::string> titles, std::function<void(const std::string&)> print)
    : titles_(std::move(titles)), print_(std::move(print)) {}

void TextTable::add(std::vector<std::string> cells) {
  if (is_fixed_) {
    print(cells);
    return;
  }
  held_.push_back(std::move(cells));
  if (held_.size() == kHeldRowsMax) fix_widths();
}

void TextTable::finish() {
  if (!is_fixed_) fix_widths();
}

void TextTable::fix_widths() {
  is_fixed_ = true;
  for (size_t column = 0; column < titles_.size(); ++column) {
    size_t width = shown_width(titles_[column]);
    bool is_right = !held_.empty();
    for (const std::vector<std::string>& row : held_) {
      width = std::max(width, shown_width(row[column]));
      is_right = is_right && is_number(row[column]);
    }
    widths_.push_back(width);
    is_right_.push_back(is_right);
  }
  print(titles_);
  for (const std::vector<std::string>& row : held_) print(row);
  held_.clear();
}

void TextTable::print(const std::vector<std::string>& cells) {
  std::string line;
  for (size_t column = 0; column < cells.size(); ++column) {
    const size_t width = shown_width(cells[column]);
    const std::string padding(widths_[column] > width ? widths_[column] - width : 0, ' ');
    if (column > 0) line += "  ";
    line += is_right_[column] ? padding + cells[column] : cells[column] + padding;
  }
  line.erase(line.find_last_not_of(' ') + 1);
  print_(line + "\n");
}

void print_text(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) fail_errno(errno, "write to standard output");
}

}  // namespace firn::cli
