// The rejects file of a dataset: lines that no partition takes, each once (protocols P6.3).
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "hyp/capture/spool.h"

namespace firn::hyp {

// A line in a spool.
struct LinePlace {
  SpoolPosition frame;      // where its frame begins
  int64_t line_offset = 0;  // in the frame's text
  auto operator<=>(const LinePlace&) const = default;
};

struct RejectedRow {
  LinePlace place;
  std::string source;  // the capture's source, or the partition's
  int64_t line = 0;    // in its source, from 1
  std::string column, reason;
  std::string text;       // the line without its newline
  int64_t cut_bytes = 0;  // of the whole line, where the text is only its beginning (CutLine); else 0
};

// <cacheRoot>/rejects/<dataset>.ndjson. A decision stands once it is durable here, before the commit whose marker
// passes its frame: a flush that comes again after a crash keeps to it, even if the schema has changed meanwhile and
// would take the line. Shared by processes (a lock file beside it); torn tails are cut.
class RejectsFile {
 public:
  RejectsFile(const std::string& cache_root, const std::string& dataset);
  int64_t size_bytes() const;  // 0: absent
  // The lines decided for `spool_id` in frames at or past `from`, as found past byte `begin_bytes`; durable when it
  // returns.
  std::set<LinePlace> decided(const std::string& spool_id, SpoolPosition from, int64_t begin_bytes) const;
  // Durable when it returns.
  void append(const std::string& spool_id, const std::vector<RejectedRow>& rows) const;
  // The length, from `begin_bytes` on, before which no line for `spool_id` in a frame at or past `from` lies: all of
  // the file, unless an earlier flush decided lines that this one has not come to. What is appended from now on lies
  // past it.
  int64_t length_before(const std::string& spool_id, SpoolPosition from, int64_t begin_bytes) const;

 private:
  void for_each_decided(const std::string& spool_id, int64_t begin_bytes, int64_t end_bytes,
                        const std::function<void(int64_t, const LinePlace&)>& visit) const;
  int64_t settle() const;  // cuts a torn tail, syncs, and returns the length
  std::string path_, lock_path_;
  std::string dataset_;
};

}  // namespace firn::hyp
