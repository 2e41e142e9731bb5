#include "hyp/receiver/rows.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "base/json.h"
#include "hyp/capture/json_scanner.h"
#include "hyp/config.h"

namespace firn::hyp {
namespace {

std::string member_text(const RowMark& mark) { return Json(mark.column).dump() + ":" + Json(mark.gateway).dump(); }

bool is_longer(const std::string& text, int64_t bytes_max) { return static_cast<int64_t>(text.size()) > bytes_max; }

ReceivedRows too_long() {
  ReceivedRows received;
  received.is_too_long = true;
  return received;
}

// Where in a line the gateway's column goes, and what goes out for it: the member that has it as null, with one comma.
struct MarkPlace {
  size_t first = 0;                   // of the line's first member, or of its '}'
  size_t cut_begin = 0, cut_end = 0;  // equal: nothing goes
};

// Checks rows one by one; what it needs for that is kept between them.
class RowCheck {
 public:
  RowCheck(const std::string& column, int64_t row_bytes_max)
      : column_(column), folded_column_(fold_name(column)), row_bytes_max_(row_bytes_max) {}

  // "" for a row.
  std::string problem_of(std::string_view line, const char* readable_end, int64_t added_bytes, MarkPlace& place) {
    if (static_cast<int64_t>(line.size()) + added_bytes > row_bytes_max_) {
      return fmt::format("the row is longer than {} bytes (maxRowBytes), the gateway's column among them",
                         row_bytes_max_);
    }
    scanner_.start(line.data(), line.data() + line.size(), readable_end);
    scanner_.skip_space();
    if (!scanner_.take('{')) return "the line is no JSON object";
    scanner_.skip_space();
    const auto at = [&] { return static_cast<size_t>(scanner_.position() - line.data()); };
    place = {at(), at(), at()};
    num_names_ = 0;
    if (!scanner_.take('}')) {
      for (size_t comma = 0;;) {  // before the member; 0: it is the first
        const size_t begin = at();
        bool is_null_mark = false;
        if (std::string problem = take_member(is_null_mark); !problem.empty()) return problem;
        scanner_.skip_space();
        const size_t end = at();
        const bool is_last = scanner_.take('}');
        if (!is_last && !scanner_.take(',')) return malformed("expected ',' or '}'");
        scanner_.skip_space();
        if (is_null_mark) {
          place.cut_begin = is_last && comma > 0 ? comma : begin;
          place.cut_end = is_last ? end : at();
        }
        if (is_last) break;
        comma = end;
      }
    }
    scanner_.skip_space();
    if (!scanner_.at_end()) return malformed("more follows after the object");
    return repeated_name();
  }

 private:
  std::string malformed(const char* what) {
    scanner_.fail(what);
    return scanner_.error();
  }

  // `is_null_mark`: it is the gateway's column, and null.
  std::string take_member(bool& is_null_mark) {
    if (scanner_.peek() != '"') return malformed("expected a key");
    JsonString key;
    std::string_view name;
    if (!scanner_.take_string(key) || !scanner_.key_text(key, scratch_, name)) return scanner_.error();
    if (name.empty()) return "a column without a name";
    if (is_hidden_column(name)) return fmt::format("column \"{}\": names that begin with _hyp_ are reserved", name);
    if (name.find('\0') != std::string_view::npos) return "a column's name with a NUL character";
    if (num_names_ == names_.size()) names_.emplace_back();
    std::string& folded = names_[num_names_++];
    folded.assign(name);
    for (char& c : folded) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    scanner_.skip_space();
    if (!scanner_.take(':')) return malformed("expected ':'");
    scanner_.skip_space();
    is_null_mark = folded == folded_column_ && scanner_.peek() == 'n';  // else malformed, which the skip below tells
    if (folded == folded_column_ && !is_null_mark)
      return fmt::format(
          "column \"{}\": \"{}\" is the receiver's to set; of two that send on to each other, "
          "one needs another \"gatewayColumn\"",
          name, column_);
    bool decides = false;
    return scanner_.skip_value(1, decides) ? "" : scanner_.error();
  }

  std::string repeated_name() {
    const auto end = names_.begin() + static_cast<int64_t>(num_names_);
    std::sort(names_.begin(), end);
    const auto twice = std::adjacent_find(names_.begin(), end);
    return twice == end ? "" : fmt::format("column \"{}\" is there twice, in whatever case", *twice);
  }

  const std::string& column_;
  const std::string folded_column_;
  const int64_t row_bytes_max_;
  JsonScanner scanner_;
  std::string scratch_;
  std::vector<std::string> names_;  // of the row, folded; the first num_names_
  size_t num_names_ = 0;
};

void append_marked(std::string_view line, const MarkPlace& place, const std::string& member, std::string& text) {
  const std::string_view before = line.substr(place.first, place.cut_begin - place.first);
  const std::string_view after = line.substr(place.cut_end);
  text += '{';
  text += member;
  if ((before.empty() ? after : before).front() != '}') text += ',';
  text.append(before).append(after);
  text += '\n';
}

}  // namespace

ReceivedRows receive_rows(std::string_view body, const RowMark& mark, int64_t row_bytes_max) {
  ReceivedRows received;
  const std::string member = member_text(mark);
  const bool is_utf8 = is_valid_utf8(body);
  RowCheck check(mark.column, row_bytes_max);
  LineReader lines(body);
  received.text.reserve(body.size() + body.size() / 8);
  while (lines.next()) {
    MarkPlace place;
    std::string problem;
    if (!is_utf8 && !is_valid_utf8(lines.line())) {
      problem = "the line is no UTF-8";
    } else {
      problem = check.problem_of(lines.line(), lines.readable_end(), static_cast<int64_t>(member.size()) + 1, place);
    }
    if (!problem.empty()) {
      received = {};
      received.problem = {lines.index() + 1, std::move(problem)};
      return received;
    }
    append_marked(lines.line(), place, member, received.text);
    ++received.rows;
    if (is_longer(received.text, mark.text_bytes_max)) return too_long();
  }
  return received;
}

ReceivedRows mark_rows(std::string_view body, const RowMark& mark) {
  constexpr std::string_view kSpace = " \t\r";
  ReceivedRows received;
  const std::string member = member_text(mark);
  RowCheck check(mark.column, std::numeric_limits<int64_t>::max());
  for (LineReader lines(body); lines.next(); ++received.rows) {
    const std::string_view line = lines.line();
    MarkPlace place;
    const size_t brace = line.find_first_not_of(kSpace);
    if (check.problem_of(line, lines.readable_end(), 0, place).empty()) {
      append_marked(line, place, member, received.text);
    } else if (const size_t first = line.find_first_not_of(kSpace, brace + 1);
               line[brace] == '{' && first != std::string_view::npos) {
      append_marked(line, {first, first, first}, member, received.text);
    } else {
      received.text.append(line);
      received.text += '\n';
    }
    if (is_longer(received.text, mark.text_bytes_max)) return too_long();
  }
  return received;
}

}  // namespace firn::hyp
