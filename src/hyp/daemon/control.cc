#include "hyp/daemon/control.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <list>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/threads.h"
#include "base/uri.h"

namespace firn::hyp {
namespace {

constexpr const char* kSocketName = "_hyp_daemon.sock";
constexpr uint32_t kMessageBytesMax = 1 << 20;

// A socket's address is at most 107 bytes long, a cache root may be longer: the folder is opened, and named through
// /proc.
struct SocketAddress {
  Descriptor folder;
  sockaddr_un address{};
  explicit SocketAddress(const std::string& cache_root)
      : folder(::open(cache_root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {
    if (!folder) fail_errno(errno, "open " + cache_root);
    address.sun_family = AF_UNIX;
    const std::string path = fmt::format("/proc/self/fd/{}/{}", folder.get(), kSocketName);
    path.copy(address.sun_path, sizeof address.sun_path - 1);
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

Descriptor unix_socket() {
  Descriptor fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) fail_errno(errno, "make a Unix socket");
  return fd;
}

bool read_fully(int fd, void* into, size_t size) {
  auto* at = static_cast<char*>(into);
  while (size > 0) {
    const ssize_t got = ::read(fd, at, size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

bool write_fully(int fd, const void* from, size_t size) {
  const auto* at = static_cast<const char*>(from);
  while (size > 0) {
    const ssize_t put = ::send(fd, at, size, MSG_NOSIGNAL);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    at += put;
    size -= static_cast<size_t>(put);
  }
  return true;
}

// The message's length travels with the three descriptors.
bool send_head(int fd, uint32_t length) {
  iovec part{&length, sizeof length};
  alignas(cmsghdr) char control[CMSG_SPACE(3 * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(3 * sizeof(int));
  const int descriptors[3] = {0, 1, 2};
  std::memcpy(CMSG_DATA(header), descriptors, sizeof descriptors);
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(fd, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(sizeof length);
}

bool receive_head(int fd, uint32_t& length, RemoteCommand& command) {
  iovec part{&length, sizeof length};
  alignas(cmsghdr) char control[CMSG_SPACE(3 * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t got = 0;
  do {
    got = ::recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  int descriptors[3] = {-1, -1, -1};
  const cmsghdr* header = got > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (header != nullptr && header->cmsg_type == SCM_RIGHTS && header->cmsg_len == CMSG_LEN(3 * sizeof(int))) {
    std::memcpy(descriptors, CMSG_DATA(header), sizeof descriptors);
  }
  command.in = Descriptor(descriptors[0]);
  command.out = Descriptor(descriptors[1]);
  command.err = Descriptor(descriptors[2]);
  return got == static_cast<ssize_t>(sizeof length) && command.in && command.out && command.err;
}

// Until there is something to read. Once `cancelled` is set, closes our half: the daemon's sign to end the command.
bool wait_for_answer(int fd, const std::atomic<bool>& cancelled) {
  bool told = false;
  for (;;) {
    if (cancelled && !std::exchange(told, true)) ::shutdown(fd, SHUT_WR);
    pollfd wait{fd, POLLIN, 0};
    const int ready = ::poll(&wait, 1, 100);
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

}  // namespace

std::optional<int> run_in_daemon(const Config& config, const std::vector<std::string>& words,
                                 const std::atomic<bool>& cancelled) {
  const std::string& cache_root = config.cache_root;
  const SocketAddress address(cache_root);
  const Descriptor fd = unix_socket();
  if (::connect(fd.get(), address.get(), sizeof address.address) != 0) {
    if (errno == ENOENT || errno == ECONNREFUSED) return std::nullopt;
    fail_errno(errno, "connect to " + join_path(cache_root, kSocketName));
  }
  const std::string message = Json{{"words", words},
                                   {"workingDirectory", std::filesystem::current_path().string()},
                                   {"configuration", {{"path", config.path}, {"digest", config.digest}}}}
                                  .dump();
  int32_t status = 0;
  if (!send_head(fd.get(), static_cast<uint32_t>(message.size())) ||
      !write_fully(fd.get(), message.data(), message.size()) || !wait_for_answer(fd.get(), cancelled) ||
      !read_fully(fd.get(), &status, sizeof status)) {
    fail(ErrorKind::io,
         "the hyp daemon of {} ended while it ran this command: run it again, what was taken is not taken twice",
         cache_root);
  }
  return status;
}

bool daemon_listens(const std::string& cache_root) {
  const SocketAddress address(cache_root);
  return ::connect(unix_socket().get(), address.get(), sizeof address.address) == 0;
}

struct ControlServer::State {
  Handler handler;
  std::string socket_path;
  Descriptor listener, stop_read, stop_write;
  std::jthread acceptor;
  struct Session {
    Descriptor fd;
    RemoteCommand command;
    std::jthread thread;
    std::atomic<bool> done{false};
  };
  std::list<Session> sessions;  // of the acceptor's thread, until that is joined
  std::atomic<bool> stopping{false};

  void accept_all() {
    while (!stopping) {
      pollfd waits[2] = {{listener.get(), POLLIN, 0}, {stop_read.get(), POLLIN, 0}};
      if (::poll(waits, 2, 250) < 0 && errno != EINTR) break;
      for (auto it = sessions.begin(); it != sessions.end();) {
        if (!it->done) {
          ++it;
          continue;
        }
        it->thread.join();
        it = sessions.erase(it);
      }
      if (stopping || (waits[0].revents & POLLIN) == 0) continue;
      Descriptor fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!fd) continue;
      Session& session = sessions.emplace_back();
      session.fd = std::move(fd);
      try {
        session.thread = begin_thread([this, &session] {
          serve(session);
          session.done = true;
        });
      } catch (const Error& e) {  // its sender is told that the connection ended
        spdlog::error("a command of another process: {}", e.what());
        sessions.pop_back();
      }
    }
    for (Session& session : sessions) session.command.cancelled = true;
    for (Session& session : sessions) session.thread.join();
  }

  void serve(Session& session) {
    uint32_t length = 0;
    if (!receive_head(session.fd.get(), length, session.command) || length > kMessageBytesMax) return;
    std::string message(length, '\0');
    if (!read_fully(session.fd.get(), message.data(), length)) return;
    // The caller sends nothing more: what can be read now is that it hung up.
    std::atomic<bool> running{true};
    std::jthread watcher;
    const auto watch = [&] {
      while (running) {
        pollfd wait{session.fd.get(), POLLIN | POLLRDHUP, 0};
        if (::poll(&wait, 1, 100) > 0 && (wait.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0) {
          session.command.cancelled = true;
          return;
        }
      }
    };
    int32_t status = 1;
    try {
      watcher = begin_thread(watch);
      const Json json = parse_json(message, "a command");
      for (const Json& word : get_array(json, "words", "a command"))
        session.command.words.push_back(word.get<std::string>());
      session.command.working_directory = get_string(json, "workingDirectory", "a command");
      const Json& configuration = get_object(json, "configuration", "a command");
      session.command.config_path = get_string(configuration, "path", "a command");
      session.command.config_digest = get_string(configuration, "digest", "a command");
      status = handler(session.command);
    } catch (const std::exception& e) {  // a malformed message: its sender is no hyp of ours; or there is no thread
      spdlog::warn("a command was not run: {}", e.what());
    }
    running = false;
    if (watcher.joinable()) watcher.join();
    for (Descriptor* fd : {&session.command.in, &session.command.out, &session.command.err}) *fd = Descriptor();
    write_fully(session.fd.get(), &status, sizeof status);
  }
};

ControlServer::ControlServer(const std::string& cache_root, Handler handler) : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.handler = std::move(handler);
  s.socket_path = join_path(cache_root, kSocketName);
  const SocketAddress address(cache_root);
  ::unlink(s.socket_path.c_str());  // absent is fine
  s.listener = unix_socket();
  if (::bind(s.listener.get(), address.get(), sizeof address.address) != 0) fail_errno(errno, "bind " + s.socket_path);
  if (::chmod(s.socket_path.c_str(), 0600) != 0) fail_errno(errno, "chmod " + s.socket_path);
  if (::listen(s.listener.get(), 64) != 0) fail_errno(errno, "listen on " + s.socket_path);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) fail_errno(errno, "make a pipe");
  s.stop_read = Descriptor(ends[0]);
  s.stop_write = Descriptor(ends[1]);
  s.acceptor = begin_thread([&s] { s.accept_all(); });
}

ControlServer::~ControlServer() {
  state_->stopping = true;
  // The poll has a time limit, so a lost wake-up only costs that.
  [[maybe_unused]] const ssize_t woken = ::write(state_->stop_write.get(), "x", 1);
  state_->acceptor.join();
  ::unlink(state_->socket_path.c_str());
}

}  // namespace firn::hyp
