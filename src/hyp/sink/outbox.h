// Partitions that a sink failed in: what stopped them, and when they are tried again between the sink's scheduled runs.
//
//   <stateDir>/<sink>/outbox/<dataset>/<partition-key>.json    {v, dataset, source, attempts, firstFailureAt,
//                                                              lastFailureAt, errorKind, error, nextTryAt}
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "hyp/cache/cache.h"

namespace firn::hyp {

struct OutboxEntry {
  PartitionId partition;
  int64_t attempts = 0;  // that failed, one after another
  int64_t first_failure_ms = 0, last_failure_ms = 0;
  std::string error_kind, error;       // of the last one
  std::optional<int64_t> next_try_ms;  // nullopt: an operator has to act first; a scheduled run tries all the same
};

// 30, 60, 120 s, then 300 s: after so many failures.
int64_t retry_delay_ms(int64_t attempts);
// Whether another try cannot help before somebody acts (or, by `hyp sink reset`, decides).
bool waits_for_operator(ErrorKind kind);

// Beside the watermarks, not among them: a source's name may end in anything.
std::string outbox_path(const std::string& state_dir, const std::string& sink, const PartitionId& partition);
// nullopt: the last run of the partition was fine. Throws corrupt or io.
std::optional<OutboxEntry> load_outbox_entry(const std::string& path);
// All of a sink. An entry that cannot be read is left out: the next scheduled run writes it anew.
std::vector<OutboxEntry> list_outbox(const std::string& state_dir, const std::string& sink);
// Whether the entry is to be tried at `now_ms`. A time further off than any delay is one of a clock that was set back.
bool is_due(const OutboxEntry& entry, int64_t now_ms);

// One more failure, at now_ms(); durable when it returns. `kind` is why; `message` for a person.
OutboxEntry note_failure(const std::string& state_dir, const std::string& sink, const PartitionId& partition,
                         ErrorKind kind, const std::string& message);
void note_success(const std::string& state_dir, const std::string& sink, const PartitionId& partition);

}  // namespace firn::hyp
