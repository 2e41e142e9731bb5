// A source's lines on their way into spooled frames: what files, pipes, bodies and followed files share.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "hyp/capture/byte_stream.h"
#include "hyp/capture/ingest.h"
#include "hyp/capture/line_blocks.h"
#include "hyp/capture/source_identity.h"

namespace firn::hyp {

bool is_cancelled(const CaptureOptions& options);

// Where frames go: into the spool as they come, or all at once. The spool must outlive it. One thread.
class FrameSink {
 public:
  FrameSink(Spool& spool, bool atomic);
  bool is_atomic() const { return whole_ != nullptr; }
  bool has_unsynced() const { return has_unsynced_; }
  void append(Frame frame);
  // What was appended is durable after it; of an atomic sink, at finish() alone.
  void sync();
  void finish();

 private:
  Spool& spool_;
  int64_t epoch_;
  std::unique_ptr<AtomicAppend> whole_;
  bool has_unsynced_ = false;
};

// What becomes of a last line without newline.
enum class TornLine : uint8_t {
  taken,              // it is a line
  taken_again,        // a line, but one that is no whole JSON value is taken again with the stream: pipes with an id
  left_unless_whole,  // one that is no whole JSON value waits for its rest: files
  left,               // it waits: followed files
};

struct Intake {
  const CaptureOptions& options;
  std::string dataset, source;
  std::string source_id;         // empty: not resumable
  SourcePosition position = {};  // after what was taken so far
  int64_t updated_after_ms = 0;  // positions are later than this, so that the last of a file's ids is told (P4.2)
  TornLine torn_line = TornLine::taken;
  CaptureReport report = {};
  int64_t last_progress_us = 0;

  Frame make_frame(LineBlock block);
  Frame make_position_frame();  // the position alone
  Frame make_end_frame();       // the source's end, without lines
  bool leaves(const LineBlock& block) const;
  bool comes_again(const LineBlock& block) const;  // is taken, and with the stream's next sending once more
  void show_progress();
};

// Takes the stream's lines into `sink` until it ends (true) or the call is cancelled (false). What was taken is durable
// unless the sink is atomic. `is_slow`: the stream is synced now and then, not only at its end. Damaged compression:
// the lines before it are kept, and then it throws.
bool take(BlockSource& blocks, Intake& intake, FrameSink& sink, bool is_slow);

Descriptor open_file(const std::string& path);  // throws not_found, io
// Throws invalid_argument for a folder.
bool is_regular(int fd, const std::string& path);

struct OpenedFile {
  std::unique_ptr<ByteStream> stream;
  std::unique_ptr<LineBlocks> blocks;
};
// At the intake's position; nullopt: a compressed stream that ends before it. `fd` and the intake must outlive it.
std::optional<OpenedFile> open_at_position(int fd, const std::string& path, bool is_compressed, const Intake& intake);
// Where the source was left; at its start if it is shorter than that.
OpenedFile open_source(int fd, const std::string& path, const FileSource& source, Intake& intake);

}  // namespace firn::hyp
