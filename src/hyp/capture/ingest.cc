#include "hyp/capture/ingest.h"

#include <fcntl.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/fault_point.h"
#include "base/hash.h"
#include "base/uri.h"
#include "base/uuid.h"
#include "hyp/capture/byte_stream.h"
#include "hyp/capture/intake.h"
#include "hyp/capture/line_blocks.h"
#include "hyp/capture/source_identity.h"

namespace firn::hyp {
namespace {

constexpr int kPipeWaitMs = 200;

void note_end(Intake& intake, FrameSink& sink, bool was_done) {
  if (!intake.source_id.empty() && !(was_done && intake.report.bytes == 0)) sink.append(intake.make_end_frame());
  fault_point("ingest.before_finish");
  sink.finish();
}

// Keeps the stream's first bytes.
class HeadStream : public ByteStream {
 public:
  explicit HeadStream(std::unique_ptr<ByteStream> stream) : stream_(std::move(stream)) {}

  Read read(char* to, size_t count_max) override {
    const Read read = stream_->read(to, count_max);
    head_.append(to, std::min(read.count, kHeadBytes - head_.size()));
    return read;
  }
  // "<n>-<SHA-256 of the first n bytes>"
  std::string fingerprint(size_t n) const { return fmt::format("{}-{}", n, to_hex(sha256(head_.substr(0, n)))); }

 private:
  std::unique_ptr<ByteStream> stream_;
  std::string head_;
};

// A stream's blocks. The first that lasts tells the stream from another one under the same id: its head goes into the
// id of the source.
class PipeBlocks : public BlockSource {
 public:
  PipeBlocks(LineBlocks& blocks, const HeadStream& stream, Intake& intake)
      : blocks_(blocks), stream_(stream), intake_(intake) {}

  std::optional<LineBlock> next() override {
    std::optional<LineBlock> block = blocks_.next();
    if (block && !intake_.source_id.empty() && intake_.position.bytes == 0 && !intake_.comes_again(*block)) {
      intake_.source_id += ":" + stream_.fingerprint(std::min(kHeadBytes, static_cast<size_t>(block->bytes)));
    }
    return block;
  }
  bool is_end() const override { return blocks_.is_end(); }

 private:
  LineBlocks& blocks_;
  const HeadStream& stream_;
  Intake& intake_;
};

// n of "<n>-<SHA-256>"; nullopt for another text, such as the rest of an id "<id>:…".
std::optional<size_t> head_bytes_of(std::string_view fingerprint) {
  size_t n = 0;
  const auto [end, error] = std::from_chars(fingerprint.data(), fingerprint.data() + fingerprint.size(), n);
  const bool is_one = error == std::errc() && end != fingerprint.data() + fingerprint.size() && *end == '-' &&
                      fingerprint.data() + fingerprint.size() - end == 1 + 64 && n <= kHeadBytes;
  return is_one ? std::optional(n) : std::nullopt;
}

// Moves `intake` to where the stream that its id names was left, if it was met before.
void find_pipe(const Spool& spool, Intake& intake) {
  const std::string prefix = intake.source_id + ":";
  // Under the bare id is what was taken before heads were kept, and what had no line yet.
  intake.position = spool.source_position(intake.source_id).value_or(SourcePosition{});
  if (intake.position.bytes > 0) return;
  for (const auto& [id, position] : spool.source_positions(prefix)) {
    if (position.bytes <= intake.position.bytes || !head_bytes_of(std::string_view(id).substr(prefix.size()))) continue;
    intake.source_id = id;
    intake.position = position;
  }
}

// A body's decompressed bytes: no more of them than may be, whatever the lines, and their digest.
class BodyStream : public ByteStream {
 public:
  BodyStream(std::unique_ptr<ByteStream> stream, std::string title, int64_t bytes_max)
      : stream_(std::move(stream)), title_(std::move(title)), bytes_max_(bytes_max) {}

  Read read(char* to, size_t count_max) override {
    const Read read = stream_->read(to, count_max);
    bytes_ += static_cast<int64_t>(read.count);
    if (bytes_ > bytes_max_) {
      fail(ErrorKind::invalid_argument, "{} is longer than {} bytes; send it in parts", title_, bytes_max_);
    }
    digest_.update({to, read.count});
    return read;
  }
  std::string digest() { return to_hex(digest_.finish()); }  // once, at the end

