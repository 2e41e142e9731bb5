// A receiver as `hyp serve` runs it, spoken to over sockets: by those who send rows, and by those who mean no good.
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <zstd.h>

#include "base/json.h"
#include "hyp/cache/cache_box.h"
#include "hyp/daemon/daemon.h"
#include "hyp/daemon/receiver_server.h"
#include "hyp/http/http_client.h"
#include "hyp/http/raw_client.h"
#include "hyp/receiver/gateways.h"
#include "support/self_signed.h"

namespace firn::hyp {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr const char* kStream = "0b9de0c6-6bb6-4f5c-a2b5-6a6b6ef2f5a1/d/source=default";

struct ServedBox : CacheBox {
  std::string token, other_token;
  std::vector<std::string> announced;
  std::unique_ptr<Service> service;
  std::unique_ptr<ReceiverServer> server;

  ServedBox() {
    config.receiver.listen = "127.0.0.1:0";
    config.receiver.access_log = folder / "access.log";
    config.receiver.header_ms_max = 1000;
    config.receiver.idle_ms_max = 1000;
    config.receiver.request_ms_max = 3000;
    config.receiver.body_bytes_max = 1 << 20;
    token = add_gateway(config.state_dir, "edge-1");
    other_token = add_gateway(config.state_dir, "edge-2");
  }
  void start() {
    service = Service::try_own(config);
    server = std::make_unique<ReceiverServer>(*service, [this](const std::string& line) { announced.push_back(line); });
  }
  void stop() {
    server.reset();
    service.reset();
  }
  uint16_t port() const {
    const std::string& line = announced.at(0);
    return static_cast<uint16_t>(std::stoi(line.substr(line.rfind(':') + 1)));
  }
  std::string url(const std::string& path) const { return fmt::format("http://127.0.0.1:{}{}", port(), path); }

