#include "hyp/capture/spool.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fault_point.h"
#include "hyp/capture/spool_format.h"
#include "support/captured_log.h"
#include "support/crash.h"
#include "support/temp_folder.h"

namespace firn::hyp {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Frame make_frame(const std::string& text, const std::string& source_id = "", int64_t bytes = 0) {
  Frame frame;
  frame.dataset = "d";
  frame.source = "s";
  frame.source_id = source_id;
  frame.position = {.bytes = bytes, .lines = 1, .done = false, .updated_ms = now_ms()};
  frame.batch_id = "b";
  frame.text = text + "\n";
  return frame;
}

std::vector<std::string> texts_of(const std::string& folder, SpoolPosition from = {},
                                  std::optional<SpoolPosition> until = {}) {
  std::vector<std::string> texts;
  SpoolReader reader(folder, from, until);
  while (const auto at = reader.next()) {
    EXPECT_LT(at->begin, at->end);
    texts.push_back(at->frame.text.substr(0, at->frame.text.size() - 1));
  }
  return texts;
}

std::vector<std::string> texts_of(const Spool& spool) { return texts_of(spool.folder(), spool.progress()); }

std::string segment(const std::string& folder, int number) { return fmt::format("{}/{:012}.seg", folder, number); }

std::vector<std::string> segments_of(const std::string& folder) {
  std::vector<std::string> paths;
  for (const int64_t number : list_segments(folder)) paths.push_back(segment_path(folder, number));
  return paths;
}

void flip_byte(const std::string& path, int64_t offset) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(offset);
  const auto byte = static_cast<char>(file.get() ^ 0x10);
  file.seekp(offset);
  file.put(byte);
}

void append_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::app | std::ios::binary) << bytes;
}

// Ends as a killed process does: without the destructor's closing frame.
void in_killed_process(const std::function<void()>& work) {
  ASSERT_EQ(run_in_child([&] {
              work();
              std::_Exit(0);
            }),
            0);
}

TEST(Spool, FramesComeBackInOrderWithAllTheirFields) {
  TempFolder root;
  const auto spool = Spool::open(root.path());
  Frame frame = make_frame("{\"a\":1}", "pipe:d:x", 8);
  frame.position = {.bytes = 8, .lines = 2, .done = true, .updated_ms = 5};
  frame.first_line = 7;
  const SpoolPosition end = spool->append({frame, make_frame("{}"), make_frame(std::string(3 << 20, 'x'))});
  SpoolReader reader(spool->folder(), {});
  EXPECT_EQ(reader.spool_id(), spool->id());
  const auto first = reader.next();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->frame.dataset, "d");
  EXPECT_EQ(first->frame.source, "s");
  EXPECT_EQ(first->frame.source_id, "pipe:d:x");
  EXPECT_EQ(first->frame.position.bytes, 8);
  EXPECT_EQ(first->frame.position.lines, 2);
  EXPECT_TRUE(first->frame.position.done);
  EXPECT_EQ(first->frame.position.updated_ms, 5);
  EXPECT_EQ(first->frame.first_line, 7);
  EXPECT_EQ(first->frame.batch_id, "b");
  EXPECT_EQ(first->frame.text, "{\"a\":1}\n");
  const auto second = reader.next();
  EXPECT_EQ(second->begin, first->end);
  const auto third = reader.next();
  EXPECT_EQ(third->frame.text.size(), (3U << 20) + 1);
  EXPECT_EQ(third->end, end);
  EXPECT_FALSE(reader.next());
  EXPECT_THAT(texts_of(spool->folder(), first->end, third->begin), ElementsAre("{}"));
}

