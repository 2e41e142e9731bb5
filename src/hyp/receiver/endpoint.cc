#include "hyp/receiver/endpoint.h"

#include <algorithm>

#include "base/civil_time.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/uri.h"
#include "hyp/capture/byte_stream.h"
#include "hyp/receiver/body_digest.h"
#include "hyp/receiver/rows.h"

namespace firn::hyp {
namespace {

using Outcome = ReceiveResult::Outcome;

constexpr size_t kIdBytesMax = 128;
constexpr size_t kStreamBytesMax = 600;
constexpr size_t kLoggedPathBytesMax = 512;
constexpr int64_t kNoRoomRetryS = 10;

std::string header(const HttpRequest& request, const char* name) {
  const std::string* value = request.header(name);
  return value == nullptr ? std::string() : *value;
}

HttpResponse wrong_method(const char* allowed) {
  HttpResponse answer = error_answer(405, fmt::format("use {}", allowed));
  answer.headers["Allow"] = allowed;
  return answer;
}

HttpResponse json_answer(int status, const Json& json) { return {status, json.dump() + "\n", {}}; }

bool is_well_formed_id(std::string_view id) {
  return !id.empty() && id.size() <= kIdBytesMax && std::all_of(id.begin(), id.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

std::optional<std::string> decode_canonical(std::string_view segment) {
  try {
    std::string name = decode_segment(segment);
    if (encode_segment(name) == segment) return name;
  } catch (const Error&) {  // no encoded name
  }
  return std::nullopt;
}

// What the body is when it is no longer compressed; or the answer to one that cannot be had.
struct PlainBody {
  std::string text;
  int64_t held_bytes = 0;  // that the request has of what bodies may take
  std::optional<HttpResponse> refusal;
};

PlainBody inflate(HttpRequest& request, int64_t bytes_max) {
  constexpr size_t kStepBytes = 256 << 10;
  PlainBody plain;
  plain.held_bytes = static_cast<int64_t>(request.body.size());
  const std::string coding = fold_name(header(request, "content-encoding"));
  if (!is_compressed(request.body)) {
    if (!coding.empty() && coding != "identity" && !request.body.empty()) {
      plain.refusal = error_answer(400, fmt::format("the body is not {}, as Content-Encoding says", coding));
    } else {
      plain.text = std::move(request.body);
    }
    return plain;
  }
  try {
    const auto stream = decompressed(read_memory(request.body), "the request's body");
    for (;;) {
      const size_t size = plain.text.size();
      if (request.reserve && !request.reserve(kStepBytes)) {
        plain.refusal = busy_answer(503, "too many bodies are being received", 1);
        return plain;
      }
      plain.held_bytes += kStepBytes;
      plain.text.resize(size + kStepBytes);
      const ByteStream::Read read = stream->read(plain.text.data() + size, kStepBytes);
      plain.text.resize(size + read.count);
      if (read.is_end) break;
      if (static_cast<int64_t>(plain.text.size()) > bytes_max) {
        plain.refusal = error_answer(413, fmt::format("the decompressed body is longer than {} bytes", bytes_max));
        return plain;
      }
    }
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::corrupt) throw;
    plain.refusal = error_answer(400, e.what());
    return plain;
  }
  request.body = {};
  if (is_compressed(plain.text)) plain.refusal = error_answer(400, "the body is compressed more than once");
  return plain;
}

// By what it was answered with, where nothing more is known of it.
RequestOutcome outcome_of(const HttpServed& served) {
  if (served.status == 0) return RequestOutcome::broken;
  if (served.status < 400) return RequestOutcome::ok;
  if (served.status == 503) return RequestOutcome::busy;
  return served.status < 500 ? RequestOutcome::invalid : RequestOutcome::error;
}

// Of an outcome that is not foreign.
HttpResponse to_http(const ReceiveResult& result, int64_t rows) {
  const auto conflict = [&](const char* kind, const Json& last) {
    return json_answer(409, {{"error", result.message}, {"kind", kind}, {"last", last}});
  };
  switch (result.outcome) {
    case Outcome::landed:
    case Outcome::known:
      return json_answer(202, {{"rows", rows}});
    case Outcome::refused:
      return conflict("destination_behind", result.last ? Json(std::to_string(*result.last)) : Json());
    case Outcome::forgot:
      return conflict("destination_forgot", {});
    case Outcome::too_many_streams:  // no "last": to come again is no use before the operator has done something
      return json_answer(409, {{"error", result.message}, {"kind", "too_many_streams"}});
    case Outcome::busy:
      return busy_answer(503, result.message, 1);
    case Outcome::foreign:
    case Outcome::failed:
      return error_answer(500, result.message);
  }
  return error_answer(500, result.message);
}

}  // namespace

std::optional<StreamName> parse_stream_name(std::string_view stream) {
  constexpr std::string_view kKeyBegin = "source=";
  const size_t first = stream.find('/');
  const size_t second = first == std::string_view::npos ? first : stream.find('/', first + 1);
  if (second == std::string_view::npos || stream.size() > kStreamBytesMax) return std::nullopt;
  const std::string_view key = stream.substr(second + 1);
  const auto cache_id = decode_canonical(stream.substr(0, first));
  const auto dataset = decode_canonical(stream.substr(first + 1, second - first - 1));
  if (!cache_id || !dataset || !is_well_formed_id(*cache_id) || !is_valid_dataset_name(*dataset)) return std::nullopt;
  if (!key.starts_with(kKeyBegin) || !decode_canonical(key.substr(kKeyBegin.size()))) return std::nullopt;
  return StreamName{*cache_id, *dataset, std::string(key)};
}

// What a gateway has announced, until it is answered.
class Endpoint::HeldShare {
 public:
  // Requires that they were counted.
  HeldShare(Endpoint& endpoint, std::string gateway, int64_t bytes)
      : endpoint_(endpoint), gateway_(std::move(gateway)), bytes_(bytes) {}
  ~HeldShare() {
    const std::lock_guard guard(endpoint_.mutex_);
    const auto held = endpoint_.held_.find(gateway_);
    held->second.bytes -= bytes_;
    if (--held->second.requests == 0) endpoint_.held_.erase(held);
  }
  HeldShare(const HeldShare&) = delete;
  HeldShare& operator=(const HeldShare&) = delete;

