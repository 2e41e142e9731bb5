// Forward sinks: rows to a receiver over HTTP, each body one compare-and-set on its ledger (P11).
#include <algorithm>
#include <map>

#include <zstd.h>

#include "base/fault_point.h"
#include "base/json.h"
#include "base/log.h"
#include "base/one_line.h"
#include "base/span.h"
#include "base/uuid.h"
#include "hyp/http/wire.h"
#include "hyp/sink/bodies.h"
#include "hyp/sink/dead_letters.h"
#include "hyp/sink/destination.h"
#include "hyp/sink/receiver_link.h"

namespace firn::hyp {
namespace {

constexpr int kZstdLevel = 3;

std::string zstd_of(const std::string& text) {
  std::string bytes(::ZSTD_compressBound(text.size()), '\0');
  const size_t size = ::ZSTD_compress(bytes.data(), bytes.size(), text.data(), text.size(), kZstdLevel);
  if (::ZSTD_isError(size) != 0) fail(ErrorKind::internal, "zstd: {}", ::ZSTD_getErrorName(size));
  bytes.resize(size);
  return bytes;
}

// Streams have '/' between their segments, which are percent-encoded already and decoded once by the receiver.
std::string path_of_stream(const std::string& stream) {
  std::string path = kStreamsPath;
  for (const char c : stream) c == '%' ? path += "%25" : path += c;
  return path;
}

std::string describe_range(const SeqRange& range) { return fmt::format("rows ({}, {}]", range.since, range.until); }

// What a 409 says: the open's last number, nullopt if the receiver has none of it. Throws destination_forgot.
std::optional<int64_t> last_of(const HttpAnswer& answer, const std::string& what) {
  const Json json = Json::parse(answer.body, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("last")) fail_answer(answer, what);
  if (find_string(json, "kind", what) == to_string(ErrorKind::destination_forgot))
    fail(ErrorKind::destination_forgot,
         "{}: {}. Compare the rows there with the cache's; `hyp sink reset --to now` then goes on with those that come",
         what, message_of(answer));
  if (find_member(json, "last") == nullptr) return std::nullopt;
  return get_seq(json, "last", what);
}

// One unit on its way (P10.5, P11).
class UnitDelivery {
 public:
  UnitDelivery(ReceiverLink& link, const SinkConfig& sink, const std::string& state_dir, const Unit& unit,
               const std::string& place)
      : link_(link),
        sink_(sink),
        unit_(unit),
        place_(place),
        letters_(dead_letters_path(state_dir, sink.name, unit.partition), unit.range.open_id, unit.range.since,
                 unit.range.until),
        since_(unit.range.since) {}

  Delivered deliver(UnitRows& rows) {
    BodyCutter bodies(rows, sink_.unit_rows_max, sink_.unit_bytes_max,
                      [this](int64_t number, std::string_view line) { return keep(number, line); });
    while (!is_over_) {
      const auto body = bodies.next();
      if (!body) break;
      send_body(*body);
    }
    // Rows that were purged since, or are dead letters, end the unit: the stream moves on without them (P11.3).
    while (!is_over_ && since_ < unit_.range.until) {
      switch (post(unit_.range.until, "", 0)) {
        case Verdict::poisoned:
        case Verdict::too_long:
          fail_answer(answer_, place_ + ", " + describe_range(range_to(unit_.range.until)) + " without rows");
        default:
          break;
      }
    }
    delivered_.rows_put_aside = num_dead_;
    if (num_dead_ > 0) {
      spdlog::warn("sink {}: {}: {} rows that the receiver can never take are in {}", sink_.name, place_, num_dead_,
                   letters_.path());
    }
    return delivered_;
  }

 private:
  enum class Verdict : uint8_t {
    landed,
    moved,     // the receiver was further already: since_ is there now
    poisoned,  // its rows, or one of them, can never be taken
    too_long,  // for the receiver, as one body
    over,      // the delivery ends; delivered_ says how
  };

  // Rows [begin, end) of a body. is_hinted: the receiver said that it is this row.
  struct Part {
    size_t begin = 0, end = 0;
    bool is_hinted = false;
  };

