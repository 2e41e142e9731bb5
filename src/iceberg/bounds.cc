#include "iceberg/bounds.h"

#include "iceberg/type.h"

namespace firn::iceberg {
namespace {

// Length in bytes of the sequence that `lead` begins, in well-formed UTF-8.
size_t sequence_length(char lead) {
  const auto byte = static_cast<uint8_t>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

uint32_t decode(std::string_view sequence) {
  const auto lead = static_cast<uint8_t>(sequence[0]);
  uint32_t code_point = sequence.size() == 1 ? lead : lead & (0x7F >> sequence.size());
  for (size_t i = 1; i < sequence.size(); ++i)
    code_point = code_point << 6 | (static_cast<uint8_t>(sequence[i]) & 0x3F);
  return code_point;
}

void encode(uint32_t code_point, std::string& out) {
  if (code_point < 0x80) {
    out.push_back(static_cast<char>(code_point));
    return;
  }
  const int continuation = code_point < 0x800 ? 1 : code_point < 0x10000 ? 2 : 3;
  const uint32_t mark = continuation == 1 ? 0xC0 : continuation == 2 ? 0xE0 : 0xF0;
  out.push_back(static_cast<char>(mark | code_point >> (6 * continuation)));
  for (int i = continuation - 1; i >= 0; --i) out.push_back(static_cast<char>(0x80 | (code_point >> (6 * i) & 0x3F)));
}

bool is_text(const Type& type) { return type.id() == TypeId::string; }
bool is_bytes(const Type& type) { return type.id() == TypeId::binary || type.id() == TypeId::fixed; }

std::string_view cut(const std::string& text, const Type& type, int32_t width) {
  return is_text(type) ? code_point_prefix(text, width) : std::string_view(text).substr(0, width);
}

}  // namespace

bool is_utf8(std::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    const auto lead = static_cast<uint8_t>(text[i]);
    if (lead < 0x80) {
      ++i;
      continue;
    }
    if (lead < 0xC2 || lead > 0xF4) return false;
    const size_t length = sequence_length(text[i]);
    if (text.size() - i < length) return false;
    for (size_t k = 1; k < length; ++k)
      if ((static_cast<uint8_t>(text[i + k]) & 0xC0) != 0x80) return false;
    const uint32_t code_point = decode(text.substr(i, length));
    if (length == 3 && (code_point < 0x800 || (code_point >= 0xD800 && code_point <= 0xDFFF))) return false;
    if (length == 4 && (code_point < 0x10000 || code_point > 0x10FFFF)) return false;
    i += length;
  }
  return true;
}

std::string_view code_point_prefix(std::string_view text, size_t width) {
  size_t end = 0;
  for (size_t n = 0; n < width && end < text.size(); ++n) end += sequence_length(text[end]);
  return text.substr(0, end);
}

size_t count_code_points(std::string_view text) {
  size_t count = 0;
  for (size_t i = 0; i < text.size(); i += sequence_length(text[i])) ++count;
  return count;
}

std::optional<std::string> next_utf8(std::string_view prefix) {
  while (!prefix.empty()) {
    size_t start = prefix.size() - 1;
    while (start > 0 && (static_cast<uint8_t>(prefix[start]) & 0xC0) == 0x80) --start;
    const uint32_t last = decode(prefix.substr(start));
    prefix = prefix.substr(0, start);
    if (last == 0x10FFFF) continue;
    std::string next(prefix);
    encode(last == 0xD7FF ? 0xE000 : last + 1, next);
    return next;
  }
  return std::nullopt;
}

std::optional<std::string> next_bytes(std::string_view prefix) {
  while (!prefix.empty() && prefix.back() == '\xFF') prefix.remove_suffix(1);
  if (prefix.empty()) return std::nullopt;
  std::string next(prefix);
  next.back() = static_cast<char>(static_cast<uint8_t>(next.back()) + 1);
  return next;
}

std::optional<Value> truncate_lower(const Value& value, const Type& type, int32_t width) {
  if (!is_text(type) && !is_bytes(type)) return value;
  const auto& text = std::get<std::string>(value);
  if (is_text(type) && !is_utf8(text)) return std::nullopt;
  return std::string(cut(text, type, width));
}

std::optional<Value> truncate_upper(const Value& value, const Type& type, int32_t width) {
  if (!is_text(type) && !is_bytes(type)) return value;
  const auto& text = std::get<std::string>(value);
  if (is_text(type) && !is_utf8(text)) return std::nullopt;
  const std::string_view prefix = cut(text, type, width);
  if (prefix.size() == text.size()) return value;
  auto next = is_text(type) ? next_utf8(prefix) : next_bytes(prefix);
  if (!next) return std::nullopt;
  return Value(std::move(*next));
}

}  // namespace firn::iceberg
