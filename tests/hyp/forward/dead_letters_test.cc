// Rows that a receiver can never take: put aside one by one, and the stream moves on (P11.3).
#include "hyp/forward/forward_box.h"

#include <filesystem>
#include <fstream>

namespace firn::hyp {
namespace {

bool is_multiple_of_7(const std::string& row) { return Json::parse(row)["n"].get<int>() % 7 == 0; }

Lines without(const Lines& rows, bool (*is_bad)(const std::string&), bool bad = false) {
  Lines kept;
  for (const std::string& row : rows) {
    if (is_bad(row) == bad) kept.push_back(row);
  }
  return sorted_rows(kept);
}

class DeadLetter : public testing::TestWithParam<std::tuple<int, bool>> {};

TEST_P(DeadLetter, SingleBadRowsArePutAsideAndAllOthersArrive) {
  const auto [status, tells_line] = GetParam();
  ForwardBox box;
  box.receiver.refuse_rows(is_multiple_of_7, status, tells_line);
  box.sink.unit_rows_max = 40;
  const Lines rows = numbered(0, 99);
  box.ingest_rows(rows);
  const SinkRunReport report = box.ship_all();
  EXPECT_EQ(box.received(), without(rows, is_multiple_of_7));
  EXPECT_EQ(box.dead_rows(), without(rows, is_multiple_of_7, true));
  EXPECT_TRUE(has(report.partitions.at(0).note, box.letters_file())) << report.partitions.at(0).note;
  const Cache cache(box.config);
  EXPECT_EQ(sink_status(cache, box.sink).at(0).rows_behind, 0);
  const std::string open_id = open_ranges(cache.sequence().opens()).at(0).open_id;
  for (const Json& letter : box.letters()) {
    EXPECT_EQ(letter["open"], open_id);
    EXPECT_EQ(letter["number"], std::to_string(letter["row"]["n"].get<int>() + 1));
    EXPECT_EQ(letter["status"], status);
    EXPECT_EQ(letter["reason"], "bad row");
    EXPECT_EQ(letter["time"], "2023-11-14T22:13:20.000Z");
  }
  EXPECT_EQ(box.ship_all().units(), 0);
}

INSTANTIATE_TEST_SUITE_P(Answers, DeadLetter,
                         testing::Values(std::tuple(422, true), std::tuple(422, false), std::tuple(400, true)));

TEST(DeadLetters, ALineThatTheReceiverNamesIsFoundInFewRequests) {
  ForwardBox box;
  box.receiver.refuse_rows([](const std::string& row) { return has(row, "777"); });
  box.ingest_rows(numbered(1, 1000));
  box.ship_all();
  EXPECT_EQ(box.dead_rows(), (Lines{R"({"n":777})"}));
  EXPECT_LE(box.posts().size(), 4u) << "the body, what is before the row, the row, what is behind";
}

TEST(DeadLetters, AReceiverThatNamesWrongLinesCostsNoGoodRow) {
  ForwardBox box;
  box.sink.compression = "none";
  box.proxy.set_script([](const ProxiedRequest& request) {
    return request.method == "POST" && has(request.body, "\"n\":6}")
               ? answer_with(422, {}, R"({"error":"no","line":1})")
               : Fault();
  });
  box.ingest_rows(numbered(1, 200));
  box.ship_all();
  EXPECT_EQ(box.dead_rows(), (Lines{R"({"n":6})"}));
  EXPECT_EQ(box.received().size(), 199u);
  EXPECT_LE(box.posts().size(), 25u);
}

TEST(DeadLetters, AUnitWithoutAGoodRowIsSentEmpty) {
  ForwardBox box;
  box.receiver.refuse_rows(is_multiple_of_7);
  box.sink.unit_rows_max = 1;
  box.ingest_rows({R"({"n":7})", R"({"n":8})"});
  box.ship_all();
  EXPECT_EQ(box.received(), (Lines{R"({"n":8})"}));
  const auto posts = box.posts();
  ASSERT_EQ(posts.size(), 3u);
  EXPECT_EQ(posts[1].body, "");
  EXPECT_EQ(posts[1].headers.at("x-hyp-seq-range"), "0,1;start");
}

TEST(DeadLetters, ARowThatIsTooLongByItselfIsPutAsideUnsent) {
  ForwardBox box;
  box.sink.unit_bytes_max = 300;
  const std::string giant = fmt::format(R"({{"n":2,"text":"{}"}})", std::string(1000, 'x'));
  box.ingest_rows({R"({"n":1,"text":"a"})", giant, R"({"n":3,"text":"b"})"});
  box.ship_all();
  EXPECT_EQ(box.received(), sorted_rows(Lines{R"({"n":1,"text":"a"})", R"({"n":3,"text":"b"})"}));
  ASSERT_EQ(box.letters().size(), 1u);
  EXPECT_EQ(box.letters()[0]["status"], 0);
  EXPECT_EQ(box.letters()[0]["row"].dump(), giant);
  EXPECT_TRUE(has(box.letters()[0]["reason"], "300 (maxBytes)")) << box.letters()[0]["reason"];
  for (const ProxiedRequest& post : box.posts()) EXPECT_LE(post.body.size(), 300u);
  EXPECT_EQ(box.ship_all().units(), 0) << "it is not looped on";
}

TEST(DeadLetters, ABodyTooLongForTheReceiverIsHalved) {
  ForwardBox box;
  box.receiver.set_body_bytes_max(60);
  box.ingest_rows(numbered(1, 50) + Lines{fmt::format(R"({{"long":"{}"}})", std::string(100, 'x'))} + numbered(51, 60));
  box.ship_all();
  EXPECT_EQ(box.received(), sorted_rows(numbered(1, 60)));
  ASSERT_EQ(box.letters().size(), 1u);
  EXPECT_EQ(box.letters()[0]["status"], 413);
}

TEST(DeadLetters, ARefusalThatNamesNoRowBlamesNone) {
  for (const std::string body :
       {"<html>400 The plain HTTP request was sent to HTTPS port</html>", R"({"error":"what stream?"})"}) {
    ForwardBox box;
    box.ingest_rows(numbered(1, 5));
    box.fail_posts({answer_with(400, {}, body)});
    const PartitionRun run = box.failed_run();
    EXPECT_TRUE(has(run.error, "400")) << run.error;
    EXPECT_EQ(box.posts().size(), 1u);
    EXPECT_TRUE(box.letters().empty());
    box.ship_all();
    EXPECT_EQ(box.received(), sorted_rows(numbered(1, 5)));
  }
}

TEST(DeadLetters, ARowIsThereOrHereAlsoIfTheReceiverTakesItLater) {
  ForwardBox box;
  box.receiver.refuse_rows(is_multiple_of_7);
  box.ingest_rows(numbered(1, 20));
  // The row that was put aside first; then the receiver goes away.
  box.proxy.set_script([&](const ProxiedRequest&) { return box.letters().empty() ? Fault() : answer_with(403); });
  box.failed_run();
  ASSERT_EQ(box.dead_rows(), (Lines{R"({"n":7})"}));
  box.proxy.set_script({});
  box.receiver.refuse_rows(nullptr);
  box.ship_all();
  EXPECT_EQ(box.received().size(), 19u);
  EXPECT_EQ(box.dead_rows(), (Lines{R"({"n":7})"}));
}

TEST(DeadLetters, AFileThatACrashTornIsMendedAndWhatItHasIsKept) {
  ForwardBox box;
  box.receiver.refuse_rows(is_multiple_of_7);
  const std::string letter = R"({"open":"another","number":"8","time":"t","status":422,"reason":"r","row":{"n":7}})";
  for (const std::string& torn :
       {std::string(R"({"open":"an)"), std::string(600, '\0'), std::string("\0\0\n{}\n", 6)}) {
    fs::remove_all(box.config.state_dir);
    fs::create_directories(fs::path(box.letters_file()).parent_path());
    std::ofstream(box.letters_file(), std::ios::binary) << letter << "\n" << torn;
    box.ingest_rows({R"({"n":7})"});
    box.ship_all();
    const auto letters = box.letters();
    ASSERT_EQ(letters.size(), 2u) << "its own and the new one";
    EXPECT_EQ(letters[0].dump(), letter);
    EXPECT_NE(letters[1]["open"], "another");
  }
}

TEST(DeadLetters, AFileOfManyLettersIsReadToItsEnd) {
  TempFolder folder;
  const std::string path = folder / "letters.ndjson";
  const std::string row = fmt::format(R"({{"text":"{}"}})", std::string(100'000, 'x'));
  {
    DeadLetters letters(path, "o", 0, 100);
    for (int n = 1; n <= 60; ++n) letters.add({{n, 422, "why", row}});
  }
  DeadLetters letters(path, "o", 30, 50);
  const auto size = fs::file_size(path);
  for (int n = 31; n <= 50; ++n) letters.add({{n, 422, "why", row}});
  EXPECT_EQ(fs::file_size(path), size) << "each is there once";
  DeadLetters again(path, "o", 0, 100);
  EXPECT_TRUE(again.take(60));
  EXPECT_FALSE(again.take(60));
  EXPECT_FALSE(again.take(61));
  EXPECT_FALSE(DeadLetters(path, "p", 0, 100).take(1)) << "of another open";
}

TEST(DeadLetters, OfRowsThatShareANumberAreAllKept) {
  TempFolder folder;
  const std::string path = folder / "letters.ndjson";
  DeadLetters(path, "o", 0, 10).add({{5, 422, "why", "{\"a\":1}"}, {5, 422, "why", "{\"a\":2}"}});
  DeadLetters(path, "o", 0, 10)
      .add({{5, 422, "why", "{\"a\":1}"}, {5, 422, "why", "{\"a\":2}"}, {5, 422, "why", "{\"a\":3}"}});
  const std::string text = make_local_file_io()->read(path);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
}

}  // namespace
}  // namespace firn::hyp
