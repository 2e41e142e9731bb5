#include "hyp/capture/ingest.h"

#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <set>

#include "base/clock.h"
#include "base/error.h"
#include "base/fault_point.h"
#include "base/uuid.h"
#include "hyp/capture/byte_stream.h"
#include "hyp/capture/json_scanner.h"
#include "hyp/capture/line_blocks.h"
#include "hyp/capture/source_identity.h"

namespace firn::hyp {
namespace {

constexpr int kPipeWaitMs = 200;
constexpr int64_t kPipeSyncUs = 500'000;
constexpr int64_t kProgressUs = 100'000;

bool is_cancelled(const CaptureOptions& options) {
  return options.cancelled != nullptr && options.cancelled->load(std::memory_order_relaxed);
}

// Where frames go: into the spool as they come, or all at once.
class FrameSink {
 public:
  FrameSink(Spool& spool, bool atomic) : spool_(spool), epoch_(spool.epoch()) {
    if (atomic) whole_ = std::make_unique<AtomicAppend>(spool);
  }
  bool is_atomic() const { return whole_ != nullptr; }
  void append(Frame frame) {
    if (whole_) {
      whole_->append(frame);
    } else {
      spool_.append_unsynced(std::move(frame), epoch_);
    }
  }
  // What was appended is durable after it; of an atomic sink, at the end alone.
  void sync() {
    if (!whole_) spool_.sync(epoch_);
  }
  void finish() {
    if (whole_) {
      whole_->commit();
    } else {
      spool_.sync(epoch_);
    }
  }

 private:
  Spool& spool_;
  int64_t epoch_;
  std::unique_ptr<AtomicAppend> whole_;
};

// A source on its way into frames.
struct Intake {
  const CaptureOptions& options;
  std::string dataset, source;
  std::string source_id;          // empty: not resumable
  SourcePosition position;        // after what was taken so far
  int64_t updated_after_ms = 0;   // positions are later than this, so that the last of a file's ids is told (P4.2)
  bool keeps_torn_line = false;   // pipes with an id: see ingest_pipe
  bool leaves_torn_line = false;  // followed files: a line without newline waits
  CaptureReport report;
  int64_t last_progress_us = 0;

  Frame make_frame(LineBlock block) {
    Frame frame;
    frame.dataset = dataset;
    frame.source = source;
    frame.source_id = source_id;
    frame.first_line = position.lines + 1;
    frame.batch_id = uuid_v7(now_ms());
    if (!(keeps_torn_line && block.is_unterminated && !is_complete_json(block.text))) {
      position.bytes += block.bytes;
      position.lines += block.lines;
    }
    position.done = false;
    position.updated_ms = std::max(now_ms(), updated_after_ms + 1);
    frame.position = position;
    frame.text = std::move(block.text);
    report.lines += block.rows;
    report.bytes += block.bytes;
    return frame;
  }

  // The source's end, without lines.
  Frame make_end_frame() {
    Frame frame = make_frame({});
    position.done = frame.position.done = true;
    return frame;
  }

