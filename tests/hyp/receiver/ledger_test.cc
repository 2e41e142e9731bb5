// What a receiver takes, and what it says to the rest (P10.5, P10.7, P11.2).
#include "hyp/receiver/ledger_box.h"

#include "base/test_world.h"
#include "hyp/cache/table_opens.h"
#include "hyp/receiver/ledger.h"

namespace firn::hyp {
namespace {

const std::string kStream = "c0/logs/source=edge";

TEST(Ledger, TakenRowsCanBeQueriedAtOnceAndAreFlushedOnceUnderTheirGateway) {
  LedgerBox box;
  EXPECT_EQ(box.outcome(numbered(kStream, "a", first_range(0, 3))), Outcome::landed);
  EXPECT_EQ(box.outcome(numbered(kStream, "a", range_of(3, 5))), Outcome::landed);
  EXPECT_EQ(box.numbers(), numbers_between(0, 5));
  const FlushReport report = box.flush_received();
  EXPECT_EQ(report.rows, 5);
  EXPECT_EQ(cached_rows(*box.cache, {"logs", "edge"}), sorted_rows(rows_between(0, 5)));
  EXPECT_EQ(box.outcome(numbered(kStream, "a", range_of(5, 6))), Outcome::landed);
  EXPECT_EQ(box.numbers(), numbers_between(0, 6));
  EXPECT_EQ(box.flush_received().rows, 1);
  EXPECT_EQ(box.flush_received().rows, 0);
  EXPECT_EQ(box.numbers(), numbers_between(0, 6));
}

TEST(Ledger, ABatchThatWasTakenIsKnownAgainAlsoAfterARestart) {
  LedgerBox box;
  const ReceivedBatch first = numbered(kStream, "a", first_range(0, 3)),
                      second = numbered(kStream, "a", range_of(3, 4));
  EXPECT_EQ(box.outcome(first), Outcome::landed);
  EXPECT_EQ(box.outcome(first), Outcome::known);
  EXPECT_EQ(box.outcome(second), Outcome::landed);
  box.reopen();
  EXPECT_EQ(box.outcome(first), Outcome::known);
  EXPECT_EQ(box.outcome(second), Outcome::known);
  EXPECT_EQ(box.numbers(), numbers_between(0, 4));
}

TEST(Ledger, AKnownIdWithOtherBytesIsDecidedByItsRange) {
  LedgerBox box;
  const ReceivedBatch first = numbered(kStream, "a", first_range(0, 3));
  EXPECT_EQ(box.outcome(first), Outcome::landed);
  ReceivedBatch other = numbered(kStream, "a", first_range(0, 2));
  other.batch_id = first.batch_id;
  const ReceiveResult result = send(*box.receiver, other);
  EXPECT_EQ(result.outcome, Outcome::refused);
  EXPECT_EQ(result.last, 3);
  EXPECT_EQ(box.numbers(), numbers_between(0, 3));
}

TEST(Ledger, ABatchThatDoesNotComeNextIsRefusedWithTheOpensLastNumber) {
  LedgerBox box;
  EXPECT_EQ(box.outcome(numbered(kStream, "a", first_range(0, 3))), Outcome::landed);
  for (const SeqRange range : {range_of(2, 5), range_of(4, 5), range_of(0, 2), first_range(0, 7)}) {
    const ReceiveResult result = send(*box.receiver, numbered(kStream, "a", range));
    EXPECT_EQ(result.outcome, Outcome::refused) << to_text(range);
    EXPECT_EQ(result.last, 3) << to_text(range);
  }
  EXPECT_EQ(box.numbers(), numbers_between(0, 3));
}

TEST(Ledger, AnOpenThatIsNewHasToSayThatItStarts) {
  LedgerBox box;
  ReceiveResult result = send(*box.receiver, numbered(kStream, "a", range_of(0, 3)));
  EXPECT_EQ(result.outcome, Outcome::refused);
  EXPECT_EQ(result.last, std::nullopt);
  EXPECT_EQ(box.outcome(numbered(kStream, "a", first_range(4, 6))), Outcome::landed);
  result = send(*box.receiver, numbered(kStream, "b", range_of(6, 7)));
  EXPECT_EQ(result.outcome, Outcome::refused);
  EXPECT_EQ(result.last, std::nullopt);
  // A restored backup's numbers begin below those of the open that was lost with it.
  EXPECT_EQ(box.outcome(numbered(kStream, "b", first_range(3, 5))), Outcome::landed);
  EXPECT_EQ(box.numbers(), (std::vector<int64_t>{4, 5, 5, 6}));
  const auto state = box.receiver->stream("edge", kStream);
  ASSERT_TRUE(state);
  EXPECT_EQ(state->opens, (std::map<std::string, int64_t>{{"a", 6}, {"b", 5}}));
  EXPECT_EQ(state->forgot, std::nullopt);
}

TEST(Ledger, LegacyNumbersAreNumbersLikeOthers) {
  LedgerBox box;
  EXPECT_EQ(box.outcome(numbered(kStream, "legacy", first_range(-4, -1))), Outcome::landed);
  EXPECT_EQ(box.outcome(numbered(kStream, "legacy", range_of(-1, 0))), Outcome::landed);
  EXPECT_EQ(box.outcome(numbered(kStream, "a", first_range(0, 1))), Outcome::landed);
  EXPECT_EQ(box.numbers(), numbers_between(-4, 1));
}

TEST(Ledger, AStreamIsTheGatewaysThatFirstUsedIt) {
  LedgerBox box;
  EXPECT_EQ(box.outcome(numbered(kStream, "a", first_range(0, 3))), Outcome::landed);
  ReceivedBatch theirs = numbered(kStream, "a", range_of(3, 4));
  theirs.gateway = "other";
  EXPECT_EQ(box.outcome(theirs), Outcome::foreign);
  theirs = numbered(kStream, "new", first_range(0, 4));
  theirs.gateway = "other";
  EXPECT_EQ(box.outcome(theirs), Outcome::foreign);
  theirs = numbered(kStream, "a", first_range(0, 3));  // not even that it is known
  theirs.gateway = "other";
  EXPECT_EQ(box.outcome(theirs), Outcome::foreign);
  EXPECT_EQ(box.receiver->stream("other", kStream), std::nullopt);
  box.reopen();
  EXPECT_EQ(box.receiver->stream("other", kStream), std::nullopt);
  EXPECT_EQ(box.receiver->gateway_of(kStream), "edge");
  EXPECT_EQ(send(*box.receiver, theirs).message, "edge");
  EXPECT_EQ(box.numbers(), numbers_between(0, 3));
  // What was refused made the stream nobody's.
  EXPECT_EQ(box.outcome(numbered("unused", "a", range_of(3, 4))), Outcome::refused);
  ASSERT_TRUE(box.receiver->stream("other", "unused"));
  EXPECT_TRUE(box.receiver->stream("other", "unused")->opens.empty());
  EXPECT_EQ(box.receiver->gateway_of("unused"), std::nullopt);
}

TEST(Ledger, GroupsAndTheirBatchesAreCounted) {
  LedgerBox box;
  EXPECT_EQ(box.receiver->commits().groups, 0);
  EXPECT_EQ(box.outcome(numbered(kStream, "a", first_range(0, 3))), Outcome::landed);
  send_together(*box.receiver, {numbered(kStream, "a", range_of(3, 4)), numbered(kStream, "a", range_of(4, 5)),
                                numbered(kStream, "a", range_of(9, 10))});
  const CommitCounts counts = box.receiver->commits();
  EXPECT_EQ(counts.groups, 3) << "one alone, the gate, and those that came meanwhile";
  EXPECT_EQ(counts.batches, 5);
  EXPECT_GT(counts.micros, 0);
}

TEST(Ledger, EmptyRangesMoveTheStreamWithoutRows) {
  LedgerBox box;
  EXPECT_EQ(box.outcome(make_batch(kStream, "a", first_range(0, 10), {})), Outcome::landed);
  EXPECT_EQ(box.outcome(numbered(kStream, "a", range_of(10, 12))), Outcome::landed);
  EXPECT_EQ(box.outcome(make_batch(kStream, "a", range_of(12, 15), {})), Outcome::landed);
  box.reopen();
  EXPECT_EQ(box.receiver->stream("edge", kStream)->opens.at("a"), 15);
  EXPECT_EQ(box.numbers(), numbers_between(10, 12));
}

TEST(Ledger, AResetIsACompareAndSetThatCarriesNoRows) {
  LedgerBox box;
  EXPECT_EQ(box.outcome(numbered(kStream, "a", first_range(0, 10))), Outcome::landed);
  // What the sender knows of the receiver is stale.
  ReceiveResult result = send(*box.receiver, make_batch(kStream, "a", reset_range(7, 20), {}));
  EXPECT_EQ(result.outcome, Outcome::refused);
  EXPECT_EQ(result.last, 10);
  result = send(*box.receiver, make_batch(kStream, "unknown", reset_range(7, 20), {}));
  EXPECT_EQ(result.outcome, Outcome::refused);
  EXPECT_EQ(result.last, std::nullopt);
  // Up: the rows between are skipped.
  EXPECT_EQ(box.outcome(make_batch(kStream, "a", reset_range(10, 20), {})), Outcome::landed);
  EXPECT_EQ(box.outcome(numbered(kStream, "a", range_of(20, 21))), Outcome::landed);
  EXPECT_EQ(box.numbers(), (std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 21}));
  EXPECT_THROW(box.receiver->take(make_batch(kStream, "a", reset_range(21, 22), {R"({"n":22})"}), {}), Error);
}

TEST(Ledger, AfterAResetDownTheSameBatchesAreRowsAgain) {
  LedgerBox box;
  const ReceivedBatch first = numbered(kStream, "a", first_range(0, 2)),
                      second = numbered(kStream, "a", range_of(2, 4));
  EXPECT_EQ(box.outcome(first), Outcome::landed);
  EXPECT_EQ(box.outcome(second), Outcome::landed);
  const ReceivedBatch reset = make_batch(kStream, "a", reset_range(4, 2), {});
  EXPECT_EQ(box.outcome(reset), Outcome::landed);
  EXPECT_EQ(box.outcome(reset), Outcome::known);  // its answer was lost
  EXPECT_EQ(box.outcome(second), Outcome::landed);
  EXPECT_EQ(box.outcome(second), Outcome::known);
  EXPECT_EQ(box.numbers(), (std::vector<int64_t>{1, 2, 3, 3, 4, 4}));
  // The same reset once more has an id of its own.
  ReceivedBatch other_reset = reset;
  other_reset.batch_id = "other";
  EXPECT_EQ(box.outcome(other_reset), Outcome::landed);
  EXPECT_EQ(box.outcome(second), Outcome::landed);
  EXPECT_EQ(box.numbers(), (std::vector<int64_t>{1, 2, 3, 3, 3, 4, 4, 4}));
}

TEST(Ledger, AResetThatTheNetworkRepeatsLaterIsNotDoneAgain) {
  constexpr int64_t kRows = 1000;  // past all batch ids that are kept
  LedgerBox box;
  const auto send_all = [&](int64_t since) {
    for (int64_t n = since; n < kRows; ++n) {
      const SeqRange range = n == 0 ? first_range(n, n + 1) : range_of(n, n + 1);
      ASSERT_EQ(box.outcome(numbered(kStream, "a", range)), Outcome::landed);
    }
  };
  send_all(0);
  const ReceivedBatch reset = make_batch(kStream, "a", reset_range(kRows, 1), {});
  EXPECT_EQ(box.outcome(reset), Outcome::landed);
  send_all(1);
  box.reopen();
  EXPECT_EQ(box.outcome(reset), Outcome::known);
  EXPECT_EQ(box.receiver->stream("edge", kStream)->opens.at("a"), kRows);
}

TEST(Ledger, BatchesOfOneGroupSeeEachOther) {
  LedgerBox box;
  const ReceivedBatch first = numbered(kStream, "a", first_range(0, 2));
  const auto results = send_together(
      *box.receiver, {first, numbered(kStream, "a", range_of(2, 4)), first, numbered(kStream, "a", range_of(3, 5)),
                      numbered(kStream, "a", range_of(4, 5)), numbered("other", "a", first_range(5, 6))});
  EXPECT_EQ(results[0].outcome, Outcome::landed);
  EXPECT_EQ(results[1].outcome, Outcome::landed);
  EXPECT_EQ(results[2].outcome, Outcome::known);
  EXPECT_EQ(results[3].outcome, Outcome::refused);
  EXPECT_EQ(results[3].last, 4);
  EXPECT_EQ(results[4].outcome, Outcome::landed);
  EXPECT_EQ(results[5].outcome, Outcome::landed);
  EXPECT_EQ(box.numbers(), numbers_between(0, 6));
}

// Both copies of a cloned cache continue the open that the copied process had.
TEST(Ledger, OfTwoClonesThatShareAnOpenOneGoesOnAndTheOtherLearnsHowFar) {
  LedgerBox box;
  EXPECT_EQ(box.outcome(numbered(kStream, "a", first_range(0, 10))), Outcome::landed);
  EXPECT_EQ(box.outcome(make_batch(kStream, "a", range_of(10, 12), {R"({"n":11})", R"({"n":12})"})), Outcome::landed);
  const ReceiveResult result = send(*box.receiver, make_batch(kStream, "a", range_of(10, 11), {R"({"n":911})"}));
  EXPECT_EQ(result.outcome, Outcome::refused);
  EXPECT_EQ(result.last, 12);
  EXPECT_EQ(box.numbers(), numbers_between(0, 12));
}

TEST(Ledger, TheOpensWithTheHighestNumbersAreKeptAndWhatIsForgottenIsNeverGuessed) {
  LedgerBox box;
  const auto open_of = [](int64_t i) { return fmt::format("open-{:03}", i); };
  const int64_t count = static_cast<int64_t>(kOpensKept) + 6;
  for (int64_t i = 0; i < count; ++i) {
    ASSERT_EQ(box.outcome(numbered(kStream, open_of(i), first_range(10 * i, 10 * i + 1))), Outcome::landed) << i;
  }
  auto state = box.receiver->stream("edge", kStream);
  EXPECT_EQ(state->opens.size(), kOpensKept);
  EXPECT_FALSE(state->opens.contains(open_of(5)));
  EXPECT_TRUE(state->opens.contains(open_of(6)));
  EXPECT_EQ(state->forgot, 51);  // open-005 had (50, 51]
  box.reopen();
  // Whether this one was here before, nobody knows.
  ReceivedBatch unsure = make_batch(kStream, "restored", first_range(50, 52), {R"({"n":0})"});
  EXPECT_EQ(box.outcome(unsure), Outcome::forgot);
  // One that was is recognised as far as its id is kept, else refused: it does not say start.
  EXPECT_EQ(send(*box.receiver, numbered(kStream, open_of(0), range_of(1, 2))).last, std::nullopt);
  // Above all that was forgotten it cannot have been.
  EXPECT_EQ(box.outcome(numbered(kStream, "restored", first_range(51, 52))), Outcome::landed);
  EXPECT_EQ(box.outcome(numbered(kStream, "restored", range_of(52, 53))), Outcome::landed) << "the newest is kept";
  state = box.receiver->stream("edge", kStream);
  EXPECT_EQ(state->opens.size(), kOpensKept);
  EXPECT_EQ(state->forgot, 61);
}

TEST(Ledger, BatchesWhoseIdIsNoLongerKeptAreKnownByTheirRange) {
  LedgerBox box;
  const ReceivedBatch first = numbered(kStream, "a", first_range(0, 1));
  EXPECT_EQ(box.outcome(first), Outcome::landed);
  for (int64_t n = 1; n < kBatchesKept; ++n) {
    ASSERT_EQ(box.outcome(make_batch(kStream, "a", range_of(n, n + 1), {})), Outcome::landed);
  }
  EXPECT_EQ(box.outcome(first), Outcome::known);
  EXPECT_EQ(box.outcome(make_batch(kStream, "a", range_of(kBatchesKept, kBatchesKept + 1), {})), Outcome::landed);
  const ReceiveResult result = send(*box.receiver, first);
  EXPECT_EQ(result.outcome, Outcome::refused);
  EXPECT_EQ(result.last, kBatchesKept + 1);  // at or past its end: the sender goes forward
  EXPECT_EQ(box.numbers(), numbers_between(0, 1));
}

TEST(Ledger, BatchIdsOfStreamsThatAreStillAreForgottenInTime) {
  set_clock_ms(1'700'000'000'000);
  LedgerBox box;
  const ReceivedBatch first = numbered(kStream, "a", first_range(0, 1));
  EXPECT_EQ(box.outcome(first), Outcome::landed);
  set_clock_ms(1'700'000'000'000 + kBatchKeptMs + 100'000);
  EXPECT_EQ(box.outcome(numbered("other", "a", first_range(1, 2))), Outcome::landed);
  EXPECT_EQ(send(*box.receiver, first).last, 1);
  set_clock_ms(std::nullopt);
  EXPECT_EQ(box.numbers(), numbers_between(0, 2));
}

TEST(Ledger, AGatewayGetsNoMoreStreamsThanItMayHaveAndGoesOnWithThose) {
  LedgerBox box;
  box.config.receiver.gateway_streams_max = 2;
  box.reopen();
  const auto first_of = [](const std::string& stream, const std::string& gateway = "edge") {
    return make_batch(stream, "a", first_range(0, 1), {}, gateway);
  };
  for (const char* stream : {"s1", "s2"}) EXPECT_EQ(box.outcome(first_of(stream)), Outcome::landed);
  for (int i = 0; i < 2; ++i) {
    const ReceiveResult result = send(*box.receiver, first_of("s3"));
    EXPECT_EQ(result.outcome, Outcome::too_many_streams);
    EXPECT_NE(result.message.find("has 2 streams"), std::string::npos) << result.message;
    EXPECT_NE(result.message.find("maxStreamsPerGateway"), std::string::npos) << result.message;
    EXPECT_TRUE(box.receiver->stream("edge", "s3")->opens.empty());
    EXPECT_EQ(box.outcome(make_batch("s1", fmt::format("b{}", i), first_range(1, 2), {})), Outcome::landed);
    EXPECT_EQ(box.outcome(first_of(fmt::format("t{}", i), "other")), Outcome::landed);
    box.reopen();  // what is there is counted again
  }
  EXPECT_EQ(box.outcome(first_of("t2", "other")), Outcome::too_many_streams);
  box.config.receiver.gateway_streams_max = 3;
  box.reopen();
  // Those of one group are counted, too.
  const auto results = send_together(*box.receiver, {first_of("s3"), first_of("s4"), first_of("t2", "other")});
  EXPECT_EQ(results[0].outcome, Outcome::landed);
  EXPECT_EQ(results[1].outcome, Outcome::too_many_streams);
  EXPECT_EQ(results[2].outcome, Outcome::landed);
}

TEST(Ledger, LongTextsAreSpooledInFramesOfTheUsualSizeWithTheirLineNumbers) {
  LedgerBox box;
  box.declare("logs").row_bytes_max = 8 << 20;
  box.reopen();
  Lines lines;
  for (int64_t n = 1; n <= 60; ++n) {
    const size_t bytes = n == 30 ? 3'000'000 : 100'000;
    lines.push_back(fmt::format(R"({{"n":{},"pad":"{}"}})", n, std::string(bytes, 'x')));
  }
  lines.emplace_back("no row");
  EXPECT_EQ(box.outcome(make_batch(kStream, "a", first_range(0, 61), lines)), Outcome::landed);
  SpoolReader reader(box.receiver->spool().folder(), {});
  std::string text;
  while (const auto at = reader.next()) {
    EXPECT_TRUE(at->frame.text.size() <= 1 << 20 || at->frame.text.size() > 3'000'000) << at->frame.text.size();
    text += at->frame.text;
  }
  EXPECT_EQ(text, make_batch(kStream, "a", first_range(0, 61), lines).text);
  EXPECT_EQ(box.numbers(), numbers_between(0, 60));
  box.flush_received();
  EXPECT_EQ(box.numbers(), numbers_between(0, 60));
  const auto rejects = rejects_of(box, "logs");
  ASSERT_EQ(rejects.size(), 1u);
  EXPECT_EQ(rejects[0].at("line"), 61);
  EXPECT_EQ(rejects[0].at("source"), "edge");
}

}  // namespace
}  // namespace firn::hyp
