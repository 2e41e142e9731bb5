#include "base/counts.h"

namespace firn {

std::string format_count(int64_t count) {
  std::string text = std::to_string(count);
  for (int64_t at = static_cast<int64_t>(text.size()) - 3; at > (count < 0 ? 1 : 0); at -= 3)
    text.insert(static_cast<size_t>(at), 1, ',');
  return text;
}

std::string format_counted(int64_t count, std::string_view noun) {
  return format_counted(count, noun, std::string(noun) + "s");
}

std::string format_counted(int64_t count, std::string_view one, std::string_view many) {
  return format_count(count).append(" ").append(count == 1 ? one : many);
}

}  // namespace firn