  bool keep(int64_t number, std::string_view line) {
    if (number <= since_) {  // it was there when this delivery began
      ++delivered_.rows_found;
      return false;
    }
    // What an earlier run put aside stays aside: a row is there or here.
    if (unit_.is_resumed && letters_.take(number)) {
      ++num_dead_;
      return false;
    }
    if (static_cast<int64_t>(line.size()) < sink_.unit_bytes_max) return true;
    add_letters({{number, 0,
                  fmt::format("the row has {} bytes as JSON; one request takes {} (maxBytes)", line.size() + 1,
                              sink_.unit_bytes_max),
                  std::string(line)}});
    return false;
  }

  void add_letters(const std::vector<DeadLetter>& letters) {
    letters_.add(letters);
    num_dead_ += static_cast<int64_t>(letters.size());
  }

  // In order, halved where it is refused for its rows.
  void send_body(const Body& body) {
    std::vector<Part> parts = {{0, body.rows.size()}};
    while (!parts.empty() && !is_over_) {
      Part part = parts.back();
      parts.pop_back();
      for (; part.begin < part.end && body.rows[part.begin].number <= since_; ++part.begin) ++delivered_.rows_found;
      if (part.begin == part.end) continue;
      switch (post_part(body, part)) {
        case Verdict::landed:
          is_hint_trusted_ = is_hint_trusted_ && !part.is_hinted;
          break;
        case Verdict::moved:
          parts.push_back(part);
          break;
        case Verdict::poisoned:
        case Verdict::too_long:
          take_apart(body, part, parts);
          break;
        case Verdict::over:
          break;
      }
    }
  }

  Verdict post_part(const Body& body, const Part& part) {
    const int64_t until = body.rows[part.end - 1].number;
    const auto num_rows = static_cast<int64_t>(part.end - part.begin);
    if (part.begin == 0 && part.end == body.rows.size()) return post(until, body.text, num_rows);
    const size_t begin = body.rows[part.begin].begin;
    return post(until, body.text.substr(begin, body.rows[part.end - 1].end - begin), num_rows);
  }

  // Smaller parts of one that was refused, the first on top; rows of one number alone are dead letters.
  void take_apart(const Body& body, const Part& part, std::vector<Part>& parts) {
    const auto number = [&](size_t row) { return body.rows[row].number; };
    if (number(part.begin) == number(part.end - 1)) {
      bury(body, part);
      return;
    }
    if (const auto hint = hinted_row(part); hint && (*hint == part.begin || number(*hint - 1) != number(*hint)) &&
                                            (*hint + 1 == part.end || number(*hint + 1) != number(*hint))) {
      if (*hint + 1 < part.end) parts.push_back({*hint + 1, part.end});
      parts.push_back({*hint, *hint + 1, true});
      if (part.begin < *hint) parts.push_back({part.begin, *hint});
      return;
    }
    size_t middle = part.begin + (part.end - part.begin) / 2;
    while (middle < part.end && number(middle) == number(middle - 1)) ++middle;
    if (middle == part.end) {
      middle = part.begin + (part.end - part.begin) / 2;
      while (number(middle) == number(middle - 1)) --middle;
    }
    parts.push_back({middle, part.end});
    parts.push_back({part.begin, middle});
  }

  // The row that the last answer names by its line. It is sent alone all the same, so a wrong one costs a request and
  // is not believed again.
  std::optional<size_t> hinted_row(const Part& part) const {
    if (!is_hint_trusted_ || answer_.status == 413) return std::nullopt;
    const auto line = line_of(answer_);
    if (!line || *line < 1 || *line > static_cast<int64_t>(part.end - part.begin)) return std::nullopt;
    return part.begin + static_cast<size_t>(*line) - 1;
  }

  static std::optional<int64_t> line_of(const HttpAnswer& answer) {
    const Json json = Json::parse(answer.body, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || !json.contains("line") || !json["line"].is_number_integer()) return std::nullopt;
    return json["line"].get<int64_t>();
  }

  static bool is_of_receiver(const HttpAnswer& answer) {
    const Json json = Json::parse(answer.body, nullptr, /*allow_exceptions=*/false);
    return json.is_object() && json.contains("error");
  }