TEST(Spool, WhatStandsForMoreOfATextComesBackAsAllOfIt) {
  TempFolder root;
  const auto spool = Spool::open(root.path());
  std::string lines, marked;
  for (int i = 0; i < 1000; ++i) {
    lines += fmt::format("{{\"n\":{}}}\n", i);
    marked += fmt::format("{{\"g\":\"x\",\"n\":{}}}\n", i);
  }
  const auto packed = packed_text(lines);
  ASSERT_TRUE(packed);
  EXPECT_LT(packed->size(), lines.size() / 2);
  EXPECT_FALSE(packed_text("x"));
  Frame plain = make_frame(""), of_both = make_frame("");
  plain.text = lines;
  plain.row_member = of_both.row_member = "\"g\":\"x\"";
  of_both.text = *packed;
  of_both.is_packed = true;
  Frame only_packed = of_both;
  only_packed.row_member = "";
  spool->append({plain, of_both, only_packed});
  SpoolReader reader(spool->folder(), {});
  for (const std::string& text : {marked, marked, lines}) {
    const auto at = reader.next();
    ASSERT_TRUE(at);
    EXPECT_EQ(at->frame.text, text);
    EXPECT_EQ(at->frame.row_member, "");
    EXPECT_FALSE(at->frame.is_packed);
    EXPECT_EQ(at->frame.batch_id, "b");
  }
  EXPECT_FALSE(reader.next());
}

TEST(Spool, AnotherProcessGetsASpoolOfItsOwnAndADeadOnesIsTakenOver) {
  TempFolder root;
  auto first = Spool::open(root.path());
  auto second = Spool::open(root.path());
  EXPECT_NE(first->id(), second->id());
  EXPECT_EQ(list_spools(root.path()).size(), 2U);
  second->append({make_frame("left")});
  const std::string id = second->id();
  second.reset();
  const auto abandoned = Spool::open_abandoned(root.path());
  ASSERT_EQ(abandoned.size(), 1U);
  EXPECT_EQ(abandoned[0]->id(), id);
  EXPECT_THAT(texts_of(*abandoned[0]), ElementsAre("left"));
}

TEST(Spool, AFolderWithoutAnythingInItIsASpool) {
  TempFolder root;
  std::filesystem::create_directories(root / "spool/empty");
  const auto spool = Spool::open(root.path());
  EXPECT_EQ(spool->id(), "empty");
  spool->append({make_frame("x")});
  EXPECT_THAT(texts_of(*spool), ElementsAre("x"));
}

TEST(Spool, ATornTailIsCutWhereverItIsTorn) {
  TempFolder root;
  std::string folder;
  in_killed_process([&] { Spool::open(root.path()).release()->append({make_frame("kept")}); });
  folder = list_spools(root.path()).at(0);
  const auto kept = std::filesystem::file_size(segment(folder, 1));
  in_killed_process([&] { Spool::open(root.path()).release()->append({make_frame("whole")}); });
  std::string bytes;
  {
    std::ifstream file(segments_of(folder).at(1), std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(file), {});
  }
  std::filesystem::remove(segments_of(folder).at(1));
  for (size_t size = 0; size < bytes.size(); size += 1 + size / 8) {
    append_bytes(segment(folder, 2), bytes.substr(0, size));
    EXPECT_THAT(texts_of(folder), ElementsAre("kept")) << size;
    in_killed_process([&] {
      Spool* spool = Spool::open(root.path()).release();
      if (texts_of(*spool) != std::vector<std::string>{"kept"}) throw std::runtime_error("not the kept frame alone");
      spool->append({make_frame("new")});
    });
    EXPECT_THAT(texts_of(folder), ElementsAre("kept", "new")) << size;
    EXPECT_EQ(std::filesystem::file_size(segment(folder, 1)), kept);
    for (const std::string& path : segments_of(folder)) {
      if (path != segment(folder, 1)) std::filesystem::remove(path);
    }
  }
}

