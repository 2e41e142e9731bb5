#include "hyp/daemon/http_server.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <list>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"

namespace firn::hyp {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using tcp = asio::ip::tcp;

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

http::response<http::string_body> to_beast(const HttpResponse& answer, unsigned version, bool keep_alive) {
  http::response<http::string_body> response(static_cast<http::status>(answer.status), version);
  response.set(http::field::content_type, "application/json");
  for (const auto& [name, value] : answer.headers) response.set(name, value);
  response.keep_alive(keep_alive);
  response.body() = answer.body;
  response.prepare_payload();
  return response;
}

HttpResponse error_answer(int status, std::string_view message) {
  const auto replaced = Json::error_handler_t::replace;  // a message may repeat bytes that were sent
  return {status, Json{{"error", message}}.dump(-1, ' ', false, replaced) + "\n", {}};
}

// A stream that waits for a request's bytes. At the stop those that have not begun one are closed at once, the others
// soon.
struct Reading {
  beast::tcp_stream* stream;
  bool has_begun;
};

constexpr auto kStopGrace = std::chrono::seconds(2);  // for requests that are arriving at the stop
constexpr auto kDrainMax = std::chrono::seconds(2);   // for what a client still sends when it has its answer
constexpr auto kAcceptPause = std::chrono::milliseconds(100);

// What receiving came to: a request, or an answer that refuses it; neither: the peer is gone, or was silent too long.
struct Received {
  std::optional<http::request<http::string_body>> request;
  std::optional<HttpResponse> refusal;
};

}  // namespace

struct HttpServer::State {
  HttpServerOptions options;
  Handler handler;
  asio::io_context context;
  tcp::acceptor acceptor{asio::make_strand(context)};
  std::vector<std::thread> threads;
  std::atomic<int64_t> connections{0};
  std::atomic<int64_t> body_bytes{0};  // of all requests that are being received or answered
  std::atomic<bool> stopping{false};
  std::mutex mutex;
  std::list<Reading> readings;

  HttpResponse answer(http::request<http::string_body>& request) {
    HttpRequest ours;
    ours.method = std::string(request.method_string());
    const std::string_view target(request.target().data(), request.target().size());
    ours.path = percent_decode(target.substr(0, target.find('?')));
    for (const auto& field : request) {
      std::string name(field.name_string());
      for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
      ours.headers[name] = std::string(field.value());
    }
    ours.body = std::move(request.body());
    try {
      return handler(ours);
    } catch (const std::exception& e) {
      spdlog::error("{} {}: {}", ours.method, ours.path, e.what());
      return error_answer(500, e.what());
    }
  }

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
      place = state.readings.insert(state.readings.end(), {&stream, false});
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

  HttpResponse busy_answer(std::string_view message) const {
    HttpResponse answer = error_answer(503, message);
    answer.headers["Retry-After"] = "1";
    return answer;
  }

  Received failed(const beast::error_code& error) const {
    if (error == http::error::body_limit) {
      return {std::nullopt, error_answer(413, fmt::format("the body is longer than {} bytes", options.body_bytes_max))};
    }
    if (error == http::error::header_limit) return {std::nullopt, error_answer(431, "the header is too long")};
    const bool is_cut_off = error == http::error::end_of_stream || error == http::error::partial_message;
    if (!is_cut_off && error.category() == http::make_error_code(http::error::bad_version).category()) {
      return {std::nullopt, error_answer(400, "this is no HTTP request: " + error.message())};
    }
    return {};
  }