  void bury(const Body& body, const Part& part) {
    std::vector<DeadLetter> letters;
    for (size_t i = part.begin; i < part.end; ++i) {
      const BodyRow& row = body.rows[i];
      letters.push_back(
          {row.number, answer_.status, message_of(answer_), body.text.substr(row.begin, row.end - row.begin - 1)});
    }
    add_letters(letters);  // durable before the range moves on
  }

  SeqRange range_to(int64_t until) const {
    return {since_, until, unit_.range.start && since_ == unit_.range.since, std::nullopt};
  }

  Verdict post(int64_t until, const std::string& text, int64_t num_rows) {
    const SeqRange range = range_to(until);
    const std::string& dataset = unit_.partition.dataset;
    std::vector<std::string> headers = {
        "Content-Type: application/x-ndjson",
        fmt::format("{}: {}", kBatchIdHeader, batch_id_of(dataset, unit_.stream, unit_.range.open_id, range, text)),
        fmt::format("{}: {}", kStreamHeader, unit_.stream),
        fmt::format("{}: {}", kOpenHeader, unit_.range.open_id),
        fmt::format("{}: {}", kSeqRangeHeader, to_text(range)),
    };
    const bool is_packed = sink_.compression == "zstd" && !text.empty();
    if (is_packed) headers.emplace_back("Content-Encoding: zstd");
    const std::string packed = is_packed ? zstd_of(text) : "";
    const std::string& body = is_packed ? packed : text;
    ReceiverReply reply = link_.post(kIngestPath + dataset, headers, body);
    answer_ = std::move(reply.answer);
    const std::string what = place_ + ", " + describe_range(range);
    switch (answer_.status) {
      case 202:
        break;
      case 400:
        // Of a request that is wrong in itself, or that a proxy did not understand, no row is to blame.
        if (!line_of(answer_)) fail_answer(answer_, what);
        return Verdict::poisoned;
      case 422:
        if (!is_of_receiver(answer_)) fail_answer(answer_, what);
        return Verdict::poisoned;
      case 413:
        return Verdict::too_long;
      case 409: {
        const auto last = last_of(answer_, what);
        // Landed by a try of ours that had no answer, and is too long ago for the receiver to know its batch id.
        if (reply.may_have_landed_before && last == until) break;
        return look_at(last);
      }
      default:
        fail_answer(answer_, what);
    }
    delivered_.rows += num_rows;
    delivered_.bytes += static_cast<int64_t>(body.size());
    since_ = until;
    return Verdict::landed;
  }

  // The receiver has the open up to `last`, which is not our since_.
  Verdict look_at(std::optional<int64_t> last) {
    if (last && *last > since_ && *last < unit_.range.until && unit_.is_resumed) {
      since_ = *last;
      return Verdict::moved;
    }
    const bool is_there = last && *last >= unit_.range.until;
    delivered_.outcome = is_there ? Delivered::Outcome::already_there : Delivered::Outcome::refused;
    if (last) delivered_.there = Position{*last, std::nullopt};
    is_over_ = true;
    return Verdict::over;
  }

  ReceiverLink& link_;
  const SinkConfig& sink_;
  const Unit& unit_;
  const std::string& place_;
  DeadLetters letters_;
  Delivered delivered_;
  int64_t since_;  // the receiver has the unit's rows up to here
  int64_t num_dead_ = 0;
  HttpAnswer answer_;  // the last one
  bool is_hint_trusted_ = true;
  bool is_over_ = false;
};

class ForwardDestination final : public Destination {
 public:
  ForwardDestination(const Cache& cache, const SinkConfig& sink, const std::atomic<bool>* cancelled)
      : state_dir_(cache.config().state_dir), sink_(sink), link_(sink, cancelled) {}

  std::string describe(const PartitionId& partition) const override {
    return sink_.forward.url + kIngestPath + partition.dataset;
  }
  std::string identity(const PartitionId&) override { return link_.receiver(); }
  std::string key_of(const Unit&) const override { return ""; }

  std::optional<Position> position(const Unit& unit) override {
    const StreamState there = stream_state(unit);
    const auto known = there.opens.find(unit.range.open_id);
    return known == there.opens.end() ? std::nullopt : std::optional(Position{known->second, std::nullopt});
  }

