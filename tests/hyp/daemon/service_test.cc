// What HTTP capture answers, and an owned cache's checks, without a socket.
#include "hyp/daemon/service.h"

#include <chrono>
#include <thread>

#include <gmock/gmock.h>

#include "hyp/cache/cache_box.h"
#include "hyp/daemon/daemon.h"

namespace firn::hyp {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

HttpResponse post(Service& service, const std::string& dataset, const std::string& body,
                  const std::map<std::string, std::string>& headers = {}) {
  return answer_http(service, {"POST", "/v1/ingest/" + dataset, headers, body});
}

TEST(HttpCapture, AnswersSayWhatBecameOfTheBody) {
  CacheBox box;
  const auto service = Service::try_own(box.config);
  EXPECT_EQ(post(*service, "d", "{\"n\":1}\n{\"n\":2}\n", {{"x-hyp-batch-id", "7"}}).status, 202);
  const HttpResponse repeated = post(*service, "d", "{\"n\":1}\n{\"n\":2}\n", {{"x-hyp-batch-id", "7"}});
  EXPECT_EQ(repeated.status, 202);
  EXPECT_EQ(Json::parse(repeated.body)["skipped"], 2);
  const HttpResponse other = post(*service, "d", "{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n", {{"x-hyp-batch-id", "7"}});
  EXPECT_EQ(other.status, 409);
  EXPECT_THAT(other.body, HasSubstr("another body"));
  EXPECT_EQ(post(*service, "d", "[{\"n\":1}]").status, 400);
  EXPECT_EQ(post(*service, "d", "x", {{"content-encoding", "br"}}).status, 415);
  EXPECT_EQ(post(*service, "d", "{\"n\":4}\n", {{"content-encoding", "identity"}}).status, 202);
  EXPECT_EQ(service->flush().rows, 3);
}

TEST(HttpCapture, ADeclarationThatContradictsTheTablesIsRefusedBeforeAnythingIsTaken) {
  CacheBox box;
  box.declare("d").schema = iceberg::Schema({{1, "n", false, iceberg::parse_primitive_type("long")}});
  {
    Cache cache(box.config);
    ingest(cache, {make_frame("d", "default", {R"({"n":1})"})});
    Spool::open(box.config.cache_root)->append({make_frame("d", "default", {R"({"n":2})"})});
  }
  box.declare("d").schema = iceberg::Schema({{1, "n", false, iceberg::parse_primitive_type("string")}});
  const auto service = Service::try_own(box.config);
  const HttpResponse refused = post(*service, "d", "{\"n\":\"x\"}\n");
  EXPECT_EQ(refused.status, 500);
  EXPECT_THAT(refused.body, AllOf(HasSubstr("declared as string"), HasSubstr("has it as long")));
  EXPECT_EQ(post(*service, "e", "{\"n\":\"x\"}\n").status, 202) << "other datasets go on";
  // What was spooled before goes into the table as it is, and the rest of the dataset's rows stay readable.
  const FlushReport report = service->flush();
  EXPECT_EQ(report.rows, 2);
  EXPECT_TRUE(report.problems.empty());
  EXPECT_EQ(cached_rows(service->cache(), {"d", "default"}), (Lines{R"({"n":1})", R"({"n":2})"}));
}

TEST(HttpCapture, BeyondTheDiskLimitRowsAreRefusedUntilThereIsRoomAndNoneIsDropped) {
  CacheBox box;
  box.config.cache_bytes_max = 100'000;
  box.config.collect = {{"app", "d", box.folder / "app.log"}};
  replace_file(box.folder / "app.log", "{\"n\":3}\n");
  {
    const auto service = Service::try_own(box.config);
    EXPECT_EQ(post(*service, "d", "{\"n\":1}\n").status, 202);
    EXPECT_EQ(service->flush().rows, 1);
  }
  const std::string big = box.config.cache_root + "/datasets/big";
  replace_file(big, std::string(200'000, 'x'));
  const auto service = Service::try_own(box.config);
  const HttpResponse refused = post(*service, "d", "{\"n\":2}\n");
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.headers.at("Retry-After"), "10");
  EXPECT_THAT(refused.body, AllOf(HasSubstr("takes 2"), HasSubstr("maxCacheBytes (100000)"), HasSubstr("hyp purge")));
  const FollowReport followed = service->follow();
  EXPECT_EQ(followed.total.lines, 0);
  ASSERT_EQ(followed.problems.size(), 1U);
  EXPECT_THAT(followed.problems[0], HasSubstr("maxCacheBytes"));
  EXPECT_EQ(service->flush().rows, 0);
  EXPECT_EQ(cached_rows(service->cache(), {"d", "default"}), Lines{R"({"n":1})"});
  remove_file(big);
  int status = 429;
  while (status == 429) {  // it looks again within a second or two
    status = post(*service, "d", "{\"n\":2}\n").status;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(status, 202);
  EXPECT_EQ(service->follow().total.lines, 1);
}

TEST(Service, ANewSourceColumnCountsForTheFirstRowsThatComeUnderIt) {
  CacheBox box;
  {
    const auto service = Service::try_own(box.config);
    EXPECT_EQ(post(*service, "d", "{\"i\":0}\n").status, 202);
    EXPECT_EQ(service->flush().rows, 1);
  }
  box.declare("d").source_column = "src";
  {
    const auto service = Service::try_own(box.config);
    EXPECT_EQ(post(*service, "d", "{\"i\":1,\"src\":\"s1\"}\n{\"i\":2,\"src\":\"s2\"}\n").status, 202);
    EXPECT_EQ(service->flush().rows, 2);
    EXPECT_EQ(cached_rows(service->cache(), {"d", "s1"}), Lines{R"({"i":1,"src":"s1"})"});
    EXPECT_EQ(cached_rows(service->cache(), {"d", "s2"}), Lines{R"({"i":2,"src":"s2"})"});
    // Spooled under the column, and flushed without it.
    EXPECT_EQ(post(*service, "d", "{\"i\":3,\"src\":\"s1\"}\n").status, 202);
  }
  box.declare("d").source_column = "";
  const auto service = Service::try_own(box.config);
  EXPECT_EQ(service->flush().rows, 1);
  EXPECT_EQ(cached_rows(service->cache(), {"d", "s1"}).size(), 2U);
}

TEST(Service, FollowsThroughRotationAndTellsWhatIsMissed) {
  CacheBox box;
  const std::string log = box.folder / "app.log";
  box.config.collect = {{"app", "d", log}};
  replace_file(log, "{\"n\":1}\n");
  {
    const auto service = Service::try_own(box.config);
    EXPECT_EQ(service->follow().total.lines, 1);
    AppendFile::open(log).append("{\"n\":2}\n");
    rename_file(log, log + ".1");
    replace_file(log, "{\"n\":3}\n");
    EXPECT_EQ(service->follow().total.lines, 2);
  }
  replace_file(box.folder / "new", "{\"n\":4}\n");
  rename_file(box.folder / "new", log);
  const auto service = Service::try_own(box.config);
  EXPECT_EQ(service->follow().missed.size(), 1U);
  EXPECT_EQ(load_missed(box.config.cache_root, "app").size(), 1U);
  EXPECT_EQ(service->flush().rows, 4);
}

}  // namespace
}  // namespace firn::hyp
