// The receiver's ledger: rows and their place in a stream become durable together (P10.5, P11.2, P11.4).
//
// Frames are appended to a spool that only the receiver writes, <cacheRoot>/receiver/<spool id>/; the file is synced,
// then one SQLite transaction with synchronous=FULL notes what each stream has and up to where the spool is committed;
// only then are batches answered. Flush and queries read to the committed end, and an open cuts off what lies past it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "hyp/cache/cache.h"
#include "hyp/http/wire.h"

namespace firn::hyp {

// One request of a stream, its body decompressed and checked to be NDJSON.
struct ReceivedBatch {
  std::string gateway;  // whose token it came with
  std::string dataset;
  std::string batch_id, digest;  // of the body (body_digest.h)
  std::string stream, open_id;
  SeqRange range;
  std::string text;        // NDJSON, each line ended by '\n'; empty: no row is left
  std::string row_member;  // which each row has beyond its text (Frame::row_member): the gateway's column
};

struct ReceiveResult {
  enum class Outcome : uint8_t {
    landed,            // durable now
    known,             // this batch was taken before: durable
    refused,           // the open's last number is another than `since`; nothing was taken
    forgot,            // destination_forgot (P10.7)
    foreign,           // the stream is another gateway's
    too_many_streams,  // it would be one more than the gateway may have; nothing was taken
    busy,              // no room, or the cache takes no rows: later (503); `message` says why
    failed,            // the disk failed; whether it landed is not known (500)
  };
  Outcome outcome = Outcome::landed;
  std::optional<int64_t> last;  // refused: of that open
  std::string message;          // foreign: the other gateway's name, which is the operator's to know and nobody else's
};

struct StreamState {
  std::map<std::string, int64_t> opens;  // last number of each, of the latest kOpensKept
  std::optional<int64_t> forgot;
};

// Since the start, whatever was decided of them. What lands of a group is durable with one commit.
struct CommitCounts {
  int64_t groups = 0, batches = 0;
  int64_t micros = 0;  // that the groups took, from being taken up until they could be answered
};

// Thread-safe. Memory is bounded by the texts that wait: maxQueuedBytes, beyond which batches are refused as busy.
class Receiver {
 public:
  using Answered = std::function<void(const ReceiveResult&)>;
  // Opens or makes spool and ledger below the cache root, whose owner the caller is, and cuts the spool to its
  // committed length. The cache must outlive it. Throws corrupt naming what to restore, busy if another receiver has
  // them, io.
  static std::unique_ptr<Receiver> open(Cache& cache, int64_t segment_bytes_max = 64 << 20);
  ~Receiver();  // answers what waits
  // Returns at once; `answered` is called once, on the committer's thread, when the outcome is durable; or, busy, right
  // here. It must not block: other batches wait behind it. Batches of one stream are decided in the order of the calls.
  // Throws invalid_argument for a reset with rows, or a text whose last line does not end.
  void take(ReceivedBatch batch, Answered answered);
  // nullopt: the stream is another gateway's.
  std::optional<StreamState> stream(const std::string& gateway, const std::string& stream) const;
  std::optional<std::string> gateway_of(const std::string& stream) const;  // nullopt: nobody sent it yet
  Spool& spool();           // flushed like any other, by flush(cache, spool)
  int64_t waiting() const;  // batches not answered yet
  CommitCounts commits() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace firn::hyp
