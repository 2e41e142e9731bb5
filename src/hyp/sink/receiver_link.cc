#include "hyp/sink/receiver_link.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <set>

#include "base/clock.h"
#include "base/fault_point.h"
#include "base/json.h"
#include "base/log.h"
#include "base/one_line.h"
#include "hyp/sink/backpressure.h"
#include "io/file_io.h"

namespace firn::hyp {
namespace {

constexpr size_t kQuotedBytesMax = 200;  // of an answer that is not JSON

bool says_later(int status) {
  return status == 408 || status == 429 || status == 502 || status == 503 || status == 504;
}

// 429 and 503 come before a body is taken; the others may have lost the answer of one that was.
bool may_have_taken(int status) { return status != 429 && status != 503; }

void warn_of_open_token(const SinkConfig& sink) {
  static std::mutex mutex;
  static std::set<std::string> warned;
  const std::string& url = sink.forward.url;
  if (!url.starts_with("http://") || is_loopback(url)) return;
  const std::lock_guard guard(mutex);
  if (warned.insert(url).second)
    spdlog::warn("sink {}: its token goes to {} unencrypted; use https, or a tunnel", sink.name, url);
}

int64_t whole_seconds(int64_t wait_ms) { return (wait_ms + 999) / 1000; }

std::optional<int64_t> asked_wait_ms(const HttpAnswer& answer) {
  const auto header = answer.headers.find("retry-after");
  return header == answer.headers.end() ? std::nullopt : parse_retry_after(header->second, now_ms());
}

}  // namespace

std::string message_of(const HttpAnswer& answer) {
  const Json json = Json::parse(answer.body, nullptr, /*allow_exceptions=*/false);
  if (json.is_object()) {
    const auto error = json.find("error");
    if (error != json.end() && error->is_string()) return on_one_line(error->get<std::string>());
  }
  std::string text = answer.body.substr(0, kQuotedBytesMax);
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c == 127; }, ' ');
  return fmt::format("HTTP status {}{}{}", answer.status, text.empty() ? "" : ": ", on_one_line(text));
}

void fail_answer(const HttpAnswer& answer, const std::string& what) {
  if (answer.status >= 300 && answer.status < 400) {
    const auto to = answer.headers.find("location");
    fail(ErrorKind::config,
         "{}: the receiver redirects to {}, which is not followed: set \"url\" to where it really is", what,
         to == answer.headers.end() ? "nowhere" : on_one_line(to->second));
  }
  if (answer.status < 300)
    fail(ErrorKind::config, "{}: {} is no answer of a receiver to that: check \"url\"", what, answer.status);
  fail(answer.status < 500 ? ErrorKind::config : ErrorKind::io, "{}: the receiver says {}: {}", what, answer.status,
       message_of(answer));
}

ReceiverLink::ReceiverLink(const SinkConfig& sink, const std::atomic<bool>* cancelled)
    : sink_(sink), cancelled_(cancelled) {
  read_token();
  if (!token_.empty()) warn_of_open_token(sink_);
}

std::string ReceiverLink::token_origin() const {
  const ForwardConfig& forward = sink_.forward;
  if (!forward.token_file.empty()) return "the token of " + forward.token_file;
  return "the token in the environment variable " + forward.token_env;
}

void ReceiverLink::read_token() {
  const ForwardConfig& forward = sink_.forward;
  std::string token;
  if (!forward.token_file.empty()) {
    try {
      token = make_local_file_io()->read(forward.token_file);
    } catch (const Error& e) {
      throw Error(ErrorKind::config, fmt::format("sink {}: its tokenFile cannot be read", sink_.name), e);
    }
  } else if (!forward.token_env.empty()) {
    const char* value = std::getenv(forward.token_env.c_str());
    if (value == nullptr)
      fail(ErrorKind::config, "sink {}: the environment variable {} (tokenEnv) is not set", sink_.name,
           forward.token_env);
    token = value;
  } else {
    return;
  }
  token.erase(token.find_last_not_of(" \t\r\n") + 1);
  const auto is_odd = [](unsigned char c) { return c <= ' ' || c >= 127; };
  if (token.empty() || std::any_of(token.begin(), token.end(), is_odd))
    fail(ErrorKind::config, "sink {}: {} is empty, or has spaces or other bytes that no token has", sink_.name,
         token_origin());
  const std::lock_guard guard(mutex_);
  token_ = token;
}

