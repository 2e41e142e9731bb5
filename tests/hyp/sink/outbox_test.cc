// What failed is remembered, and tried again by the ladder.
#include "hyp/sink/outbox.h"

#include "base/clock.h"
#include "base/test_world.h"
#include "hyp/sink/sink_box.h"

namespace firn::hyp {
namespace {

constexpr int64_t kNow = 1'800'000'000'000;
const PartitionId kWeb = {"logs", "web"}, kOdd = {"logs", "../a/b"};

class Outbox : public testing::Test {
 protected:
  Outbox() { set_clock_ms(kNow); }
  ~Outbox() override { set_clock_ms(std::nullopt); }
  OutboxEntry fail_once(ErrorKind kind = ErrorKind::io) {
    return note_failure(state_, "out", kWeb, kind, "the disk is full");
  }
  TempFolder folder_;
  std::string state_ = folder_ / "state";
};

TEST_F(Outbox, TriesAgainAfter30And60And120AndThenEach300Seconds) {
  int64_t now = kNow;
  for (const int64_t delay_s : {30, 60, 120, 300, 300, 300}) {
    const OutboxEntry entry = fail_once();
    EXPECT_EQ(entry.next_try_ms, now + delay_s * 1000);
    EXPECT_FALSE(is_due(entry, now + delay_s * 1000 - 1));
    EXPECT_TRUE(is_due(entry, now + delay_s * 1000));
    now += delay_s * 1000;
    set_clock_ms(now);
  }
  const OutboxEntry entry = *load_outbox_entry(outbox_path(state_, "out", kWeb));
  EXPECT_EQ(entry.attempts, 6);
  EXPECT_EQ(entry.first_failure_ms, kNow);
  EXPECT_EQ(entry.last_failure_ms, now - 300'000);
  EXPECT_EQ(entry.error_kind, "io");
  EXPECT_EQ(entry.error, "the disk is full");
}

TEST_F(Outbox, WhatWaitsForAnOperatorIsLeftToTheSchedule) {
  for (const ErrorKind kind : {ErrorKind::destination_behind, ErrorKind::destination_forgot,
                               ErrorKind::partition_spec_drift, ErrorKind::config}) {
    const OutboxEntry entry = fail_once(kind);
    EXPECT_EQ(entry.next_try_ms, std::nullopt) << to_string(kind);
    EXPECT_FALSE(is_due(entry, kNow + 86'400'000));
  }
  EXPECT_TRUE(fail_once(ErrorKind::busy).next_try_ms);
}

TEST_F(Outbox, AClockThatIsSetBackDoesNotStallIt) {
  fail_once();
  EXPECT_TRUE(is_due(*load_outbox_entry(outbox_path(state_, "out", kWeb)), kNow - 3'600'000));
}

TEST_F(Outbox, ListsPartitionsWhateverTheirNamesAndForgetsThemOnSuccess) {
  fail_once();
  note_failure(state_, "out", kOdd, ErrorKind::io, "bytes: \xff");
  note_failure(state_, "other", kWeb, ErrorKind::io, "x");
  std::vector<PartitionId> listed;
  for (const OutboxEntry& entry : list_outbox(state_, "out")) listed.push_back(entry.partition);
  std::sort(listed.begin(), listed.end());
  EXPECT_EQ(listed, (std::vector<PartitionId>{kOdd, kWeb}));
  replace_file(outbox_path(state_, "out", kOdd), "{");
  EXPECT_EQ(list_outbox(state_, "out").size(), 1U) << "a damaged one hides no other";
  EXPECT_EQ(note_failure(state_, "out", kOdd, ErrorKind::io, "x").attempts, 1);
  for (const PartitionId& partition : {kWeb, kOdd, kWeb}) note_success(state_, "out", partition);
  EXPECT_TRUE(list_outbox(state_, "out").empty());
}

class SinkRetries : public testing::Test {
 protected:
  SinkRetries() {
    set_clock_ms(kNow);
    box_.ingest_lines("logs", "a", {R"({"n":1})"});
    box_.ingest_lines("logs", "b", {R"({"n":2})"});
  }
  ~SinkRetries() override { set_clock_ms(std::nullopt); }
  SinkRunReport retry() const {
    Cache cache(box_.config);
    SinkRunOptions options;
    options.due_retries_only = true;
    return run_sink(cache, sink_, options);
  }
  SinkBox box_;
  SinkConfig sink_ = make_sink(SinkKind::blob, box_.out());
  const PartitionId a_ = {"logs", "a"};
};

TEST_F(SinkRetries, TakeOnlyPartitionsThatFailedAndAreDue) {
  EXPECT_TRUE(retry().partitions.empty()) << "nothing failed";
  const std::string watermark = box_.watermark_file(sink_, a_);
  replace_file(watermark, "{");
  const SinkRunReport failed = box_.ship(sink_);
  ASSERT_EQ(failed.partitions.size(), 2U);
  EXPECT_EQ(failed.partitions[0].attempts, 1);
  EXPECT_EQ(failed.partitions[0].next_try_ms, kNow + 30'000);
  EXPECT_EQ(failed.partitions[1].error, "");
  box_.ingest_lines("logs", "b", {R"({"n":3})"});
  EXPECT_TRUE(retry().partitions.empty()) << "not yet";
  set_clock_ms(kNow + 30'000);
  const SinkRunReport again = retry();
  ASSERT_EQ(again.partitions.size(), 1U);
  EXPECT_EQ(again.partitions[0].partition, a_);
  EXPECT_EQ(again.partitions[0].attempts, 2);
  EXPECT_EQ(again.partitions[0].next_try_ms, kNow + 90'000);
  {
    const Cache cache(box_.config);
    const auto status = sink_status(cache, sink_).at(0);
    EXPECT_TRUE(status.is_unreadable);
    EXPECT_EQ(status.outbox->attempts, 2);
    EXPECT_EQ(status.outbox->first_failure_ms, kNow);
  }
  fs::remove(watermark);
  set_clock_ms(kNow + 90'000);
  EXPECT_EQ(retry().rows(), 1);
  EXPECT_TRUE(list_outbox(box_.config.state_dir, sink_.name).empty());
  EXPECT_TRUE(retry().partitions.empty());
  EXPECT_EQ(delivered_rows(sink_), (Lines{R"({"n":1})", R"({"n":2})"}));
}

TEST_F(SinkRetries, WaitForAResetWhereAPersonHasToDecide) {
  box_.ship_well(sink_);
  fs::remove_all(box_.out());
  EXPECT_EQ(box_.ship(sink_).partitions.at(0).error_kind, "destination_behind");
  set_clock_ms(kNow + 86'400'000);
  EXPECT_TRUE(retry().partitions.empty());
  const auto status = [&] {
    const Cache cache(box_.config);
    return sink_status(cache, sink_).at(0);
  };
  EXPECT_EQ(status().outbox->next_try_ms, std::nullopt);
  box_.ship(sink_);  // a scheduled run looks again
  EXPECT_EQ(status().outbox->attempts, 2);
}

TEST_F(SinkRetries, ForgetAPartitionThatIsGone) {
  note_failure(box_.config.state_dir, sink_.name, {"logs", "gone"}, ErrorKind::io, "unreachable");
  set_clock_ms(kNow + 30'000);
  EXPECT_TRUE(retry().partitions.empty());
  EXPECT_TRUE(list_outbox(box_.config.state_dir, sink_.name).empty());
}

TEST_F(SinkRetries, ARunThatWasStoppedIsNoFailure) {
  std::atomic<bool> cancelled{true};
  Cache cache(box_.config);
  SinkRunOptions options;
  options.cancelled = &cancelled;
  EXPECT_FALSE(run_sink(cache, sink_, options).failed());
  EXPECT_TRUE(list_outbox(box_.config.state_dir, sink_.name).empty());
}

}  // namespace
}  // namespace firn::hyp