 private:
  std::unique_ptr<ByteStream> stream_;
  std::string title_;
  int64_t bytes_max_;
  int64_t bytes_ = 0;
  Sha256 digest_;
};

std::unique_ptr<BodyStream> open_body(std::string_view body, const std::string& title, const CaptureOptions& options) {
  return std::make_unique<BodyStream>(decompressed(read_memory(body), title), title, options.body_bytes_max);
}

std::string digest_of(std::string_view body, const std::string& title, const CaptureOptions& options) {
  const auto stream = open_body(body, title, options);
  std::vector<char> scratch(1 << 18);
  while (!stream->read(scratch.data(), scratch.size()).is_end) {
  }
  return stream->digest();
}

// The position of the body in the batch that its id names. Throws already_exists if that batch had another body.
SourcePosition batch_position(const Spool& spool, const std::string& prefix, const std::string& digest,
                              const std::string& title) {
  SourcePosition known;
  for (const auto& [id, position] : spool.source_positions(prefix)) {
    const std::string_view other = std::string_view(id).substr(prefix.size());
    if (other == digest) {
      known = position;
    } else if (other.size() == digest.size() && other.find(':') == std::string_view::npos) {  // not of an id "<id>:…"
      fail(ErrorKind::already_exists,
           "{}: its id was used before for another body, of {} lines; nothing of this one was taken: send it under an "
           "id of its own",
           title, position.lines);
    }
  }
  return known;
}

void check_no_array(const LineBlock& first, const std::string& title) {
  const size_t at = first.text.find_first_not_of(" \t\r\n");
  if (at != std::string::npos && first.text[at] == '[') {
    fail(ErrorKind::invalid_argument, "{} is a JSON array: send its rows as NDJSON, one object a line", title);
  }
}

}  // namespace

void check_file(const std::string& path) {
  const Descriptor fd = open_file(path);
  is_regular(fd.get(), path);
}

CaptureReport ingest_file(Spool& spool, const std::string& path, const CaptureOptions& options) {
  const Descriptor fd = open_file(path);
  if (!is_regular(fd.get(), path)) {
    ::fcntl(fd.get(), F_SETFL, 0);  // O_NONBLOCK was for the open alone
    return ingest_pipe(spool, fd.get(), options);
  }
  const FileSource source = identify_file(spool, options.dataset, fd.get(), path);
  Intake intake{.options = options, .dataset = options.dataset, .source = options.source, .source_id = source.id};
  intake.updated_after_ms = source.others_updated_ms;
  intake.torn_line = TornLine::left_unless_whole;
  const OpenedFile opened = open_source(fd.get(), path, source, intake);
  intake.report.lines_skipped = intake.position.lines;
  const bool was_done = intake.position.done;
  FrameSink sink(spool, options.atomic);
  BlocksAhead blocks(*opened.blocks);
  if (take(blocks, intake, sink, false)) {
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
    claim = spool.claim_source(intake.source_id, options.cancelled);
    intake.torn_line = TornLine::taken_again;
    find_pipe(spool, intake);
  }
  intake.report.lines_skipped = intake.position.lines;
  const bool was_done = intake.position.done;
  const std::string title = options.id.empty() ? "the input" : fmt::format("the input with id {}", options.id);
  HeadStream stream(decompressed(read_descriptor(fd, title, kPipeWaitMs), title));
  LineBlocks blocks(stream, options.row_bytes_max);
  if (!blocks.skip(intake.position.bytes)) {
    fail(ErrorKind::invalid_argument,
         "{} ends before byte {}, up to which it was taken before: it is another stream, or cut", title,
         intake.position.bytes);
  }
  const std::string_view known = std::string_view(intake.source_id).substr(intake.source_id.rfind(':') + 1);
  if (const auto n = head_bytes_of(known); intake.position.bytes > 0 && n && stream.fingerprint(*n) != known) {
    fail(
        ErrorKind::already_exists,
        "{} does not begin as what was taken under that id before: it is another stream. Nothing of it was taken; give "
        "it an id of its own",
        title);
  }
  FrameSink sink(spool, options.atomic);
  PipeBlocks named_blocks(blocks, stream, intake);
  if (take(named_blocks, intake, sink, !options.atomic)) {
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
    const std::string prefix =
        fmt::format("batch:{}:{}:{}:", options.dataset, encode_segment(options.source), batch_id);
    claim = spool.claim_source(prefix);
    const std::string digest = digest_of(body, title, options);
    intake.source_id = prefix + digest;
    intake.position = batch_position(spool, prefix, digest, title);
    intake.report.lines_skipped = intake.position.lines;
    if (intake.position.done) return intake.report;
  }
  const std::unique_ptr<BodyStream> stream = open_body(body, title, options);
  LineBlocks blocks(*stream, options.row_bytes_max);
  if (!blocks.skip(intake.position.bytes)) fail(ErrorKind::internal, "{} is shorter than its own position", title);
  std::vector<Frame> frames;
  const std::string row_batch_id = uuid_v7(now_ms());
  while (std::optional<LineBlock> block = blocks.next()) {
    if (intake.position.bytes == 0) check_no_array(*block, title);
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

}  // namespace firn::hyp
