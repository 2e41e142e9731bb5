#include "base/one_line.h"

#include <arrow/util/utf8.h>
#include <fmt/format.h>

namespace firn {
namespace {

// The bytes of the character that `text` begins with; 0: they are no UTF-8.
size_t character_bytes(std::string_view text) {
  static const bool ready = (arrow::util::InitializeUTF8(), true);
  const auto lead = static_cast<unsigned char>(text[0]);
  const size_t count = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  return ready && count <= text.size() && arrow::util::ValidateUTF8(text.substr(0, count)) ? count : 0;
}

}  // namespace

std::string on_one_line(std::string_view text) {
  std::string line;
  for (size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const size_t count = character_bytes(text.substr(i));
    if (byte == '\n' || byte == '\r' || byte == '\t') {
      line += byte == '\n' ? "\\n" : byte == '\r' ? "\\r" : "\\t";
    } else if (byte < 0x20 || byte == 0x7f || count == 0) {
      line += fmt::format("\\x{:02x}", byte);
    } else if (count == 2 && byte == 0xc2 && static_cast<unsigned char>(text[i + 1]) < 0xa0) {
      line += fmt::format("\\u{:04x}", static_cast<unsigned char>(text[i + 1]));  // to U+009F: some terminals obey them
    } else {
      line += text.substr(i, count);
    }
    i += count == 0 ? 1 : count;
  }
  return line;
}

}  // namespace firn
