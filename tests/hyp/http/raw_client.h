// A client that sends what it is told, byte by byte if need be.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <string_view>

#include "base/error.h"
#include "io/local.h"

namespace firn::hyp {

class RawClient {
 public:
  explicit RawClient(uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      fail_errno(errno, "connect");
  }
  void send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t put = ::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL);
      if (put <= 0) return;  // the server has said what it had to say
      text.remove_prefix(static_cast<size_t>(put));
    }
  }
  // Reads until `end` is seen, or the connection closes, or 5 s pass.
  std::string receive(std::string_view end = {}) {
    std::string text;
    std::array<char, 4096> part;
    while (end.empty() || text.find(end) == std::string::npos) {
      pollfd wait{socket_.get(), POLLIN, 0};
      if (::poll(&wait, 1, 5000) <= 0) return text + "(silence)";
      const ssize_t got = ::recv(socket_.get(), part.data(), part.size(), 0);
      if (got <= 0) break;
      text.append(part.data(), static_cast<size_t>(got));
    }
    return text;
  }
  // The status of the next answer, whose body has a '}'; -1: there is none.
  int status() {
    const std::string text = receive("}");
    return text.starts_with("HTTP/1.1 ") ? std::stoi(text.substr(9, 3)) : -1;
  }
  bool has_answer() const {
    pollfd wait{socket_.get(), POLLIN, 0};
    return ::poll(&wait, 1, 0) > 0;
  }
  void end_sending() { ::shutdown(socket_.get(), SHUT_WR); }
  int get() const { return socket_.get(); }

 private:
  Descriptor socket_;
};

}  // namespace firn::hyp
