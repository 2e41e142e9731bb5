// HTTP requests to a receiver, through libcurl.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace firn::hyp {

struct HttpClientOptions {
  std::string ca_file;  // PEM; empty: the system's
  std::string proxy;    // empty: as https_proxy, http_proxy and no_proxy say
  int64_t connect_ms_max = 10'000;
  int64_t silent_ms_max = 60'000;  // without a byte of a body in either direction
  int64_t answer_bytes_max = 1 << 20;
  const std::atomic<bool>* cancelled = nullptr;  // a request ends within a second of it, with cancelled
};

struct HttpAnswer {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
};

// Keeps connections open between requests. One thread at a time. Redirections are not followed: a token would go with
// them. The program ignores SIGPIPE.
class HttpClient {
 public:
  explicit HttpClient(HttpClientOptions options);
  ~HttpClient();
  // `headers` are lines "Name: value". Throws io naming the url (no answer: the request may have been acted on),
  // config where nothing can be sent at all (a url, a CA file or a certificate that is wrong), cancelled. No request
  // with a body is sent twice by itself (P1.7).
  HttpAnswer send(const std::string& method, const std::string& url, const std::vector<std::string>& headers,
                  const std::string& body);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Whether requests to `url` stay on this machine: localhost, 127.0.0.0/8, ::1.
bool is_loopback(const std::string& url);

}  // namespace firn::hyp
