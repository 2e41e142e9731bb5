#include "hyp/cache/sequence.h"

#include <deque>
#include <fstream>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/uri.h"
#include "io/file_io.h"
#include "io/local.h"
#include "support/crash.h"
#include "support/temp_folder.h"

namespace firn::hyp {
namespace {

constexpr const char* kFileName = "/_hyp_ingest_seq.json";

struct SequenceBox {
  TempFolder folder;
  std::string root = folder / "cache";
  std::string state = folder / "state";
  std::string file = root + kFileName;

  SequenceBox() { make_directories(root); }
  SequenceAllocator allocator() const { return SequenceAllocator(root, state); }
  void write_watermark(const std::string& json) const {
    make_directories(state + "/blobs/watermarks/d");
    replace_file(state + "/blobs/watermarks/d/source=s.json", json);
  }
};

TEST(Sequence, StartsAtOneAndABlockIsDurableBeforeItsFirstNumberIsUsed) {
  SequenceBox box;
  EXPECT_EQ(read_sequence_file(box.root), std::nullopt);
  auto allocator = box.allocator();
  EXPECT_EQ(allocator.reserve(3, 0), 1);
  const auto file = read_sequence_file(box.root);
  ASSERT_TRUE(file);
  EXPECT_EQ(file->next_seq, 1025);
  EXPECT_EQ(file->cache_id, allocator.cache_id());
  EXPECT_EQ(file->opens, (std::vector<Open>{{allocator.open_id(), 1}}));
}

TEST(Sequence, ABlockHoldsAllThatOneFlushStamps) {
  SequenceBox box;
  auto allocator = box.allocator();
  EXPECT_EQ(allocator.reserve(5000, 0), 1);
  EXPECT_EQ(read_sequence_file(box.root)->next_seq, 5001);
  EXPECT_EQ(allocator.reserve(1, 0), 5001);
}

TEST(Sequence, TheRestOfABlockIsUsedOnlyAboveThePartitionsHighest) {
  SequenceBox box;
  auto one = box.allocator();
  auto other = box.allocator();
  EXPECT_EQ(one.reserve(10, 0), 1);
  EXPECT_EQ(other.reserve(10, 10), 1025);
  EXPECT_EQ(one.reserve(10, 10), 11);      // a partition that only `one` wrote
  EXPECT_EQ(one.reserve(10, 1034), 2049);  // the partition that `other` wrote
  EXPECT_EQ(one.reserve(10, 0), 2059);     // the rest of the first block is gone
}

TEST(Sequence, EachNumberBelongsToOneOpenAndEachOpenIsOneRange) {
  SequenceBox box;
  auto one = box.allocator();
  auto other = box.allocator();
  one.reserve(1, 0);
  const std::string first_open = one.open_id();
  other.reserve(1, 0);
  one.reserve(1, 1025);
  EXPECT_NE(one.open_id(), first_open);  // one range of numbers an open
  const std::vector<Open> expected = {{first_open, 1}, {other.open_id(), 1025}, {one.open_id(), 2049}};
  EXPECT_EQ(opens_to_json(one.opens()).dump(), opens_to_json(expected).dump());
  const auto ranges = open_ranges(one.opens());
  ASSERT_EQ(ranges.size(), 3u);
  EXPECT_EQ(ranges[1].since_exclusive, 1024);
  EXPECT_EQ(ranges[1].until, 2048);
  EXPECT_EQ(ranges[2].until, std::numeric_limits<int64_t>::max());
}

TEST(Sequence, NoNumberIsIssuedTwiceAmongProcesses) {
  SequenceBox box;
  const int failed = run_in_children(4, [&](int index) {
    auto allocator = box.allocator();
    std::ofstream out(box.folder / std::to_string(index));
    for (int i = 0; i < 30; ++i) out << allocator.reserve(600, 0) << "\n";
  });
  EXPECT_EQ(failed, 0);
  std::set<int64_t> firsts;
  for (int index = 0; index < 4; ++index) {
    std::ifstream in(box.folder / std::to_string(index));
    for (int64_t first; in >> first;) EXPECT_TRUE(firsts.insert(first).second);
  }
  ASSERT_EQ(firsts.size(), 120u);
  for (auto at = firsts.begin(), after = std::next(at); after != firsts.end(); ++at, ++after)
    EXPECT_GE(*after - *at, 600);
}

// Writers and partitions' highest numbers, without the rows.
class Visits {
 public:
  Visits(const SequenceBox& box, int num_writers) {
    for (int i = 0; i < num_writers; ++i) writers_.emplace_back(box.root, box.state);
  }
  void visit(size_t writer, size_t partition) {
    constexpr int64_t kRows = 10;
    if (partition >= highest_.size()) highest_.resize(partition + 1);
    const int64_t first = writers_[writer].reserve(kRows, highest_[partition]);
    EXPECT_GT(first, highest_[partition]);
    highest_[partition] = first + kRows - 1;
  }

