#include "base/span.h"

#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "base/error.h"
#include "base/json.h"
#include "support/temp_folder.h"

namespace firn {
namespace {

// The spans in `path`, each line unwrapped from its resourceSpans and scopeSpans.
std::vector<Json> read_spans(const std::string& path) {
  std::vector<Json> spans;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const Json parsed = parse_json(line, path);
    EXPECT_EQ(parsed.at("resourceSpans").size(), 1u);
    spans.push_back(parsed["resourceSpans"][0].at("scopeSpans")[0].at("spans")[0]);
  }
  return spans;
}

class SpanTest : public testing::Test {
 protected:
  ~SpanTest() override { set_trace_file(""); }
  TempFolder folder_;
  std::string path_ = folder_ / "trace.jsonl";
};

TEST_F(SpanTest, WritesNestedSpansAsOtlpJson) {
  set_trace_file(path_);
  {
    Span outer("flush");
    outer.set("dataset", "flights");
    outer.set("rows", int64_t{1} << 60);
    outer.set("rows", int64_t{7});
    { Span inner("commit"); }
  }
  { Span other("next"); }
  const std::vector<Json> spans = read_spans(path_);
  ASSERT_EQ(spans.size(), 3u);
  const Json& inner = spans[0];
  const Json& outer = spans[1];
  EXPECT_EQ(outer["name"], "flush");
  EXPECT_EQ(inner["name"], "commit");
  EXPECT_EQ(inner["parentSpanId"], outer["spanId"]);
  EXPECT_EQ(inner["traceId"], outer["traceId"]);
  EXPECT_EQ(outer["traceId"].get<std::string>().size(), 32u);
  EXPECT_EQ(outer["spanId"].get<std::string>().size(), 16u);
  EXPECT_FALSE(outer.contains("parentSpanId"));
  EXPECT_NE(spans[2]["traceId"], outer["traceId"]);
  EXPECT_EQ(outer["attributes"].dump(),
            R"([{"key":"dataset","value":{"stringValue":"flights"}},{"key":"rows","value":{"intValue":"7"}}])");
  EXPECT_EQ(outer["status"]["code"], 1);
  EXPECT_LE(std::stoll(outer["startTimeUnixNano"].get<std::string>()),
            std::stoll(outer["endTimeUnixNano"].get<std::string>()));
}

TEST_F(SpanTest, EndsWithErrorWhenToldOrWhenAnExceptionEndsIt) {
  set_trace_file(path_);
  {
    Span told("told");
    told.fail("commit_conflict", "the table moved");
  }
  try {
    Span thrown("thrown");
    throw Error(ErrorKind::io, "gone");
  } catch (const Error&) {
    Span within_handler("fine");  // the exception is handled: it does not end this span
  }
  const std::vector<Json> spans = read_spans(path_);
  ASSERT_EQ(spans.size(), 3u);
  EXPECT_EQ(spans[0]["status"].dump(), R"({"code":2,"message":"the table moved"})");
  EXPECT_EQ(spans[0]["attributes"][0].dump(), R"({"key":"error_kind","value":{"stringValue":"commit_conflict"}})");
  EXPECT_EQ(spans[1]["status"]["code"], 2);
  EXPECT_EQ(spans[2]["status"]["code"], 1);
}

TEST_F(SpanTest, WritesWholeLinesFromManyThreads) {
  set_trace_file(path_);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      for (int k = 0; k < 50; ++k) Span("work").set("text", std::string(1000, 'x'));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(read_spans(path_).size(), 200u);
}

TEST_F(SpanTest, WritesNothingWhenOffAndTakesBytesThatAreNoText) {
  { Span("unseen").set("k", "v"); }
  set_trace_file(path_);
  { Span("seen").set("k", "\xff"); }
  EXPECT_EQ(read_spans(path_).size(), 1u);
  EXPECT_THROW(set_trace_file(folder_ / "none/trace"), Error);
}

}  // namespace
}  // namespace firn
