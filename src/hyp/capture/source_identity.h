// How a file is known again (P4.2).
#pragma once

#include <memory>
#include <string>

#include "hyp/capture/spool.h"

namespace firn::hyp {

struct FileSource {
  std::shared_ptr<void> claim;  // of the file, whatever its fingerprint
  std::string id;               // for the frames to come
  SourcePosition position;      // of the last attempt's last frame; zero for a new source
  int64_t others_updated_ms =
      0;  // the latest that is stored under another id of this file; positions to come are later
  bool is_compressed = false;
  int64_t size_bytes = 0;
  int64_t modified_ms = 0;
};

// `fd` is a regular file. Its id is "file:<dataset>:<device>:<inode>:<n>-<SHA-256 of its first n bytes>", n at most
// 4,096: the last position stored for dataset, device and inode is its own if those n bytes are still the same and the
// file has not become shorter than the position (compressed ones: which the caller finds).
FileSource identify_file(Spool& spool, const std::string& dataset, int fd, const std::string& path);

}  // namespace firn::hyp