  HttpAnswer post(const std::string& body, const std::string& batch_id, const std::string& range,
                  const std::string& with_token) const {
    HttpClient client({});
    return client.send("POST", url("/v1/ingest/d"),
                       {"Authorization: Bearer " + with_token, std::string("X-Hyp-Stream: ") + kStream,
                        "X-Hyp-Open: o1", "X-Hyp-Batch-Id: " + batch_id, "X-Hyp-Seq-Range: " + range},
                       body);
  }
  HttpAnswer stream() const {
    HttpClient client({});
    return client.send("GET", url(std::string("/v1/streams/") + kStream), {"Authorization: Bearer " + token}, "");
  }
  std::vector<Json> log() const {
    std::ifstream file(config.receiver.access_log);
    std::vector<Json> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(Json::parse(line));
    return lines;
  }
};

TEST(ServeEndpoint, RowsLandOnceAndAreInTheCacheWithTheirGateway) {
  ServedBox box;
  box.start();
  EXPECT_EQ(box.post("{\"n\":1}\n{\"n\":2}\n", "b1", "0,2;start", box.token).status, 202);
  EXPECT_EQ(box.post("{\"n\":1}\n{\"n\":2}\n", "b1", "0,2;start", box.token).status, 202) << "a repeat";
  EXPECT_EQ(box.post("{\"n\":3}\n", "b2", "2,3", box.token).status, 202);
  const HttpAnswer behind = box.post("{\"n\":9}\n", "b3", "8,9", box.token);
  EXPECT_EQ(behind.status, 409);
  EXPECT_EQ(Json::parse(behind.body)["last"], "3");
  EXPECT_EQ(box.post("{\"n\":4}\n", "b4", "3,4", box.other_token).status, 403) << "the stream is another gateway's";
  EXPECT_EQ(Json::parse(box.stream().body)["opens"], Json::parse(R"({"o1": "3"})"));
  box.stop();
  box.announced.clear();
  box.start();  // what was acknowledged is there after a restart, flushed or not
  EXPECT_EQ(Json::parse(box.stream().body)["opens"], Json::parse(R"({"o1": "3"})"));
  EXPECT_EQ(box.post("{\"n\":4}\n", "b4", "3,4", box.token).status, 202);
  EXPECT_EQ(box.service->flush().rejected, 0);
  EXPECT_EQ(cached_rows(box.service->cache(), {"d", "edge-1"}),
            (Lines{R"({"hyp_gateway":"edge-1","n":1})", R"({"hyp_gateway":"edge-1","n":2})",
                   R"({"hyp_gateway":"edge-1","n":3})", R"({"hyp_gateway":"edge-1","n":4})"}));
  EXPECT_TRUE(cached_rows(box.service->cache(), {"d", "edge-2"}).empty());
}

TEST(ServeEndpoint, AGatewayThatIsAddedAgainUnderItsOldNameGoesOnWithItsStreams) {
  ServedBox box;
  box.start();
  EXPECT_EQ(box.post("{\"n\":1}\n", "b1", "0,1;start", box.token).status, 202);
  box.stop();
  box.announced.clear();
  remove_gateway(box.config.state_dir, "edge-1");
  const std::string renamed = add_gateway(box.config.state_dir, "edge-one");
  box.token = add_gateway(box.config.state_dir, "edge-1");
  box.start();
  EXPECT_EQ(box.post("{\"n\":2}\n", "b2", "1,2", renamed).status, 403);
  EXPECT_EQ(box.post("{\"n\":2}\n", "b2", "1,2", box.token).status, 202);
  box.service->flush();
  EXPECT_EQ(cached_rows(box.service->cache(), {"d", "edge-1"}).size(), 2U);
}

TEST(ServeEndpoint, CapturedBodiesLandOncePerGatewayAndBatchId) {
  ServedBox box;
  box.start();
  HttpClient client({});
  const auto capture = [&](const std::string& token) {
    return client.send("POST", box.url("/v1/ingest/d"), {"Authorization: Bearer " + token, "X-Hyp-Batch-Id: b1"},
                       "{\"n\":1}\n");
  };
  EXPECT_EQ(Json::parse(capture(box.token).body), Json::parse(R"({"lines": 1, "skipped": 0})"));
  EXPECT_EQ(Json::parse(capture(box.token).body), Json::parse(R"({"lines": 0, "skipped": 1})"));
  EXPECT_EQ(Json::parse(capture(box.other_token).body), Json::parse(R"({"lines": 1, "skipped": 0})"));
  box.service->flush();
  EXPECT_EQ(cached_rows(box.service->cache(), {"d", "edge-1"}), Lines{R"({"hyp_gateway":"edge-1","n":1})"});
  EXPECT_EQ(cached_rows(box.service->cache(), {"d", "edge-2"}), Lines{R"({"hyp_gateway":"edge-2","n":1})"});
}

TEST(ServeEndpoint, HostileClientsAreRefusedAndLoggedAndTheOthersAreServedMeanwhile) {
  ServedBox box;
  box.start();
  const std::string head = "POST /v1/ingest/d HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " + box.token +
                           "\r\nX-Hyp-Batch-Id: b1\r\nX-Hyp-Open: o9\r\nX-Hyp-Stream: " + kStream;
  const auto batch = [&](const std::string& range, const std::string& more, const std::string& body) {
    return head + "\r\nX-Hyp-Seq-Range: " + range + "\r\n" + more + "\r\n" + body;
  };
  std::string bomb(::ZSTD_compressBound(20 << 20), '\0');
  const std::string spaces(20 << 20, ' ');
  bomb.resize(::ZSTD_compress(bomb.data(), bomb.size(), spaces.data(), spaces.size(), 1));
  const auto length = [](size_t size) { return fmt::format("Content-Length: {}\r\n", size); };

  struct Attack {
    std::string name, bytes;
    std::vector<int> statuses;
    bool ends_sending = false;
  };
  const std::vector<Attack> attacks = {
      {"slow head", "POST /v1/ingest/d HTTP/1.1\r\nAuthor", {408}},
      {"slow body", batch("0,1;start", length(100), "{"), {408}},
      {"slow chunks", batch("0,1;start", "Transfer-Encoding: chunked\r\n", "2\r\n{}\r\n"), {408}},
      {"oversized body", batch("0,1;start", length(2 << 20), ""), {413}},
      {"oversized chunks",
       batch("0,1;start", "Transfer-Encoding: chunked\r\n",
             "200000\r\n" + std::string(0x200000, ' ') + "\r\n0\r\n\r\n"),
       {413}},
      {"two lengths", batch("0,1;start", length(3) + length(4), "{}\n"), {400}},
      {"length and chunks", batch("0,1;start", length(3) + "Transfer-Encoding: chunked\r\n", "{}\n"), {400}},
      {"short body", batch("0,1;start", length(10), "{}\n"), {400}, true},
      {"bomb", batch("0,1;start", length(bomb.size()) + "Content-Encoding: zstd\r\n", bomb), {413}},
      {"path trick",
       "POST /v1/ingest/..%2f..%2fetc HTTP/1.1\r\nAuthorization: Bearer " + box.token + "\r\nContent-Length: 0\r\n\r\n",
       {400}},
      {"path trick in the stream",
       "GET /v1/streams/..%2f..%2fetc%2fpasswd HTTP/1.1\r\nAuthorization: Bearer " + box.token + "\r\n\r\n",
       {400}},
      {"range backwards", batch("5,3", length(3), "{}\n"), {400}},
      {"range beyond numbers", batch("0,99999999999999999999", length(3), "{}\n"), {400}},
      {"range of nobody", batch("7,9", length(3), "{}\n"), {409}},
      {"no token", "POST /v1/ingest/d HTTP/1.1\r\nContent-Length: 3\r\n\r\n{}\n", {401}},
      {"another's row", batch("0,1;start", length(24), "{\"hyp_gateway\":\"edge-2\"}"), {422}},
      {"no HTTP", std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 \r\n\r\n", 16), {400}},
  };
  std::vector<std::unique_ptr<RawClient>> clients;
  std::vector<std::thread> senders;
  for (const Attack& attack : attacks) {
    RawClient& client = *clients.emplace_back(std::make_unique<RawClient>(box.port()));
    senders.emplace_back([&client, &attack] {
      client.send(attack.bytes);
      if (attack.ends_sending) client.end_sending();
    });
  }
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(
        box.post("{}\n", fmt::format("g{}", i), fmt::format("{},{}{}", i, i + 1, i == 0 ? ";start" : ""), box.token)
            .status,
        202);
  for (size_t i = 0; i < attacks.size(); ++i)
    EXPECT_THAT(attacks[i].statuses, Contains(clients[i]->status())) << attacks[i].name;
  for (std::thread& sender : senders) sender.join();
  const HttpAnswer stream = box.stream();
  EXPECT_EQ(Json::parse(stream.body)["opens"], Json::parse(R"({"o1": "10"})")) << "nothing of it was taken";
  EXPECT_EQ(box.post("{}\n", "x", "10,11", box.other_token).status, 403);
  box.stop();
  std::map<int, int> logged;
  for (const Json& line : box.log()) ++logged[line["status"].get<int>()];
  EXPECT_EQ(logged, (std::map<int, int>{
                        {202, 10}, {200, 1}, {400, 8}, {401, 1}, {403, 1}, {408, 3}, {409, 1}, {413, 3}, {422, 1}}));
}

TEST(ServeEndpoint, SaysHowToBeginAndWhatIsUnencrypted) {
  ServedBox box;
  remove_gateway(box.config.state_dir, "edge-1");
  remove_gateway(box.config.state_dir, "edge-2");
  box.config.receiver.listen = "0.0.0.0:0";
  box.start();
  EXPECT_THAT(box.announced, Contains(HasSubstr("hyp gateway add")));
  EXPECT_THAT(box.announced, Contains(HasSubstr("unencrypted")));
  EXPECT_EQ(box.post("{}\n", "b", "0,1;start", box.token).status, 401);
  box.stop();
  box.announced.clear();
  add_gateway(box.config.state_dir, "edge-3");
  box.config.receiver.cert_file = box.folder / "cert.pem";
  box.config.receiver.key_file = box.folder / "key.pem";
  write_self_signed(box.config.receiver.cert_file, box.config.receiver.key_file);
  box.start();
  EXPECT_EQ(box.announced.size(), 1U);
  EXPECT_THAT(box.announced[0], HasSubstr("https://0.0.0.0:"));
}

TEST(ServeEndpoint, DeclaredDatasetsHaveTheGatewaysColumnByConfiguration) {
  const char* datasets =
      R"("datasets": {"d": {"columns": {"n": "long"}}, "open": {"columns": {"n": "long"}, "additionalColumns": true}})";
  const Config with = parse_config(fmt::format("{{{}, \"receiver\": {{}}}}", datasets), "/x/hyp.json");
  const iceberg::Field* column = with.dataset("d").schema->find_field("hyp_gateway");
  ASSERT_NE(column, nullptr);
  EXPECT_FALSE(column->required);
  EXPECT_EQ(column->type->to_string(), "string");
  EXPECT_EQ(with.dataset("open").schema->fields().size(), 1U);
  const Config without = parse_config(fmt::format("{{{}}}", datasets), "/x/hyp.json");
  EXPECT_EQ(without.dataset("d").schema->fields().size(), 1U) << "who receives nothing has no such column";
  ServedBox box;
  box.config.datasets = without.datasets;
  try {
    box.start();
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::config);
    EXPECT_THAT(e.what(), AllOf(HasSubstr("dataset d"), HasSubstr("\"receiver\"")));
  }
  box.stop();
  box.config.datasets = with.datasets;
  box.start();
  EXPECT_EQ(box.post("{\"n\":1}\n", "b", "0,1;start", box.token).status, 202);
  EXPECT_EQ(box.service->flush().rejected, 0);
  EXPECT_EQ(cached_rows(box.service->cache(), {"d", "edge-1"}), Lines{R"({"hyp_gateway":"edge-1","n":1})"});
  for (const char* declared : {"\"hyp_gateway\": \"long\"", "\"HYP_gateway\": \"string\""}) {
    try {
      parse_config(fmt::format("{{\"datasets\": {{\"d\": {{\"columns\": {{{}}}}}}}, \"receiver\": {{}}}}", declared),
                   "/x/hyp.json");
      ADD_FAILURE() << declared;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::config);
      EXPECT_THAT(e.what(), AllOf(HasSubstr("dataset d"), HasSubstr("gatewayColumn")));
    }
  }
}

TEST(ServeEndpoint, TheDaemonsOwnAddressTakesNoStreams) {
  ServedBox box;
  box.start();
  const HttpResponse refused = answer_http(*box.service, {"POST", "/v1/ingest/d", {{"x-hyp-stream", kStream}}, "{}\n"});
  EXPECT_EQ(refused.status, 501);
  EXPECT_EQ(answer_http(*box.service, {"POST", "/v1/ingest/d", {}, "{\"n\":1}\n"}).status, 202);
  box.service->flush();
  EXPECT_EQ(cached_rows(box.service->cache(), {"d", "default"}), Lines{R"({"n":1})"}) << "nor does it set a gateway";
}

TEST(ServeEndpoint, WithoutRoomNothingIsTakenUntilThereIsSome) {
  ServedBox box;
  box.config.spool_bytes_max = 1;
  box.start();
  EXPECT_EQ(box.post("{}\n", "b1", "0,1;start", box.token).status, 202);
  const HttpAnswer refused = box.post("{}\n", "b2", "1,2", box.token);
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.headers.at("retry-after"), "10");
  box.service->flush();
  EXPECT_EQ(box.post("{}\n", "b2", "1,2", box.token).status, 202);
}

}  // namespace
}  // namespace firn::hyp
