#include "hyp/receiver/metrics.h"

#include <fmt/format.h>

namespace firn::hyp {
namespace {

using Outcome = ReceiveResult::Outcome;

// Gateways' names have no character that would need an escape.
class MetricsText {
 public:
  void begin(const char* name, const char* type, const char* help) {
    name_ = name;
    text_ += fmt::format("# HELP {0} {2}\n# TYPE {0} {1}\n", name, type, help);
  }
  void add(int64_t value, const std::string& labels = "") { text_ += fmt::format("{}{} {}\n", name_, labels, value); }
  std::string take() { return std::move(text_); }

 private:
  const char* name_ = "";
  std::string text_;
};

}  // namespace

std::string_view to_string(Outcome outcome) {
  switch (outcome) {
    case Outcome::landed:
      return "landed";
    case Outcome::known:
      return "known";
    case Outcome::refused:
      return "refused";
    case Outcome::forgot:
      return "forgot";
    case Outcome::foreign:
      return "foreign";
    case Outcome::busy:
      return "busy";
    case Outcome::failed:
      return "failed";
  }
  return "failed";
}

void ReceiverMetrics::count_request(int status, const std::string& gateway, int64_t body_bytes) {
  const std::lock_guard guard(mutex_);
  ++requests_[status];
  body_bytes_ += body_bytes;
  if (!gateway.empty()) gateways_[gateway].bytes += body_bytes;
}

void ReceiverMetrics::count_batch(Outcome outcome) {
  const std::lock_guard guard(mutex_);
  ++batches_[outcome];
}

void ReceiverMetrics::count_rows(const std::string& gateway, int64_t rows) {
  const std::lock_guard guard(mutex_);
  rows_ += rows;
  gateways_[gateway].rows += rows;
}

std::string ReceiverMetrics::text(const ReceiverGauges& gauges) const {
  const std::lock_guard guard(mutex_);
  MetricsText text;
  text.begin("hyp_receiver_requests_total", "counter", "Requests by status; 0: the peer went away.");
  for (const auto& [status, count] : requests_) text.add(count, fmt::format("{{code=\"{}\"}}", status));
  text.begin("hyp_receiver_batches_total", "counter", "Batches of streams by what became of them.");
  for (auto outcome = Outcome::landed; outcome <= Outcome::failed; outcome = static_cast<Outcome>(int(outcome) + 1)) {
    const auto found = batches_.find(outcome);
    text.add(found == batches_.end() ? 0 : found->second, fmt::format("{{outcome=\"{}\"}}", to_string(outcome)));
  }
  text.begin("hyp_receiver_rows_total", "counter", "Rows made durable.");
  text.add(rows_);
  text.begin("hyp_receiver_body_bytes_total", "counter", "Bytes of bodies received, as sent.");
  text.add(body_bytes_);
  text.begin("hyp_receiver_gateway_rows_total", "counter", "Rows made durable, by gateway.");
  for (const auto& [name, sums] : gateways_) text.add(sums.rows, fmt::format("{{gateway=\"{}\"}}", name));
  text.begin("hyp_receiver_gateway_body_bytes_total", "counter", "Bytes of bodies received, by gateway.");
  for (const auto& [name, sums] : gateways_) text.add(sums.bytes, fmt::format("{{gateway=\"{}\"}}", name));
  text.begin("hyp_receiver_connections", "gauge", "Connections that are open.");
  text.add(gauges.connections);
  text.begin("hyp_receiver_bodies_bytes", "gauge", "Bytes of bodies held until they are answered.");
  text.add(gauges.bodies_bytes);
  text.begin("hyp_receiver_waiting_batches", "gauge", "Batches that wait for their commit.");
  text.add(gauges.waiting_batches);
  return text.take();
}

}  // namespace firn::hyp
