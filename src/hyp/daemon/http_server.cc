#include "hyp/daemon/http_server.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
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
    const auto hex = [](char c) { return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1; };
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
  return {status, Json{{"error", message}}.dump() + "\n", {}};
}

}  // namespace

struct HttpServer::State {
  HttpServerOptions options;
  Handler handler;
  asio::io_context context;
  tcp::acceptor acceptor{asio::make_strand(context)};
  std::vector<std::thread> threads;
  std::atomic<int64_t> connections{0};
  std::atomic<bool> stopping{false};
  std::mutex mutex;
  std::list<beast::tcp_stream*> idle;  // waiting for a request: closed at the stop; the others end by themselves

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

  asio::awaitable<void> serve(tcp::socket socket) {
    beast::tcp_stream stream(std::move(socket));
    beast::flat_buffer buffer;
    std::list<beast::tcp_stream*>::iterator place;
    for (bool keep_alive = true; keep_alive;) {
      {
        std::lock_guard guard(mutex);
        if (stopping) break;
        place = idle.insert(idle.end(), &stream);
      }
      http::request_parser<http::string_body> parser;
      parser.body_limit(static_cast<uint64_t>(options.body_bytes_max));
      beast::error_code error;
      stream.expires_after(std::chrono::milliseconds(options.idle_ms_max));
      co_await http::async_read_header(stream, buffer, parser, asio::redirect_error(asio::use_awaitable, error));
      {
        std::lock_guard guard(mutex);
        idle.erase(place);
      }
      if (!error && beast::iequals(parser.get()[http::field::expect], "100-continue")) {
        http::response<http::empty_body> go_on(http::status::continue_, parser.get().version());
        co_await http::async_write(stream, go_on, asio::redirect_error(asio::use_awaitable, error));
      }
      if (!error && !parser.is_done()) {
        co_await http::async_read(stream, buffer, parser, asio::redirect_error(asio::use_awaitable, error));
      }
      HttpResponse answered;
      if (error == http::error::body_limit) {
        answered = error_answer(413, fmt::format("the body is longer than {} bytes", options.body_bytes_max));
        keep_alive = false;
      } else if (error) {
        break;  // it hung up, was idle too long, or speaks no HTTP
      } else {
        auto request = parser.release();
        keep_alive = request.keep_alive();
        answered = answer(request);
      }
      auto response = to_beast(answered, 11, keep_alive && !stopping);
      stream.expires_after(std::chrono::milliseconds(options.idle_ms_max));
      co_await http::async_write(stream, response, asio::redirect_error(asio::use_awaitable, error));
      if (error) break;
    }
    beast::error_code ignored;
    stream.socket().shutdown(tcp::socket::shutdown_send, ignored);  // the peer may be gone
    --connections;
  }

  asio::awaitable<void> refuse(tcp::socket socket) {
    beast::tcp_stream stream(std::move(socket));
    stream.expires_after(std::chrono::seconds(5));
    auto response = to_beast(error_answer(503, "too many connections"), 11, false);
    response.set(http::field::retry_after, "1");
    beast::error_code ignored;  // the peer may be gone
    co_await http::async_write(stream, response, asio::redirect_error(asio::use_awaitable, ignored));
  }

  asio::awaitable<void> accept_all() {
    while (!stopping) {
      beast::error_code error;
      tcp::socket socket = co_await acceptor.async_accept(asio::make_strand(context), asio::redirect_error(asio::use_awaitable, error));
      if (error == asio::error::operation_aborted) break;
      if (error) continue;
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
    fail(ErrorKind::io, "cannot listen on \"{}\" ({}): change \"listen\" in the configuration", options.listen, e.what());
  }
  asio::co_spawn(s.acceptor.get_executor(), s.accept_all(), asio::detached);
  for (int i = 0; i < options.threads; ++i) s.threads.emplace_back([&s] { s.context.run(); });
}

HttpServer::~HttpServer() {
  State& s = *state_;
  asio::post(s.acceptor.get_executor(), [&s] {
    s.stopping = true;
    beast::error_code ignored;
    s.acceptor.close(ignored);
    std::lock_guard guard(s.mutex);
    for (beast::tcp_stream* stream : s.idle) {
      asio::post(stream->get_executor(), [&s, stream] {
        std::lock_guard guard(s.mutex);  // it may have got its request, or be gone
        if (std::find(s.idle.begin(), s.idle.end(), stream) != s.idle.end()) stream->cancel();
      });
    }
  });
  for (std::thread& thread : s.threads) thread.join();
}

uint16_t HttpServer::port() const { return state_->acceptor.local_endpoint().port(); }

}  // namespace firn::hyp
