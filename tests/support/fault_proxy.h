// A proxy between a client and an HTTP server on this machine, which loses, doubles, delays and answers as it is told.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace firn {

struct ProxiedRequest {
  int64_t index = 0;                           // from 0, of all
  std::string method, target;                  // without scheme and host
  bool is_absolute = false;                    // the target had both, as a proxy's clients send it
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
};

struct Fault {
  enum class Kind : uint8_t {
    none,         // the request goes to the server, its answer to the client
    cut_request,  // half of it reaches the server; the client hears nothing
    cut_answer,   // the server answers; the client hears half of that
    lose,         // it reaches nobody
    late,         // it reaches the server at deliver_late(); the client hears nothing
    duplicate,    // it reaches the server twice; the client hears the first answer
    answer,       // the client hears `status`, `headers` and `body`; the server nothing
  };
  Kind kind = Kind::none;
  int64_t delay_ms = 0;  // before anything else
  int status = 503;
  std::map<std::string, std::string> headers = {};
  std::string body = {};
};

inline Fault answer_with(int status, const std::map<std::string, std::string>& headers = {},
                         const std::string& body = "{\"error\":\"said the proxy\"}\n") {
  return {.kind = Fault::Kind::answer, .status = status, .headers = headers, .body = body};
}

// Listens on a free port of 127.0.0.1. It also serves as an HTTP proxy, for CONNECT too: whatever host a client names,
// it is the one server that it talks to. Thread-safe.
class FaultProxy {
 public:
  explicit FaultProxy(uint16_t server_port);
  ~FaultProxy();
  uint16_t port() const;
  std::string url() const;  // http://127.0.0.1:<port>
  void set_server_port(uint16_t port);
  // What happens to each request from now on; called for one request at a time. Without it: nothing.
  void set_script(std::function<Fault(const ProxiedRequest&)> script);
  void deliver_late();                           // in the order in which they came; answers go nowhere
  std::vector<ProxiedRequest> requests() const;  // seen so far
  int64_t num_tunnels() const;                   // CONNECTs
  int64_t num_connections() const;               // of clients, so far
  void forget_requests();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace firn
