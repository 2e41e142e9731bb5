// What the receiver has of each stream (P10.5, P10.7, P11.2), in the SQLite database beside its segments.
//
//   streams(id, stream, gateway, forgot, batches)          the gateway that first used it; the highest last number of
//                                                          opens that are no longer kept; batch ids noted so far
//   opens(stream_id, open_id, last)                        the kOpensKept with the highest last numbers
//   batches(stream_id, slot, key, noted_ms)                a ring of the latest kBatchesKept a stream; key: SHA-256 of
//                                                          batch id and digest
//   resets(stream_id, number, key)                         the latest kResetsKept a stream
//   committed                                              spool_committed.h
// pragma user_version is the version of all this.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "hyp/capture/spool.h"
#include "hyp/receiver/receiver.h"

namespace firn::hyp {

inline constexpr int64_t kBatchesKept = 256;  // of a stream; older ones are known by their range
inline constexpr int64_t kResetsKept = 256;   // of a stream
inline constexpr int64_t kBatchKeptMs = 7LL * 86'400'000;

// One thread. What is decided between begin() and commit() sees what was decided before it, and is nothing until
// commit() returns. All throw corrupt, busy or io naming the file.
class Ledger {
 public:
  // Makes an empty one at `path`, durable but for its name in the folder.
  static void create(const std::string& path);
  // A gateway gets no more streams than `gateway_streams_max`. Throws unsupported if a newer firn made it.
  explicit Ledger(const std::string& path, int64_t gateway_streams_max = std::numeric_limits<int64_t>::max());
  ~Ledger();

  // For who holds the spool's lock, before anything is decided. Syncs the log: a receiver that died may have left a
  // commit there that is seen and not durable, and what is known by it is acknowledged without another one (P10.8). And
  // makes the log as long as it gets before its pages are written into the database, with zeros, which SQLite takes for
  // the end: a sync that also has a file's new length to write takes twice as long.
  void make_log_ready();
  SpoolPosition committed() const;
  void begin();
  // P10.5 for one batch: landed if its rows are to be appended and count with the commit; never busy or failed.
  ReceiveResult decide(const ReceivedBatch& batch);
  // With the end of what was appended. Where it throws, nothing is known of the outcome: settle() then tells.
  void commit(SpoolPosition end);
  void roll_back() noexcept;
  // Opens the file anew after anything failed. Whether the commit stands that was begun last; what does, is durable,
  // and nothing of one that does not comes back later. To be called again if it throws; then the answer says nothing.
  bool settle();

  std::optional<StreamState> stream(const std::string& gateway, const std::string& stream) const;
  std::optional<std::string> gateway_of(const std::string& stream) const;  // nullopt: nobody sent it yet
  // Forgets the batch ids that are too old of some streams, others at each call.
  void forget_old_batches();

 private:
  struct State;
  std::string path_;
  int64_t gateway_streams_max_;
  std::unique_ptr<State> state_;
  int64_t commits_ = 0;  // before the commit that was begun last
};

}  // namespace firn::hyp
