#include "hyp/capture/row_parser.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <unordered_map>

#include <fmt/format.h>

#include "base/civil_time.h"
#include "base/error.h"
#include "base/uuid.h"
#include "hyp/capture/column_builder.h"
#include "hyp/capture/json_scanner.h"
#include "hyp/capture/value_text.h"
#include "hyp/config.h"
#include "hyp/type_text.h"
#include "iceberg/parquet/arrow_schema.h"

namespace firn::hyp {
namespace {

using iceberg::TypeId;

constexpr int64_t kTextBytesMax = std::numeric_limits<int32_t>::max();  // Arrow's 32-bit offsets reach no further

// How the fields of an object find their columns. Lines of one source nearly always have their keys in one order, so
// the key that followed last time is tried first: one comparison of the key with its quotes and colon.
struct KeyIndex {
  explicit KeyIndex(const std::vector<std::unique_ptr<ColumnBuilder>>& columns);

  std::vector<std::string>
      quoted;                 // with its colon, as the scanner meets it; a lone '\n' where only a lookup may find it
  std::vector<int32_t> next;  // [i + 1]: the column that followed column i; [0]: the first one
  std::unordered_map<std::string_view, int32_t> by_name;
  std::unordered_map<std::string, int32_t> by_lower_name;
};

KeyIndex::KeyIndex(const std::vector<std::unique_ptr<ColumnBuilder>>& columns) : next(columns.size() + 1, 0) {
  for (size_t i = 0; i < columns.size(); ++i) {
    const std::string& name = columns[i]->name;
    const bool is_plain = std::none_of(
        name.begin(), name.end(), [](char c) { return c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20; });
    quoted.push_back(is_plain && !name.empty() && !is_hidden_column(name) ? "\"" + name + "\":" : "\n");
    if (i < columns.size()) next[i] = static_cast<int32_t>(i);
    by_name.emplace(name, static_cast<int32_t>(i));
    by_lower_name.emplace(fold_name(name), static_cast<int32_t>(i));
  }
}

// A column with what parsing needs beside its builder; mirrors the builder's children.
struct ColumnParser {
  explicit ColumnParser(ColumnBuilder& builder) : column(builder) {
    for (auto& child : builder.children) children.emplace_back(*child);
    if (builder.id == TypeId::struct_) keys = std::make_unique<KeyIndex>(builder.children);
  }

  ColumnBuilder& column;
  std::vector<ColumnParser> children;
  std::unique_ptr<KeyIndex> keys;  // of a struct
};

class RowParser {
 public:
  RowParser(const iceberg::Schema& schema, const RowParserOptions& options)
      : options_(options),
        root_(iceberg::Field{.name = "", .required = true, .type = schema.as_struct()}, ""),
        parser_(root_) {}

  ParsedRows parse(std::string_view text, const iceberg::Schema& schema);

 private:
  bool parse_line(const LineReader& lines);
  // Each takes one value at the scanner into the column, or fails with reason_ and rejected_column_ set.
  bool parse_value(ColumnParser& parser, int depth);
  bool parse_fields(ColumnParser& parser, int depth);
  bool parse_unknown_field(const ColumnParser& parser, std::string_view name, int depth,
                           std::vector<std::string>& names);
  bool parse_items(ColumnParser& parser, int depth);
  bool parse_entries(ColumnParser& parser, int depth);
  bool parse_number(ColumnBuilder& column);
  bool parse_string(ColumnBuilder& column);
  bool append_number(ColumnBuilder& column, const JsonNumber& number);
  bool append_timestamp_number(ColumnBuilder& column, int64_t value);
  bool append_text(ColumnBuilder& column, std::string_view text);
  bool append_timestamp(ColumnBuilder& column, std::string_view text);
  bool check_entry_keys(const ColumnParser& parser, int64_t first);

  bool reject(std::string_view column, std::string reason);
  bool reject_malformed() { return reject("", scanner_.error()); }
  bool reject_type(const ColumnBuilder& column);
  bool reject_inexact(const ColumnBuilder& column, const JsonNumber& number);
  bool reject_text(const ColumnBuilder& column, std::string_view text, std::string_view why = "");
  bool malformed(const char* what) { return scanner_.fail(what) || reject_malformed(); }

