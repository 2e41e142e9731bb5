// Histories of one partition drawn at random: processes that capture, retention, compaction, runs and resets of a sink,
// each killed somewhere or not, lost watermarks. A model says what must be at the destination (P10.6).
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <random>
#include <set>

#include "hyp/maintain/compaction.h"
#include "hyp/query/exports_box.h"
#include "hyp/sink/reset.h"
#include "support/crash.h"
#include "support/fake_receiver.h"
#include "support/test_seed.h"

namespace firn::hyp {
namespace {

const PartitionId kWeb = {"logs", "web"};

class ResetHistory {
 public:
  ResetHistory(SinkKind kind, uint64_t seed) : box_(kind), random_(seed) {
    box_.sink().parallel_max = 1;  // fault points are counted
    if (kind != SinkKind::forward) return;
    box_.sink().queryable = false;
    box_.sink().forward.url = receiver_.url();
  }

  void go_on() {
    switch (random_() % 9) {
      case 0:
      case 1:
        return capture();
      case 2:
        return evict();
      case 3:
        return compact();
      case 4:
        return lose_watermark();
      case 5:
      case 6:
        return ship();
      default:
        return reset();
    }
  }
  void end() {
    ship();
    lose_watermark();
    ship();
  }
  const std::string& story() const { return story_; }

 private:
  bool is_blob() const { return box_.sink().kind == SinkKind::blob; }
  bool draw() { return random_() % 2 == 0; }
  void tell(const std::string& step) { story_ += (story_.empty() ? "" : "; ") + step; }

  static void in_child(const std::function<void()>& work) { ASSERT_EQ(run_in_child(work), 0); }
  // Some of it, where it is killed, or all of it.
  void killed_somewhere(const std::function<void()>& work) {
    int left = static_cast<int>(random_() % 12);
    tell(fmt::format("killed after {} points", left));
    in_child([&] {
      set_fault_handler([&](const char*) {
        if (left-- == 0) ::_exit(0);
      });
      work();
    });
  }

  void capture() {
    const int64_t rows = static_cast<int64_t>(random_() % 5) + 1;
    const bool is_old = draw();
    tell(fmt::format("{} {} rows from {}", rows, is_old ? "old" : "new", next_));
    Lines lines;
    for (int64_t n = next_; n < next_ + rows; ++n) {
      lines.push_back(
          fmt::format(R"({{"n":{},"at":"{}"}})", n, is_old ? "2020-01-05T00:00:00Z" : "2024-06-15T00:00:00Z"));
    }
    next_ += rows;
    in_child([&] { box_.ingest_lines("logs", "web", lines); });
    look();
  }
  void evict() {
    tell("retention");
    in_child([&] { box_.evict(); });
    look();
  }
  void compact() {
    tell("compaction");
    in_child([&] {
      Cache cache(box_.config);
      if (!cache.partitions("logs").empty()) compact_partition(cache, kWeb);
    });
  }
  void lose_watermark() {
    tell("the watermark is lost");
    fs::remove_all(box_.config.state_dir);
  }

  void ship() {
    box_.sink().unit_rows_max = static_cast<int64_t>(random_() % 5) + 1;
    tell(fmt::format("run with {} rows a unit", box_.sink().unit_rows_max));
    const auto run = [&] { box_.ship(); };
    if (random_() % 4 == 0) {
      killed_somewhere(run);
      if (random_() % 3 == 0) lose_watermark();
      if (draw()) capture();
    }
    in_child(run);
    std::set<int64_t> sent_now;
    for (const auto& [n, number] : cached_) {
      if (!counts_as_sent_.insert(n).second) continue;
      times_sent_[n] += 1;
      sent_now.insert(n);
    }
    check(sent_now);
  }

