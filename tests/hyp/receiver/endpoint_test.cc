// What a receiver answers, and what it hands on.
#include "hyp/receiver/endpoint.h"

#include <zlib.h>
#include <zstd.h>

#include <fstream>

#include <gmock/gmock.h>

#include "base/hash.h"
#include "base/json.h"
#include "hyp/receiver/endpoint_box.h"

namespace firn::hyp {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Headers = std::map<std::string, std::string>;
using Outcome = ReceiveResult::Outcome;

std::string zstd(const std::string& text) {
  std::string bytes(::ZSTD_compressBound(text.size()), '\0');
  bytes.resize(::ZSTD_compress(bytes.data(), bytes.size(), text.data(), text.size(), 1));
  return bytes;
}

std::string gzip(const std::string& text) {
  z_stream stream{};
  ::deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string bytes(::deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_out = static_cast<uInt>(bytes.size());
  ::deflate(&stream, Z_FINISH);
  bytes.resize(stream.total_out);
  ::deflateEnd(&stream);
  return bytes;
}

Headers without(Headers headers, const std::string& name) {
  headers.erase(name);
  return headers;
}

Headers with(Headers headers, const std::string& name, const std::string& value) {
  headers[name] = value;
  return headers;
}

TEST(Endpoint, ABatchReachesTheLedgerWithItsPlaceAndTheGatewayInEachRow) {
  EndpointBox box;
  const std::string body = "{\"n\":1}\n\n { \"n\" : 2}\r\n{}\n{\"hyp\":{\"hyp_gateway\":1}}";
  const HttpResponse answer = box.post(body, box.stream_headers("4,9"));
  EXPECT_EQ(answer.status, 202);
  EXPECT_EQ(Json::parse(answer.body), Json::parse(R"({"rows": 4})"));
  ASSERT_EQ(box.taken.size(), 1U);
  const ReceivedBatch& batch = box.taken[0];
  EXPECT_EQ(batch.gateway, "edge-1");
  EXPECT_EQ(batch.dataset, "d");
  EXPECT_EQ(batch.batch_id, "b1");
  EXPECT_EQ(batch.stream, EndpointBox::kStream);
  EXPECT_EQ(batch.open_id, "o1");
  EXPECT_EQ(batch.range, (SeqRange{.since = 4, .until = 9}));
  EXPECT_EQ(
      rows_of(batch),
      "{\"hyp_gateway\":\"edge-1\",\"n\":1}\n\n{\"hyp_gateway\":\"edge-1\",\"n\" : 2}\r\n{\"hyp_gateway\":\"edge-1\"}\n"
      "{\"hyp_gateway\":\"edge-1\",\"hyp\":{\"hyp_gateway\":1}}\n");
}

TEST(Endpoint, AGatewaysColumnThatIsNullIsAsGoodAsAbsent) {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {R"({"hyp_gateway":null})", R"({"hyp_gateway":"edge-1"})"},
      {R"({ "hyp_gateway" : null })", R"({"hyp_gateway":"edge-1"})"},
      {R"({"hyp_gateway":null,"n":1})", R"({"hyp_gateway":"edge-1","n":1})"},
      {R"({"n":1,"hyp_gateway":null})", R"({"hyp_gateway":"edge-1","n":1})"},
      {R"({"n":1 , "hyp_gateway":null , "m":2})", R"({"hyp_gateway":"edge-1","n":1 , "m":2})"},
      {R"({"n":[1,2],"HYP\u005fGateway":null,"m":"hyp_gateway"})",
       R"({"hyp_gateway":"edge-1","n":[1,2],"m":"hyp_gateway"})"},
  };
  EndpointBox box;
  std::string body, expected;
  for (const auto& [row, marked] : rows) {
    body += row + "\n";
    expected += marked + "\n";
  }
  EXPECT_EQ(box.post(body, box.stream_headers("0,6;start")).status, 202);
  EXPECT_EQ(box.post(body, {{"authorization", "Bearer " + box.token}}).status, 202);
  ASSERT_TRUE(box.taken.size() == 1 && box.captured.size() == 1);
  EXPECT_EQ(rows_of(box.taken[0]), expected);
  EXPECT_EQ(box.captured[0].text, expected);
  for (const char* row : {R"({"hyp_gateway":null,"hyp_gateway":null})", R"({"hyp_gateway":null,"HYP_GATEWAY":"x"})",
                          R"({"hyp_gateway":nul})", R"({"hyp_gateway":[null]})", R"({"hyp_gateway":null,})"}) {
    EXPECT_EQ(box.post(row, box.stream_headers()).status, 422) << row;
  }
}

TEST(Endpoint, CompressionDoesNotChangeWhatABodyIs) {
  EndpointBox box;
  const std::string body = "{\"n\":1}\n{\"n\":2}\n";
  EXPECT_EQ(box.post(body, box.stream_headers()).status, 202);
  EXPECT_EQ(box.post(zstd(body), with(box.stream_headers(), "content-encoding", "zstd")).status, 202);
  EXPECT_EQ(box.post(gzip(body), with(box.stream_headers(), "content-encoding", "GZIP")).status, 202);
  ASSERT_EQ(box.taken.size(), 3U);
  for (const ReceivedBatch& batch : box.taken) {
    EXPECT_EQ(batch.text, box.taken[0].text);
    EXPECT_EQ(batch.digest, box.taken[0].digest);
  }
  EXPECT_EQ(box.post(body, with(box.stream_headers(), "content-encoding", "zstd")).status, 400);
  EXPECT_EQ(box.post(body, with(box.stream_headers(), "content-encoding", "br")).status, 415);
  EXPECT_EQ(box.post(zstd(body).substr(0, 12), with(box.stream_headers(), "content-encoding", "zstd")).status, 400);
  EXPECT_EQ(box.post(zstd(gzip(body)), box.stream_headers()).status, 400);
  EXPECT_EQ(box.taken.size(), 3U);
}

TEST(Endpoint, WhatTheLedgerSaysIsWhatIsAnswered) {
  EndpointBox box;
  const auto answer = [&](ReceiveResult result) {
    box.result = std::move(result);
    return box.post("{}\n", box.stream_headers());
  };
  EXPECT_EQ(answer({.outcome = Outcome::landed}).status, 202);
  EXPECT_EQ(answer({.outcome = Outcome::known}).status, 202);
  const HttpResponse behind = answer({.outcome = Outcome::refused, .last = 17, .message = "it has 17"});
  EXPECT_EQ(behind.status, 409);
  EXPECT_EQ(Json::parse(behind.body),
            Json::parse(R"({"error": "it has 17", "kind": "destination_behind", "last": "17"})"));
  EXPECT_EQ(Json::parse(answer({.outcome = Outcome::refused}).body)["last"], Json());
  const HttpResponse forgot = answer({.outcome = Outcome::forgot});
  EXPECT_EQ(forgot.status, 409);
  EXPECT_EQ(Json::parse(forgot.body)["kind"], "destination_forgot");
  EXPECT_EQ(Json::parse(forgot.body)["last"], Json());
  EXPECT_EQ(answer({.outcome = Outcome::foreign}).status, 403);
  const HttpResponse crowded = answer({.outcome = Outcome::too_many_streams, .message = "it has 9"});
  EXPECT_EQ(crowded.status, 409);
  EXPECT_EQ(Json::parse(crowded.body), Json::parse(R"({"error": "it has 9", "kind": "too_many_streams"})"));
  const HttpResponse busy = answer({.outcome = Outcome::busy});
  EXPECT_EQ(busy.status, 503);
  EXPECT_EQ(busy.headers.at("Retry-After"), "1");
  EXPECT_EQ(answer({.outcome = Outcome::failed}).status, 500);
}

TEST(Endpoint, NobodyIsServedWithoutAGatewaysToken) {
  EndpointBox box;
  for (const std::string& given : {std::string(), std::string("Bearer "), std::string("Bearer x"), "Basic " + box.token,
                                   box.token, "Bearer " + box.token + "x", "Bearer " + box.token.substr(1)}) {
    Headers headers = without(box.stream_headers(), "authorization");
    if (!given.empty()) headers["authorization"] = given;
    const HttpResponse refused = box.post("{}\n", headers);
    EXPECT_EQ(refused.status, 401) << given;
    EXPECT_EQ(refused.headers.at("WWW-Authenticate"), "Bearer");
    EXPECT_EQ(box.ask("GET", std::string("/v1/streams/") + EndpointBox::kStream, headers).status, 401);
    EXPECT_EQ(box.ask("GET", "/metrics", headers).status, 401);
  }
  EXPECT_TRUE(box.taken.empty());
  EXPECT_EQ(box.ask("GET", "/healthz", {}).status, 200);
  EXPECT_EQ(box.post("{}\n", with(box.stream_headers(), "authorization", "bearer " + box.token)).status, 202);
}

TEST(Endpoint, ChangesOfGatewaysCountWithinAboutASecond) {
  EndpointBox box;
  EXPECT_EQ(box.post("{}\n", box.stream_headers()).status, 202);
  const std::string rotated = rotate_gateway(box.config.state_dir, "edge-1");
  remove_gateway(box.config.state_dir, "edge-2");
  box.now_us += 1'000'000;
  EXPECT_EQ(box.post("{}\n", box.stream_headers()).status, 401);
  EXPECT_EQ(box.post("{}\n", with(box.stream_headers(), "authorization", "Bearer " + box.other_token)).status, 401);
  EXPECT_EQ(box.post("{}\n", with(box.stream_headers(), "authorization", "Bearer " + rotated)).status, 202);
}

TEST(Endpoint, AStreamHasAllOfItsHeadersOrNone) {
  EndpointBox box;
  for (const char* name : {"x-hyp-batch-id", "x-hyp-stream", "x-hyp-open", "x-hyp-seq-range"}) {
    EXPECT_EQ(box.post("{}\n", without(box.stream_headers(), name)).status, 400) << name;
    EXPECT_EQ(box.post("{}\n", with(box.stream_headers(), name, "")).status, 400) << name;
  }
  for (const char* range : {"1", "1,", ",1", "2,1", "1,1", "1,2,3", "1,2;", "1,2;end", "1,2;start;reset=1", "a,b",
                            "1,99999999999999999999", "1,2;reset=0", "0x1,2", " 1,2", "+1,2"}) {
    EXPECT_EQ(box.post("{}\n", box.stream_headers(range)).status, 400) << range;
  }
  for (const char* id : {"a b", "a/b", "../a", "a\n", "é"}) {
    EXPECT_EQ(box.post("{}\n", with(box.stream_headers(), "x-hyp-batch-id", id)).status, 400) << id;
    EXPECT_EQ(box.post("{}\n", with(box.stream_headers(), "x-hyp-open", id)).status, 400) << id;
  }
  EXPECT_EQ(box.post("{}\n", with(box.stream_headers(), "x-hyp-batch-id", std::string(129, 'a'))).status, 400);
  EXPECT_EQ(box.post("{}\n", box.stream_headers("5,5;reset=9")).status, 400) << "a reset has no rows";
  EXPECT_TRUE(box.taken.empty());
  EXPECT_EQ(box.post("", box.stream_headers("5,5;reset=9")).status, 202);
  EXPECT_EQ(box.post("\n", box.stream_headers("5,8")).status, 202) << "a range with no row left";
  EXPECT_EQ(box.post("{}\n{}\n{}\n", box.stream_headers("8,10")).status, 400) << "more rows than numbers";
  ASSERT_EQ(box.taken.size(), 2U);
  EXPECT_EQ(box.taken[0].range, (SeqRange{.since = 5, .until = 5, .reset = 9}));
  EXPECT_EQ(box.taken[1].text, "");
}

TEST(Endpoint, NamesThatTryToBePathsAreNoNames) {
  EndpointBox box;
  for (const char* dataset : {"", "..", "../d", ".hidden", "a/b", "a\\b", "a..b", "d/", "a b", "é"}) {
    EXPECT_EQ(
        box.ask("POST", std::string("/v1/ingest/") + dataset, without(box.stream_headers(), "none"), "{}\n").status,
        400)
        << dataset;
    EXPECT_EQ(box.ask("POST", std::string("/v1/ingest/") + dataset, {{"authorization", "Bearer " + box.token}}, "{}\n")
                  .status,
              400)
        << dataset;
  }
  const HttpResponse with_nul =
      box.ask("POST", std::string("/v1/ingest/a\0b", 14), {{"authorization", "Bearer " + box.token}}, "{}\n");
  EXPECT_EQ(with_nul.status, 400);
  EXPECT_THAT(Json::parse(with_nul.body)["error"].get<std::string>(),
              AllOf(HasSubstr(R"("a\u0000b" is no dataset's name)"), HasSubstr("at most 128 letters")));
  EXPECT_EQ(box.ask("POST", "/v1/ingest/" + std::string(129, 'a'), {{"authorization", "Bearer " + box.token}}).status,
            400);
  for (const std::string& stream :
       {std::string("c"), std::string("c/d"), std::string("c/d/source=a/x"), std::string("c/e/source=a"),
        std::string("c/d/x=a"), std::string("c/d/source=%2e"), std::string("c/d/source=%41"),
        std::string("../d/source=a"), std::string("/d/source=a"), std::string("c//source=a"),
        std::string("c/d/source=.."), std::string("c/d/source="), std::string("c d/d/source=a"),
        "c/d/source=" + std::string(700, 'a')}) {
    EXPECT_EQ(box.post("{}\n", with(box.stream_headers(), "x-hyp-stream", stream)).status, 400) << stream;
  }
  EXPECT_TRUE(box.taken.empty() && box.captured.empty());
  EXPECT_EQ(box.ask("GET", "/v1/streams/../../etc/passwd", {{"authorization", "Bearer " + box.token}}).status, 400);
  for (const char* stream : {"c/d/source=a%2Fb", "c/d/source=%2E.", "c/d/source=%"})
    EXPECT_EQ(box.post("{}\n", with(box.stream_headers(), "x-hyp-stream", stream)).status, 202) << stream;
}

TEST(Endpoint, UndeclaredDatasetsAreNotFoundWhereTheConfigurationSaysSo) {
  EndpointBox box;
  box.config.allow_undeclared_datasets = false;
  const HttpResponse refused = box.post("{}\n", box.stream_headers());
  EXPECT_EQ(refused.status, 404);
  EXPECT_THAT(refused.body, HasSubstr("not declared"));
}

TEST(Endpoint, ALineThatIsNoRowRefusesItsBatchAndSaysWhich) {
  EndpointBox box;
  box.config.datasets["d"].name = "d";
  box.config.datasets["d"].row_bytes_max = 200;
  const std::map<std::string, std::string> lines = {
      {"[1]", "no JSON object"},
      {"1", "no JSON object"},
      {"null", "no JSON object"},
      {"{", "expected a key"},
      {"{\"a\":1", "expected"},
      {"{\"a\":1}}", "more follows"},
      {"{\"a\":1} {}", "more follows"},
      {"{\"a\":01}", "leading zero"},
      {"{\"a\":nan}", "expected a value"},
      {"{'a':1}", "expected a key"},
      {"{\"a\":1,}", "expected a key"},
      {"{\"a\":\"\xff\"}", "no UTF-8"},
      {"{\"a\":\"\\ud800\"}", "surrogate"},
      {"{\"a\":1,\"a\":2}", "twice"},
      {"{\"a\":1,\"A\":2}", "twice"},
      {"{\"a\":1,\"\\u0061\":2}", "twice"},
      {"{\"x\":{\"b\":1,\"b\":2}}", "twice"},
      {"{\"\":1}", "without a name"},
      {"{\"a\\u0000\":1}", "NUL"},
      {"{\"_hyp_ingest_seq\":1}", "reserved"},
      {"{\"hyp_gateway\":\"edge-2\"}", "the receiver's to set"},
      {"{\"a\":1,\"HYP_Gateway\":1}", "the receiver's to set"},
      {"{\"hyp\\u005fgateway\":1}", "the receiver's to set"},
      {"{\"a\":\"" + std::string(200, 'x') + "\"}", "longer than 200 bytes"},
      {"{\"a\":" + std::string(100, '['), "nested too deeply"},
  };
  for (const auto& [line, reason] : lines) {
    const HttpResponse refused = box.post("{\"n\":1}\n\n" + line + "\n{\"n\":2}\n", box.stream_headers());
    EXPECT_EQ(refused.status, 422) << line;
    const Json json = Json::parse(refused.body);
    EXPECT_EQ(json["line"], 3) << line;
    EXPECT_THAT(json["error"].get<std::string>(), HasSubstr(reason)) << line;
  }
  EXPECT_TRUE(box.taken.empty()) << "nothing of a batch is taken";
}

TEST(Endpoint, CapturedRowsHaveTheGatewayTooAndWhatIsNoRowIsLeftToTheFlush) {
  EndpointBox box;
  const Headers headers = {{"authorization", "Bearer " + box.token}, {"x-hyp-batch-id", "b1"}, {"x-hyp-source", "me"}};
  EXPECT_EQ(box.post(zstd("{\"n\":1}\n{ }\nno row\n{\n"), headers).status, 202);
  ASSERT_EQ(box.captured.size(), 1U);
  EXPECT_EQ(box.captured[0].gateway, "edge-1");
  EXPECT_EQ(box.captured[0].dataset, "d");
  EXPECT_EQ(box.captured[0].batch_id, "b1");
  EXPECT_EQ(box.captured[0].text, "{\"hyp_gateway\":\"edge-1\",\"n\":1}\n{\"hyp_gateway\":\"edge-1\"}\nno row\n{\n");
  EXPECT_TRUE(box.taken.empty());
}

TEST(Endpoint, AStreamsStateIsToldToItsGateway) {
  EndpointBox box;
  const Headers headers = {{"authorization", "Bearer " + box.token}};
  const std::string path = std::string("/v1/streams/") + EndpointBox::kStream;
  EXPECT_EQ(Json::parse(box.ask("GET", path, headers).body), Json::parse(R"({"opens": {}, "forgot": null})"));
  box.stream_state = StreamState{{{"o1", 9007199254740993}, {"o2", -3}}, 12};
  EXPECT_EQ(Json::parse(box.ask("GET", path, headers).body),
            Json::parse(R"({"opens": {"o1": "9007199254740993", "o2": "-3"}, "forgot": "12"})"));
  box.stream_state = std::nullopt;
  EXPECT_EQ(box.ask("GET", path, headers).status, 403);
  EXPECT_EQ(box.ask("POST", path, headers).status, 405);
}

TEST(Endpoint, WhoseAStreamIsTheOperatorLearnsAndNobodyElse) {
  EndpointBox box;
  box.access_log = std::make_unique<AccessLog>(box.folder / "access.log");
  box.result = {.outcome = Outcome::foreign, .last = {}, .message = "edge-9"};
  box.stream_state = std::nullopt;
  const HttpResponse refused = box.post("{}\n", box.stream_headers());
  const HttpResponse state =
      box.ask("GET", std::string("/v1/streams/") + EndpointBox::kStream, {{"authorization", "Bearer " + box.token}});
  for (const HttpResponse& answer : {refused, state}) {
    EXPECT_EQ(answer.status, 403);
    EXPECT_THAT(answer.body,
                AllOf(HasSubstr("use that gateway's token, or ask the receiver's operator"), Not(HasSubstr("edge-9"))));
  }
  const std::vector<Json> lines = box.logged();
  ASSERT_EQ(lines.size(), 2U);
  for (const Json& line : lines) {
    EXPECT_EQ(line["outcome"], "foreign");
    EXPECT_EQ(line["gateway"], "edge-1");
    EXPECT_EQ(line["detail"], fmt::format("the stream {} is the gateway edge-9's", EndpointBox::kStream));
  }
}

TEST(Endpoint, OtherPathsAndMethodsAreToldApart) {
  EndpointBox box;
  EXPECT_EQ(box.ask("GET", "/v1/ingest/d", box.stream_headers()).headers.at("Allow"), "POST");
  EXPECT_EQ(box.ask("POST", "/healthz", {}).status, 405);
  EXPECT_EQ(box.ask("GET", "/", {}).status, 404);
  EXPECT_EQ(box.ask("POST", "/v2/ingest/d", {}).status, 404);
}

TEST(Endpoint, CountsWhatCameForPrometheus) {
  EndpointBox box;
  box.post("{\"n\":1}\n{\"n\":2}\n", box.stream_headers());
  box.result.outcome = Outcome::known;
  box.post("{\"n\":1}\n{\"n\":2}\n", box.stream_headers());
  box.post("x", box.stream_headers());
  box.post("x", {});
  const HttpResponse metrics = box.ask("GET", "/metrics", {}, "", /*is_local=*/true);
  EXPECT_EQ(metrics.headers.at("Content-Type"), "text/plain; version=0.0.4");
  for (const char* line : {"# TYPE hyp_receiver_requests_total counter\n",
                           "hyp_receiver_requests_total{code=\"202\"} 2\n",
                           "hyp_receiver_requests_total{code=\"401\"} 1\n",
                           "hyp_receiver_requests_total{code=\"422\"} 1\n",
                           "hyp_receiver_batches_total{outcome=\"landed\"} 1\n",
                           "hyp_receiver_batches_total{outcome=\"known\"} 1\n",
                           "hyp_receiver_batches_total{outcome=\"refused\"} 0\n",
                           "hyp_receiver_batches_total{outcome=\"poison\"} 1\n",
                           "hyp_receiver_group_batches_sum 12\n",
                           "hyp_receiver_group_batches_count 3\n",
                           "# TYPE hyp_receiver_commit_seconds summary\n",
                           "hyp_receiver_commit_seconds_sum 1.5\n",
                           "hyp_receiver_commit_seconds_count 3\n",
                           "hyp_receiver_rows_total 2\n",
                           "hyp_receiver_body_bytes_total 33\n",
                           "hyp_receiver_gateway_rows_total{gateway=\"edge-1\"} 2\n",
                           "hyp_receiver_gateway_body_bytes_total{gateway=\"edge-1\"} 33\n",
                           "hyp_receiver_connections 7\n",
                           "hyp_receiver_bodies_bytes 8\n",
                           "hyp_receiver_waiting_batches 9\n",
                           "# TYPE hyp_spool_unflushed_bytes gauge\n",
                           "hyp_spool_unflushed_bytes 10\n"}) {
    EXPECT_THAT(metrics.body, HasSubstr(line));
  }
}

TEST(Endpoint, AccessLogAndMetricsSayTheSameWordOfABatch) {
  EndpointBox box;
  box.access_log = std::make_unique<AccessLog>(box.folder / "access.log");
  for (const Outcome outcome : {Outcome::landed, Outcome::known, Outcome::refused, Outcome::forgot, Outcome::foreign,
                                Outcome::too_many_streams, Outcome::busy, Outcome::failed}) {
    box.result.outcome = outcome;
    box.post("{}\n", box.stream_headers());
  }
  box.post("x", box.stream_headers());
  box.post("{}", box.stream_headers("1"));
  box.room_error = Error(ErrorKind::busy, "the disk is full");
  box.post("{}\n", box.stream_headers());
  box.room_error = Error(ErrorKind::io, "the disk is gone");
  EXPECT_THROW(box.post("{}\n", box.stream_headers()), Error) << "the server answers with 500";
  const std::string metrics = box.ask("GET", "/metrics", {}, "", /*is_local=*/true).body;
  std::map<std::string, int> words;
  for (const Json& line : box.logged()) ++words[line["outcome"].get<std::string>()];
  EXPECT_EQ(words.erase("ok"), 1U) << "of /metrics";
  EXPECT_EQ(words.size(), 11U);
  for (const auto& [word, count] : words)
    EXPECT_THAT(metrics, HasSubstr(fmt::format("hyp_receiver_batches_total{{outcome=\"{}\"}} {}\n", word, count)));
}

TEST(Endpoint, EachRequestIsALineOfTheAccessLog) {
  EndpointBox box;
  box.access_log = std::make_unique<AccessLog>(box.folder / "access.log");
  box.post("{\"n\":1}\n", box.stream_headers());
  box.post("\xff\n", box.stream_headers());
  box.post("{}", {{"authorization", "Bearer forged"}});
  box.endpoint().served({.peer = "192.0.2.9:1"}, {.status = 408, .problem = "the head took too long"});
  const std::vector<Json> lines = box.logged();
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(lines[0]["gateway"], "edge-1");
  EXPECT_EQ(lines[0]["peer"], "192.0.2.1:5");
  EXPECT_EQ(lines[0]["method"], "POST");
  EXPECT_EQ(lines[0]["path"], "/v1/ingest/d");
  EXPECT_EQ(lines[0]["status"], 202);
  EXPECT_EQ(lines[0]["bytes"], 8);
  EXPECT_EQ(lines[0]["rows"], 1);
  EXPECT_EQ(lines[0]["outcome"], "landed");
  EXPECT_EQ(lines[1]["outcome"], "poison");
  EXPECT_EQ(lines[2]["gateway"], Json());
  EXPECT_EQ(lines[2]["outcome"], "unauthorized");
  EXPECT_EQ(lines[3]["status"], 408);
  EXPECT_EQ(lines[3]["outcome"], "invalid");
  EXPECT_EQ(lines[3]["detail"], "the head took too long");
  for (const Json& line : lines) EXPECT_THAT(line.dump(), Not(HasSubstr(box.token)));
}

}  // namespace
}  // namespace firn::hyp