  const RowParserOptions& options_;
  ColumnBuilder root_;
  ColumnParser parser_;
  JsonScanner scanner_;
  std::string key_scratch_, text_scratch_, bytes_scratch_;
  bool line_has_new_columns_ = false;
  std::string rejected_column_, reason_;
};

// At most 40 bytes of a value, cut where a character begins.
std::string excerpt(std::string_view text) {
  constexpr size_t kExcerptBytes = 40;
  if (text.size() <= kExcerptBytes) return std::string(text);
  size_t end = kExcerptBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return std::string(text.substr(0, end)) + "…";
}

bool RowParser::reject(std::string_view column, std::string reason) {
  if (reason_.empty()) {
    rejected_column_ = column;
    reason_ = std::move(reason);
  }
  return false;
}

// The value at the scanner is not of the column's type, or no value at all.
bool RowParser::reject_type(const ColumnBuilder& column) {
  const char* begin = scanner_.position();
  bool decides = false;
  if (!scanner_.skip_value(0, decides)) return reject_malformed();
  const std::string_view value(begin, static_cast<size_t>(scanner_.position() - begin));
  std::string found = excerpt(value);
  if (value.front() == '{') found = "an object";
  if (value.front() == '[') found = "an array";
  if (value.front() == '"') found = "the string " + found;
  return reject(column.path, fmt::format("expected {}, found {}", type_text(*column.type), found));
}

bool RowParser::reject_text(const ColumnBuilder& column, std::string_view text, std::string_view why) {
  return reject(column.path, fmt::format("expected {}, found the string \"{}\"{}{}", type_text(*column.type),
                                         excerpt(text), why.empty() ? "" : ": ", why));
}

// For how many rows to make room at first, as the text's beginning tells.
int64_t estimate_rows(std::string_view text) {
  constexpr size_t kSampleBytes = 16 << 10;
  constexpr int64_t kRowsMax = 64 << 10;
  const std::string_view sample = text.substr(0, kSampleBytes);
  const int64_t lines = count_newlines(sample) + 1;
  if (sample.size() == text.size()) return lines;
  const int64_t samples = static_cast<int64_t>(text.size() / kSampleBytes) + 1;
  return std::min(lines * samples + lines * samples / 16, kRowsMax);
}

ParsedRows RowParser::parse(std::string_view text, const iceberg::Schema& schema) {
  ParsedRows rows;
  const bool all_utf8 = is_valid_utf8(text);
  const int64_t num_rows = estimate_rows(text);
  root_.reserve(num_rows);
  rows.row_offsets.reserve(static_cast<size_t>(num_rows));
  for (LineReader lines(text); lines.next();) {
    line_has_new_columns_ = false;
    reason_.clear();
    rejected_column_.clear();
    bool good = false;
    if (static_cast<int64_t>(lines.line().size()) > options_.row_bytes_max) {
      reject("", fmt::format("the line is longer than {} bytes", options_.row_bytes_max));
    } else if (!all_utf8 && !is_valid_utf8(lines.line())) {
      reject("", "invalid UTF-8");
    } else {
      good = parse_line(lines);
    }
    if (good) {
      rows.row_offsets.push_back(lines.offset());
      rows.has_new_columns |= line_has_new_columns_;
    } else {
      root_.truncate(static_cast<int64_t>(rows.row_offsets.size()));
      rows.rejected.push_back({lines.offset(), lines.index(), rejected_column_, reason_});
    }
  }
  const std::shared_ptr<arrow::Schema> arrow_schema = iceberg::to_arrow_schema(schema);
  std::vector<std::shared_ptr<arrow::ArrayData>> columns;
  for (size_t i = 0; i < root_.children.size(); ++i) {
    columns.push_back(root_.children[i]->finish(arrow_schema->field(static_cast<int>(i))->type()));
  }
  rows.batch =
      arrow::RecordBatch::Make(arrow_schema, static_cast<int64_t>(rows.row_offsets.size()), std::move(columns));
  return rows;
}

bool RowParser::parse_line(const LineReader& lines) {
  const std::string_view line = lines.line();
  scanner_.start(line.data(), line.data() + line.size(), lines.readable_end());
  scanner_.skip_space();
  if (scanner_.peek() != '{') {
    bool decides = false;
    if (!scanner_.skip_value(0, decides)) return reject_malformed();
    return reject("", "expected an object, found " + excerpt(line));
  }
  if (!parse_fields(parser_, 0)) return false;
  scanner_.skip_space();
  return scanner_.at_end() || malformed("text after the object");
}

bool RowParser::parse_fields(ColumnParser& parser, int depth) {
  if (depth >= kJsonDepthMax) return malformed("nested too deeply");
  ColumnBuilder& structure = parser.column;
  KeyIndex& keys = *parser.keys;
  const int64_t row = structure.length;
  const auto num_columns = static_cast<int32_t>(parser.children.size());
  int32_t num_seen = 0;
  int32_t previous = -1;
  std::vector<std::string> unknown_names;
  scanner_.advance(1);
  scanner_.skip_space();
  for (bool more = !scanner_.take('}'); more;) {
    if (scanner_.peek() != '"') return malformed(scanner_.at_end() ? "the line ends too early" : "expected a key");
    int32_t& predicted = keys.next[static_cast<size_t>(previous) + 1];
    int32_t index = -1;
    std::string_view name;
    if (predicted < num_columns && scanner_.take_text(keys.quoted[static_cast<size_t>(predicted)])) {
      index = predicted;
    } else {
      JsonString key;
      if (!scanner_.take_string(key) || !scanner_.key_text(key, key_scratch_, name)) return reject_malformed();
      const auto found = keys.by_name.find(name);
      if (found != keys.by_name.end() && !is_hidden_column(name)) index = predicted = found->second;
      scanner_.skip_space();
      if (!scanner_.take(':')) return malformed("expected ':'");
    }
    scanner_.skip_space();
    if (index >= 0) {
      ColumnParser& child = parser.children[static_cast<size_t>(index)];
      if (child.column.length != row) {
        return reject(child.column.path, fmt::format("the key \"{}\" occurs twice", child.column.name));
      }
      if (!parse_value(child, depth + 1)) return false;
      previous = index;
      ++num_seen;
    } else if (!parse_unknown_field(parser, name, depth, unknown_names)) {
      return false;
    }
    scanner_.skip_space();
    if (scanner_.take(',')) {
      scanner_.skip_space();
    } else if (scanner_.take('}')) {
      more = false;
    } else {
      return malformed(scanner_.at_end() ? "the line ends too early" : "expected ',' or '}'");
    }
  }
  if (num_seen < num_columns) {
    for (ColumnParser& child : parser.children) {
      if (child.column.length != row) continue;
      if (child.column.required) return reject(child.column.path, "the column is required and missing");
      child.column.append_absent();
    }
  }
  structure.mark_valid();
  return true;
}

bool RowParser::parse_unknown_field(const ColumnParser& parser, std::string_view name, int depth,
                                    std::vector<std::string>& names) {
  const std::string& parent = parser.column.path;
  const std::string path = parent.empty() ? std::string(name) : fmt::format("{}.{}", parent, name);
  if (name.empty()) return reject(path, "a column without a name");
  if (is_hidden_column(name)) return reject(path, "names that begin with _hyp_ are reserved");
  if (name.find('\0') != std::string_view::npos) return reject(path, "a column's name with a NUL character");
  const std::string lower = fold_name(name);
  if (const auto found = parser.keys->by_lower_name.find(lower); found != parser.keys->by_lower_name.end()) {
    const std::string& other = parser.column.children[static_cast<size_t>(found->second)]->name;
    return reject(path, fmt::format("the name differs from column \"{}\" only in case", other));
  }
  for (const std::string& other : names) {
    if (other == name) return reject(path, fmt::format("the key \"{}\" occurs twice", name));
    if (fold_name(other) == lower) return reject(path, fmt::format("the name differs from \"{}\" only in case", other));
  }
  // A null says no more than the key's absence would; what begins so and is none is malformed, below.
  if (options_.new_columns_rejected && scanner_.peek() != 'n')
    return reject(path, "the dataset has no such column and takes no new ones");
  names.emplace_back(name);
  bool decides = false;
  if (!scanner_.skip_value(depth + 1, decides)) return reject_malformed();
  if (decides && options_.schema_is_complete) {
    return reject(path,
                  "another column has this full name, or one that begins so: a name with a dot names a member of a "
                  "struct, too");
  }
  line_has_new_columns_ |= decides;
  return true;
}

bool RowParser::parse_value(ColumnParser& parser, int depth) {
  ColumnBuilder& column = parser.column;
  switch (scanner_.peek()) {
    case '"':
      return parse_string(column);
    case 'n':
      if (!scanner_.take_null()) return malformed("expected a value");
      if (column.required) return reject(column.path, "the column is required and null");
      column.append_absent();
      return true;
    case '{':
      if (column.id == TypeId::struct_) return parse_fields(parser, depth);
      if (column.id == TypeId::map) return parse_entries(parser, depth);
      return reject_type(column);
    case '[':
      return column.id == TypeId::list ? parse_items(parser, depth) : reject_type(column);
    case 't':
    case 'f':
      if (column.id != TypeId::boolean_) return reject_type(column);
      if (scanner_.take_true()) {
        column.append<uint8_t>(1);
      } else if (scanner_.take_false()) {
        column.append<uint8_t>(0);
      } else {
        return malformed("expected a value");
      }
      return true;
    case '-':
    case '0':
    case '1':
    case '2':
    case '3':
    case '4':
    case '5':
    case '6':
    case '7':
    case '8':
    case '9':
      return parse_number(column);
    default:
      return malformed(scanner_.at_end() ? "the line ends too early" : "expected a value");
  }
}

bool RowParser::parse_items(ColumnParser& parser, int depth) {
  if (depth >= kJsonDepthMax) return malformed("nested too deeply");
  scanner_.advance(1);
  scanner_.skip_space();
  for (bool more = !scanner_.take(']'); more;) {
    if (!parse_value(parser.children[0], depth + kJsonDepthOfArray)) return false;
    scanner_.skip_space();
    if (scanner_.take(',')) {
      scanner_.skip_space();
    } else if (scanner_.take(']')) {
      more = false;
    } else {
      return malformed(scanner_.at_end() ? "the line ends too early" : "expected ',' or ']'");
    }
  }
  parser.column.end_items();
  return true;
}

bool RowParser::parse_entries(ColumnParser& parser, int depth) {
  if (depth >= kJsonDepthMax) return malformed("nested too deeply");
  ColumnBuilder& keys = parser.children[0].column;
  const int64_t first = keys.length;
  scanner_.advance(1);
  scanner_.skip_space();
  for (bool more = !scanner_.take('}'); more;) {
    if (scanner_.peek() != '"') return malformed(scanner_.at_end() ? "the line ends too early" : "expected a key");
    JsonString key;
    std::string_view name;
    if (!scanner_.take_string(key) || !scanner_.key_text(key, key_scratch_, name)) return reject_malformed();
    keys.append_bytes(name);
    scanner_.skip_space();
    if (!scanner_.take(':')) return malformed("expected ':'");
    scanner_.skip_space();
    if (!parse_value(parser.children[1], depth + kJsonDepthOfArray)) return false;
    scanner_.skip_space();
    if (scanner_.take(',')) {
      scanner_.skip_space();
    } else if (scanner_.take('}')) {
      more = false;
    } else {
      return malformed(scanner_.at_end() ? "the line ends too early" : "expected ',' or '}'");
    }
  }
  if (!check_entry_keys(parser, first)) return false;
  parser.column.end_items();
  return true;
}

bool RowParser::check_entry_keys(const ColumnParser& parser, int64_t first) {
  const ColumnBuilder& keys = parser.children[0].column;
  if (keys.length - first < 2) return true;
  std::vector<std::string_view> names;
  for (int64_t i = first; i < keys.length; ++i) {
    const auto begin = keys.offsets.at<int32_t>(i);
    names.emplace_back(reinterpret_cast<const char*>(keys.values.data()) + begin,
                       static_cast<size_t>(keys.offsets.at<int32_t>(i + 1) - begin));
  }
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  return twice == names.end() || reject(parser.column.path, fmt::format("the key \"{}\" occurs twice", *twice));
}

bool RowParser::parse_number(ColumnBuilder& column) {
  JsonNumber number;
  if (!scanner_.take_number(number)) return reject_malformed();
  if (int64_t integer = 0; column.id == TypeId::long_ && number.to_int64(integer)) {
    column.append(integer);
    return true;
  }
  return append_number(column, number);
}

// Whether an integer that was written out is the one that `value` stands for: it is exactly that, or the digits that
// `value` is printed with, zeros behind them. Fractions and exponents are approximations anyway.
template <class Real>
bool keeps_integer(const JsonNumber& number, Real value) {
  if (!number.is_integer || number.num_digits <= std::numeric_limits<Real>::digits10) return true;
  std::string_view digits = number.text();
  if (number.is_negative) digits.remove_prefix(1);
  char text[400];
  const char* end = std::to_chars(text, std::end(text), std::abs(value), std::chars_format::fixed).ptr;
  if (digits == std::string_view(text, static_cast<size_t>(end - text))) return true;
  end = std::to_chars(text, std::end(text), std::abs(value), std::chars_format::scientific).ptr;
  std::string shortest;
  const char* at = text;
  for (; at < end && *at != 'e'; ++at) {
    if (*at != '.') shortest += *at;
  }
  int exponent = 0;
  std::from_chars(at + 1 + (at[1] == '+'), end, exponent);
  shortest.resize(std::max(shortest.size(), static_cast<size_t>(std::max(exponent, 0)) + 1), '0');
  return digits == shortest;
}

bool RowParser::reject_inexact(const ColumnBuilder& column, const JsonNumber& number) {
  return reject(column.path,
                fmt::format("{} would be changed by a {}; declare the column as decimal(38,0) or string to "
                            "keep such numbers",
                            excerpt(number.text()), type_text(*column.type)));
}

// Seconds, milliseconds, microseconds and nanoseconds of our times are a thousand apart, so that a number in another
// unit than the column's is told by its size.
bool RowParser::append_timestamp_number(ColumnBuilder& column, int64_t value) {
  constexpr int64_t kFirstMicros = 100'000'000'000'000;  // 1973-03-03; as milliseconds it would be of the year 5138
  const bool nanos = column.id == TypeId::timestamp_ns || column.id == TypeId::timestamptz_ns;
  const int64_t first = nanos ? kFirstMicros * 1000 : kFirstMicros;
  if (value < first || (!nanos && value >= kFirstMicros * 1000)) {
    return reject(column.path,
                  fmt::format("expected {}, found {}: a number is taken as {}seconds since 1970, 1973 to "
                              "{}; write other times as ISO 8601, \"2024-02-29T12:00:00Z\"",
                              type_text(*column.type), value, nanos ? "nano" : "micro", nanos ? "2262" : "5138"));
  }
  column.append(value);
  return true;
}

bool RowParser::append_number(ColumnBuilder& column, const JsonNumber& number) {
  int64_t integer = 0;
  double real = 0;
  switch (column.id) {
    case TypeId::long_:
      if (number.to_int64(integer)) {
        column.append(integer);
        return true;
      }
      break;
    case TypeId::int_:
      if (number.to_int64(integer) && integer >= std::numeric_limits<int32_t>::min() &&
          integer <= std::numeric_limits<int32_t>::max()) {
        column.append(static_cast<int32_t>(integer));
        return true;
      }
      break;
    case TypeId::double_:
      if (number.to_double(real)) {
        if (!keeps_integer(number, real)) return reject_inexact(column, number);
        column.append(real);
        return true;
      }
      break;
    case TypeId::float_:
      if (number.to_double(real) && std::isfinite(static_cast<float>(real))) {  // 3.4028235e38 rounds to the greatest
        if (!keeps_integer(number, static_cast<float>(real))) return reject_inexact(column, number);
        column.append(static_cast<float>(real));
        return true;
      }
      break;
    case TypeId::decimal:
      if (const auto decimal = parse_decimal(number.text(), column.type->precision(), column.type->scale())) {
        column.append(decimal->ToBytes());
        return true;
      }
      break;
    case TypeId::timestamp:
    case TypeId::timestamptz:
    case TypeId::timestamp_ns:
    case TypeId::timestamptz_ns:
      if (number.to_int64(integer)) return append_timestamp_number(column, integer);
      break;
    default:
      break;
  }
  const bool is_number = column.id != TypeId::boolean_ && column.id != TypeId::string;
  return reject(column.path, fmt::format("expected {}, found {}{}", type_text(*column.type), excerpt(number.text()),
                                         is_number && number.is_integer ? ", which is out of its range" : ""));
}

bool RowParser::parse_string(ColumnBuilder& column) {
  JsonString string;
  if (!scanner_.take_string(string)) return reject_malformed();
  std::string_view text = string.raw;
  if (string.has_escapes) {
    text_scratch_.clear();
    if (!unescape_json(string.raw, text_scratch_)) return malformed("a bad escape or a lone surrogate in a string");
    text = text_scratch_;
  }
  if (column.id == TypeId::string) {
    column.append_bytes(text);
    return true;
  }
  return append_text(column, text);
}

bool RowParser::append_text(ColumnBuilder& column, std::string_view text) {
  switch (column.id) {
    case TypeId::timestamp:
    case TypeId::timestamptz:
    case TypeId::timestamp_ns:
    case TypeId::timestamptz_ns:
      return append_timestamp(column, text);
    case TypeId::date:
      if (const auto days = parse_date(text)) {
        column.append(*days);
        return true;
      }
      break;
    case TypeId::time:
      if (const auto micros = parse_time_us(text)) {
        column.append(*micros);
        return true;
      }
      break;
    case TypeId::decimal:
      if (const auto decimal = parse_decimal(text, column.type->precision(), column.type->scale())) {
        column.append(decimal->ToBytes());
        return true;
      }
      break;
    case TypeId::uuid:
      if (const auto bytes = uuid_to_bytes(text)) {
        column.values.push_bytes(*bytes);
        column.mark_valid();
        return true;
      }
      break;
    case TypeId::binary:
    case TypeId::fixed:
      bytes_scratch_.clear();
      if (!append_base64_decoded(text, bytes_scratch_)) return reject_text(column, text, "it is no base64");
      if (column.id == TypeId::binary) {
        column.append_bytes(bytes_scratch_);
        return true;
      }
      if (static_cast<int32_t>(bytes_scratch_.size()) == column.type->length()) {
        column.values.push_bytes(bytes_scratch_);
        column.mark_valid();
        return true;
      }
      return reject_text(column, text, fmt::format("it has {} bytes", bytes_scratch_.size()));
    default:
      break;
  }
  return reject_text(column, text);
}

bool RowParser::append_timestamp(ColumnBuilder& column, std::string_view text) {
  const bool nanos = column.id == TypeId::timestamp_ns || column.id == TypeId::timestamptz_ns;
  const std::optional<ParsedTimestamp> parsed = nanos ? parse_timestamp_ns(text) : parse_timestamp_us(text);
  const bool is_local = column.id == TypeId::timestamp || column.id == TypeId::timestamp_ns;
  if (!parsed) {
    if (nanos || !parse_timestamp_ns(text)) return reject_text(column, text);
    return reject_text(column, text,
                       fmt::format("it has more than 6 digits of a second; declare the column as {}_ns before its "
                                   "first rows come, to keep them",
                                   is_local ? "timestamp" : "timestamptz"));
  }
  if (is_local && parsed->has_offset && text.back() != 'Z' && text.back() != 'z') {
    return reject_text(column, text, "a timestamp without zone takes no offset but Z");
  }
  column.append(parsed->value);
  return true;
}

}  // namespace

ParsedRows parse_rows(std::string_view text, const iceberg::Schema& schema, const RowParserOptions& options) {
  if (static_cast<int64_t>(text.size()) > kTextBytesMax) {
    fail(ErrorKind::invalid_argument, "{} bytes of rows at once; cut them into texts below 2 GiB", text.size());
  }
  return RowParser(schema, options).parse(text, schema);
}

}  // namespace firn::hyp
