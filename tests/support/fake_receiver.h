// A receiver in memory that keeps the rules of P10.5 to P10.7 and P11, for tests of what sends to one.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <zstd.h>

#include "base/json.h"
#include "hyp/http/http_server.h"
#include "hyp/http/wire.h"

namespace firn::hyp {

// Thread-safe.
class FakeReceiver {
 public:
  static constexpr size_t kOpensKept = 64;  // P10.7

  struct Stream {
    std::map<std::string, int64_t> opens;
    std::vector<std::string> order;  // of the opens, the latest last
    std::optional<int64_t> forgot;
  };
  struct Contents {  // what a backup of it has
    std::map<std::string, Stream> streams;
    std::map<std::string, std::vector<std::string>> rows;  // by dataset, in the order in which they came
    std::map<std::string, std::string> batches;            // digest (here: the body) by id
  };

  FakeReceiver() { start(); }
  uint16_t port() const { return server_->port(); }
  std::string url() const { return fmt::format("http://127.0.0.1:{}", port()); }

  void stop() { server_.reset(); }
  void start() {
    HttpServerOptions options;
    options.listen = "127.0.0.1:0";
    options.threads = 4;
    server_ = std::make_unique<HttpServer>(options, [this](const HttpRequest& request) { return answer(request); });
  }

  std::vector<std::string> rows(const std::string& dataset) const {
    const std::lock_guard guard(mutex_);
    const auto found = contents_.rows.find(dataset);
    return found == contents_.rows.end() ? std::vector<std::string>() : found->second;
  }
  Contents contents() const {
    const std::lock_guard guard(mutex_);
    return contents_;
  }
  void set_contents(Contents contents) {
    const std::lock_guard guard(mutex_);
    contents_ = std::move(contents);
  }
  void forget_batch_ids() {
    const std::lock_guard guard(mutex_);
    contents_.batches.clear();
  }
  // Rows for which it is true are refused with `status`; with `tells_line` the answer names the first of them.
  void refuse_rows(std::function<bool(const std::string& row)> is_bad, int status = 422, bool tells_line = true) {
    const std::lock_guard guard(mutex_);
    is_bad_ = std::move(is_bad);
    bad_status_ = status;
    tells_line_ = tells_line;
  }
  void set_body_bytes_max(size_t bytes) {
    const std::lock_guard guard(mutex_);
    body_bytes_max_ = bytes;
  }
  void set_token(const std::string& token) {
    const std::lock_guard guard(mutex_);
    token_ = token;
  }
  int64_t num_posts() const {
    const std::lock_guard guard(mutex_);
    return num_posts_;
  }

 private:
  HttpResponse answer(const HttpRequest& request) {
    const std::lock_guard guard(mutex_);
    if (!token_.empty() && header(request, "authorization") != "Bearer " + token_)
      return {401, "{\"error\":\"unknown token\"}\n", {}};
    if (request.method == "GET" && request.path.starts_with(kStreamsPath)) return stream_answer(request);
    if (request.method != "POST" || !request.path.starts_with(kIngestPath))
      return {404, "{\"error\":\"no such path\"}\n", {}};
    ++num_posts_;
    return take(request);
  }

  static std::string header(const HttpRequest& request, const std::string& name) {
    const auto found = request.headers.find(name);
    return found == request.headers.end() ? "" : found->second;
  }

  HttpResponse stream_answer(const HttpRequest& request) const {
    Json json = {{"opens", Json::object()}, {"forgot", nullptr}};
    const auto found = contents_.streams.find(request.path.substr(std::string(kStreamsPath).size()));
    if (found != contents_.streams.end()) {
      for (const auto& [open, last] : found->second.opens) json["opens"][open] = std::to_string(last);
      if (found->second.forgot) json["forgot"] = std::to_string(*found->second.forgot);
    }
    return {200, json.dump(), {}};
  }

  static std::string body_of(const HttpRequest& request) {
    if (header(request, "content-encoding") != "zstd") return request.body;
    std::string text(::ZSTD_getFrameContentSize(request.body.data(), request.body.size()), '\0');
    text.resize(::ZSTD_decompress(text.data(), text.size(), request.body.data(), request.body.size()));
    return text;
  }

  HttpResponse take(const HttpRequest& request) {
    const std::string text = body_of(request), id = header(request, "x-hyp-batch-id"),
                      name = header(request, "x-hyp-stream"), open = header(request, "x-hyp-open");
    const SeqRange range = parse_seq_range(header(request, "x-hyp-seq-range"));
    if (id.empty() || name.empty() || open.empty()) return {400, "{\"error\":\"a header is missing\"}\n", {}};
    if (text.size() > body_bytes_max_) return {413, "{\"error\":\"too long\"}\n", {}};
    std::vector<std::string> lines;
    for (size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
      lines.push_back(text.substr(begin, end - begin));
      if (!is_bad_ || !is_bad_(lines.back())) continue;
      Json json = {{"error", "bad row"}};
      if (tells_line_) json["line"] = lines.size();
      return {bad_status_, json.dump(), {}};
    }
    Stream& stream = contents_.streams[name];
    const auto known = stream.opens.find(open);
    const auto batch = contents_.batches.find(id);
    if (batch != contents_.batches.end() && batch->second == text && known != stream.opens.end() &&
        (range.reset || known->second >= range.until)) {
      return {202, Json{{"rows", lines.size()}}.dump(), {}};
    }
    const bool is_next =
        known != stream.opens.end() ? known->second == range.reset.value_or(range.since) : range.start && !range.reset;
    if (known == stream.opens.end() && stream.forgot && range.since < *stream.forgot) {
      return {409, R"({"error":"too old an open","kind":"destination_forgot","last":null})", {}};
    }
    if (!is_next) {
      Json json = {{"error", "not next"}, {"kind", "destination_behind"}, {"last", nullptr}};
      if (known != stream.opens.end()) json["last"] = std::to_string(known->second);
      return {409, json.dump(), {}};
    }
    if (known == stream.opens.end()) stream.order.push_back(open);
    stream.opens[open] = range.until;
    if (stream.order.size() > kOpensKept) {
      const int64_t last = stream.opens[stream.order.front()];
      stream.forgot = std::max(stream.forgot.value_or(last), last);
      stream.opens.erase(stream.order.front());
      stream.order.erase(stream.order.begin());
    }
    contents_.batches[id] = text;
    auto& rows = contents_.rows[request.path.substr(std::string(kIngestPath).size())];
    rows.insert(rows.end(), lines.begin(), lines.end());
    return {202, Json{{"rows", lines.size()}}.dump(), {}};
  }

  mutable std::mutex mutex_;
  Contents contents_;
  std::function<bool(const std::string&)> is_bad_;
  int bad_status_ = 422;
  bool tells_line_ = true;
  size_t body_bytes_max_ = 64 << 20;
  std::string token_;
  int64_t num_posts_ = 0;
  std::unique_ptr<HttpServer> server_;  // last: its threads use the rest
};

}  // namespace firn::hyp
