// Clients that send batches as fast as each is acknowledged, to a receiver or as rows to PostgreSQL; bench/receiver.py
// runs it. Sockets and libpq are used as they come, so that the servers are measured and not this.
//
//   bench_receiver http HOST:PORT TOKEN CLIENTS BODY_BYTES SECONDS
//   bench_receiver postgres CONNINFO COLUMN_TYPE CLIENTS BODY_BYTES SECONDS
// Prints {"batches", "seconds", "bytes", "refused", "p50_ms", "p99_ms"} of what was acknowledged in SECONDS, after a
// quarter of that time in which both sides warm up.
#include <libpq-fe.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "base/uuid.h"
#include "hyp/http/wire.h"

namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void quit(const std::string& message) {
  std::fprintf(stderr, "bench_receiver: %s\n", message.c_str());
  std::_Exit(1);
}

// Log lines, of about 260 bytes each.
std::string make_body(size_t bytes, uint64_t seed, int64_t& rows) {
  static const char* const kWords[] = {"connection", "reset",  "by",      "peer",   "request",  "served",  "from",
                                       "cache",      "miss",   "retry",   "upload", "accepted", "timeout", "checkpoint",
                                       "complete",   "worker", "started", "flush",  "segment",  "rotated"};
  std::mt19937_64 random(seed);
  std::string body;
  for (rows = 0;; ++rows) {
    std::string message;
    for (int i = 0; i < 12; ++i)
      message += fmt::format("{}{}", i == 0 ? "" : " ", kWords[random() % std::size(kWords)]);
    const std::string row = fmt::format(
        R"({{"ts":"2024-03-{:02}T{:02}:{:02}:{:02}.{:06}Z","level":"{}","host":"node-{:03}","service":"api-{}",)"
        R"("trace":"{:016x}","latency_ms":{}.{:02},"status":{},"message":"{}"}})"
        "\n",
        1 + random() % 28, random() % 24, random() % 60, random() % 60, random() % 1'000'000,
        random() % 10 == 0 ? "warn" : "info", random() % 200, random() % 12, random(), random() % 900, random() % 100,
        random() % 20 == 0 ? 500 : 200, message);
    if (body.size() + row.size() > bytes) return body;
    body += row;
  }
}

struct Body {
  std::string text;
  int64_t rows = 0;
};

// What one client saw.
struct Tally {
  int64_t batches = 0, bytes = 0, refused = 0;
  std::vector<double> millis;
};

struct Run {
  size_t clients = 0, body_bytes = 0;
  double seconds = 0;
  std::vector<Body> bodies;
  Clock::time_point measured_from, until;
};

// One acknowledged batch after another; `send` returns false where it was told to come later.
template <class Send>
void run_client(const Run& run, size_t client, Tally& tally, const Send& send) {
  for (size_t i = client; Clock::now() < run.until; ++i) {
    const Body& body = run.bodies[i % run.bodies.size()];
    const auto begin = Clock::now();
    while (!send(body)) {
      ++tally.refused;
      if (Clock::now() >= run.until) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    const auto end = Clock::now();
    if (begin < run.measured_from || end > run.until) continue;
    ++tally.batches;
    tally.bytes += static_cast<int64_t>(body.text.size());
    tally.millis.push_back(std::chrono::duration<double, std::milli>(end - begin).count());
  }
}

int connect_to(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) quit(address + " is no HOST:PORT");
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(address.substr(0, colon).c_str(), address.substr(colon + 1).c_str(), &hints, &found) != 0)
    quit("no address " + address);
  const int fd = ::socket(found->ai_family, found->ai_socktype, 0);
  if (fd < 0 || ::connect(fd, found->ai_addr, found->ai_addrlen) != 0)
    quit("connect " + address + ": " + std::strerror(errno));
  ::freeaddrinfo(found);
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

void write_all(int fd, const std::string& head, const std::string& body) {
  iovec parts[2] = {{const_cast<char*>(head.data()), head.size()}, {const_cast<char*>(body.data()), body.size()}};
  for (size_t part = 0; part < 2;) {
    const ssize_t wrote = ::writev(fd, parts + part, static_cast<int>(2 - part));
    if (wrote < 0) quit(std::string("send: ") + std::strerror(errno));
    size_t left = static_cast<size_t>(wrote);
    while (part < 2 && left >= parts[part].iov_len) left -= parts[part++].iov_len;
    if (part < 2) {
      parts[part].iov_base = static_cast<char*>(parts[part].iov_base) + left;
      parts[part].iov_len -= left;
    }
  }
}

