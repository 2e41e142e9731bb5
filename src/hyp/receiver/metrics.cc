#include "hyp/receiver/metrics.h"

#include <fmt/format.h>

namespace firn::hyp {
namespace {

using enum RequestOutcome;

// Of batches of streams.
constexpr RequestOutcome kBatchOutcomes[] = {landed,  known,  refused, forgot,       foreign, too_many_streams,
                                             busy,    failed, poison,  rate_limited, no_room, too_many_bodies,
                                             invalid, error,  broken};

// Gateways' names have no character that would need an escape.
class MetricsText {
 public:
  void begin(const char* name, const char* type, const char* help) {
    name_ = name;
    text_ += fmt::format("# HELP {0} {2}\n# TYPE {0} {1}\n", name, type, help);
  }
  void add(int64_t value, const std::string& labels = "") { text_ += fmt::format("{}{} {}\n", name_, labels, value); }
  // A summary without quantiles: the mean over a time is the one's rate by the other's.
  void add_sum(const std::string& sum, int64_t count) {
    text_ += fmt::format("{0}_sum {1}\n{0}_count {2}\n", name_, sum, count);
  }
  std::string take() { return std::move(text_); }

 private:
  const char* name_ = "";
  std::string text_;
};

}  // namespace

std::string_view to_string(RequestOutcome outcome) {
  switch (outcome) {
    case landed:
      return "landed";
    case known:
      return "known";
    case refused:
      return "refused";
    case forgot:
      return "forgot";
    case foreign:
      return "foreign";
    case too_many_streams:
      return "too many streams";
    case busy:
      return "busy";
    case failed:
      return "failed";
    case poison:
      return "poison";
    case rate_limited:
      return "rate limited";
    case no_room:
      return "no room";
    case too_many_bodies:
      return "too many bodies";
    case invalid:
      return "invalid";
    case error:
      return "error";
    case broken:
      return "broken";
    case unauthorized:
      return "unauthorized";
    case captured:
      return "captured";
    case ok:
      return "ok";
  }
  return "error";
}

RequestOutcome to_request_outcome(ReceiveResult::Outcome outcome) {
  switch (outcome) {
    case ReceiveResult::Outcome::landed:
      return landed;
    case ReceiveResult::Outcome::known:
      return known;
    case ReceiveResult::Outcome::refused:
      return refused;
    case ReceiveResult::Outcome::forgot:
      return forgot;
    case ReceiveResult::Outcome::foreign:
      return foreign;
    case ReceiveResult::Outcome::too_many_streams:
      return too_many_streams;
    case ReceiveResult::Outcome::busy:
      return busy;
    case ReceiveResult::Outcome::failed:
      return failed;
  }
  return failed;
}

void ReceiverMetrics::count_request(int status, const std::string& gateway, int64_t body_bytes) {
  const std::lock_guard guard(mutex_);
  ++requests_[status];
  body_bytes_ += body_bytes;
  if (!gateway.empty()) gateways_[gateway].bytes += body_bytes;
}

void ReceiverMetrics::count_batch(RequestOutcome outcome) {
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
  for (const RequestOutcome outcome : kBatchOutcomes) {
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
  const CommitCounts& commits = gauges.commits;
  text.begin("hyp_receiver_group_batches", "summary", "Batches that were decided and made durable together.");
  text.add_sum(std::to_string(commits.batches), commits.groups);
  text.begin("hyp_receiver_commit_seconds", "summary", "Time that a group of batches takes to be durable.");
  text.add_sum(fmt::format("{}", static_cast<double>(commits.micros) / 1e6), commits.groups);
  text.begin("hyp_receiver_connections", "gauge", "Connections that are open.");
  text.add(gauges.connections);
  text.begin("hyp_receiver_bodies_bytes", "gauge", "Bytes of bodies held until they are answered.");
  text.add(gauges.bodies_bytes);
  text.begin("hyp_receiver_waiting_batches", "gauge", "Batches that wait for their commit.");
  text.add(gauges.waiting_batches);
  text.begin("hyp_spool_unflushed_bytes", "gauge", "Bytes that are acknowledged and not in a table yet, as spooled.");
  text.add(gauges.unflushed_bytes);
  return text.take();
}

}  // namespace firn::hyp
