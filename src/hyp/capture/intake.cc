#include "hyp/capture/intake.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/clock.h"
#include "base/error.h"
#include "base/fault_point.h"
#include "base/uuid.h"
#include "hyp/capture/json_scanner.h"

namespace firn::hyp {
namespace {

constexpr int64_t kPipeSyncUs = 500'000;
constexpr int64_t kProgressUs = 100'000;

}  // namespace

bool is_cancelled(const CaptureOptions& options) {
  return options.cancelled != nullptr && options.cancelled->load(std::memory_order_relaxed);
}

FrameSink::FrameSink(Spool& spool, bool atomic) : spool_(spool), epoch_(spool.epoch()) {
  if (atomic) whole_ = std::make_unique<AtomicAppend>(spool);
}

void FrameSink::append(Frame frame) {
  if (whole_) {
    whole_->append(frame);
  } else {
    spool_.append_unsynced(std::move(frame), epoch_);
  }
  has_unsynced_ = true;
}

void FrameSink::sync() {
  if (whole_) return;
  spool_.sync(epoch_);
  has_unsynced_ = false;
}

void FrameSink::finish() {
  if (whole_) {
    whole_->commit();
  } else {
    spool_.sync(epoch_);
  }
  has_unsynced_ = false;
}

Frame Intake::make_frame(LineBlock block) {
  Frame frame;
  frame.dataset = dataset;
  frame.source = source;
  frame.source_id = source_id;
  frame.first_line = position.lines + 1;
  frame.batch_id = uuid_v7(now_ms());
  if (!comes_again(block)) {
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

Frame Intake::make_position_frame() {
  const bool was_done = position.done;
  Frame frame = make_frame({});
  position.done = frame.position.done = was_done;
  return frame;
}

Frame Intake::make_end_frame() {
  Frame frame = make_frame({});
  position.done = frame.position.done = true;
  return frame;
}

bool Intake::comes_again(const LineBlock& block) const {
  return torn_line == TornLine::taken_again && block.is_unterminated && !is_complete_json(block.text);
}

bool Intake::leaves(const LineBlock& block) const {
  if (!block.is_unterminated) return false;
  return torn_line == TornLine::left ||
         (torn_line == TornLine::left_unless_whole && block.rows > 0 && !is_complete_json(block.text));
}

void Intake::show_progress() {
  if (!options.progress || steady_us() - last_progress_us < kProgressUs) return;
  last_progress_us = steady_us();
  options.progress(report);
}

bool take(BlockSource& blocks, Intake& intake, FrameSink& sink, bool is_slow) {
  int64_t last_sync_us = steady_us();
  bool has_unsynced = false;
  try {
    while (!is_cancelled(intake.options)) {
      std::optional<LineBlock> block = blocks.next();
      if (block && intake.leaves(*block)) {
        intake.report.torn_bytes = block->bytes;
        block.reset();
      }
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
    const bool is_stop = error.kind() == ErrorKind::busy;  // progress() says that no more is to be taken
    if ((error.kind() != ErrorKind::corrupt && !is_stop) || sink.is_atomic()) throw;
    sink.sync();
    if (is_stop) throw;
    fail(ErrorKind::corrupt, "{}; the lines up to line {} are kept", error.what(), intake.position.lines);
  }
  sink.sync();
  return false;
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

std::optional<OpenedFile> open_at_position(int fd, const std::string& path, bool is_compressed, const Intake& intake) {
  const int64_t offset = is_compressed ? 0 : intake.position.bytes;
  if (::lseek(fd, offset, SEEK_SET) < 0) fail_errno(errno, fmt::format("seek to byte {} of {}", offset, path));
  OpenedFile opened;
  opened.stream = read_descriptor(fd, path, -1);
  if (is_compressed) opened.stream = decompressed(std::move(opened.stream), path);
  opened.blocks = std::make_unique<LineBlocks>(*opened.stream, intake.options.row_bytes_max);
  if (is_compressed && !opened.blocks->skip(intake.position.bytes)) return std::nullopt;
  return opened;
}

OpenedFile open_source(int fd, const std::string& path, const FileSource& source, Intake& intake) {
  intake.position = source.position;
  if (auto opened = open_at_position(fd, path, source.is_compressed, intake)) return std::move(*opened);
  intake.position = {};  // shorter than what was taken of it: another file than then
  return std::move(*open_at_position(fd, path, source.is_compressed, intake));
}

}  // namespace firn::hyp
