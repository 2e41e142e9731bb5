#include "hyp/http/http_server.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <list>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/threads.h"
#include "hyp/http/tls_context.h"

namespace firn::hyp {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using tcp = asio::ip::tcp;
using TlsStream = beast::ssl_stream<beast::tcp_stream>;
using Milliseconds = std::chrono::milliseconds;
using Parser = http::request_parser<http::string_body>;

constexpr auto kStopGrace = std::chrono::seconds(2);  // for requests that are arriving at the stop
constexpr auto kDrainMax = std::chrono::seconds(2);   // for what a client still sends when it has its answer
constexpr auto kGoodbyeMax = std::chrono::seconds(1);
constexpr auto kAcceptPause = Milliseconds(100);
constexpr size_t kBufferBytesMax = 128 << 10;  // of a connection: its head, chunk heads, a piece of its body
constexpr size_t kHeaderFieldsMax = 100;
constexpr int64_t kRefusingMax = 64;    // connections over the limit that are told so at once; others are just closed
constexpr int64_t kMakingRoomMax = 16;  // connections over the limit while others are being closed for them

std::string percent_decode(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto hex = [](char c) {
      return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
    };
    if (text[i] == '%' && i + 2 < text.size() && hex(text[i + 1]) >= 0 && hex(text[i + 2]) >= 0) {
      out += static_cast<char>(hex(text[i + 1]) * 16 + hex(text[i + 2]));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

http::response<http::string_body> to_beast(HttpResponse answer, bool keep_alive) {
  http::response<http::string_body> response(static_cast<http::status>(answer.status), 11);
  response.set(http::field::content_type, "application/json");
  for (const auto& [name, value] : answer.headers) response.set(name, value);
  response.keep_alive(keep_alive);
  response.body() = std::move(answer.body);
  response.prepare_payload();
  return response;
}

// What the head says, as far as it could be read.
void fill_head(const http::request<http::string_body>& head, HttpRequest& request) {
  request.method = std::string(head.method_string());
  request.target = std::string(head.target());
  request.path = percent_decode(std::string_view(request.target).substr(0, request.target.find('?')));
  for (const auto& field : head) {
    std::string name(field.name_string());
    for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    request.headers[name] = std::string(field.value());
  }
}

// As a peer on a dual-stack socket is called by what it is.
asio::ip::address plain_address(const asio::ip::address& address) {
  if (address.is_v6() && address.to_v6().is_v4_mapped())
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6());
  return address;
}

// Cancels what a stream waits for when its time is over. The stream's own limit would close it, and leave the client
// without an answer. One for all waits of a stream: what ends in time leaves the timer running, which then finds that a
// later end counts and goes on to it, so that a wait costs no timer. Of the stream's strand.
class TimeLimit {
 public:
  explicit TimeLimit(beast::tcp_stream& stream) : shared_(std::make_shared<Shared>(stream)) {}
  ~TimeLimit() {
    shared_->stream = nullptr;
    shared_->timer.cancel();
  }
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;

  void start(Milliseconds time) {
    shared_->has_passed = false;
    shared_->ends_at = Clock::now() + time;
    if (shared_->ends_at < shared_->wakes_at) wait(shared_);
  }
  void stop() { shared_->ends_at = Clock::time_point::max(); }
  bool has_passed() const { return shared_->has_passed; }

 private:
  using Clock = asio::steady_timer::clock_type;
  struct Shared {
    explicit Shared(beast::tcp_stream& limited) : timer(limited.get_executor()), stream(&limited) {}
    asio::steady_timer timer;
    beast::tcp_stream* stream;
    Clock::time_point ends_at = Clock::time_point::max();   // of what is limited now; max: nothing is
    Clock::time_point wakes_at = Clock::time_point::max();  // of the timer; max: it does not run
    bool has_passed = false;
  };
  static void wait(const std::shared_ptr<Shared>& shared) {
    shared->wakes_at = shared->ends_at;
    shared->timer.expires_at(shared->ends_at);
    shared->timer.async_wait([shared](const beast::error_code& error) {  // may run after the limit is gone
      if (error || shared->stream == nullptr) return;
      shared->wakes_at = Clock::time_point::max();
      if (shared->ends_at == Clock::time_point::max()) return;
      if (Clock::now() < shared->ends_at) return wait(shared);
      shared->ends_at = Clock::time_point::max();
      shared->has_passed = true;
      shared->stream->cancel();
    });
  }
  const std::shared_ptr<Shared> shared_;
};

// An answer that is waited for. Of the connection's strand, and gone with it.
struct AwaitedAnswer {
  explicit AwaitedAnswer(const asio::any_io_executor& executor) : arrival(executor) {
    arrival.expires_at(asio::steady_timer::time_point::max());
  }
  asio::steady_timer arrival;
  std::optional<HttpResponse> answer;
};

// The promise to give one. A handler may keep it for longer than the server lives, so it holds nothing of it.
class AnswerPromise {
 public:
  explicit AnswerPromise(const std::shared_ptr<AwaitedAnswer>& awaited) : awaited_(awaited) {}
  ~AnswerPromise() {
    if (!is_given_) give(error_answer(500, "the request was dropped without an answer"));
  }
  AnswerPromise(const AnswerPromise&) = delete;
  AnswerPromise& operator=(const AnswerPromise&) = delete;
  void give(HttpResponse answer) {
    if (is_given_.exchange(true)) return;
    const auto awaited = awaited_.lock();
    if (!awaited) return;
    asio::post(awaited->arrival.get_executor(), [weak = awaited_, answer = std::move(answer)]() mutable {
      const auto waiting = weak.lock();
      if (!waiting) return;
      waiting->answer = std::move(answer);
      waiting->arrival.cancel();
    });
  }

 private:
  std::weak_ptr<AwaitedAnswer> awaited_;
  std::atomic<bool> is_given_{false};
};

// A stream that waits for its peer. Those without a whole head, and those that have their last answer, are closed at
// once at the stop or to make room; the others soon.
struct Reading {
  beast::tcp_stream* stream;
  bool has_begun = false;   // the head is there
  bool is_closing = false;  // to make room for another
};

}  // namespace

HttpResponse error_answer(int status, std::string_view message) {
  return {status, Json{{"error", message}}.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n", {}};
}

HttpResponse busy_answer(int status, std::string_view message, int64_t retry_after_s) {
  HttpResponse answer = error_answer(status, message);
  answer.headers["Retry-After"] = std::to_string(retry_after_s);
  return answer;
}

const std::string* HttpRequest::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? nullptr : &found->second;
}

struct HttpServer::State {
  HttpServerOptions options;
  HttpHandlers handlers;
  std::unique_ptr<TlsServerContext> tls;
  asio::io_context context;
  tcp::acceptor acceptor{asio::make_strand(context)};
  std::vector<std::jthread> threads;
  std::atomic<int64_t> connections{0};
  std::atomic<int64_t> refusing{0};
  std::atomic<int64_t> body_bytes{0};  // of all requests that are being received or answered
  std::atomic<bool> stopping{false};
  std::mutex mutex;
  std::list<Reading> readings;  // of mutex; the longest waiting first

