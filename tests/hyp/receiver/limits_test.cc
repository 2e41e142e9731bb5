// How much may come: rates, bombs, room, and bodies at once.
#include <zstd.h>

#include <gmock/gmock.h>

#include "base/json.h"
#include "hyp/receiver/endpoint_box.h"

namespace firn::hyp {
namespace {

using ::testing::AllOf;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Le;
using Headers = std::map<std::string, std::string>;

int64_t retry_after(const HttpResponse& answer) { return std::stoll(answer.headers.at("Retry-After")); }

TEST(RateLimits, AGatewayMaySendSoManyRequestsASecond) {
  int64_t now_us = 0;
  RateLimits limits(10, 0, [&] { return now_us; });
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(limits.take("a", 1'000'000)) << i;
  EXPECT_EQ(limits.take("a", 0), 1);
  EXPECT_FALSE(limits.take("b", 0)) << "others have their own";
  now_us += 99'000;
  EXPECT_EQ(limits.take("a", 0), 1);
  now_us += 1'000;
  EXPECT_FALSE(limits.take("a", 0));
  EXPECT_EQ(limits.take("a", 0), 1);
  now_us += 60'000'000;  // a pause does not add up
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(limits.take("a", 0)) << i;
  EXPECT_EQ(limits.take("a", 0), 1);
}

TEST(RateLimits, WhoIsToldWhenToComeIsServedThen) {
  int64_t now_us = 0;
  RateLimits limits(0, 1000, [&] { return now_us; });
  EXPECT_FALSE(limits.take("a", 5000)) << "larger than a second's worth: taken in advance";
  const auto wait_s = limits.take("a", 1000);
  ASSERT_TRUE(wait_s);
  EXPECT_EQ(*wait_s, 5);
  now_us += (*wait_s - 1) * 1'000'000;
  EXPECT_EQ(limits.take("a", 1000), 1);
  now_us += 1'000'000;
  EXPECT_FALSE(limits.take("a", 1000));
  limits.charge("a", 2500);
  EXPECT_EQ(limits.take("a", 1), 3);
  EXPECT_FALSE(limits.take("a", 0)) << "a question has no bytes";
}

TEST(RateLimits, OverTimeNoMoreIsTakenThanIsAllowed) {
  int64_t now_us = 0, taken = 0;
  RateLimits limits(0, 100'000, [&] { return now_us; });
  for (; now_us < 60'000'000; now_us += 7'000) {
    if (!limits.take("a", 3'000)) taken += 3'000;
  }
  EXPECT_THAT(taken, AllOf(Ge(100'000 * 59), Le(100'000 * 61)));
}

TEST(Limits, TooManyRequestsAreToldWhenToComeAgain) {
  EndpointBox box;
  box.config.receiver.gateway_requests_per_s = 2;
  box.config.receiver.gateway_bytes_per_s = 1'000'000;
  EXPECT_EQ(box.post("{}\n", box.stream_headers()).status, 202);
  EXPECT_EQ(box.post("{}\n", box.stream_headers()).status, 202);
  const HttpResponse refused = box.post("{}\n", box.stream_headers());
  EXPECT_EQ(refused.status, 429);
  EXPECT_GE(retry_after(refused), 1);
  EXPECT_EQ(box.taken.size(), 2U);
  Headers other = box.stream_headers();
  other["authorization"] = "Bearer " + box.other_token;
  EXPECT_EQ(box.post("{}\n", other).status, 202);
  box.now_us += 1'000'000;
  EXPECT_EQ(box.post("{}\n", box.stream_headers()).status, 202);
  EXPECT_EQ(box.ask("GET", "/metrics", {{"authorization", "Bearer " + box.token}}).status, 200);
}

TEST(Limits, ABodyThatIsTooLongIsRefusedByItsHeadAndCostsNothingOfTheRate) {
  EndpointBox box;
  box.config.receiver.body_bytes_max = 1000;
  box.config.receiver.gateway_bytes_per_s = 10'000;
  HttpRequest request{.method = "POST", .path = "/v1/ingest/d", .headers = box.stream_headers()};
  request.content_length = INT64_MAX;
  const std::optional<HttpResponse> refusal = box.endpoint().admit(request);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->status, 413);
  EXPECT_EQ(box.post("{}\n", box.stream_headers()).status, 202);
}

TEST(Limits, BombsAreRefusedBeforeTheyAreWhole) {
  EndpointBox box;
  box.config.receiver.body_bytes_max = 1 << 20;
  std::string bomb;
  for (int i = 0; i < 20; ++i) bomb += std::string(1 << 20, ' ');
  std::string packed(::ZSTD_compressBound(bomb.size()), '\0');
  packed.resize(::ZSTD_compress(packed.data(), packed.size(), bomb.data(), bomb.size(), 3));
  ASSERT_LT(packed.size(), 1U << 20);
  HttpRequest request{.method = "POST", .path = "/v1/ingest/d", .headers = box.stream_headers()};
  request.content_length = static_cast<int64_t>(packed.size());
  int64_t reserved = 0;
  request.reserve = [&](int64_t bytes) {
    reserved += bytes;
    return true;
  };
  ASSERT_FALSE(box.endpoint().admit(request));
  request.body = packed;
  int status = 0;
  box.endpoint().handle(request, [&](const HttpResponse& answer) { status = answer.status; });
  EXPECT_EQ(status, 413);
  EXPECT_LE(reserved, 2 << 20);
  std::string tiny;
  for (int i = 0; i < 300'000; ++i) tiny += "{}\n";
  EXPECT_EQ(box.post(tiny, box.stream_headers()).status, 413) << "what the gateway's column would make of it";
  EXPECT_EQ(box.post(tiny, {{"authorization", "Bearer " + box.token}}).status, 413);
  EXPECT_TRUE(box.taken.empty() && box.captured.empty());
}

TEST(Limits, WhatIsHeldUntilTheAnswerIsBounded) {
  EndpointBox box;
  HttpRequest request{.method = "POST", .path = "/v1/ingest/d", .headers = {}};
  request.headers["authorization"] = "Bearer " + box.token;  // captured rows are held with the gateway's column
  request.content_length = 8;
  int64_t left = 1;
  request.reserve = [&](int64_t bytes) { return (left -= bytes) >= 0; };
  ASSERT_FALSE(box.endpoint().admit(request));
  request.body = "{\"n\":1}\n";
  HttpResponse answer;
  box.endpoint().handle(request, [&](HttpResponse given) { answer = std::move(given); });
  EXPECT_EQ(answer.status, 503);
  EXPECT_GE(retry_after(answer), 1);
  EXPECT_TRUE(box.captured.empty());
}

TEST(Limits, OneGatewaysSlowBodiesLeaveRoomForTheOthers) {
  EndpointBox box;
  box.config.receiver.body_bytes_max = 1'000'000;
  box.config.receiver.bodies_bytes_max = 4'000'000;
  std::vector<HttpRequest> slow;
  const auto admit = [&](const std::string& token, std::optional<int64_t> length) {
    HttpRequest request{.method = "POST", .path = "/v1/ingest/d", .headers = box.stream_headers()};
    request.headers["authorization"] = "Bearer " + token;
    request.content_length = length;
    const std::optional<HttpResponse> refusal = box.endpoint().admit(request);
    slow.push_back(std::move(request));
    return refusal ? refusal->status : 0;
  };
  EXPECT_EQ(admit(box.token, 1'000'000), 0);
  EXPECT_EQ(admit(box.token, std::nullopt), 0) << "chunked: it may be as long";
  EXPECT_EQ(admit(box.token, 1), 503);
  EXPECT_EQ(admit(box.other_token, 1'000'000), 0);
  box.endpoint().served(slow[0], {.status = 202});
  EXPECT_EQ(admit(box.token, 1'000'000), 0);
  EXPECT_EQ(admit(box.token, 1), 503);
}

TEST(Limits, OneGatewaysRequestsLeaveConnectionsForTheOthers) {
  EndpointBox box;
  box.config.receiver.connections_max = 10;
  std::vector<HttpRequest> slow;
  const auto admit = [&](const std::string& token) {
    HttpRequest request{.method = "POST", .path = "/v1/ingest/d", .headers = box.stream_headers()};
    request.headers["authorization"] = "Bearer " + token;
    request.content_length = 1;
    const std::optional<HttpResponse> refusal = box.endpoint().admit(request);
    slow.push_back(std::move(request));
    return refusal ? refusal->status : 0;
  };
  for (int i = 0; i < 5; ++i) EXPECT_EQ(admit(box.token), 0);
  EXPECT_EQ(admit(box.token), 503);
  EXPECT_EQ(admit(box.other_token), 0);
  slow[0].note.reset();  // its connection ended
  EXPECT_EQ(admit(box.token), 0);
}

TEST(Limits, AFullDiskIsForTheSenderToWaitOutAndABrokenDeclarationForTheOperator) {
  EndpointBox box;
  box.room_error = Error(ErrorKind::busy, "the spool is full");
  const HttpResponse full = box.post("{}\n", box.stream_headers());
  EXPECT_EQ(full.status, 503);
  EXPECT_GE(retry_after(full), 1);
  EXPECT_THAT(full.body, HasSubstr("the spool is full"));
  box.room_error = Error(ErrorKind::config, "declared otherwise");
  EXPECT_THROW(box.post("{}\n", box.stream_headers()), Error);  // the server answers 500, and logs it
}

}  // namespace
}  // namespace firn::hyp
