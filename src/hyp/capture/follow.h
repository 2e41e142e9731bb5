// Followed files: what is appended to them goes into the spool, through rotation too (P4.2).
//
//   <cacheRoot>/collect/<name>.json   which files were followed last, and which lines were missed: {v, dataset, glob,
//                                     files: [{path, device, inode, left, bornNs, readAs, new}],
//                                     missed: [{at, message}],
//                                     lookedMs: when the last look began, by a minute or so}
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "hyp/capture/ingest.h"

namespace firn::hyp {

struct FollowReport {
  CaptureReport total;
  std::vector<std::string> problems;  // files that could not be read; the next poll tries again
  std::vector<std::string> missed;    // lines that can no longer be had, found out now; kept for load_missed()
};

// One registration's files. Those that change are kept open, so that a file that leaves the pattern (renamed, removed,
// replaced under its name) is read to its end first, and as long as it grows; one that was not open, since this process
// was not there, is looked for under another name beside its own. So are those that came and went between two polls, by
// the names that rotation gives ("app.log.1", "app.log-20240131") to files of the pattern, known or not, and the copy
// of one that was cut in place. Files that are in neither place are reported as missed, never left out in silence. What
// rotation renamed before the first poll is not wanted. One thread at a time.
class Follower {
 public:
  Follower(const std::string& cache_root, const CollectConfig& collect);
  ~Follower();
  Follower(Follower&&) noexcept;
  const CollectConfig& config() const;
  // Takes the whole lines that were appended since the last poll, of this process or another, into the registration's
  // dataset under its name, whatever the options say. A line without newline waits; that of a file which left and does
  // not grow any more is taken. Compressed files are taken as far as they go. One file's failure stops no other. Throws
  // io, corrupt where the state file cannot be read or written.
  FollowReport poll(Spool& spool, const CaptureOptions& options);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct MissedLines {
  std::string at;  // ISO 8601
  std::string message;
};
std::vector<MissedLines> load_missed(const std::string& cache_root,
                                     const std::string& name);  // the latest 20, in order
// What is known of the registration's files, so that one of the same name begins anew.
void forget_followed(const std::string& cache_root, const std::string& name);

}  // namespace firn::hyp