  // What a request's body takes of body_bytes, until destroyed.
  struct BodyShare {
    State& state;
    int64_t bytes = 0;
    ~BodyShare() { release(); }
    void release() {
      state.body_bytes -= bytes;
      bytes = 0;
    }
    bool grow_to(int64_t wanted) {
      if (wanted <= bytes) return true;
      const int64_t more = wanted - bytes;
      if (state.body_bytes.fetch_add(more) + more > state.options.bodies_bytes_max) {
        state.body_bytes -= more;
        return false;
      }
      bytes = wanted;
      return true;
    }
  };

  // Lists a stream as reading while it lives.
  struct ReadingScope {
    State& state;
    std::list<Reading>::iterator place;
    ReadingScope(State& s, beast::tcp_stream& stream) : state(s) {
      std::lock_guard guard(state.mutex);
      place = state.readings.insert(state.readings.end(), {&stream});
    }
    ~ReadingScope() {
      std::lock_guard guard(state.mutex);
      state.readings.erase(place);
    }
    void begin() {
      std::lock_guard guard(state.mutex);
      place->has_begun = true;
    }
  };

  // Ends its wait, on its own strand. Requires mutex.
  void cancel(const Reading& reading, bool only_without_request) {
    asio::post(reading.stream->get_executor(), [this, stream = reading.stream, only_without_request] {
      std::lock_guard guard(mutex);  // it may have got its request, or be gone
      for (const Reading& one : readings) {
        if (one.stream == stream && !(only_without_request && one.has_begun)) stream->cancel();
      }
    });
  }