 private:
  Endpoint& endpoint_;
  const std::string gateway_;
  const int64_t bytes_;
};

// What is known of one request, from admit to served.
struct Endpoint::Note {
  std::string gateway;
  ReceivedBatch batch;    // of a stream; of a capture the dataset and the batch's id alone
  bool is_batch = false;  // of a stream
  int64_t rows = 0;
  std::optional<RequestOutcome> outcome;
  std::string detail;  // for the access log
  std::unique_ptr<HeldShare> held;
};

Endpoint::Endpoint(EndpointParts parts)
    : parts_(std::move(parts)),
      rates_(parts_.config.receiver.gateway_requests_per_s, parts_.config.receiver.gateway_bytes_per_s,
             parts_.steady_us) {}

HttpHandlers Endpoint::handlers() {
  return {.admit = [this](HttpRequest& head) { return admit(head); },
          .handle = [this](HttpRequest& request, const HttpHandlers::Answer& answer) { handle(request, answer); },
          .served = [this](const HttpRequest& request, const HttpServed& done) { served(request, done); }};
}

std::optional<HttpResponse> Endpoint::admit(HttpRequest& head) {
  const auto note = std::make_shared<Note>();
  head.note = note;
  if (head.path == "/healthz" || head.path == "/metrics") {
    if (head.method != "GET") return wrong_method("GET");
    if (head.path == "/healthz" || head.is_peer_local) return std::nullopt;
    return check_token(head, *note);
  }
  if (head.path.starts_with(kIngestPath)) {
    if (head.method != "POST") return wrong_method("POST");
    return admit_ingest(head, *note);
  }
  if (head.path.starts_with(kStreamsPath)) {
    if (head.method != "GET") return wrong_method("GET");
    return admit_stream(head, *note);
  }
  return error_answer(404, "there are /v1/ingest/{dataset}, /v1/streams/{stream}, /healthz and /metrics");
}

// At once, not when it is served: who has the answer finds it counted.
void Endpoint::decide(Note& note, RequestOutcome outcome) {
  note.outcome = outcome;
  if (note.is_batch) metrics_.count_batch(outcome);
}

// Whose the stream is tells a stranger who else is here; the operator has to know.
HttpResponse Endpoint::refuse_foreign(Note& note, const std::string& stream, const std::string& owner) {
  decide(note, RequestOutcome::foreign);
  note.detail = fmt::format("the stream {} is the gateway {}'s", stream, owner);
  spdlog::warn(
      "the gateway {} was refused: {}. If they are one sender, let it send as {}: `hyp gateway rotate {}`, or "
      "`add` if it was removed, makes a token",
      note.gateway, note.detail, owner, owner);
  return error_answer(403,
                      "the receiver knows this cache under another gateway's name: use that gateway's token, or ask "
                      "the receiver's operator");
}

std::optional<HttpResponse> Endpoint::check_token(const HttpRequest& head, Note& note) {
  constexpr std::string_view kScheme = "bearer ";
  const std::string given = header(head, "authorization");
  std::optional<std::string> gateway;
  if (fold_name(given.substr(0, kScheme.size())) == kScheme)
    gateway = parts_.gateways.find(std::string_view(given).substr(kScheme.size()));
  if (!gateway) {
    decide(note, RequestOutcome::unauthorized);
    HttpResponse answer = error_answer(401, "the bearer token is missing or is no gateway's");
    answer.headers["WWW-Authenticate"] = "Bearer";
    return answer;
  }
  note.gateway = *gateway;
  return std::nullopt;
}

std::optional<HttpResponse> Endpoint::check_rate(Note& note, int64_t bytes) {
  const std::optional<int64_t> wait_s = rates_.take(note.gateway, bytes);
  if (!wait_s) return std::nullopt;
  decide(note, RequestOutcome::rate_limited);
  return busy_answer(429,
                     fmt::format("the gateway {} sends more than it may (maxRequestsPerSecond, "
                                 "maxBytesPerSecond)",
                                 note.gateway),
                     *wait_s);
}

std::optional<HttpResponse> Endpoint::check_dataset(Note& note) {
  const std::string& dataset = note.batch.dataset;
  try {
    parts_.config.dataset(dataset);
  } catch (const Error& e) {  // invalid_argument: it cannot be one, or is not declared
    return error_answer(is_valid_dataset_name(dataset) ? 404 : 400, e.what());
  }
  try {
    parts_.check_room(dataset, note.gateway);
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::busy) {
      decide(note, RequestOutcome::no_room);
      return busy_answer(503, e.what(), kNoRoomRetryS);
    }
    throw;  // 500: it is for the receiver's operator, and the log has it
  }
  return std::nullopt;
}

// Half of what all may have at once is the most that one gateway may: bodies that are announced and then come slowly
// must not shut out the others.
std::optional<HttpResponse> Endpoint::hold_share(const HttpRequest& head, Note& note) {
  const ReceiverConfig& config = parts_.config.receiver;
  // Chunked: as if it were the longest.
  const int64_t bytes = std::min(head.content_length.value_or(config.body_bytes_max), config.bodies_bytes_max);
  const std::lock_guard guard(mutex_);
  Share& held = held_[note.gateway];
  if (held.requests > 0 && (held.bytes + bytes > std::max(config.bodies_bytes_max / 2, config.body_bytes_max) ||
                            held.requests >= config.connections_max / 2)) {
    decide(note, RequestOutcome::too_many_bodies);
    return busy_answer(503, fmt::format("too many bodies of the gateway {} are being received", note.gateway), 1);
  }
  held.bytes += bytes;
  held.requests += 1;
  note.held = std::make_unique<HeldShare>(*this, note.gateway, bytes);
  return std::nullopt;
}

std::optional<HttpResponse> Endpoint::admit_ingest(HttpRequest& head, Note& note) {
  ReceivedBatch& batch = note.batch;
  if (auto refusal = check_token(head, note)) return refusal;
  batch.gateway = note.gateway;
  batch.dataset = head.path.substr(std::string_view(kIngestPath).size());
  batch.batch_id = header(head, "x-hyp-batch-id");
  batch.stream = header(head, "x-hyp-stream");
  batch.open_id = header(head, "x-hyp-open");
  const std::string range = header(head, "x-hyp-seq-range");
  note.is_batch = head.header("x-hyp-stream") != nullptr || head.header("x-hyp-open") != nullptr ||
                  head.header("x-hyp-seq-range") != nullptr;
  if (note.is_batch) {
    if (batch.stream.empty() || batch.open_id.empty() || range.empty() || batch.batch_id.empty()) {
      return error_answer(400, fmt::format("{}, {}, {} and {} belong together: a batch of a stream has all of them, "
                                           "captured rows the last alone, or none",
                                           kStreamHeader, kOpenHeader, kSeqRangeHeader, kBatchIdHeader));
    }
    const std::optional<StreamName> name = parse_stream_name(batch.stream);
    if (!name) return error_answer(400, fmt::format("{}: that is no stream's name", kStreamHeader));
    if (name->dataset != batch.dataset)
      return error_answer(400,
                          fmt::format("{} is of the dataset {}, the address of another", kStreamHeader, name->dataset));
    if (!is_well_formed_id(batch.open_id)) return error_answer(400, fmt::format("{}: that is no id", kOpenHeader));
    try {
      batch.range = parse_seq_range(range);
    } catch (const Error& e) {
      return error_answer(400, fmt::format("{}: {}", kSeqRangeHeader, e.what()));
    }
  }
  if (!batch.batch_id.empty() && !is_well_formed_id(batch.batch_id)) {
    return error_answer(
        400, fmt::format("{}: an id has at most {} letters, digits, '-' and '_'", kBatchIdHeader, kIdBytesMax));
  }
  const std::string coding = fold_name(header(head, "content-encoding"));
  if (!coding.empty() && coding != "identity" && coding != "gzip" && coding != "x-gzip" && coding != "zstd")
    return error_answer(415, fmt::format("Content-Encoding {} is not understood: gzip, zstd or none", coding));
  if (const int64_t bytes_max = parts_.config.receiver.body_bytes_max; head.content_length.value_or(0) > bytes_max)
    return error_answer(413, fmt::format("the body is longer than {} bytes (maxBodyBytes)", bytes_max));
  if (auto refusal = check_dataset(note)) return refusal;
  if (auto refusal = hold_share(head, note)) return refusal;
  return check_rate(note, head.content_length.value_or(0));
}

std::optional<HttpResponse> Endpoint::admit_stream(HttpRequest& head, Note& note) {
  if (auto refusal = check_token(head, note)) return refusal;
  note.batch.stream = head.path.substr(std::string_view(kStreamsPath).size());
  if (!parse_stream_name(note.batch.stream)) return error_answer(400, "that is no stream's name");
  return check_rate(note, 0);
}

void Endpoint::handle(HttpRequest& request, const HttpHandlers::Answer& answer) {
  const auto note = std::static_pointer_cast<Note>(request.note);
  if (request.path == "/healthz") return answer({200, "{\"status\":\"ok\"}\n", {}});
  if (request.path == "/metrics") {
    return answer({200, metrics_.text(parts_.gauges()), {{"Content-Type", "text/plain; version=0.0.4"}}});
  }
  if (request.path.starts_with(kIngestPath)) return receive(request, note, answer);
  const std::optional<StreamState> state = parts_.stream(note->gateway, note->batch.stream);
  if (!state) {
    const std::string& stream = note->batch.stream;
    return answer(refuse_foreign(*note, stream, parts_.gateway_of(stream)));
  }
  Json opens = Json::object();
  for (const auto& [open_id, last] : state->opens) opens[open_id] = std::to_string(last);
  answer(named(json_answer(
      200, {{"opens", std::move(opens)}, {"forgot", state->forgot ? Json(std::to_string(*state->forgot)) : Json()}})));
}

// A sender that knows it under two addresses finds that it is one.
HttpResponse Endpoint::named(HttpResponse answer) const {
  answer.headers[kReceiverHeader] = parts_.receiver_id;
  return answer;
}

void Endpoint::receive(HttpRequest& request, const std::shared_ptr<Note>& note, const HttpHandlers::Answer& answer) {
  const ReceiverConfig& config = parts_.config.receiver;
  if (!request.content_length) rates_.charge(note->gateway, static_cast<int64_t>(request.body.size()));
  PlainBody body = inflate(request, config.body_bytes_max);
  if (body.refusal) return answer(std::move(*body.refusal));
  const RowMark mark{config.gateway_column, note->gateway, 2 * std::min(config.body_bytes_max, INT64_MAX / 2)};
  ReceivedBatch& batch = note->batch;
  ReceivedRows rows;
  if (note->is_batch) {
    batch.digest = body_digest(body.text);
    batch.row_member = row_member(mark);
    rows = receive_rows(std::move(body.text), mark, parts_.config.dataset(batch.dataset).row_bytes_max);
  } else {
    rows = mark_rows(body.text, mark);
  }
  body.text = {};
  if (rows.is_too_long) {
    return answer(error_answer(
        413, fmt::format("the rows with the gateway's column are longer than {} bytes", mark.text_bytes_max)));
  }
  if (rows.problem) {
    decide(*note, RequestOutcome::poison);
    const HttpResponse said = error_answer(422, rows.problem->reason);
    Json json = Json::parse(said.body);
    json["line"] = rows.problem->line;
    return answer(json_answer(422, json));
  }
  // Each row has a number of its own in the range, and a reset's is empty.
  const uint64_t numbers = static_cast<uint64_t>(batch.range.until) - static_cast<uint64_t>(batch.range.since);
  if (note->is_batch && static_cast<uint64_t>(rows.rows) > numbers) {
    return answer(error_answer(
        400, fmt::format("{}: the body has {} rows, the range {} numbers", kSeqRangeHeader, rows.rows, numbers)));
  }
  const int64_t more_bytes = static_cast<int64_t>(rows.text.size()) - body.held_bytes;
  if (more_bytes > 0 && request.reserve && !request.reserve(more_bytes))
    return answer(busy_answer(503, "too many bodies are being received", 1));
  note->rows = rows.rows;
  batch.text = std::move(rows.text);
  if (!note->is_batch) {
    HttpResponse captured =
        parts_.capture({note->gateway, batch.dataset, batch.batch_id, std::move(batch.text)}, note->rows);
    if (captured.status == 202) {
      decide(*note, RequestOutcome::captured);
      metrics_.count_rows(note->gateway, note->rows);
    }
    return answer(std::move(captured));
  }
  const std::string stream = batch.stream;
  parts_.take(std::move(batch), [this, note, stream, answer](const ReceiveResult& result) {
    if (result.outcome == Outcome::foreign) return answer(refuse_foreign(*note, stream, result.message));
    if (result.outcome == Outcome::landed) metrics_.count_rows(note->gateway, note->rows);
    decide(*note, to_request_outcome(result.outcome));
    answer(named(to_http(result, note->rows)));
  });
}

void Endpoint::served(const HttpRequest& request, const HttpServed& served) {
  const auto note = std::static_pointer_cast<Note>(request.note);
  const std::string gateway = note ? note->gateway : "";
  metrics_.count_request(served.status, gateway, served.body_bytes);
  if (note) note->held.reset();
  if (note && note->is_batch && !note->outcome) decide(*note, outcome_of(served));
  if (parts_.access_log == nullptr) return;
  const RequestOutcome outcome = note && note->outcome ? *note->outcome : outcome_of(served);
  const std::string& detail = served.problem.empty() && note ? note->detail : served.problem;
  const bool is_taken = served.status == 202;
  Json line{{"time", format_timestamp_ms_utc(now_ms())},
            {"peer", request.peer},
            {"gateway", gateway.empty() ? Json() : Json(gateway)},
            {"method", request.method},
            {"path", request.path.substr(0, kLoggedPathBytesMax)},
            {"status", served.status},
            {"bytes", served.body_bytes},
            {"rows", is_taken && note ? note->rows : 0},
            {"ms", static_cast<double>(served.micros) / 1000},
            {"outcome", to_string(outcome)}};
  if (!detail.empty()) line["detail"] = detail;
  parts_.access_log->write(line.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace firn::hyp