  void show_progress() {
    if (!options.progress || steady_us() - last_progress_us < kProgressUs) return;
    last_progress_us = steady_us();
    options.progress(report);
  }
};

// Takes the stream's lines into `sink` until it ends (true) or the call is cancelled (false). What was taken is durable
// unless the sink is atomic. Damaged compression: the lines before it are, and then it throws.
bool take(LineBlocks& blocks, Intake& intake, FrameSink& sink, bool is_slow) {
  int64_t last_sync_us = steady_us();
  bool has_unsynced = false;
  try {
    while (!is_cancelled(intake.options)) {
      std::optional<LineBlock> block = blocks.next();
      if (block && block->is_unterminated && intake.leaves_torn_line) block.reset();
      if (block) {
        fault_point("ingest.before_frame");
        sink.append(intake.make_frame(std::move(*block)));
        has_unsynced = true;
        intake.show_progress();
      } else if (blocks.is_end()) {
        return true;
      }
      const bool is_due = !block || steady_us() - last_sync_us > kPipeSyncUs;
      if (is_slow && has_unsynced && is_due) {
        sink.sync();
        last_sync_us = steady_us();
        has_unsynced = false;
      }
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::corrupt || sink.is_atomic()) throw;
    sink.sync();
    fail(ErrorKind::corrupt, "{}; the lines up to line {} are kept", error.what(), intake.position.lines);
  }
  sink.sync();
  return false;
}

void note_end(Intake& intake, FrameSink& sink, bool was_done) {
  if (!intake.source_id.empty() && !(was_done && intake.report.bytes == 0)) sink.append(intake.make_end_frame());
  fault_point("ingest.before_finish");
  sink.finish();
}

Descriptor open_file(const std::string& path) {
  Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) fail_errno(errno, "open " + path);
  return fd;
}

bool is_regular(int fd, const std::string& path) {
  struct stat info;
  if (::fstat(fd, &info) != 0) fail_errno(errno, "stat " + path);
  if (S_ISDIR(info.st_mode)) fail(ErrorKind::invalid_argument, "{} is a directory: name the files in it", path);
  return S_ISREG(info.st_mode);
}

// At the intake's position; nullptr: a compressed stream that ends before it.
struct OpenedFile {
  std::unique_ptr<ByteStream> stream;
  std::unique_ptr<LineBlocks> blocks;
};
std::optional<OpenedFile> open_at_position(int fd, const std::string& path, const FileSource& source,
                                           const Intake& intake) {
  const int64_t offset = source.is_compressed ? 0 : intake.position.bytes;
  if (::lseek(fd, offset, SEEK_SET) < 0) fail_errno(errno, fmt::format("seek to byte {} of {}", offset, path));
  OpenedFile opened;
  opened.stream = read_descriptor(fd, path, -1);
  if (source.is_compressed) opened.stream = decompressed(std::move(opened.stream), path);
  opened.blocks = std::make_unique<LineBlocks>(*opened.stream, intake.options.row_bytes_max);
  if (source.is_compressed && !opened.blocks->skip(intake.position.bytes)) return std::nullopt;
  return opened;
}

OpenedFile open_source(int fd, const std::string& path, const FileSource& source, Intake& intake) {
  intake.position = source.position;
  if (auto opened = open_at_position(fd, path, source, intake)) return std::move(*opened);
  intake.position = {};  // shorter than what was taken of it: another file than then
  return std::move(*open_at_position(fd, path, source, intake));
}

CaptureReport follow_file(Spool& spool, const std::string& path, const std::string& dataset,
                          const std::string& source_name, int fd, FrameSink& sink, const CaptureOptions& options) {
  const FileSource source = identify_file(spool, dataset, fd, path);
  Intake intake{.options = options, .dataset = dataset, .source = source_name, .source_id = source.id};
  intake.updated_after_ms = source.others_updated_ms;
  intake.leaves_torn_line = true;
  if (!source.is_compressed && source.size_bytes == source.position.bytes) return intake.report;
  // To look at a compressed file is to decompress it, so that waits until it was written to.
  if (source.is_compressed && source.position.done && source.modified_ms < source.position.updated_ms)
    return intake.report;
  const OpenedFile opened = open_source(fd, path, source, intake);
  if (take(*opened.blocks, intake, sink, false) && source.is_compressed) sink.append(intake.make_end_frame());
  return intake.report;
}

}  // namespace

CaptureReport ingest_file(Spool& spool, const std::string& path, const CaptureOptions& options) {
  const Descriptor fd = open_file(path);
  if (!is_regular(fd.get(), path)) {
    ::fcntl(fd.get(), F_SETFL, 0);  // O_NONBLOCK was for the open alone
    return ingest_pipe(spool, fd.get(), options);
  }
  const FileSource source = identify_file(spool, options.dataset, fd.get(), path);
  Intake intake{.options = options, .dataset = options.dataset, .source = options.source, .source_id = source.id};
  intake.updated_after_ms = source.others_updated_ms;
  const OpenedFile opened = open_source(fd.get(), path, source, intake);
  intake.report.lines_skipped = intake.position.lines;
  const bool was_done = intake.position.done;
  FrameSink sink(spool, options.atomic);
  if (take(*opened.blocks, intake, sink, false)) {
    note_end(intake, sink, was_done);
  } else if (options.atomic) {
    fail(ErrorKind::cancelled, "{}: cancelled; nothing was taken", path);
  }
  return intake.report;
}