  // One request under way.
  struct Exchange {
    HttpRequest request;
    HttpServed served;
    int64_t started_us = 0;
    std::optional<HttpResponse> refusal;
    bool is_gone = false;  // nobody waits for an answer
    bool keep_alive = false;
    std::optional<int64_t> unread_bytes;  // of the body of a refused request, if it is known where it ends
  };

  void refuse(Exchange& exchange, HttpResponse answer, std::string problem) {
    exchange.refusal = std::move(answer);
    exchange.served.problem = std::move(problem);
  }

  void refuse(Exchange& exchange, int status, const std::string& problem) {
    refuse(exchange, error_answer(status, problem), problem);
  }

  void refuse_full(Exchange& exchange) {
    constexpr const char* kProblem = "too many bodies are being received";
    refuse(exchange, busy_answer(503, kProblem, 1), kProblem);
  }

  void leave(Exchange& exchange, const char* problem) {
    exchange.is_gone = true;
    exchange.served.problem = problem;
  }

  // `part`: what was being read.
  void note_error(Exchange& exchange, const beast::error_code& error, const TimeLimit& limit, const char* part) {
    if (error == asio::error::operation_aborted && limit.has_passed()) {
      return refuse(exchange, 408, fmt::format("the {} took too long", part));
    }
    if (error == http::error::body_limit) {
      return refuse(exchange, 413, fmt::format("the body is longer than {} bytes", options.body_bytes_max));
    }
    if (error == http::error::header_limit || error == http::error::buffer_overflow)
      return refuse(exchange, 431, fmt::format("the {} is too long", part));
    if (error == http::error::end_of_stream || error == http::error::partial_message)
      return refuse(exchange, 400, fmt::format("the connection ended within the {}", part));
    if (error.category() == http::make_error_code(http::error::bad_version).category())
      return refuse(exchange, 400, "this is no HTTP request: " + error.message());
    leave(exchange, error == asio::error::operation_aborted ? "closed by the server" : "the peer went away");
  }

  // nullopt of refusal: the head is right, as far as the server is concerned.
  void check_head(const Parser& parser, Exchange& exchange) {
    const auto& head = parser.get();
    const auto num_fields = static_cast<size_t>(std::distance(head.begin(), head.end()));
    if (num_fields > kHeaderFieldsMax)
      return refuse(exchange, 431, fmt::format("there are more than {} header fields", kHeaderFieldsMax));
    // A proxy before us might believe the other one, and see another request behind this body.
    const std::string coding(head[http::field::transfer_encoding]);
    if (!coding.empty() && head.count(http::field::content_length) > 0)
      return refuse(exchange, 400, "Content-Length and Transfer-Encoding exclude each other");
    // A body whose length nobody told would be taken for none.
    if (!coding.empty() && !beast::iequals(coding, "chunked"))
      return refuse(exchange, 501, "the only Transfer-Encoding that is understood is chunked");
    const bool has_body = head.method() == http::verb::post || head.method() == http::verb::put;
    if (coding.empty() && !parser.content_length() && has_body)
      return refuse(exchange, 411, "send Content-Length, or Transfer-Encoding: chunked");
    const std::string expectation(head[http::field::expect]);
    if (!expectation.empty() && !beast::iequals(expectation, "100-continue"))
      return refuse(exchange, 417, "the only Expect that is understood is 100-continue");
    if (const auto length = parser.content_length()) {
      exchange.request.content_length = static_cast<int64_t>(std::min<uint64_t>(*length, INT64_MAX));
    }
  }

