// A receiver that dies anywhere, and senders that come again with what they do not know to be there (P11.4).
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <set>

#include "hyp/daemon/service.h"
#include "hyp/receiver/ledger_box.h"
#include "support/crash.h"
#include "support/test_seed.h"

namespace firn::hyp {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSegmentBytes = 300;  // a group's frames lie in several segments

// What senders know to be there, as a process outside the receiver would.
class Acknowledged {
 public:
  explicit Acknowledged(std::string path) : path_(std::move(path)) {}
  void add(const ReceivedBatch& batch) const {
    const Descriptor file(::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666));
    const std::string line = fmt::format("{}\n", batch.text.empty() ? "" : batch.text.substr(0, batch.text.size() - 1));
    if (::write(file.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) ::abort();
  }
  std::set<int64_t> numbers() const {
    std::set<int64_t> numbers;
    std::ifstream file(path_);
    for (std::string row; std::getline(file, row);) {
      if (!row.empty()) numbers.insert(Json::parse(row).at("n").get<int64_t>());
    }
    return numbers;
  }

 private:
  std::string path_;
};

void note(const Acknowledged& acknowledged, const ReceivedBatch& batch, const ReceiveResult& result) {
  const bool is_there = result.outcome == Outcome::landed || result.outcome == Outcome::known ||
                        (result.outcome == Outcome::refused && result.last && *result.last >= batch.range.until);
  if (!is_there) fail(ErrorKind::internal, "{}: {}", to_text(batch.range), result.message);
  acknowledged.add(batch);
}

void send_all(Receiver& receiver, const Acknowledged& acknowledged, const std::vector<ReceivedBatch>& batches) {
  const auto results = send_together(receiver, batches);
  for (size_t i = 0; i < batches.size(); ++i) note(acknowledged, batches[i], results[i]);
}

// Alone, in groups, without rows, by two gateways and into two datasets, with flushes between them.
void receive_all(const CacheBox& box, const Acknowledged& acknowledged) {
  Cache cache(box.config);
  const auto receiver = Receiver::open(cache, kSegmentBytes);
  const auto other = [](SeqRange range) {
    return make_batch("t", "o", range, rows_between(range.since, range.until), "far", "hosts");
  };
  send_all(*receiver, acknowledged, {numbered("s", "a", first_range(0, 2))});
  send_all(*receiver, acknowledged,
           {numbered("s", "a", range_of(2, 3)), other(first_range(100, 102)), make_batch("s", "a", range_of(3, 5), {}),
            numbered("s", "a", range_of(5, 8)), numbered("s", "b", first_range(20, 24))});
  flush(cache, receiver->spool());
  send_all(*receiver, acknowledged, {numbered("s", "b", range_of(24, 25))});
  send_all(*receiver, acknowledged, {other(range_of(102, 103)), other(range_of(103, 104))});
  flush(cache, receiver->spool());
  send_all(*receiver, acknowledged, {numbered("s", "b", range_of(25, 26))});
}

const std::vector<int64_t> kLogs = {1, 2, 3, 6, 7, 8, 21, 22, 23, 24, 25, 26}, kHosts = {101, 102, 103, 104};

std::vector<int64_t> all_numbers(const Cache& cache) {
  std::vector<int64_t> numbers;
  const Lines rows = [&] {
    Lines lines;
    for (const char* dataset : {"logs", "hosts"}) {
      try {
        for (std::string& row : json_rows(cache, std::string("select n from ") + dataset))
          lines.push_back(std::move(row));
      } catch (const Error& e) {
        if (e.kind() != ErrorKind::not_found && e.kind() != ErrorKind::invalid_argument) throw;  // no row of it yet
      }
    }
    return lines;
  }();
  for (const std::string& row : rows) numbers.push_back(Json::parse(row).at("n").get<int64_t>());
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

// Before anyone opens the receiver again: each acknowledged row is there, and none twice.
void expect_acknowledged_once(const Cache& cache, const Acknowledged& acknowledged) {
  const std::vector<int64_t> there = all_numbers(cache);
  const std::set<int64_t> distinct(there.begin(), there.end());
  if (distinct.size() != there.size()) fail(ErrorKind::internal, "rows {} are there twice", fmt::join(there, " "));
  for (const int64_t n : acknowledged.numbers()) {
    if (!distinct.contains(n)) fail(ErrorKind::internal, "row {} was acknowledged and is not there", n);
  }
}

void expect_everything_once(const CacheBox& box) {
  const Cache cache(box.config);
  std::vector<int64_t> expected = kLogs;
  expected.insert(expected.end(), kHosts.begin(), kHosts.end());
  std::sort(expected.begin(), expected.end());
  if (const auto there = all_numbers(cache); there != expected) {
    fail(ErrorKind::internal, "there are {}", fmt::join(there, " "));
  }
}

// All of the receiver's own points, of those of the spool and the flush a sample; in the long test all.
bool is_due(size_t point, const std::string& name) {
  constexpr size_t kStride = 8;
  return std::getenv("FIRN_LONG") != nullptr || name.starts_with("receiver.") ||
         point % kStride == test_seed() % kStride;
}

struct LedgerCrash : testing::TestWithParam<Crash> {
  LedgerCrash() {
    if (fs::is_directory("/dev/shm")) ::setenv("TMPDIR", "/dev/shm", /*replace=*/0);
  }
};

TEST_P(LedgerCrash, EachRowIsThereOnceWhereverTheReceiverDies) {
  SCOPED_TRACE(fmt::format("FIRN_TEST_SEED={}", test_seed()));
  const CacheBox box;
  const std::string root = box.config.cache_root, acks = box.folder / "acknowledged";
  const auto restart = [&] {
    fs::remove_all(root);
    fs::remove(acks);
  };
  const auto points = fault_points_of([&] { receive_all(box, Acknowledged(acks)); });
  ASSERT_EQ(run_in_child([&] { expect_everything_once(box); }), 0);
  ASSERT_GE(points.size(), 100u);
  size_t killed = 0, died = 0;
  for (size_t point = 0; point < points.size(); ++point) {
    if (!is_due(point, points[point])) continue;
    ++killed;
    SCOPED_TRACE(fmt::format("{} at {} ({})", to_text(GetParam()), point, points[point]));
    restart();
    try {
      run_killed_at(point, GetParam(), [&] { receive_all(box, Acknowledged(acks)); });
      ++died;
    } catch (const Error&) {  // two threads pass points: this run was a little shorter
    }
    ASSERT_EQ(run_in_child([&] {
                const Cache cache(box.config);
                expect_acknowledged_once(cache, Acknowledged(acks));
                // Half of the time a process without a receiver comes first, and flushes.
                if (point % 2 == 0) Service::try_own(box.config)->flush();
                expect_acknowledged_once(cache, Acknowledged(acks));
                receive_all(box, Acknowledged(acks));
                expect_everything_once(box);
                Cache flushed(box.config);
                const auto receiver = Receiver::open(flushed);
                flush(flushed, receiver->spool());
              }),
              0);
    ASSERT_EQ(run_in_child([&] { expect_everything_once(box); }), 0);
  }
  EXPECT_GE(killed, 20u);
  EXPECT_GE(died, killed - 3);
}

INSTANTIATE_TEST_SUITE_P(Crashes, LedgerCrash, testing::Values(Crash::process, Crash::power),
                         [](const auto& test) { return test.param == Crash::power ? "PowerCut" : "Kill"; });

}  // namespace
}  // namespace firn::hyp
