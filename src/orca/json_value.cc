#include "orca/json_value.h"

namespace firn::orca::internal {

std::string bytes_from_hex(const std::string& hex, const std::string& where) {
  const auto digit = [&](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    fail(ErrorKind::corrupt, "{}: '{}' is no hexadecimal digit", where, c);
  };
  if (hex.size() % 2 != 0) fail(ErrorKind::corrupt, "{}: an odd number of hexadecimal digits", where);
  std::string bytes;
  bytes.reserve(hex.size() / 2);
  for (size_t i = 0; i < hex.size(); i += 2) bytes.push_back(static_cast<char>(digit(hex[i]) * 16 + digit(hex[i + 1])));
  return bytes;
}

bool is_utf8(std::string_view text) {
  try {
    Json(std::string(text)).dump();
    return true;
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

void check_utf8(std::string_view text) {
  if (is_utf8(text)) return;
  fail(ErrorKind::invalid_argument,
       "a string is not UTF-8 (it begins with the bytes {}); encode it, as hexadecimal or base64",
       to_hex(text.substr(0, 16)));
}

}  // namespace firn::orca::internal
