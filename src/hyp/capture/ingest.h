// Capture: lines of files, pipes and HTTP bodies into the spool, resumed where an earlier attempt stopped. Followed
// files are in follow.h.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "hyp/capture/spool.h"
#include "hyp/config.h"

namespace firn::hyp {

struct CaptureReport {
  int64_t lines = 0;          // taken now, blank ones left out (rejects are found at the flush)
  int64_t bytes = 0;          // of the (decompressed) stream
  int64_t lines_skipped = 0;  // taken by an earlier attempt (P4.2), blank ones counted
  int64_t torn_bytes = 0;     // of a file's last line that was left: it has no newline and is no whole JSON value (yet)
};

struct CaptureOptions {
  std::string dataset;
  std::string source = "default";
  std::string id;                      // pipes: --id; empty: not resumable
  bool atomic = false;                 // pipes: all or nothing (AtomicAppend)
  int64_t row_bytes_max = 8 << 20;     // the dataset's: of a longer line only so much is kept as makes it a reject
  int64_t body_bytes_max = 256 << 20;  // bodies: decompressed
  // Called now and then. May throw busy: what was reported is synced (with `atomic` nothing is taken), and the call
  // throws it.
  std::function<void(const CaptureReport&)> progress;
  const std::atomic<bool>* cancelled = nullptr;  // once set, what was taken is synced and reported, and the call
                                                 // returns; with `atomic` nothing is taken and it throws cancelled
};

// A file, plain, gzip or zstd by magic bytes; many members or frames are one stream. Already taken bytes are skipped. A
// last line without newline is a line if it is a whole JSON value; else it is left for the next call, since the file
// may still be written. A file is known again by dataset, device, inode, birth time and a fingerprint of its head, of
// as many bytes as it had at first (4 KiB at most), so also after it has grown or was renamed; one that was cut or
// replaced is a new source. What is no regular file is read as a pipe. Throws not_found, io, corrupt (damaged
// compression: the good lines before it are kept and the message says up to which line).
CaptureReport ingest_file(Spool& spool, const std::string& path, const CaptureOptions& options);
// Throws what ingest_file would throw at once: not_found, io, invalid_argument for a folder.
void check_file(const std::string& path);
// A descriptor to its end; compression as above. Lines are durable within about a second of their arrival. With an id,
// a stream that was sent before is continued after its last position (throws invalid_argument if it ends before that),
// and a last line without newline that is no whole JSON value is taken, but taken again when the stream is sent again:
// its sender may have died.
CaptureReport ingest_pipe(Spool& spool, int fd, const CaptureOptions& options);
// One HTTP body, compression as above, durable as one append; with a batch id under which the same (decompressed) body
// was taken before for this source, nothing is appended and the report says skipped. Throws already_exists if the id
// was used for another body; invalid_argument if it is longer than body_bytes_max or is a JSON array; corrupt for
// damaged compression; then nothing was taken.
CaptureReport ingest_body(Spool& spool, std::string_view body, const std::string& batch_id,
                          const CaptureOptions& options);

}  // namespace firn::hyp