  // For what is left of a request's time, and no longer than it may be still. False: nothing is left.
  bool limit_body_read(TimeLimit& limit, Exchange& exchange) {
    const int64_t left_ms = (exchange.started_us + options.request_ms_max * 1000 - steady_us()) / 1000;
    if (left_ms > 0) {
      limit.start(Milliseconds(std::min(left_ms, options.idle_ms_max)));
    } else {
      refuse(exchange, 408, "the request took too long");
    }
    return left_ms > 0;
  }

  // One whose length is not known, through the parser.
  template <class Stream>
  asio::awaitable<void> receive_chunks(Stream& stream, beast::flat_buffer& buffer, Parser& parser, BodyShare& share,
                                       TimeLimit& limit, Exchange& exchange) {
    beast::error_code error;
    parser.eager(true);
    while (!error && !parser.is_done()) {
      if (!limit_body_read(limit, exchange)) co_return;
      co_await http::async_read_some(stream, buffer, parser, asio::redirect_error(asio::use_awaitable, error));
      limit.stop();
      exchange.served.body_bytes = static_cast<int64_t>(parser.get().body().size());
      if (!share.grow_to(exchange.served.body_bytes)) co_return refuse_full(exchange);
    }
    if (error) co_return note_error(exchange, error, limit, "body");
    exchange.request.body = std::move(parser.get().body());
  }

  // One whose length is known: right to where it stays, in pieces as long as they come. Those that the parser reads are
  // as long as its buffer, which is one for heads.
  template <class Stream>
  asio::awaitable<void> receive_body(Stream& stream, beast::flat_buffer& buffer, size_t length, TimeLimit& limit,
                                     Exchange& exchange) {
    constexpr size_t kPieceBytes = 256 << 10;  // made ready at once: who announces a body may never send it
    std::string& body = exchange.request.body;
    body.reserve(length);
    size_t filled = std::min(length, buffer.size());
    body.assign(static_cast<const char*>(buffer.data().data()), filled);
    buffer.consume(filled);
    exchange.served.body_bytes = static_cast<int64_t>(filled);
    beast::error_code error;
    while (!error && filled < length) {
      if (filled == body.size()) body.resize(std::min(length, filled + kPieceBytes));
      if (!limit_body_read(limit, exchange)) co_return;
      const size_t count = co_await stream.async_read_some(asio::buffer(body.data() + filled, body.size() - filled),
                                                           asio::redirect_error(asio::use_awaitable, error));
      limit.stop();
      filled += count;
      exchange.served.body_bytes = static_cast<int64_t>(filled);
    }
    if (error == asio::error::eof) error = http::error::partial_message;
    if (error) co_return note_error(exchange, error, limit, "body");
  }

