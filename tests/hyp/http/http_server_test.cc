// The server, spoken to over sockets.
#include "hyp/http/http_server.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.h"
#include "hyp/http/raw_client.h"

namespace firn::hyp {
namespace {

HttpServerOptions small_limits() {
  HttpServerOptions options;
  options.listen = "127.0.0.1:0";
  options.threads = 2;
  options.body_bytes_max = 1 << 20;
  options.bodies_bytes_max = 3 << 20;
  return options;
}

HttpResponse echo(const HttpRequest& request) {
  return {200, request.method + " " + request.path + " " + std::to_string(request.body.size()), {}};
}

using Client = RawClient;

std::string post_head(size_t length, const std::string& more = "") {
  return fmt::format("POST /x HTTP/1.1\r\nHost: h\r\n{}Content-Length: {}\r\n\r\n", more, length);
}

TEST(HttpServer, AConnectionServesOneRequestAfterAnother) {
  const HttpServer server(small_limits(), echo);
  Client client(server.port());
  client.send(post_head(3) + "abc");
  EXPECT_NE(client.receive("POST /x 3").find("200 OK"), std::string::npos);
  client.send("GET /a%20b?c=d HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_NE(client.receive("GET /a b 0").find("200 OK"), std::string::npos);
  client.send("HEAD /y HTTP/1.1\r\nHost: h\r\n\r\n" + post_head(1) + "z");
  const std::string both = client.receive("POST /x 1");
  EXPECT_EQ(both.find("HEAD /y"), std::string::npos) << both;  // no body, so the next answer follows at once
  client.send("POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
  EXPECT_NE(client.receive("POST /x 5").find("200 OK"), std::string::npos);
}

TEST(HttpServer, WhatIsTooLongOrNoHttpIsRefusedAndTheAnswerArrives) {
  const HttpServer server(small_limits(), echo);
  Client announced(server.port());
  announced.send(post_head(20 << 20));
  announced.send(std::string(4 << 20, 'x'));
  EXPECT_NE(announced.receive("}").find("413"), std::string::npos);
  Client chunked(server.port());
  chunked.send("POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (int i = 0; i < 3; ++i) chunked.send("80000\r\n" + std::string(0x80000, 'x') + "\r\n");
  EXPECT_NE(chunked.receive("}").find("413"), std::string::npos);
  Client header(server.port());
  header.send("GET / HTTP/1.1\r\nA: " + std::string(100'000, 'x') + "\r\n\r\n");
  EXPECT_NE(header.receive("}").find("431"), std::string::npos);
  Client garbage(server.port());
  garbage.send("what is this\r\n\r\n");
  EXPECT_NE(garbage.receive("}").find("400"), std::string::npos);
}

TEST(HttpServer, ABodyWhoseLengthIsNotToldOrNotUnderstoodIsNoEmptyOne) {
  const HttpServer server(small_limits(), echo);
  for (const auto& [head, status] : std::map<std::string, std::string>{
           {"POST /x HTTP/1.1\r\nHost: h\r\n\r\n", "411"},
           {"POST /x HTTP/1.0\r\n\r\n", "411"},
           {"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: foo\r\n\r\n", "501"},
           {"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "501"}}) {
    Client client(server.port());
    client.send(head + "{\"id\":1}\n");
    EXPECT_NE(client.receive("}").find(status), std::string::npos) << head;
  }
  Client empty(server.port());
  empty.send(post_head(0));
  EXPECT_NE(empty.receive("POST /x 0").find("200 OK"), std::string::npos);
}

TEST(HttpServer, BodiesTogetherAreBounded) {
  const HttpServer server(small_limits(), echo);
  std::vector<Client> slow;
  for (int i = 0; i < 3; ++i) {
    slow.emplace_back(server.port());
    slow.back().send(post_head(1 << 20, "Expect: 100-continue\r\n"));
    EXPECT_NE(slow.back().receive("\r\n\r\n").find("100"), std::string::npos);
  }
  Client more(server.port());
  more.send(post_head(1 << 20));
  const std::string refused = more.receive("}");
  EXPECT_NE(refused.find("503"), std::string::npos);
  EXPECT_NE(refused.find("Retry-After"), std::string::npos);
  slow[0].send(std::string(1 << 20, 'x'));
  EXPECT_NE(slow[0].receive("1048576").find("200 OK"), std::string::npos);
  Client again(server.port());
  again.send(post_head(2) + "ab");
  EXPECT_NE(again.receive("POST /x 2").find("200 OK"), std::string::npos);
}

TEST(HttpServer, ManyClientsAtOnceAreAllAnswered) {
  std::atomic<int> handled{0};
  const HttpServer server(small_limits(), [&](const HttpRequest& request) {
    ++handled;
    return echo(request);
  });
  std::vector<std::thread> threads;
  std::atomic<int> answered{0};
  for (int i = 0; i < 100; ++i) {
    threads.emplace_back([&] {
      Client client(server.port());
      client.send(post_head(10'000) + std::string(10'000, 'x'));
      if (client.receive("POST /x 10000").find("200 OK") != std::string::npos) ++answered;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(answered, 100);
  EXPECT_EQ(handled, 100);
}

TEST(HttpServer, StopsSoonWhateverItsClientsDo) {
  auto server = std::make_unique<HttpServer>(small_limits(), [](const HttpRequest& request) {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    return echo(request);
  });
  Client idle(server->port());
  Client half(server->port());
  half.send(post_head(10) + "abc");
  Client waiting(server->port());
  waiting.send(post_head(1) + "x");
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const auto started = std::chrono::steady_clock::now();
  server.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds(4));
  EXPECT_NE(waiting.receive("POST /x 1").find("200 OK"), std::string::npos);  // it had arrived
  EXPECT_EQ(idle.receive(), "");
}

}  // namespace
}  // namespace firn::hyp