TEST(Spool, GarbageAfterTheLastFrameIsATornTail) {
  TempFolder root;
  in_killed_process([&] { Spool::open(root.path()).release()->append({make_frame("kept")}); });
  const std::string folder = list_spools(root.path()).at(0);
  for (const std::string& tail :
       {std::string(4096, '\0'), std::string(100, '\xff'), std::string("\x01\x00\x00\x00", 4)}) {
    append_bytes(segment(folder, 1), tail);
    EXPECT_THAT(texts_of(folder), ElementsAre("kept"));
    const auto spool = Spool::open(root.path());
    EXPECT_THAT(texts_of(*spool), ElementsAre("kept"));
  }
}

TEST(Spool, DamageToSyncedFramesIsAnErrorThatNamesThePlace) {
  TempFolder root;
  std::string folder;
  SpoolPosition first;
  in_killed_process([&] {
    Spool* spool = Spool::open(root.path()).release();
    for (const char* text : {"one", "two", "three"}) spool->append({make_frame(text)});
  });
  folder = list_spools(root.path()).at(0);
  {
    SpoolReader reader(folder, {});
    first = reader.next()->begin;
  }
  const auto expect_corrupt = [&](const std::string& place) {
    try {
      texts_of(folder);
      ADD_FAILURE() << "read";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::corrupt);
      EXPECT_THAT(error.what(), HasSubstr(place));
    }
    EXPECT_THROW(Spool::open(root.path()), Error);
  };
  // The later frames were made after the first was synced, and say so: in the last segment, whose tail may be torn.
  for (const int64_t offset : {first.offset, first.offset + 5, first.offset + 60}) {
    flip_byte(segment(folder, 1), offset);
    expect_corrupt(fmt::format("{} is damaged at offset {}", segment(folder, 1), first.offset));
    flip_byte(segment(folder, 1), offset);
  }
  flip_byte(segment(folder, 1), 3);
  expect_corrupt("at offset 0");
  flip_byte(segment(folder, 1), 3);
  EXPECT_THAT(texts_of(folder), ElementsAre("one", "two", "three"));
  // The next segment says where this one ends, so even its last frame is no torn tail.
  in_killed_process([&] { Spool::open(root.path()).release()->append({make_frame("four")}); });
  const auto last = static_cast<int64_t>(std::filesystem::file_size(segment(folder, 1))) - 1;
  flip_byte(segment(folder, 1), last);
  expect_corrupt(segment(folder, 1));
}

TEST(Spool, DamageToTheLastFrameIsSeenAfterACleanEnd) {
  TempFolder root;
  Spool::open(root.path())->append({make_frame("only")});
  const std::string folder = list_spools(root.path()).at(0);
  EXPECT_THAT(texts_of(folder), ElementsAre("only"));
  SpoolReader reader(folder, {});
  flip_byte(segment(folder, 1), reader.next()->end.offset - 1);
  EXPECT_THROW(texts_of(folder), Error);
}

TEST(Spool, SourcesAreKnownAfterRestartAdvanceAndInOtherSpools) {
  TempFolder root;
  auto spool = Spool::open(root.path());
  const std::string id = spool->id();
  EXPECT_FALSE(spool->source_position("pipe:d:x"));
  spool->append({make_frame("1", "pipe:d:x", 10), make_frame("2", "pipe:d:x", 20), make_frame("3", "batch:d:y", 5)});
  EXPECT_EQ(spool->source_position("pipe:d:x")->bytes, 20);
  EXPECT_EQ(spool->source_positions("batch:").size(), 1U);
  {
    const auto other = Spool::open(root.path());
    EXPECT_EQ(other->source_position("pipe:d:x")->bytes, 20);
    Frame later = make_frame("4", "pipe:d:x", 30);
    later.position.updated_ms += 1;  // no pipe is sent again within the same millisecond
    other->append({later});
  }
  EXPECT_EQ(spool->source_position("pipe:d:x")->bytes, 20);
  spool->advance(spool->end());
  EXPECT_FALSE(std::filesystem::exists(segment(spool->folder(), 1)));
  EXPECT_EQ(spool->source_position("pipe:d:x")->bytes, 20);
  spool.reset();
  const auto again = Spool::open(root.path());
  // Whichever spool is taken, the last position of all counts.
  EXPECT_EQ(again->source_position("pipe:d:x")->bytes, 30);
  EXPECT_EQ(again->source_position("batch:d:y")->bytes, 5);
}

