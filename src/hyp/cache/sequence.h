// The ingest sequence: one counter a cache, durable before use (spec/incremental-sink-reads.md §7, protocols P5).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace firn::hyp {

struct Open {
  std::string open_id;
  int64_t from_seq = 0;  // first number it may have issued; it ends before the next entry's
  bool operator==(const Open&) const = default;
};

struct SequenceFile {  // <cacheRoot>/_hyp_ingest_seq.json: {v, nextSeq, updatedAt, cacheId, opens}
  int64_t next_seq = 1;
  std::string cache_id;
  std::vector<Open> opens;  // ascending, each id once: a process that reserves again after another opens anew
};

// nullopt if this cache was never written. Throws corrupt or io if the file is there and unreadable.
std::optional<SequenceFile> read_sequence_file(const std::string& cache_root);

// Reserves numbers. Thread-safe, and safe among processes (a lock file beside the state file).
class SequenceAllocator {
 public:
  // Makes this process's open id; reads nothing yet. A lost, damaged or older file continues above everything found in
  // the cache's tables and in the watermarks under state_dir, keeps the cacheId that cursors repeat and the opens that
  // the tables repeat (firn.opens), and says so in the log (P5.1).
  SequenceAllocator(std::string cache_root, std::string state_dir);
  ~SequenceAllocator();
  // Durable when it returns.
  std::string cache_id();
  std::string open_id() const;  // of the latest reservation

  // `count` (at least 1) consecutive numbers, all above `above_exclusive` and durable as used; the first is returned.
  // Numbers left of an earlier block are used if they are above; else that rest is dropped (P5.2). A new block is
  // max(1,024, count).
  int64_t reserve(int64_t count, int64_t above_exclusive);
  std::vector<Open> opens();  // from the file, as it stands

  // Drops the entries of opens whose numbers all lie below `oldest_seq_kept`, the lowest number that any partition or
  // pending unit still has (P5.1). The last entry stays.
  void prune_opens(int64_t oldest_seq_kept);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The open that issued `seq`, and the numbers it may have issued: (since, until]. until is INT64_MAX for the last one.
struct OpenRange {
  std::string open_id;
  int64_t since_exclusive = 0;
  int64_t until = 0;
};
std::vector<OpenRange> open_ranges(const std::vector<Open>& opens);

// [{"openId": …, "fromSeq": …}], as in the sequence file and in a table's firn.opens property. Throws corrupt naming
// `where`, also if they are not ascending.
Json opens_to_json(const std::vector<Open>& opens);
std::vector<Open> opens_from_json(const Json& array, std::string_view where);

}  // namespace firn::hyp
