// What a forward sink sends: each new row once, in bodies that a receiver can decide about (P10.5, P11.1).
#include "hyp/forward/forward_box.h"

namespace firn::hyp {
namespace {

std::vector<SeqRange> ranges_of(const std::vector<ProxiedRequest>& posts) {
  std::vector<SeqRange> ranges;
  for (const ProxiedRequest& post : posts) ranges.push_back(parse_seq_range(post.headers.at("x-hyp-seq-range")));
  return ranges;
}

TEST(Forward, SendsNewRowsOnceAndNothingWhenThereAreNone) {
  ForwardBox box;
  box.ingest_rows(numbered(1, 3));
  EXPECT_EQ(box.ship_all().rows(), 3);
  EXPECT_EQ(box.received(), sorted_rows(numbered(1, 3)));
  EXPECT_EQ(box.ship_all().units(), 0);
  EXPECT_EQ(box.posts().size(), 1u) << "a tick with nothing new sends no row";
  box.ingest_rows(numbered(4, 5));
  box.ingest_rows(numbered(6, 6), "db");
  EXPECT_EQ(box.ship_all().rows(), 3);
  EXPECT_EQ(box.received(), sorted_rows(numbered(1, 6)));
  EXPECT_TRUE(box.waits_ms.empty());
  const Cache cache(box.config);
  for (const SinkPartitionStatus& status : sink_status(cache, box.sink)) EXPECT_EQ(status.rows_behind, 0);
}

TEST(Forward, SaysWhatABodyIsAndKeepsHiddenColumnsBack) {
  ForwardBox box;
  box.sink.compression = "none";
  box.ingest_rows({R"({"n":1,"s":"a\nb"})"});
  box.ship_all();
  const ProxiedRequest post = box.posts().at(0);
  EXPECT_EQ(post.target, "/v1/ingest/logs");
  EXPECT_EQ(post.body, "{\"n\":1,\"s\":\"a\\nb\"}\n");
  const Cache cache(box.config);
  EXPECT_EQ(post.headers.at("x-hyp-stream"), stream_of(cache.sequence().cache_id(), kWeb));
  EXPECT_EQ(post.headers.at("x-hyp-open"), open_ranges(cache.sequence().opens()).at(0).open_id);
  EXPECT_EQ(post.headers.at("x-hyp-seq-range"), "0,1;start");
  EXPECT_EQ(post.headers.at("content-type"), "application/x-ndjson");
  EXPECT_FALSE(post.headers.contains("content-encoding"));
  EXPECT_FALSE(post.headers.contains("authorization"));
}

TEST(Forward, CutsAUnitIntoBodiesThatFollowEachOther) {
  ForwardBox box;
  box.sink.unit_rows_max = 4;
  box.sink.unit_bytes_max = 100;  // of text, which is longer than the rows in memory
  Lines lines;
  for (int n = 1; n <= 9; ++n) lines.push_back(fmt::format(R"({{"a_long_name_for_so_small_a_value":{}}})", n));
  box.ingest_rows(lines);
  box.ship_all();
  EXPECT_EQ(box.receiver.rows("logs"), lines) << "in order";
  int64_t since = 0;
  for (const SeqRange& range : ranges_of(box.posts())) {
    EXPECT_EQ(range.since, since);
    EXPECT_EQ(range.start, since == 0) << "only the first of its open";
    EXPECT_LE(range.until - range.since, 2) << "two lines of 38 bytes";
    since = range.until;
  }
  EXPECT_EQ(since, 9);
}

TEST(Forward, EachOpenBeginsItsOwnRanges) {
  ForwardBox box;
  box.ingest_rows(numbered(1, 2));
  box.ingest_rows(numbered(3, 4));  // by another process: another open
  box.ship_all();
  const auto posts = box.posts();
  ASSERT_EQ(posts.size(), 2u);
  EXPECT_NE(posts[0].headers.at("x-hyp-open"), posts[1].headers.at("x-hyp-open"));
  EXPECT_TRUE(ranges_of(posts)[0].start && ranges_of(posts)[1].start);
}

TEST(Forward, CompressesAsConfigured) {
  ForwardBox box;
  Lines lines;
  for (int n = 0; n < 500; ++n) lines.push_back(fmt::format(R"({{"n":{},"text":"the same again and again"}})", n));
  box.ingest_rows(lines);
  box.ship_all();
  const ProxiedRequest post = box.posts().at(0);
  EXPECT_EQ(post.headers.at("content-encoding"), "zstd");
  EXPECT_LT(post.body.size(), 5000u);
  EXPECT_EQ(box.receiver.rows("logs"), lines);
}

TEST(Forward, KeepsItsConnectionAcrossUnits) {
  ForwardBox box;
  box.sink.unit_rows_max = 1;
  box.ingest_rows(numbered(1, 20));
  box.ship_all();
  EXPECT_EQ(box.posts().size(), 20u);
  EXPECT_EQ(box.proxy.num_connections(), 1);
}

TEST(Forward, ShipsPartitionsAtOnceEachOverItsOwnConnection) {
  ForwardBox box;
  Lines all;
  for (int i = 0; i < 6; ++i) {
    box.ingest_rows(numbered(10 * i, 10 * i + 4), fmt::format("s{}", i));
    all = all + numbered(10 * i, 10 * i + 4);
  }
  box.sink.parallel_max = 3;
  box.sink.unit_rows_max = 2;
  EXPECT_EQ(box.ship_all().rows(), 30);
  EXPECT_EQ(box.received(), sorted_rows(all));
  EXPECT_LE(box.proxy.num_connections(), 3);
}

TEST(Forward, NamesWithOddBytesArriveWhole) {
  ForwardBox box;
  const std::string source = "a/b c%d?é#..";
  box.ingest_rows(numbered(1, 2), source);
  box.ship_all();
  fs::remove_all(box.config.state_dir);  // what the stream is called is asked for again
  box.ingest_rows(numbered(3, 3), source);
  EXPECT_EQ(box.ship_all().rows(), 1);
  EXPECT_EQ(box.received(), sorted_rows(numbered(1, 3)));
}

TEST(Forward, SendsTheTokenOfItsFile) {
  ForwardBox box;
  box.receiver.set_token("secret");
  box.sink.forward.token_file = box.folder / "token";
  replace_file(box.sink.forward.token_file, "secret\n");
  box.ingest_rows(numbered(1, 1));
  EXPECT_EQ(box.ship_all().rows(), 1);
  EXPECT_EQ(box.posts().at(0).headers.at("authorization"), "Bearer secret");
}

TEST(Forward, ARefusedTokenIsReadOnceMore) {
  ForwardBox box;
  box.receiver.set_token("new");
  box.sink.forward.token_file = box.folder / "token";
  replace_file(box.sink.forward.token_file, "old\n");
  box.ingest_rows(numbered(1, 1));
  box.proxy.set_script([&](const ProxiedRequest&) {
    replace_file(box.sink.forward.token_file, "new");
    return Fault();
  });
  EXPECT_EQ(box.ship_all().rows(), 1) << "it was changed while the sink ran";
  EXPECT_TRUE(box.waits_ms.empty());

  box.proxy.set_script({});
  box.receiver.set_token("newer");
  box.ingest_rows(numbered(2, 2));
  box.proxy.forget_requests();
  const PartitionRun run = box.failed_run();
  EXPECT_EQ(run.error_kind, "config");
  EXPECT_TRUE(has(run.error, box.sink.forward.token_file)) << run.error;
  EXPECT_EQ(box.proxy.requests().size(), 2u) << "once more, not for ever";
  EXPECT_TRUE(box.waits_ms.empty());
}

TEST(Forward, ASinkWithoutATokenIsToldHowToHaveOne) {
  ForwardBox box;
  box.receiver.set_token("secret");
  box.ingest_rows(numbered(1, 1));
  const PartitionRun run = box.failed_run();
  EXPECT_EQ(run.error_kind, "config");
  EXPECT_TRUE(has(run.error, "the receiver wants a token, and the sink has none")) << run.error;
  EXPECT_TRUE(has(run.error, "tokenFile") && has(run.error, "tokenEnv")) << run.error;
  EXPECT_EQ(box.proxy.requests().size(), 1u);
}

TEST(Forward, ATokenComesFromTheEnvironmentToo) {
  ForwardBox box;
  box.receiver.set_token("secret");
  box.sink.forward.token_env = "FIRN_TEST_FORWARD_TOKEN";
  box.ingest_rows(numbered(1, 1));
  EXPECT_THROW(box.ship_now(), Error);
  ::setenv("FIRN_TEST_FORWARD_TOKEN", "secret", 1);
  EXPECT_EQ(box.ship_all().rows(), 1);
  ::setenv("FIRN_TEST_FORWARD_TOKEN", "wrong", 1);
  box.ingest_rows(numbered(2, 2));
  EXPECT_TRUE(has(box.failed_run().error, "FIRN_TEST_FORWARD_TOKEN"));
  ::setenv("FIRN_TEST_FORWARD_TOKEN", "two\nlines", 1);
  EXPECT_THROW(box.ship_now(), Error);
  ::unsetenv("FIRN_TEST_FORWARD_TOKEN");
}

TEST(Forward, WhatTheReceiverRefusesForGoodFailsThePartitionWithItsWords) {
  for (const int status : {403, 404, 415, 307, 500}) {
    ForwardBox box;
    box.ingest_rows(numbered(1, 2));
    box.fail_posts({answer_with(status, {{"Location", "/elsewhere"}}, R"({"error":"not for you"})")});
    const PartitionRun run = box.failed_run();
    EXPECT_TRUE(has(run.error, status == 307 ? "/elsewhere" : "not for you")) << run.error;
    EXPECT_EQ(box.posts().size(), 1u);
    EXPECT_TRUE(box.waits_ms.empty());
    EXPECT_TRUE(box.letters().empty());
    EXPECT_EQ(box.ship_all().rows(), 2) << "the next run goes on";
    EXPECT_EQ(box.received(), sorted_rows(numbered(1, 2)));
  }
}

TEST(Forward, WhatAReceiverAnswersIsShownOnOneLineWithoutBytesThatATerminalObeys) {
  ForwardBox box;
  box.ingest_rows(numbered(1, 2));
  box.proxy.set_script([](const ProxiedRequest&) { return answer_with(200, {}, "{\"\xe9\": 1}"); });
  const std::string state = box.failed_run().error;  // of what the receiver has of the stream
  EXPECT_TRUE(has(state, "check \"url\"") && has(state, "\\xe9")) << state;
  const auto error_after = [&](const Fault& answer) {
    box.fail_posts({answer});
    return box.failed_run().error;
  };
  const std::string json =
      error_after(answer_with(403, {}, R"({"error":"a\u001b[31m\nhyp: all is well\u0000\u009b é"})"));
  EXPECT_TRUE(has(json, R"(says 403: a\x1b[31m\nhyp: all is well\x00\u009b é)")) << json;
  const std::string latin = error_after(answer_with(403, {}, "acc\xe8s refus\xe9\r\n\x1b[2J\xc2\x9b"));
  EXPECT_TRUE(has(latin, R"(acc\xe8s refus\xe9   [2J\u009b)")) << latin;
  const std::string moved = error_after(answer_with(307, {{"Location", "/caf\xe9"}}));
  EXPECT_TRUE(has(moved, R"(redirects to /caf\xe9,)")) << moved;
  EXPECT_EQ(box.ship_all().rows(), 2);
}

TEST(Forward, AServerThatIsNoReceiverTakesNoRow) {
  ForwardBox box;
  box.ingest_rows(numbered(1, 2));
  box.proxy.set_script([](const ProxiedRequest&) { return answer_with(200, {}, "<html>Welcome</html>"); });
  const PartitionRun run = box.failed_run();
  EXPECT_TRUE(has(run.error, "check \"url\"")) << run.error;
  EXPECT_EQ(box.posts().size(), 0u);
  box.fail_posts({answer_with(200, {}, "<html>Log in to this network</html>")});
  EXPECT_TRUE(has(box.failed_run().error, "check \"url\""));
  EXPECT_EQ(box.ship_all().rows(), 2);
}

}  // namespace
}  // namespace firn::hyp
