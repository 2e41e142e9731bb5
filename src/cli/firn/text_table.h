// Text in aligned columns.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace firn::cli {

// Writes all of `text` to standard output. Throws io.
void print_text(const std::string& text);

// Writes rows to standard output, or what `print` is. Widths follow the titles and the first rows; a longer cell later
// pushes its line out. Columns whose first cells are all numbers are set to the right. Memory is bounded. finish()
// writes what is held back.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> titles, std::function<void(const std::string&)> print = print_text);
  void add(std::vector<std::string> cells);
  void finish();

 private:
  void fix_widths();
  void print(const std::vector<std::string>& cells);

  std::vector<std::string> titles_;
  std::function<void(const std::string&)> print_;
  std::vector<std::vector<std::string>> held_;
  std::vector<size_t> widths_;
  std::vector<bool> is_right_;
  bool is_fixed_ = false;
};

}  // namespace firn::cli
