// The daemon's HTTP side: capture over POST /v1/ingest/{dataset}, and GET /healthz.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

namespace firn::hyp {

struct HttpRequest {
  std::string method, path;                    // path without query, percent-decoded
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // as sent
};
struct HttpResponse {
  int status = 200;
  std::string body;  // JSON
  std::map<std::string, std::string> headers;
};

struct HttpServerOptions {
  std::string listen;                    // "host:port"; port 0 takes a free one
  int threads = 8;                       // requests handled at once; others wait for their turn
  int64_t body_bytes_max = 64 << 20;     // longer: 413
  int64_t bodies_bytes_max = 256 << 20;  // of all requests at once; more: 503
  int64_t connections_max = 256;         // more: 503
  int64_t idle_ms_max = 30'000;          // a connection that sends nothing for so long is closed
  int64_t request_ms_max = 600'000;      // a request that takes longer to arrive: 408
};

// Serves HTTP/1.1 until destroyed. Handlers run on the server's threads, several at once, may block, and answer 500 if
// they throw.
class HttpServer {
 public:
  using Handler = std::function<HttpResponse(const HttpRequest&)>;
  HttpServer(const HttpServerOptions& options, Handler handler);  // throws io if the address cannot be taken
  // Answers the requests that have arrived, and within 2 s those that are arriving; takes nothing more.
  ~HttpServer();
  uint16_t port() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace firn::hyp
