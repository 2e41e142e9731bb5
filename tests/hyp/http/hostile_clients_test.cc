// Clients that send what they should not, or not when they should: each is refused or closed, told of afterwards, and
// the others are served meanwhile.
#include <chrono>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hyp/http/http_server.h"
#include "hyp/http/raw_client.h"

namespace firn::hyp {
namespace {

using std::chrono::milliseconds;
using ::testing::Contains;
using ::testing::HasSubstr;

// A server that answers {"ok"} and remembers how every request ended.
class Watched {
 public:
  explicit Watched(HttpServerOptions options = {}) {
    options.listen = "127.0.0.1:0";
    options.threads = 2;
    server_.emplace(
        options,
        HttpHandlers{
            .admit = [this](HttpRequest& head) { return admit(head); },
            .handle = [this](HttpRequest& request, const HttpHandlers::Answer& answer) { handle(request, answer); },
            .served = [this](const HttpRequest& request, const HttpServed& served) { note(request, served); }});
  }
  ~Watched() { stop(); }
  void stop() { server_.reset(); }
  uint16_t port() const { return server_->port(); }
  HttpServer& server() { return *server_; }

  // Somebody who behaves.
  bool serves() {
    RawClient client(port());
    client.send("POST /good HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nab");
    return client.status() == 200;
  }
  // Of all requests but those of serves(), in the order in which they ended: "<method> <path> <status>: <problem>".
  // Waits until there are so many.
  std::vector<std::string> ended(size_t count) {
    for (int i = 0; i < 2000; ++i) {
      {
        const std::lock_guard guard(mutex_);
        if (ended_.size() >= count) return ended_;
      }
      std::this_thread::sleep_for(milliseconds(5));
    }
    const std::lock_guard guard(mutex_);
    return ended_;
  }
  int64_t handled() const { return handled_; }

  std::function<std::optional<HttpResponse>(HttpRequest&)> refuse;
  std::function<void(HttpRequest&, const HttpHandlers::Answer&)> handle_otherwise;

 private:
  std::optional<HttpResponse> admit(HttpRequest& head) { return refuse ? refuse(head) : std::nullopt; }
  void handle(HttpRequest& request, const HttpHandlers::Answer& answer) {
    ++handled_;
    if (handle_otherwise && request.path != "/good") return handle_otherwise(request, answer);
    answer({200, "{\"bytes\":" + std::to_string(request.body.size()) + "}", {}});
  }
  void note(const HttpRequest& request, const HttpServed& served) {
    if (request.path == "/good") return;
    const std::lock_guard guard(mutex_);
    ended_.push_back(fmt::format("{} {} {}: {}", request.method, request.path, served.status, served.problem));
  }

