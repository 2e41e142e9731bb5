#include "hyp/receiver/rows.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

#include "base/json.h"
#include "hyp/capture/json_scanner.h"
#include "hyp/config.h"

namespace firn::hyp {
namespace {

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

// Checks rows one by one. The members' names are remembered, since nearly all rows of a body have the same ones in the
// same order: a name that stands where it stood in the row before is not looked at again.
class RowCheck {
 public:
  // The lines that are checked must outlive this.
  RowCheck(const std::string& column, int64_t row_bytes_max)
      : column_(column), folded_column_(fold_name(column)), row_bytes_max_(row_bytes_max) {}

  // "" for a row.
  std::string problem_of(std::string_view line, const char* readable_end, int64_t added_bytes, MarkPlace& place) {
    std::string problem = find_problem(line, readable_end, added_bytes, place);
    if (!problem.empty()) num_known_ = 0;
    return problem;
  }

 private:
  // A member's name. Those that are known are of one row, and no two of them are the same.
  struct Name {
    std::string_view raw;  // as it stands there, from '"' to ':'; empty: to be looked at each time
    std::string folded;
    size_t hash = 0;
  };

  std::string find_problem(std::string_view line, const char* readable_end, int64_t added_bytes, MarkPlace& place) {
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
    bool has_new_names = false;
    if (!scanner_.take('}')) {
      size_t comma = 0;  // before the member; 0: it is the first
      for (size_t index = 0;; ++index) {
        const size_t begin = at();
        bool is_null_mark = false;
        if (index < num_known_ && !names_[index].raw.empty() && scanner_.take_text(names_[index].raw)) {
          scanner_.skip_space();
        } else {
          num_known_ = index;
          has_new_names = true;
          if (std::string problem = take_name(is_null_mark); !problem.empty()) return problem;
        }
        bool decides = false;
        if (!scanner_.skip_value(1, decides)) return scanner_.error();
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
    return has_new_names ? repeated_name() : "";
  }

  std::string malformed(const char* what) {
    scanner_.fail(what);
    return scanner_.error();
  }

  // Past the ':' and the space after it. `is_null_mark`: it is the gateway's column, and null.
  std::string take_name(bool& is_null_mark) {
    if (scanner_.peek() != '"') return malformed("expected a key");
    const char* const begin = scanner_.position();
    JsonString key;
    std::string_view name;
    if (!scanner_.take_string(key) || !scanner_.key_text(key, scratch_, name)) return scanner_.error();
    if (name.empty()) return "a column without a name";
    if (is_hidden_column(name)) return fmt::format("column \"{}\": names that begin with _hyp_ are reserved", name);
    if (name.find('\0') != std::string_view::npos) return "a column's name with a NUL character";
    if (num_known_ == names_.size()) names_.emplace_back();
    Name& known = names_[num_known_++];
    known.folded.assign(name);
    for (char& c : known.folded) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    known.hash = std::hash<std::string_view>()(known.folded);
    scanner_.skip_space();
    if (!scanner_.take(':')) return malformed("expected ':'");
    known.raw = {begin, static_cast<size_t>(scanner_.position() - begin)};
    scanner_.skip_space();
    if (known.folded != folded_column_) return "";
    known.raw = {};
    is_null_mark = scanner_.peek() == 'n';  // else malformed, which the value's skip tells
    if (is_null_mark) return "";
    return fmt::format(
        "column \"{}\": \"{}\" is the receiver's to set; of two that send on to each other, "
        "one needs another \"gatewayColumn\"",
        name, column_);
  }

  // By their hashes first, since the names of a row of other columns than the last one's are all new.
  std::string repeated_name() {
    hashes_.clear();
    for (size_t i = 0; i < num_known_; ++i) hashes_.push_back(names_[i].hash);
    std::sort(hashes_.begin(), hashes_.end());
    if (std::adjacent_find(hashes_.begin(), hashes_.end()) == hashes_.end()) return "";
    std::vector<std::string_view> names;
    for (size_t i = 0; i < num_known_; ++i) names.push_back(names_[i].folded);
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    return twice == names.end() ? "" : fmt::format("column \"{}\" is there twice, in whatever case", *twice);
  }

  const std::string& column_;
  const std::string folded_column_;
  const int64_t row_bytes_max_;
  JsonScanner scanner_;
  std::string scratch_;
  std::vector<Name> names_;  // the first num_known_ of them are known; the others keep their memory
  size_t num_known_ = 0;
  std::vector<size_t> hashes_;
};

// Bytes of a text.
struct Cut {
  size_t begin = 0, end = 0;
};

// `cuts` in order and apart, one at least.
void cut_out(const std::vector<Cut>& cuts, std::string& text) {
  size_t to = cuts.front().begin;
  for (size_t i = 0; i < cuts.size(); ++i) {
    const size_t from = cuts[i].end, until = i + 1 < cuts.size() ? cuts[i + 1].begin : text.size();
    std::memmove(text.data() + to, text.data() + from, until - from);
    to += until - from;
  }
  text.resize(to);
}

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

std::string row_member(const RowMark& mark) { return Json(mark.column).dump() + ":" + Json(mark.gateway).dump(); }

ReceivedRows receive_rows(std::string body, const RowMark& mark, int64_t row_bytes_max) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (body.starts_with(kByteOrderMark)) body.erase(0, kByteOrderMark.size());
  if (!body.empty() && body.back() != '\n') body += '\n';
  ReceivedRows received;
  const bool is_utf8 = is_valid_utf8(body);
  const auto added_bytes = static_cast<int64_t>(row_member(mark).size() + 1);
  std::vector<Cut> cuts;
  {
    RowCheck check(mark.column, row_bytes_max);
    for (LineReader lines(body); lines.next(); ++received.rows) {
      MarkPlace place;
      std::string problem;
      if (!is_utf8 && !is_valid_utf8(lines.line())) {
        problem = "the line is no UTF-8";
      } else {
        problem = check.problem_of(lines.line(), lines.readable_end(), added_bytes, place);
      }
      if (!problem.empty()) {
        received = {};
        received.problem = {lines.index() + 1, std::move(problem)};
        return received;
      }
      const auto begin = static_cast<size_t>(lines.offset());
      if (place.cut_begin < place.cut_end) cuts.push_back({begin + place.cut_begin, begin + place.cut_end});
    }
  }
  if (static_cast<int64_t>(body.size()) + received.rows * added_bytes > mark.text_bytes_max) return too_long();
  if (!cuts.empty()) cut_out(cuts, body);
  if (received.rows > 0) received.text = std::move(body);
  return received;
}

ReceivedRows mark_rows(std::string_view body, const RowMark& mark) {
  constexpr std::string_view kSpace = " \t\r";
  ReceivedRows received;
  const std::string member = row_member(mark);
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
    if (static_cast<int64_t>(received.text.size()) > mark.text_bytes_max) return too_long();
  }
  return received;
}

}  // namespace firn::hyp