  Standing standing(const Unit& confirmed) override {
    const StreamState there = stream_state(confirmed);
    const auto known = there.opens.find(confirmed.range.open_id);
    if (known != there.opens.end()) return {.there = Position{known->second, std::nullopt}};
    return {.is_known = !there.forgot || confirmed.range.until > *there.forgot};
  }

  void tell_waits(const std::function<void(const std::string& text)>& tell) override { link_.tell_waits(tell); }

  std::vector<Standing> standings(const std::vector<Unit>& opens) override {
    const StreamState there = stream_state(opens.at(0));
    std::vector<Standing> standings(opens.size());
    for (size_t i = 0; i < opens.size(); ++i) {
      const auto known = there.opens.find(opens[i].range.open_id);
      if (known != there.opens.end()) {
        standings[i].there = Position{known->second, std::nullopt};
      } else {
        standings[i].is_known = !there.forgot || opens[i].range.since >= *there.forgot;
      }
    }
    return standings;
  }

  Delivered deliver(const Unit& unit, UnitRows& rows) override {
    Span span("forward.unit");
    span.set("stream", unit.stream);
    span.set("open", unit.range.open_id);
    span.set("since", unit.range.since);
    span.set("until", unit.range.until);
    const std::string place = describe(unit.partition);
    try {
      Delivered delivered = UnitDelivery(link_, sink_, state_dir_, unit, place).deliver(rows);
      span.set("rows", delivered.rows);
      return delivered;
    } catch (const Error& e) {
      span.fail(to_string(e.kind()), e.what());
      throw;
    }
  }

  bool reset(const Unit& unit, std::optional<int64_t> from, int64_t& last) override {
    SeqRange range{from.value_or(unit.open_since.value_or(unit.range.since)), last, !from, std::nullopt};
    if (!from && last <= range.since) return !position(unit);  // nothing of the open, as asked
    if (from && last <= *from) range = {last, last, false, from};
    const std::string& dataset = unit.partition.dataset;
    const std::vector<std::string> headers = {
        "Content-Type: application/x-ndjson",
        // The same reset may come again, after rows: to know it then for the first one would skip them.
        fmt::format("{}: {}", kBatchIdHeader, uuid_v4()),
        fmt::format("{}: {}", kStreamHeader, unit.stream),
        fmt::format("{}: {}", kOpenHeader, unit.range.open_id),
        fmt::format("{}: {}", kSeqRangeHeader, to_text(range)),
    };
    const std::string what = describe(unit.partition) + ", reset to " + std::to_string(last);
    const ReceiverReply reply = link_.post(kIngestPath + dataset, headers, "");
    if (reply.answer.status == 202) return true;
    if (reply.answer.status != 409) fail_answer(reply.answer, what);
    return last_of(reply.answer, what) == last && reply.may_have_landed_before;
  }

 private:
  // What the receiver has of a stream; durable there.
  struct StreamState {
    std::map<std::string, int64_t> opens;
    std::optional<int64_t> forgot;
  };

  StreamState stream_state(const Unit& unit) {
    const std::string path = path_of_stream(unit.stream), what = link_.url() + path;
    const HttpAnswer answer = link_.get(path).answer;
    if (answer.status != 200) fail_answer(answer, what);
    StreamState state;
    try {
      const Json json = parse_json(answer.body, what);
      const Json& opens = get_object(json, "opens", what);
      for (const auto& [open_id, last] : opens.items()) state.opens[open_id] = get_seq(opens, open_id.c_str(), what);
      if (find_member(json, "forgot") != nullptr) state.forgot = get_seq(json, "forgot", what);
    } catch (const Error& e) {
      fail(ErrorKind::config, "{}: this is no answer of a receiver; check \"url\": {}", what, on_one_line(e.what()));
    }
    return state;
  }

  std::string state_dir_;
  SinkConfig sink_;
  ReceiverLink link_;
};

}  // namespace

std::unique_ptr<Destination> make_forward_destination(const Cache& cache, const SinkConfig& sink,
                                                      const std::atomic<bool>* cancelled) {
  if (sink.forward.url.empty()) fail(ErrorKind::config, "sink {}: it has no url", sink.name);
  return std::make_unique<ForwardDestination>(cache, sink, cancelled);
}

}  // namespace firn::hyp