 private:
  std::deque<SequenceAllocator> writers_;
  std::vector<int64_t> highest_;
};

// Writes of the file: each takes a block of 1,024.
int64_t writes_of(const SequenceBox& box) { return (read_sequence_file(box.root)->next_seq - 1) / 1024; }

TEST(Sequence, ProcessesThatTakeTurnsWriteTheFileOnceMoreATurnAndAtMostOnceAPartition) {
  constexpr size_t kPartitions = 200, kTurns = 4;
  SequenceBox alone_box, turns_box, mixed_box;
  Visits alone(alone_box, 1), turns(turns_box, 2), mixed(mixed_box, 2);
  std::mt19937 random(1);
  for (size_t turn = 0; turn < kTurns; ++turn) {
    const int64_t before = turn == 0 ? 0 : writes_of(mixed_box);
    for (size_t partition = 0; partition < kPartitions; ++partition) {
      alone.visit(0, partition);
      turns.visit(turn % 2, partition);
      mixed.visit(random() % 2, random() % kPartitions);
    }
    EXPECT_LE(writes_of(mixed_box), before + static_cast<int64_t>(kPartitions));
  }
  EXPECT_LE(writes_of(turns_box), writes_of(alone_box) + static_cast<int64_t>(kTurns));
}

TEST(Sequence, NeverGoesBackWhereverTheProcessDies) {
  const auto reserve_twice = [](const SequenceBox& box) {
    return [&box] {
      auto allocator = box.allocator();
      std::ofstream out(box.folder / "issued", std::ios::app);
      for (int i = 0; i < 2; ++i) out << allocator.reserve(1000, 0) + 999 << std::endl;
    };
  };
  const SequenceBox counted;
  const size_t points = fault_points_of(reserve_twice(counted)).size();
  ASSERT_GT(points, 4u);
  for (const Crash crash : {Crash::process, Crash::power}) {
    for (size_t point = 0; point < points; ++point) {
      SCOPED_TRACE(point);
      const SequenceBox box;
      run_killed_at(point, crash, reserve_twice(box));
      int64_t highest = 0;
      std::ifstream in(box.folder / "issued");
      for (int64_t last; in >> last;) highest = last;
      EXPECT_GT(box.allocator().reserve(1, 0), highest);
    }
  }
}

TEST(Sequence, ALostFileContinuesAboveTheWatermarks) {
  SequenceBox box;
  box.write_watermark(R"({"v":1,"continuation":{"v":1,"seq":"7000"},"pending":{"since":7000,"until":7500}})");
  EXPECT_EQ(box.allocator().reserve(1, 0), 7501);
}

TEST(Sequence, ADamagedFileContinuesAboveTheWatermarksAndAnOlderOneToo) {
  SequenceBox box;
  const std::string id = box.allocator().cache_id();
  box.write_watermark(R"({"v":1,"continuation":{"v":1,"seq":"7000"}})");
  EXPECT_EQ(box.allocator().reserve(1, 0), 7001);  // the file said 1
  EXPECT_EQ(box.allocator().cache_id(), id);
  for (const char* damaged : {"", "{", "{}", R"({"nextSeq":0,"cacheId":"x","opens":[]})",
                              R"({"nextSeq":5,"cacheId":"x","opens":[{"openId":"a","fromSeq":9}]})"}) {
    SCOPED_TRACE(damaged);
    replace_file(box.file, damaged);
    EXPECT_THROW(read_sequence_file(box.root), Error);
    EXPECT_EQ(box.allocator().reserve(1, 0), 7001);
  }
}

TEST(Sequence, AFileThatHasNoNumbersLeftSaysWhatToDo) {
  SequenceBox box;
  box.write_watermark(R"({"v":1,"continuation":{"v":1,"seq":"7000"}})");
  replace_file(box.file, R"({"v":1,"nextSeq":9223372036854775807,"cacheId":"x","opens":[]})");
  try {
    box.allocator().reserve(1, 0);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::corrupt);
    EXPECT_NE(std::string(error.what()).find(box.file), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("move it away"), std::string::npos) << error.what();
  }
  rename_file(box.file, box.root + "/away");
  EXPECT_EQ(box.allocator().reserve(1, 0), 7001);
}

TEST(Sequence, AFileThatGoesBackUnderARunningProcessIsNotBelieved) {
  SequenceBox box;
  auto allocator = box.allocator();
  const std::string id = allocator.cache_id();
  EXPECT_EQ(allocator.reserve(2000, 0), 1);
  remove_file(box.file);
  EXPECT_EQ(allocator.reserve(1, 0), 2001);
  EXPECT_EQ(read_sequence_file(box.root)->cache_id, id);
}

TEST(Sequence, WhatOthersWriteIsSeenAtOnce) {
  SequenceBox box;
  auto one = box.allocator(), other = box.allocator();
  for (int64_t turn = 0; turn < 200; ++turn) {  // files of equal size, many within a tick of the kernel's clock
    EXPECT_EQ((turn % 2 == 0 ? one : other).reserve(1024, 0), 1 + turn * 1024);
    EXPECT_EQ(one.opens(), other.opens());
  }
  // Written in place, as an editor may.
  SequenceFile file = *read_sequence_file(box.root);
  std::string text = make_local_file_io()->read(box.file);
  const std::string next = std::to_string(file.next_seq), later = std::to_string(file.next_seq + 5);
  text.replace(text.find(next), next.size(), later);
  std::ofstream(box.file) << text;
  EXPECT_EQ(one.reserve(1024, 0), file.next_seq + 5);
}

TEST(Sequence, ADamagedWatermarkDoesNotStopTheCache) {
  SequenceBox box;
  box.write_watermark("{\"v\":1,");
  EXPECT_EQ(box.allocator().reserve(1, 0), 1);
}

TEST(Sequence, AnUnreadableFileIsAnErrorAndNotAnEmptyCache) {
  SequenceBox box;
  make_directories(box.file);  // reading a directory fails, for root too
  try {
    box.allocator().reserve(1, 0);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::io);
  }
}

TEST(Sequence, OpensBelowTheOldestRowKeptGo) {
  SequenceBox box;
  auto one = box.allocator();
  auto other = box.allocator();
  one.reserve(1, 0);
  other.reserve(1, 0);
  one.reserve(1, 1025);
  one.prune_opens(1024);
  EXPECT_EQ(one.opens().size(), 3u);
  one.prune_opens(1025);
  EXPECT_EQ(one.opens(), (std::vector<Open>{{other.open_id(), 1025}, {one.open_id(), 2049}}));
  one.prune_opens(1'000'000);
  EXPECT_EQ(one.opens(), (std::vector<Open>{{one.open_id(), 2049}}));
}

}  // namespace
}  // namespace firn::hyp
