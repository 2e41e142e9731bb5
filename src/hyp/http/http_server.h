// The HTTP server of the daemon and of the receiver: HTTP/1.1, with TLS or without.
//
// What a client can take of the process is bounded: connections, bodies, heads and time, each alone and bodies all
// together. What is beyond is refused with a reason, or closed where the client waits for none.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace firn::hyp {

struct HttpRequest {
  std::string method, path;                    // path without query, percent-decoded
  std::map<std::string, std::string> headers;  // names in lower case; of the head, not of trailers
  std::string body;                            // as sent
  std::string target;                          // as sent, with the query
  std::string peer;                            // "address:port"
  bool is_peer_local = false;                  // on the loopback interface
  std::optional<int64_t> content_length;       // as announced; nullopt: chunked, or no body
  // Takes so many bytes more of bodies_bytes_max, until the answer; false: they are not left. Empty in tests without a
  // server.
  std::function<bool(int64_t bytes)> reserve;
  std::shared_ptr<void> note;  // the handlers' own, from admit to served

  // nullptr: not there. `name` in lower case.
  const std::string* header(const std::string& name) const;
};
struct HttpResponse {
  int status = 200;
  std::string body;  // JSON, unless a Content-Type is among the headers
  std::map<std::string, std::string> headers;
};
// {"error": message}, bytes that are no UTF-8 replaced.
HttpResponse error_answer(int status, std::string_view message);
HttpResponse busy_answer(int status, std::string_view message, int64_t retry_after_s);  // with Retry-After

struct HttpServerOptions {
  std::string listen;                    // "host:port"; port 0 takes a free one
  std::string cert_file, key_file;       // PEM, for TLS 1.2 and later; both or none. Renewed ones count in a minute
  int threads = 8;                       // requests handled at once; others wait for their turn
  int64_t body_bytes_max = 64 << 20;     // longer: 413
  int64_t bodies_bytes_max = 256 << 20;  // of all requests at once; more: 503
  int64_t connections_max = 256;         // more: the oldest without a request is closed; none is: 503
  int64_t header_bytes_max = 16 << 10;   // longer, or more than 100 fields: 431
  int64_t header_ms_max = 10'000;        // from a head's first byte to its last, and for a TLS handshake; longer: 408
  int64_t idle_ms_max = 30'000;          // between two requests: closed; within a body: 408
  int64_t request_ms_max = 600'000;      // from a request's first byte to its last; longer: 408
  std::function<int64_t()> steady_us = nullptr;  // by which that minute passes; for tests
};

// How a request ended.
struct HttpServed {
  int status = 0;          // of the answer that was sent; 0: none was
  int64_t body_bytes = 0;  // that came
  int64_t micros = 0;      // from its first byte to its answer's last
  std::string problem;     // why the server decided and no handler did, or why the answer did not arrive; else empty
};

// Called on the server's threads, several at once; all may block, though others then wait. One that throws is answered
// with 500.
struct HttpHandlers {
  using Answer = std::function<void(HttpResponse)>;
  // On the head, before a byte of the body is taken (and before `100 Continue`). An answer refuses the request; its
  // body is dropped as it comes, or its connection ended: with 401 always. nullopt: go on. May be empty.
  std::function<std::optional<HttpResponse>(HttpRequest& head)> admit;
  // Calls `answer` once, now or later, on any thread; `request` lives until then, its body may be moved out. Once every
  // copy of `answer` is gone without a call, it is answered with 500.
  std::function<void(HttpRequest& request, Answer answer)> handle;
  // Every request that began, refused and broken ones too, and connections that were refused. Must not throw. May be
  // empty.
  std::function<void(const HttpRequest& request, const HttpServed& served)> served;
};

// Serves until destroyed.
class HttpServer {
 public:
  using Handler = std::function<HttpResponse(const HttpRequest&)>;
  // Throws io if the address cannot be taken, config if certificate and key are no pair that can be read.
  HttpServer(const HttpServerOptions& options, HttpHandlers handlers);
  HttpServer(const HttpServerOptions& options, Handler handler);
  // Answers the requests that have arrived, and within 2 s those that are arriving; takes nothing more. What handlers
  // owe an answer must be able to give it.
  ~HttpServer();
  uint16_t port() const;
  bool is_local() const;         // reachable only from this machine
  int64_t connections() const;   // open now
  int64_t bodies_bytes() const;  // of requests that are being received or answered

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace firn::hyp
