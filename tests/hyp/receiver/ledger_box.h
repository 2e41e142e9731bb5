// A receiver of its own for one test, and senders to it.
#pragma once

#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <string>
#include <vector>

#include "base/hash.h"
#include "hyp/cache/cache_box.h"
#include "hyp/query/query_box.h"
#include "hyp/receiver/receiver.h"

namespace firn::hyp {

using Outcome = ReceiveResult::Outcome;

// What a sender makes of some rows: the id follows from the place and the bytes, as on the wire.
inline ReceivedBatch make_batch(const std::string& stream, const std::string& open_id, SeqRange range,
                                const Lines& lines, const std::string& gateway = "edge",
                                const std::string& dataset = "logs") {
  ReceivedBatch batch{gateway, dataset, "", "", stream, open_id, range, ""};
  for (const std::string& line : lines) batch.text += line + "\n";
  batch.batch_id = batch_id_of(dataset, stream, open_id, range, batch.text);
  batch.digest = to_hex(sha256(batch.text));
  return batch;
}

inline SeqRange range_of(int64_t since, int64_t until) { return {.since = since, .until = until}; }
inline SeqRange first_range(int64_t since, int64_t until) { return {.since = since, .until = until, .start = true}; }
inline SeqRange reset_range(int64_t last, int64_t to) { return {.since = to, .until = to, .reset = last}; }

// {"n": <n>} for each n in (since, until].
inline Lines rows_between(int64_t since, int64_t until) {
  Lines lines;
  for (int64_t n = since + 1; n <= until; ++n) lines.push_back(fmt::format(R"({{"n":{}}})", n));
  return lines;
}
// Rows that are their numbers.
inline ReceivedBatch numbered(const std::string& stream, const std::string& open_id, SeqRange range) {
  return make_batch(stream, open_id, range, rows_between(range.since, range.until));
}

inline ReceiveResult send(Receiver& receiver, ReceivedBatch batch) {
  std::promise<ReceiveResult> answer;
  receiver.take(std::move(batch), [&](const ReceiveResult& result) { answer.set_value(result); });
  return answer.get_future().get();
}

// All in one group: they are handed over while the receiver answers another batch, of a stream of its own.
inline std::vector<ReceiveResult> send_together(Receiver& receiver, const std::vector<ReceivedBatch>& batches) {
  std::vector<std::promise<ReceiveResult>> answers(batches.size());
  receiver.take(make_batch("gate", "none", range_of(0, 1), {}), [&](const ReceiveResult&) {
    for (size_t i = 0; i < batches.size(); ++i) {
      receiver.take(batches[i], [&answers, i](const ReceiveResult& result) { answers[i].set_value(result); });
    }
  });
  std::vector<ReceiveResult> results;
  for (auto& answer : answers) results.push_back(answer.get_future().get());
  return results;
}

struct LedgerBox : CacheBox {
  std::unique_ptr<Cache> cache = std::make_unique<Cache>(config);
  std::unique_ptr<Receiver> receiver = Receiver::open(*cache);

  void reopen() {
    receiver.reset();
    cache = std::make_unique<Cache>(config);
    receiver = Receiver::open(*cache);
  }
  Outcome outcome(const ReceivedBatch& batch) { return send(*receiver, batch).outcome; }
  // Of the dataset's rows, spooled or not: n, ascending.
  std::vector<int64_t> numbers(const std::string& dataset = "logs") const { return numbers_in(*cache, dataset); }
  static std::vector<int64_t> numbers_in(const Cache& cache, const std::string& dataset = "logs") {
    std::vector<int64_t> numbers;
    for (const std::string& row : json_rows(cache, "select n from " + dataset + " order by n")) {
      numbers.push_back(Json::parse(row).at("n").get<int64_t>());
    }
    return numbers;
  }
  FlushReport flush_received() { return flush(*cache, receiver->spool()); }
  std::string ledger_file() const { return receiver->spool().folder() + "/ledger.db"; }
};

// since + 1 … until.
inline std::vector<int64_t> numbers_between(int64_t since, int64_t until) {
  std::vector<int64_t> numbers;
  for (int64_t n = since + 1; n <= until; ++n) numbers.push_back(n);
  return numbers;
}

}  // namespace firn::hyp
