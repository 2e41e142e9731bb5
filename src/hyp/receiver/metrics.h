// What a receiver counts, as Prometheus reads it.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "hyp/receiver/receiver.h"

namespace firn::hyp {

// What is so now, from those who know it.
struct ReceiverGauges {
  int64_t connections = 0, bodies_bytes = 0, waiting_batches = 0;
};

// Thread-safe.
class ReceiverMetrics {
 public:
  // `gateway` empty: none was told.
  void count_request(int status, const std::string& gateway, int64_t body_bytes);
  void count_batch(ReceiveResult::Outcome outcome);
  void count_rows(const std::string& gateway, int64_t rows);  // that are durable now and were not before
  std::string text(const ReceiverGauges& gauges) const;       // text format 0.0.4

 private:
  struct PerGateway {
    int64_t bytes = 0, rows = 0;
  };
  mutable std::mutex mutex_;
  std::map<int, int64_t> requests_;  // by status; 0: no answer was sent
  std::map<ReceiveResult::Outcome, int64_t> batches_;
  std::map<std::string, PerGateway> gateways_;
  int64_t body_bytes_ = 0, rows_ = 0;
};

std::string_view to_string(ReceiveResult::Outcome outcome);

}  // namespace firn::hyp
