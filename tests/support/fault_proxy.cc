#include "support/fault_proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <list>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "base/error.h"

namespace firn {
namespace {

// A socket's owner; registered, so that the proxy's end can wake who waits on it.
class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() {
    if (fd_ < 0) return;
    ::shutdown(fd_, SHUT_RDWR);  // a forked child may have it too
    ::close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }

  bool send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }
  // Appends what comes; false at the end.
  bool receive(std::string& to) const {
    char bytes[65536];
    ssize_t got = 0;
    do {
      got = ::recv(fd_, bytes, sizeof bytes, 0);
    } while (got < 0 && errno == EINTR);
    if (got <= 0) return false;
    to.append(bytes, static_cast<size_t>(got));
    return true;
  }

 private:
  int fd_;
};

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return result;
}

// One HTTP message as it came.
struct Message {
  std::string first_line, head, body;  // head: with the first line and the empty line
  std::map<std::string, std::string> headers;
};

// Takes one message off `buffer`, reading more as needed; nullopt: the peer is gone. Bodies by Content-Length alone.
std::optional<Message> read_message(const Socket& socket, std::string& buffer) {
  size_t head_end = 0;
  while ((head_end = buffer.find("\r\n\r\n")) == std::string::npos) {
    if (!socket.receive(buffer)) return std::nullopt;
  }
  Message message;
  message.head = buffer.substr(0, head_end + 4);
  buffer.erase(0, head_end + 4);
  size_t begin = message.head.find("\r\n");
  message.first_line = message.head.substr(0, begin);
  for (begin += 2; begin < head_end + 2;) {
    const size_t end = message.head.find("\r\n", begin);
    const std::string line = message.head.substr(begin, end - begin);
    begin = end + 2;
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const size_t value = line.find_first_not_of(' ', colon + 1);
    message.headers[lower(line.substr(0, colon))] = value == std::string::npos ? "" : line.substr(value);
  }
  const auto length = message.headers.find("content-length");
  const size_t size = length == message.headers.end() ? 0 : std::stoull(length->second);
  while (buffer.size() < size) {
    if (!socket.receive(buffer)) return std::nullopt;
  }
  message.body = buffer.substr(0, size);
  buffer.erase(0, size);
  return message;
}

sockaddr_in local_address(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

}  // namespace

struct FaultProxy::State {
  int listener = -1;
  uint16_t port = 0;
  std::atomic<uint16_t> server_port{0};
  std::atomic<bool> is_stopping{false};
  std::atomic<int64_t> num_tunnels{0}, num_connections{0};
  mutable std::mutex mutex;
  std::mutex script_mutex;
  std::function<Fault(const ProxiedRequest&)> script;
  std::vector<ProxiedRequest> requests;
  int64_t next_index = 0;
  std::vector<std::string> late;
  std::set<int> open;  // sockets that somebody may wait on
  struct Connection {
    std::thread thread;
    std::atomic<bool> has_ended{false};
  };
  std::list<Connection> connections;
  std::thread acceptor;

  struct Listed {  // a socket in `open` while it lives
    State& state;
    const int fd;
    Listed(State& s, int socket) : state(s), fd(socket) {
      const std::lock_guard guard(state.mutex);
      state.open.insert(fd);
      if (state.is_stopping) ::shutdown(fd, SHUT_RDWR);
    }
    ~Listed() {
      const std::lock_guard guard(state.mutex);
      state.open.erase(fd);
    }
  };

  int connect_to_server() const {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in address = local_address(server_port);
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return fd;
    ::close(fd);
    return -1;
  }

  // The server's answer as it came; nullopt: it gave none.
  std::optional<std::string> ask_server(const std::string& request) {
    const Socket server(connect_to_server());
    if (server.fd() < 0) return std::nullopt;
    const Listed listed(*this, server.fd());
    if (!server.send(request)) return std::nullopt;
    std::string buffer;
    const auto answer = read_message(server, buffer);
    if (!answer) return std::nullopt;
    return answer->head + answer->body;
  }

  void tunnel(const Socket& client) {
    ++num_tunnels;
    const Socket server(connect_to_server());
    if (server.fd() < 0 || !client.send("HTTP/1.1 200 Connection established\r\n\r\n")) return;
    const Listed listed(*this, server.fd());
    pollfd both[2] = {{client.fd(), POLLIN, 0}, {server.fd(), POLLIN, 0}};
    while (::poll(both, 2, -1) > 0 || errno == EINTR) {
      for (int i = 0; i < 2; ++i) {
        if (both[i].revents == 0) continue;
        std::string bytes;
        if (!(i == 0 ? client : server).receive(bytes) || !(i == 0 ? server : client).send(bytes)) return;
      }
    }
  }

