// Retention spares itself looks by what files' metadata, and the look before, tell. Here each of its answers is held
// against a look at every row.
#include <random>
#include <set>

#include <gmock/gmock.h>

#include "hyp/cache/generations.h"
#include "hyp/maintain/compaction.h"
#include "hyp/maintain/retention_box.h"
#include "support/test_seed.h"

namespace firn::hyp {
namespace {

struct ModelRow {
  int n = 0;
  int64_t seq = 0;
  std::optional<int64_t> time_ms;
  int64_t ingested_ms = 0;
};

class RetentionWorld {
 public:
  explicit RetentionWorld(uint64_t seed) : random_(seed) {
    box_.logs().retention = {.days = 30, .wait_for_sink_ack = true, .grace_days = 2};
    if (seed % 2 == 0) box_.logs().cache_partitioning = {{.column = "at", .transform = "day"}};
    box_.config.compaction.files_min = 2;
  }

  void step() {
    switch (below(10)) {
      case 0:
      case 1:
      case 2:
        return add();
      case 3:
      case 4:
        return move_a_sink();
      case 5:
        return change_configuration();
      case 6:
        return compact();
      default:
        return apply();
    }
  }

 private:
  int below(int bound) { return std::uniform_int_distribution<int>(0, bound - 1)(random_); }
  // Around both cutoffs, most often in few places.
  int64_t some_time() {
    const int64_t around = now_ms_ - 30 * kDay - (below(2) == 0 ? 0 : 2 * kDay);
    return around + (below(3) == 0 ? below(9) - 4 : below(9 * 24) - 4 * 24) * kHour + below(3) - 1;
  }

  void add() {
    Lines lines;
    const int64_t ingested = below(2) == 0 ? now_ms_ : some_time();
    const int kind = below(4);  // of times in the file
    for (int i = 0, count = 1 + below(6); i < count; ++i) {
      ModelRow& one = rows_.emplace_back();
      one.n = ++last_n_;
      one.ingested_ms = ingested;
      const bool is_null = kind == 3 || (kind == 2 && below(2) == 0);
      if (!is_null) one.time_ms = kind == 0 ? now_ms_ - 60 * kDay : some_time();
      lines.push_back(one.time_ms ? row(one.n, *one.time_ms) : row(one.n));
    }
    box_.add(lines, ingested);
    const Cache cache(box_.config);
    const SequencedRows read = read_sequenced(cache, box_.partition);
    for (size_t i = 0; i < read.rows.size(); ++i) {
      const int n = Json::parse(read.rows[i])["n"];
      for (ModelRow& one : rows_) {
        if (one.n == n) one.seq = read.after[i];
      }
      last_seq_ = std::max(last_seq_, read.after[i]);
    }
  }

  void move_a_sink() {
    if (box_.config.sinks.empty()) return;
    const SinkConfig& sink = box_.config.sinks[static_cast<size_t>(below(static_cast<int>(box_.config.sinks.size())))];
    Watermark watermark;
    if (below(4) > 0) watermark.seq = below(static_cast<int>(last_seq_) + 1);
    if (below(3) == 0) {
      watermark.pending.emplace();
      watermark.pending->open_id = "open";
      watermark.pending->since = watermark.seq.value_or(0);
      watermark.pending->until = watermark.pending->since + 1 + below(5);
    }
    save_watermark(box_.watermark_file(sink, box_.partition), watermark);
  }

  void change_configuration() {
    RetentionConfig& retention = box_.logs().retention;
    switch (below(4)) {
      case 0:
        retention.wait_for_sink_ack = !retention.wait_for_sink_ack;
        return;
      case 1:
        retention.grace_days = below(4);
        return;
      case 2:
        if (box_.config.sinks.size() < 3) box_.add_sink(std::string(1, static_cast<char>('a' + ++last_sink_ % 26)));
        return;
      default:
        if (!box_.config.sinks.empty()) box_.config.sinks.erase(box_.config.sinks.begin());
    }
  }

  void compact() {
    Cache cache(box_.config);
    if (cache.hold(box_.partition)) compact_partition(cache, box_.partition);
  }

  void apply() {
    now_ms_ += (below(2) == 0 ? 0 : below(20) - 4) * kHour;
    const RetentionConfig& retention = box_.logs().retention;
    const int64_t cutoff = floor_div(now_ms_ - 30 * kDay, kHour) * kHour;
    const auto sinks = sink_positions(box_.config, box_.partition);
    RowsBySink waiting, forced_out;
    std::vector<ModelRow> left;
    for (const ModelRow& one : rows_) {
      const int64_t time = one.time_ms.value_or(one.ingested_ms);
      const auto lacks = [&](const SinkPosition& sink) { return !sink.passed || one.seq > *sink.passed; };
      const auto keeps = [&](const SinkPosition& sink) {
        return (retention.wait_for_sink_ack && lacks(sink)) ||
               (sink.pending && one.seq > sink.pending->since_exclusive && one.seq <= sink.pending->until);
      };
      const int64_t grace = retention.grace_days * kDay, arrival_cutoff = floor_div(now_ms_ - grace, kHour) * kHour;
      const bool is_old = time < cutoff, is_past_grace = time < cutoff - grace && one.ingested_ms < arrival_cutoff;
      const bool goes = is_past_grace || (is_old && std::none_of(sinks.begin(), sinks.end(), keeps));
      for (const SinkPosition& sink : sinks) {
        if (goes && lacks(sink)) ++forced_out[sink.sink];
        if (!goes && is_old && keeps(sink)) ++waiting[sink.sink];
      }
      if (!goes) left.push_back(one);
    }
    if (below(4) == 0) {
      const RetentionReport said = box_.apply(now_ms_, /*dry_run=*/true);
      EXPECT_EQ(said.rows_removed, static_cast<int64_t>(rows_.size() - left.size()));
    }
    const RetentionReport report = box_.apply(now_ms_);
    EXPECT_EQ(report.rows_removed, static_cast<int64_t>(rows_.size() - left.size()));
    EXPECT_EQ(report.rows_waiting, waiting);
    EXPECT_EQ(report.rows_forced_out, forced_out);
    rows_ = left;
    std::vector<int64_t> numbers;
    for (const ModelRow& one : rows_) numbers.push_back(one.n);
    for (const auto& [sink, count] : forced_out) forced_out_[sink] += count;
    if (last_n_ == 0) return;  // there is no table
    EXPECT_EQ(box_.numbers(), numbers);
    EXPECT_EQ(box_.forced_out(), forced_out_);
  }

  std::mt19937_64 random_;
  RetentionBox box_;
  int64_t now_ms_ = kNow;
  std::vector<ModelRow> rows_;
  RowsBySink forced_out_;
  int last_n_ = 0, last_sink_ = 0;
  int64_t last_seq_ = 0;
};

TEST(RetentionRandom, WhatGoesAndWhatWaitsIsWhatALookAtEveryRowSays) {
  const uint64_t seed = test_seed();
  for (uint64_t world_seed = seed; world_seed < seed + 4; ++world_seed) {
    SCOPED_TRACE(fmt::format("FIRN_TEST_SEED={}", world_seed));
    RetentionWorld world(world_seed);
    for (int step = 0; step < 60; ++step) {
      world.step();
      if (testing::Test::HasFailure()) {
        ADD_FAILURE() << "at step " << step;
        return;
      }
    }
  }
}

}  // namespace
}  // namespace firn::hyp
