#include "base/uri.h"

#include <optional>

#include "base/error.h"

namespace firn {
namespace {

constexpr char kHexDigits[] = "0123456789ABCDEF";

bool is_alphanumeric(char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

void append_escaped(std::string& text, char c) {
  text += '%';
  text += kHexDigits[static_cast<uint8_t>(c) >> 4];
  text += kHexDigits[static_cast<uint8_t>(c) & 0x0f];
}

int upper_hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// The path of a "file:" URI without a host.
std::optional<std::string_view> file_uri_path(std::string_view uri) {
  if (!uri.starts_with("file:/")) return std::nullopt;
  uri.remove_prefix(5);
  if (!uri.starts_with("//")) return uri;
  uri.remove_prefix(2);
  return uri.starts_with('/') ? std::optional(uri) : std::nullopt;
}

bool has_scheme(std::string_view uri) {
  const size_t end = uri.find("://");
  if (end == std::string_view::npos || end == 0) return false;
  for (const char c : uri.substr(0, end)) {
    if (!is_alphanumeric(c) && c != '+' && c != '-' && c != '.') return false;
  }
  return true;
}

}  // namespace

std::string local_path(std::string_view uri) { return std::string(file_uri_path(uri).value_or(uri)); }

bool is_local(std::string_view uri) { return file_uri_path(uri).has_value() || !has_scheme(uri); }

std::string join_path(std::string_view folder, std::string_view name) {
  while (folder.ends_with('/')) folder.remove_suffix(1);
  while (name.starts_with('/')) name.remove_prefix(1);
  return fmt::format("{}/{}", folder, name);
}

std::string encode_segment(std::string_view name) {
  if (name.empty()) return "%";
  std::string text;
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    const bool stays = is_alphanumeric(c) || c == '_' || c == '-' || (c == '.' && i > 0);
    stays ? text.push_back(c) : append_escaped(text, c);
  }
  return text;
}

std::string decode_segment(std::string_view segment) {
  std::string name;
  if (segment == "%") return name;
  for (size_t i = 0; i < segment.size(); ++i) {
    if (segment[i] != '%') {
      name += segment[i];
      continue;
    }
    const int high = i + 2 < segment.size() ? upper_hex_value(segment[i + 1]) : -1;
    const int low = i + 2 < segment.size() ? upper_hex_value(segment[i + 2]) : -1;
    if (high < 0 || low < 0) {
      fail(ErrorKind::corrupt, "\"{}\": '%' at byte {} is not followed by two upper-case hex digits", segment, i);
    }
    name += static_cast<char>(high << 4 | low);
    i += 2;
  }
  // One text a name: a second spelling would let two folders stand for one name.
  if (encode_segment(name) != segment) {
    fail(ErrorKind::corrupt, "\"{}\" is not an encoded name: \"{}\" is its spelling", segment, encode_segment(name));
  }
  return name;
}

std::string form_encode(std::string_view text) {
  std::string encoded;
  for (const char c : text) {
    if (is_alphanumeric(c) || c == '.' || c == '*' || c == '_' || c == '-') {
      encoded += c;
    } else if (c == ' ') {
      encoded += '+';
    } else {
      append_escaped(encoded, c);
    }
  }
  return encoded;
}

}  // namespace firn
