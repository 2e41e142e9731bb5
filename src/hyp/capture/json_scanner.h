// Strict JSON (RFC 8259) scanned in place, one NDJSON line at a time, without an allocation a value.
//
// Rows are read with this scanner and not through simdjson, whose trees keep neither the digits of a number (decimal
// columns need them) nor integers beyond 64 bits. Besides, Arrow's Parquet library exports symbols of another version
// of simdjson: a program that links both mixes them and crashes (seen with Debian's 3.0.1 and Arrow 26).
#pragma once

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <bit>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace firn::hyp {

// Deeper values are malformed to us, so that code which recurses over rows cannot run out of stack.
inline constexpr int kJsonDepthMax = 64;
// An array's, and a map's. Parquet spells a list as two groups, and its readers, Arrow's among them, take no schema
// that is deeper than 100: a table with such a column could be written and never be read.
inline constexpr int kJsonDepthOfArray = 2;

struct JsonNumber {
  const char* begin = nullptr;
  const char* end = nullptr;
  uint64_t digits = 0;     // of mantissa; exact only if num_digits <= 19
  int num_digits = 0;      // without leading zeros
  int32_t exponent10 = 0;  // value = digits * 10^exponent10
  bool is_negative = false;
  bool is_integer = true;  // neither fraction nor exponent in the text

  std::string_view text() const { return {begin, static_cast<size_t>(end - begin)}; }
  // False: no integer (1.0 and 1e3 are ones), or beyond int64.
  bool to_int64(int64_t& value) const {
    if (!is_integer || num_digits > 18) return to_int64_exactly(value);
    value = is_negative ? -static_cast<int64_t>(digits) : static_cast<int64_t>(digits);
    return true;
  }
  bool to_double(double& value) const;  // nearest; false: beyond double

 private:
  bool to_int64_exactly(int64_t& value) const;
};

// The bytes between a string's quotes. Bytes below 0x20 are refused by the scan; escapes are checked by unescape_json.
struct JsonString {
  std::string_view raw;
  bool has_escapes = false;
};

// Appends `raw` with its escapes resolved. False: an unknown escape or a lone surrogate; then `out` is as it was.
bool unescape_json(std::string_view raw, std::string& out);

// A cursor in one line. The byte after the line must be readable and '\n', which no token accepts and so ends every
// scan; `readable_end` bounds what may be read by words. One thread.
class JsonScanner {
 public:
  void start(const char* line, const char* line_end, const char* readable_end) {
    line_ = p_ = line;
    line_end_ = line_end;
    readable_end_ = readable_end;
    error_.clear();
  }

  char peek() const { return *p_; }
  const char* position() const { return p_; }
  const char* line_end() const { return line_end_; }
  void advance(size_t count) { p_ += count; }
  bool at_end() const { return p_ == line_end_; }
  void skip_space() {
    while (*p_ == ' ' || *p_ == '\t' || *p_ == '\r') ++p_;
  }
  bool take(char c) {
    if (*p_ != c) return false;
    ++p_;
    return true;
  }
  // Takes `text` if it is next.
  bool take_text(std::string_view text) {
    if (static_cast<size_t>(readable_end_ - p_) < text.size() || !is_next(text)) return false;
    p_ += text.size();
    return true;
  }
  bool take_null() { return *p_ == 'n' && take_word("null"); }
  bool take_true() { return *p_ == 't' && take_word("true"); }
  bool take_false() { return *p_ == 'f' && take_word("false"); }

  // At '"'. False: malformed, and error() says how.
  bool take_string(JsonString& string) {
    const char* begin = ++p_;
    string.has_escapes = false;
    for (;;) {
      p_ = find_string_stop(p_);
      if (*p_ == '"') {
        string.raw = {begin, static_cast<size_t>(p_ - begin)};
        ++p_;
        return true;
      }
      if (*p_ != '\\') return fail(at_end() ? "the string does not end" : "a control character in a string");
      string.has_escapes = true;
      if (p_[1] == '\n') return fail("the string does not end");
      p_ += 2;
    }
  }

  // At '-' or a digit.
  bool take_number(JsonNumber& number) {
    number.begin = p_;
    number.is_negative = take('-');
    number.is_integer = true;
    number.exponent10 = 0;
    const char* first = p_;
    uint64_t digits = take_few_digits();
    while (*p_ >= '0' && *p_ <= '9') digits = digits * 10 + static_cast<uint64_t>(*p_++ - '0');
    const auto count = static_cast<int>(p_ - first);
    if (count == 0) return fail("a number without digits");
    if (*first == '0' && count > 1) return fail("a number with a leading zero");
    number.digits = digits;
    number.num_digits = *first == '0' ? 0 : count;
    if (*p_ == '.' || *p_ == 'e' || *p_ == 'E') return take_fraction(number);
    number.end = p_;
    return true;
  }

  // Past any value, checking all of it: keys repeated in an object at any depth too. `decides`: it holds something that
  // is not null, [] or {}.
  bool skip_value(int depth, bool& decides);

  bool fail(const char* what);  // false, for `return fail(…)`
  bool fail_duplicate(std::string_view name);
  const std::string& error() const { return error_; }

  // The key as text; `scratch` holds it where it has escapes. False: bad escapes.
  bool key_text(const JsonString& key, std::string& scratch, std::string_view& text) {
    text = key.raw;
    if (!key.has_escapes) return true;
    scratch.clear();
    if (!unescape_json(key.raw, scratch)) return fail("a bad escape or a lone surrogate in a key");
    text = scratch;
    return true;
  }

 private:
  bool take_word(std::string_view word) {
    for (size_t i = 0; i < word.size(); ++i) {
      if (p_[i] != word[i]) return false;  // stops at the line's '\n' at the latest
    }
    p_ += word.size();
    return true;
  }

  // By words, since `text` is mostly as short as a key, and a call to compare that costs more. Requires its size to be
  // readable.
  bool is_next(std::string_view text) const {
    const auto differ = [&](size_t at, auto a) {
      auto b = a;
      std::memcpy(&a, p_ + at, sizeof a);
      std::memcpy(&b, text.data() + at, sizeof b);
      return a != b;
    };
    const size_t size = text.size();
    if (size < sizeof(uint32_t)) return std::memcmp(p_, text.data(), size) == 0;
    if (size < sizeof(uint64_t)) return !differ(0, uint32_t{}) && !differ(size - sizeof(uint32_t), uint32_t{});
    for (size_t at = 0; at + sizeof(uint64_t) < size; at += sizeof(uint64_t)) {
      if (differ(at, uint64_t{})) return false;
    }
    return !differ(size - sizeof(uint64_t), uint64_t{});
  }

  // Up to seven digits with what follows them, as a number, without a branch a digit; 0 where there are none or more.
  uint64_t take_few_digits() {
    constexpr uint64_t kOnes = 0x0101010101010101;
    if (readable_end_ - p_ < 8) return 0;
    uint64_t word;
    std::memcpy(&word, p_, 8);
    word ^= kOnes * '0';
    // A carry reaches only bytes above one that is no digit, so the lowest flagged byte is exact.
    const uint64_t stops = ((word + kOnes * (0x80 - 10)) | word) & (kOnes * 0x80);
    const int bits = stops == 0 ? 0 : std::countr_zero(stops) & ~7;
    if (bits == 0) return 0;
    word <<= 64 - bits;  // zeros before the digits
    // Pairs of digits, then of those, then of those.
    word = (word * (1 + (10 << 8))) >> 8 & 0x00FF00FF00FF00FF;
    word = (word * (1 + (100 << 16))) >> 16 & 0x0000FFFF0000FFFF;
    word = (word * (1 + (uint64_t{10000} << 32))) >> 32;
    p_ += bits >> 3;
    return word;
  }

  bool take_fraction(JsonNumber& number);

  // The first '"', '\\' or byte below 0x20 at or after `p`, found sixteen bytes at a time where the processor can, then
  // eight: in a word minus 0x01…01 a borrow reaches only bytes above a true hit, so the lowest flagged byte is exact.
  const char* find_string_stop(const char* p) const {
    static_assert(std::endian::native == std::endian::little);
#if defined(__SSE2__)
    const __m128i quotes = _mm_set1_epi8('"'), escapes = _mm_set1_epi8('\\'), controls = _mm_set1_epi8(0x1f);
    for (; readable_end_ - p >= 16; p += 16) {
      const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
      const __m128i hits = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(bytes, quotes), _mm_cmpeq_epi8(bytes, escapes)),
                                        _mm_cmpeq_epi8(_mm_min_epu8(bytes, controls), bytes));
      const auto mask = static_cast<unsigned>(_mm_movemask_epi8(hits));
      if (mask != 0) return p + std::countr_zero(mask);
    }
#endif
    constexpr uint64_t kOnes = 0x0101010101010101;
    for (; readable_end_ - p >= 8; p += 8) {
      uint64_t word;
      std::memcpy(&word, p, 8);
      const uint64_t quote = word ^ (kOnes * '"');
      const uint64_t escape = word ^ (kOnes * '\\');
      const uint64_t hit =
          (((quote - kOnes) & ~quote) | ((escape - kOnes) & ~escape) | ((word - kOnes * 0x20) & ~word)) &
          (kOnes * 0x80);
      if (hit != 0) return p + (std::countr_zero(hit) >> 3);
    }
    while (*p != '"' && *p != '\\' && static_cast<unsigned char>(*p) >= 0x20) ++p;
    return p;
  }

  bool skip_object(int depth, bool& decides);

  const char* line_ = nullptr;
  const char* line_end_ = nullptr;
  const char* readable_end_ = nullptr;
  const char* p_ = nullptr;
  std::string error_;
};

// A line without its newline, as a view that JsonScanner can read: the text's last line may lack the '\n' and is
// copied.
class LineReader {
 public:
  explicit LineReader(std::string_view text) : text_(text) {
    if (text_.starts_with("\xEF\xBB\xBF")) offset_ = 3;  // a byte order mark, as Windows programs write it
  }

  // False at the end. Blank lines are counted, and skipped.
  bool next();
  int64_t offset() const { return line_offset_; }  // of the line in the text
  int64_t index() const { return index_; }         // blank lines counted
  std::string_view line() const { return line_; }
  const char* readable_end() const { return readable_end_; }

 private:
  std::string_view text_;
  size_t offset_ = 0;
  int64_t line_offset_ = 0;
  int64_t index_ = -1;
  std::string_view line_;
  const char* readable_end_ = nullptr;
  std::string last_line_;
};

// Whether `line` is one complete JSON value, blank space around it aside.
bool is_complete_json(std::string_view line);

bool is_valid_utf8(std::string_view text);

int64_t count_newlines(std::string_view text);

}  // namespace firn::hyp
