// Who reads a generation, and which of its snapshots (P7).
#pragma once

#include <cstdint>
#include <string>

#include "io/local.h"

namespace firn::hyp {

// A generation's lock file, open: <partition>/table-<n>.lock. Byte 0 is locked by who reads the generation, the byte
// whose number is a snapshot's id by who reads that snapshot. Bytes rather than a file for each, so that a read makes
// no file and takes one descriptor, and nothing is left that would have to be removed under another's lock. Advisory,
// between processes and between holders in one process alike (open file description locks); all of it ends with the
// object, or with its process.
class GenerationLock {
 public:
  // Made if it is missing; nothing is locked yet. Who may not write the file can be a reader all the same. On a
  // read-only file system that lacks it there is nothing to lock, and nobody there who would remove anything.
  explicit GenerationLock(const std::string& path);

  // As a reader. The first two wait while a remover is at work.
  void share();
  void share_snapshot(int64_t snapshot_id);
  void release_snapshot(int64_t snapshot_id);

  // As a remover. False: a reader is there.
  bool try_own();  // the generation with all its snapshots
  bool try_own_snapshot(int64_t snapshot_id);
  bool is_snapshot_shared(int64_t snapshot_id) const;  // through another object, at this moment

 private:
  Descriptor fd_;  // none: see above
  std::string path_;
};

}  // namespace firn::hyp
