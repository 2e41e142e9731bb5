// Many senders at once, while what they send is read and flushed.
#include <atomic>
#include <random>
#include <thread>

#include "hyp/receiver/ledger_box.h"
#include "support/test_seed.h"

namespace firn::hyp {
namespace {

constexpr int kSenders = 8;
constexpr int64_t kBatches = 60;

// A sender that sends some batches twice, some at the same time with a copy of itself, and goes where it is sent.
void send_stream(Receiver& receiver, const std::string& stream, int64_t first, uint64_t seed) {
  std::mt19937_64 random(seed);
  int64_t last = first;
  for (int64_t i = 0; i < kBatches; ++i) {
    const int64_t until = last + 1 + static_cast<int64_t>(random() % 5);
    ReceivedBatch batch = numbered(stream, "a", i == 0 ? first_range(last, until) : range_of(last, until));
    const int copies = random() % 4 == 0 ? 2 : 1;
    std::vector<std::promise<ReceiveResult>> answers(static_cast<size_t>(copies));
    for (auto& answer : answers) {
      receiver.take(batch, [&answer](const ReceiveResult& result) { answer.set_value(result); });
    }
    for (size_t copy = 0; copy < answers.size(); ++copy) {
      const ReceiveResult result = answers[copy].get_future().get();
      EXPECT_EQ(result.outcome, copy == 0 ? Outcome::landed : Outcome::known) << stream << " " << to_text(batch.range);
    }
    last = until;
  }
}

TEST(LedgerThreads, EachRowOfManySendersIsThereOnceWhileItIsReadAndFlushed) {
  SCOPED_TRACE(fmt::format("FIRN_TEST_SEED={}", test_seed()));
  LedgerBox box;
  std::atomic<bool> is_over = false;
  // Whatever is seen is whole batches: of each stream the rows up to some number.
  std::thread reader([&] {
    size_t seen = 0;
    while (!is_over) {
      if (box.receiver->stream("edge", "s0")->opens.empty()) continue;
      std::map<int64_t, int64_t> counts;
      const std::vector<int64_t> numbers = box.numbers();
      for (const int64_t n : numbers) ++counts[n / 1'000'000];
      for (const int64_t n : numbers) EXPECT_LE(n % 1'000'000, counts[n / 1'000'000]);
      EXPECT_GE(numbers.size(), seen);
      seen = numbers.size();
    }
  });
  std::thread flusher([&] {
    while (!is_over) box.flush_received();
  });
  std::vector<std::thread> senders;
  for (int i = 0; i < kSenders; ++i) {
    senders.emplace_back([&, i] {
      send_stream(*box.receiver, fmt::format("s{}", i), int64_t{i} * 1'000'000, test_seed() + static_cast<uint64_t>(i));
    });
  }
  for (std::thread& sender : senders) sender.join();
  is_over = true;
  reader.join();
  flusher.join();
  std::vector<int64_t> expected;
  for (int i = 0; i < kSenders; ++i) {
    const int64_t last = box.receiver->stream("edge", fmt::format("s{}", i))->opens.at("a");
    const std::vector<int64_t> rows = numbers_between(int64_t{i} * 1'000'000, last);
    expected.insert(expected.end(), rows.begin(), rows.end());
  }
  EXPECT_EQ(box.numbers(), expected);
  box.reopen();
  box.flush_received();
  EXPECT_EQ(box.numbers(), expected);
}

TEST(LedgerThreads, WhatWaitsWhenTheReceiverEndsIsAnswered) {
  LedgerBox box;
  std::vector<std::promise<ReceiveResult>> answers(50);
  for (size_t i = 0; i < answers.size(); ++i) {
    box.receiver->take(numbered(fmt::format("s{}", i), "a", first_range(0, 1)),
                       [&answers, i](const ReceiveResult& result) { answers[i].set_value(result); });
  }
  box.receiver.reset();
  for (auto& answer : answers) EXPECT_EQ(answer.get_future().get().outcome, Outcome::landed);
  EXPECT_EQ(box.numbers().size(), 50u);
}

}  // namespace
}  // namespace firn::hyp