  void reset() {
    ResetTarget target{std::array{ResetTarget::To::start, ResetTarget::To::now, ResetTarget::To::destination,
                                  ResetTarget::To::number}[random_() % 4]};
    if (target.to == ResetTarget::To::number) {
      if (cached_.empty()) return;
      auto row = cached_.begin();
      std::advance(row, static_cast<std::ptrdiff_t>(random_() % cached_.size()));
      target.seq = std::max<int64_t>(1, row->second + static_cast<int64_t>(random_() % 3) - 1);
    }
    tell(fmt::format("reset {} {}", static_cast<int>(target.to), target.seq));
    const auto work = [&] {
      Cache cache(box_.config);
      const SinkReset done = reset_sink(cache, box_.sink(), target);
      if (done.failed()) fail(ErrorKind::internal, "{}", done.partitions.at(0).error);
    };
    if (random_() % 3 == 0) {
      killed_somewhere(work);
      if (draw()) evict();
      if (draw()) compact();
    }
    in_child(work);
    if (target.to == ResetTarget::To::destination) return;
    for (const auto& [n, number] : cached_) {
      const bool is_sent =
          target.to == ResetTarget::To::now || (target.to == ResetTarget::To::number && number <= target.seq);
      counts_as_sent_.erase(n);
      if (is_sent) counts_as_sent_.insert(n);
    }
    if (is_blob()) check({});
  }

  // What the cache has.
  void look() {
    cached_.clear();
    const Cache cache(box_.config);
    if (cache.partitions("logs").empty()) return;
    const SequencedRows rows = read_sequenced(cache, kWeb);
    for (size_t i = 0; i < rows.rows.size(); ++i) cached_[Json::parse(rows.rows[i])["n"]] = rows.after[i];
  }

  void check(const std::set<int64_t>& sent_now) {
    if (is_blob()) {
      // A blob sink goes back to where a unit ended, and so may send a few more again; what it shows is exact.
      std::set<int64_t> seen_once;
      for (const auto& [n, number] : cached_) seen_once.insert(n);
      for (const auto& [n, times] : times_sent_) seen_once.insert(n);
      if (!seen_once.empty()) {
        EXPECT_EQ(box_.seen(), std::vector<int64_t>(seen_once.begin(), seen_once.end()));
      }
      std::set<int64_t> claimed;
      for (const std::string& row : blob_rows(box_.out())) claimed.insert(Json::parse(row)["n"].get<int64_t>());
      for (const int64_t n : sent_now) EXPECT_TRUE(claimed.contains(n)) << "row " << n << " was to be sent";
      return;
    }
    std::map<int64_t, int> arrived;
    for (const std::string& row :
         box_.sink().kind == SinkKind::forward ? receiver_.rows("logs") : archive_rows(box_.out(), "logs")) {
      arrived[Json::parse(row)["n"].get<int64_t>()] += 1;
    }
    EXPECT_EQ(arrived, times_sent_);
  }

  FakeReceiver receiver_;
  ExportsBox box_;
  std::mt19937_64 random_;
  std::string story_;
  int64_t next_ = 1;
  std::map<int64_t, int64_t> cached_;  // n and number
  std::set<int64_t> counts_as_sent_;   // n
  std::map<int64_t, int> times_sent_;  // by n
};

class ResetsAtRandom : public testing::TestWithParam<SinkKind> {};

TEST_P(ResetsAtRandom, WhatIsAtTheDestinationIsWhatTheyAskedFor) {
  prefer_memory();
  const int histories = std::getenv("FIRN_LONG") != nullptr ? 300 : 10;
  for (int i = 0; i < histories; ++i) {
    ResetHistory history(GetParam(), test_seed() + static_cast<uint64_t>(i));
    for (int step = 0; step < 14 && !HasFailure(); ++step) history.go_on();
    if (!HasFailure()) history.end();
    ASSERT_FALSE(HasFailure()) << "history " << i << ": " << history.story();
  }
}

INSTANTIATE_TEST_SUITE_P(Each, ResetsAtRandom, testing::Values(SinkKind::blob, SinkKind::iceberg, SinkKind::forward),
                         [](const auto& info) {
                           return info.param == SinkKind::blob      ? "Blobs"
                                  : info.param == SinkKind::iceberg ? "Archive"
                                                                    : "Receiver";
                         });

}  // namespace
}  // namespace firn::hyp