TEST(Spool, PositionsOfBatchesAreKeptForSevenDaysOthersForNinety) {
  TempFolder root;
  const auto spool = Spool::open(root.path());
  const auto aged = [&](const std::string& id, int64_t days) {
    Frame frame = make_frame("x", id, 1);
    frame.position.updated_ms = now_ms() - days * 86'400'000;
    return frame;
  };
  spool->append({aged("batch:d:old", 8), aged("batch:d:new", 6), aged("file:d:old", 91), aged("file:d:new", 89)});
  EXPECT_TRUE(spool->source_position("batch:d:old"));  // its frame is still here
  spool->advance(spool->end());
  EXPECT_FALSE(spool->source_position("batch:d:old"));
  EXPECT_TRUE(spool->source_position("batch:d:new"));
  EXPECT_FALSE(spool->source_position("file:d:old"));
  EXPECT_TRUE(spool->source_position("file:d:new"));
}

// P6.1: whatever says what was used may be lost, or of an older backup.
TEST(Spool, SegmentNumbersAreNeverUsedAgain) {
  TempFolder root;
  SpoolPosition last;
  for (int round = 1; round <= 3; ++round) {
    const auto spool = Spool::open(root.path());
    const SpoolPosition end = spool->append({make_frame("x")});
    EXPECT_GT(end.segment, last.segment);
    last = end;
    EXPECT_GT(spool->unflushed_bytes(), 0);
    const SpoolPosition to = spool->end();
    EXPECT_GT(to, end);
    EXPECT_EQ(spool->end(), to);
    spool->advance(to);
    EXPECT_EQ(spool->unflushed_bytes(), 0);
    EXPECT_TRUE(texts_of(spool->folder()).empty());
    std::filesystem::remove(spool->folder() + "/progress.json");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // no restart is quicker
  }
}

TEST(Spool, ALostListOfSourcesIsWarnedOf) {
  TempFolder root;
  std::string folder;
  const auto live = [&](const std::string& source_id) {
    const CapturedLog log;
    const auto spool = Spool::open(root.path());
    folder = spool->folder();
    spool->append({make_frame("x", source_id, 7)});
    spool->advance(spool->end());
    return log.text();
  };
  for (const char* source_id : {"", "", "file", "file"}) EXPECT_EQ(live(source_id), "");
  std::filesystem::remove(folder + "/sources.json");
  EXPECT_THAT(live(""), AllOf(HasSubstr(folder + "/sources.json is gone"), HasSubstr("taken whole")));
  EXPECT_EQ(live(""), "") << "told once";
}

TEST(Spool, ADamagedStateFileIsAnErrorThatSaysWhatToDo) {
  TempFolder root;
  std::string folder;
  SpoolPosition end;
  {
    const auto spool = Spool::open(root.path());
    folder = spool->folder();
    spool->append({make_frame("x", "file", 7)});
    spool->advance(end = spool->end());
  }
  for (const char* name : {"/progress.json", "/sources.json"}) {
    SCOPED_TRACE(name);
    for (const char* damaged : {"", "{", R"({"v":1})"}) {
      replace_file(folder + name, damaged);
      try {
        Spool::open(root.path());
        ADD_FAILURE() << damaged;
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::corrupt);
        EXPECT_THAT(std::string(error.what()), AllOf(HasSubstr(folder + name), HasSubstr("emove it")));
      }
    }
    std::filesystem::remove(folder + name);
    Spool::open(root.path());
  }
}