  asio::awaitable<Received> receive(beast::tcp_stream& stream, beast::flat_buffer& buffer, BodyShare& share) {
    ReadingScope reading(*this, stream);
    if (stopping) co_return Received{};
    const auto idle_max = std::chrono::milliseconds(options.idle_ms_max);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(options.request_ms_max);
    http::request_parser<http::string_body> parser;
    parser.body_limit(static_cast<uint64_t>(options.body_bytes_max));
    beast::error_code error;
    stream.expires_after(idle_max);
    co_await http::async_read_header(stream, buffer, parser, asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return failed(error);
    reading.begin();
    const auto announced = parser.content_length();
    // A body whose length nobody told would be taken for none.
    const std::string coding(parser.get()[http::field::transfer_encoding]);
    if (!coding.empty() && !beast::iequals(coding, "chunked")) {
      co_return Received{std::nullopt, error_answer(501, "the only Transfer-Encoding that is understood is chunked")};
    }
    const http::verb method = parser.get().method();
    if (coding.empty() && !announced && (method == http::verb::post || method == http::verb::put)) {
      co_return Received{std::nullopt, error_answer(411, "send Content-Length, or Transfer-Encoding: chunked")};
    }
    if (announced && !share.grow_to(static_cast<int64_t>(*announced))) {
      co_return Received{std::nullopt, busy_answer("too many bodies are being received")};
    }
    if (beast::iequals(parser.get()[http::field::expect], "100-continue")) {
      http::response<http::empty_body> go_on(http::status::continue_, parser.get().version());
      co_await http::async_write(stream, go_on, asio::redirect_error(asio::use_awaitable, error));
    }
    parser.eager(true);
    while (!error && !parser.is_done()) {
      if (std::chrono::steady_clock::now() > deadline)
        co_return Received{std::nullopt, error_answer(408, "the request took too long")};
      stream.expires_after(idle_max);
      co_await http::async_read_some(stream, buffer, parser, asio::redirect_error(asio::use_awaitable, error));
      if (!share.grow_to(static_cast<int64_t>(parser.get().body().size()))) {
        co_return Received{std::nullopt, busy_answer("too many bodies are being received")};
      }
    }
    if (error) co_return failed(error);
    Received received;
    received.request = parser.release();
    co_return received;
  }

  asio::awaitable<void> serve(tcp::socket socket) {
    struct Counted {
      std::atomic<int64_t>& connections;
      ~Counted() { --connections; }
    } counted{connections};
    beast::tcp_stream stream(std::move(socket));
    beast::flat_buffer buffer;
    for (bool keep_alive = true; keep_alive;) {
      BodyShare share{*this};
      Received received = co_await receive(stream, buffer, share);
      if (!received.request && !received.refusal) break;
      keep_alive = received.request && received.request->keep_alive() && !stopping;
      const bool is_head = received.request && received.request->method() == http::verb::head;
      const HttpResponse answered = received.request ? answer(*received.request) : *received.refusal;
      share.release();  // the handler has dropped the body
      auto response = to_beast(answered, 11, keep_alive);
      if (is_head) response.body().clear();  // its length stays in the header
      beast::error_code error;
      stream.expires_after(std::chrono::milliseconds(options.idle_ms_max));
      co_await http::async_write(stream, response, asio::redirect_error(asio::use_awaitable, error));
      if (error) break;
      if (received.refusal) co_await drain(stream);
    }
    beast::error_code ignored;
    stream.socket().shutdown(tcp::socket::shutdown_send, ignored);  // the peer may be gone
  }

  // Reads what the client is still sending: closing with bytes unread would take the answer from it.
  asio::awaitable<void> drain(beast::tcp_stream& stream) {
    beast::error_code error;
    stream.socket().shutdown(tcp::socket::shutdown_send, error);
    std::array<char, 65536> unread;
    stream.expires_after(kDrainMax);
    while (!error && !stopping) {
      co_await stream.async_read_some(asio::buffer(unread), asio::redirect_error(asio::use_awaitable, error));
    }
  }

  asio::awaitable<void> refuse(tcp::socket socket) {
    beast::tcp_stream stream(std::move(socket));
    stream.expires_after(std::chrono::seconds(5));
    auto response = to_beast(busy_answer("too many connections"), 11, false);
    beast::error_code ignored;  // the peer may be gone
    co_await http::async_write(stream, response, asio::redirect_error(asio::use_awaitable, ignored));
    co_await drain(stream);
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
      const auto executor = socket.get_executor();
      if (connections >= options.connections_max) {
        asio::co_spawn(executor, refuse(std::move(socket)), asio::detached);
        continue;
      }
      ++connections;
      asio::co_spawn(executor, serve(std::move(socket)), asio::detached);
    }
  }
};

HttpServer::HttpServer(const HttpServerOptions& options, Handler handler) : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.options = options;
  s.handler = std::move(handler);
  const size_t colon = options.listen.rfind(':');
  std::string host = options.listen.substr(0, colon);
  if (host.size() > 1 && host.front() == '[') host = host.substr(1, host.size() - 2);
  try {
    if (colon == std::string::npos) throw std::invalid_argument("it has no port");
    tcp::resolver resolver(s.context);
    const auto found = resolver.resolve(host, options.listen.substr(colon + 1), tcp::resolver::passive);
    const tcp::endpoint endpoint = found.begin()->endpoint();
    s.acceptor.open(endpoint.protocol());
    s.acceptor.set_option(tcp::acceptor::reuse_address(true));
    s.acceptor.bind(endpoint);
    s.acceptor.listen();
  } catch (const std::exception& e) {
    fail(ErrorKind::io, "cannot listen on \"{}\" ({}): change \"listen\" in the configuration", options.listen,
         e.what());
  }
  asio::co_spawn(s.acceptor.get_executor(), s.accept_all(), asio::detached);
  for (int i = 0; i < options.threads; ++i) s.threads.emplace_back([&s] { s.context.run(); });
}

HttpServer::~HttpServer() {
  State& s = *state_;
  const auto cancel = [&s](bool only_idle) {
    std::lock_guard guard(s.mutex);
    for (const Reading& reading : s.readings) {
      if (only_idle && reading.has_begun) continue;
      asio::post(reading.stream->get_executor(), [&s, stream = reading.stream] {
        std::lock_guard guard(s.mutex);  // it may have got its request, or be gone
        const auto is_it = [&](const Reading& one) { return one.stream == stream; };
        if (std::any_of(s.readings.begin(), s.readings.end(), is_it)) stream->cancel();
      });
    }
  };
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
    cancel(std::chrono::steady_clock::now() < grace_end);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  for (std::thread& thread : s.threads) thread.join();
}

uint16_t HttpServer::port() const { return state_->acceptor.local_endpoint().port(); }

}  // namespace firn::hyp
