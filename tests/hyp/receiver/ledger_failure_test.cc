// Disks that fail under a receiver, ledgers that are lost, and others who read the same cache (P11.4, P15, P6).
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "base/clock.h"
#include "base/fault_point.h"
#include "base/test_world.h"
#include "hyp/daemon/service.h"
#include "hyp/receiver/ledger_box.h"
#include "io/sqlite.h"
#include "support/crash.h"

namespace firn::hyp {
namespace {

namespace fs = std::filesystem;

const std::string kStream = "c0/logs/source=edge";

// `act` runs each time the point is passed, until this ends.
class AtPoint {
 public:
  AtPoint(std::string point, std::function<void()> act) {
    set_fault_handler([point = std::move(point), act = std::move(act)](const char* name) {
      if (name == point) act();
    });
  }
  ~AtPoint() { set_fault_handler(nullptr); }
};

[[noreturn]] void fail_disk() { fail(ErrorKind::io, "the disk failed"); }

ErrorKind kind_of(const std::function<void()>& act, std::string* message = nullptr) {
  try {
    act();
  } catch (const Error& e) {
    if (message != nullptr) *message = e.what();
    return e.kind();
  }
  ADD_FAILURE() << "nothing failed";
  return ErrorKind::internal;
}

void copy_over(const std::string& from, const std::string& to) {
  fs::remove_all(to);
  fs::copy(from, to, fs::copy_options::recursive);
}

TEST(LedgerFailure, WhatIsAppendedAndNotCommittedIsSeenByNobody) {
  LedgerBox box;
  EXPECT_EQ(box.outcome(numbered(kStream, "a", first_range(0, 2))), Outcome::landed);
  int passed = 0;
  {
    const AtPoint look("receiver.appended", [&] {
      ++passed;
      EXPECT_EQ(box.numbers(), numbers_between(0, 2));
      EXPECT_EQ(box.flush_received().rows, 2);
      EXPECT_EQ(box.numbers(), numbers_between(0, 2));
      EXPECT_EQ(box.receiver->stream("edge", kStream)->opens.at("a"), 2);
    });
    EXPECT_EQ(box.outcome(numbered(kStream, "a", range_of(2, 5))), Outcome::landed);
  }
  EXPECT_EQ(passed, 1);
  EXPECT_EQ(box.numbers(), numbers_between(0, 5));
  EXPECT_EQ(box.flush_received().rows, 3);
  EXPECT_EQ(box.numbers(), numbers_between(0, 5));
}

TEST(LedgerFailure, ABatchWhoseCommitFailsIsNotThereAndMaySafelyComeAgain) {
  // The spool tries once more by itself.
  const std::map<std::string, int> failures = {
      {"receiver.appended", 1}, {"receiver.ledger.before_commit", 1}, {"spool.append.after_sync", 2}};
  for (const auto& [point, count] : failures) {
    SCOPED_TRACE(point);
    LedgerBox box;
    EXPECT_EQ(box.outcome(numbered(kStream, "a", first_range(0, 2))), Outcome::landed);
    const ReceivedBatch batch = numbered(kStream, "a", range_of(2, 5));
    {
      int left = count;
      const AtPoint failing(point, [&] {
        if (left-- > 0) fail_disk();
      });
      EXPECT_EQ(box.outcome(batch), Outcome::failed);
    }
    EXPECT_EQ(box.numbers(), numbers_between(0, 2));
    EXPECT_EQ(box.outcome(numbered("other", "a", first_range(10, 12))), Outcome::landed);
    EXPECT_EQ(box.outcome(batch), Outcome::landed);
    std::vector<int64_t> all = numbers_between(0, 5);
    all.push_back(11);
    all.push_back(12);
    EXPECT_EQ(box.numbers(), all);
    box.reopen();
    EXPECT_EQ(box.numbers(), all);
    EXPECT_EQ(box.flush_received().rows, 7);
    EXPECT_EQ(box.numbers(), all);
  }
}

TEST(LedgerFailure, ACommitThatStandsAlthoughItsAnswerWasAnErrorIsLanded) {
  LedgerBox box;
  {
    int passed = 0;
    const AtPoint failing("receiver.ledger.after_commit", [&] {
      if (++passed == 1) fail_disk();
    });
    EXPECT_EQ(box.outcome(numbered(kStream, "a", first_range(0, 2))), Outcome::landed);
    EXPECT_EQ(box.outcome(make_batch(kStream, "a", range_of(2, 4), {})), Outcome::landed);
  }
  EXPECT_EQ(box.outcome(numbered(kStream, "a", range_of(4, 5))), Outcome::landed);
  EXPECT_EQ(box.numbers(), (std::vector<int64_t>{1, 2, 5}));
}

TEST(LedgerFailure, WhileTheLedgerCannotBeWrittenNothingIsTakenAndAllGoesOnAfterwards) {
  LedgerBox box;
  EXPECT_EQ(box.outcome(numbered(kStream, "a", first_range(0, 2))), Outcome::landed);
  {
    const AtPoint failing("receiver.ledger.before_commit", fail_disk);  // the attempt to settle it, too
    EXPECT_EQ(box.outcome(numbered(kStream, "a", range_of(2, 3))), Outcome::failed);
    EXPECT_EQ(box.outcome(numbered(kStream, "a", range_of(2, 4))), Outcome::failed);
    EXPECT_EQ(box.numbers(), numbers_between(0, 2));
    EXPECT_EQ(box.flush_received().rows, 2);
  }
  EXPECT_EQ(box.outcome(numbered(kStream, "a", range_of(2, 3))), Outcome::landed);
  EXPECT_EQ(box.numbers(), numbers_between(0, 3));
  box.reopen();
  EXPECT_EQ(box.numbers(), numbers_between(0, 3));
}

TEST(LedgerFailure, AStreamWhoseFirstCommitFailedIsNotCounted) {
  LedgerBox box;
  box.config.receiver.gateway_streams_max = 1;
  box.reopen();
  {
    int left = 1;
    const AtPoint failing("receiver.ledger.before_commit", [&] {
      if (left-- > 0) fail_disk();
    });
    EXPECT_EQ(box.outcome(numbered("lost", "a", first_range(0, 2))), Outcome::failed);
  }
  EXPECT_EQ(box.outcome(numbered(kStream, "a", first_range(0, 2))), Outcome::landed);
  EXPECT_EQ(box.outcome(numbered("lost", "a", first_range(0, 2))), Outcome::too_many_streams);
  EXPECT_EQ(box.numbers(), numbers_between(0, 2));
}

// A commit that nobody could look at lands when the ledger can be read again: its sender finds it known.
TEST(LedgerFailure, ACommitOfUnknownOutcomeIsFoundWhenTheLedgerCanBeReadAgain) {
  LedgerBox box;
  const ReceivedBatch batch = numbered(kStream, "a", first_range(0, 2));
  {
    const AtPoint failing("receiver.ledger.after_commit", fail_disk);
    EXPECT_EQ(box.outcome(batch), Outcome::failed);
  }
  EXPECT_EQ(box.outcome(numbered("other", "a", first_range(2, 3))), Outcome::landed);
  EXPECT_EQ(box.outcome(batch), Outcome::known);
  EXPECT_EQ(box.numbers(), numbers_between(0, 3));
  box.reopen();
  EXPECT_EQ(box.numbers(), numbers_between(0, 3));
}

// A full disk, as the file system itself reports it: no file may grow past a size.
TEST(LedgerFailure, AFullDiskCostsNoRowThatWasAcknowledged) {
  ASSERT_EQ(run_in_child([] {
              std::signal(SIGXFSZ, SIG_IGN);
              LedgerBox box;
              std::vector<int64_t> landed;
              const auto limit_files = [](rlim_t bytes) {
                const rlimit limit{bytes, RLIM_INFINITY};
                if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) fail_errno(errno, "setrlimit");
              };
              int64_t failed = 0, last = 0;
              const auto send_some = [&](int count) {
                for (int i = 0; i < count; ++i) {
                  const auto result = send(
                      *box.receiver, numbered(kStream, "a", last == 0 ? first_range(0, 1) : range_of(last, last + 1)));
                  if (result.outcome == Outcome::landed) {
                    landed.push_back(++last);
                  } else if (result.outcome == Outcome::failed) {
                    ++failed;
                  } else {
                    fail(ErrorKind::internal, "outcome {}: {}", static_cast<int>(result.outcome), result.message);
                  }
                }
              };
              send_some(5);
              for (const rlim_t kib : {8, 40, 12, 64, 4, 32}) {
                limit_files(kib << 10);
                send_some(20);
                limit_files(RLIM_INFINITY);
                if (LedgerBox::numbers_in(*box.cache) != landed) fail(ErrorKind::internal, "after {} KiB", kib);
                send_some(2);
              }
              if (failed == 0) fail(ErrorKind::internal, "the limits were never met");
              box.reopen();
              if (box.numbers() != landed) fail(ErrorKind::internal, "after a restart");
              box.flush_received();
              if (box.numbers() != landed) fail(ErrorKind::internal, "after a flush");
            }),
            0);
}

TEST(LedgerFailure, WithoutItsLedgerASpoolIsReadByNobody) {
  LedgerBox box;
  EXPECT_EQ(box.outcome(numbered(kStream, "a", first_range(0, 2))), Outcome::landed);
  const std::string ledger = box.ledger_file();
  box.receiver.reset();
  fs::rename(ledger, ledger + ".away");
  std::string message;
  EXPECT_EQ(kind_of([&] { Receiver::open(*box.cache); }, &message), ErrorKind::corrupt);
  EXPECT_NE(message.find(ledger), std::string::npos) << message;
  EXPECT_EQ(kind_of([&] { box.numbers(); }), ErrorKind::corrupt);
  EXPECT_EQ(kind_of([&] { Service::try_own(box.config); }), ErrorKind::corrupt);
  std::ofstream(ledger) << "this is no database, however long one looks at it; " << std::string(5000, 'x');
  EXPECT_EQ(kind_of([&] { Receiver::open(*box.cache); }, &message), ErrorKind::corrupt);
  EXPECT_NE(message.find(ledger), std::string::npos) << message;
  EXPECT_EQ(kind_of([&] { box.numbers(); }), ErrorKind::corrupt);
  fs::rename(ledger + ".away", ledger);
  box.reopen();
  EXPECT_EQ(box.numbers(), numbers_between(0, 2));
  EXPECT_EQ(box.outcome(numbered(kStream, "a", range_of(2, 3))), Outcome::landed);
}

TEST(LedgerFailure, ALedgerOfANewerFirnIsLeftAlone) {
  LedgerBox box;
  const std::string ledger = box.ledger_file();
  box.receiver.reset();
  SqliteFile(ledger, SqliteFile::Open::existing).run("pragma user_version = 2");
  EXPECT_EQ(kind_of([&] { Receiver::open(*box.cache); }), ErrorKind::unsupported);
}

// Restored alone: what was acknowledged since would be cut off.
TEST(LedgerFailure, ALedgerOlderThanItsSegmentsIsRefused) {
  LedgerBox box;
  EXPECT_EQ(box.outcome(numbered(kStream, "a", first_range(0, 2))), Outcome::landed);
  const std::string ledger = box.ledger_file();
  box.receiver.reset();
  fs::copy_file(ledger, ledger + ".backup");
  box.reopen();
  EXPECT_EQ(box.outcome(numbered(kStream, "a", range_of(2, 3))), Outcome::landed);
  EXPECT_EQ(box.outcome(numbered(kStream, "a", range_of(3, 4))), Outcome::landed);
  box.receiver.reset();
  fs::rename(ledger, ledger + ".newer");
  fs::rename(ledger + ".backup", ledger);
  std::string message;
  EXPECT_EQ(kind_of([&] { LedgerBox::numbers_in(*box.cache); }, &message), ErrorKind::corrupt) << "rows are left out";
  EXPECT_NE(message.find("older"), std::string::npos) << message;
  EXPECT_EQ(kind_of([&] { Receiver::open(*box.cache); }, &message), ErrorKind::corrupt);
  EXPECT_NE(message.find("older"), std::string::npos) << message;
  fs::rename(ledger + ".newer", ledger);
  box.reopen();
  EXPECT_EQ(box.numbers(), numbers_between(0, 4));
}

// Senders would be told to send again what the tables have.
TEST(LedgerFailure, ALedgerOlderThanWhatWasFlushedIsRefusedThoughNoSegmentIsLeft) {
  LedgerBox box;
  const std::string ledger = box.ledger_file();
  EXPECT_EQ(box.outcome(numbered(kStream, "a", first_range(0, 2))), Outcome::landed);
  EXPECT_EQ(box.flush_received().rows, 2);
  box.receiver.reset();
  fs::copy_file(ledger, ledger + ".backup");
  box.reopen();
  EXPECT_EQ(box.outcome(numbered(kStream, "a", range_of(2, 4))), Outcome::landed);
  EXPECT_EQ(box.flush_received().rows, 2);
  box.receiver.reset();
  fs::rename(ledger, ledger + ".newer");
  fs::rename(ledger + ".backup", ledger);
  std::string message;
  EXPECT_EQ(kind_of([&] { Receiver::open(*box.cache); }, &message), ErrorKind::corrupt);
  EXPECT_NE(message.find("backup"), std::string::npos) << message;
  fs::rename(ledger + ".newer", ledger);
  box.reopen();
  EXPECT_EQ(box.outcome(numbered(kStream, "a", range_of(4, 5))), Outcome::landed);
  EXPECT_EQ(box.numbers(), numbers_between(0, 5));
}

// Its folder restored alone, after a time when the clock was ahead: the tables' markers are past all that it knows.
TEST(LedgerFailure, RowsThatComeAfterAnOlderFolderWasRestoredAreNotTakenForFlushedOnes) {
  LedgerBox box;
  const std::string folder = box.receiver->spool().folder(), saved = box.folder / "saved";
  box.receiver.reset();
  copy_over(folder, saved);
  set_clock_ms(now_ms() + 3'600'000);
  box.reopen();
  EXPECT_EQ(box.outcome(numbered(kStream, "a", first_range(0, 2))), Outcome::landed);
  EXPECT_EQ(box.flush_received().rows, 2);
  box.receiver.reset();
  set_clock_ms(std::nullopt);
  copy_over(saved, folder);
  box.reopen();
  EXPECT_EQ(box.outcome(numbered("c1/logs/source=edge", "b", first_range(10, 13))), Outcome::landed);
  EXPECT_EQ(box.flush_received().rows, 3);
  EXPECT_EQ(box.numbers(), (std::vector<int64_t>{1, 2, 11, 12, 13}));
}

// The receiver's folder restored alone: its ledger knows nothing of rows that the tables have, and a sender whose
// answer was lost would send them again.
TEST(LedgerFailure, TablesThatAreNewerThanTheLedgerAreNamedAndNothingIsReceivedUntilTold) {
  LedgerBox box;
  const std::string folder = box.receiver->spool().folder(), saved = box.folder / "saved";
  EXPECT_EQ(box.outcome(numbered(kStream, "a", first_range(0, 2))), Outcome::landed);
  EXPECT_EQ(box.flush_received().rows, 2);
  box.receiver.reset();
  copy_over(folder, saved);
  box.reopen();
  EXPECT_EQ(box.outcome(numbered(kStream, "a", range_of(2, 4))), Outcome::landed);
  EXPECT_EQ(box.flush_received().rows, 2);
  box.receiver.reset();
  Service::try_own(box.config)->open_receiver();  // as it is nothing is wrong
  copy_over(folder, box.folder / "newer");
  copy_over(saved, folder);
  for (int i = 0; i < 2; ++i) {
    std::string message;
    const auto service = Service::try_own(box.config);
    EXPECT_EQ(kind_of([&] { service->open_receiver(); }, &message), ErrorKind::corrupt);
    EXPECT_NE(message.find(folder + "/ledger.db"), std::string::npos) << message;
    EXPECT_NE(message.find(PartitionId{"logs", "edge"}.logical_path()), std::string::npos) << message;
    EXPECT_NE(message.find("hyp serve --older-ledger"), std::string::npos) << message;
    EXPECT_EQ(LedgerBox::numbers_in(*box.cache), numbers_between(0, 4));
  }
  copy_over(box.folder / "newer", folder);
  Service::try_own(box.config)->open_receiver();

  copy_over(saved, folder);
  box.config.receiver.takes_older_ledger = true;
  Service::try_own(box.config)->open_receiver();
  box.config.receiver.takes_older_ledger = false;  // the word is needed once
  {
    const auto service = Service::try_own(box.config);
    Receiver& receiver = service->open_receiver();
    EXPECT_EQ(receiver.stream("edge", kStream)->opens.at("a"), 2);
    EXPECT_EQ(send(receiver, numbered(kStream, "a", range_of(4, 5))).outcome, Outcome::refused)
        << "who knows better is told";
    EXPECT_EQ(send(receiver, numbered("c1/logs/source=edge", "b", first_range(10, 12))).outcome, Outcome::landed);
    service->flush();
  }
  EXPECT_EQ(LedgerBox::numbers_in(*box.cache), (std::vector<int64_t>{1, 2, 3, 4, 11, 12}));
}

TEST(LedgerFailure, ALostOrShortOrDamagedSegmentIsSaid) {
  LedgerBox box;
  EXPECT_EQ(box.outcome(numbered(kStream, "a", first_range(0, 2))), Outcome::landed);
  const std::string spool = box.receiver->spool().folder(), root = box.config.cache_root, saved = box.folder / "saved";
  box.receiver.reset();
  copy_over(root, saved);
  std::string segment;
  for (const auto& entry : fs::directory_iterator(spool)) {
    if (entry.path().extension() == ".seg") segment = entry.path();
  }
  const std::vector<std::function<void()>> harms = {
      [&] { fs::remove(segment); },
      [&] { fs::resize_file(segment, fs::file_size(segment) - 1); },
      [&] {
        std::fstream file(segment, std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(-3, std::ios::end);
        file << 'X';
      },
  };
  for (const auto& harm : harms) {
    copy_over(saved, root);
    harm();
    std::string message;  // a segment's bytes are looked at when they are read
    const auto flush_all = [&] {
      const auto receiver = Receiver::open(*box.cache);
      flush(*box.cache, receiver->spool());
    };
    EXPECT_EQ(kind_of(flush_all, &message), ErrorKind::corrupt);
    EXPECT_NE(message.find(segment), std::string::npos) << message;
    kind_of([&] { box.numbers(); }, &message);
    EXPECT_NE(message.find("Restore"), std::string::npos) << message;
    EXPECT_TRUE(box.cache->partitions("logs").empty());
  }
  copy_over(saved, root);
  box.reopen();
  EXPECT_EQ(box.numbers(), numbers_between(0, 2));
}

TEST(LedgerFailure, OneReceiverACache) {
  LedgerBox box;
  EXPECT_EQ(kind_of([&] { Receiver::open(*box.cache); }), ErrorKind::busy);
  fs::create_directories(box.config.cache_root + "/receiver/another");
  box.receiver.reset();
  EXPECT_EQ(kind_of([&] { Receiver::open(*box.cache); }), ErrorKind::corrupt);
}

// What died while it made its spool left nothing that counts.
TEST(LedgerFailure, AnUnfinishedBeginningIsRemoved) {
  LedgerBox box;
  box.receiver.reset();
  fs::create_directories(box.config.cache_root + "/receiver/.new-1");
  std::ofstream(box.config.cache_root + "/receiver/.new-1/ledger.db") << "x";
  box.reopen();
  EXPECT_EQ(box.outcome(numbered(kStream, "a", first_range(0, 2))), Outcome::landed);
  EXPECT_EQ(box.numbers(), numbers_between(0, 2));
  EXPECT_FALSE(fs::exists(box.config.cache_root + "/receiver/.new-1"));
}

TEST(LedgerFailure, OtherProcessesFlushItWithoutAReceiverAndAppendElsewhere) {
  LedgerBox box;
  EXPECT_EQ(box.outcome(numbered(kStream, "a", first_range(0, 2))), Outcome::landed);
  const std::string folder = box.receiver->spool().folder();
  {
    const auto live = Service::try_own(box.config);  // leaves what a live receiver holds alone
    EXPECT_NE(live->spool().folder(), folder);
    EXPECT_EQ(box.numbers(), numbers_between(0, 2));
    EXPECT_TRUE(box.cache->partitions("logs").empty());
  }
  box.receiver.reset();
  {
    const auto service = Service::try_own(box.config);
    EXPECT_NE(service->spool().folder(), folder);
    service->flush();
    EXPECT_EQ(cached_rows(service->cache(), {"logs", "edge"}), sorted_rows(rows_between(0, 2)));
  }
  box.reopen();
  EXPECT_EQ(box.receiver->spool().folder(), folder);
  EXPECT_EQ(box.outcome(numbered(kStream, "a", range_of(2, 3))), Outcome::landed);
  EXPECT_EQ(box.numbers(), numbers_between(0, 3));
}

TEST(LedgerFailure, BeyondItsLimitsABatchIsRefusedAsBusyAndNothingWaits) {
  LedgerBox box;
  box.config.spool_bytes_max = 100;
  box.reopen();
  EXPECT_EQ(box.outcome(numbered(kStream, "a", first_range(0, 20))), Outcome::landed);
  const ReceiveResult result = send(*box.receiver, numbered(kStream, "a", range_of(20, 21)));
  EXPECT_EQ(result.outcome, Outcome::busy);
  EXPECT_NE(result.message.find("maxSpoolBytes"), std::string::npos) << result.message;
  box.flush_received();
  EXPECT_EQ(box.outcome(numbered(kStream, "a", range_of(20, 21))), Outcome::landed);

  box.config.spool_bytes_max = 1 << 30;
  box.config.receiver.bodies_bytes_max = 1000;
  box.reopen();
  std::vector<std::promise<ReceiveResult>> answers(200);
  std::promise<void> go;
  box.receiver->take(make_batch("gate", "none", range_of(0, 1), {}),
                     [&](const ReceiveResult&) { go.get_future().wait(); });
  int64_t held_max = 0;
  for (size_t i = 0; i < answers.size(); ++i) {
    const auto n = static_cast<int64_t>(i);
    box.receiver->take(numbered(fmt::format("s{}", i), "a", first_range(100 + n, 101 + n)),
                       [&answers, i](const ReceiveResult& one) { answers[i].set_value(one); });
    held_max = std::max(held_max, box.receiver->waiting());
  }
  go.set_value();
  int64_t landed = 0, busy = 0;
  for (auto& answer : answers) {
    const Outcome outcome = answer.get_future().get().outcome;
    (outcome == Outcome::landed ? landed : busy) += 1;
    EXPECT_TRUE(outcome == Outcome::landed || outcome == Outcome::busy);
  }
  EXPECT_GT(landed, 50);
  EXPECT_GT(busy, 50);
  EXPECT_LE(held_max, 1000 / 10 + 2);
  EXPECT_EQ(static_cast<int64_t>(box.numbers().size()), 21 + landed);
  EXPECT_EQ(box.receiver->waiting(), 0);
}

}  // namespace
}  // namespace firn::hyp
