// What of a partition readers hold (generation_lock.h), and the removal of what none holds (P7).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "hyp/cache/cache.h"

namespace firn::hyp {

struct SweepReport {
  int64_t generations_removed = 0, generations_waiting = 0;  // waiting: a reader holds it
  int64_t snapshots_expired = 0, snapshots_waiting = 0;
  int64_t files_removed = 0, bytes_removed = 0;  // a file that has another name elsewhere frees no bytes
  int64_t files_failed = 0;  // that could not be removed; the log says why, and the next sweep tries
  SweepReport& operator+=(const SweepReport& other);
};

enum class Sweep : uint8_t {
  when_due,  // the first time that this Cache object comes to a generation; then once there are many snapshots that no
             // reader holds, a reader of what a sweep had to leave is gone, or there is an older generation
  all,
};

// Removes generations that no cursor names, snapshots but the head and those that a ref names, and every file in the
// live generation that no snapshot left reaches, whoever wrote it and however young it is: all as far as no reader
// holds it, and the locks first, then the commit, then the files. Takes the partition lock where there is something to
// do, and the compactor's without waiting (another at work: its new generation is left alone). Throws what reading and
// committing throw, corrupt for a lost cursor; what is left then, the next sweep finds.
SweepReport sweep_partition(Cache& cache, const PartitionId& partition, Sweep sweep);

// As sweep_partition with Sweep::all, for who holds the partition lock and the compactor's.
SweepReport sweep_locked_partition(Cache& cache, const PartitionId& partition);

// The compactor's lock, which goes before the partition's; nullopt: another process compacts the partition, or purges
// it. The second waits.
std::optional<FileLock> try_lock_compactor(const Cache& cache, const PartitionId& partition);
FileLock lock_compactor(const Cache& cache, const PartitionId& partition);

}  // namespace firn::hyp