  // Until a request is there, or refused, or nobody waits any more.
  template <class Stream>
  asio::awaitable<void> receive(Stream& stream, beast::flat_buffer& buffer, TimeLimit& limit, BodyShare& share,
                                Exchange& exchange) {
    beast::tcp_stream& socket = beast::get_lowest_layer(stream);
    ReadingScope reading(*this, socket);
    if (stopping) {
      exchange.is_gone = true;
      co_return;
    }
    beast::error_code error;
    if (buffer.size() == 0) {
      limit.start(Milliseconds(options.idle_ms_max));
      const size_t count =
          co_await stream.async_read_some(buffer.prepare(4096), asio::redirect_error(asio::use_awaitable, error));
      limit.stop();
      buffer.commit(count);
      if (error || count == 0) {  // no request began
        exchange.is_gone = true;
        co_return;
      }
    }
    exchange.started_us = steady_us();
    Parser parser;
    parser.header_limit(static_cast<uint32_t>(options.header_bytes_max));
    parser.body_limit(boost::none);  // compared once the head was admitted
    limit.start(Milliseconds(options.header_ms_max));
    co_await http::async_read_header(stream, buffer, parser, asio::redirect_error(asio::use_awaitable, error));
    limit.stop();
    fill_head(parser.get(), exchange.request);
    if (error) co_return note_error(exchange, error, limit, "head");
    reading.begin();
    check_head(parser, exchange);
    if (exchange.refusal) co_return;
    exchange.request.reserve = [&share](int64_t bytes) { return share.grow_to(share.bytes + bytes); };
    try {
      if (handlers.admit) exchange.refusal = handlers.admit(exchange.request);
    } catch (const std::exception& e) {
      spdlog::error("{} {}: {}", exchange.request.method, exchange.request.path, e.what());
      exchange.refusal = error_answer(500, e.what());
    }
    const int64_t announced = exchange.request.content_length.value_or(0);
    exchange.keep_alive = parser.get().keep_alive();
    // Who waits for leave to send its body may send another request instead.
    const bool ends_known = parser.get()[http::field::expect].empty() && !parser.chunked();
    if (exchange.refusal) {
      if (ends_known && announced <= options.body_bytes_max && exchange.refusal->status != 401)
        exchange.unread_bytes = announced;
      co_return;
    }
    if (announced > options.body_bytes_max) co_return note_error(exchange, http::error::body_limit, limit, "body");
    parser.body_limit(static_cast<uint64_t>(options.body_bytes_max));
    if (!share.grow_to(announced)) {
      if (ends_known) exchange.unread_bytes = announced;
      co_return refuse_full(exchange);
    }
    if (!parser.get()[http::field::expect].empty() && parser.get().version() >= 11) {
      http::response<http::empty_body> go_on(http::status::continue_, 11);
      limit.start(Milliseconds(options.idle_ms_max));
      co_await http::async_write(stream, go_on, asio::redirect_error(asio::use_awaitable, error));
      limit.stop();
      if (error) co_return leave(exchange, "the peer went away");
    }
    if (parser.content_length()) {
      co_await receive_body(stream, buffer, static_cast<size_t>(announced), limit, exchange);
    } else {
      co_await receive_chunks(stream, buffer, parser, share, limit, exchange);
    }
  }

  asio::awaitable<HttpResponse> answer(HttpRequest& request) {
    const auto awaited = std::make_shared<AwaitedAnswer>(co_await asio::this_coro::executor);
    auto promise = std::make_shared<AnswerPromise>(awaited);
    try {
      handlers.handle(request, [promise](HttpResponse answer) { promise->give(std::move(answer)); });
    } catch (const std::exception& e) {
      spdlog::error("{} {}: {}", request.method, request.path, e.what());
      promise->give(error_answer(500, e.what()));
    }
    promise.reset();
    // The answer arrives by this strand, so not before the wait below has begun.
    beast::error_code cancelled;
    co_await awaited->arrival.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
    co_return std::move(*awaited->answer);
  }

  void tell(Exchange& exchange) {
    if (!handlers.served) return;
    exchange.served.micros = steady_us() - exchange.started_us;
    handlers.served(exchange.request, exchange.served);
  }

