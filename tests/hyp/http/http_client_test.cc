// Requests to a receiver, over what lies between.
#include "hyp/http/http_client.h"

#include <csignal>
#include <cstdlib>
#include <future>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "hyp/http/http_server.h"
#include "support/fault_proxy.h"
#include "support/run_program.h"
#include "support/temp_folder.h"

namespace firn::hyp {
namespace {

using ::testing::HasSubstr;

// Answers with what it got.
HttpResponse echo(const HttpRequest& request) {
  const auto told = request.headers.find("x-told");
  return {200,
          request.method + " " + request.path + " " + request.body,
          {{"X-Told", told == request.headers.end() ? "" : told->second}}};
}

struct EchoServer {
  HttpServer server;
  explicit EchoServer(HttpServerOptions options = {})
      : server(
            [&] {
              options.listen = "127.0.0.1:0";
              options.threads = 2;
              return options;
            }(),
            HttpServer::Handler(echo)) {}
  std::string url(const std::string& path = "/a") const {
    return fmt::format("http://127.0.0.1:{}{}", server.port(), path);
  }
};

std::pair<ErrorKind, std::string> failure(HttpClient& client, const std::string& url, const std::string& body = "x") {
  try {
    client.send("POST", url, {}, body);
  } catch (const Error& e) {
    return {e.kind(), e.what()};
  }
  return {ErrorKind::internal, "no error"};
}

TEST(HttpClient, SendsWhatItIsGivenAndReturnsWhatItHears) {
  const EchoServer server;
  HttpClient client({});
  const HttpAnswer answer = client.send("POST", server.url("/v1/x%25y"), {"X-Told: a b "}, "body");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, "POST /v1/x%y body");
  EXPECT_EQ(answer.headers.at("x-told"), "a b");
  EXPECT_EQ(client.send("GET", server.url(), {}, "").body, "GET /a ");
  EXPECT_EQ(client.send("POST", server.url(), {}, "").body, "POST /a ");
  const std::string big(5 << 20, 'x');
  EXPECT_THAT(failure(client, server.url(), big).second, HasSubstr("answer is longer than"));
  EXPECT_EQ(client.send("GET", server.url(), {}, "").status, 200) << "and goes on";
}

TEST(HttpClient, KeepsItsConnection) {
  const EchoServer server;
  FaultProxy proxy(server.server.port());
  HttpClient client({});
  for (int i = 0; i < 5; ++i) client.send("POST", proxy.url() + "/a", {}, "x");
  EXPECT_EQ(proxy.num_connections(), 1);
}

TEST(HttpClient, NeverSendsABodyTwiceByItself) {
  const EchoServer server;
  FaultProxy proxy(server.server.port());
  HttpClient client({});
  client.send("POST", proxy.url() + "/a", {}, "first");
  proxy.set_script([](const ProxiedRequest&) { return Fault{.kind = Fault::Kind::lose}; });
  // The kept connection ends without an answer: of one that had been closed before, nothing can tell it.
  EXPECT_EQ(failure(client, proxy.url() + "/a").first, ErrorKind::io);
  EXPECT_EQ(proxy.requests().size(), 2u);
}

TEST(HttpClient, FollowsNoRedirection) {
  const HttpServer server(
      {.listen = "127.0.0.1:0"}, HttpServer::Handler([](const HttpRequest& request) {
        return request.path == "/a" ? HttpResponse{307, "", {{"Location", "/b"}}} : HttpResponse{200, "followed", {}};
      }));
  HttpClient client({});
  const HttpAnswer answer = client.send("POST", fmt::format("http://127.0.0.1:{}/a", server.port()), {}, "x");
  EXPECT_EQ(answer.status, 307);
  EXPECT_EQ(answer.headers.at("location"), "/b");
}

TEST(HttpClient, ASilentServerIsGivenUp) {
  const EchoServer server;
  FaultProxy proxy(server.server.port());
  proxy.set_script([](const ProxiedRequest&) { return Fault{.delay_ms = 3000}; });
  HttpClientOptions options;
  options.silent_ms_max = 100;
  HttpClient client(options);
  const auto [kind, message] = failure(client, proxy.url() + "/a");
  EXPECT_EQ(kind, ErrorKind::io);
  EXPECT_THAT(message, HasSubstr("nothing was heard for 0.1 s"));
}

TEST(HttpClient, EndsWhenItIsToldTo) {
  const EchoServer server;
  FaultProxy proxy(server.server.port());
  std::atomic<bool> cancelled{false};
  proxy.set_script([&](const ProxiedRequest&) {
    cancelled = true;
    return Fault{.delay_ms = 3000};
  });
  HttpClientOptions options;
  options.cancelled = &cancelled;
  HttpClient client(options);
  EXPECT_EQ(failure(client, proxy.url() + "/a").first, ErrorKind::cancelled);
}

TEST(HttpClient, NamesWhatItCannotReach) {
  HttpClient client({});
  uint16_t free_port = 0;
  { free_port = EchoServer().server.port(); }
  const std::string url = fmt::format("http://127.0.0.1:{}/a", free_port);
  EXPECT_THAT(failure(client, url).second, ::testing::AllOf(HasSubstr("POST " + url), HasSubstr("no answer")));
  EXPECT_EQ(failure(client, url).first, ErrorKind::io);
  EXPECT_EQ(failure(client, "ftp://127.0.0.1/a").first, ErrorKind::config);
  EXPECT_EQ(failure(client, "http://").first, ErrorKind::config);
}

TEST(HttpClient, AServerThatHangsUpOnHttpMaySpeakTls) {
  const EchoServer server;
  FaultProxy proxy(server.server.port());
  proxy.set_script([](const ProxiedRequest&) { return Fault{.kind = Fault::Kind::lose}; });
  HttpClient client({});
  EXPECT_THAT(failure(client, proxy.url() + "/a").second, HasSubstr("begins with https://"));
}

TEST(HttpClient, AnAnswerThatIsCutOffIsNone) {
  const EchoServer server;
  FaultProxy proxy(server.server.port());
  proxy.set_script([](const ProxiedRequest&) { return Fault{.kind = Fault::Kind::cut_answer}; });
  HttpClient client({});
  for (const size_t size : {1, 60, 4000}) {  // within its head, and within its body
    EXPECT_EQ(failure(client, proxy.url() + "/a", std::string(size, 'x')).first, ErrorKind::io) << size;
  }
}

TEST(HttpClient, GoesThroughAProxyThatTheConfigurationOrTheEnvironmentNames) {
  const EchoServer server;
  const FaultProxy proxy(server.server.port());
  // No such host: only the proxy can know it.
  const std::string url = "http://receiver.invalid:4748/a";
  HttpClientOptions options;
  options.proxy = proxy.url();
  ::setenv("no_proxy", "*", 1);
  EXPECT_EQ(HttpClient(options).send("POST", url, {}, "x").status, 200) << "the configuration decides";
  EXPECT_TRUE(proxy.requests().at(0).is_absolute);
  ::unsetenv("no_proxy");
  ::setenv("http_proxy", proxy.url().c_str(), 1);
  EXPECT_EQ(HttpClient({}).send("POST", url, {}, "x").status, 200);
  ::setenv("no_proxy", "127.0.0.1", 1);
  EXPECT_EQ(HttpClient({}).send("POST", server.url(), {}, "x").status, 200);
  EXPECT_EQ(proxy.requests().size(), 2u) << "not for a host of no_proxy";
  ::unsetenv("no_proxy");
  ::unsetenv("http_proxy");
}

class HttpClientTls : public testing::Test {
 protected:
  void SetUp() override {
    std::signal(SIGPIPE, SIG_IGN);
    cert_ = folder_ / "cert.pem";
    key_ = folder_ / "key.pem";
    const auto made =
        run_program({"openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                     "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
                     "-keyout", key_, "-out", cert_});
    ASSERT_EQ(made.status, 0) << made.err;
  }
  TempFolder folder_;
  std::string cert_, key_;
};

TEST_F(HttpClientTls, TrustsTheAuthorityOfTheConfigurationAndNoOther) {
  HttpServerOptions secure;
  secure.cert_file = cert_;
  secure.key_file = key_;
  const EchoServer server(secure);
  const std::string url = fmt::format("https://127.0.0.1:{}/a", server.server.port());
  HttpClientOptions options;
  options.ca_file = cert_;
  EXPECT_EQ(HttpClient(options).send("POST", url, {}, "x").status, 200);

  const FaultProxy proxy(server.server.port());
  options.proxy = proxy.url();
  EXPECT_EQ(HttpClient(options).send("POST", url, {}, "x").status, 200);
  EXPECT_EQ(proxy.num_tunnels(), 1);
  EXPECT_TRUE(proxy.requests().empty()) << "what is inside is not the proxy's";

  HttpClient strict({});
  const auto [kind, message] = failure(strict, url);
  EXPECT_EQ(kind, ErrorKind::config) << message;
  options = {};
  options.ca_file = folder_ / "none.pem";
  HttpClient lost(options);
  EXPECT_EQ(failure(lost, url).first, ErrorKind::config);
}

TEST(HttpClient, KnowsWhatStaysOnThisMachine) {
  for (const char* url : {"http://127.0.0.1:1", "http://127.1.2.3", "http://localhost:80", "http://[::1]:80"})
    EXPECT_TRUE(is_loopback(url)) << url;
  for (const char* url :
       {"http://localhost.example.com", "http://127.0.0.1.example.com", "http://10.0.0.1", "http://a"})
    EXPECT_FALSE(is_loopback(url)) << url;
}

}  // namespace
}  // namespace firn::hyp
