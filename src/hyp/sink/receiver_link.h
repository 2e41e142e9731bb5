// A forward sink's requests to its receiver: token, connections, and the patience that a busy or silent one needs
// (spec/incremental-sink-reads.md §4, P11).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "hyp/config.h"
#include "hyp/http/http_client.h"

namespace firn::hyp {

struct ReceiverReply {
  HttpAnswer answer;
  bool may_have_landed_before = false;  // an earlier try of the same request had no answer that decides
};

// Thread-safe.
class ReceiverLink {
 public:
  // Throws config naming the sink if its token cannot be read.
  ReceiverLink(const SinkConfig& sink, const std::atomic<bool>* cancelled);
  // Sends until an answer decides: 408, 429, 502, 503, 504 and no answer at all are waited out as Backpressure says,
  // with the same request; after a 401 the token is read once more. Throws busy or io once the time for it is used up
  // (io: it may have landed), config after a second 401 and for what HttpClient calls so, cancelled.
  ReceiverReply post(const std::string& path, const std::vector<std::string>& headers, const std::string& body);
  ReceiverReply get(const std::string& path);
  const std::string& url() const { return sink_.forward.url; }
  // What the receiver last said that it is, whatever its address; until then, the url.
  std::string receiver();
  // Destination::tell_waits.
  void tell_waits(std::function<void(const std::string& text)> tell) { tell_ = std::move(tell); }

 private:
  ReceiverReply exchange(const std::string& method, const std::string& path, std::vector<std::string> headers,
                         const std::string& body);
  HttpAnswer send(const std::string& method, const std::string& url, const std::vector<std::string>& headers,
                  const std::string& body);
  std::string token();
  void read_token();
  std::string token_origin() const;  // of a sink that has one
  void tell_wait(const std::string& why, int64_t wait_ms) const;

  SinkConfig sink_;
  const std::atomic<bool>* cancelled_;
  std::function<void(const std::string& text)> tell_;
  std::mutex mutex_;
  std::string token_;
  std::string receiver_id_;                        // empty: it never said
  std::vector<std::unique_ptr<HttpClient>> idle_;  // one a thread that sends
};

// What an answer's body says went wrong; else its status and the begin of the body. On one line, escaped.
std::string message_of(const HttpAnswer& answer);
// Throws config or io (5xx) saying what the receiver answered to a request of `what`.
[[noreturn]] void fail_answer(const HttpAnswer& answer, const std::string& what);

}  // namespace firn::hyp
