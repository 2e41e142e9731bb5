#include "orca/tasks/frames.h"

#include <cerrno>
#include <cstdint>
#include <cstring>

#include <sys/socket.h>
#include <unistd.h>

namespace firn::orca {
namespace {

constexpr uint64_t kFrameMax = uint64_t{1} << 36;

bool send_all(int socket, const char* bytes, size_t count) {
  while (count > 0) {
    const ssize_t sent = send(socket, bytes, count, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes += sent;
    count -= static_cast<size_t>(sent);
  }
  return true;
}

bool receive_all(int socket, char* bytes, size_t count) {
  while (count > 0) {
    const ssize_t received = recv(socket, bytes, count, 0);
    if (received < 0 && errno == EINTR) continue;
    if (received <= 0) return false;
    bytes += received;
    count -= static_cast<size_t>(received);
  }
  return true;
}

}  // namespace

bool write_frame(int socket, std::string_view bytes) {
  const uint64_t length = bytes.size();
  char head[sizeof(length)];
  std::memcpy(head, &length, sizeof(length));
  return send_all(socket, head, sizeof(head)) && send_all(socket, bytes.data(), bytes.size());
}

std::optional<std::string> read_frame(int socket) {
  uint64_t length = 0;
  char head[sizeof(length)];
  if (!receive_all(socket, head, sizeof(head))) return std::nullopt;
  std::memcpy(&length, head, sizeof(length));
  if (length > kFrameMax) return std::nullopt;
  std::string bytes(length, '\0');
  if (!receive_all(socket, bytes.data(), bytes.size())) return std::nullopt;
  return bytes;
}

}  // namespace firn::orca