TEST(Spool, AMissingSegmentIsAnErrorThatNamesIt) {
  for (const bool is_first : {true, false}) {
    TempFolder root;
    for (const char* text : {"1", "22", "333"}) Spool::open(root.path())->append({make_frame(text)});
    const std::string folder = list_spools(root.path()).at(0);
    const std::string missing = segments_of(folder).at(is_first ? 0 : 1);
    rename_file(missing, root / "kept");
    const auto expect_missing = [&](const std::function<void()>& work) {
      try {
        work();
        ADD_FAILURE() << "nothing is missed";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::corrupt);
        EXPECT_THAT(error.what(), HasSubstr(missing + " is missing"));
      }
    };
    expect_missing([&] { texts_of(folder); });
    expect_missing([&] { Spool::open(root.path()); });
    std::ofstream(missing).flush();  // given up
    EXPECT_EQ(texts_of(folder),
              is_first ? (std::vector<std::string>{"22", "333"}) : (std::vector<std::string>{"1", "333"}));
    rename_file(root / "kept", missing);
    EXPECT_THAT(texts_of(*Spool::open(root.path())), ElementsAre("1", "22", "333"));
  }
}

TEST(Spool, ProgressInsideASegmentKeepsTheRest) {
  TempFolder root;
  auto spool = Spool::open(root.path());
  const SpoolPosition middle = spool->append({make_frame("1")});
  spool->append({make_frame("2")});
  spool->end();
  spool->advance(middle);
  spool.reset();
  spool = Spool::open(root.path());
  EXPECT_EQ(spool->progress(), middle);
  EXPECT_THAT(texts_of(*spool), ElementsAre("2"));
}

TEST(Spool, AFullSegmentIsFollowedByTheNext) {
  TempFolder root;
  auto spool = Spool::open(root.path(), 1000);
  std::vector<std::string> expected;
  for (int i = 0; i < 20; ++i) {
    expected.emplace_back(300, static_cast<char>('a' + i));
    spool->append({make_frame(expected.back())});
  }
  EXPECT_EQ(texts_of(*spool), expected);
  EXPECT_TRUE(std::filesystem::exists(segment(spool->folder(), 7)));
  spool.reset();
  EXPECT_EQ(texts_of(*Spool::open(root.path())), expected);
}

TEST(Spool, TheFlushGetsWhatIsStillInMemoryAsTheFilesHaveIt) {
  TempFolder root;
  const auto spool = Spool::open(root.path(), 1 << 20);
  const int64_t epoch = spool->epoch();
  for (int i = 0; i < 20; ++i) {
    Frame frame = make_frame(std::string(200'000, static_cast<char>('a' + i)), "file:d:x", i);
    frame.first_line = 10 + i;
    spool->append_unsynced(std::move(frame), epoch);
    if (i % 7 == 0) spool->append({make_frame("{}")});
  }
  const SpoolPosition end = spool->end();
  for (int time = 0; time < 2; ++time) {  // the second time all must come from the files
    SpoolReader from_files(spool->folder(), {});
    SpoolReader reader(*spool, {}, end);
    while (const auto expected = from_files.next()) {
      const auto at = reader.next();
      ASSERT_TRUE(at);
      EXPECT_EQ(at->begin, expected->begin);
      EXPECT_EQ(at->end, expected->end);
      EXPECT_EQ(at->frame.dataset, expected->frame.dataset);
      EXPECT_EQ(at->frame.source_id, expected->frame.source_id);
      EXPECT_EQ(at->frame.position.bytes, expected->frame.position.bytes);
      EXPECT_EQ(at->frame.first_line, expected->frame.first_line);
      EXPECT_TRUE(at->frame.text == expected->frame.text);
    }
    EXPECT_FALSE(reader.next());
  }
}

TEST(Spool, ManyThreadsShareSyncsAndNothingIsLost) {
  TempFolder root;
  const auto spool = Spool::open(root.path(), 4000);
  constexpr int kThreads = 8;
  constexpr int kFrames = 50;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const int64_t epoch = spool->epoch();
      SpoolPosition last;
      for (int i = 0; i < kFrames; ++i) {
        const std::string id = fmt::format("pipe:d:{}", t);
        if (t % 2 == 0) {
          const SpoolPosition end = spool->append({make_frame(fmt::format("{}-{}", t, i), id, i + 1)});
          EXPECT_GT(end, last);
          last = end;
        } else {
          spool->append_unsynced(make_frame(fmt::format("{}-{}", t, i), id, i + 1), epoch);
        }
        EXPECT_EQ(spool->source_position(id)->bytes, i + 1);
      }
      spool->sync(epoch);
    });
  }
  std::thread flusher([&] {
    for (int i = 0; i < 5; ++i) {
      spool->end();
      spool->unflushed_bytes();
    }
  });
  for (std::thread& thread : threads) thread.join();
  flusher.join();
  std::map<std::string, int> next;
  for (const std::string& text : texts_of(*spool)) {
    const size_t dash = text.find('-');
    EXPECT_EQ(std::stoi(text.substr(dash + 1)), next[text.substr(0, dash)]++);  // each thread's frames in its order
  }
  EXPECT_EQ(next.size(), static_cast<size_t>(kThreads));
  for (const auto& [thread, count] : next) EXPECT_EQ(count, kFrames);
}