  // One connection's requests, one after another.
  template <class Stream>
  asio::awaitable<void> serve_requests(Stream& stream, const HttpRequest& blank) {
    beast::tcp_stream& socket = beast::get_lowest_layer(stream);
    beast::flat_buffer buffer(kBufferBytesMax);
    TimeLimit limit(socket);
    for (bool keep_alive = true; keep_alive;) {
      Exchange exchange;
      exchange.request = blank;
      BodyShare share{*this};
      co_await receive(stream, buffer, limit, share, exchange);
      if (exchange.is_gone) {
        if (!exchange.served.problem.empty()) tell(exchange);
        break;
      }
      keep_alive = exchange.keep_alive && (!exchange.refusal || exchange.unread_bytes) && !stopping;
      HttpResponse answered;
      if (exchange.refusal) {
        answered = std::move(*exchange.refusal);
      } else {
        answered = co_await answer(exchange.request);
      }
      exchange.request.body = {};
      share.release();
      exchange.served.status = answered.status;
      auto response = to_beast(std::move(answered), keep_alive);
      if (exchange.request.method == "HEAD") response.body().clear();  // its length stays in the header
      beast::error_code error;
      limit.start(Milliseconds(options.idle_ms_max));
      co_await http::async_write(stream, response, asio::redirect_error(asio::use_awaitable, error));
      limit.stop();
      if (error) exchange.served.problem = "the peer went away before its answer";
      tell(exchange);
      if (error) co_return;
      if (exchange.refusal && !keep_alive) {
        co_await drain(socket);
      } else if (exchange.refusal) {
        keep_alive = co_await discard_body(stream, buffer, limit, exchange);
      }
    }
    co_await say_goodbye(stream);
  }

  // Past the body of a request that was refused by its head: a new connection would cost both sides more. False: the
  // client does not send it.
  template <class Stream>
  asio::awaitable<bool> discard_body(Stream& stream, beast::flat_buffer& buffer, TimeLimit& limit,
                                     const Exchange& exchange) {
    beast::tcp_stream& socket = beast::get_lowest_layer(stream);
    const ReadingScope reading(*this, socket);
    beast::error_code error;
    const int64_t deadline_us = exchange.started_us + options.request_ms_max * 1000;
    for (auto left = static_cast<size_t>(*exchange.unread_bytes);;) {
      const size_t here = std::min(left, buffer.size());
      buffer.consume(here);
      left -= here;
      const int64_t left_ms = (deadline_us - steady_us()) / 1000;
      if (left == 0) co_return true;
      if (error || stopping || left_ms <= 0) co_return false;
      limit.start(Milliseconds(std::min(left_ms, options.idle_ms_max)));
      const size_t count =
          co_await stream.async_read_some(buffer.prepare(65536), asio::redirect_error(asio::use_awaitable, error));
      limit.stop();
      buffer.commit(count);
    }
  }

  template <class Stream>
  asio::awaitable<void> say_goodbye(Stream& stream) {
    beast::error_code ignored;  // the peer may be gone
    beast::tcp_stream& socket = beast::get_lowest_layer(stream);
    if constexpr (std::is_same_v<Stream, TlsStream>) {
      const ReadingScope reading(*this, socket);
      socket.expires_after(kGoodbyeMax);
      co_await stream.async_shutdown(asio::redirect_error(asio::use_awaitable, ignored));
    }
    socket.socket().shutdown(tcp::socket::shutdown_send, ignored);
  }

  // Reads what the client is still sending: closing with bytes unread would take the answer from it.
  asio::awaitable<void> drain(beast::tcp_stream& socket) {
    const ReadingScope reading(*this, socket);
    beast::error_code error;
    socket.socket().shutdown(tcp::socket::shutdown_send, error);
    std::array<char, 65536> unread;
    socket.expires_after(kDrainMax);
    while (!error && !stopping) {
      co_await socket.async_read_some(asio::buffer(unread), asio::redirect_error(asio::use_awaitable, error));
    }
  }

