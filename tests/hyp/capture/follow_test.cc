#include "hyp/capture/follow.h"

#include <sys/stat.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/uuid.h"
#include "hyp/capture/registrations.h"
#include "hyp/capture/source_identity.h"
#include "support/crash.h"
#include "support/temp_folder.h"

namespace firn::hyp {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

void write_text(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }
void append_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::app | std::ios::binary) << text;
}

std::string gzip(const std::string& text) {
  z_stream stream{};
  EXPECT_EQ(::deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(::deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(::deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  ::deflateEnd(&stream);
  return out;
}

std::string zstd(const std::string& text) {
  std::string out(::ZSTD_compressBound(text.size()), '\0');
  out.resize(::ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

std::string lines(int from, int to) {
  std::string text;
  for (int i = from; i < to; ++i) text += fmt::format("{{\"n\":{:04}}}\n", i);
  return text;
}

// A folder of logs, a cache, and a registration whose process may end and start anew.
class Follow : public testing::Test {
 protected:
  Follow() { fs::create_directory(root_ / "logs"); }
  std::string log(const std::string& name = "app.log") const { return root_ / ("logs/" + name); }
  std::string cache() const { return root_ / "cache"; }

  FollowReport poll() {
    if (!spool_) spool_ = Spool::open(cache());
    if (!follower_) follower_ = std::make_unique<Follower>(cache(), CollectConfig{"web", "d", root_ / glob_});
    return follower_->poll(*spool_, {});
  }
  // A poll that reads what is there, without anything to complain about.
  int64_t polled_lines() {
    const FollowReport report = poll();
    EXPECT_THAT(report.problems, IsEmpty());
    EXPECT_THAT(report.missed, IsEmpty());
    return report.total.lines;
  }
  void restart() {
    follower_.reset();
    spool_.reset();
  }
  // All lines that were taken, sorted.
  std::string taken() const {
    std::vector<std::string> all;
    for (const std::string& folder : list_spools(cache())) {
      SpoolReader reader(folder, {});
      while (const auto at = reader.next()) {
        std::istringstream in(at->frame.text);
        for (std::string line; std::getline(in, line);) all.push_back(line);
      }
    }
    std::sort(all.begin(), all.end());
    std::string text;
    for (const std::string& line : all) text += line + "\n";
    return text;
  }
  static void let_the_file_clock_tick() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }
  static void age(const std::string& path, std::chrono::seconds age) {
    fs::last_write_time(path, fs::last_write_time(path) - age);
  }

  TempFolder root_;
  std::string glob_ = "logs/app.log";
  std::unique_ptr<Spool> spool_;
  std::unique_ptr<Follower> follower_;
};

TEST_F(Follow, TakesWholeLinesAsTheyAreAppended) {
  glob_ = "logs/*.log*";
  EXPECT_EQ(polled_lines(), 0);
  write_text(log(), lines(0, 1) + "{\"n\":");
  EXPECT_EQ(polled_lines(), 1);
  append_text(log(), "0001}\n");
  EXPECT_EQ(polled_lines(), 1);
  EXPECT_EQ(polled_lines(), 0);
  // Rotation within the pattern: the old file is known under its new name, the new one is new.
  append_text(log(), lines(2, 3));
  fs::rename(log(), log("app.log.1"));
  write_text(log(), lines(3, 5));
  EXPECT_EQ(polled_lines(), 3);
  fs::create_hard_link(log(), log("b.log"));
  EXPECT_EQ(polled_lines(), 0);
  EXPECT_EQ(taken(), lines(0, 5));
  SpoolReader reader(spool_->folder(), {});
  EXPECT_EQ(reader.next()->frame.source, "web");
}

TEST_F(Follow, FilesThatCannotBeReadAreReportedAndTheOthersGoOn) {
  glob_ = "logs/*.log";
  write_text(log("a.log"), gzip(lines(0, 10'000)).substr(0, 1000));
  fs::create_symlink(root_ / "nowhere", log("b.log"));
  fs::create_directory(log("c.log"));
  write_text(log("d.log"), lines(0, 2));
  write_text(log("e.log"), zstd(lines(2, 4)));
  EXPECT_EQ(poll().problems.size(), 2U);
  EXPECT_THAT(taken(), AllOf(HasSubstr(lines(0, 2)), HasSubstr(lines(2, 4))));
  EXPECT_EQ(poll().total.lines, 0);
}

TEST_F(Follow, AFileThatIsRenamedOutOfThePatternIsReadToItsEndFirst) {
  for (int i = 0; i < 9; i += 3) {
    append_text(log(), lines(i, i + 1));
    polled_lines();
    append_text(log(), lines(i + 1, i + 2));  // not seen at its name
    fs::rename(log(), log("app.log." + std::to_string(i)));
    write_text(log(), lines(i + 2, i + 3));
  }
  polled_lines();
  EXPECT_EQ(taken(), lines(0, 9));
  // What a writer still appends to the renamed file is taken too.
  append_text(log("app.log.6"), lines(9, 10));
  EXPECT_EQ(polled_lines(), 1);
  EXPECT_EQ(taken(), lines(0, 10));
}

TEST_F(Follow, FilesThatCameAndWentBetweenTwoPollsAreTaken) {
  write_text(log(), lines(0, 2));
  polled_lines();
  append_text(log(), lines(2, 3));
  fs::rename(log(), log("app.log.3"));
  for (int i = 3; i < 5; ++i) {
    write_text(log(), lines(i, i + 1));
    fs::rename(log(), log("app.log." + std::to_string(5 - i)));
  }
  write_text(log(), lines(5, 6));
  write_text(log("app.log.err"), "{\"other\":1}\n");  // no name that rotation gives
  EXPECT_EQ(polled_lines(), 4);
  EXPECT_EQ(polled_lines(), 0);
  EXPECT_EQ(taken(), lines(0, 6));
}

TEST_F(Follow, AFileThatCameAndWasRotatedBeforeItsNameWasKnownIsTaken) {
  EXPECT_EQ(polled_lines(), 0);
  for (const bool has_restarted : {false, true}) {
    SCOPED_TRACE(has_restarted);
    const int n = has_restarted ? 100 : 0;
    if (has_restarted) {
      // The name has left, and was read to its end, before the next ones come.
      fs::rename(log(), log("app.log.3"));
      EXPECT_EQ(polled_lines(), 0);
      restart();
    }
    write_text(log("app.log.2"), lines(n, n + 10));
    write_text(log("app.log.1"), lines(n + 10, n + 11));
    write_text(log(), lines(n + 11, n + 12));
    EXPECT_EQ(polled_lines(), 12);
    EXPECT_EQ(polled_lines(), 0);
    std::vector<std::string> order;
    SpoolReader reader(spool_->folder(), {});
    while (const auto at = reader.next()) {
      if (!at->frame.text.empty()) order.push_back(at->frame.text);
    }
    ASSERT_GE(order.size(), 3U);
    EXPECT_THAT(std::vector(order.end() - 3, order.end()),
                testing::ElementsAre(lines(n, n + 10), lines(n + 10, n + 11), lines(n + 11, n + 12)));
    // Their numbers as files may be given again.
    fs::remove(log("app.log.1"));
    fs::remove(log("app.log.2"));
    polled_lines();
  }
}

TEST_F(Follow, AFileOfAPatternThatCameAndWentIsTakenWhetherItsNameCameAgainOrNot) {
  glob_ = "*s/[!x]*.log";
  fs::create_directory(root_ / "jobs");
  write_text(log("a.log"), lines(0, 1));
  EXPECT_EQ(polled_lines(), 1);
  write_text(log("b.log.1"), lines(1, 2));
  write_text(log("b.log"), lines(2, 3));
  write_text(root_ / "jobs/c.log-20240131", lines(3, 4));
  write_text(log("x.log.1"), lines(90, 91));  // not of the pattern
  write_text(log("b.log.err"), lines(91, 92));
  EXPECT_EQ(polled_lines(), 3);
  EXPECT_EQ(polled_lines(), 0);
  write_text(root_ / "jobs/c.log", lines(4, 5));
  EXPECT_EQ(polled_lines(), 1) << "the first one is taken";
  EXPECT_EQ(taken(), lines(0, 5));
}

TEST_F(Follow, AFileThatCameWentAndWasCompressedBeforeItsNameWasKnownIsToldOnce) {
  EXPECT_EQ(polled_lines(), 0);
  write_text(log("app.log.1.gz"), gzip(lines(0, 9)));
  let_the_file_clock_tick();
  const FollowReport report = poll();
  ASSERT_EQ(report.missed.size(), 1U);
  EXPECT_THAT(report.missed[0], AllOf(HasSubstr("app.log.1.gz"), HasSubstr("hyp ingest d")));
  write_text(log(), lines(9, 10));
  EXPECT_EQ(polled_lines(), 1);
  restart();
  EXPECT_EQ(polled_lines(), 0);
  // Of one that was taken nothing is missed.
  fs::remove(log());
  write_text(log("app.log.2.gz"), gzip(lines(9, 10)));
  EXPECT_EQ(polled_lines(), 0);
  write_text(log("app.log.3.gz"), gzip(lines(9, 10)));
  EXPECT_EQ(polled_lines(), 0);
}

TEST_F(Follow, RotatedFilesFromBeforeTheRegistrationAreNotTakenWhenItsFirstFileComes) {
  write_text(log("app.log.1"), lines(90, 99));
  let_the_file_clock_tick();
  EXPECT_EQ(polled_lines(), 0);
  fs::rename(log("app.log.1"), log("app.log.2"));
  write_text(log(), lines(0, 1));
  EXPECT_EQ(polled_lines(), 1);
  restart();
  EXPECT_EQ(polled_lines(), 0);
  EXPECT_EQ(taken(), lines(0, 1));
}

TEST_F(Follow, FilesThatCameAndWentBehindASymbolicLinkAreTaken) {
  fs::create_directory(root_ / "real");
  const std::string real = root_ / "real/today.log";
  EXPECT_EQ(polled_lines(), 0);
  write_text(real + ".1", lines(0, 1));
  write_text(real, lines(1, 2));
  fs::create_symlink(real, log());
  EXPECT_EQ(polled_lines(), 2);
  EXPECT_EQ(taken(), lines(0, 2));
}

TEST_F(Follow, OlderFilesThatWereThereBeforeAreNotTaken) {
  write_text(log("app.log.1"), lines(90, 99));
  age(log("app.log.1"), std::chrono::hours(1));
  write_text(log(), lines(0, 2));
  polled_lines();
  fs::rename(log("app.log.1"), log("app.log.2"));
  fs::rename(log(), log("app.log.1"));
  write_text(log(), lines(2, 3));
  EXPECT_EQ(polled_lines(), 1);
  EXPECT_EQ(taken(), lines(0, 3));
}

TEST_F(Follow, AFileThatIsRemovedIsReadToItsEnd) {
  write_text(log(), lines(0, 2));
  polled_lines();
  append_text(log(), lines(2, 3));
  fs::remove(log());
  EXPECT_EQ(polled_lines(), 1);
  EXPECT_EQ(taken(), lines(0, 3));
}

TEST_F(Follow, ARestartFindsARenamedFileByItsInode) {
  write_text(log(), lines(0, 2));
  polled_lines();
  restart();
  append_text(log(), lines(2, 4) + "{\"n\":0004}");
  fs::rename(log(), log("anything"));
  write_text(log(), lines(5, 6));
  EXPECT_EQ(polled_lines(), 3);
  EXPECT_EQ(taken(), lines(0, 4) + lines(5, 6));
  restart();
  age(log("anything"), std::chrono::hours(1));
  EXPECT_EQ(polled_lines(), 1) << "its last line, without newline: it does not grow any more";
  EXPECT_EQ(taken(), lines(0, 6));
  restart();
  fs::remove(log("anything"));
  EXPECT_EQ(polled_lines(), 0) << "it was done";
}

TEST_F(Follow, ARestartThatFindsAFileNowhereSaysWhatIsMissed) {
  write_text(log(), lines(0, 2));
  polled_lines();
  restart();
  write_text(log("new"), "");
  fs::rename(log("new"), log());
  const FollowReport report = poll();
  ASSERT_EQ(report.missed.size(), 1U);
  EXPECT_THAT(report.missed[0], AllOf(HasSubstr(log()), HasSubstr("22 of its bytes (2 lines) were taken")));
  EXPECT_THAT(poll().missed, IsEmpty()) << "once";
  restart();
  EXPECT_THAT(poll().missed, IsEmpty());
  ASSERT_EQ(load_missed(cache(), "web").size(), 1U);
  EXPECT_EQ(load_missed(cache(), "web")[0].message, report.missed[0]);
  forget_followed(cache(), "web");
  EXPECT_THAT(load_missed(cache(), "web"), IsEmpty());
}

TEST_F(Follow, TheRestOfAFileThatWasCompressedMeanwhileIsTakenFromThere) {
  write_text(log(), lines(0, 2));
  polled_lines();
  restart();
  fs::remove(log());
  write_text(log("app.log.1.gz"), gzip(lines(0, 5)));
  write_text(log(), lines(5, 6));
  EXPECT_EQ(polled_lines(), 4);
  EXPECT_EQ(taken(), lines(0, 6));
  restart();
  EXPECT_EQ(polled_lines(), 0);
}

TEST_F(Follow, AFileThatCameWentAndWasCompressedIsToldWithItsSize) {
  write_text(log(), lines(0, 2));
  polled_lines();
  fs::rename(log(), log("app.log.2"));
  const std::string compressed = gzip(lines(2, 50));
  write_text(log("app.log.1.gz"), compressed);
  write_text(log(), lines(50, 51));
  const FollowReport report = poll();
  ASSERT_EQ(report.missed.size(), 1U);
  EXPECT_THAT(report.missed[0],
              AllOf(HasSubstr("app.log.1.gz"), HasSubstr(fmt::format("{} bytes", compressed.size()))));
  EXPECT_EQ(taken(), lines(0, 2) + lines(50, 51));
}

TEST_F(Follow, TheRestOfAFileThatWasCutIsTakenFromItsCopy) {
  write_text(log(), lines(0, 2));
  polled_lines();
  append_text(log(), lines(2, 4));
  fs::copy(log(), log("app.log.1"));
  write_text(log(), "");  // the same inode
  EXPECT_EQ(polled_lines(), 2);
  append_text(log(), lines(4, 5));
  EXPECT_EQ(polled_lines(), 1);
  EXPECT_EQ(polled_lines(), 0);
  EXPECT_EQ(taken(), lines(0, 5));
}

TEST_F(Follow, AFileThatWasCutWithoutACopyIsToldOnce) {
  write_text(log(), lines(0, 3));
  polled_lines();
  write_text(log(), lines(3, 4));
  const FollowReport report = poll();
  ASSERT_EQ(report.missed.size(), 1U);
  EXPECT_THAT(report.missed[0], AllOf(HasSubstr(log()), HasSubstr("after 33 bytes (3 lines)")));
  EXPECT_THAT(poll().missed, IsEmpty());
  EXPECT_EQ(taken(), lines(0, 4));
}

TEST_F(Follow, ThePositionOfAFileThatStaysIsRenewedSoThatItIsNeverTakenAgain) {
  write_text(log(), lines(0, 2));
  polled_lines();
  struct stat info;
  ASSERT_EQ(::stat(log().c_str(), &info), 0);
  const auto first = last_taken(*spool_, "d", info.st_dev, info.st_ino);
  ASSERT_TRUE(first);
  Frame old;
  old.dataset = "d";
  old.source = "web";
  old.source_id = first->id;
  old.position = first->position;
  old.position.updated_ms = now_ms() - int64_t{60} * 86'400'000;
  old.batch_id = uuid_v7(now_ms());
  spool_->append({old});
  EXPECT_EQ(polled_lines(), 0);
  const auto renewed = last_taken(*spool_, "d", info.st_dev, info.st_ino);
  EXPECT_GT(renewed->position.updated_ms, now_ms() - 86'400'000);
  EXPECT_EQ(renewed->position.bytes, first->position.bytes);
}

TEST_F(Follow, ACompressedFileIsReadAgainWhenItGrewWhateverTheClockSays) {
  glob_ = "logs/*.gz";
  write_text(log("a.gz"), gzip(lines(0, 1)));
  EXPECT_EQ(polled_lines(), 1);
  append_text(log("a.gz"), gzip(lines(1, 2)));
  age(log("a.gz"), std::chrono::hours(2));
  EXPECT_EQ(polled_lines(), 1);
  restart();
  EXPECT_EQ(polled_lines(), 0);
  EXPECT_EQ(taken(), lines(0, 2));
}

TEST(FollowCrash, EachLineIsTakenOnceWhereverTheProcessDies) {
  // Two steps of a log's life, each seen by a process of its own.
  const auto live = [](const std::string& root, int step) {
    const std::string log = root + "/app.log";
    if (step == 0) {
      write_text(log, lines(0, 2));
    } else {
      append_text(log, lines(2, 3));
      fs::rename(log, log + ".2");
      write_text(log, lines(3, 4));
      fs::rename(log, log + ".1");
      write_text(log, lines(4, 5));
    }
  };
  const auto follow = [](const std::string& root) {
    const auto spool = Spool::open(root + "/cache");
    Follower(root + "/cache", {"web", "d", root + "/app.log"}).poll(*spool, {});
  };
  // Step 2: the whole life passed between two looks.
  const auto begin = [&](const std::string& root, int step) {
    if (step < 2) live(root, 0);
    if (step > 0) {
      ASSERT_EQ(run_in_child([&] { follow(root); }), 0);
    }
    if (step == 2) live(root, 0);
    if (step > 0) live(root, 1);
  };
  for (int step = 0; step < 3; ++step) {
    std::vector<std::string> points;
    {
      TempFolder root;
      begin(root.path(), step);
      points = fault_points_of([&] { follow(root.path()); });
      ASSERT_GT(points.size(), 0U);
    }
    for (size_t i = 0; i < points.size(); ++i) {
      SCOPED_TRACE(fmt::format("step {}, killed at {}: {}", step, i, points[i]));
      TempFolder root;
      begin(root.path(), step);
      run_killed_at(i, i % 2 == 0 ? Crash::power : Crash::process, [&] { follow(root.path()); });
      if (step == 0) live(root.path(), 1);
      ASSERT_EQ(run_in_child([&] { follow(root.path()); }), 0);
      std::multiset<std::string> all;
      for (const std::string& folder : list_spools(root / "cache")) {
        SpoolReader reader(folder, {});
        while (const auto at = reader.next()) {
          std::istringstream in(at->frame.text);
          for (std::string line; std::getline(in, line);) all.insert(line);
        }
      }
      std::string text;
      for (const std::string& line : all) text += line + "\n";
      // A process that died before it had seen the first file at all cannot know of the ones that are gone.
      if (step == 0 && text == lines(4, 5)) continue;
      ASSERT_EQ(text, lines(0, 5));
    }
  }
}

TEST(Registrations, LastAndAreReplacedByName) {
  TempFolder root;
  EXPECT_TRUE(load_registrations(root.path()).empty());
  add_registration(root.path(), {.name = "a", .dataset = "d", .glob = "/x/*"});
  add_registration(root.path(), {.name = "b", .dataset = "d", .glob = "/y"});
  add_registration(root.path(), {.name = "a", .dataset = "e", .glob = "/z"});
  const std::vector<CollectConfig> all = load_registrations(root.path());
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].dataset, "e");
  EXPECT_EQ(all[1].glob, "/y");
}

}  // namespace
}  // namespace firn::hyp
