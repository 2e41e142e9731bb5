// What a receiver answers over HTTP (http/wire.h): who may send, what a request must look like, how much may come, and
// what became of it. Apart from the server and from what keeps the rows, so that it can be tested without either.
//
//   POST /v1/ingest/{dataset}   with X-Hyp-Stream a batch of a stream (P11), without it capture (P4)
//   GET /v1/streams/{stream}    each segment as in X-Hyp-Stream, that is, percent-encoded once more in the address
//   GET /healthz                nobody has to say who they are
//   GET /metrics                from this machine, or with any gateway's token
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "hyp/config.h"
#include "hyp/http/http_server.h"
#include "hyp/receiver/access_log.h"
#include "hyp/receiver/gateways.h"
#include "hyp/receiver/metrics.h"
#include "hyp/receiver/rate_limits.h"
#include "hyp/receiver/receiver.h"

namespace firn::hyp {

// One captured body, decompressed, with the gateway's column.
struct CapturedBody {
  std::string gateway, dataset, batch_id, text;
};

// What an endpoint stands on. All must outlive it.
struct EndpointParts {
  const Config& config;
  GatewayTokens& gateways;
  AccessLog* access_log = nullptr;  // nullptr: none
  // Throws busy while nothing can be taken, config if the dataset cannot take anything until somebody acts.
  std::function<void(const std::string& dataset, const std::string& gateway)> check_room;
  // Answers once it is durable; `rows` becomes how many were taken now.
  std::function<HttpResponse(const CapturedBody&, int64_t& rows)> capture;
  std::function<void(ReceivedBatch, Receiver::Answered)> take;  // Receiver::take
  std::function<std::optional<StreamState>(const std::string& gateway, const std::string& stream)> stream;
  std::function<std::string(const std::string& stream)> gateway_of;  // for the log alone
  std::function<ReceiverGauges()> gauges;
  std::string receiver_id = {};                  // of its spool
  std::function<int64_t()> steady_us = nullptr;  // for tests
};

// Thread-safe.
class Endpoint {
 public:
  explicit Endpoint(EndpointParts parts);
  // Of a server that ends before this does.
  HttpHandlers handlers();

  // The parts of handlers().
  std::optional<HttpResponse> admit(HttpRequest& head);
  void handle(HttpRequest& request, const HttpHandlers::Answer& answer);
  void served(const HttpRequest& request, const HttpServed& served);

 private:
  struct Note;
  class HeldShare;
  struct Share {
    int64_t bytes = 0, requests = 0;
  };
  void decide(Note& note, RequestOutcome outcome);
  HttpResponse refuse_foreign(Note& note, const std::string& stream, const std::string& owner);
  std::optional<HttpResponse> admit_ingest(HttpRequest& head, Note& note);
  std::optional<HttpResponse> admit_stream(HttpRequest& head, Note& note);
  std::optional<HttpResponse> check_token(const HttpRequest& head, Note& note);
  std::optional<HttpResponse> check_rate(Note& note, int64_t bytes);
  std::optional<HttpResponse> check_dataset(Note& note);
  std::optional<HttpResponse> hold_share(const HttpRequest& head, Note& note);
  HttpResponse named(HttpResponse answer) const;
  void receive(HttpRequest& request, const std::shared_ptr<Note>& note, const HttpHandlers::Answer& answer);

  const EndpointParts parts_;
  RateLimits rates_;
  ReceiverMetrics metrics_;
  std::mutex mutex_;
  std::map<std::string, Share> held_;  // by gateway: bodies that it announced, of requests that are not answered
};

// A stream's name as stream_of makes it: the cache's id, the dataset and the partition's key, each percent-encoded.
// nullopt: it is none, or longer than any that a cache of ours makes.
struct StreamName {
  std::string cache_id, dataset, key;
};
std::optional<StreamName> parse_stream_name(std::string_view stream);

}  // namespace firn::hyp
