// Moves a sink to another place of its partitions' sequences, because a person says so (P10.6).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hyp/cache/cache.h"
#include "hyp/config.h"
#include "hyp/sink/driver.h"

namespace firn::hyp {

struct ResetTarget {
  enum class To : uint8_t {
    number,       // rows at or below `seq` count as sent, those above it do not
    start,        // all that the cache has is sent again
    now,          // nothing of what the cache has now is sent
    destination,  // what the destination has is where the sink goes on; nothing there: the start
  };
  To to = To::destination;
  int64_t seq = 0;
};
// "start", "now", "destination" or a number. Throws invalid_argument.
ResetTarget parse_reset_target(const std::string& text);

// What a reset comes to in one partition.
struct PartitionReset {
  PartitionId partition;
  std::optional<int64_t> watermark_before, watermark_after;  // nullopt: the start
  int64_t rows_skipped = 0;       // in the cache, not at the destination, and never sent afterwards
  int64_t rows_repeated = 0;      // in the cache and at the destination, and sent again
  int64_t rows_missed = 0;        // in the cache, confirmed before and not at the destination: sent again (destination)
  int64_t rows_to_send = 0;       // all that the cache has above watermark_after
  bool is_start = false;          // the cache has no row at or below watermark_after
  bool drops_pending = false;     // an announced unit is forgotten; whether it arrived was asked
  std::string note;               // what else a person should know; empty: nothing
  std::string error_kind, error;  // empty: fine
  bool operator==(const PartitionReset&) const = default;
};
struct SinkReset {
  std::string sink;
  std::vector<PartitionReset> partitions;
  bool is_done = false;
  bool failed() const;
};

struct ResetOptions {
  PartitionChoice partition;
  bool dry_run = false;  // only say what it comes to
  // Asked with what it comes to, before anything is done; again if that changes meanwhile. Without it: yes.
  std::function<bool(const SinkReset&)> confirm;
  const std::atomic<bool>* cancelled = nullptr;          // before anything is done: cancelled is thrown
  std::function<void(const std::string& text)> waiting;  // of each wait: for what, and how long
};

// Across the opens of a partition: a row is at the destination iff its number is at or below the last of its open. So
// for a place P each open is told apart, at the destination and by compare-and-set: one whose rows above its last are
// at or below P is raised to the highest of them (skipped), the older first; one that has rows above P is lowered to P,
// or where it can end at or below (repeated), the newest first, once the watermark was lowered. What is at the
// destination stays. Opens of which the cache has no row in between are left as they are: whoever looks for a lost
// watermark asks for the first row that is not there (newest_sent_open), not for the last that is. Then the watermark
// moves, and a pending intent goes. Numbers that no row has yet are never skipped: an open is raised to a row that it
// has. A destination that no longer lists an open (P10.7) takes no rows of it: a P that would send such is refused.
//   Under the sink's lock. Killed anywhere and run again it completes; what the sink does in between is right for what
// the destination says by then, or it stops. One failing partition does not stop the others. Throws what run_sink does.
SinkReset reset_sink(Cache& cache, const SinkConfig& sink, const ResetTarget& target, const ResetOptions& options = {});

// The command for one partition, up to "--to".
std::string reset_command(const std::string& sink, const PartitionId& partition);

}  // namespace firn::hyp