  // False: the connection ends.
  bool handle(const Socket& client, const Message& message) {
    ProxiedRequest request;
    const std::string& line = message.first_line;
    const size_t first = line.find(' '), second = line.rfind(' ');
    request.method = line.substr(0, first);
    request.target = line.substr(first + 1, second - first - 1);
    if (request.method == "CONNECT") {
      tunnel(client);
      return false;
    }
    if (request.target.starts_with("http://")) {
      request.is_absolute = true;
      const size_t path = request.target.find('/', 7);
      request.target = path == std::string::npos ? "/" : request.target.substr(path);
    }
    request.headers = message.headers;
    request.body = message.body;
    const std::string raw =
        request.method + " " + request.target + line.substr(second) + message.head.substr(line.size()) + message.body;
    Fault fault;
    {
      const std::lock_guard scripting(script_mutex);
      {
        const std::lock_guard guard(mutex);
        request.index = next_index++;
        requests.push_back(request);
      }
      if (script) fault = script(request);
    }
    const auto delay_end = std::chrono::steady_clock::now() + std::chrono::milliseconds(fault.delay_ms);
    while (!is_stopping && std::chrono::steady_clock::now() < delay_end)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    switch (fault.kind) {
      case Fault::Kind::none:
      case Fault::Kind::duplicate: {
        const auto answer = ask_server(raw);
        if (fault.kind == Fault::Kind::duplicate) ask_server(raw);
        return answer && client.send(*answer);
      }
      case Fault::Kind::cut_request: {
        const Socket server(connect_to_server());
        if (server.fd() >= 0) server.send(std::string_view(raw).substr(0, raw.size() - (message.body.size() + 1) / 2));
        return false;
      }
      case Fault::Kind::cut_answer: {
        const auto answer = ask_server(raw);
        if (answer) client.send(std::string_view(*answer).substr(0, answer->size() / 2));
        return false;
      }
      case Fault::Kind::lose:
        return false;
      case Fault::Kind::late: {
        const std::lock_guard guard(mutex);
        late.push_back(raw);
        return false;
      }
      case Fault::Kind::answer: {
        std::string answer = fmt::format("HTTP/1.1 {} Told\r\nContent-Length: {}\r\n", fault.status, fault.body.size());
        for (const auto& [name, value] : fault.headers) answer += name + ": " + value + "\r\n";
        return client.send(answer + "\r\n" + fault.body);
      }
    }
    return false;
  }

  // Of the acceptor's thread. Those that ended are let go: long runs fork all the time, with all that they hold.
  void begin_connection(int fd) {
    for (auto it = connections.begin(); it != connections.end();) {
      if (!it->has_ended) {
        ++it;
        continue;
      }
      it->thread.join();
      it = connections.erase(it);
    }
    Connection& connection = connections.emplace_back();
    connection.thread = std::thread([this, fd, &connection] {
      serve(fd);
      connection.has_ended = true;
    });
  }

  void serve(int fd) {
    const Socket client(fd);
    const Listed listed(*this, fd);
    std::string buffer;
    while (const auto message = read_message(client, buffer)) {
      if (!handle(client, *message)) return;
    }
  }
};

FaultProxy::FaultProxy(uint16_t server_port) : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.server_port = server_port;
  s.listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = local_address(0);
  socklen_t size = sizeof address;
  if (s.listener < 0 || ::bind(s.listener, reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      ::listen(s.listener, 64) != 0 || ::getsockname(s.listener, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    fail_errno(errno, "listen");
  }
  s.port = ntohs(address.sin_port);
  s.acceptor = std::thread([&s] {
    for (;;) {
      const int fd = ::accept4(s.listener, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0 && !s.is_stopping && (errno == EINTR || errno == ECONNABORTED)) continue;
      if (fd < 0) return;
      ++s.num_connections;
      s.begin_connection(fd);
    }
  });
}

FaultProxy::~FaultProxy() {
  State& s = *state_;
  s.is_stopping = true;
  ::shutdown(s.listener, SHUT_RDWR);
  s.acceptor.join();
  {
    const std::lock_guard guard(s.mutex);
    for (const int fd : s.open) ::shutdown(fd, SHUT_RDWR);
  }
  for (State::Connection& connection : s.connections) connection.thread.join();
  ::close(s.listener);
}

uint16_t FaultProxy::port() const { return state_->port; }

std::string FaultProxy::url() const { return fmt::format("http://127.0.0.1:{}", state_->port); }

void FaultProxy::set_server_port(uint16_t port) { state_->server_port = port; }

void FaultProxy::set_script(std::function<Fault(const ProxiedRequest&)> script) {
  const std::lock_guard guard(state_->script_mutex);
  state_->script = std::move(script);
}

void FaultProxy::deliver_late() {
  std::vector<std::string> late;
  {
    const std::lock_guard guard(state_->mutex);
    late.swap(state_->late);
  }
  for (const std::string& request : late) state_->ask_server(request);
}

std::vector<ProxiedRequest> FaultProxy::requests() const {
  const std::lock_guard guard(state_->mutex);
  return state_->requests;
}

int64_t FaultProxy::num_tunnels() const { return state_->num_tunnels; }

int64_t FaultProxy::num_connections() const { return state_->num_connections; }

void FaultProxy::forget_requests() {
  const std::lock_guard guard(state_->mutex);
  state_->requests.clear();
}

}  // namespace firn
