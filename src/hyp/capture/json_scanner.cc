#include "hyp/capture/json_scanner.h"

#include <algorithm>
#include <limits>

#include <arrow/util/utf8.h>
#include <fmt/format.h>

namespace firn::hyp {
namespace {

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Four hex digits at raw[at]; -1 if they are not.
int32_t hex4(std::string_view raw, size_t at) {
  if (at + 4 > raw.size()) return -1;
  int32_t value = 0;
  for (size_t i = at; i < at + 4; ++i) {
    const int digit = hex_value(raw[i]);
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

void append_utf8(uint32_t code, std::string& out) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | code >> 6);
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | code >> 12);
    out += static_cast<char>(0x80 | (code >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | code >> 18);
    out += static_cast<char>(0x80 | (code >> 12 & 0x3F));
    out += static_cast<char>(0x80 | (code >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  }
}

bool unescape_into(std::string_view raw, std::string& out) {
  for (size_t i = 0; i < raw.size();) {
    const size_t escape = std::min(raw.find('\\', i), raw.size());
    out.append(raw, i, escape - i);
    i = escape;
    if (i == raw.size()) break;
    if (i + 1 == raw.size()) return false;
    switch (raw[i + 1]) {
      case '"':
        out += '"';
        break;
      case '\\':
        out += '\\';
        break;
      case '/':
        out += '/';
        break;
      case 'b':
        out += '\b';
        break;
      case 'f':
        out += '\f';
        break;
      case 'n':
        out += '\n';
        break;
      case 'r':
        out += '\r';
        break;
      case 't':
        out += '\t';
        break;
      case 'u': {
        const int32_t unit = hex4(raw, i + 2);
        if (unit < 0 || (unit >= 0xDC00 && unit <= 0xDFFF)) return false;
        auto code = static_cast<uint32_t>(unit);
        i += 4;
        if (unit >= 0xD800 && unit <= 0xDBFF) {
          const int32_t low = raw.substr(i + 2).starts_with("\\u") ? hex4(raw, i + 4) : -1;
          if (low < 0xDC00 || low > 0xDFFF) return false;
          code = 0x10000 + ((code - 0xD800) << 10) + (static_cast<uint32_t>(low) - 0xDC00);
          i += 6;
        }
        append_utf8(code, out);
        break;
      }
      default:
        return false;
    }
    i += 2;
  }
  return true;
}

// Exactly representable, so that one multiplication or division rounds once and correctly (Clinger's fast path).
constexpr double kPowersOfTen[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                   1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
constexpr uint64_t kExactIntegerMax = uint64_t{1} << 53;

}  // namespace

bool unescape_json(std::string_view raw, std::string& out) {
  const size_t size = out.size();
  if (unescape_into(raw, out)) return true;
  out.resize(size);
  return false;
}

bool JsonNumber::to_int64_exactly(int64_t& value) const {
  if (num_digits > 19) return false;
  uint64_t magnitude = digits;
  if (magnitude != 0) {
    for (int32_t e = exponent10; e < 0; ++e) {
      if (magnitude % 10 != 0) return false;
      magnitude /= 10;
    }
    for (int32_t e = exponent10; e > 0; --e) {
      if (magnitude > std::numeric_limits<uint64_t>::max() / 10) return false;
      magnitude *= 10;
    }
  }
  const uint64_t limit = static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) + (is_negative ? 1 : 0);
  if (magnitude > limit) return false;
  value = static_cast<int64_t>(is_negative ? 0 - magnitude : magnitude);
  return true;
}

bool JsonNumber::to_double(double& value) const {
  if (num_digits <= 19 && digits <= kExactIntegerMax && exponent10 >= -22 && exponent10 <= 22) {
    const auto magnitude = static_cast<double>(digits);
    const double scaled = exponent10 < 0 ? magnitude / kPowersOfTen[-exponent10] : magnitude * kPowersOfTen[exponent10];
    value = is_negative ? -scaled : scaled;
    return true;
  }
  if (std::from_chars(begin, end, value).ec == std::errc()) return true;
  // Out of range both ways: what is too small to be told from zero is zero.
  if (static_cast<int64_t>(num_digits) + exponent10 > 0) return false;
  value = is_negative ? -0.0 : 0.0;
  return true;
}

bool JsonScanner::take_fraction(JsonNumber& number) {
  number.is_integer = false;
  int64_t exponent = 0;
  if (take('.')) {
    const char* first = p_;
    for (; *p_ >= '0' && *p_ <= '9'; ++p_) {
      number.digits = number.digits * 10 + static_cast<uint64_t>(*p_ - '0');
      if (number.num_digits > 0 || *p_ != '0') ++number.num_digits;
    }
    if (p_ == first) return fail("a number without digits after the point");
    exponent = first - p_;
  }
  if (*p_ == 'e' || *p_ == 'E') {
    ++p_;
    const bool is_negative = *p_ == '-';
    if (*p_ == '-' || *p_ == '+') ++p_;
    const char* first = p_;
    int64_t value = 0;
    for (; *p_ >= '0' && *p_ <= '9'; ++p_) value = std::min<int64_t>(value * 10 + (*p_ - '0'), 100'000'000);
    if (p_ == first) return fail("a number without digits in its exponent");
    exponent += is_negative ? -value : value;
  }
  number.exponent10 = static_cast<int32_t>(std::clamp<int64_t>(exponent, -200'000'000, 200'000'000));
  number.end = p_;
  return true;
}

bool JsonScanner::fail(const char* what) {
  if (error_.empty()) error_ = fmt::format("malformed JSON at byte {}: {}", p_ - line_ + 1, what);
  return false;
}

bool JsonScanner::fail_duplicate(std::string_view name) {
  if (error_.empty()) error_ = fmt::format("the key \"{}\" occurs twice", name);
  return false;
}

bool JsonScanner::skip_value(int depth, bool& decides) {
  switch (*p_) {
    case '"': {
      JsonString string;
      if (!take_string(string)) return false;
      decides = true;
      if (!string.has_escapes) return true;
      std::string text;
      return unescape_json(string.raw, text) || fail("a bad escape or a lone surrogate in a string");
    }
    case '{':
      return skip_object(depth, decides);
    case '[': {
      if (depth >= kJsonDepthMax) return fail("nested too deeply");
      ++p_;
      skip_space();
      if (take(']')) return true;
      for (;;) {
        if (!skip_value(depth + kJsonDepthOfArray, decides)) return false;
        skip_space();
        if (take(']')) return true;
        if (!take(',')) return fail("expected ',' or ']'");
        skip_space();
      }
    }
    case 't':
      decides = true;
      return take_true() || fail("expected a value");
    case 'f':
      decides = true;
      return take_false() || fail("expected a value");
    case 'n':
      return take_null() || fail("expected a value");
    default: {
      if (*p_ != '-' && (*p_ < '0' || *p_ > '9'))
        return fail(at_end() ? "the line ends too early" : "expected a value");
      decides = true;
      JsonNumber number;
      return take_number(number);
    }
  }
}

bool JsonScanner::skip_object(int depth, bool& decides) {
  if (depth >= kJsonDepthMax) return fail("nested too deeply");
  ++p_;
  skip_space();
  if (take('}')) return true;
  std::vector<std::string> keys;
  for (;;) {
    if (*p_ != '"') return fail("expected a key");
    JsonString key;
    std::string scratch;
    std::string_view text;
    if (!take_string(key) || !key_text(key, scratch, text)) return false;
    keys.emplace_back(text);
    skip_space();
    if (!take(':')) return fail("expected ':'");
    skip_space();
    if (!skip_value(depth + 1, decides)) return false;
    skip_space();
    if (take('}')) break;
    if (!take(',')) return fail("expected ',' or '}'");
    skip_space();
  }
  std::sort(keys.begin(), keys.end());
  const auto twice = std::adjacent_find(keys.begin(), keys.end());
  return twice == keys.end() || fail_duplicate(*twice);
}

bool LineReader::next() {
  while (offset_ < text_.size()) {
    line_offset_ = static_cast<int64_t>(offset_);
    ++index_;
    const char* begin = text_.data() + offset_;
    const auto* newline = static_cast<const char*>(std::memchr(begin, '\n', text_.size() - offset_));
    if (newline != nullptr) {
      line_ = {begin, static_cast<size_t>(newline - begin)};
      readable_end_ = text_.data() + text_.size();
      offset_ += line_.size() + 1;
    } else {
      last_line_.assign(begin, text_.size() - offset_);
      offset_ = text_.size();
      last_line_ += '\n';
      line_ = std::string_view(last_line_).substr(0, last_line_.size() - 1);
      readable_end_ = last_line_.data() + last_line_.size();
    }
    const bool is_blank = line_.find_first_not_of(" \t\r") == std::string_view::npos;
    if (!is_blank) return true;
  }
  return false;
}

bool is_complete_json(std::string_view line) {
  LineReader reader(line);
  if (!reader.next() || !is_valid_utf8(reader.line())) return false;
  JsonScanner scanner;
  scanner.start(reader.line().data(), reader.line().data() + reader.line().size(), reader.readable_end());
  scanner.skip_space();
  bool decides = false;
  if (!scanner.skip_value(0, decides)) return false;
  scanner.skip_space();
  return scanner.at_end();
}

int64_t count_newlines(std::string_view text) {
  int64_t count = 0;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    at = static_cast<const char*>(std::memchr(at, '\n', static_cast<size_t>(end - at)));
    if (at == nullptr) break;
    ++at;
    ++count;
  }
  return count;
}

bool is_valid_utf8(std::string_view text) {
  static const bool ready = (arrow::util::InitializeUTF8(), true);
  return ready && arrow::util::ValidateUTF8(text);
}

}  // namespace firn::hyp