void ReceiverLink::tell_wait(const std::string& why, int64_t wait_ms) const {
  if (tell_) tell_(fmt::format("{}; trying again in {} s", why, whole_seconds(wait_ms)));
}

std::string ReceiverLink::token() {
  const std::lock_guard guard(mutex_);
  return token_;
}

HttpAnswer ReceiverLink::send(const std::string& method, const std::string& url,
                              const std::vector<std::string>& headers, const std::string& body) {
  std::unique_ptr<HttpClient> client;
  {
    const std::lock_guard guard(mutex_);
    if (!idle_.empty()) {
      client = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (!client) {
    HttpClientOptions options;
    options.ca_file = sink_.forward.ca_file;
    options.proxy = sink_.forward.proxy;
    options.cancelled = cancelled_;
    client = std::make_unique<HttpClient>(options);
  }
  HttpAnswer answer = client->send(method, url, headers, body);  // a client that failed is not used again
  const auto receiver = answer.headers.find("x-hyp-receiver");
  const std::lock_guard guard(mutex_);
  if (receiver != answer.headers.end()) receiver_id_ = receiver->second;
  idle_.push_back(std::move(client));
  return answer;
}

std::string ReceiverLink::receiver() {
  const std::lock_guard guard(mutex_);
  return receiver_id_.empty() ? url() : receiver_id_;
}

ReceiverReply ReceiverLink::exchange(const std::string& method, const std::string& path,
                                     std::vector<std::string> headers, const std::string& body) {
  const std::string url = sink_.forward.url + path;
  Backpressure pressure(cancelled_);
  ReceiverReply reply;
  bool is_token_renewed = false;
  headers.emplace_back();
  for (;;) {
    throw_if_cancelled(cancelled_);
    const std::string used = token();
    headers.back() = used.empty() ? "Accept: application/json" : "Authorization: Bearer " + used;
    try {
      fault_point("forward.before-send");
      reply.answer = send(method, url, headers, body);
      fault_point("forward.answered");
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::io) throw;
      reply.may_have_landed_before = true;
      const auto tell = [&](int64_t wait_ms) {
        spdlog::log(tell_ ? spdlog::level::info : spdlog::level::warn, "sink {}: {}; trying again in {} s", sink_.name,
                    e.what(), whole_seconds(wait_ms));
        tell_wait(e.what(), wait_ms);
      };
      if (!pressure.wait(std::nullopt, tell))
        throw Error(ErrorKind::io, fmt::format("the receiver was silent for {} s", pressure.waited_ms() / 1000), e);
      continue;
    }
    const int status = reply.answer.status;
    if (status == 401) {
      if (used.empty())
        fail(
            ErrorKind::config,
            "{}: the receiver wants a token, and the sink has none: name the file that `hyp gateway add` made there as "
            "\"tokenFile\", or a variable as \"tokenEnv\"",
            url);
      if (is_token_renewed)
        fail(ErrorKind::config,
             "{}: the receiver does not know {}: {}. `hyp gateway rotate NAME` there makes a new one", url,
             token_origin(), message_of(reply.answer));
      is_token_renewed = true;
      read_token();
      continue;
    }
    if (!says_later(status)) return reply;
    reply.may_have_landed_before |= may_have_taken(status);
    const auto tell = [&](int64_t wait_ms) {
      spdlog::info("sink {}: {} {}: {}; trying again in {} s", sink_.name, url, status, message_of(reply.answer),
                   whole_seconds(wait_ms));
      tell_wait(fmt::format("{} answers {}: {}", url, status, message_of(reply.answer)), wait_ms);
    };
    if (!pressure.wait(asked_wait_ms(reply.answer), tell)) {
      fail(reply.may_have_landed_before ? ErrorKind::io : ErrorKind::busy,
           "{}: the receiver takes nothing for now ({}: {}), after {} s of waiting; a later run goes on", url, status,
           message_of(reply.answer), pressure.waited_ms() / 1000);
    }
  }
}

ReceiverReply ReceiverLink::post(const std::string& path, const std::vector<std::string>& headers,
                                 const std::string& body) {
  return exchange("POST", path, headers, body);
}

ReceiverReply ReceiverLink::get(const std::string& path) { return exchange("GET", path, {}, ""); }

}  // namespace firn::hyp