  asio::awaitable<void> serve(tcp::socket socket, HttpRequest blank) {
    struct Counted {
      std::atomic<int64_t>& connections;
      ~Counted() { --connections; }
    } counted{connections};
    if (!tls) {
      beast::tcp_stream stream(std::move(socket));
      co_await serve_requests(stream, blank);
      co_return;
    }
    const auto tls_context = tls->get();
    TlsStream stream(beast::tcp_stream(std::move(socket)), *tls_context);
    beast::error_code error;
    bool is_plain_http = false;
    {
      const int64_t started_us = steady_us();
      ReadingScope reading(*this, beast::get_lowest_layer(stream));
      TimeLimit limit(beast::get_lowest_layer(stream));
      limit.start(Milliseconds(options.header_ms_max));
      co_await stream.async_handshake(asio::ssl::stream_base::server, asio::redirect_error(asio::use_awaitable, error));
      is_plain_http = error.category() == asio::error::get_ssl_category() &&
                      ERR_GET_REASON(static_cast<unsigned long>(error.value())) == SSL_R_HTTP_REQUEST;
      if (error && !stopping) {
        Exchange exchange{.request = blank, .started_us = started_us};
        exchange.served.status = is_plain_http ? 400 : 0;
        exchange.served.problem =
            "the TLS handshake failed: " + (limit.has_passed() ? "it took too long" : error.message());
        tell(exchange);
      }
    }
    if (!error) co_await serve_requests(stream, blank);
    if (is_plain_http && !stopping) {
      co_await refuse_plainly(beast::get_lowest_layer(stream),
                              error_answer(400, "TLS is spoken here: the address begins with https://"));
    }
  }

  asio::awaitable<void> refuse_connection(tcp::socket socket) {
    struct Counted {
      std::atomic<int64_t>& refusing;
      ~Counted() { --refusing; }
    } counted{refusing};
    beast::tcp_stream stream(std::move(socket));
    co_await refuse_plainly(stream, busy_answer(503, "too many connections", 1));
  }

  // Without TLS, and without a request having been read.
  asio::awaitable<void> refuse_plainly(beast::tcp_stream& stream, HttpResponse answer) {
    stream.expires_after(std::chrono::seconds(5));
    auto response = to_beast(std::move(answer), false);
    beast::error_code ignored;  // the peer may be gone
    co_await http::async_write(stream, response, asio::redirect_error(asio::use_awaitable, ignored));
    co_await drain(stream);
  }

  // The connection that waits longest for a request is closed, so that those who say nothing shut out nobody.
  bool make_room() {
    if (connections >= options.connections_max + kMakingRoomMax) return false;
    std::lock_guard guard(mutex);
    for (Reading& reading : readings) {
      if (reading.has_begun || reading.is_closing) continue;
      reading.is_closing = true;
      cancel(reading, true);
      return true;
    }
    return false;
  }

  void begin(tcp::socket socket) {
    beast::error_code error;
    HttpRequest blank;
    const tcp::endpoint peer = socket.remote_endpoint(error);
    if (error) return;  // it is gone already
    const asio::ip::address address = plain_address(peer.address());
    blank.peer = fmt::format(fmt::runtime(address.is_v6() ? "[{}]:{}" : "{}:{}"), address.to_string(), peer.port());
    blank.is_peer_local = address.is_loopback();
    const auto executor = socket.get_executor();
    const auto report = [](const std::exception_ptr& failure) {
      try {
        if (failure) std::rethrow_exception(failure);
      } catch (const std::exception& e) {  // that connection ends, the others go on
        spdlog::error("a connection failed: {}", e.what());
      } catch (...) {
        spdlog::error("a connection failed");
      }
    };
    if (connections < options.connections_max || make_room()) {
      ++connections;
      asio::co_spawn(executor, serve(std::move(socket), std::move(blank)), report);
      return;
    }
    const bool is_told = !tls && refusing < kRefusingMax;  // what is no TLS would not be understood
    Exchange exchange{.request = std::move(blank), .started_us = steady_us()};
    exchange.served = {.status = is_told ? 503 : 0, .problem = "too many connections"};
    tell(exchange);
    if (!is_told) return;
    ++refusing;
    asio::co_spawn(executor, refuse_connection(std::move(socket)), report);
  }