class FailingPoint {
 public:
  // The first `times` passes of `name` throw io.
  FailingPoint(const std::string& name, int times) {
    set_fault_handler([name, left = std::make_shared<int>(times)](const char* at) {
      if (name == at && (*left)-- > 0) throw Error(ErrorKind::io, "the disk failed");
    });
  }
  ~FailingPoint() { set_fault_handler(nullptr); }
};

TEST(SpoolFailure, AFailedSyncAbandonsTheSegmentAndWritesItsRowsAnew) {
  TempFolder root;
  auto spool = Spool::open(root.path());
  spool->append({make_frame("1", "pipe:d:x", 1)});
  const int64_t epoch = spool->epoch();
  spool->append_unsynced(make_frame("2", "pipe:d:x", 2), epoch);
  SpoolPosition end;
  {
    FailingPoint failing("io.append.before_sync", 1);
    end = spool->append({make_frame("3", "pipe:d:x", 3)});
  }
  EXPECT_EQ(end.segment, 2);
  spool->sync(epoch);
  EXPECT_THAT(texts_of(*spool), ElementsAre("1", "2", "3"));
  EXPECT_EQ(spool->source_position("pipe:d:x")->bytes, 3);
  // Whatever a restart finds of the abandoned tail, the next segment rules it out.
  append_bytes(segment(spool->folder(), 1), "garbage");
  spool.reset();
  EXPECT_THAT(texts_of(*Spool::open(root.path())), ElementsAre("1", "2", "3"));
}

TEST(SpoolFailure, AFailureThatStaysIsReportedAndForgotten) {
  TempFolder root;
  auto spool = Spool::open(root.path());
  spool->append({make_frame("1", "pipe:d:x", 1)});
  const int64_t epoch = spool->epoch();
  spool->append_unsynced(make_frame("lost", "pipe:d:x", 2), epoch);
  {
    FailingPoint failing("io.append.before_sync", 2);
    EXPECT_THROW(spool->append({make_frame("lost too", "pipe:d:x", 3)}), Error);
  }
  EXPECT_EQ(spool->source_position("pipe:d:x")->bytes, 1);
  EXPECT_THROW(spool->sync(epoch), Error);
  EXPECT_THROW(spool->append_unsynced(make_frame("x"), epoch), Error);
  EXPECT_THAT(texts_of(*spool), ElementsAre("1"));
  spool->append({make_frame("2", "pipe:d:x", 2)});
  EXPECT_THAT(texts_of(*spool), ElementsAre("1", "2"));
  spool.reset();
  EXPECT_THAT(texts_of(*Spool::open(root.path())), ElementsAre("1", "2"));
}