CaptureReport ingest_pipe(Spool& spool, int fd, const CaptureOptions& options) {
  Intake intake{.options = options, .dataset = options.dataset, .source = options.source, .source_id = {}};
  std::shared_ptr<void> claim;
  if (!options.id.empty()) {
    intake.source_id = fmt::format("pipe:{}:{}", options.dataset, options.id);
    claim = spool.claim_source(intake.source_id);
    intake.keeps_torn_line = true;
    intake.position = spool.source_position(intake.source_id).value_or(SourcePosition{});
  }
  intake.report.lines_skipped = intake.position.lines;
  const bool was_done = intake.position.done;
  const std::string title = options.id.empty() ? "the input" : fmt::format("the input with id {}", options.id);
  const std::unique_ptr<ByteStream> stream = decompressed(read_descriptor(fd, title, kPipeWaitMs), title);
  LineBlocks blocks(*stream, options.row_bytes_max);
  if (!blocks.skip(intake.position.bytes)) {
    fail(ErrorKind::invalid_argument,
         "{} ends before byte {}, up to which it was taken before: it is another stream, or cut", title,
         intake.position.bytes);
  }
  FrameSink sink(spool, options.atomic);
  if (take(blocks, intake, sink, !options.atomic)) {
    note_end(intake, sink, was_done);
  } else if (options.atomic) {
    fail(ErrorKind::cancelled, "{}: cancelled; nothing was taken", title);
  }
  return intake.report;
}

CaptureReport ingest_body(Spool& spool, std::string_view body, const std::string& batch_id,
                          const CaptureOptions& options) {
  Intake intake{.options = options, .dataset = options.dataset, .source = options.source, .source_id = {}};
  const std::string title = batch_id.empty() ? "the request's body" : fmt::format("the body of batch {}", batch_id);
  std::shared_ptr<void> claim;
  if (!batch_id.empty()) {
    intake.source_id = fmt::format("batch:{}:{}", options.dataset, batch_id);
    claim = spool.claim_source(intake.source_id);
    intake.position = spool.source_position(intake.source_id).value_or(SourcePosition{});
    intake.report.lines_skipped = intake.position.lines;
    if (intake.position.done) return intake.report;
  }
  const std::unique_ptr<ByteStream> stream = decompressed(read_memory(body), title);
  LineBlocks blocks(*stream, options.row_bytes_max);
  if (!blocks.skip(intake.position.bytes)) {
    fail(ErrorKind::invalid_argument, "{} is shorter than what was taken of it before", title);
  }
  std::vector<Frame> frames;
  const std::string row_batch_id = uuid_v7(now_ms());
  while (std::optional<LineBlock> block = blocks.next()) {
    if (intake.report.bytes + block->bytes > options.body_bytes_max) {
      fail(ErrorKind::invalid_argument, "{} is longer than {} bytes; send it in parts", title, options.body_bytes_max);
    }
    frames.push_back(intake.make_frame(std::move(*block)));
    frames.back().batch_id = row_batch_id;
  }
  if (!batch_id.empty()) {
    if (frames.empty()) frames.push_back(intake.make_end_frame());
    frames.back().position.done = true;
  }
  if (!frames.empty()) spool.append(frames);
  return intake.report;
}

FollowReport follow_files(Spool& spool, const CollectConfig& collect, const CaptureOptions& options) {
  FollowReport report;
  glob_t matches{};
  const int status = ::glob(collect.glob.c_str(), 0, nullptr, &matches);
  const std::unique_ptr<glob_t, void (*)(glob_t*)> owner(&matches, [](glob_t* g) { ::globfree(g); });
  if (status != 0 && status != GLOB_NOMATCH) {
    report.problems.push_back(fmt::format("{}: the pattern {} cannot be read", collect.name, collect.glob));
    return report;
  }
  std::set<std::pair<dev_t, ino_t>> seen;  // two names of one file
  FrameSink sink(spool, false);
  for (size_t i = 0; i < matches.gl_pathc && !is_cancelled(options); ++i) {
    const std::string path = matches.gl_pathv[i];
    try {
      const Descriptor fd = open_file(path);
      struct stat info;
      if (::fstat(fd.get(), &info) != 0) fail_errno(errno, "stat " + path);
      if (!S_ISREG(info.st_mode) || !seen.emplace(info.st_dev, info.st_ino).second) continue;
      const CaptureReport file = follow_file(spool, path, collect.dataset, collect.name, fd.get(), sink, options);
      report.total.lines += file.lines;
      report.total.bytes += file.bytes;
      if (options.progress) options.progress(report.total);
    } catch (const Error& error) {
      report.problems.push_back(fmt::format("{}: {}", collect.name, error.what()));
    }
  }
  if (report.total.bytes > 0) sink.finish();
  return report;
}

}  // namespace firn::hyp