  asio::awaitable<void> accept_all() {
    while (!stopping) {
      beast::error_code error;
      tcp::socket socket =
          co_await acceptor.async_accept(asio::make_strand(context), asio::redirect_error(asio::use_awaitable, error));
      if (error == asio::error::operation_aborted) break;
      if (error) {  // no descriptor is left, for one: others have to end first
        asio::steady_timer pause(acceptor.get_executor(), kAcceptPause);
        co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
        continue;
      }
      begin(std::move(socket));
    }
  }

  void listen() {
    const size_t colon = options.listen.rfind(':');
    std::string host = options.listen.substr(0, colon);
    if (host.size() > 1 && host.front() == '[') host = host.substr(1, host.size() - 2);
    try {
      if (colon == std::string::npos) throw std::invalid_argument("it has no port");
      tcp::resolver resolver(context);
      const auto found = resolver.resolve(host, options.listen.substr(colon + 1), tcp::resolver::passive);
      const tcp::endpoint endpoint = found.begin()->endpoint();
      acceptor.open(endpoint.protocol());
      acceptor.set_option(tcp::acceptor::reuse_address(true));
      acceptor.bind(endpoint);
      acceptor.listen();
    } catch (const std::exception& e) {
      fail(ErrorKind::io, "cannot listen on \"{}\" ({}): change \"listen\" in the configuration", options.listen,
           e.what());
    }
  }
};

HttpServer::HttpServer(const HttpServerOptions& options, HttpHandlers handlers) : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.options = options;
  s.handlers = std::move(handlers);
  if (!options.cert_file.empty())
    s.tls = std::make_unique<TlsServerContext>(options.cert_file, options.key_file, options.steady_us);
  s.listen();
  asio::co_spawn(s.acceptor.get_executor(), s.accept_all(), [](const std::exception_ptr& failure) {
    if (failure) std::rethrow_exception(failure);
  });
  try {
    for (int i = 0; i < options.threads; ++i) s.threads.push_back(begin_thread([&s] { s.context.run(); }));
  } catch (const Error&) {  // those that were begun would wait for connections
    s.context.stop();
    throw;
  }
}

HttpServer::HttpServer(const HttpServerOptions& options, Handler handler)
    : HttpServer(options, HttpHandlers{.admit = {},
                                       .handle = [handler = std::move(handler)](
                                                     HttpRequest& request,
                                                     const HttpHandlers::Answer& answer) { answer(handler(request)); },
                                       .served = {}}) {}

HttpServer::~HttpServer() {
  State& s = *state_;
  std::promise<void> closed;
  asio::post(s.acceptor.get_executor(), [&] {
    s.stopping = true;
    beast::error_code ignored;
    s.acceptor.close(ignored);
    closed.set_value();
  });
  closed.get_future().wait();
  const auto grace_end = std::chrono::steady_clock::now() + kStopGrace;
  while (s.connections > 0) {  // again and again, since a stream may be between two reads
    const bool only_without_request = std::chrono::steady_clock::now() < grace_end;
    {
      std::lock_guard guard(s.mutex);
      for (const Reading& reading : s.readings) {
        if (!only_without_request || !reading.has_begun) s.cancel(reading, only_without_request);
      }
    }
    std::this_thread::sleep_for(Milliseconds(20));
  }
  s.threads.clear();  // joins
}

uint16_t HttpServer::port() const { return state_->acceptor.local_endpoint().port(); }
bool HttpServer::is_local() const { return plain_address(state_->acceptor.local_endpoint().address()).is_loopback(); }
int64_t HttpServer::connections() const { return state_->connections; }
int64_t HttpServer::bodies_bytes() const { return state_->body_bytes; }

}  // namespace firn::hyp