// The whole answer, whose length its head tells.
std::string read_answer(int fd) {
  std::string answer;
  size_t wanted = std::string::npos;
  while (answer.size() < wanted) {
    char bytes[4096];
    const ssize_t got = ::recv(fd, bytes, sizeof bytes, 0);
    if (got <= 0) quit("the receiver closed the connection after: " + answer);
    answer.append(bytes, static_cast<size_t>(got));
    const size_t end = answer.find("\r\n\r\n");
    if (wanted != std::string::npos || end == std::string::npos) continue;
    size_t length = answer.find("Content-Length: ");
    if (length == std::string::npos) length = answer.find("content-length: ");
    if (length == std::string::npos || length > end) quit("no Content-Length in: " + answer);
    wanted = end + 4 + std::strtoul(answer.c_str() + length + 16, nullptr, 10);
  }
  return answer;
}

void send_over_http(const Run& run, size_t client, Tally& tally, const std::string& address, const std::string& token) {
  const int fd = connect_to(address);
  const std::string stream = firn::uuid_v4() + "/bench/source=default", open_id = firn::uuid_v4();
  int64_t last = 0;
  run_client(run, client, tally, [&](const Body& body) {
    const firn::hyp::SeqRange range{.since = last, .until = last + body.rows, .start = last == 0};
    const std::string head = fmt::format(
        "POST /v1/ingest/bench HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n{}: {}\r\n{}: {}\r\n{}: {}\r\n"
        "{}: {}\r\nContent-Length: {}\r\n\r\n",
        address, token, firn::hyp::kBatchIdHeader, firn::hyp::batch_id_of("bench", stream, open_id, range, ""),
        firn::hyp::kStreamHeader, stream, firn::hyp::kOpenHeader, open_id, firn::hyp::kSeqRangeHeader, to_text(range),
        body.text.size());
    write_all(fd, head, body.text);
    const std::string answer = read_answer(fd);
    const std::string status = answer.substr(9, 3);
    if (status == "429" || status == "503") return false;
    if (status != "202") quit("the receiver answered: " + answer);
    last = range.until;
    return true;
  });
  ::close(fd);
}

using Connection = std::unique_ptr<PGconn, decltype(&PQfinish)>;
using Result = std::unique_ptr<PGresult, decltype(&PQclear)>;

void send_to_postgres(const Run& run, size_t client, Tally& tally, const std::string& conninfo,
                      const std::string& type) {
  const Connection connection(PQconnectdb(conninfo.c_str()), PQfinish);
  const auto check = [&](const Result& result) {
    if (PQresultStatus(result.get()) != PGRES_COMMAND_OK) quit(PQerrorMessage(connection.get()));
  };
  if (PQstatus(connection.get()) != CONNECTION_OK) quit(PQerrorMessage(connection.get()));
  const std::string insert = fmt::format("insert into batches(client, body) values ($1::int, $2::{})", type);
  check({PQprepare(connection.get(), "put", insert.c_str(), 2, nullptr), PQclear});
  const std::string id = std::to_string(client);
  run_client(run, client, tally, [&](const Body& body) {
    const char* values[2] = {id.c_str(), body.text.data()};
    const int lengths[2] = {0, static_cast<int>(body.text.size())};
    const int formats[2] = {0, 1};
    check({PQexecPrepared(connection.get(), "put", 2, values, lengths, formats, 0), PQclear});
    return true;
  });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) quit("see the file's head for its arguments");
  const std::string side = argv[1], where = argv[2], with = argv[3];
  Run run;
  run.clients = std::strtoul(argv[4], nullptr, 10);
  run.body_bytes = std::strtoul(argv[5], nullptr, 10);
  run.seconds = std::strtod(argv[6], nullptr);
  for (size_t i = 0; i < 40; ++i) {
    Body& body = run.bodies.emplace_back();
    body.text = make_body(run.body_bytes, i, body.rows);
  }
  const auto seconds = [](double count) {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(count));
  };
  run.measured_from = Clock::now() + seconds(run.seconds / 4);
  run.until = run.measured_from + seconds(run.seconds);
  std::vector<Tally> tallies(run.clients);
  std::vector<std::thread> threads;
  for (size_t client = 0; client < run.clients; ++client) {
    threads.emplace_back([&, client] {
      if (side == "http") {
        send_over_http(run, client, tallies[client], where, with);
      } else {
        send_to_postgres(run, client, tallies[client], where, with);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Tally all;
  for (const Tally& one : tallies) {
    all.batches += one.batches;
    all.bytes += one.bytes;
    all.refused += one.refused;
    all.millis.insert(all.millis.end(), one.millis.begin(), one.millis.end());
  }
  std::sort(all.millis.begin(), all.millis.end());
  const auto at = [&](double part) {
    return all.millis.empty() ? 0.0
                              : all.millis[static_cast<size_t>(part * static_cast<double>(all.millis.size() - 1))];
  };
  fmt::print(R"({{"batches": {}, "seconds": {}, "bytes": {}, "refused": {}, "p50_ms": {:.1f}, "p99_ms": {:.1f}}})"
             "\n",
             all.batches, run.seconds, all.bytes, all.refused, at(0.5), at(0.99));
  return 0;
}
