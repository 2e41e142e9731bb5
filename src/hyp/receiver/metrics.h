// What a receiver counts, as Prometheus reads it.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "hyp/receiver/receiver.h"

namespace firn::hyp {

// What is so now, and what the receiver counts itself; from those who know it.
struct ReceiverGauges {
  int64_t connections = 0, bodies_bytes = 0, waiting_batches = 0;
  CommitCounts commits;
  int64_t unflushed_bytes = 0;  // of all spools, not the receiver's alone
};

// What became of a request, in one word for the access log and the metrics.
enum class RequestOutcome : uint8_t {
  // As the ledger decided (ReceiveResult).
  landed,
  known,
  refused,
  forgot,
  foreign,
  too_many_streams,
  busy,
  failed,
  // As the endpoint did.
  poison,           // a line is no row (422)
  rate_limited,     // 429
  no_room,          // 503: the spool or the disk
  too_many_bodies,  // 503
  invalid,          // other 4xx
  error,            // other 5xx
  broken,           // the peer went away, or was closed, before an answer
  // Not of batches.
  unauthorized,
  captured,
  ok,
};
std::string_view to_string(RequestOutcome outcome);
RequestOutcome to_request_outcome(ReceiveResult::Outcome outcome);

// Thread-safe.
class ReceiverMetrics {
 public:
  // `gateway` empty: none was told.
  void count_request(int status, const std::string& gateway, int64_t body_bytes);
  void count_batch(RequestOutcome outcome);
  void count_rows(const std::string& gateway, int64_t rows);  // that are durable now and were not before
  std::string text(const ReceiverGauges& gauges) const;       // text format 0.0.4

 private:
  struct PerGateway {
    int64_t bytes = 0, rows = 0;
  };
  mutable std::mutex mutex_;
  std::map<int, int64_t> requests_;  // by status; 0: no answer was sent
  std::map<RequestOutcome, int64_t> batches_;
  std::map<std::string, PerGateway> gateways_;
  int64_t body_bytes_ = 0, rows_ = 0;
};

}  // namespace firn::hyp
