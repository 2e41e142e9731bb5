// Frames on a descriptor of their own: a length, and so many bytes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace firn::orca {

bool write_frame(int socket, std::string_view bytes);  // false: the other side is gone
std::optional<std::string> read_frame(int socket);     // nullopt: the other side is gone, or writes nonsense

struct TaskRequest {
  std::string name, arguments;
};
struct TaskReply {
  bool ok = true;
  uint8_t kind = 0;   // of the error
  std::string bytes;  // the result, or the message
};

}  // namespace firn::orca