TEST(AtomicAppend, IsInvisibleUntilItIsCommitted) {
  TempFolder root;
  auto spool = Spool::open(root.path());
  spool->append({make_frame("1")});
  {
    AtomicAppend dropped(*spool);
    dropped.append(make_frame("never", "pipe:d:z", 9));
  }
  AtomicAppend whole(*spool);
  whole.append(make_frame("3", "pipe:d:x", 1));
  whole.append(make_frame("4", "pipe:d:x", 2));
  spool->append({make_frame("2")});
  EXPECT_THAT(texts_of(*spool), ElementsAre("1", "2"));
  EXPECT_FALSE(spool->source_position("pipe:d:x"));
  EXPECT_EQ(whole.commit().segment, 2);
  spool->append({make_frame("5")});
  EXPECT_THAT(texts_of(*spool), ElementsAre("1", "2", "3", "4", "5"));
  EXPECT_EQ(spool->source_position("pipe:d:x")->bytes, 2);
  EXPECT_FALSE(spool->source_position("pipe:d:z"));
  spool.reset();
  EXPECT_THAT(texts_of(*Spool::open(root.path())), ElementsAre("1", "2", "3", "4", "5"));
}

// --- killed at every fault point ---

// Appends what is not there yet of five frames of one source, some at once, with a flush between: what comes out of the
// spool by flushing and by reading the rest is each frame once.
void capture_five(const std::string& root, const std::string& flushed) {
  const auto spool = Spool::open(root, 250);
  const auto flush = [&] {
    const SpoolPosition end = spool->end();
    // As a partition's commit does, the taken frames and the place move in one step.
    std::ifstream in(flushed);
    std::string taken;
    SpoolPosition place;
    if (in >> place.segment >> place.offset) std::getline(in, taken), std::getline(in, taken);
    for (const std::string& text : texts_of(spool->folder(), std::max(place, spool->progress()), end)) taken += text;
    replace_file(flushed, fmt::format("{} {}\n{}\n", end.segment, end.offset, taken));
    spool->advance(end);
  };
  const auto next = [&] {
    const auto position = spool->source_position("pipe:d:x");
    return position ? position->bytes : 0;
  };
  const auto numbered = [](int64_t i) { return make_frame(std::to_string(i), "pipe:d:x", i); };
  while (next() < 2) spool->append({numbered(next() + 1)});
  flush();
  const int64_t epoch = spool->epoch();
  while (next() < 4) spool->append_unsynced(numbered(next() + 1), epoch);
  spool->sync(epoch);
  if (next() < 5) {
    AtomicAppend whole(*spool);
    whole.append(numbered(5));
    whole.commit();
  }
  flush();
}

std::string flushed_text(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  std::getline(in, line);
  return line;
}

TEST(SpoolCrash, EveryFrameComesOutOnceWhereverTheProcessDies) {
  std::vector<std::string> points;
  {
    TempFolder root;
    points = fault_points_of([&] { capture_five(root / "cache", root / "flushed"); });
    ASSERT_EQ(flushed_text(root / "flushed"), "12345");
  }
  ASSERT_GT(points.size(), 40U);
  for (const Crash crash : {Crash::process, Crash::power}) {
    // A power cut leaves less than a kill, so every point is one; kills, which keep unsynced bytes, sample them.
    for (size_t i = 0; i < points.size(); i += crash == Crash::power ? 1 : 3) {
      TempFolder root;
      run_killed_at(i, crash, [&] { capture_five(root / "cache", root / "flushed"); });
      ASSERT_EQ(run_in_child([&] { capture_five(root / "cache", root / "flushed"); }), 0) << i << " " << points[i];
      ASSERT_EQ(flushed_text(root / "flushed"), "12345")
          << (crash == Crash::power ? "power cut" : "killed") << " at " << i << ": " << points[i];
      std::vector<std::string> rest;
      for (const std::string& folder : list_spools(root / "cache")) {
        for (const std::string& text : texts_of(folder)) rest.push_back(text);
      }
      ASSERT_TRUE(rest.empty());
    }
  }
}

}  // namespace
}  // namespace firn::hyp