  std::mutex mutex_;
  std::vector<std::string> ended_;
  std::atomic<int64_t> handled_{0};
  std::optional<HttpServer> server_;
};

HttpServerOptions short_times() {
  HttpServerOptions options;
  options.header_ms_max = 500;
  options.idle_ms_max = 500;
  options.request_ms_max = 1000;
  return options;
}

std::string post(const std::string& more, const std::string& body = "") {
  return "POST /x HTTP/1.1\r\nHost: h\r\n" + more + "\r\n" + body;
}

TEST(HostileClients, HeadsThatDoNotEndAreGivenUp) {
  Watched watched(short_times());
  std::vector<RawClient> slow;
  for (int i = 0; i < 20; ++i) {
    slow.emplace_back(watched.port());
    slow.back().send("POST /slow HTTP/1.1\r\nHost: h\r\nA: ");
  }
  EXPECT_TRUE(watched.serves());
  for (RawClient& one : slow) EXPECT_EQ(one.status(), 408);
  EXPECT_THAT(watched.ended(20), Contains(HasSubstr("408: the head took too long")).Times(20));
}

TEST(HostileClients, AHeadIsGivenUpThoughALittleOfItComesAllTheTime) {
  Watched watched(short_times());
  RawClient client(watched.port());
  client.send("GET /drip HTTP/1.1\r\n");
  for (int i = 0; i < 500 && !client.has_answer(); ++i) {
    client.send("A: b\r\n");
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_EQ(client.status(), 408);
}

TEST(HostileClients, BodiesThatStopOrDripAreGivenUp) {
  Watched watched(short_times());
  RawClient stopped(watched.port());
  stopped.send(post("Content-Length: 10\r\n", "abc"));
  RawClient dripping(watched.port());
  dripping.send(post("Content-Length: 100000\r\n"));
  EXPECT_TRUE(watched.serves());
  EXPECT_EQ(stopped.status(), 408);
  for (int i = 0; i < 500 && !dripping.has_answer(); ++i) {
    dripping.send("x");
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_EQ(dripping.status(), 408);
  EXPECT_THAT(watched.ended(2), Contains(HasSubstr("POST /x 408: ")).Times(2));
  EXPECT_EQ(watched.server().bodies_bytes(), 0);
}

TEST(HostileClients, WrongLengthsAndAmbiguousOnesAreNoRequests) {
  Watched watched;
  const std::map<std::string, int> heads = {
      {"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", 400},
      {"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", 400},
      {"Content-Length: 3\r\nContent-Length: 4\r\n", 400},
      {"Content-Length: -3\r\n", 400},
      {"Content-Length: 3x\r\n", 400},
      {"Content-Length: 99999999999999999999999\r\n", 400},
      {"Content-Length: 18446744073709551615\r\n", 413},
      {"Transfer-Encoding: gzip, chunked\r\n", 501},
      {"Transfer-Encoding: chunked, identity\r\n", 501},
      {"Content-Length: 3\r\nExpect: the-unexpected\r\n", 417},
      {"A\r\n", 400},
      {"A : b\r\nContent-Length: 3\r\n", 400},
  };
  for (const auto& [head, status] : heads) {
    RawClient client(watched.port());
    client.send(post(head, "abc"));
    EXPECT_EQ(client.status(), status) << head;
    EXPECT_EQ(client.receive().find("HTTP/1.1 200"), std::string::npos) << "the body is no second request: " << head;
  }
  EXPECT_TRUE(watched.serves());
  EXPECT_EQ(watched.handled(), 1);
  EXPECT_EQ(watched.ended(heads.size()).size(), heads.size());
}

TEST(HostileClients, ABodyThatIsShorterThanSaidIsNoBody) {
  Watched watched;
  RawClient half_closed(watched.port());
  half_closed.send(post("Content-Length: 10\r\n", "abc"));
  half_closed.end_sending();
  EXPECT_EQ(half_closed.status(), 400);
  RawClient unfinished(watched.port());
  unfinished.send(post("Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n"));
  unfinished.end_sending();
  EXPECT_EQ(unfinished.status(), 400);
  {
    RawClient gone(watched.port());
    gone.send(post("Content-Length: 10\r\n", "abc"));
  }
  EXPECT_EQ(watched.ended(3).size(), 3U);
  EXPECT_EQ(watched.handled(), 0);
}

TEST(HostileClients, ChunksThatAreNoneOrDoNotEndAreRefused) {
  Watched watched;
  for (const std::string& body : {std::string("zz\r\nabc\r\n"), std::string("ffffffffffffffffff\r\nabc"),
                                  "3;" + std::string(300'000, 'e'), std::string("3\r\nabcdef\r\n0\r\n\r\n")}) {
    RawClient client(watched.port());
    client.send(post("Transfer-Encoding: chunked\r\n", body));
    const int status = client.status();
    EXPECT_TRUE(status == 400 || status == 413 || status == 431) << status << " " << body.substr(0, 20);
  }
  EXPECT_TRUE(watched.serves());
  EXPECT_EQ(watched.server().bodies_bytes(), 0);
}

TEST(HostileClients, HeadsAreBoundedInBytesAndFields) {
  Watched watched;
  RawClient fields(watched.port());
  std::string many;
  for (int i = 0; i < 101; ++i) many += fmt::format("A{}: b\r\n", i);
  fields.send("GET / HTTP/1.1\r\n" + many + "\r\n");
  EXPECT_EQ(fields.status(), 431);
  RawClient target(watched.port());
  target.send("GET /" + std::string(20'000, 'a') + " HTTP/1.1\r\n\r\n");
  EXPECT_EQ(target.status(), 431);
  EXPECT_TRUE(watched.serves());
}

TEST(HostileClients, WhoIsNotAdmittedHasNoBodyTaken) {
  Watched watched;
  watched.refuse = [](HttpRequest& head) -> std::optional<HttpResponse> {
    if (head.path == "/good") return std::nullopt;
    return error_answer(401, "no");
  };
  RawClient polite(watched.port());
  polite.send(post("Content-Length: 1000\r\nExpect: 100-continue\r\n"));
  const std::string answer = polite.receive("}");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 401")) << answer;  // no 100 before it
  RawClient hasty(watched.port());
  hasty.send(post("Content-Length: 8000000\r\n"));
  std::thread sending([&] { hasty.send(std::string(8'000'000, 'x')); });
  EXPECT_EQ(hasty.status(), 401);
  sending.join();
  EXPECT_TRUE(watched.serves());
  EXPECT_EQ(watched.handled(), 1);
  EXPECT_EQ(watched.ended(2).size(), 2U);
}

TEST(HostileClients, WhoIsRefusedForNowKeepsTheConnectionAndSendsTheNextRequestOnIt) {
  Watched watched(short_times());
  watched.refuse = [](HttpRequest& head) -> std::optional<HttpResponse> {
    if (head.path == "/good") return std::nullopt;
    return busy_answer(429, "later", 1);
  };
  RawClient client(watched.port());
  for (const size_t size : {0, 5, 300'000}) {
    client.send(post(fmt::format("Content-Length: {}\r\n", size), std::string(size, 'x')));
    EXPECT_EQ(client.status(), 429);
  }
  client.send("POST /good HTTP/1.1\r\nContent-Length: 2\r\n\r\nab");
  EXPECT_EQ(client.status(), 200);
  EXPECT_EQ(watched.handled(), 1);
  client.send(post("Content-Length: 9\r\n", "ab"));  // and then nothing more
  EXPECT_EQ(client.status(), 429);
  EXPECT_EQ(client.receive(), "");
  RawClient chunked(watched.port());
  chunked.send(post("Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n0\r\n\r\n"));
  EXPECT_EQ(chunked.status(), 429);
  EXPECT_EQ(chunked.receive(), "");
  EXPECT_TRUE(watched.serves());
}

TEST(HostileClients, WhoExpectsAWordBeforeTheBodyGetsIt) {
  Watched watched;
  RawClient client(watched.port());
  client.send(post("Content-Length: 3\r\nExpect: 100-Continue\r\n"));
  EXPECT_EQ(client.receive("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("abc");
  EXPECT_EQ(client.status(), 200);
  RawClient old(watched.port());
  old.send("POST /x HTTP/1.0\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabc");
  EXPECT_EQ(old.status(), 200);
}

TEST(HostileClients, ConnectionsThatSayNothingShutOutNobody) {
  HttpServerOptions options;
  options.connections_max = 10;
  Watched watched(options);
  std::vector<RawClient> silent;
  for (int i = 0; i < 50; ++i) {
    silent.emplace_back(watched.port());
    if (i % 2 == 0) silent.back().send("POST /half HTTP/1.1\r\nA: ");
  }
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(watched.serves());
  EXPECT_LE(watched.server().connections(), 10 + 16);
}

// --- answers that come later ---

TEST(LaterAnswers, HundredsOfRequestsWaitWithoutAThreadEach) {
  std::mutex mutex;
  std::vector<HttpHandlers::Answer> waiting;
  HttpServerOptions options;
  options.connections_max = 400;
  Watched watched(options);
  watched.handle_otherwise = [&](HttpRequest&, const HttpHandlers::Answer& answer) {
    const std::lock_guard guard(mutex);
    waiting.push_back(answer);
  };
  std::vector<RawClient> clients;
  for (int i = 0; i < 300; ++i) {
    clients.emplace_back(watched.port());
    clients.back().send(post("Content-Length: 3\r\n", "abc"));
  }
  const auto num_waiting = [&] {
    const std::lock_guard guard(mutex);
    return waiting.size();
  };
  for (int i = 0; i < 2000 && num_waiting() < 300; ++i) std::this_thread::sleep_for(milliseconds(5));
  ASSERT_EQ(num_waiting(), 300U);
  EXPECT_TRUE(watched.serves());
  EXPECT_EQ(watched.server().bodies_bytes(), 900);
  std::thread committer([&] {
    for (const auto& answer : waiting) {
      answer({202, "{}", {}});
      answer({500, "{}", {}});  // the first one counts
    }
  });
  for (RawClient& client : clients) EXPECT_EQ(client.status(), 202);
  committer.join();
  watched.stop();
  waiting.clear();  // what is kept of the server's for too long does no harm
}

TEST(LaterAnswers, ARequestThatIsForgottenIsAnsweredAllTheSame) {
  Watched watched;
  watched.handle_otherwise = [](HttpRequest& request, const HttpHandlers::Answer&) {
    if (!request.body.empty()) throw std::runtime_error("oh");
  };
  for (const char* length : {"0", "1"}) {
    RawClient client(watched.port());
    client.send(post(fmt::format("Content-Length: {}\r\n", length), "x"));
    EXPECT_EQ(client.status(), 500);
  }
}

TEST(LaterAnswers, TheStopWaitsForThem) {
  std::mutex mutex;
  std::optional<HttpHandlers::Answer> waiting;
  auto watched = std::make_unique<Watched>();
  watched->handle_otherwise = [&](HttpRequest&, const HttpHandlers::Answer& answer) {
    const std::lock_guard guard(mutex);
    waiting = answer;
  };
  RawClient client(watched->port());
  client.send(post("Content-Length: 0\r\n"));
  const auto take = [&] {
    const std::lock_guard guard(mutex);
    return std::exchange(waiting, std::nullopt);
  };
  std::optional<HttpHandlers::Answer> answer;
  for (int i = 0; i < 2000 && !answer; ++i) {
    answer = take();
    std::this_thread::sleep_for(milliseconds(1));
  }
  ASSERT_TRUE(answer);
  std::thread stop([&] { watched->stop(); });
  std::this_thread::sleep_for(milliseconds(50));
  (*answer)({202, "{}", {}});
  EXPECT_EQ(client.status(), 202);
  stop.join();
}

TEST(LaterAnswers, WhoCannotBeServedIsToldToComeBack) {
  HttpServerOptions options;
  options.connections_max = 3;
  Watched watched(options);
  std::mutex mutex;
  std::vector<HttpHandlers::Answer> waiting;
  watched.handle_otherwise = [&](HttpRequest&, const HttpHandlers::Answer& answer) {
    const std::lock_guard guard(mutex);
    waiting.push_back(answer);
  };
  std::vector<RawClient> busy;
  for (int i = 0; i < 3; ++i) {
    busy.emplace_back(watched.port());
    busy.back().send(post("Content-Length: 0\r\n"));
  }
  const auto num_waiting = [&] {
    const std::lock_guard guard(mutex);
    return waiting.size();
  };
  for (int i = 0; i < 2000 && num_waiting() < 3; ++i) std::this_thread::sleep_for(milliseconds(5));
  RawClient more(watched.port());
  const std::string refused = more.receive("}");
  EXPECT_THAT(refused, HasSubstr("503"));
  EXPECT_THAT(refused, HasSubstr("Retry-After: 1\r\n"));
  EXPECT_THAT(watched.ended(1), Contains(HasSubstr("503: too many connections")));
  for (const auto& answer : waiting) answer({202, "{}", {}});
  for (RawClient& client : busy) EXPECT_EQ(client.status(), 202);
}

}  // namespace
}  // namespace firn::hyp
