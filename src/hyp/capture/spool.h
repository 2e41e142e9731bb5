// The spool: where captured rows are durable before they are acknowledged (protocols P4, P6).
//
//   <cacheRoot>/spool/<spool id>/lock              held by the process that appends
//                                /<n>.seg          segments, n ascending, zero-padded to 12 digits, never reused
//                                /sources.json     the last position of each source in deleted segments
//                                /progress.json    the place up to which every partition has committed
//
// That of the receiver is <cacheRoot>/receiver/<spool id>/, with the ledger that says how far its frames count (P11.4).
// A segment is a chain of frames {u32 length, u32 crc32c, payload}, little-endian (spool_format.h). Its first frame
// says where the segment before it ends, so what a failed sync or a crash left beyond that place is never read, and
// damage before it is told apart from a torn tail.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/local.h"

namespace firn::hyp {

// A place in a spool: a frame's first byte in a segment. Ordered by segment, then offset.
struct SpoolPosition {
  int64_t segment = 0;
  int64_t offset = 0;
  auto operator<=>(const SpoolPosition&) const = default;
};

// How far a source had been read when a frame was made. `done` marks a source that ended (an ingested file, a batch).
struct SourcePosition {
  int64_t bytes = 0;  // of the source's (decompressed) stream
  int64_t lines = 0;
  bool done = false;
  int64_t updated_ms = 0;
};

// Some consecutive lines of one source for one dataset, as they are written: header and NDJSON text, CRC-32C over both.
struct Frame {
  std::string dataset;
  std::string source;       // the source partition's name, unless the dataset has a sourceColumn
  std::string source_id;    // identity for resuming (P4.2), made by ingest.h; "batch:…" is kept for 7 days after its
                            // segment is gone, any other for 90; empty: none
  SourcePosition position;  // after this frame
  int64_t first_line = 1;   // number of the first line in its source, blank lines counted
  std::string batch_id;     // UUIDv7; its time is the ingest time
  std::string text;         // NDJSON, each line ended by '\n'; may be empty (a position alone)
  // What stands for more of the text than is in it. Never of a frame that was read: there the text has it all.
  std::string row_member;  // `"name":value`, which each row has as its first member; the lines are then JSON objects
  bool is_packed = false;  // `text` is as packed_text() made it
};

// The text compressed, quickly; nullopt where that makes it no smaller. Any thread.
std::optional<std::string> packed_text(std::string_view text);

struct FrameAt {
  SpoolPosition begin, end;  // end: the next frame's place in the same segment
  Frame frame;
};

class Spool;

// Frames of the segments as they were when opened, in order. Descriptors are held, so segments may be deleted
// meanwhile. A torn or corrupt tail of the last segment ends the reading; corruption before the last segment's tail
// throws corrupt with segment and offset.
class SpoolReader {
 public:
  SpoolReader(const std::string& spool_folder, SpoolPosition from, std::optional<SpoolPosition> until = std::nullopt);
  // For the flush of `spool`: what that still has in memory is taken from there. It must outlive the reader.
  SpoolReader(Spool& spool, SpoolPosition from, SpoolPosition until);
  ~SpoolReader();
  std::optional<FrameAt> next();
  const std::string& spool_id() const { return spool_id_; }
  // The same segments, with the same descriptors, from the start again.
  std::unique_ptr<SpoolReader> again() const;

 private:
  struct State;
  SpoolReader() = default;
  std::unique_ptr<State> state_;
  std::string spool_id_;
};

// Spool folders of a cache, that of the receiver last. A query opens a reader on each (P13.1).
std::vector<std::string> list_spools(const std::string& cache_root);

// The appender. Thread-safe: several captures append at once and share syncs (group commit).
class Spool {
 public:
  // Takes the first spool of the cache that no live process holds, else makes a new one. Cuts torn tails. Throws
  // corrupt naming segment and offset where bytes that were synced are damaged.
  static std::unique_ptr<Spool> open(const std::string& cache_root, int64_t segment_bytes_max = 64 << 20);
  // The cache's other spools that no live process holds, the receiver's among them: left by processes that ended, to be
  // flushed by this one.
  static std::vector<std::unique_ptr<Spool>> open_abandoned(const std::string& cache_root);
  // The receiver's (spool_committed.h), which has one appender; what it does not count is cut off. Throws busy if a
  // live process holds it, corrupt.
  static std::unique_ptr<Spool> open_received(const std::string& folder, int64_t segment_bytes_max = 64 << 20);
  ~Spool();

  const std::string& id() const;
  const std::string& folder() const;
  // Appends the frames one after another and returns the end of the last when all are synced (P4.1); the caller may
  // then acknowledge. A failed write or sync abandons the segment, and what was not synced is written anew into another
  // (P15). If that fails too, throws io: none is acknowledged, and source positions are as before.
  SpoolPosition append(const std::vector<Frame>& frames);
  // As append, without waiting for the sync; what follows in append() or sync() makes it durable. Frames are held in
  // memory until then, at most about 32 MiB of them, and 128 MiB until they are flushed. `epoch` is epoch() as the
  // caller found it before its first frame: both throw io once unsynced frames of that epoch were lost; read again from
  // source_position().
  void append_unsynced(Frame frame, int64_t epoch);
  void sync(int64_t epoch);
  int64_t epoch() const;
  // After the last frame appended here, or in another spool of the cache as of open().
  std::optional<SourcePosition> source_position(const std::string& source_id) const;
  std::vector<std::pair<std::string, SourcePosition>> source_positions(const std::string& id_prefix) const;
  // While the result lives, no other capture of this process reads the same source: the call waits for the one that
  // does, or throws cancelled. So of two requests with one batch id, the second sees the first's position.
  std::shared_ptr<void> claim_source(const std::string& source_id, const std::atomic<bool>* cancelled = nullptr);
  int64_t unflushed_bytes() const;

  // For the receiver: the ledger says, durably, that frames count up to `end`. The flush takes none past it.
  void note_committed(SpoolPosition end);
  // What was appended past the committed end, synced or not, is given up: no ledger may ever count it any more, and no
  // append be under way.
  void abandon_uncommitted();

  // Segments that are begun from now on have numbers above `segment`: tables have markers up to there.
  void begin_above(int64_t segment);

  // For the flush, which holds the flush lock of this spool (P6.1).
  SpoolPosition progress() const;  // every partition has committed all before it
  // After rolling: frames before it are in closed, synced segments. While a receiver's frames wait for their commit,
  // the committed end.
  SpoolPosition end();
  // The synced frame that begins there, if it is still in memory; once.
  std::optional<FrameAt> take_held(SpoolPosition begin);
  // Once sources.json has the last positions of the segments wholly before `progress`, saves the progress, synced, and
  // then deletes them (P6.3).
  void advance(SpoolPosition progress);
  std::mutex& flush_mutex();

 private:
  friend class AtomicAppend;
  struct State;
  explicit Spool(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Frames that become durable and visible together or not at all: they are written as a segment of their own under a
// temporary name, and commit() gives it the next segment's name in one rename. A crash before that leaves a file that
// the next open() removes; no reader and no flush ever sees it. One thread; the spool must outlive it.
class AtomicAppend {
 public:
  explicit AtomicAppend(Spool& spool);
  ~AtomicAppend();  // without commit(): nothing happened
  void append(const Frame& frame);
  SpoolPosition commit();  // the end of the last frame; durable then

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace firn::hyp
