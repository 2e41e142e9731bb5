// How a file is known again (P4.2).
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>

#include "hyp/capture/spool.h"

namespace firn::hyp {

inline constexpr size_t kHeadBytes = 4096;  // a stream's first bytes, of which at most a fingerprint is made

struct FileSource {
  std::shared_ptr<void> claim;  // of the file, whatever its fingerprint
  std::string id;               // for the frames to come
  SourcePosition position;      // of the last attempt's last frame; zero for a new source
  bool is_other = false;  // what was taken from this inode before is no longer there: cut, rewritten, another file
  int64_t others_updated_ms =
      0;  // the latest that is stored under another id of this file; positions to come are later
  bool is_compressed = false;
  int64_t size_bytes = 0;
  int64_t modified_ns = 0;
};

// `fd` is a regular file. Its id is "file:<dataset>:<device>:<inode>:<n>-<SHA-256 of its first n bytes>@<birth time in
// ns>", n at most 4,096, without "@…" where the file system keeps no birth times: the last position stored for dataset,
// device and inode is its own if those n bytes and the birth time are still the same and the file has not become
// shorter than the position (compressed ones: which the caller finds).
FileSource identify_file(Spool& spool, const std::string& dataset, int fd, const std::string& path);

// What was taken last from a file, by its inode, whatever is there now.
struct TakenFile {
  std::string id;
  SourcePosition position;
  size_t head_bytes = 0;    // n
  std::string head_sha256;  // of these
};
std::optional<TakenFile> last_taken(const Spool& spool, const std::string& dataset, dev_t device, ino_t inode);
// While the result lives, no other capture of this process reads the inode.
std::shared_ptr<void> claim_file(Spool& spool, const std::string& dataset, dev_t device, ino_t inode);

// Whether `fd`, as it is or decompressed, begins as `taken` did, and is no shorter than what was taken of it
// (compressed ones: which the reader finds). Never where nothing was taken.
bool is_copy(int fd, const std::string& path, const TakenFile& taken);

// Whether `fd` is a copy of any file of the dataset of which something was taken.
bool is_copy_of_taken(const Spool& spool, const std::string& dataset, int fd, const std::string& path);

bool is_compressed_file(int fd, const std::string& path);
// When the file came to be, in ns since 1970; 0 where the file system does not keep it.
int64_t born_ns(int fd);
int64_t born_ns(const std::string& path);

}  // namespace firn::hyp
